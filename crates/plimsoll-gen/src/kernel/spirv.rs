//! Kernels for Vulkan: what a source says of its SPIR-V. The code is built from GLSL and committed with it (`cargo xtask spirv`
//! compares them). Which descriptions have code, and with which constants, is each source's to say.
//!
//! A kernel takes one block of push constants: the parameters of its description in order, each at a multiple of its size, arrays
//! as addresses, and then the number of blocks as 32 bits. Constant 0 of each module is the number of threads per block.

use super::KernelDesc;

/// What a device offers to kernels beyond 64-bit addresses and integers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// A clock of cycles (`shaderSubgroupClock`).
    pub cycles: bool,
    /// A clock of the whole device (`shaderDeviceClock`).
    pub timer: bool,
    /// Double precision (`shaderFloat64`).
    pub double: bool,
    /// Atomics of 64 bits in memory (`shaderBufferInt64Atomics`).
    pub atomics: bool,
    /// Loops of many iterations are ended early: what must last has few long ones.
    pub short_loops: bool,
}

/// A kernel's code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spirv {
    /// The module, little-endian words.
    pub words: &'static [u8],
    /// Specialisation constants beside the number of threads: number and value.
    pub constants: Vec<(u32, u32)>,
    /// Whether it reads a clock, whose step is constant [`STEP`].
    pub clock: bool,
}

/// The constant that says how long a step of the kernel's clock is: nanoseconds times 2²⁴.
pub const STEP: u32 = 15;

/// One module, as it is built.
#[derive(Clone, Copy, Debug)]
pub struct Build {
    /// The folder of its files, from the repository's root.
    pub folder: &'static str,
    /// Its file there.
    pub file: &'static str,
    /// The GLSL there that it is made of.
    pub source: &'static str,
    /// What is defined for the compiler.
    pub defines: &'static [&'static str],
    /// Its content.
    pub words: &'static [u8],
}

/// Modules: the folder of their files from the repository's root and from the file that includes them; then a name here, the file, its
/// source and what is defined. `BUILDS` is all of them.
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

/// Why a kernel has no code that nobody wrote.
pub const NOT_WRITTEN: &str = "it is not written for Vulkan";

/// The code of a kernel for a device.
///
/// # Errors
/// Why there is none.
pub fn code(kernel: &KernelDesc, features: Features) -> Result<Spirv, &'static str> {
    if kernel.cooperative || kernel.dependent {
        return Err("Vulkan has neither cooperative nor dependent launches");
    }
    kernel.source.spirv(kernel, features)
}

impl Spirv {
    /// A module that reads no clock, with these constants.
    #[must_use]
    pub fn new(build: Build, constants: Vec<(u32, u32)>) -> Self {
        Self { words: build.words, constants, clock: false }
    }

    /// Of a kernel without clocks, with cycles, and with the device's timer too: what the device can do.
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

/// Offset of each parameter in a kernel's push constants, then that of the number of blocks, and the bytes of all.
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
