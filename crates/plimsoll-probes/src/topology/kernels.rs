//! Atomics of one SM at lines of L2.

use crate::prelude::kernels::*;

/// The source of these kernels.
pub static SOURCE: Source = Source::new("topology", include_str!("kernel.cu"), |_| kernels());

/// Candidates for one block on a chosen SM, per SM.
const CANDIDATES: u32 = 4;
/// Repetitions are whole multiples of this.
pub const TIMES: u32 = 8;

/// Adds 0 to lines, from one SM.
#[must_use]
pub fn reach() -> KernelDesc {
    KernelDesc {
        entry: "TOPOLOGY(topology_reach)".to_owned(),
        parameters: takes!(
            out: [write 8; Times(32, &[])], ticket: [update 4; Times(4, &[])], iteration: U32, wanted: U32,
            base: [update 4; Unstated], lines: [read 8; Times(8, &["count"])], count: U32, times: U32 [Multiple(Is(8))],
        ),
        ..resident(CANDIDATES, &SOURCE, "topology_reach", 32)
    }
}

/// All kernels.
#[must_use]
pub fn kernels() -> Vec<KernelDesc> {
    vec![reach()]
}
