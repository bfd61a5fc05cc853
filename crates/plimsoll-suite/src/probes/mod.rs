//! One file per probe: its [`ProbeSpec`], its series (names, axes, metrics, picture) and its findings as pure functions
//! of them. How a probe is run is each backend's business.

pub mod affine;
pub mod atomics;
pub mod cluster;
pub mod copy;
pub mod dispatch;
pub mod footprint;
pub mod gather;
pub mod incore;
pub mod interference;
pub mod l1;
pub mod l2;
pub mod lab;
pub mod latency;
pub mod launch;
pub mod levels;
pub mod loaded_latency;
pub mod managed;
pub mod mix;
pub mod peer;
pub mod roofline;
pub mod stream;
pub mod strides;
pub mod sync;
#[cfg(test)]
mod synthetic;
pub mod tensor;
pub mod topology;
pub mod transfer;
pub mod uniformity;

use plimsoll_core::flag::Flags;
use plimsoll_core::probe::ProbeSpec;
use plimsoll_core::record::Finding;
use plimsoll_core::series::{Axes, Estimate, Row, Series};
use plimsoll_core::unit::Unit;

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

/// The group of experiments that answer questions: `measure` runs it where it is asked for, or a probe of it.
pub const LAB: &str = "lab";

/// Half-width that is asked of what the host's own work decides (the call of a launch, the staging of a copy): in a virtual
/// machine the host's speed wanders by 1–4 % within seconds, however long one samples.
const HOST_PRECISION: f64 = 0.02;

/// The probe of this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static ProbeSpec> {
    ALL.iter().copied().find(|spec| spec.name == name)
}

/// Every row with its point. Rows that are none of this version's points, by a name of a later version say, show nothing.
fn known_rows<A: Axes>(series: &Series) -> impl Iterator<Item = (A, &Row)> {
    series.parse_rows().filter_map(Result::ok)
}

/// A finding read off one row. The session fills in device and probe.
pub(crate) fn finding(name: impl Into<String>, unit: Unit, row: &Row, estimate: Estimate) -> Finding {
    Finding {
        device: 0,
        probe: String::new(),
        name: name.into(),
        value: estimate.value,
        interval: estimate.interval,
        unit,
        flags: row.flags,
        metric: String::new(),
        says: String::new(),
        published: None,
    }
}

/// A finding from several rows, with the flags of all that it was read from. The session fills in device and probe.
fn derived(name: impl Into<String>, unit: Unit, known: Estimate, flags: Flags) -> Finding {
    Finding {
        device: 0,
        probe: String::new(),
        name: name.into(),
        value: known.value,
        interval: known.interval,
        unit,
        flags,
        metric: String::new(),
        says: String::new(),
        published: None,
    }
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
}
