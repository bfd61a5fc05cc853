//! The performance model: predicts a launch's time by pure arithmetic from a description of the launch ([`Description`])
//! and measured figures of the machine ([`Machine`]). `plimsoll-suite` collects the machine's figures; a kernel's author
//! describes the kernel.
//!
//! T = launch + latency + tail + code of one warp + (Σ tᵢᵖ)^(1/p), where the tᵢ run at the same time: bytes through L2, bytes through memory,
//! loads in flight, the busiest SM, block dispatch, and instruction issue per pipe. With a large p the greatest tᵢ dominates
//! and those near it add a little; p is fitted once ([`EXPONENT`]). `docs/model.md` derives each term and shows the errors.

mod describe;
mod machine;
mod predict;

pub use describe::{Cache, Description, LaunchForm, Pipe};
pub use machine::{Key, Level, Machine, Mix, Term};
pub use predict::{Estimate, Kind, LIMITER_MARGIN, Missing, Part, Prediction, predict};

/// Cycles of one warp's code in `scale`, the kernel that the launch figure is measured with, according to the stall counts in
/// its machine code for compute capability 9.0. The launch figure includes them.
const LAUNCH_CYCLES: f64 = 78.0;

/// The exponent p: how strongly the greatest of the overlapping times dominates. Fitted once, to the `copy` rows of a sweep
/// over plans on an H200 (see `docs/model.md`), and used for every machine and expression.
pub const EXPONENT: f64 = 7.0;

#[cfg(test)]
mod tests;
