//! Expressions on this device held to the oracle: random ones over awkward sizes, alignments and layouts in every form that takes
//! them; chains of launches that may overlap; more elements than 32 bits count; and how exact functions are. Outputs are
//! poisoned before, and whatever isn't an element of an output must be as it was after.

mod accuracy;
mod arena;
mod chain;
mod large;
mod random;

use plimsoll_core::Fault;
use plimsoll_core::probe::{Case, Depth};

use crate::CudaDevice;
use crate::elementwise::Engine;

/// Checks the elementwise engine.
///
/// # Errors
/// The device's; wrong results are reported.
pub(crate) fn run(device: &CudaDevice, depth: Depth, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
    let engine = Engine::new(device)?;
    random::run(device, &engine, depth, report)?;
    random::batches(device, &engine, report)?;
    chain::run(device, &engine, report)?;
    accuracy::run(device, &engine, depth, report)?;
    if depth != Depth::Small {
        large::run(device, &engine, report)?;
    }
    Ok(())
}
