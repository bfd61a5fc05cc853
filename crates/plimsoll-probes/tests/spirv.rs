//! Kernels for Vulkan: which descriptions have code, and the offsets of their parameters.

use std::collections::BTreeSet;

use plimsoll_gen::Target;
use plimsoll_gen::kernel::spirv::{Build, Features, code, offsets};
use plimsoll_gen::kernel::{Element, Index, KernelDesc, Op, check, clock};
use plimsoll_probes::copy::kernels as copy;
use plimsoll_probes::latency::kernels as latency;
use plimsoll_probes::sources;
use plimsoll_probes::stream::kernels as stream;

/// Every module of every source.
fn builds() -> impl Iterator<Item = &'static Build> {
    sources().iter().flat_map(|source| source.builds())
}

const ALL: Features = Features { cycles: true, timer: true, double: true, atomics: true, short_loops: false };

#[test]
fn every_module_is_spirv_in_its_own_file() {
    let files: BTreeSet<&str> = builds().map(|build| build.file).collect();
    assert_eq!(files.len(), builds().count());
    for build in builds() {
        assert!(build.words.starts_with(&[3, 2, 0x23, 7]) && build.words.len() % 4 == 0, "{}", build.file);
    }
}

#[test]
fn every_module_is_used_by_a_kernel() {
    let kernels: Vec<KernelDesc> = sources().iter().flat_map(|source| source.kernels(Target::plain(80))).collect();
    let sets = [ALL, Features { timer: false, double: false, ..ALL }, Features::default()];
    let used: BTreeSet<&[u8]> = sets
        .iter()
        .flat_map(|features| kernels.iter().filter_map(|kernel| code(kernel, *features).ok()))
        .map(|spirv| spirv.words)
        .collect();
    for build in builds() {
        assert!(used.contains(build.words), "{}", build.file);
    }
}

#[test]
fn check_and_calibration_kernels_are_complete() {
    for kernel in check::kernels().iter().chain(&clock::kernels()).chain(&latency::kernels()) {
        assert!(code(kernel, ALL).is_ok(), "{}", kernel.name);
    }
    let copies = copy::kernels();
    assert!(copies.iter().all(|kernel| code(kernel, ALL).is_ok()));
    for op in Op::ALL {
        assert!(code(&stream::Parameters::new(op).kernel(), ALL).is_ok(), "{}", op.name());
    }
}

#[test]
fn error_names_the_missing_feature() {
    let reason = |kernel: &KernelDesc| code(kernel, Features::default()).unwrap_err();
    assert!(reason(&check::sum(true, Element::F32)).contains("shaderFloat64"));
    assert!(reason(&check::marks()).contains("shaderBufferInt64Atomics"));
    assert!(reason(&check::fill(check::Data::Unit, Element::F64)).contains("shaderFloat64"));
}

#[test]
fn parameter_offsets_are_multiples_of_their_sizes() {
    // out, a, b, c, s, n, blocks.
    let triad = stream::Parameters::new(Op::Triad).kernel();
    assert_eq!(offsets(&triad), (vec![0, 8, 16, 24, 32, 40, 48], 52));
    // out, in, n, blocks.
    assert_eq!(offsets(&copy::naive(Index::U32)), (vec![0, 8, 16, 20], 24));
    assert_eq!(offsets(&clock::empty()), (vec![0], 4));
}
