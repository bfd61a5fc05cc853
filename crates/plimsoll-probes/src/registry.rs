//! Which probes there are. A probe of this crate has a line in [`ALL`], which says its place, and one in the list of each kind of
//! device that runs it; lists that other crates have of their own are joined to these.

use plimsoll_core::probe::{Backend, Probe, ProbeSpec};
#[cfg(feature = "cpu")]
use plimsoll_cpu::Cpu;
#[cfg(feature = "gpu")]
use plimsoll_gpu::Gpu;

use crate::{
    atomics, cluster, copy, dispatch, footprint, gather, incore, interference, l1, l2, lab, latency, launch,
    loaded_latency, managed, mix, peer, roofline, stream, strides, sync, tensor, topology, transfer, uniformity,
};

/// Every probe, in the order in which it is listed and run. `launch` and `dispatch` come early: behind the others in one
/// process an empty kernel of a graph took 0.68 µs on an H200 instead of 0.50, for a reason that is not known.
pub static ALL: &[&ProbeSpec] = &[
    &stream::SPEC,
    &mix::SPEC,
    &copy::SPEC,
    &launch::SPEC,
    &dispatch::SPEC,
    &gather::SPEC,
    &footprint::SPEC,
    &uniformity::SPEC,
    &latency::SPEC,
    &loaded_latency::SPEC,
    &topology::SPEC,
    &atomics::SPEC,
    &cluster::SPEC,
    &incore::SPEC,
    &l1::SPEC,
    &l2::SPEC,
    &strides::SPEC,
    &sync::SPEC,
    &transfer::SPEC,
    &interference::SPEC,
    &managed::SPEC,
    &peer::SPEC,
    &roofline::SPEC,
    &tensor::SPEC,
    &lab::sectors::SPEC,
    &lab::fetch_granularity::SPEC,
    &lab::l2_reuse::SPEC,
    &lab::residency::SPEC,
    &lab::compression::SPEC,
    &lab::rtm::SPEC,
    &lab::async_copy::SPEC,
    &lab::tti::SPEC,
    &lab::write_path::SPEC,
    &lab::block_order::SPEC,
    &lab::formats::SPEC,
    &lab::gemm::SPEC,
    &lab::pic::SPEC,
];

/// The probe of this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static ProbeSpec> {
    ALL.iter().copied().find(|spec| spec.name == name)
}

/// Those that a CPU runs.
#[cfg(feature = "cpu")]
static ON_CPU: &[&dyn Probe<Cpu>] = &[
    &stream::cpu::Runner,
    &footprint::cpu::Runner,
    &latency::cpu::Runner,
    &loaded_latency::cpu::Runner,
    &incore::cpu::Runner,
    &strides::cpu::Runner,
    &sync::cpu::Runner,
    &roofline::cpu::Runner,
];

/// Every probe of a CPU, in the order of [`ALL`]: what [`plimsoll_cpu::open`] takes.
#[cfg(feature = "cpu")]
#[must_use]
pub fn cpu_probes() -> &'static [&'static dyn Probe<Cpu>] {
    ON_CPU
}

/// Those that any GPU runs, in the order of [`ALL`].
#[cfg(feature = "gpu")]
#[must_use]
pub const fn gpu_probes<G: Gpu>() -> &'static [&'static dyn Probe<G>] {
    &[&stream::gpu::Runner, &copy::gpu::Runner, &launch::gpu::Runner, &latency::gpu::Runner, &cluster::gpu::Runner]
}

/// One list of these, in the order of [`ALL`].
#[must_use]
pub fn in_order<B: Backend>(lists: &[&[&'static dyn Probe<B>]]) -> Vec<&'static dyn Probe<B>> {
    let mut joined = lists.concat();
    joined.sort_by_key(|probe| ALL.iter().position(|spec| spec.name == probe.spec().name).unwrap_or(ALL.len()));
    joined
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn every_probe_has_its_page_with_its_name_on_top() {
        let pages = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/method");
        for spec in ALL {
            let page = std::fs::read_to_string(pages.join(spec.page)).unwrap_or_else(|e| panic!("{}: {e}", spec.page));
            assert_eq!(page.lines().next(), Some(format!("# {}", spec.name).as_str()), "{}", spec.page);
        }
    }

    #[test]
    fn every_probe_is_listed_once_in_the_order_on_screen() {
        let names: Vec<&str> = ALL.iter().map(|spec| spec.name).collect();
        let expected = "stream mix copy launch dispatch gather footprint uniformity latency loaded-latency topology atomics \
             cluster incore l1 l2 strides sync transfer interference managed peer roofline tensor sectors \
             fetch-granularity l2-reuse residency compression rtm async-copy tti write-path block-order formats \
             gemm pic";
        assert_eq!(names.join(" "), expected);
    }

    #[cfg(feature = "cpu")]
    #[test]
    fn a_cpu_has_its_probes_in_the_order_on_screen() {
        let names: Vec<&str> = cpu_probes().iter().map(|probe| probe.spec().name).collect();
        assert_eq!(names.join(" "), "stream footprint latency loaded-latency incore strides sync roofline");
    }
}
