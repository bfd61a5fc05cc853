//! Every kernel of every probe: its description is consistent and matches its source.

use std::collections::BTreeSet;

use plimsoll_core::model::{Cache, LaunchForm};
use plimsoll_core::probe::Depth;
use plimsoll_gen::Target;
use plimsoll_gen::describe::describe_kernel;
use plimsoll_gen::kernel::{Amount, KernelDesc, Machine, Number};
use plimsoll_gpu::verify::awkward_sizes;
use plimsoll_probes::sources;

fn all_kernels() -> Vec<KernelDesc> {
    sources().iter().flat_map(|source| source.kernels(Target::plain(100))).collect()
}

#[test]
fn entry_points_have_unique_names() {
    let kernels = all_kernels();
    let names: BTreeSet<&str> = kernels.iter().map(|kernel| kernel.name.as_str()).collect();
    assert_eq!(names.len(), kernels.len());
}

#[test]
fn an_entry_names_its_kernel_and_a_macro_of_its_source() {
    for kernel in all_kernels() {
        if kernel.entry.is_empty() {
            assert!(kernel.source.text().contains(&format!(" {}(", kernel.name)), "{}", kernel.name);
            continue;
        }
        let (used, _) = kernel.entry.split_once('(').unwrap();
        let define = format!("#define {used}(name");
        let mut texts = kernel.source.headers().into_iter().map(|(_, text)| text).chain([kernel.source.text()]);
        assert!(texts.any(|text| text.contains(&define)), "{}", kernel.entry);
        assert!(kernel.entry.contains(&kernel.name), "{}", kernel.entry);
    }
}

#[test]
fn sources_have_their_required_header() {
    for source in sources() {
        let text = source.text();
        assert!(text.starts_with(&format!("// {}: ", source.name())), "{}", source.name());
        assert!(
            text.contains("// Why the compiler keeps it:") && text.contains("// Its loop in SASS:"),
            "{}",
            source.name()
        );
        assert!(!text.contains("#include <"), "{} must not include a toolkit header", source.name());
        assert!(text.lines().count() <= 160, "{}", source.name());
    }
}

#[test]
fn kernels_for_older_devices_use_supported_access_widths() {
    for kernel in sources().iter().flat_map(|source| source.kernels(Target::plain(80))) {
        assert!(kernel.source.name() == "copy" || kernel.vector_bytes <= 16, "{}", kernel.name);
    }
}

#[test]
fn every_kernel_that_moves_elements_can_be_described() {
    let mut described = 0;
    for kernel in sources().iter().flat_map(|source| source.kernels(Target::plain(90))) {
        let Ok(found) = describe_kernel(&kernel, 1 << 20, MACHINE, (Cache::Hot, 1 << 22), LaunchForm::Stream) else {
            continue;
        };
        assert_eq!(found.traffic, kernel.traffic(1 << 20), "{}", kernel.name);
        assert!(found.resident >= 1 && found.blocks >= 1, "{}", kernel.name);
        assert_eq!(found.in_flight == 0, kernel.inputs == 0, "{}", kernel.name);
        described += 1;
    }
    assert!(described > 100, "{described}");
}

#[test]
fn bounds_refer_to_integer_parameters() {
    for kernel in sources().iter().flat_map(|source| source.kernels(Target { capability: 90, specific: true })) {
        for parameter in kernel.parameters {
            let bounds = parameter.range.iter().filter_map(|bound| bound.amount()).flat_map(Amount::names);
            let extent = parameter.array().map_or(Vec::new(), |array| array.extent.names());
            for name in bounds.chain(extent) {
                let named = kernel.parameters.iter().find(|parameter| parameter.name == name);
                let whole = named.and_then(|named| named.number(&kernel)).is_some_and(Number::is_whole);
                assert!(whole, "{}: {} is bounded by {name}, which is no integer", kernel.name, parameter.name);
            }
            let bounded = parameter.range.is_empty() || parameter.number(&kernel).is_some_and(Number::is_whole);
            assert!(bounded, "{}: {} is no integer but has a range", kernel.name, parameter.name);
            if let Some(other) = parameter.array().and_then(|array| array.same_as) {
                assert!(kernel.parameters.iter().any(|one| one.name == other && one.array().is_some()));
            }
        }
    }
}

const MACHINE: Machine = Machine { multiprocessors: 132, threads_per_multiprocessor: 2048 };
/// Bytes of an array that needs 64-bit indices.
const LARGE: u64 = (1 << 32) + (1 << 20);

/// Kernels that are verified at sizes around their vectors and blocks.
fn size_verified_kernels() -> impl Iterator<Item = KernelDesc> {
    let names = ["stream", "mix", "copy", "launch"];
    let sources = sources().iter().filter(move |source| names.contains(&source.name()));
    sources.flat_map(|source| source.kernels(Target::plain(100)))
}

#[test]
fn every_kernel_has_a_grid_for_every_size() {
    for kernel in size_verified_kernels() {
        for depth in [Depth::Small, Depth::Usual] {
            for n in awkward_sizes(&kernel, MACHINE, depth) {
                let geometry = kernel.geometry(n, MACHINE);
                assert!(geometry.is_ok(), "{} on {n}: {geometry:?}", kernel.name);
            }
        }
        let large = LARGE / u64::from(kernel.element.bytes()) + 1;
        assert!(kernel.geometry(large, MACHINE).is_ok(), "{}", kernel.name);
    }
}

#[test]
fn sizes_straddle_every_vector_and_block() {
    for kernel in size_verified_kernels() {
        let sizes = awkward_sizes(&kernel, MACHINE, Depth::Usual);
        let (lanes, block) = (u64::from(kernel.lanes()), kernel.elements_per_block());
        for n in [0, 1, lanes + 1, block - 1, block, block + 1] {
            assert!(sizes.contains(&n), "{} lacks {n}", kernel.name);
        }
    }
}
