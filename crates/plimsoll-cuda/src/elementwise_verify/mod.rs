//! Expressions on this device held to the oracle: random ones over awkward sizes, alignments and layouts in every form that takes
//! them; chains of launches that may overlap; bulk copies that keep what they read; more elements than 32 bits count; and how exact
//! functions are. Outputs are poisoned before, and whatever isn't an element of an output must be as it was after.

mod accuracy;
mod arena;
mod chain;
mod kept;
mod large;
mod random;

use plimsoll_core::Fault;
use plimsoll_core::probe::{Case, Depth};

use crate::CudaDevice;
use crate::elementwise::Engine;

/// Checks the elementwise engine; of `functions` alone, where any are named, how exact they are.
///
/// # Errors
/// [`Fault::Invalid`] for a function that there is none of; the device's. Wrong results are reported.
pub(crate) fn run(
    device: &CudaDevice,
    functions: &[&str],
    depth: Depth,
    report: &mut dyn FnMut(Case),
) -> Result<(), Fault> {
    let engine = Engine::new(device)?;
    if !functions.is_empty() {
        return accuracy::run(device, &engine, functions, depth, report);
    }
    random::run(device, &engine, depth, report)?;
    random::batches(device, &engine, report)?;
    chain::run(device, &engine, report)?;
    kept::run(device, &engine, report)?;
    if depth != Depth::Small {
        large::run(device, &engine, report)?;
    }
    accuracy::run(device, &engine, functions, depth, report)
}
