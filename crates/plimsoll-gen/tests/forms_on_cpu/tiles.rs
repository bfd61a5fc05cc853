//! Tiles of transposed inputs whose sides are along two dimensions, whose rows begin between sectors, or whose rows are joined.

use plimsoll_core::stats::Rng;
use plimsoll_gen::Target;
use plimsoll_gen::elementwise::{Choose, Device, Form, KernelSpec, Table};
use plimsoll_gen::kernel::Index;

use super::shapes::with_strides_on;
use super::{Case, check, compiled, device, graph};

/// Extents, the order in memory of a transposed input's dimensions, slowest first, and elements of folded rows and columns.
type Folded<'f> = (&'f [u64], &'f [usize], [u32; 2]);

/// Short dimensions of tiles are folded with the next ones in memory: of rows, of columns and of both, with other inputs, in last tiles.
#[test]
#[cfg_attr(not(gxx), ignore = "g++ is not installed")]
fn short_sides_of_tiles_are_folded() {
    let groups: [(&str, &[Folded<'_>]); 3] = [
        (
            "forms-folded-columns",
            &[
                (&[131, 43, 8], &[2, 1, 0], [0, 8]),
                (&[130, 44, 6], &[2, 1, 0], [0, 6]),
                (&[64, 67, 7], &[2, 1, 0], [0, 7]),
                (&[300, 5, 2], &[2, 1, 0], [0, 2]),
                (&[6, 33, 4], &[2, 1, 0], [0, 4]),
                (&[3, 40, 21, 5], &[0, 3, 2, 1], [0, 5]),
            ],
        ),
        (
            "forms-folded-rows",
            &[
                (&[8, 43, 132], &[2, 1, 0], [8, 0]),
                (&[3, 50, 129], &[2, 1, 0], [3, 0]),
                (&[4, 33, 5], &[2, 1, 0], [4, 0]),
                (&[6, 3, 19, 24], &[3, 1, 2, 0], [6, 0]),
            ],
        ),
        ("forms-folded-twice", &[(&[4, 37, 9, 8], &[3, 2, 1, 0], [4, 8]), (&[3, 5, 12, 7], &[3, 2, 1, 0], [3, 7])]),
    ];
    for (name, shapes) in groups {
        let cases = folded(shapes);
        for whole in [true, false] {
            let is_whole = |spec: &KernelSpec| {
                let sides = [spec.rows, spec.unroll * spec.lanes].into_iter().zip(spec.folds);
                sides.filter(|(_, fold)| *fold > 0).all(|(side, fold)| side.is_multiple_of(fold))
            };
            assert!(compiled(&cases, |spec| spec.folds != [0; 2] && is_whole(spec) == whole) > 3, "{name} {whole}");
        }
        check(name, &cases);
    }
}

/// The same where rows don't begin at whole sectors.
#[test]
#[cfg_attr(not(gxx), ignore = "g++ is not installed")]
fn folded_columns_of_sheared_tiles_are_found() {
    let cases = folded(&[
        (&[40, 401, 7], &[2, 1, 0], [0, 7]),
        (&[66, 215, 5], &[2, 1, 0], [0, 5]),
        (&[2, 35, 533, 3], &[0, 3, 2, 1], [0, 3]),
    ]);
    assert!(compiled(&cases, |spec| spec.shear > 0) > 20);
    check("forms-folded-sheared", &cases);
}

#[test]
#[cfg_attr(not(gxx), ignore = "g++ is not installed")]
fn folded_rows_of_sheared_tiles_are_found() {
    let mut cases = folded(&[
        (&[5, 11, 1031], &[2, 1, 0], [5, 0]),
        (&[17, 5, 1030], &[2, 1, 0], [17, 0]),
        (&[2, 8, 9, 1029], &[0, 3, 2, 1], [8, 0]),
    ]);
    assert!(compiled(&cases, |spec| spec.shear > 0 && spec.folds[0] > 0) > 20);
    // Several outputs with other distances between rows than the first.
    let mut rng = Rng::new(9);
    let tiny = Device { multiprocessors: 1, ..device(Target::plain(90)) };
    for (text, further) in
        [("in x: f32, z: f32\np = x + z; q = x - z", 4), ("in x: bf16, z: f32\np = x*z; q: bf16 = x", 3)]
    {
        let [x, first, second] = [[1, 6, 78], [13 * 1027, 1027, 1], [13 * (1027 + further), 1027 + further, 1]];
        let strides: [&[i64]; 4] = [&x, &first, &first, &second];
        let (on, choose) = ((&tiny, &Table::default()), Choose { form: Some(Form::Transpose), ..Choose::default() });
        cases.push(with_strides_on(on, 0, &mut rng, text, &[6, 13, 1027], &strides, &choose));
        let spec = &cases.last().unwrap().plan.spec;
        assert!(spec.shear > 0 && spec.folds == [6, 0], "{spec:?}");
    }
    check("forms-folded-rows-sheared", &cases);
}

fn folded(shapes: &[Folded<'_>]) -> Vec<Case> {
    let mut rng = Rng::new(8);
    let mut cases = Vec::new();
    // The device that these tensors fill.
    let tiny = Device { multiprocessors: 1, ..device(Target::plain(90)) };
    for &(extents, order, folds) in shapes {
        let contiguous = |order: &[usize]| {
            let (mut strides, mut next) = (vec![0; extents.len()], 1);
            for &d in order.iter().rev() {
                (strides[d], next) = (next, next * extents[d] as i64);
            }
            strides
        };
        let (x, own) = (contiguous(order), contiguous(&(0..extents.len()).collect::<Vec<_>>()));
        let without = |dropped: usize| {
            let mut strides = own.clone();
            strides[dropped] = 0;
            strides
        };
        // Like the outputs, or broadcast along one dimension, or spaced, or with a gap of one element between the slowest slices.
        let spaced = own.iter().map(|stride| stride * 2).collect();
        let with_gaps = |strides: &[i64], slowest: usize| {
            let mut strides = strides.to_vec();
            strides[slowest] += 1;
            strides
        };
        let others = (0..extents.len()).map(without).chain([own.clone(), spaced, with_gaps(&own, 0)]);
        for (number, other) in others.enumerate() {
            let x = if number == 1 { with_gaps(&x, order[0]) } else { x.clone() };
            // Two transposed inputs of different types.
            let text = "in x: bf16, w: f32, z: f32\ny = x*w - z";
            let strides: [&[i64]; 4] = [&x, &x, &other, &own];
            let choose = Choose { form: Some(Form::Transpose), ..Choose::default() };
            cases.push(with_strides_on((&tiny, &Table::default()), 0, &mut rng, text, extents, &strides, &choose));
            for (text, bytes) in [
                ("in x: f32, z: f32\ny = x + z", 4),
                ("in x: bf16, z: f32\ny: bf16 = x - z", 2),
                ("in x: f64, z: u8\ny = x*z", 8),
            ] {
                let index = (number == 0).then_some(Index::U64);
                let choose = Choose { form: Some(Form::Transpose), index, ..Choose::default() };
                let strides: [&[i64]; 3] = [&x, &other, &own];
                let on = (&tiny, &Table::default());
                cases.push(with_strides_on(on, 0, &mut rng, text, extents, &strides, &choose));
                let spec = &cases.last().unwrap().plan.spec;
                // Lines of more than 32 bytes are only folded in sheared tiles, and where rows of the outputs begin at sectors and are whole vectors
                // of 16 bytes of the widest tensor.
                let rows_begin_at_sectors = (extents.last().unwrap() * u64::from(bytes)).is_multiple_of(32);
                let widest = spec.element_bytes().into_iter().max().unwrap();
                let whole = rows_begin_at_sectors && spec.lanes >= (16 / widest).min(8);
                let folds_rows = whole || spec.shear > 0 || folds[0] * bytes <= 32;
                let (folded, expected) = (spec.folds, [folds[0] * u32::from(folds_rows), folds[1]]);
                assert_eq!(folded, expected, "{text} {extents:?} {other:?}");
            }
        }
    }
    cases
}

/// Outputs whose rows don't begin at whole sectors, with gaps between rows, in place, several of them, and with slower dimensions.
#[test]
#[cfg_attr(not(gxx), ignore = "g++ is not installed")]
fn rows_of_tiles_begin_where_sectors_do() {
    let mut rng = Rng::new(6);
    let mut cases = Vec::new();
    // The device that these tensors fill.
    let tiny = Device { multiprocessors: 1, ..device(Target::plain(90)) };
    for text in [
        "in x: bf16, z: bf16\ny = x + z",
        "in x: f32, z: bf16\ny: bf16 = x + z",
        "in x: u8, z: f32\ny = x + z",
        "in x: f64, z: f64\ny = x + z",
        "in x: u8, z: u8\ny: u8 = max(x, z)",
        "in x: u8, z: f64\ny = x + z",
    ] {
        for (rows, columns) in [(29, 3001), (3, 30_050), (130, 1159)] {
            let (r, c) = (rows as i64, columns as i64);
            let mut add = |strides: [&[i64]; 3], choose: &Choose| {
                cases.push(with_strides_on(
                    (&tiny, &Table::default()),
                    0,
                    &mut rng,
                    text,
                    &[rows, columns],
                    &strides,
                    choose,
                ));
            };
            add([&[1, r], &[c, 1], &[c, 1]], &Choose::default());
            if rows == 29 {
                let other = Choose { unroll: Some(8), threads: Some(96), index: Some(Index::U64), ..Choose::default() };
                add([&[1, r], &[c, 1], &[c, 1]], &other);
                // Rows with gaps, of another distance than the outputs', broadcast ones, spaced ones.
                for strides in [[c + 3, 1], [c + 8, 1], [0, 1], [1, 0], [2 * c, 2]] {
                    add([&[1, r + 1], &strides, &[c + 8, 1]], &Choose::default());
                }
            }
        }
        let batched: [&[i64]; 3] = [&[1333 * 40, 1, 40], &[1333 * 40, 1333, 1], &[1333 * 40, 1333, 1]];
        cases.push(with_strides_on(
            (&tiny, &Table::default()),
            0,
            &mut rng,
            text,
            &[3, 40, 1333],
            &batched,
            &Choose::default(),
        ));
    }
    for text in [
        "in x: bf16, z: bf16\nz = x + z",
        "in x: f32, z: bf16\ny: f32 = x + z\nz = x - z",
        "in x: u8, z: f64\nz = x + z\ny: u8 = max(x, 3)",
    ] {
        for before in [0, 1, 6, 13] {
            let c = 1101;
            let strides: &[&[i64]] = &[&[1, 64], &[c, 1], &[c, 1], &[c, 1]];
            let outputs = graph(text).outputs().len();
            let shape = &[64, c as u64];
            let choose = Choose::default();
            cases.push(with_strides_on(
                (&tiny, &Table::default()),
                before,
                &mut rng,
                text,
                shape,
                &strides[..2 + outputs],
                &choose,
            ));
        }
    }
    let sheared = cases.iter().filter(|case| case.plan.spec.shear > 0).count();
    assert!(3 * sheared > 2 * cases.len(), "{sheared} of {}", cases.len());
    assert!(compiled(&cases, |spec| spec.shear > 0 && spec.lanes > 1) > 10);
    check("forms-sheared", &cases);
}

/// Short rows of the outputs without gaps, of any length: partial tiles, slower dimensions, broadcast inputs, several outputs, in place.
#[test]
#[cfg_attr(not(gxx), ignore = "g++ is not installed")]
fn vectors_cross_the_ends_of_joined_rows() {
    let mut rng = Rng::new(11);
    let mut cases = Vec::new();
    // The device that these tensors fill.
    let tiny = Device { multiprocessors: 1, ..device(Target::plain(90)) };
    for text in [
        "in x: bf16, z: bf16\ny = x + z",
        "in x: bf16, z: f32\ny = x + z",
        "in x: f32, z: bf16\ny: bf16 = x + z",
        "in x: f64, z: f64\ny = x + z",
        "in x: u8, z: u8\ny: u8 = max(x, z)",
        "in x: u8, z: f64\ny = x + z",
    ] {
        let mut add = |shape: &[u64], strides: [&[i64]; 3], choose: &Choose| {
            let on = (&tiny, &Table::default());
            cases.push(with_strides_on(on, 0, &mut rng, text, shape, &strides, choose));
        };
        for (rows, columns) in [(1027, 3), (520, 37), (96, 245), (129, 102), (67, 44), (1040, 5)] {
            let (r, c) = (rows as i64, columns as i64);
            add(&[rows, columns], [&[1, r], &[c, 1], &[c, 1]], &Choose::default());
            // Broadcast along rows, along columns and with gaps.
            for strides in [[0, 1], [1, 0], [0, 2], [2, 0]] {
                add(&[rows, columns], [&[1, r + 1], &strides, &[c, 1]], &Choose::default());
            }
            let other = Choose { threads: Some(96), index: Some(Index::U64), ..Choose::default() };
            add(&[rows, columns], [&[1, r + 8], &[c, 1], &[c, 1]], &other);
        }
        // Vectors as long as a request allows.
        for vector in [16, 64] {
            let longest = Choose { vector: Some(vector), ..Choose::default() };
            add(&[4000, 3], [&[1, 4000], &[3, 1], &[3, 1]], &longest);
            add(&[1200, 2], [&[1, 1200], &[2, 1], &[2, 1]], &longest);
        }
        add(&[3, 136, 51], [&[136 * 51, 1, 136], &[136 * 51, 51, 1], &[136 * 51, 51, 1]], &Choose::default());
        add(&[2, 3, 70, 22], [&[4620, 1540, 1, 70], &[0, 1540, 22, 1], &[4620, 1540, 22, 1]], &Choose::default());
    }
    for text in [
        "in x: bf16, z: bf16\nz = x + z",
        "in x: f32, z: bf16\ny: f32 = x + z\nz = x - z",
        "in x: u8, z: f64\nz = x + z\ny: u8 = max(x, 3)",
    ] {
        for before in [0, 1, 4] {
            let strides: &[&[i64]] = &[&[1, 200], &[101, 1], &[101, 1], &[101, 1]];
            let on = (&tiny, &Table::default());
            let tensors = 2 + graph(text).outputs().len();
            let choose = Choose::default();
            cases.push(with_strides_on(on, before, &mut rng, text, &[200, 101], &strides[..tensors], &choose));
        }
    }
    let joined = cases.iter().filter(|case| case.plan.spec.joined > 0).count();
    assert!(5 * joined > 2 * cases.len(), "{joined} of {}", cases.len());
    assert!(compiled(&cases, |spec| spec.joined > 0) > 30);
    check("forms-joined", &cases);
}
