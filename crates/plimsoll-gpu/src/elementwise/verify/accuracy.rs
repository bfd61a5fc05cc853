//! Accuracy of functions on this device: over all operands of the 16-bit types, over all of f32 at the exhaustive depth, else an
//! evenly spaced share of them, and over pairs for functions of two operands. `plimsoll_gen::elementwise::accuracy` defines the
//! promised bounds and measures errors.

use std::collections::HashSet;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::ScopedJoinHandle;

use plimsoll_core::Fault;
use plimsoll_core::probe::{ACCURACY, Case, Depth};
use plimsoll_expr::function::{mix, operand_pair};
use plimsoll_expr::{DType, ExprError, Layout};
use plimsoll_gen::elementwise::accuracy::{Claim, Errors, claims};
use plimsoll_gen::elementwise::{Choose, Tier};

use crate::Memory as _;
use crate::elementwise::{Elementwise, Engine, Error, Operand};

/// Operands per launch.
const CHUNK: u64 = 1 << 24;

/// Number of operands of f32, or of pairs, to check.
fn operand_count(depth: Depth) -> u64 {
    match depth {
        Depth::Small => 1 << 12,
        Depth::Usual => 1 << 18,
        Depth::Exhaustive => 1 << 32,
    }
}

pub(super) fn run<G: Elementwise>(
    stream: &Arc<G::Stream>,
    engine: &Engine<G>,
    functions: &[&str],
    depth: Depth,
    report: &mut dyn FnMut(Case),
) -> Result<(), Fault> {
    let known = |name: &str| claims().iter().any(|claim| claim.function.name() == name);
    if let Some(unknown) = functions.iter().find(|name| !known(name)) {
        return Err(Fault::Invalid(format!("no function '{unknown}' has an accuracy to be checked")));
    }
    let wanted = |claim: &Claim| functions.is_empty() || functions.contains(&claim.function.name());
    // The small depth is for tools that check every access; a part of the claims suffices.
    let every = if depth == Depth::Small && functions.is_empty() { 6 } else { 1 };
    let claims: Vec<Claim> = claims().into_iter().filter(wanted).step_by(every).collect();
    compile_ahead(stream, engine, &claims, depth)?;
    for claim in claims {
        let errors = measure(stream, engine, &claim, depth)?;
        let name = format!("{ACCURACY}{} {} {:?}", claim.function.name(), claim.dtype, claim.tier).to_lowercase();
        let worst = format!("worst {:.3} ulp of {:#x}", errors.worst, errors.worst_at[0]);
        let first = errors.first_wrong.map_or_else(String::new, |bits| format!(", the first for {bits:#x?}"));
        let wrong = if errors.is_within(claim.ulp) {
            String::new()
        } else {
            format!("promised {} ulp: {worst}; {} special results are wrong{first}", claim.ulp, errors.wrong)
        };
        report(Case { kernel: name, on: format!("{} operands, {worst}", errors.compared), wrong });
    }
    Ok(())
}

/// The k-th of `count` operands or pairs of a claim's function, as bits; all bit patterns if `count` is their number.
fn operands(claim: &Claim, k: u64, count: u64) -> [u64; 2] {
    let bits = 8 * claim.dtype.bytes() as u32;
    let ones = (1_u64 << bits) - 1;
    // One pattern from each of `count` equal intervals, at a pseudo-random offset.
    let first = if count > ones { k } else { (k * ((1 << bits) / count) + mix(k) % ((1 << bits) / count)) & ones };
    if claim.function.operands() == 1 { [first; 2] } else { operand_pair(claim.dtype, k) }
}

/// Number of operands, or of pairs, of a claim's function to check.
fn count(claim: &Claim, depth: Depth) -> u64 {
    let all = 1_u64 << (8 * claim.dtype.bytes());
    match (claim.function.operands(), claim.dtype) {
        // The fast tier is opt-in: every sixteenth operand suffices.
        (1, DType::F32) if claim.tier == Tier::Fast => operand_count(depth).min(all / 16),
        (1, DType::F32) => operand_count(depth).min(all),
        (1, _) if depth == Depth::Small => operand_count(depth),
        (1, _) => all,
        // All pairs would be too many.
        _ => operand_count(depth).min(1 << 26),
    }
}

fn choices(claim: &Claim) -> Choose {
    Choose { tier: claim.tier, ..Choose::default() }
}

fn invalid(error: impl std::error::Error) -> Error {
    Error::Fault(Fault::Invalid(error.to_string()))
}

/// Compiles the kernels of all claims at once.
fn compile_ahead<G: Elementwise>(
    stream: &Arc<G::Stream>,
    engine: &Engine<G>,
    claims: &[Claim],
    depth: Depth,
) -> Result<(), Error> {
    // Only for its alignment, which all buffers share.
    let buffer = G::allocate(stream, 1)?;
    let mut specs = HashSet::new();
    for claim in claims {
        let expression = engine.expression(&claim.function.graph(claim.dtype).map_err(invalid)?)?;
        let layout = Layout::contiguous(&[CHUNK.min(count(claim, depth))]).map_err(invalid)?;
        let operand = Operand::from_buffer(&buffer, claim.dtype, layout);
        let inputs = vec![operand.clone(); claim.function.operands()];
        specs.extend(expression.predict_kernel(&inputs, &[operand], &choices(claim)));
    }
    engine.compile_ahead(&specs.into_iter().collect::<Vec<_>>(), &AtomicBool::new(false));
    Ok(())
}

fn measure<G: Elementwise>(
    stream: &Arc<G::Stream>,
    engine: &Engine<G>,
    claim: &Claim,
    depth: Depth,
) -> Result<Errors, Error> {
    let expression = engine.expression(&claim.function.graph(claim.dtype).map_err(invalid)?)?;
    let (inputs, count) = (claim.function.operands(), count(claim, depth));
    let size = claim.dtype.bytes();
    let chunk = CHUNK.min(count);
    let layout = Layout::contiguous(&[chunk]).map_err(invalid)?;
    let make = || G::allocate(stream, chunk * size);
    let buffers = (0..inputs).map(|_| make()).collect::<Result<Vec<_>, _>>()?;
    let out = make()?;
    let operand = |buffer: &G::Buffer| Operand::from_buffer(buffer, claim.dtype, layout.clone());
    let bound =
        expression.bind(&buffers.iter().map(operand).collect::<Vec<_>>(), &[operand(&out)], &[], &choices(claim))?;
    let set = || Set {
        operands: vec![vec![0_u8; (chunk * size) as usize]; inputs],
        results: vec![0; (chunk * size) as usize],
    };
    // One chunk is compared while the next one is computed.
    let mut free = vec![set(), set()];
    let mut errors = Errors::default();
    std::thread::scope(|scope| {
        let mut running = None;
        for start in (0..count).step_by(chunk as usize) {
            let mut set = free.pop().unwrap_or_else(set);
            fill(claim, &mut set.operands, start, count);
            for (buffer, host) in buffers.iter().zip(&set.operands) {
                G::upload(stream, buffer.whole(), host)?;
            }
            bound.enqueue(stream)?;
            G::download(stream, out.whole(), &mut set.results)?;
            let next = scope.spawn(move || (compare(claim, &set.operands, &set.results), set));
            if let Some(last) = running.replace(next) {
                free.push(join(last, &mut errors)?);
            }
        }
        running.map_or(Ok(()), |last| join(last, &mut errors).map(drop))
    })?;
    Ok(errors)
}

/// Operands and results of one chunk.
struct Set {
    operands: Vec<Vec<u8>>,
    results: Vec<u8>,
}

/// A thread's result, and its chunk for reuse.
type Compared = (Result<Errors, ExprError>, Set);

/// Merges a thread's errors and returns its chunk for reuse.
fn join(thread: ScopedJoinHandle<'_, Compared>, errors: &mut Errors) -> Result<Set, Error> {
    match thread.join() {
        Ok((found, set)) => {
            *errors = errors.merge(found.map_err(|error| Error::Fault(Fault::Invalid(error.to_string())))?);
            Ok(set)
        }
        // Passes the panic on to the caller.
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// Number of available processors.
pub(super) fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}

/// Writes operands from index `start` on, on all processors.
fn fill(claim: &Claim, chunk: &mut [Vec<u8>], start: u64, count: u64) {
    let size = claim.dtype.bytes() as usize;
    for (place, host) in chunk.iter_mut().enumerate() {
        let part = (host.len() / size).div_ceil(threads()).max(1) * size;
        std::thread::scope(|scope| {
            for (number, bytes) in host.chunks_mut(part).enumerate() {
                scope.spawn(move || {
                    let first = start + (number * part / size) as u64;
                    for (k, element) in (first..).zip(bytes.chunks_exact_mut(size)) {
                        element.copy_from_slice(&operands(claim, k, count)[place].to_le_bytes()[..size]);
                    }
                });
            }
        });
    }
}

/// Compares results with the oracle, on all processors.
fn compare(claim: &Claim, operands: &[Vec<u8>], results: &[u8]) -> Result<Errors, ExprError> {
    let size = claim.dtype.bytes() as usize;
    let part = (results.len() / size).div_ceil(threads()).max(1) * size;
    std::thread::scope(|scope| {
        let piece = |number: usize| {
            let end = results.len().min((number + 1) * part);
            let range = number * part..end;
            scope.spawn(move || {
                let operands: Vec<&[u8]> = operands.iter().map(|bytes| &bytes[range.clone()]).collect();
                claim.compare(&operands, &results[range])
            })
        };
        let running: Vec<_> = (0..results.len().div_ceil(part)).map(piece).collect();
        // Passes a thread's panic on to the caller.
        running.into_iter().try_fold(Errors::default(), |errors, thread| match thread.join() {
            Ok(found) => Ok(errors.merge(found?)),
            Err(panic) => std::panic::resume_unwind(panic),
        })
    })
}
