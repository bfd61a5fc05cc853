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
    assert_eq!(of(1726, 1728), (8, false, input(Inner::Unit)));
    assert_eq!(of(1719, 1727), (8, false, input(Inner::Unit)));
    assert_eq!(of(1720, 1727), (8, true, input(Inner::Shifted)));
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
