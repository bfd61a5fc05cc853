//! How many elements a thread has: by rows, types, writes and registers.

use super::*;

#[test]
fn launches_that_mostly_write_move_at_least_32_bytes_per_thread() {
    let text = "in x: f32, z: f32\ny = x - z";
    let outer = |rows: u64, columns: u64| {
        let strides: [(&[i64], u64); 3] = [(&[0, 1], 0), (&[1, 0], 0), (&[columns as i64, 1], 0)];
        planned(text, &[rows, columns], &strides, 90, &Choose::default()).unwrap().spec
    };
    let large = outer(8192, 8192);
    assert_eq!((large.form, large.lanes, large.unroll), (Form::Rows, 4, 2));
    assert_eq!(outer(256, 256).unroll, 1);
    // Rows of odd lengths take vectors as long, up to the length of a row.
    let odd = outer(8192, 8191);
    assert_eq!((odd.form, odd.lanes, odd.unroll, odd.whole_rows), (Form::Rows, 4, 2, false));
    assert_eq!(outer(1 << 22, 3).lanes, 2);
}

#[test]
fn narrower_whole_vectors_are_preferred_to_wide_ones_that_cross_rows() {
    let text = "in x: bf16, z: bf16\ny: bf16 = x + z";
    let of = |columns: u64, pitch: i64| {
        let c = columns as i64;
        let strides: [(&[i64], u64); 3] = [(&[pitch, 1], 0), (&[c, 1], 0), (&[c, 1], 0)];
        let spec = planned(text, &[16384, columns], &strides, 90, &Choose::default()).unwrap().spec;
        (spec.lanes, spec.whole_rows, spec.streams[0])
    };
    let input = |inner| Stream::Indexed { set: 0, inner };
    assert_eq!(of(1720, 1728), (8, true, input(Inner::Vector)));
    assert_eq!(of(1724, 1728), (4, true, input(Inner::Vector)));
    assert_eq!(of(1726, 1728), (8, false, input(Inner::ShiftedOrUnit)));
    assert_eq!(of(1719, 1727), (8, false, input(Inner::ShiftedOrUnit)));
    assert_eq!(of(1019, 1027), (8, false, input(Inner::Unit)));
    assert_eq!(of(1720, 1727), (8, true, input(Inner::Shifted)));
}

#[test]
fn small_launches_with_pitched_rows_have_short_aligned_vectors() {
    let of = |rows: u64, columns: u64, pitch: i64| {
        let strides: [(&[i64], u64); 2] = [(&[pitch, 1], 0), (&[columns as i64, 1], 0)];
        let spec = planned("in x: f16\ny: i8 = x*2", &[rows, columns], &strides, 90, &Choose::default()).unwrap().spec;
        (spec.lanes, spec.unroll)
    };
    assert_eq!(of(188, 1122, 1132), (2, 1));
    // More than 1056 blocks of 256, and single elements.
    assert_eq!(of(482, 1122, 1132).0, 8);
    assert_eq!(of(188, 1121, 1132).0, 8);
    // No gaps, and a requested vector.
    let lanes = |x: &[i64], choose: &Choose| {
        let tensors: [(&[i64], u64); 3] = [(x, 0), (&[0, 1], 0), (&[1122, 1], 0)];
        planned("in x: f16, z: f16\ny: i8 = x*z", &[188, 1122], &tensors, 90, choose).unwrap().spec.lanes
    };
    assert_eq!([[1132, 1], [1122, 1]].map(|x| lanes(&x, &Choose::default())), [2, 8]);
    assert_eq!(lanes(&[1132, 1], &Choose { vector: Some(8), ..Choose::default() }), 8);
}

#[test]
fn vectors_of_the_widest_type_are_one_access() {
    let lanes = |text| flat(text, 256 * MIB, 80, &Choose::default()).spec.lanes;
    assert_eq!(lanes("in x: u8\ny: f64 = x"), 2);
    assert_eq!(lanes("in x: u8\ny: f32 = x"), 4);
    assert_eq!(lanes("in x: f64, m: bool\ny = select(m, x, 0)"), 2);
}

#[test]
fn functions_of_f64_with_many_registers_have_more_bytes_per_thread() {
    let unroll = |text: &str| flat(&format!("in x: f64\ny = {text}"), 8 * MIB, 90, &Choose::default()).spec.unroll;
    assert_eq!([unroll("exp(x)"), unroll("silu(x)*x")], [1, 2]);
}

#[test]
fn heavy_work_in_few_blocks_has_half_accesses_and_small_blocks() {
    let sizes = |blocks: u64, dependent: bool| {
        let choose = Choose { dependent, ..Choose::default() };
        let spec = flat("in x: f32, z: f32\ny = erf(erf(x))*erf(erf(z))", blocks * 4 * 256, 90, &choose).spec;
        assert_eq!(spec.unroll, 1);
        (spec.lanes, spec.threads)
    };
    // By whole accesses in blocks of 256; 1056 of them are a wave.
    let plain = [100, 1056, 1057].map(|blocks| sizes(blocks, false));
    assert_eq!(plain, [(2, 256), (2, 128), (4, 128)]);
    // Two launches fit up to 396 blocks.
    let overlapping = [198, 199, 396, 397, 1584, 1585].map(|blocks| sizes(blocks, true));
    assert_eq!(overlapping, [2, 4, 4, 2, 2, 4].map(|lanes| (lanes, 256)));
    // Halves of f64 are single elements.
    let wide = |blocks: u64, dependent: bool| {
        let choose = Choose { dependent, ..Choose::default() };
        flat("in x: f64, z: f64\ny = erf(erf(x))*erf(erf(z))", blocks * 2 * 256, 90, &choose).spec.lanes
    };
    assert_eq!([100, 1056, 1057].map(|blocks| wide(blocks, false)), [1, 1, 2]);
    assert_eq!([198, 199, 396, 397, 726, 727].map(|blocks| wide(blocks, true)), [1, 2, 2, 1, 1, 2]);
    // Halves of two bytes and eight would not have fewer elements.
    let spec = flat("in x: f64\ny: bool = erf(erf(x)) > 0", 100 * 2 * 256, 90, &Choose::default()).spec;
    assert_eq!(spec.lanes, 2);
    // By coordinates, up to half a wave.
    let strides: [(&[i64], u64); 3] = [(&[1024, 1], 0), (&[0, 1], 0), (&[1024, 1], 0)];
    let rows = |dtype: &str, rows: u64, dependent: bool| {
        let text = format!("in x: {dtype}, z: {dtype}\ny: {dtype} = erf(erf(x))*erf(erf(z))");
        let choose = Choose { dependent, ..Choose::default() };
        let spec = planned(&text, &[rows, 1024], &strides, 90, &choose).unwrap().spec;
        (spec.form, spec.lanes, spec.dependent)
    };
    let plain = [528, 529].map(|n| rows("f32", n, false));
    assert_eq!(plain, [2, 4].map(|lanes| (Form::Rows, lanes, Dependent::Exit)));
    assert_eq!(rows("f64", 100, false).0, Form::Strided);
    // A request for rows is for vectors.
    let forced = Choose { form: Some(Form::Rows), ..Choose::default() };
    let odd: [(&[i64], u64); 3] = [(&[1023, 1], 0), (&[0, 1], 0), (&[1023, 1], 0)];
    let spec = planned("in x: f32, z: f32\ny = erf(erf(x))*erf(erf(z))", &[100, 1023], &odd, 90, &forced).unwrap().spec;
    assert_eq!((spec.form, spec.lanes), (Form::Rows, 4));
    // Where two launches don't fit, but one leaves room, they don't overlap.
    let overlapping = [198, 300, 528, 726, 727].map(|n| rows("bf16", 2 * n, true));
    let (late, exit) = (Dependent::Tail, Dependent::Exit);
    let expected = [(4, late), (8, late), (4, late), (8, exit), (8, late)];
    assert_eq!(overlapping, expected.map(|(lanes, dependent)| (Form::Rows, lanes, dependent)));
    // Light work in small launches.
    assert_eq!(flat("in x: f32, z: f32, w: f32\ny = x*z + w", 1 << 17, 90, &Choose::default()).spec.lanes, 4);
}

#[test]
fn plain_launches_of_one_input_fit_on_the_device_at_once_where_four_vectors_suffice() {
    // Elements of a hundredth of a wave: all threads of all SMs, with four elements each.
    let hundredth = 132 * 2048 * 4 / 100;
    let unroll =
        |hundredths: u64, choose: &Choose| flat("in x: f32\ny = x + 1", hundredths * hundredth, 80, choose).spec.unroll;
    let plain = [99, 120, 199, 210, 399, 410].map(|hundredths| unroll(hundredths, &Choose::default()));
    assert_eq!(plain, [1, 2, 2, 4, 4, 1]);
    assert_eq!(unroll(150, &Choose { unroll: Some(1), ..Choose::default() }), 1);
    // Several inputs and heavy work gain nothing.
    let other = |text| flat(text, 150 * hundredth, 90, &Choose::default()).spec.unroll;
    assert_eq!(other("in x: f32, z: f32, w: f32\ny = x + z + w"), 1);
    assert_eq!(other("in x: f32\ny = erf(erf(erf(x)))"), 1);
    // By coordinates it is the same.
    let strides: [(&[i64], u64); 3] = [(&[1024, 1], 0), (&[0, 1], 0), (&[1024, 1], 0)];
    let rows = |rows| planned(BIAS, &[rows, 1024], &strides, 80, &Choose::default()).unwrap().spec;
    let shape = |spec: KernelSpec| (spec.form, spec.lanes, spec.unroll);
    assert_eq!([2048, 2250].map(|n| shape(rows(n))), [(Form::Rows, 8, 1), (Form::Rows, 8, 2)]);
}

#[test]
fn dependent_launches_have_one_vector_per_thread_where_two_do_not_fit_at_once() {
    let plan = |elements| {
        let indexing = Indexing { extents: vec![elements], accesses: vec![Access { strides: vec![1], phase: 0 }; 2] };
        let table = Table::for_device("NVIDIA H200", 90);
        let choose = Choose { dependent: true, ..Choose::default() };
        let spec = super::plan(&graph("in x: f32\ny = x*2"), &indexing, &device(90), &table, &choose).unwrap().spec;
        (spec.unroll, spec.dependent)
    };
    assert_eq!(plan(1_000_000), (4, Dependent::Early));
    assert_eq!(plan(1_700_000), (1, Dependent::Tail));
}

#[test]
fn long_rows_that_vectors_cross_compute_their_functions_once() {
    let rare = |text: &str, columns: i64| {
        let strides: [(&[i64], u64); 3] = [(&[columns, 1], 0), (&[1, 0], 0), (&[columns, 1], 0)];
        let spec = planned(text, &[512, columns as u64], &strides, 90, &Choose::default()).unwrap().spec;
        assert_eq!((spec.form, spec.lanes, spec.whole_rows), (Form::Rows, 4, columns % 4 == 0));
        spec.rare_turns
    };
    let (by_row, by_element) = ("in x: f32, z: f32\ny = x * exp(z)", "in x: f32, z: f32\ny = exp(x) * z");
    assert!(rare(by_row, 4099) && !rare(by_row, 999) && !rare(by_row, 4096));
    assert!(!rare(by_element, 4099));
}

#[test]
fn threads_move_at_least_32_bytes_in_large_launches() {
    let unroll = |text: &str, elements, dependent| {
        flat(text, elements, 80, &Choose { dependent, ..Choose::default() }).spec.unroll
    };
    let narrows = "in x: f32\ny: i8 = i8(x)";
    assert_eq!([narrows, "in x: f32\ny = x + 1"].map(|text| unroll(text, 64 * MIB, false)), [2, 1]);
    // Small ones, and dependent ones that overlap.
    assert_eq!((unroll(narrows, MIB, false), unroll(narrows, 64 * MIB, true)), (1, 2));
    assert_eq!(unroll(narrows, 5 * MIB, true), 1);
    // Vectors that cross the ends of rows take too many registers.
    let by_rows = |columns: u64| {
        let c = columns as i64;
        let strides: [(&[i64], u64); 3] = [(&[c, 1], 0), (&[1, 0], 0), (&[c, 1], 0)];
        let text = "in x: bf16, w: bf16\ny: f8e5m2 = x*w";
        planned(text, &[50_000, columns], &strides, 80, &Choose::default()).unwrap().spec.unroll
    };
    assert_eq!([1368, 1369].map(by_rows), [2, 1]);
}

#[test]
fn vectors_of_two_f64_are_doubled_where_they_share_long_functions() {
    let lanes = |text: &str, choose: &Choose| {
        let strides: [(&[i64], u64); 3] = [(&[1, 0], 0), (&[400, 1], 0), (&[400, 1], 0)];
        let text = format!("in x: f64, y: f64\nz = {text}");
        planned(&text, &[38_400, 400], &strides, 90, choose).unwrap().spec.lanes
    };
    let free = Choose::default();
    assert_eq!(
        ["erf(x)*tanh(x)*y", "gelu(x)*y", "x*y", "erf(y)*tanh(y)*x"].map(|text| lanes(text, &free)),
        [4, 2, 2, 2]
    );
    assert_eq!(lanes("erf(x)*tanh(x)*y", &Choose { vector: Some(16), ..free }), 2);
}
