//! Kernels for Vulkan. The SPIR-V is built from GLSL and committed next to it (`cargo xtask spirv` compares them). Each
//! source states which of its kernels have code, and with which specialisation constants.
//!
//! A kernel takes one block of push constants: the parameters of its description in order, each aligned to its size, arrays
//! as addresses, and then the number of blocks as 32 bits. Constant 0 of each module is the number of threads per block.

use super::KernelDesc;

/// Optional device features; 64-bit addresses and integers are required anyway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// A cycle counter (`shaderSubgroupClock`).
    pub cycles: bool,
    /// A device-wide clock (`shaderDeviceClock`).
    pub timer: bool,
    /// Double precision (`shaderFloat64`).
    pub double: bool,
    /// 64-bit atomics in memory (`shaderBufferInt64Atomics`).
    pub atomics: bool,
    /// The device ends loops of many iterations early, so kernels that must run long use few long iterations.
    pub short_loops: bool,
}

/// A kernel's code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spirv {
    /// The module, little-endian words.
    pub words: &'static [u8],
    /// Specialisation constants other than the number of threads: number and value.
    pub constants: Vec<(u32, u32)>,
    /// Whether it reads a clock; constant [`STEP`] is then its step.
    pub clock: bool,
}

/// Number of the constant for the length of a clock step: nanoseconds times 2²⁴.
pub const STEP: u32 = 15;

/// One compiled module.
#[derive(Clone, Copy, Debug)]
pub struct Build {
    /// The folder of its files, from the repository's root.
    pub folder: &'static str,
    /// Its file there.
    pub file: &'static str,
    /// Its GLSL source there.
    pub source: &'static str,
    /// Preprocessor definitions.
    pub defines: &'static [&'static str],
    /// The SPIR-V, little-endian words.
    pub words: &'static [u8],
}

/// Declares modules. First the folder of their files, relative to the repository's root and to the invoking file; then for
/// each module a constant's name, its file, its source and its definitions. `BUILDS` lists them all.
#[macro_export]
macro_rules! spirv_builds {
    ($folder:literal, $here:literal: $($name:ident = $file:literal, $source:literal, [$($define:literal),*];)*) => {
        $(const $name: $crate::kernel::spirv::Build = $crate::kernel::spirv::Build {
            folder: $folder,
            file: $file,
            source: $source,
            defines: &[$($define),*],
            words: include_bytes!(concat!($here, $file)),
        };)*

        /// Every module of this source.
        const BUILDS: &[$crate::kernel::spirv::Build] = &[$($name),*];
    };
}
pub use spirv_builds;

/// The reason for kernels that have no Vulkan version.
pub const NOT_WRITTEN: &str = "it is not written for Vulkan";

/// The code of a kernel for a device, or the reason that there is none.
pub fn code(kernel: &KernelDesc, features: Features) -> Result<Spirv, &'static str> {
    if kernel.cooperative || kernel.dependent {
        return Err("Vulkan has no cooperative and no dependent launches");
    }
    kernel.source.spirv(kernel, features)
}

impl Spirv {
    /// A module that reads no clock, with these constants.
    #[must_use]
    pub fn new(build: Build, constants: Vec<(u32, u32)>) -> Self {
        Self { words: build.words, constants, clock: false }
    }

    /// Of three builds (no clock; cycle counter; cycle counter and device timer), the best one that the device supports.
    #[must_use]
    pub fn clocked([none, cycles, timer]: [Build; 3], constants: Vec<(u32, u32)>, features: Features) -> Self {
        let build = match features {
            Features { cycles: true, timer: true, .. } => timer,
            Features { cycles: true, .. } => cycles,
            _ => none,
        };
        Self { words: build.words, constants, clock: true }
    }
}

/// Offsets of a kernel's parameters and of the number of blocks in its push constants, and their total bytes.
#[must_use]
pub fn offsets(kernel: &KernelDesc) -> (Vec<u64>, u64) {
    let mut end = 0_u64;
    let sizes = kernel.parameters.iter().map(|parameter| parameter.bytes(kernel)).chain([4]);
    let offsets = sizes.map(|bytes| {
        let offset = end.next_multiple_of(bytes);
        end = offset + bytes;
        offset
    });
    (offsets.collect(), end)
}
