//! Atomics of one multiprocessor at lines of the second-level cache.

use super::parameter::takes;
use super::{Grid, KernelDesc, Source};

/// Candidates for one block on a chosen multiprocessor, per multiprocessor.
const CANDIDATES: u32 = 4;
/// Repetitions are whole multiples of this.
pub const TIMES: u32 = 8;

/// Adds 0 to lines, from one multiprocessor.
#[must_use]
pub fn reach() -> KernelDesc {
    let name = "topology_reach".to_owned();
    KernelDesc {
        entry: format!("TOPOLOGY({name})"),
        parameters: takes!(
            out: [write 8; Times(32, &[])], ticket: [update 4; Times(4, &[])], turn: U32, wanted: U32,
            base: [update 4; Unstated], lines: [read 8; Times(8, &["count"])], count: U32, times: U32 [Multiple(Is(8))],
        ),
        grid: Grid::Resident { blocks: CANDIDATES },
        looping: true,
        ..KernelDesc::new(Source::Topology, name, 32)
    }
}

/// Every one.
#[must_use]
pub fn kernels() -> Vec<KernelDesc> {
    vec![reach()]
}
