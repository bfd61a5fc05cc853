//! More than 2³² elements of one byte each: every block's base must have 64 bits.

use std::panic::resume_unwind;
use std::sync::Arc;

use plimsoll_core::Fault;
use plimsoll_core::probe::Case;
use plimsoll_expr::{DType, Layout, Names, parse};
use plimsoll_gen::elementwise::Choose;

use super::accuracy::threads;
use crate::elementwise::{Elementwise, Engine, Operand};
use crate::{Memory as _, Span};

/// Number of elements: above 2³², and not a multiple of any vector.
const ELEMENTS: u64 = (1 << 32) + (1 << 20) + 3;
/// Bytes that are compared together.
const CHUNK: u64 = 1 << 28;
/// Bytes that must stay free in addition.
const SPARE: u64 = 1 << 30;

/// An expression, and the expected byte after it by index.
struct Step {
    text: &'static str,
    dtype: DType,
    expected: fn(u64) -> u8,
}

/// The byte at an index after the first step.
fn initial_byte(place: u64) -> u8 {
    (place ^ (place >> 8) ^ (place >> 32)) as u8
}

const STEPS: [Step; 3] = [
    Step {
        text: "in x: i8; x = i8(index() ^ (index() >> 8) ^ (index() >> 32))",
        dtype: DType::I8,
        expected: initial_byte,
    },
    Step { text: "in x: i8; x = x + 1", dtype: DType::I8, expected: |place| initial_byte(place).wrapping_add(1) },
    // NaN stays NaN; its sign isn't checked.
    Step {
        text: "in x: f8e4m3; x = -x",
        dtype: DType::F8E4M3,
        expected: |place| initial_byte(place).wrapping_add(1) ^ 0x80,
    },
];

pub(super) fn run<G: Elementwise>(
    device: &G::Device,
    engine: &Engine<G>,
    report: &mut dyn FnMut(Case),
) -> Result<(), Fault> {
    let stream = G::stream(device);
    if G::free_memory(device)? < ELEMENTS + SPARE {
        return Ok(());
    }
    let buffer = G::allocate(stream, ELEMENTS)?;
    G::bind(stream)?;
    G::fill(stream, buffer.whole(), 0)?;
    for step in STEPS {
        let invalid = |error: &dyn std::error::Error| Fault::Invalid(error.to_string());
        let graph = parse(step.text, &Names::default()).map_err(|error| invalid(&error))?;
        let layout = Layout::contiguous(&[ELEMENTS]).map_err(|error| invalid(&error))?;
        let x = Operand::from_buffer(&buffer, step.dtype, layout);
        let expression = engine.expression(&graph)?;
        let bound = expression.bind(std::slice::from_ref(&x), std::slice::from_ref(&x), &[], &Choose::default())?;
        bound.enqueue(stream)?;
        G::wait(stream)?;
        let on = format!("n = {ELEMENTS}, in place");
        report(Case { kernel: step.text.to_owned(), on, wrong: compare::<G>(stream, buffer.whole(), &step)? });
    }
    Ok(())
}

/// Describes the first wrong byte; empty if all are right.
fn compare<G: Elementwise>(stream: &Arc<G::Stream>, buffer: Span, step: &Step) -> Result<String, Fault> {
    let mut bytes = Vec::new();
    let mut start = 0;
    while start < ELEMENTS {
        let count = CHUNK.min(ELEMENTS - start);
        bytes.resize(count as usize, 0);
        G::download(stream, buffer.part(start, count)?, &mut bytes)?;
        if let Some((place, found)) = first_wrong(&bytes, start, step) {
            return Ok(format!("element {place} is {found:#x}, not {:#x}", (step.expected)(place)));
        }
        start += count;
    }
    Ok(String::new())
}

/// The index and value of the first wrong byte, if `bytes` start at index `start`. Runs on all processors.
fn first_wrong(bytes: &[u8], start: u64, step: &Step) -> Option<(u64, u8)> {
    let is_nan = |byte: u8| step.dtype == DType::F8E4M3 && byte & 0x7f == 0x7f;
    let is_right = |place: u64, found: u8| {
        let right = (step.expected)(place);
        found == right || (is_nan(found) && is_nan(right))
    };
    let search =
        |part: &[u8], start: u64| (start..).zip(part.iter().copied()).find(|(place, found)| !is_right(*place, *found));
    let size = bytes.len().div_ceil(threads()).max(1);
    std::thread::scope(|scope| {
        let parts = bytes.chunks(size).zip((start..).step_by(size));
        let running: Vec<_> = parts.map(|(part, start)| scope.spawn(move || search(part, start))).collect();
        // Passes a thread's panic on to the caller.
        let found = running.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
        found.collect::<Vec<_>>().into_iter().flatten().next()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_wrong_byte_is_found_at_any_position() {
        let start = (1 << 32) - 1000;
        for step in &STEPS {
            let right: Vec<u8> = (start..start + 5003).map(step.expected).collect();
            assert_eq!(first_wrong(&right, start, step), None, "{}", step.text);
            for place in [0, 1, 2501, 5002] {
                let mut bytes = right.clone();
                bytes[place] ^= 0x15;
                bytes[5002] ^= 0x2a;
                assert_eq!(
                    first_wrong(&bytes, start, step),
                    Some((start + place as u64, bytes[place])),
                    "{}",
                    step.text
                );
            }
        }
        assert_eq!(first_wrong(&[], 0, &STEPS[0]), None);
    }
}
