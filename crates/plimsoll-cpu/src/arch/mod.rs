//! CPU kernels: pure functions over slices, chosen by instruction set at run time.
//!
//! The functions here compute or access memory and return. They don't read a clock, start threads or allocate the memory
//! that they measure; the probes do that. Each kernel is either written once over a few vector operations ([`stream`],
//! [`intensity`]), or is an assembly loop if a particular instruction is measured ([`instruction`], [`stride`]); [`chase`] is
//! one load per hop. [`cpuid`], [`tsc`] and [`cycle`] wrap instructions that Rust has no safe function for.

pub mod chase;
pub mod cpuid;
pub mod cycle;
pub mod instruction;
pub mod intensity;
pub(crate) mod math;
pub mod stream;
pub mod stride;
pub mod tsc;

#[cfg(target_arch = "aarch64")]
pub(crate) mod aarch64;
pub(crate) mod generic;
#[allow(unnameable_types, reason = "only a sealed trait shows its traits")]
mod vector;
pub(crate) mod vectored;
#[cfg(target_arch = "x86_64")]
pub(crate) mod x86_64;

/// An instruction set that the vector kernels are compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Isa {
    /// AVX-512 Foundation: 64-byte vectors.
    Avx512,
    /// AVX2 with FMA: 32-byte vectors.
    Avx2,
    /// SSE2: 16-byte vectors, on every x86-64 machine.
    Sse2,
    /// NEON: 16-byte vectors, on every 64-bit Arm machine.
    Neon,
    /// Arrays of 32 bytes, compiled for the target's base instruction set, on any machine.
    Generic,
}

impl Isa {
    /// Every set, the widest first.
    pub const ALL: [Isa; 5] = [Isa::Avx512, Isa::Avx2, Isa::Sse2, Isa::Neon, Isa::Generic];

    /// Whether this machine, and its operating system, can run the set.
    pub fn is_available(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => is_x86_feature_detected!("avx512f") && Isa::Avx2.is_available(),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"),
            #[cfg(target_arch = "x86_64")]
            Isa::Sse2 => true,
            #[cfg(target_arch = "aarch64")]
            Isa::Neon => true,
            Isa::Generic => true,
            #[allow(unreachable_patterns, reason = "which sets remain depends on the architecture")]
            _ => false,
        }
    }

    /// Its name in records and tables.
    pub fn name(self) -> &'static str {
        match self {
            Isa::Avx512 => "avx512",
            Isa::Avx2 => "avx2",
            Isa::Sse2 => "sse2",
            Isa::Neon => "neon",
            Isa::Generic => "generic",
        }
    }

    /// Bytes in one vector.
    pub fn vector_bytes(self) -> usize {
        match self {
            Isa::Avx512 => 64,
            Isa::Avx2 | Isa::Generic => 32,
            Isa::Sse2 | Isa::Neon => 16,
        }
    }

    /// Whether it has stores that bypass the caches.
    pub fn has_nontemporal(self) -> bool {
        matches!(self, Isa::Avx512 | Isa::Avx2 | Isa::Sse2)
    }
}

/// The sets that this machine can run, the widest first; [`Isa::Generic`] is always the last.
pub fn available() -> Vec<Isa> {
    Isa::ALL.into_iter().filter(|isa| isa.is_available()).collect()
}

/// The widest set that this machine can run.
pub fn best() -> Isa {
    Isa::ALL.into_iter().find(|isa| isa.is_available()).unwrap_or(Isa::Generic)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_machine_has_a_set_and_the_best_is_the_first() {
        let sets = available();
        assert_eq!(sets.last(), Some(&Isa::Generic));
        assert_eq!(sets.first(), Some(&best()));
    }
}
