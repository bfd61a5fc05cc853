//! Arithmetic operations per cycle of a multiprocessor, by compute capability, as NVIDIA publishes them. Multiplied by the clock
//! and the number of multiprocessors they give a device's theoretical peaks.

/// The source of the figures.
pub const SOURCE: &str = "CUDA C++ Programming Guide and NVIDIA's architecture white papers";

/// The kinds of arithmetic with their floating-point (or 8-bit integer) operations per cycle and multiprocessor at compute
/// capability 8.0, 8.6, 8.9 and 9.0; a multiply-add counts as two, matrices are dense, sums are f32 (f64 for f64, i32 for i8).
/// 0 where there is no such unit, or where devices of one capability differ (floating-point matrices at 8.6 and 8.9).
const PER_CYCLE: [(&str, [f64; 4]); 10] = [
    ("f64", [64.0, 4.0, 4.0, 128.0]),
    ("f32", [128.0, 256.0, 256.0, 256.0]),
    ("f16x2", [512.0, 256.0, 256.0, 512.0]),
    ("bf16x2", [256.0, 256.0, 256.0, 512.0]),
    ("f64 matrix", [128.0, 0.0, 0.0, 256.0]),
    ("tf32 matrix", [1024.0, 0.0, 0.0, 2048.0]),
    ("f16 matrix", [2048.0, 0.0, 0.0, 4096.0]),
    ("bf16 matrix", [2048.0, 0.0, 0.0, 4096.0]),
    ("f8 matrix", [0.0, 0.0, 0.0, 8192.0]),
    ("i8 matrix", [4096.0, 2048.0, 2048.0, 8192.0]),
];

/// The kinds of arithmetic with figures.
pub fn kinds() -> impl Iterator<Item = &'static str> {
    PER_CYCLE.iter().map(|(kind, _)| *kind)
}

/// Operations per cycle and multiprocessor of a compute capability (times ten); `None` where it isn't known.
#[must_use]
pub fn per_cycle(capability: u32, kind: &str) -> Option<f64> {
    let column = [80, 86, 89, 90].iter().position(|known| *known == capability)?;
    let (_, rates) = PER_CYCLE.iter().find(|(known, _)| *known == kind)?;
    Some(rates[column]).filter(|rate| *rate > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machines::{Arithmetic, machine};

    #[test]
    fn rates_times_clock_give_the_published_peaks() {
        for (name, capability) in [("A100 80GB", 80), ("H200", 90)] {
            let known = machine(name).unwrap();
            let scale = f64::from(known.multiprocessors.unwrap()) * known.boost_clock_hz.unwrap();
            for (kind, arithmetic) in
                [("f64", Arithmetic::F64), ("f32", Arithmetic::F32), ("f64 matrix", Arithmetic::F64Matrix)]
            {
                let (peak, ours) = (known.peak(arithmetic).unwrap(), per_cycle(capability, kind).unwrap() * scale);
                assert!((ours / peak - 1.0).abs() < 0.01, "{name} {kind}: {ours:e} and {peak:e}");
            }
        }
    }

    #[test]
    fn unknown_rates_are_none() {
        assert_eq!((per_cycle(75, "f32"), per_cycle(80, "f8 matrix"), per_cycle(90, "f4")), (None, None, None));
    }
}
