//! Bulk copies that load evict-last and demote the lines at the end: launches large enough for both, in place, one after another
//! and overlapping, with inputs that start 16 bytes into a line, or one of them at no multiple of 16 bytes.

use std::sync::Arc;

use plimsoll_core::Fault;
use plimsoll_core::probe::Case;
use plimsoll_expr::{DType, Layout, Names, parse};
use plimsoll_gen::elementwise::{Choose, Form};
use plimsoll_gen::kernel::Hints;

use crate::Memory as _;
use crate::elementwise::{Elementwise, Engine, Operand};

/// The expression, and the number of launches.
const STEP: &str = "in x: u32, z: u32; x = x * 3 + z";
const LINKS: u32 = 3;
/// Offsets of the written tensor and of the other one, elements.
const BEFORE: [(u64, u64); 2] = [(4, 4), (4, 5)];
/// Number of elements from the bytes of the L2. The last tiles, which read a quarter of the L2, demote lines of earlier tiles: with
/// the first size the tiles that follow directly demote all of those lines, with the second most were evicted long before. Not
/// multiples of a tile.
const ELEMENTS: [fn(u64) -> u64; 2] = [|l2| l2 / 20 + 13, |l2| l2 / 8 + 13];

pub(super) fn run<G: Elementwise>(
    stream: &Arc<G::Stream>,
    engine: &Engine<G>,
    report: &mut dyn FnMut(Case),
) -> Result<(), Fault> {
    if engine.device().target.capability < 90 {
        return Ok(());
    }
    let dependent = [false, true].into_iter().filter(|dependent| !dependent || engine.overlaps());
    for (dependent, before) in dependent.flat_map(|dependent| BEFORE.map(|before| (dependent, before))) {
        for elements in ELEMENTS.map(|elements| elements(engine.device().l2_bytes)) {
            let wrong = chain(stream, engine, elements, before, dependent)?;
            let launches = if dependent { "dependent launches" } else { "launches" };
            let (x, z) = before;
            let on = format!(
                "{LINKS} {launches} by bulk copies with evict-last, n = {elements}, in place, from elements {x} and {z} on"
            );
            report(Case { kernel: STEP.to_owned(), on, wrong });
        }
    }
    Ok(())
}

/// The initial words of a tensor.
fn words(elements: u64, factor: u32) -> Vec<u32> {
    (0..elements as u32).map(|place| place.wrapping_mul(factor) ^ (place >> 7)).collect()
}

fn chain<G: Elementwise>(
    stream: &Arc<G::Stream>,
    engine: &Engine<G>,
    elements: u64,
    before: (u64, u64),
    dependent: bool,
) -> Result<String, Fault> {
    let invalid = |error: &dyn std::error::Error| Fault::Invalid(error.to_string());
    let graph = parse(STEP, &Names::default()).map_err(|error| invalid(&error))?;
    let layout = |before| Layout::contiguous(&[elements]).and_then(|layout| layout.offset_by(before));
    let layout = |before| layout(before).map_err(|error| invalid(&error));
    let (x, z) = (words(before.0 + elements, 2_654_435_761), words(before.1 + elements, 2_246_822_519));
    let upload = |words: &[u32]| -> Result<G::Buffer, Fault> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let buffer = G::allocate(stream, bytes.len() as u64)?;
        G::upload(stream, buffer.whole(), &bytes)?;
        Ok(buffer)
    };
    let (on_x, on_z) = (upload(&x)?, upload(&z)?);
    let at_x = Operand::from_buffer(&on_x, DType::U32, layout(before.0)?);
    let at_z = Operand::from_buffer(&on_z, DType::U32, layout(before.1)?);
    let hints = Some(Hints { load_no_allocate: true, store_streaming: true });
    let tile = Choose { vector: Some(4), unroll: Some(3), threads: Some(128), ..Choose::default() };
    let choose = Choose { form: Some(Form::Bulk), hints, dependent, ..tile };
    let expression = engine.expression(&graph)?;
    let bound = expression.bind(&[at_x.clone(), at_z], std::slice::from_ref(&at_x), &[], &choose)?;
    (0..LINKS).try_for_each(|_| bound.enqueue(stream))?;
    G::wait(stream)?;

    let mut bytes = vec![0; 4 * x.len()];
    G::download(stream, on_x.whole(), &mut bytes)?;
    let found = bytes.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
    let step = |x: u32, z: u32| (0..LINKS).fold(x, |x, _| x.wrapping_mul(3).wrapping_add(z));
    let (kept, changed) = x.split_at(before.0 as usize);
    let changed = changed.iter().zip(&z[before.1 as usize..]).map(|(x, z)| step(*x, *z));
    let right = kept.iter().copied().chain(changed);
    let wrong = (0_u64..).zip(found.zip(right)).find(|(_, (found, right))| found != right);
    Ok(wrong.map_or_else(String::new, |(place, (found, right))| format!("word {place} is {found:#x}, not {right:#x}")))
}
