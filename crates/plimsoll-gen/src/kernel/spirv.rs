//! Kernels for Vulkan: which descriptions have SPIR-V, and with which constants. The code is built from GLSL in `kernels/vulkan` and
//! committed beside it (`cargo xtask spirv` compares them).
//!
//! A kernel takes one block of push constants: the parameters of its description in order, each at a multiple of its size, arrays
//! as addresses, and then the number of blocks as 32 bits. Constant 0 of each module is the number of threads per block.

use super::stream::Op;
use super::{Element, Index, KernelDesc, Source};

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
    /// Its file in `kernels/vulkan`.
    pub file: &'static str,
    /// The GLSL there that it is made of.
    pub source: &'static str,
    /// What is defined for the compiler.
    pub defines: &'static [&'static str],
    /// Its content.
    pub words: &'static [u8],
}

/// Modules: a name here, the file, its source and what is defined.
macro_rules! builds {
    ($($name:ident = $file:literal, $source:literal, [$($define:literal),*];)*) => {
        $(const $name: Build = Build {
            file: $file,
            source: $source,
            defines: &[$($define),*],
            words: include_bytes!(concat!("../../kernels/vulkan/", $file)),
        };)*

        /// Every module.
        pub const BUILDS: &[Build] = &[$($name),*];
    };
}

builds! {
    EMPTY = "empty.spv", "empty.comp", [];
    SPIN = "spin.spv", "spin.comp", [];
    SPIN_CYCLES = "spin_cycles.spv", "spin.comp", ["CYCLES"];
    SPIN_TIMER = "spin_timer.spv", "spin.comp", ["CYCLES", "TIMER"];
    FILL = "fill.spv", "fill.comp", [];
    FILL_DOUBLE = "fill_double.spv", "fill.comp", ["DOUBLE"];
    FILL_WORDS = "fill_words.spv", "fill_words.comp", [];
    CHECK_MAP = "check_map.spv", "check_map.comp", [];
    CHECK_MAP_EXACT = "check_map_exact.spv", "check_map.comp", ["EXACT"];
    CHECK_MAP_DOUBLE = "check_map_double.spv", "check_map.comp", ["DOUBLE"];
    CHECK_MAP_WORDS = "check_map_words.spv", "check_map.comp", ["WORDS"];
    CHECK_MIX = "check_mix.spv", "check_mix.comp", [];
    FOLD_WORDS = "fold_words.spv", "fold_words.comp", [];
    SUM = "sum.spv", "sum.comp", [];
    SUM_DOUBLE = "sum_double.spv", "sum.comp", ["DOUBLE"];
    COPY = "copy.spv", "copy.comp", [];
    COPY_NARROW = "copy_narrow.spv", "copy.comp", ["NARROW"];
    LATENCY_BUILD = "latency_build.spv", "latency_build.comp", [];
    LATENCY_CHASE = "latency_chase.spv", "latency_chase.comp", [];
    LATENCY_CHASE_CYCLES = "latency_chase_cycles.spv", "latency_chase.comp", ["CYCLES"];
    LATENCY_CHASE_TIMER = "latency_chase_timer.spv", "latency_chase.comp", ["CYCLES", "TIMER"];
    LAUNCH_SCALE = "launch_scale.spv", "launch_scale.comp", [];
    DISPATCH_MARKED = "dispatch_marked.spv", "dispatch_marked.comp", [];
    STREAM = "stream.spv", "stream.comp", [];
}

/// The number by which `check_map.comp` knows marks of blocks; operations have their place in [`Op::ALL`].
const MARKS: u32 = 100;
/// Most vectors in hand of `stream.comp`.
const MOST_UNROLLED: u32 = 8;

const NOT_WRITTEN: &str = "it is not written for Vulkan";
const NO_DOUBLE: &str = "the device has no double precision (shaderFloat64)";
const NO_ATOMICS: &str = "the device has no 64-bit atomics in memory (shaderBufferInt64Atomics)";

/// The code of a kernel for a device.
///
/// # Errors
/// Why there is none.
pub fn code(kernel: &KernelDesc, features: Features) -> Result<Spirv, &'static str> {
    if kernel.cooperative || kernel.dependent {
        return Err("Vulkan has neither cooperative nor dependent launches");
    }
    let plain = |build: Build, constants: &[(u32, u32)]| {
        Ok(Spirv { words: build.words, constants: constants.to_vec(), clock: false })
    };
    match (kernel.source, kernel.name.as_str()) {
        (Source::Clock, "plimsoll_empty") | (Source::Launch, "launch_empty") => plain(EMPTY, &[]),
        (Source::Dispatch, name) if name.starts_with("dispatch_empty_") => plain(EMPTY, &[]),
        (Source::Dispatch, name) if name.starts_with("dispatch_marked_") => plain(DISPATCH_MARKED, &[]),
        (Source::Clock, "plimsoll_spin") => {
            let long = u32::from(features.short_loops);
            Ok(clocked([SPIN, SPIN_CYCLES, SPIN_TIMER], &[(1, long)], features))
        }
        (Source::Launch, "launch_scale") => plain(LAUNCH_SCALE, &[]),
        (Source::Latency, "latency_build") => plain(LATENCY_BUILD, &[]),
        (Source::Latency, "latency_chase") => Ok(clocked(CHASES, &[(1, 0)], features)),
        (Source::Latency, "latency_chase_past_l1") => Ok(clocked(CHASES, &[(1, 1)], features)),
        (Source::Copy, name) => copy(kernel, name),
        (Source::Stream, _) => stream(kernel),
        (Source::Check, name) => check(kernel, name, features),
        _ => Err(NOT_WRITTEN),
    }
}

const CHASES: [Build; 3] = [LATENCY_CHASE, LATENCY_CHASE_CYCLES, LATENCY_CHASE_TIMER];

/// Of a kernel without clocks, with cycles, and with the device's timer too: what the device can do.
fn clocked([none, cycles, timer]: [Build; 3], constants: &[(u32, u32)], features: Features) -> Spirv {
    let build = match features {
        Features { cycles: true, timer: true, .. } => timer,
        Features { cycles: true, .. } => cycles,
        _ => none,
    };
    Spirv { words: build.words, constants: constants.to_vec(), clock: true }
}

fn copy(kernel: &KernelDesc, name: &str) -> Result<Spirv, &'static str> {
    let width = match kernel.lanes() {
        _ if name.starts_with("copy_naive") => 0,
        width @ (1 | 2 | 4 | 8) => width,
        _ => return Err(NOT_WRITTEN),
    };
    let build = if kernel.index == Index::U32 { COPY_NARROW } else { COPY };
    Ok(Spirv { words: build.words, constants: vec![(1, width)], clock: false })
}

fn stream(kernel: &KernelDesc) -> Result<Spirv, &'static str> {
    let op = Op::ALL.iter().position(|op| kernel.name.starts_with(&format!("stream_{}_", op.name())));
    let op = op.ok_or(NOT_WRITTEN)? as u32;
    if kernel.element != Element::F32 {
        return Err("streams of double precision are not written for Vulkan");
    }
    if kernel.hints.bits() != 0 || kernel.name.contains("_bulk") {
        return Err("Vulkan has neither cache hints nor bulk copies");
    }
    if !matches!(kernel.vector_bytes, 4 | 8 | 16) || kernel.unroll > MOST_UNROLLED {
        return Err("no vector of Vulkan's is longer than 16 bytes");
    }
    let constants = vec![(1, op), (2, kernel.lanes()), (3, kernel.unroll), (4, u32::from(kernel.looping))];
    Ok(Spirv { words: STREAM.words, constants, clock: false })
}

fn check(kernel: &KernelDesc, name: &str, features: Features) -> Result<Spirv, &'static str> {
    let double = kernel.element == Element::F64;
    if double && !features.double {
        return Err(NO_DOUBLE);
    }
    let chosen = |single: Build, of_double: Build| if double { of_double } else { single };
    let (build, constants, atomics) = match name {
        "fill_words" => (FILL_WORDS, vec![], false),
        "fold_words" => (FOLD_WORDS, vec![], false),
        "check_mix" => (CHECK_MIX, vec![], true),
        "check_marks" => (CHECK_MAP_WORDS, vec![(1, MARKS)], true),
        _ if name.starts_with("fill_bits_") => (chosen(FILL, FILL_DOUBLE), vec![(1, 0)], false),
        _ if name.starts_with("fill_unit_") => (chosen(FILL, FILL_DOUBLE), vec![(1, 1)], false),
        _ if name.starts_with("fill_small_") => (chosen(FILL, FILL_DOUBLE), vec![(1, 2)], false),
        _ if name.starts_with("sum_") => {
            if !features.double {
                return Err(NO_DOUBLE);
            }
            (chosen(SUM, SUM_DOUBLE), vec![(1, u32::from(name.starts_with("sum_products_")))], true)
        }
        _ => {
            let op = Op::ALL.iter().position(|op| name.starts_with(&format!("check_{}_", op.name())));
            let op = op.ok_or(NOT_WRITTEN)? as u32;
            let single = match kernel.element {
                Element::Word => CHECK_MAP_WORDS,
                _ if features.double => CHECK_MAP_EXACT,
                _ => CHECK_MAP,
            };
            (chosen(single, CHECK_MAP_DOUBLE), vec![(1, op)], true)
        }
    };
    if atomics && !features.atomics {
        return Err(NO_ATOMICS);
    }
    Ok(Spirv { words: build.words, constants, clock: false })
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::Target;
    use crate::kernel::{check, clock, copy, latency, stream};

    const ALL: Features = Features { cycles: true, timer: true, double: true, atomics: true, short_loops: false };

    #[test]
    fn every_module_is_spirv_and_has_a_file_of_its_own() {
        let files: BTreeSet<&str> = BUILDS.iter().map(|build| build.file).collect();
        assert_eq!(files.len(), BUILDS.len());
        for build in BUILDS {
            assert!(build.words.starts_with(&[3, 2, 0x23, 7]) && build.words.len() % 4 == 0, "{}", build.file);
        }
    }

    #[test]
    fn every_module_is_used_by_a_kernel() {
        let kernels: Vec<KernelDesc> =
            Source::ALL.iter().flat_map(|source| source.kernels(Target::plain(80))).collect();
        let sets = [ALL, Features { timer: false, double: false, ..ALL }, Features::default()];
        let used: BTreeSet<&[u8]> = sets
            .iter()
            .flat_map(|features| kernels.iter().filter_map(|kernel| code(kernel, *features).ok()))
            .map(|spirv| spirv.words)
            .collect();
        for build in BUILDS {
            assert!(used.contains(build.words), "{}", build.file);
        }
    }

    #[test]
    fn what_checks_and_calibrates_is_there_in_full() {
        for kernel in check::kernels().iter().chain(&clock::kernels()).chain(&latency::kernels()) {
            assert!(code(kernel, ALL).is_ok(), "{}", kernel.name);
        }
        let copies = copy::kernels();
        assert!(copies.iter().all(|kernel| code(kernel, ALL).is_ok()));
        for op in stream::Op::ALL {
            assert!(code(&stream::Parameters::new(op).kernel(), ALL).is_ok(), "{}", op.name());
        }
    }

    #[test]
    fn a_device_without_a_feature_is_told_which() {
        let reason = |kernel: &KernelDesc| code(kernel, Features::default()).unwrap_err();
        assert!(reason(&check::sum(true, Element::F32)).contains("shaderFloat64"));
        assert!(reason(&check::marks()).contains("shaderBufferInt64Atomics"));
        assert!(reason(&check::fill(check::Data::Unit, Element::F64)).contains("shaderFloat64"));
    }

    #[test]
    fn parameters_lie_at_multiples_of_their_sizes() {
        // out, a, b, c, s, n, blocks.
        let triad = stream::Parameters::new(stream::Op::Triad).kernel();
        assert_eq!(offsets(&triad), (vec![0, 8, 16, 24, 32, 40, 48], 52));
        // out, in, n, blocks.
        assert_eq!(offsets(&copy::naive(Index::U32)), (vec![0, 8, 16, 20], 24));
        assert_eq!(offsets(&clock::empty()), (vec![0], 4));
    }
}
