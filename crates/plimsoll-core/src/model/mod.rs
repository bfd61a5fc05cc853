//! What a launch should cost: pure arithmetic on what the launch does ([`Description`]) and what the machine was found to
//! do ([`Machine`]). Where a machine's terms come from is `plimsoll-suite`'s; what a kernel does is its author's.
//!
//! T = launch + latency + tail + (Σ tᵢᵖ)^(1/p) over what runs at the same time: bytes through the second level and through
//! memory, loads that wait for each other, the busiest multiprocessor, dispatch of blocks, and instruction issue by pipe. With
//! p large the greatest tᵢ decides, and those near it add a little; p is fitted once ([`EXPONENT`]). `docs/model.md` derives
//! each term and shows the errors.

mod describe;
mod machine;
mod predict;

pub use describe::{Cache, Description, LaunchForm, Pipe};
pub use machine::{Key, Level, Machine, Mix, Term};
pub use predict::{BEYOND, Estimate, Kind, Missing, Part, Prediction, predict};

/// Cycles that the code of one warp takes in `scale`, the kernel by which launches are measured, as the stalls in its machine code for
/// compute capability 9.0 say: the launch's figure holds them.
const LAUNCH_CYCLES: f64 = 78.0;

/// How sharply the greatest of the times that run together decides: fitted once, to the `copy` rows of a sweep over plans on an
/// H200 (see `docs/model.md`), and used for every machine and expression.
pub const EXPONENT: f64 = 7.0;

#[cfg(test)]
mod tests;
