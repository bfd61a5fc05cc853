//! Atomic additions in shared and in global memory.

use crate::prelude::kernels::*;

/// The source of these kernels.
pub static SOURCE: Source = Source::new("atomics", include_str!("kernel.cu"), |_| kernels());

/// Threads per block of the kernels that measure a rate; each SM runs one block.
pub const THREADS: u32 = 1024;
/// Additions of a thread per iteration, in those and in chains.
pub const UNROLL: u32 = 8;

/// The type of number that is added to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Number {
    /// 32-bit whole numbers.
    U32,
    /// 64-bit whole numbers.
    U64,
    /// Single precision.
    F32,
    /// Two halves in a word, each a number.
    F16x2,
}

impl Number {
    /// All variants.
    pub const ALL: [Self; 4] = [Self::U32, Self::U64, Self::F32, Self::F16x2];

    /// Its name in figures and kernels.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::U32 => "u32",
            Self::U64 => "u64",
            Self::F32 => "f32",
            Self::F16x2 => "f16x2",
        }
    }

    /// Its size in bytes.
    #[must_use]
    pub fn bytes(self) -> u32 {
        if self == Self::U64 { 8 } else { 4 }
    }

    /// The word (in 64 bits) after `additions` of 1 to 0. Floating-point numbers stop growing where 1 is half a
    /// unit of the last place: ties go to even.
    #[must_use]
    pub fn sum(self, additions: u64) -> u64 {
        match self {
            Self::U32 => additions & u64::from(u32::MAX),
            Self::U64 => additions,
            Self::F32 => u64::from((additions.min(1 << 24) as f32).to_bits()),
            Self::F16x2 => {
                let half = u64::from(half_bits(additions.min(2048) as u32));
                half << 16 | half
            }
        }
    }
}

/// A whole number up to 2048 in half precision (IEEE 754 binary16: 5 bits of exponent, 10 of fraction).
fn half_bits(number: u32) -> u32 {
    let Some(exponent) = number.checked_ilog2() else { return 0 };
    (exponent + 15) << 10 | ((number << 10 >> exponent) & 0x3ff)
}

/// The memory that is added to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Space {
    /// Shared memory of each block.
    Shared,
    /// Global memory.
    Global,
}

impl Space {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Shared, Self::Global];

    fn name(self) -> &'static str {
        if self == Self::Shared { "shared" } else { "global" }
    }
}

/// Bytes of shared memory that the blocks write back, `n` words each.
const IN_SHARED: Amount = Amount::Product(&[Amount::Blocks, Amount::Of("n"), Amount::Vector]);
/// Words of shared memory up to the last thread's word.
const APART: Amount = {
    use Amount::{Is, Less, Of, Product, Sum, Threads};
    Sum(&[Product(&[Less(&Threads, &Is(1)), Of("apart")]), Is(1)])
};
/// Words that shared memory has room for.
const ROOM: Amount = Amount::Over(&Amount::Shared, &Amount::Vector);
/// Bytes of global memory up to the last thread's word.
const IN_GLOBAL: Amount = {
    use Amount::{Blocks, Is, Less, Of, Product, Sum, Threads, Vector};
    let last = Product(&[Less(&Product(&[Blocks, Threads]), &Is(1)), Of("apart")]);
    Product(&[Vector, Sum(&[last, Is(1)])])
};

/// Parameters of a rate kernel: the stored old values, the words that are added to, and the bounds of their number.
macro_rules! rate {
    ($out:tt, $at:tt $(, $bounds:tt)?) => {
        takes!(
            out: $out, cycles: [fill 8; PerBlock(8, &[])], at: $at, n: U32 $($bounds)?, apart: U32,
            one: U32 [Exactly(Is(1))], warm: U32, iterations: U32,
        )
    };
}

/// All threads add; `wanted` says whether the old values are used.
#[must_use]
pub fn rate(space: Space, number: Number, wanted: bool) -> KernelDesc {
    let form = if wanted { "atom" } else { "red" };
    let name = format!("atomics_{}_{form}_{}", space.name(), number.name());
    let (upper, kind) = (space.name().to_uppercase(), number.name().to_uppercase());
    KernelDesc {
        entry: format!("ATOMICS_RATE({name}, {kind}, {upper}, {wanted}, {UNROLL}, {THREADS})"),
        parameters: match (space, wanted) {
            (Space::Shared, true) => {
                rate!([fill 4; PerThread(4, &[])], [fill VECTOR; Bytes(IN_SHARED)], [Least(APART), Most(ROOM)])
            }
            (Space::Shared, false) => {
                rate!([write 4; Nothing], [fill VECTOR; Bytes(IN_SHARED)], [Least(APART), Most(ROOM)])
            }
            (Space::Global, true) => rate!([fill 4; PerThread(4, &[])], [update VECTOR; Bytes(IN_GLOBAL)]),
            (Space::Global, false) => rate!([write 4; Nothing], [update VECTOR; Bytes(IN_GLOBAL)]),
        },
        ..base(name, number, THREADS)
    }
}

/// One thread adds; the old value decides each next address.
#[must_use]
pub fn chain(space: Space, number: Number) -> KernelDesc {
    let name = format!("atomics_{}_chain_{}", space.name(), number.name());
    let (upper, kind) = (space.name().to_uppercase(), number.name().to_uppercase());
    KernelDesc {
        entry: format!("ATOMICS_CHAIN({name}, {kind}, {upper})"),
        parameters: if space == Space::Shared {
            takes!(
                cycles: [fill 8; PerBlock(8, &[])], at: [fill VECTOR; Bytes(Product(&[Blocks, Vector]))],
                mask: U32 [Exactly(Is(0))], one: U32 [Exactly(Is(1))], warm: U32, iterations: U32,
            )
        } else {
            takes!(
                cycles: [fill 8; PerBlock(8, &[])], at: [update VECTOR; Bytes(Vector)],
                mask: U32 [Exactly(Is(0))], one: U32 [Exactly(Is(1))], warm: U32, iterations: U32,
            )
        },
        grid: Grid::Blocks(1),
        ..base(name, number, 32)
    }
}

fn base(name: String, number: Number, threads: u32) -> KernelDesc {
    KernelDesc { vector_bytes: number.bytes(), unroll: UNROLL, ..resident(1, &SOURCE, name, threads) }
}

/// All kernels.
#[must_use]
pub fn kernels() -> Vec<KernelDesc> {
    let by_space = |space| {
        Number::ALL
            .into_iter()
            .flat_map(move |number| [rate(space, number, false), rate(space, number, true), chain(space, number)])
    };
    Space::ALL.into_iter().flat_map(by_space).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_match_repeated_addition_in_each_type() {
        assert_eq!(Number::U32.sum((1 << 32) + 3), 3);
        assert_eq!(Number::U64.sum((1 << 32) + 3), (1 << 32) + 3);
        assert_eq!(Number::F32.sum(3), u64::from(3_f32.to_bits()));
        let mut sum = 0.0_f32;
        for _ in 0..(1 << 24) + 9 {
            sum += 1.0;
        }
        assert_eq!(Number::F32.sum((1 << 24) + 9), u64::from(sum.to_bits()));
        // 1, 1.5 · 2¹ and 2¹¹ in half precision.
        assert_eq!([0, 1, 3, 4096].map(half_bits_of), [0, 0x3c00, 0x4200, 0x6800]);
        assert_eq!(Number::F16x2.sum(1), 0x3c00_3c00);
    }

    fn half_bits_of(number: u32) -> u32 {
        half_bits(number.min(2048))
    }
}
