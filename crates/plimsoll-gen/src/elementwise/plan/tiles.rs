//! Transposed tensors: tiles pass through shared memory.

use plimsoll_expr::Graph;

use super::coordinates::{Sets, inner};
use super::division::Divisor;
use super::fold::{Tiled, is_transposed, longest_line};
use super::shape::Shape;
use super::tensors::Tensor;
use super::tile_size::{TileSize, line, tiles};
use super::{Choose, Device, Tensors, dense, joined, shear};
use crate::elementwise::spec::{Form, Stream};

/// Static shared memory per block that every device supports, bytes.
pub const MOST_SHARED: u64 = 48 << 10;
/// Fewest elements of a tile that are worth its barrier.
const LEAST_TILE: u64 = 128;

/// The dimension along which transposed inputs are contiguous; `None` if no input is transposed.
pub fn transposed_dimension(tensors: &Tensors) -> Option<usize> {
    let last = tensors.extents.len().checked_sub(1)?;
    let runs_along = |tensor: &Tensor| (0..last).find(|&d| tensors.extents[d] > 1 && is_transposed(tensor, d));
    tensors.all.iter().find_map(runs_along)
}

/// The shape with transposed tiles; `None` if no input is transposed relative to the outputs.
pub fn transpose(graph: &Graph, tensors: &Tensors, device: &Device, choose: &Choose, heavy: bool) -> Option<Shape> {
    let dimension = transposed_dimension(tensors)?;
    let last = tensors.extents.len() - 1;
    let outputs_are_rows = tensors.all.iter().filter(|tensor| tensor.output).all(|output| output.strides[last] == 1);
    if graph.depends_on_place() || !outputs_are_rows {
        return None;
    }
    let (tiled, tile) = tiled(tensors, dimension, device, (choose, heavy))?;
    let TileSize { rows, columns, lanes, shear, threads, joined, .. } = tile;
    let extents = &tiled.extents;
    let last = extents.len() - 1;
    if extents[last - 1].min(rows.into()) * extents[last].min(columns.into()) < LEAST_TILE {
        return None;
    }
    let (streams, sets) = streams(&tiled, &tile, device.target.widest_access());
    let tiles = tiles((rows, columns), extents, shear);
    let batches = extents[..last - 1].iter();
    let blocks = batches.clone().chain(&tiles).try_fold(1_u64, |product, &extent| product.checked_mul(extent))?;
    if blocks >= 1 << 31 {
        return None;
    }
    let mut words = vec![extents[last - 1], extents[last]];
    for divisor in [&tiles[1], &tiles[0]].into_iter().chain(batches) {
        words.extend(Divisor::small(*divisor).words());
    }
    words.extend(sets.strides.iter().flatten().map(|&stride| stride as u64));
    // A sheared tile may begin behind the last column.
    let reach = extents.iter().map(|extent| extent.saturating_add(u64::from(shear) + u64::from(columns)));
    let why = format!(
        "an input is contiguous along dimension {dimension}, the outputs along the last: tiles of {rows} × {columns}{}",
        match tiled.folds {
            [0, 0] => "",
            [_, 0] => ", rows along two dimensions",
            [0, _] => ", columns along two dimensions",
            _ => ", rows and columns along two dimensions each",
        }
    );
    Some(Shape {
        streams,
        lanes,
        unroll: if joined { (rows * columns / lanes).div_ceil(threads) } else { columns / lanes },
        rows,
        fits: [(last - 1, rows), (last, columns)]
            .map(|(place, side)| extents[place].is_multiple_of(side.into()) && (shear == 0 || place < last)),
        shear,
        joined: if joined { columns } else { 0 },
        folds: tiled.folds,
        threads,
        rank: extents.len() as u32,
        sets: sets.strides.len() as u32,
        whole_rows: !joined,
        small: sets.strides.iter().flatten().all(|stride| i32::try_from(*stride).is_ok())
            && reach.max() <= Some(i32::MAX as u64),
        blocks,
        words,
        ..Shape::new_empty(Form::Transpose, why)
    })
}

/// The dimensions of tiles along `dimension` and the last one, and their size, with folded lines of inputs where these gain.
fn tiled(
    tensors: &Tensors,
    dimension: usize,
    device: &Device,
    (choose, heavy): (&Choose, bool),
) -> Option<(Tiled, TileSize)> {
    let up_to = |longest| {
        let tiled = Tiled::new(tensors, dimension, longest);
        TileSize::new(&tiled, device, choose, heavy).map(|tile| (tiled, tile))
    };
    let unfolded = up_to(0).map(|(_, tile)| tile);
    let folded = up_to(longest_line(tensors, dimension, unfolded.as_ref()))?;
    // Folded, there may be too few tiles to shear them.
    let loses_shear = folded.1.shear == 0 && unfolded.is_some_and(|tile| tile.shear > 0);
    if loses_shear { up_to(longest_line(tensors, dimension, None)) } else { Some(folded) }
}

/// How each tensor is addressed, and the distinct sets of strides.
fn streams(tiled: &Tiled, tile: &TileSize, widest: u32) -> (Vec<Stream>, Sets) {
    let Tiled { all, extents, transposed, strides, .. } = tiled;
    let mut sets = Sets::new();
    let stream = |(k, tensor): (usize, &Tensor)| match tensor {
        tensor if !tensor.used => Stream::Unused,
        tensor if tensor.uniform => Stream::Uniform,
        tensor if transposed[k] => {
            let set = sets.index_of(&strides[k]);
            match tile
                .dense
                .then(|| dense::vector(tensor, extents, (tile.rows, tile.columns, tile.lanes), widest))
                .flatten()
            {
                Some(vector) => Stream::Dense { set, vector: vector as u8 },
                None => {
                    let together = if tile.joined { 1 } else { tile.lanes };
                    Stream::Transposed { set, line: line(tensor, extents, (tile.rows, together), widest) as u8 }
                }
            }
        }
        tensor => {
            let inner = match tile.shear {
                _ if tile.joined => joined::inner(tensor),
                0 => inner(tensor, extents, tile.lanes, widest),
                _ => shear::inner(tiled, k, tile.lanes),
            };
            Stream::Indexed { set: sets.index_of(&strides[k]), inner }
        }
    };
    (all.iter().enumerate().map(stream).collect(), sets)
}

#[cfg(test)]
mod tests {
    use super::super::tests::planned;
    use super::*;
    use crate::elementwise::KernelSpec;
    use crate::kernel::Index;

    /// The kernel of a sum of `count` transposed inputs of a type, whose outputs of another have this shape.
    fn sum(count: usize, from: &str, to: &str, shape: [u64; 2]) -> KernelSpec {
        let names: Vec<String> = (0..count).map(|k| format!("x{k}")).collect();
        let inputs: Vec<String> = names.iter().map(|name| format!("{name}: {from}")).collect();
        let text = format!("in {}\ny: {to} = {}", inputs.join(", "), names.join(" + "));
        let [rows, columns] = shape.map(|extent| extent as i64);
        let (across, along) = ([1, rows], [columns, 1]);
        let mut tensors: Vec<(&[i64], u64)> = vec![(&across, 0); count];
        tensors.push((&along, 0));
        planned(&text, &shape, &tensors, 90, &Choose::default()).unwrap().spec
    }

    /// Bytes of `shared…` in transpose.h.
    fn shared(spec: &KernelSpec) -> u32 {
        let bytes = |(stream, bytes): (&Stream, u32)| {
            if matches!(stream, Stream::Dense { .. }) {
                return super::dense::shared_bytes(bytes, (spec.rows, spec.unroll * spec.lanes, spec.lanes)) as u32;
            }
            if spec.joined > 0 && matches!(stream, Stream::Transposed { .. }) {
                return spec.rows * spec.joined * bytes;
            }
            let &Stream::Transposed { line, .. } = stream else { return 0 };
            let (line, vector) = (u32::from(line), (spec.lanes * bytes).min(16));
            let width = spec.unroll + spec.shear / spec.lanes;
            let (bank, banks) = (if vector < 4 { 4 / vector } else { 1 }, 128 / vector);
            let at_once = banks.min(32) / (spec.rows / line).next_power_of_two().min(32).min(banks);
            let apart = at_once.max(bank);
            let gap = apart.wrapping_sub(line * width) & (2 * apart - 1);
            (spec.rows * width + spec.rows / line * gap + u32::from(spec.shear > 0)) * spec.lanes * bytes
        };
        spec.streams.iter().zip(spec.element_bytes()).map(bytes).sum()
    }

    #[test]
    fn tiles_fit_into_shared_memory_however_many_inputs_and_however_short_the_rows() {
        let mut tiles = 0;
        for types in [
            ("f32", "f32"),
            ("f64", "f64"),
            ("bf16", "bf16"),
            ("f64", "bf16"),
            ("u8", "u8"),
            ("u8", "f64"),
            ("f32", "bf16"),
            ("f32", "u8"),
        ] {
            for count in [1, 2, 3, 7, 23] {
                for shape in
                    [[300_004, 4], [100_002, 2], [300_008, 8], [300_008, 6], [300_008, 3], [8193, 8193], [37, 500_003]]
                {
                    let spec = sum(count, types.0, types.1, shape);
                    assert!(
                        u64::from(shared(&spec)) <= MOST_SHARED,
                        "{count} × {types:?}, {shape:?}: {}",
                        shared(&spec)
                    );
                    tiles += usize::from(spec.form == Form::Transpose);
                }
            }
        }
        assert!(tiles > 150, "{tiles}");
    }

    #[test]
    fn vectors_are_one_access_to_the_widest_tensor_and_rows_between_sectors_are_long() {
        let size = |from, to, shape| {
            let spec = sum(1, from, to, shape);
            (spec.form, spec.lanes, spec.rows, spec.unroll * spec.lanes)
        };
        assert_eq!(size("bf16", "f32", [8192, 8192]), (Form::Transpose, 4, 128, 128));
        assert_eq!(size("u8", "f64", [8192, 8192]), (Form::Transpose, 2, 128, 128));
        assert_eq!(size("bf16", "bf16", [8192, 8192]), (Form::Transpose, 8, 128, 128));
        // Rows are too short for sheared tiles.
        assert_eq!(size("bf16", "bf16", [100_000, 1020]), (Form::Transpose, 4, 32, 256));
        assert_eq!(size("f32", "f32", [100_000, 501]), (Form::Transpose, 1, 64, 128));
        // Rows a little longer than a tile are whole.
        assert_eq!(size("f32", "f32", [400_000, 80]), (Form::Transpose, 4, 64, 80));
        assert_eq!(size("f32", "f32", [400_000, 88]), (Form::Transpose, 4, 64, 48));
        // Single bytes and few tiles gain nothing.
        assert_eq!(size("u8", "u8", [100_000, 1001]), (Form::Transpose, 1, 64, 64));
        assert_eq!(size("bf16", "bf16", [1024, 1028]), (Form::Transpose, 4, 32, 32));
    }

    #[test]
    fn long_rows_between_sectors_have_sheared_tiles_with_whole_vectors() {
        let size = |from, to, shape| {
            let spec = sum(1, from, to, shape);
            assert_eq!((spec.unroll * spec.lanes) % spec.shear.max(1), 0);
            (spec.lanes, spec.shear, spec.rows, spec.unroll * spec.lanes)
        };
        assert_eq!(size("f32", "f32", [8192, 8193]), (4, 16, 64, 64));
        assert_eq!(size("bf16", "bf16", [8192, 8195]), (8, 32, 64, 128));
        assert_eq!(size("f64", "f64", [8192, 8193]), (2, 8, 32, 64));
        assert_eq!(size("bf16", "f32", [8192, 8193]), (4, 16, 64, 64));
        assert_eq!(size("u8", "u8", [8192, 8193]), (8, 32, 128, 128));
        // Outputs narrower than the inputs, up to four bytes.
        assert_eq!(size("f32", "bf16", [8192, 8195]), (4, 32, 64, 128));
        assert_eq!(size("f64", "bf16", [8192, 8195]), (2, 32, 32, 64));
        // Few lines: tiles are as much longer.
        assert_eq!(size("bf16", "bf16", [29, 600_415]), (8, 32, 32, 256));
        // Whole sectors, and few tiles.
        assert_eq!(size("f32", "f32", [8192, 8200]), (4, 0, 64, 64));
        assert_eq!(size("f32", "f32", [1024, 1025]), (1, 0, 32, 32));
    }

    #[test]
    fn rows_shorter_than_that_are_joined_if_vectors_are_much_longer() {
        let size = |from, to, shape| {
            let spec = sum(1, from, to, shape);
            (spec.joined > 0).then_some((spec.rows, spec.joined, spec.lanes))
        };
        // Lines of 128 bytes where the tile has at most 32 KiB, else of 64 and at least 32 elements; many short rows.
        assert_eq!(size("bf16", "f32", [290_454, 245]), Some((64, 245, 4)));
        assert_eq!(size("bf16", "bf16", [211_304, 294]), Some((48, 294, 8)));
        assert_eq!(size("f32", "f32", [111_424, 239]), Some((32, 239, 4)));
        assert_eq!(size("f32", "f32", [111_424, 381]), Some((32, 381, 4)));
        assert_eq!(size("u8", "u8", [178_016, 670]), Some((64, 670, 8)));
        assert_eq!(size("u8", "u8", [32_927_776, 3]), Some((3408, 3, 8)));
        // Too wide, vectors of half as many elements, sheared tiles, and few rows.
        assert_eq!(size("f32", "f32", [111_424, 389]), None);
        assert_eq!(size("bf16", "bf16", [211_304, 292]), None);
        assert_eq!(size("f64", "f64", [211_304, 37]), None);
        assert_eq!(size("bf16", "bf16", [100_000, 1025]), None);
        assert_eq!(size("bf16", "bf16", [17, 291]), None);
    }

    #[test]
    fn short_lines_without_gaps_are_loaded_as_one_piece_of_memory() {
        let size = |from, to, shape| {
            let spec = sum(1, from, to, shape);
            let columns = spec.unroll * spec.lanes;
            match spec.streams[0] {
                Stream::Dense { vector, .. } => Some((spec.rows, columns, vector)),
                _ => None,
            }
        };
        assert_eq!(size("bf16", "bf16", [22, 161_792]), Some((22, 64, 8)));
        assert_eq!(size("f32", "f32", [13, 300_416]), Some((13, 64, 4)));
        assert_eq!(size("f64", "f64", [27, 62_672]), Some((27, 64, 2)));
        assert_eq!(size("u8", "bf16", [6, 1_000_000]), Some((6, 256, 16)));
        // Few tiles are small.
        assert_eq!(size("f32", "f32", [37, 8192]), Some((37, 32, 4)));
        // Lines with vectors half as long, long lines, and ends of rows that aren't whole vectors.
        assert_eq!(size("bf16", "bf16", [52, 161_792]), None);
        assert_eq!(size("f32", "f32", [189, 49_152]), None);
        assert_eq!(size("f32", "f32", [13, 300_415]), None);
    }

    #[test]
    fn lines_of_inputs_are_folded_as_far_as_their_tiles_gain() {
        // Elements of folded lines of `y` in `x + y`, whose dimensions are in the opposite order, with rows of the outputs this far apart.
        let fold = |dtype: &str, [a, b, n]: [i64; 3], pitch: i64| {
            let text = format!("in x: {dtype}, y: {dtype}\nz: {dtype} = x + y");
            let (along, across) = ([b * pitch, pitch, 1], [1, a, a * b]);
            let tensors: [(&[i64], u64); 3] = [(&along, 0), (&across, 0), (&along, 0)];
            planned(&text, &[a, b, n].map(|extent| extent as u64), &tensors, 90, &Choose::default()).unwrap().spec.folds
                [0]
        };
        let long = |dtype, n: i64, pitch| [9, 31, 100, 255, 256].map(|a| fold(dtype, [a, 70_000 / a, n], pitch));
        assert_eq!(long("f32", 1024, 1024), [9, 31, 100, 255, 0]);
        assert_eq!(long("u8", 1024, 1024), [9, 31, 100, 255, 0]);
        // Sheared, with rows between sectors or with ends that aren't whole vectors.
        assert_eq!(long("f32", 1025, 1025), [9, 31, 0, 0, 0]);
        assert_eq!(long("f32", 1023, 1024), [9, 31, 0, 0, 0]);
        // Neither: too short for sheared tiles, too few tiles for them, and vectors of two bytes.
        assert_eq!([7, 8, 9].map(|a| fold("f32", [a, 10_000, 101], 101)), [7, 8, 0]);
        assert_eq!([8, 15].map(|a| fold("u8", [a, 900, 1031], 1031)), [8, 0]);
        assert_eq!([8, 15].map(|a| fold("u8", [a, 9000, 638], 640)), [8, 0]);
    }

    #[test]
    fn few_tiles_have_one_vector_per_thread() {
        let threads = |dtype, shape: [u64; 2]| {
            let spec = sum(1, dtype, dtype, shape);
            (spec.rows, spec.unroll * spec.lanes, spec.threads)
        };
        assert_eq!(threads("f32", [512, 512]), (32, 32, 256));
        assert_eq!(threads("f64", [304, 400]), (32, 32, 256));
        assert_eq!(threads("bf16", [300, 1000]), (32, 32, 128));
        assert_eq!(threads("f32", [8192, 8192]), (64, 64, 256));
    }

    #[test]
    fn single_elements_have_smaller_tiles_and_more_threads() {
        let size = |from, to, shape| {
            let spec = sum(1, from, to, shape);
            let Stream::Transposed { line, .. } = spec.streams[0] else { panic!("{spec:?}") };
            (line, spec.rows, spec.unroll * spec.lanes, spec.threads)
        };
        assert_eq!(size("u8", "bf16", [14_708, 768]), (4, 128, 128, 256));
        assert_eq!(size("u8", "bf16", [14_707, 768]), (1, 64, 64, 256));
        assert_eq!(size("bf16", "bf16", [3697, 768]), (1, 32, 32, 128));
        // Many tiles.
        assert_eq!(size("bf16", "bf16", [28_403, 2048]), (1, 128, 128, 256));
        assert_eq!(size("f64", "i8", [4223, 1792]), (1, 64, 32, 256));
        assert_eq!(size("bf16", "i8", [28_403, 2048]), (1, 64, 64, 256));
        // Outputs in single elements, of inputs whose lines then still fill sectors.
        assert_eq!(size("f32", "bf16", [2720, 1023]), (4, 32, 64, 256));
        assert_eq!(size("u8", "u8", [100_000, 1001]), (16, 64, 64, 256));
        // Few tiles.
        assert_eq!(size("f32", "bf16", [1024, 1023]), (4, 32, 32, 128));
    }

    #[test]
    fn heavy_work_on_wide_elements_has_small_tiles_that_are_not_sheared() {
        let size = |dtype: &str, text: &str| {
            let text = format!("in x: {dtype}\ny: {dtype} = {text}");
            let tensors: [(&[i64], u64); 2] = [(&[1, 8192], 0), (&[8193, 1], 0)];
            let spec = planned(&text, &[8192, 8193], &tensors, 90, &Choose::default()).unwrap().spec;
            (spec.shear, spec.rows, spec.unroll * spec.lanes)
        };
        assert_eq!(size("f32", "x + 1"), (16, 64, 64));
        assert_eq!(size("f32", "erf(erf(erf(x)))"), (0, 32, 32));
        assert_eq!(size("f64", "erf(erf(erf(x)))"), (0, 32, 32));
        // Narrow elements have sheared tiles as for other work.
        assert_eq!(size("bf16", "erf(erf(erf(x)))").0, 32);
    }

    #[test]
    fn tiles_behind_the_last_column_have_indices_that_hold_them() {
        let size = |columns: i64| {
            let shape = [2, columns as u64];
            let tensors: [(&[i64], u64); 2] = [(&[1, 2], 0), (&[columns, 1], 0)];
            planned("in x: u8\ny: u8 = x + 1", &shape, &tensors, 90, &Choose::default()).unwrap().spec
        };
        let long = size(i64::from(i32::MAX));
        assert!(long.shear > 0 && long.index == Index::U64, "{long:?}");
        assert_eq!(size(1 << 30 | 1).index, Index::U32);
    }
}
