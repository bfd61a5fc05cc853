//! Sizes of the tiles of transposed tensors, and how a block processes them.

use super::coordinates::takes_vectors;
use super::dense;
use super::fold::Tiled;
use super::joined;
use super::shear::{Shear, splits_sectors};
use super::tensors::Tensor;
use super::tiles::MOST_SHARED;
use super::{Choose, Device};
use crate::elementwise::spec::Form;

/// Most elements along the longer side of a tile whose other side is short.
const MOST_SIDE: u32 = 1024;
/// Limits on the threads of a transposing block.
const TRANSPOSE_THREADS: std::ops::RangeInclusive<u32> = 64..=256;

/// Most elements of a vector, at most 8: 16 bytes of the widest tensor, unless forced. With two accesses to a vector, each would fill half of a
/// sector: a transposed bf16 matrix to f32 took an H200 90 µs in vectors of 8 elements and 70 µs in vectors of 4.
fn most_lanes((narrowest, widest): (u32, u32), device: &Device, choose: &Choose) -> u32 {
    let most = device.target.widest_access().min(16).min(8 * narrowest);
    choose.vector.map_or((most / narrowest).min(16 / widest), |forced| forced / narrowest).max(1)
}

/// Fewest elements to which a side is shortened for more blocks: rows of tiles then still fill whole sectors.
const LEAST_SIDE: u32 = 32;
/// Side of tiles whose lines have no vectors: a thread has eight elements or more, which share the cost of finding the tile.
const SINGLE_SIDE: u32 = 64;
/// Blocks per SM for which tiles are made smaller, also if outputs are stored or all lines loaded in single elements.
const BLOCKS: u64 = 4;
const OUTPUT_BLOCKS: u64 = 8;
const LINE_BLOCKS: u64 = 10;

/// Tiles along the second fastest and the fastest dimension. Sheared tiles also cover what rows begin earlier.
pub fn tiles((rows, columns): (u32, u32), extents: &[u64], shear: u32) -> [u64; 2] {
    let [along, across] = [extents[extents.len() - 2], extents[extents.len() - 1]];
    [along.div_ceil(rows.into()), across.saturating_add(shear.saturating_sub(1).into()).div_ceil(columns.into())]
}

fn blocks(sides: (u32, u32), extents: &[u64]) -> u64 {
    let batches = extents[..extents.len() - 2].iter().copied();
    batches.chain(tiles(sides, extents, 0)).fold(1_u64, u64::saturating_mul)
}

/// Rows and columns of smaller tiles for narrow vectors, whose threads would have too many of them, and for tensors that few tiles cover. With
/// sides of 128, a transposed f16 matrix of 351 × 776 had 21 blocks whose threads read 64 elements, and took an H200 ten times as long
/// as a flat one.
///
/// Single elements take many instructions before or after the barrier, which only other blocks can fill. Lines in single elements: i8 of 1024 × 5315
/// to f16 took 7.3 µs in tiles of 128 × 128, 6.4 in 64 × 64 and 6.1 in 32 × 32; f64 of 4224 × 1763 to i8 22.8 in 64 × 64 and 18.5 in 64 × 32.
/// Outputs in single elements: f32 of 2305 × 2720 to bf16 took 11.5 in 64 × 64 and 10.6 in 32 × 64.
fn smaller_sides(
    side: u32,
    (lanes, narrowest): (u32, u32),
    single: Option<Single>,
    extents: &[u64],
    device: &Device,
) -> (u32, u32) {
    let most = SINGLE_SIDE.max(LEAST_SIDE * lanes * if narrowest == 1 { 2 } else { 1 });
    let least = LEAST_SIDE.max(4 * lanes);
    let side = side.min(most.next_power_of_two().max(least));
    let half = |side: u32| (side / 2).max(least);
    let (mut rows, mut columns) = match single {
        Some(Single::Outputs) => (side.min(LEAST_SIDE), side.min(SINGLE_SIDE)),
        Some(Single::WideLines) => (side.min(SINGLE_SIDE), side.min(least)),
        Some(Single::Lines) if narrowest == 1 => (side.min(SINGLE_SIDE), side.min(SINGLE_SIDE)),
        _ => (side, side),
    };
    let enough = match single {
        None => BLOCKS,
        Some(Single::Outputs) => OUTPUT_BLOCKS,
        Some(Single::Lines | Single::WideLines) => LINE_BLOCKS,
    } * u64::from(device.multiprocessors);
    let sides = |rows: u32, columns: u32| rows_and_columns((rows, columns), lanes, extents);
    while rows.max(columns) > least && blocks(sides(rows, columns), extents) < enough {
        (rows, columns) = (half(rows), half(columns));
    }
    sides(rows, columns)
}

/// What is moved in single elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Single {
    /// The outputs, and shorter lines of the inputs would still fill several sectors.
    Outputs,
    /// The lines of all transposed inputs.
    Lines,
    /// Lines of elements of four bytes or more, and another tensor has narrower ones.
    WideLines,
}

impl Single {
    /// `None` for vectors. `lanes`: elements of a vector of the outputs; `narrowest`: bytes of an element.
    fn new(
        transposed: &[&Tensor],
        lines_are_single: bool,
        (lanes, narrowest): (u32, u32),
        extents: &[u64],
    ) -> Option<Self> {
        let have = |least: u32| transposed.iter().all(|tensor| tensor.bytes >= least);
        match lanes {
            1 => (have(2) && extents[extents.len() - 2] >= LEAST_SIDE.into()).then_some(Self::Outputs),
            _ if !lines_are_single => None,
            _ if have(REGISTER.max(2 * narrowest)) => Some(Self::WideLines),
            _ => Some(Self::Lines),
        }
    }
}

/// Bytes of the rows of a tile if the outputs' rows don't begin at sectors.
const LONG_ROW: u32 = 512;
/// Most elements of such a tile.
const LONG_AREA: u32 = 8192;
/// Bytes of a register.
const REGISTER: u32 = 4;
/// Most bytes of registers that a thread of such a tile holds inputs in.
const MOST_HELD: u32 = 256;

/// Rows and columns of tiles with long rows, for large tensors if the outputs' rows don't begin at sectors: two blocks then write parts of the
/// same sector, which is slow. On an H200, two bf16 outputs with rows of 22,392 bytes took 233 µs in tiles of 64 × 64, 193 in 128 × 128
/// and 158 in 32 × 256, and two f64 outputs with rows of 501,400 bytes 204 µs in tiles of 32 × 32 and 181 in 64 × 64. Single bytes don't gain.
/// Loads that don't fill a register take too many of them: a bf16 input of 29 × 600,415 took 35 µs in tiles of 29 × 256, and 30 in 29 × 136.
fn with_long_rows(all: &[Tensor], lanes: u32, extents: &[u64], device: &Device) -> Option<(u32, u32)> {
    if inputs(all).any(|tensor| tensor.bytes * lanes < REGISTER) {
        return None;
    }
    let split = all.iter().filter(|tensor| tensor.output && splits_sectors(tensor, extents));
    let bytes = split.map(|output| output.bytes).min()?;
    let columns = LONG_ROW / bytes;
    let held = inputs(all).map(|tensor| tensor.bytes).sum::<u32>();
    let area = LONG_AREA.min(1 << (MOST_HELD * *TRANSPOSE_THREADS.end() / held.max(1)).max(1).ilog2());
    if area / columns < LEAST_SIDE {
        return None;
    }
    let (rows, columns) = rows_and_columns((area / columns, columns), lanes, extents);
    let full = blocks((rows, columns), extents) >= FULL * u64::from(device.multiprocessors);
    (bytes > 1 && full).then_some((rows, columns))
}

/// Bytes of the widest tensor in a sheared tile. On an H100, bf16 inputs of 29 and of 40 rows took 34.8 and 211 µs in tiles of twice as many,
/// and 28.0 and 182 in these.
const SHEARED_BYTES: u32 = 16 << 10;

/// Fewest columns of a sheared tile, in units of the distance by which its rows begin earlier at most, because inputs are loaded for as many more.
/// A transposed f32 matrix to bf16 took an H200 240 µs in tiles of 64 × 64 and 179 in 64 × 128. f64 ones took 158 in 32 × 64 and 203 in 32 × 128.
const LEAST_DISTANCES: u32 = 4;
const WIDEST_IN_LONG_TILES: u32 = 4;

/// Rows and columns of sheared tiles; `None` if they wouldn't fill the device.
fn sheared_sides(all: &[Tensor], shear: Shear, extents: &[u64], device: &Device) -> Option<(u32, u32)> {
    let widest = all.iter().filter(|tensor| tensor.used && !tensor.uniform).map(|tensor| tensor.bytes).max()?;
    let area = SHEARED_BYTES / widest;
    let rows = 1 << (area.ilog2() / 2);
    let least = if widest > WIDEST_IN_LONG_TILES { 0 } else { LEAST_DISTANCES * shear.elements };
    let (rows, columns) = rows_and_columns((rows, (area / rows).max(least)), shear.lanes, extents);
    let sides = (rows, columns.next_multiple_of(shear.elements));
    (blocks(sides, extents) >= FULL * u64::from(device.multiprocessors)).then_some(sides)
}

/// Columns of tiles of dense lines, and fewest bytes of an input in such a tile. On an H200, bf16 inputs with lines of 22 elements took 4.8 µs in
/// tiles of 32 and 64 columns, and 5.0 in 256; f32 ones with lines of 13 took 12.5 µs in 64 and 12.8 in 128; bytes with lines of 6
/// took 6.2 µs in 256 and 6.7 in 128.
const DENSE_COLUMNS: u32 = 64;
const DENSE_BYTES: u32 = 1536;
/// Fewest elements of a dense tile, where few tiles cover the tensors.
const DENSE_AREA: u32 = 128;

/// Rows and columns of tiles of whole lines, if tiles with these rows have whole lines and some inputs gain by being loaded as pieces of memory.
fn dense_sides(
    transposed: &[&Tensor],
    extents: &[u64],
    (rows, lanes): (u32, u32),
    device: &Device,
) -> Option<(u32, u32)> {
    let length =
        u32::try_from(extents[extents.len() - 2]).ok().filter(|length| (1..=rows.max(SINGLE_SIDE)).contains(length))?;
    let narrowest = transposed.iter().map(|tensor| tensor.bytes).min()?;
    let mut columns = DENSE_COLUMNS.max(DENSE_BYTES.div_ceil(length * narrowest).next_power_of_two()).min(MOST_SIDE);
    let few = |columns: u32| blocks((length, columns), extents) < BLOCKS * u64::from(device.multiprocessors);
    while columns > LEAST_SIDE.max(2 * DENSE_AREA / length) && few(columns) {
        columns /= 2;
    }
    let tile = (length, columns, lanes);
    let gains = |tensor: &&&Tensor| dense::vector(tensor, extents, tile, device.target.widest_access()).is_some();
    let bytes = |tensor: &&Tensor| {
        let lines = shared_bytes(&[*tensor], lanes, (length.into(), columns.into()));
        dense::shared_bytes(tensor.bytes, tile).max(lines)
    };
    let fits = transposed.iter().map(bytes).sum::<u64>() <= MOST_SHARED;
    (fits && transposed.iter().any(|tensor| gains(&tensor))).then_some((length, columns))
}

/// Rows and columns of tiles for heavy work if all elements have four bytes or more, instead of sheared and other tiles of many lines: threads compute
/// between loads and stores, so other blocks must load meanwhile, and instructions matter more than sectors. On an H200, `erf(x)*tanh(y) + log(abs(y) + 1)` of f32 took 32.9 µs in sheared
/// tiles, 32.3 in 64 × 64 and 31.6 in 32 × 32; `tanh(x) + erf(y)` of f64 33.4, 35.2 and 29.8.
const HEAVY_SIDES: (u32, u32) = (LEAST_SIDE, LEAST_SIDE);

/// The inputs that every element needs anew.
fn inputs(all: &[Tensor]) -> impl Iterator<Item = &Tensor> {
    all.iter().filter(|tensor| tensor.used && !tensor.uniform && !tensor.output)
}

/// Most bytes of shared memory of a tile of rows × columns in vectors of `lanes` elements. The gap after a row is at most a vector or 8 bytes,
/// or all gaps together at most 512 bytes.
fn shared_bytes(transposed: &[&Tensor], lanes: u32, (rows, columns): (u64, u64)) -> u64 {
    let bytes = |tensor: &&Tensor| {
        let gap = (lanes * tensor.bytes).max(8);
        rows * (u64::from(tensor.bytes) * columns + u64::from(gap)) + 512
    };
    transposed.iter().map(bytes).sum()
}

/// Sides that are shortened until the tile fits into shared memory, for gaps of many short rows and for many inputs; `None` if no tile does.
fn fitting(transposed: &[&Tensor], (mut rows, mut columns): (u32, u32), lanes: u32, shear: u32) -> Option<(u32, u32)> {
    while shared_bytes(transposed, lanes, (rows.into(), u64::from(columns + shear))) > MOST_SHARED {
        let (longer, step) = if rows > columns { (&mut rows, lanes) } else { (&mut columns, lanes.max(shear)) };
        if *longer <= step {
            return None;
        }
        *longer = (*longer / 2).next_multiple_of(step);
    }
    Some((rows, columns))
}

/// Elements along each side of a tile: rows of 256 bytes of the narrowest tensor, or the forced number if it is possible, within
/// the limits of shared memory.
fn side(narrowest: u32, lanes: u32, transposed: &[&Tensor], choose: &Choose) -> u32 {
    let fits = |side: u64| shared_bytes(transposed, lanes, (side, side)) <= MOST_SHARED;
    let forced = choose.unroll.map(|unroll| unroll * lanes);
    if let Some(side) =
        forced.filter(|side| side.is_power_of_two() && (16..=128).contains(side) && fits((*side).into()))
    {
        return side;
    }
    let mut side = (256 / narrowest).clamp(32, 128);
    while side > 16 && !fits(side.into()) {
        side /= 2;
    }
    side
}

/// Rows and columns of tiles of about as many elements as wanted. A tensor that is shorter than a tile gets tiles that are as much longer on
/// the other side. Rows shorter than a vector aren't filled up to one: with 8 rows for 4, half of the threads had nothing to do. Rows that are a
/// little longer aren't cut, because whole ones are written as one piece: two f32 outputs with rows of 80 elements took an H200 137 µs in
/// tiles of 40 columns and 131 in 80, f64 ones with rows of 40 elements 93 and 91. Rows of 100 elements gained nothing.
fn rows_and_columns((rows, columns): (u32, u32), lanes: u32, extents: &[u64]) -> (u32, u32) {
    let least = |extent: u64| u32::try_from(extent).unwrap_or(u32::MAX).min(MOST_SIDE);
    let (along, across) = (least(extents[extents.len() - 2]), least(extents[extents.len() - 1]));
    let step = lanes.max(EVEN);
    let longer = |short: u32| (rows * columns / short).min(MOST_SIDE) / step * step;
    if along < rows {
        let rows = if along < lanes { along } else { along.next_multiple_of(lanes) };
        return (rows, cut(across, longer(rows).max(step), step).min(across.next_multiple_of(lanes)));
    }
    if across < columns {
        let columns = across.next_multiple_of(lanes);
        return (cut(along, longer(columns).max(step), step), columns);
    }
    if across <= columns + columns / 4 {
        return (cut(along, rows, step), across.next_multiple_of(lanes));
    }
    (cut(along, rows, step), cut(across, columns, step))
}

/// Sides are cut to multiples of this.
const EVEN: u32 = 8;

/// `side`, or less if tiles of that side would cover an eighth more than the extent: then the tiles are cut evenly.
fn cut(extent: u32, side: u32, step: u32) -> u32 {
    let tiles = extent.div_ceil(side);
    if tiles * side > extent + extent / 8 { extent.div_ceil(tiles).next_multiple_of(step) } else { side }
}

/// The size of a tile, and how a block processes it.
#[derive(Clone, Copy, Debug)]
pub struct TileSize {
    /// Rows.
    pub rows: u32,
    /// Columns.
    pub columns: u32,
    /// Elements of a vector in the order of the outputs.
    pub lanes: u32,
    /// Elements by which rows begin earlier at most, plus one; 0 for aligned rows.
    pub shear: u32,
    /// The tile has whole lines, and some inputs are loaded as pieces of memory: see `dense`.
    pub dense: bool,
    /// The tile has whole rows of the outputs, and vectors cross their ends: see `joined`.
    pub joined: bool,
    /// Threads of a block.
    pub threads: u32,
}

impl TileSize {
    /// `None` if no tile fits into shared memory.
    pub fn new(tiled: &Tiled, device: &Device, choose: &Choose, heavy: bool) -> Option<Self> {
        let Tiled { all, extents, folds, .. } = tiled;
        let transposed: Vec<&Tensor> = all
            .iter()
            .zip(&tiled.transposed)
            .filter(|(_, transposed)| **transposed)
            .map(|(tensor, _)| tensor)
            .collect();
        let transposed = transposed.as_slice();
        let moving = || all.iter().filter(|tensor| tensor.used && !tensor.uniform).map(|tensor| tensor.bytes);
        let (narrowest, largest) = (moving().min().unwrap_or(1), moving().max().unwrap_or(1));
        let widest = device.target.widest_access();
        let most = most_lanes((narrowest, largest), device, choose);
        let side = side(narrowest, most, transposed, choose);
        let aligned = lanes(all, extents, most.clamp(1, side / 4), widest);
        // Where other work has sheared tiles, heavy work has small ones, and not joined rows.
        let is_small = heavy && narrowest >= REGISTER;
        let sheared = Shear::new(tiled, most.clamp(1, side / 4), aligned).and_then(|shear| {
            let sides =
                if choose.unroll.is_some() { (side, side) } else { sheared_sides(all, shear, extents, device)? };
            sides.1.is_multiple_of(shear.elements).then_some((shear.lanes, shear.elements, sides))
        });
        let shears = sheared.is_some();
        let sheared = sheared.filter(|_| !is_small);
        // A request for tiles is for any number of them.
        let multiprocessors = (choose.form != Some(Form::Transpose)).then_some(device.multiprocessors);
        let joined = (!shears && choose.unroll.is_none())
            .then(|| joined::sides(tiled, (most, aligned), MOST_SHARED as u32, multiprocessors))
            .flatten();
        let whole = joined.map(|(rows, columns, lanes)| (lanes, 0, (rows, columns)));
        let (lanes, shear, (mut rows, mut columns)) = sheared.or(whole).unwrap_or_else(|| {
            let is_single = |tensor: &&Tensor| line(tensor, extents, (side, aligned), widest) == 1;
            let single = Single::new(transposed, transposed.iter().all(is_single), (aligned, narrowest), extents);
            let smaller = || smaller_sides(side, (aligned, narrowest), single, extents, device);
            let long = || with_long_rows(all, aligned, extents, device).unwrap_or_else(smaller);
            let free = || if is_small { rows_and_columns(HEAVY_SIDES, aligned, extents) } else { long() };
            (aligned, 0, choose.unroll.map_or_else(free, |_| (side, side)))
        });
        let dense = (shear == 0 && joined.is_none() && *folds == [0; 2] && choose.unroll.is_none())
            .then(|| dense_sides(transposed, extents, (rows, lanes), device))
            .flatten();
        (rows, columns) = dense.unwrap_or((rows, columns));
        if joined.is_none() {
            (rows, columns) = fitting(transposed, (rows, columns), lanes, shear)?;
        }
        let bytes = inputs(all).map(|tensor| tensor.bytes).sum::<u32>().max(1);
        let blocks = blocks((rows, columns), extents) / u64::from(device.multiprocessors.max(1));
        let tile = Self { rows, columns, lanes, shear, dense: dense.is_some(), joined: joined.is_some(), threads: 0 };
        let pieces = transposed.iter().map(|tensor| tile.loaded(tensor, extents, widest)).collect::<Vec<_>>();
        let threads = choose.threads.unwrap_or_else(|| tile.suitable_threads(&pieces, bytes, blocks));
        Some(Self { threads: threads.min((rows * columns / lanes).next_multiple_of(32)), ..tile })
    }

    /// The pieces in which a transposed input is loaded.
    fn loaded(&self, tensor: &Tensor, extents: &[u64], widest: u32) -> Loaded {
        let Self { rows, columns, lanes, shear, dense, joined, .. } = *self;
        if let Some(vector) = dense.then(|| dense::vector(tensor, extents, (rows, columns, lanes), widest)).flatten() {
            return Loaded { elements: vector, lines: 1, per_line: rows * columns / vector, single: false };
        }
        let together = if joined { 1 } else { lanes };
        let line = line(tensor, extents, (rows, together), widest);
        let group = if joined { joined::lines_at_once(tensor.bytes, columns, line) } else { 1 };
        let lines = ((columns + shear) / together).div_ceil(group);
        Loaded { elements: together * line, lines, per_line: rows / line * group, single: line == 1 }
    }

    /// Threads for tiles whose transposed inputs are loaded in such pieces. `bytes`: of an element of all inputs; `blocks`: per SM.
    fn suitable_threads(&self, pieces: &[Loaded], bytes: u32, blocks: u64) -> u32 {
        let Self { rows, columns, lanes, shear, dense, joined, .. } = *self;
        // Few tiles are processed soonest by many threads: f32 tensors of 512 × 512 took an H200 2.14 µs in one vector per thread and 2.48 in two.
        let many = blocks >= BLOCKS;
        // A thread has whole pieces of a transposed input.
        let piece =
            if many { pieces.iter().map(|piece| piece.elements).min().unwrap_or(lanes).max(LEAST_EACH) } else { lanes };
        let single = lanes == 1 || pieces.iter().all(|piece| piece.single);
        let loaded = if blocks >= FULL && !single { (LEAST_BYTES / bytes).min(MOST_VECTORS * lanes) } else { 1 };
        // The pieces of sheared tiles have long addresses and take many registers: on an H200, f16 tiles of 64 × 128 took 32 µs with 96
        // threads and 27 with 256, those of 4 × 1024 38 with 64 and 33 with 256.
        let each = if shear > 0 && many { LEAST_EACH } else { piece.max(loaded) };
        let most = (rows * columns / each).next_multiple_of(32);
        let most = most.clamp(*TRANSPOSE_THREADS.start(), *TRANSPOSE_THREADS.end());
        // At least half as many, so that their addresses differ by constants, and few of them idle.
        let group = if dense { dense::LINES } else { 1 };
        let ordered =
            if joined { [1, rows * columns / lanes] } else { [rows.div_ceil(group), columns / lanes * group] };
        let kinds: Vec<[u32; 2]> = pieces.iter().map(|piece| [piece.lines, piece.per_line]).chain([ordered]).collect();
        let all: u32 = kinds.iter().map(|[lines, per_line]| lines * per_line).sum();
        let suits = |&threads: &u32| {
            let pieces = kinds.iter().map(|&[lines, per_line]| Pieces::new(lines, per_line, threads));
            let whole = pieces.clone().filter(|pieces| pieces.whole).count();
            // In sixteenths of the fewest possible: more threads are worth a few that idle.
            let slots = (16 * threads * pieces.map(|pieces| pieces.iterations).sum::<u32>()).div_ceil(all);
            (whole, std::cmp::Reverse(if many { slots } else { 0 }), threads)
        };
        let least = if shear > 0 { most * 3 / 4 } else { most / 2 };
        let fewest = least.next_multiple_of(32).max(*TRANSPOSE_THREADS.start());
        (fewest..=most).step_by(32).max_by_key(suits).unwrap_or(most)
    }
}

/// The pieces in which a tile of a transposed input is loaded.
#[derive(Clone, Copy, Debug)]
struct Loaded {
    /// Elements of a piece.
    elements: u32,
    lines: u32,
    per_line: u32,
    /// Its lines are loaded in single elements.
    single: bool,
}

/// How a block's threads process the pieces of a tile in lines: `Pieces` of transpose.h.
#[derive(Clone, Copy, Debug)]
struct Pieces {
    /// Whether the addresses of a thread's pieces differ by constants.
    whole: bool,
    iterations: u32,
}

impl Pieces {
    fn new(lines: u32, per_line: u32, threads: u32) -> Self {
        let fewest = (lines * per_line).div_ceil(threads);
        let steps = if per_line > threads {
            per_line.div_ceil(threads) * lines
        } else {
            lines.div_ceil(threads / per_line.max(1))
        };
        let whole = 8 * steps <= 9 * fewest;
        Self { whole, iterations: if whole { steps } else { fewest } }
    }
}

/// Fewest elements of each tensor per thread, if there are many tiles.
const LEAST_EACH: u32 = 8;
/// Fewest bytes of all inputs per thread if blocks fill the SMs, so that enough loads are in flight: a transposed bf16 matrix of
/// 11,008 × 3,667 to f32 took an H200 81 µs with 32 bytes and 70 µs with 64.
const LEAST_BYTES: u32 = 64;
/// Most vectors of each input for that many bytes. Single elements aren't counted: their instructions take longer than their bytes.
const MOST_VECTORS: u32 = 8;
/// Blocks that fill an SM, at 256 threads each.
const FULL: u64 = 8;

/// The widest vector, in elements, that is possible along the outputs' rows.
fn lanes(all: &[Tensor], extents: &[u64], most: u32, widest: u32) -> u32 {
    let last = extents.len() - 1;
    let rows = |tensor: &&Tensor| tensor.output || (tensor.strides[last] == 1 && tensor.strides[last - 1] != 0);
    let used = || all.iter().filter(|tensor| tensor.used && !tensor.uniform);
    let fits = |lanes: u32| {
        used().filter(rows).all(|tensor| takes_vectors(tensor, extents, lanes, widest))
            && extents[last].is_multiple_of(lanes.into())
    };
    widest_vector(most, fits)
}

/// Consecutive elements that a thread loads of a line of a transposed input: as many as its vectors of the outputs have, if the line allows; if
/// those have one element, up to 16 bytes.
pub fn line(tensor: &Tensor, extents: &[u64], (rows, lanes): (u32, u32), widest: u32) -> u32 {
    let last = extents.len() - 1;
    let (mut across, mut strides) = (extents.to_vec(), tensor.strides.clone());
    across.swap(last - 1, last);
    strides.swap(last - 1, last);
    let turned = Tensor { strides, ..tensor.clone() };
    let most = if lanes > 1 { lanes } else { MOST_LINE / tensor.bytes };
    let fits = |line: u32| rows.is_multiple_of(line) && takes_vectors(&turned, &across, line, widest);
    widest_vector(most, fits)
}

/// Bytes of the widest vector of a line if those of the outputs' rows have one element.
const MOST_LINE: u32 = 16;

/// The largest of `most`, half of it and so on that fits; 1 if none does.
pub fn widest_vector(most: u32, fits: impl Fn(u32) -> bool) -> u32 {
    let mut lanes = most;
    while lanes > 1 && !fits(lanes) {
        lanes /= 2;
    }
    lanes
}
