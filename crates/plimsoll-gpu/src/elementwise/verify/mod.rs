//! Checks expressions on a device against the oracle: random ones over awkward sizes, alignments and layouts in every form that
//! supports them; chains of launches that may overlap; bulk copies with evict-last reads; more than 2³² elements; and the accuracy
//! of functions. Outputs are poisoned before each launch, and memory that isn't an element of an output must not change.

mod accuracy;
mod arena;
mod batch;
mod chain;
mod evict_last;
mod large;
mod random;

use plimsoll_core::Fault;
use plimsoll_core::probe::{Case, Depth};

use super::{Elementwise, Engine};

/// Checks the elementwise engine; if `functions` names any, only their accuracy.
///
/// # Errors
/// [`Fault::Invalid`] for an unknown function. Wrong results are reported, not returned.
pub fn run<G: Elementwise>(
    device: &G::Device,
    functions: &[&str],
    depth: Depth,
    report: &mut dyn FnMut(Case),
) -> Result<(), Fault> {
    let engine = Engine::<G>::new(device)?;
    let stream = G::stream(device);
    if !functions.is_empty() {
        return accuracy::run(stream, &engine, functions, depth, report);
    }
    expressions::<G>(device, depth, report)?;
    chain::run(stream, &engine, report)?;
    evict_last::run(stream, &engine, report)?;
    if depth != Depth::Small {
        large::run(device, &engine, report)?;
    }
    accuracy::run(stream, &engine, functions, depth, report)
}

/// Checks only random expressions, expressions that random draws rarely contain, and batches.
///
/// # Errors
/// Those of [`run`].
pub fn expressions<G: Elementwise>(
    device: &G::Device,
    depth: Depth,
    report: &mut dyn FnMut(Case),
) -> Result<(), Fault> {
    let (stream, engine) = (G::stream(device), Engine::<G>::new(device)?);
    random::run(stream, &engine, depth, report)?;
    batch::run(stream, &engine, depth, report)
}
