//! The GPU's probes, one file each.

use plimsoll_core::probe::Probe;

use crate::Cuda;

/// Every probe of this backend, in the order of `plimsoll_suite::probes::ALL`.
pub static PROBES: &[&dyn Probe<Cuda>] = &[];
