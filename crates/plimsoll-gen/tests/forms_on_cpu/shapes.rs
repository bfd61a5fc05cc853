//! Tensors whose strides select the special forms: broadcast, transposed and spaced ones.

use plimsoll_core::stats::Rng;
use plimsoll_expr::{DType, Layout, Space};
use plimsoll_gen::Target;
use plimsoll_gen::elementwise::{Choose, Device, Form, Indexing, Inner, Stream, Table, plan};
use plimsoll_gen::kernel::Index;

use super::{Case, Memory, check, compiled, device, expected, graph, memory, scalars};

fn with_strides(rng: &mut Rng, text: &str, shape: &[u64], strides: &[&[i64]], choose: &Choose) -> Case {
    with_strides_on((&device(Target::plain(90)), &Table::default()), 0, rng, text, shape, strides, choose)
}

/// `before`: elements of each tensor between an aligned address and its first one.
pub fn with_strides_on(
    (device, table): (&Device, &Table),
    before: u64,
    rng: &mut Rng,
    text: &str,
    shape: &[u64],
    strides: &[&[i64]],
    choose: &Choose,
) -> Case {
    let graph = graph(text);
    let dtypes = graph.inputs().iter().map(|input| input.dtype);
    let dtypes: Vec<DType> = dtypes.chain(graph.outputs().iter().map(|output| output.dtype)).collect();
    let tensors: Vec<Memory> = dtypes
        .into_iter()
        .zip(strides)
        .map(|(dtype, strides)| memory(rng, Layout::strided(shape, strides, 0).unwrap(), dtype, before * dtype.bytes()))
        .collect();
    let layouts: Vec<Layout> = tensors.iter().map(|memory| memory.layout.clone()).collect();
    let starts: Vec<u64> = tensors.iter().map(Memory::start).collect();
    let indexing = Indexing::new(&graph, &Space::with_shape(shape, &layouts).unwrap(), &starts).unwrap();
    let plan = plan(&graph, &indexing, device, table, choose).unwrap();
    let scalars = scalars(rng, &graph);
    let expected = expected(&graph, shape, &tensors, &scalars);
    Case { plan, batch: None, scalars, tensors, expected }
}

#[test]
#[cfg_attr(not(gxx), ignore = "g++ is not installed")]
fn broadcast_and_transposed_tensors_use_their_special_forms() {
    let mut rng = Rng::new(3);
    let choose = Choose { threads: Some(32), vector: Some(16), ..Choose::default() };
    let transposed = Choose { vector: Some(16), ..Choose::default() };
    let mut cases = Vec::new();
    for (rows, columns) in [
        (5, 1024),
        (7, 1025),
        (1025, 3),
        (2, 520),
        (9, 10),
        (64, 64),
        (33, 129),
        (130, 72),
        (36, 44),
        (21, 700),
        (700, 21),
        (89, 39),
        (17, 95),
        (95, 17),
    ] {
        let (r, c) = (rows as i64, columns as i64);
        let shape = &[rows, columns];
        for text in ["in x: bf16, z: bf16\ny = x + z", "in x: bf16, z: f32\ny: bf16 = x + z"] {
            cases.push(with_strides(&mut rng, text, shape, &[&[c, 1], &[0, 1], &[c, 1]], &choose));
            cases.push(with_strides(&mut rng, text, shape, &[&[c, 1], &[1, 0], &[c, 1]], &choose));
            assert_eq!(cases.last().unwrap().plan.spec.form, Form::Rows);
            for (vector, unroll) in [(2, 8), (4, 5), (8, 2)] {
                let index = (vector == 4).then_some(Index::U64);
                let bulk =
                    Choose { form: Some(Form::Bulk), vector: Some(vector), unroll: Some(unroll), index, ..choose };
                // Only if less than a quarter of the accesses are to new elements.
                for strides in [[0, 1], [1, 0]].into_iter().filter(|_| rows.min(columns) > 4) {
                    cases.push(with_strides(&mut rng, text, shape, &[&[c, 1], &strides, &[c, 1]], &bulk));
                }
            }
            cases.push(with_strides(&mut rng, text, shape, &[&[1, r], &[c, 1], &[c, 1]], &transposed));
            assert_eq!(cases.last().unwrap().plan.spec.form == Form::Transpose, rows * columns >= 128);
            cases.push(with_strides(&mut rng, text, shape, &[&[1, r], &[0, 1], &[c, 1]], &transposed));
            // Other tile sizes, and numbers of threads that differ from the number of squares.
            for (vector, unroll, threads) in
                [(16, Some(2), None), (16, Some(8), Some(96)), (2, Some(16), Some(256)), (8, None, Some(32))]
            {
                let other = Choose { vector: Some(vector), unroll, threads, ..transposed };
                cases.push(with_strides(&mut rng, text, shape, &[&[1, r], &[c, 1], &[c, 1]], &other));
            }
        }
    }
    for (rows, columns) in [(1, 5000), (3, 1024), (66, 40)] {
        for (spacing, step) in [(2, 0), (3, 0), (4, 1), (2, 8), (5, 0)] {
            let (c, pitch) = (columns as i64, columns as i64 * spacing + step);
            for text in
                ["in x: bf16, z: f32\ny: bf16 = x + z", "in x: f32, z: u8\ny = x + z", "in x: f64, z: f64\ny = x + z"]
            {
                cases.push(with_strides(
                    &mut rng,
                    text,
                    &[rows, columns],
                    &[&[pitch, spacing], &[c, 1], &[c, 1]],
                    &choose,
                ));
            }
            let text = "in x: f16, z: u8\ny: u8 = x + z";
            let both: [&[i64]; 3] = [&[pitch, spacing], &[pitch, spacing], &[c, 1]];
            cases.push(with_strides(&mut rng, text, &[rows, columns], &both, &choose));
            let last = &cases.last().unwrap().plan.spec;
            let is_spaced = |stream: &Stream| matches!(stream, Stream::Indexed { inner: Inner::Spaced(_), .. });
            if step == 0 {
                assert_eq!(last.streams.iter().any(is_spaced), spacing < 5, "{last:?}");
            }
        }
    }
    let batched: [&[i64]; 3] = [&[72 * 40, 1, 40], &[0, 72, 1], &[72 * 40, 72, 1]];
    cases.push(with_strides(&mut rng, "in x: f64, z: u8\ny = x + z", &[3, 40, 72], &batched, &transposed));
    assert_eq!(cases.last().unwrap().plan.spec.form, Form::Transpose);
    for form in [Form::Rows, Form::Bulk, Form::Transpose] {
        assert!(compiled(&cases, |spec| spec.form == form) > 2, "{form:?}");
    }
    for whole_rows in [true, false] {
        assert!(compiled(&cases, |spec| spec.form == Form::Bulk && spec.whole_rows == whole_rows) > 2, "{whole_rows}");
    }
    check("forms-shapes", &cases);
}

/// Transposed inputs with short lines that follow each other without gaps, alone and with other inputs; last tiles with few columns, groups of
/// lines that don't divide the rows, any number of threads.
#[test]
#[cfg_attr(not(gxx), ignore = "g++ is not installed")]
fn tiles_of_dense_lines_are_one_piece_of_memory() {
    let mut rng = Rng::new(6);
    let mut cases = Vec::new();
    for (rows, columns) in [(6, 2000), (13, 520), (22, 400), (37, 96), (63, 160), (5, 1032)] {
        let (r, c) = (rows as i64, columns as i64);
        for (from, to) in
            [("u8", "u8"), ("bf16", "bf16"), ("f32", "bf16"), ("bf16", "f32"), ("f64", "f64"), ("u8", "f64")]
        {
            let text = format!("in x: {from}, z: {to}\ny: {to} = max(x, z)");
            let threads = [None, Some(96), Some(32)][cases.len() % 3];
            let choose = Choose { form: Some(Form::Transpose), threads, ..Choose::default() };
            let flat: [&[i64]; 3] = [&[1, r], &[c, 1], &[c, 1]];
            cases.push(with_strides(&mut rng, &text, &[rows, columns], &flat, &choose));
            let both: [&[i64]; 3] = [&[r * c, 1, r], &[r * c, 1, r], &[r * c, c, 1]];
            cases.push(with_strides(&mut rng, &text, &[3, rows, columns], &both, &choose));
            let repeated: [&[i64]; 3] = [&[0, 1, r], &[0, 0, 1], &[r * c, c, 1]];
            cases.push(with_strides(&mut rng, &text, &[2, rows, columns], &repeated, &choose));
        }
    }
    let is_dense = |stream: &Stream| matches!(stream, Stream::Dense { .. });
    let count = compiled(&cases, |spec| spec.streams.iter().any(is_dense));
    assert!(count >= 30, "{count}");
    check("forms-dense", &cases);
}

/// Tiles that fit the tensors and leave threads without a piece: their loads must stay inside too.
#[test]
#[cfg_attr(not(gxx), ignore = "g++ is not installed")]
fn threads_without_a_piece_of_a_tile_stay_inside_the_tensors() {
    let mut rng = Rng::new(4);
    let mut cases = Vec::new();
    for (dtype, rows, columns) in [("u8", 40, 24), ("f64", 20, 96), ("f64", 12, 40), ("bf16", 56, 8)] {
        let (r, c) = (rows as i64, columns as i64);
        let text = format!("in x: {dtype}, z: {dtype}\ny: {dtype} = max(x, z)");
        for threads in [None, Some(64)] {
            let choose = Choose { form: Some(Form::Transpose), threads, ..Choose::default() };
            cases.push(with_strides(&mut rng, &text, &[rows, columns], &[&[1, r], &[c, 1], &[c, 1]], &choose));
        }
    }
    check("forms-idle-threads", &cases);
}

/// Rows at odd distances: vectors are shifted out of aligned accesses, which must stay inside the tensors.
#[test]
#[cfg_attr(not(gxx), ignore = "g++ is not installed")]
fn rows_at_odd_distances_take_shifted_vectors() {
    let mut rng = Rng::new(5);
    let mut cases = Vec::new();
    for text in [
        "in x: bf16, z: f32\ny: bf16 = x + z",
        "in x: f32, z: u8\ny = x + z",
        "in x: u8, z: u8\ny: u8 = max(x, z)",
        "in x: f64, z: f64\ny = x + z",
    ] {
        for (rows, columns) in [(2, 8), (32, 2048), (66, 48), (5, 1000), (3, 2064)] {
            let c = columns as i64;
            for gap in [1, 3] {
                let strides: [&[i64]; 3] = [&[c + gap, 1], &[c, 1], &[c, 1]];
                cases.push(with_strides(&mut rng, text, &[rows, columns], &strides, &Choose::default()));
            }
        }
    }
    let long = Choose { vector: Some(4), index: Some(Index::U64), ..Choose::default() };
    let both: [&[i64]; 3] = [&[2049, 1], &[2051, 1], &[2048, 1]];
    for text in ["in x: u8, z: bf16\ny: bf16 = x + z", "in x: f32, z: f16\ny: f16 = x + z"] {
        cases.push(with_strides(&mut rng, text, &[32, 2048], &both, &long));
        cases.push(with_strides(&mut rng, text, &[32, 2048], &both, &Choose::default()));
    }
    let images: [&[i64]; 3] = [&[3 * 24 + 1, 24 + 9, 1], &[72, 24, 1], &[72, 24, 1]];
    cases.push(with_strides(&mut rng, "in x: f16, z: f16\ny = x*z", &[40, 3, 24], &images, &Choose::default()));
    let shifts = |stream: &Stream| matches!(stream, Stream::Indexed { inner: Inner::Shifted, .. });
    let count = cases.iter().filter(|case| case.plan.spec.streams.iter().any(shifts)).count();
    assert!(3 * count > cases.len(), "{count} of {}", cases.len());
    check("forms-shifted", &cases);
}

/// Vectors that cross the ends of rows, also where slower dimensions advance at once, of broadcast, strided and pitched inputs.
#[test]
#[cfg_attr(not(gxx), ignore = "g++ is not installed")]
fn vectors_cross_the_ends_of_rows() {
    let mut rng = Rng::new(6);
    let mut cases = Vec::new();
    let shapes: [(&[u64], [&[i64]; 3]); 10] = [
        (&[40, 25], [&[0, 1], &[1, 0], &[25, 1]]),
        (&[40, 25], [&[27, 1], &[25, 1], &[25, 1]]),
        (&[30, 3, 10], [&[10, 0, 1], &[3, 1, 0], &[30, 10, 1]]),
        (&[30, 3, 10], [&[10, 300, 1], &[1, 0, 0], &[30, 10, 1]]),
        (&[6, 2, 7, 9], [&[0, 9, 0, 1], &[7, 0, 1, 0], &[126, 63, 9, 1]]),
        (&[6, 2, 7, 9], [&[14 * 30, 7 * 30, 30, 3], &[0, 0, 0, 1], &[126, 63, 9, 1]]),
        (&[2, 1201], [&[0, 1], &[1, 0], &[1201, 1]]),
        // Long enough for shifted vectors inside rows.
        (&[5, 1201], [&[1203, 1], &[0, 1], &[1201, 1]]),
        (&[2, 2, 1037], [&[0, 1037, 1], &[1037, 0, 1], &[2074, 1037, 1]]),
        (&[3, 1025], [&[0, 1], &[2, 1], &[1025, 1]]),
    ];
    for (extents, strides) in shapes {
        for text in [
            "in x: f32, z: f32\ny = x - z",
            "in x: f32, z: f32\ny = x - recip(z)",
            "in x: bf16, z: u8\ny: bf16 = x + z",
        ] {
            for choose in [
                Choose::default(),
                Choose { form: Some(Form::Rows), index: Some(Index::U64), unroll: Some(2), ..Choose::default() },
            ] {
                cases.push(with_strides(&mut rng, text, extents, &strides, &choose));
            }
        }
    }
    let crosses = |case: &&Case| case.plan.spec.form == Form::Rows && !case.plan.spec.whole_rows;
    assert!(2 * cases.iter().filter(crosses).count() > cases.len());
    assert!(cases.iter().any(|case| case.plan.spec.rare_turns));
    let shifts = |stream: &Stream| matches!(stream, Stream::Indexed { inner: Inner::ShiftedOrUnit, .. });
    let count = compiled(&cases, |spec| spec.streams.iter().any(shifts));
    assert!(count >= 10, "{count}");
    check("forms-crossing", &cases);
}

/// Functions of rows that are the same throughout are computed once for vectors of several rows, in all of the rows and in those that are left.
#[test]
#[cfg_attr(not(gxx), ignore = "g++ is not installed")]
fn vectors_of_the_same_columns_are_stacked() {
    let mut rng = Rng::new(7);
    let mut cases = Vec::new();
    let tiny = Device { multiprocessors: 1, ..device(Target::plain(90)) };
    let table = Table::for_device("NVIDIA H200", 90);
    let roots = (0..14).fold("abs(z) + 1".to_owned(), |of, _| format!("sqrt({of})"));
    let shapes: [(&[u64], [&[i64]; 3]); 5] = [
        (&[403, 256], [&[1, 0], &[0, 1], &[256, 1]]),
        (&[130, 1000], [&[1000, 1], &[0, 1], &[1000, 1]]),
        (&[3, 43, 1024], [&[43, 1, 0], &[0, 0, 1], &[44_032, 1024, 1]]),
        (&[7, 10, 4096], [&[4096, 0, 1], &[0, 0, 1], &[40_960, 4096, 1]]),
        (&[66, 2048], [&[2056, 1], &[0, 1], &[2048, 1]]),
    ];
    for (extents, strides) in shapes {
        for text in [
            format!("in x: f32, z: f32\ny = x * {roots}"),
            format!("in x: f32, z: f32\ny = {roots} - f32(index(0)) - x"),
        ] {
            for choose in [Choose::default(), Choose { index: Some(Index::U64), unroll: Some(3), ..Choose::default() }]
            {
                let on = (&tiny, &table);
                cases.push(with_strides_on(on, 0, &mut rng, &text, extents, &strides, &choose));
            }
        }
    }
    let stacked = cases.iter().filter(|case| !case.plan.spec.same_rows.is_empty()).count();
    assert_eq!(stacked, cases.len());
    check("forms-stacked", &cases);
}
