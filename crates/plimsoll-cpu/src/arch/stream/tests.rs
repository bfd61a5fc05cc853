//! Every stream kernel against its plain loop, on every set, at any length and alignment.

use super::*;
use crate::arch::available;
use proptest::prelude::*;

const BOTH: [Stores; 2] = [Stores::Ordinary, Stores::NonTemporal];

/// The value around a target, which detects writes outside it.
const GUARD: f64 = -7.25;

fn kernels() -> impl Iterator<Item = (StreamKernels, Stores)> {
    let sets = available().into_iter().filter_map(StreamKernels::new);
    sets.flat_map(|kernels| BOTH.map(|stores| (kernels, stores)))
}

/// Runs `kernel` on a target of `length` that starts `offset` elements into its memory; fails if it writes outside.
fn target(length: usize, offset: usize, kernel: impl FnOnce(&mut [f64])) -> Vec<f64> {
    let mut memory = vec![GUARD; offset + length + 8];
    kernel(&mut memory[offset..offset + length]);
    assert!(memory[..offset].iter().chain(&memory[offset + length..]).all(|&x| x == GUARD), "wrote outside its target");
    memory[offset..offset + length].to_vec()
}

/// Equal bit for bit, or both NaN.
fn same(a: f64, b: f64) -> bool {
    a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
}

/// Whether all of `got` is `b + c·d`, fused for all elements or for none.
fn is_triad(got: &[f64], b: &[f64], c: &[f64], d: impl Fn(usize) -> f64) -> bool {
    let matches = |value: &dyn Fn(usize) -> f64| got.iter().enumerate().all(|(i, &x)| same(x, value(i)));
    matches(&|i| c[i] * d(i) + b[i]) || matches(&|i| c[i].mul_add(d(i), b[i]))
}

fn element() -> impl Strategy<Value = f64> {
    prop_oneof![
        20 => -1e6..1e6f64,
        1 => Just(f64::NAN),
        1 => Just(f64::INFINITY),
        1 => Just(f64::NEG_INFINITY),
        1 => Just(-0.0),
        1 => Just(5e-324),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn every_elementwise_kernel_matches_its_plain_loop(
        memory in prop::collection::vec(element(), 230),
        length in 0..200usize,
        offset in 0..9usize,
        source in 0..9usize,
        s in element(),
    ) {
        let b = &memory[source..source + length];
        let c = &memory[8 - source..8 - source + length];
        let d = &memory[source + 3..source + 3 + length];
        let halo = &memory[source..];
        for (k, stores) in kernels() {
            let check = |name: &str, kernel: &dyn Fn(&mut [f64]), value: &dyn Fn(usize) -> f64| {
                let got = target(length, offset, kernel);
                for (i, &x) in got.iter().enumerate() {
                    assert!(same(x, value(i)), "{name} {k:?} {stores:?}: element {i} is {x}, not {}", value(i));
                }
            };
            check("init", &|a| k.init(a, s, stores), &|_| s);
            check("copy", &|a| k.copy(a, b, stores), &|i| b[i]);
            check("scale", &|a| k.scale(a, b, s, stores), &|i| b[i] * s);
            check("add", &|a| k.add(a, b, c, stores), &|i| b[i] + c[i]);
            check("3-point", &|a| k.three_point(a, &halo[..length + 2], stores), &|i| halo[i] + halo[i + 1] + halo[i + 2]);
            check("5-point", &|a| k.five_point(a, &halo[..length + 4], stores), &|i| {
                halo[i] + halo[i + 1] + halo[i + 2] + halo[i + 3] + halo[i + 4]
            });
            prop_assert!(is_triad(&target(length, offset, |a| k.triad(a, b, c, s, stores)), b, c, |_| s));
            prop_assert!(is_triad(&target(length, offset, |a| k.schoenauer(a, b, c, d, stores)), b, c, |i| d[i]));
        }
    }

    #[test]
    fn sums_include_every_element_exactly_once(
        a in prop::collection::vec(-1000..1000i32, 0..200),
        b in prop::collection::vec(-1000..1000i32, 200),
        from in 0..9usize,
    ) {
        // integers, so that the order of additions doesn't matter
        let a: Vec<f64> = a.into_iter().map(f64::from).collect();
        let b: Vec<f64> = b.into_iter().map(f64::from).collect();
        let a = &a[from.min(a.len())..];
        let b = &b[..a.len()];
        for (k, _) in kernels() {
            prop_assert_eq!(k.read(a), a.iter().sum::<f64>() + 0.0);
            prop_assert_eq!(k.dot(a, b), a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>() + 0.0);
        }
    }
}

#[test]
fn a_single_nan_reaches_the_sum_from_any_position() {
    for (k, _) in kernels() {
        for at in 0..150 {
            let mut a = vec![1.0; 150];
            a[at] = f64::NAN;
            assert!(k.read(&a).is_nan());
            assert!(k.dot(&a, &[1.0; 150]).is_nan());
        }
    }
}

#[test]
#[should_panic(expected = "elements where")]
fn operands_of_another_length_are_refused() {
    StreamKernels::best().copy(&mut [0.0; 8], &[0.0; 7], Stores::Ordinary);
}

#[test]
#[should_panic(expected = "elements where")]
fn a_stencil_without_its_halo_is_refused() {
    StreamKernels::best().three_point(&mut [0.0; 8], &[0.0; 8], Stores::Ordinary);
}

#[test]
fn a_set_of_another_architecture_gives_no_kernels() {
    let foreign = if cfg!(target_arch = "aarch64") { Isa::Sse2 } else { Isa::Neon };
    assert_eq!(StreamKernels::new(foreign), None);
}
