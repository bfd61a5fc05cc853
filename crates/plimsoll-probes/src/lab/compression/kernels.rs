//! z = a·x + y over compressible memory, and data that compress more or less well.

use plimsoll_gen::pattern;

use crate::prelude::kernels::*;

/// The source of these kernels.
pub static SOURCE: Source =
    Source::new("compression", include_str!("kernel.cu"), |_| kernels()).with_access_rule(AccessRule::Stated);

/// Threads per block, as in the talk that this experiment follows.
pub const THREADS: u32 = 1024;

/// The data of the arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    /// Zeros.
    Zeros,
    /// The number one.
    Ones,
    /// Two random bytes of every four, the others zero: half as much information as room.
    Half,
    /// One random byte of every four: a quarter.
    Quarter,
    /// Pairs of bf16 weights, nearly normal with a standard deviation of 0.02.
    Weights,
    /// One random word of eight, at random places, the others zero.
    Sparse,
    /// Random bits, all but one of every word.
    Random,
}

/// The last kind, as a number.
const LAST_KIND: u64 = Kind::Random as u64;

impl Kind {
    /// Every kind, from the most compressible on.
    pub const ALL: [Self; 7] =
        [Self::Zeros, Self::Ones, Self::Quarter, Self::Half, Self::Sparse, Self::Weights, Self::Random];
}

/// Word `i` of an array, as in `kernel.cu`.
#[must_use]
pub fn datum(kind: Kind, seed: u64, i: u64) -> u32 {
    let x = pattern::bits(seed, i) & 0xbfff_ffff;
    match kind {
        Kind::Zeros => 0,
        Kind::Ones => 1.0_f32.to_bits(),
        Kind::Half => x & 0xffff_0000,
        Kind::Quarter => x & 0xff00_0000,
        Kind::Weights => weight(pattern::bits(seed, 2 * i)) << 16 | weight(pattern::bits(seed, 2 * i + 1)),
        Kind::Sparse if pattern::bits(!seed, i) >= 1 << 29 => 0,
        Kind::Sparse | Kind::Random => x,
    }
}

/// A bf16 weight.
fn weight(bits: u32) -> u32 {
    let sum: i32 = bits.to_le_bytes().into_iter().map(i32::from).sum();
    ((sum - 510) as f32 * 1.353e-4).to_bits() >> 16
}

/// A loop over any grid.
#[must_use]
pub fn looped() -> KernelDesc {
    let parameters = takes!(
        z: [fill 16; Times(16, &["n"])], x: [read 16; Times(16, &["n"])], y: [read 16; Times(16, &["n"])], a: F32, n: U64,
    );
    KernelDesc { parameters, looping: true, ..saxpy("loop", "COMPRESSION_LOOP") }
}

/// One vector per thread.
#[must_use]
pub fn once() -> KernelDesc {
    saxpy("once", "COMPRESSION_ONCE")
}

/// Fills an array.
#[must_use]
pub fn fill() -> KernelDesc {
    let parameters = takes!(
        out: [fill 16; Times(16, &["n"])], kind: U32 [Most(Is(LAST_KIND))], seed: U64,
        n: U64 [Most(Product(&[Blocks, Threads]))],
    );
    KernelDesc { parameters, element: Element::Word, inputs: 0, ..saxpy("fill", "COMPRESSION_FILL") }
}

fn saxpy(name: &str, entry: &str) -> KernelDesc {
    let name = format!("compression_{name}");
    KernelDesc {
        entry: format!("{entry}({name}, {THREADS})"),
        parameters: takes!(
            z: [fill 16; Times(16, &["n"])], x: [read 16; Times(16, &["n"])], y: [read 16; Times(16, &["n"])], a: F32,
            n: U64 [Most(Product(&[Blocks, Threads]))],
        ),
        element: Element::F32,
        inputs: 2,
        outputs: 1,
        vector_bytes: 16,
        grid: Grid::Cover,
        output: Output::Map,
        ..KernelDesc::new(&SOURCE, name, THREADS)
    }
}

/// All kernels.
#[must_use]
pub fn kernels() -> Vec<KernelDesc> {
    vec![looped(), once(), fill()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_are_finite_and_have_the_zeros_of_their_kind() {
        let words = |kind| (0..10_000).map(move |i| datum(kind, 7, i));
        let zeros = |kind| words(kind).flat_map(u32::to_le_bytes).filter(|byte| *byte == 0).count();
        assert_eq!(zeros(Kind::Zeros), 40_000);
        for (kind, least, most) in [
            (Kind::Half, 20_000, 20_500),
            (Kind::Quarter, 30_000, 30_300),
            (Kind::Sparse, 34_500, 35_500),
            (Kind::Random, 0, 300),
        ] {
            assert!((least..most).contains(&zeros(kind)), "{kind:?} {}", zeros(kind));
        }
        for kind in Kind::ALL {
            assert!(words(kind).all(|word| (2.0 * f32::from_bits(word)).is_finite()), "{kind:?}");
        }
        let weights = words(Kind::Weights).map(|word| f32::from_bits(word & 0xffff_0000));
        let variance = weights.map(|weight| f64::from(weight).powi(2)).sum::<f64>() / 10_000.0;
        assert!((variance.sqrt() / 0.02 - 1.0).abs() < 0.05, "{variance}");
    }
}
