//! Bulk copies that keep what they read in the second-level cache, and give it back at the end: launches that are large enough for both, of two
//! inputs that begin 16 bytes into a line, in place, one after the other and overlapping.

use plimsoll_core::Fault;
use plimsoll_core::probe::Case;
use plimsoll_expr::{DType, Layout, Names, parse};
use plimsoll_gen::elementwise::{Choose, Form};
use plimsoll_gen::kernel::Hints;

use crate::CudaDevice;
use crate::elementwise::{Engine, Operand};
use crate::memory::DeviceBuffer;
use crate::wait;

/// What is launched, and how often.
const STEP: &str = "in x: u32, z: u32; x = x * 3 + z";
const LINKS: u32 = 3;
/// Elements before the first one.
const BEFORE: u64 = 4;
/// Elements by the second-level cache's bytes: of a quarter of it tiles give back, so that in the first all tiles that keep are given back by
/// the very next ones, and in the second most were long gone. No multiple of a tile.
const ELEMENTS: [fn(u64) -> u64; 2] = [|l2| l2 / 20 + 13, |l2| l2 / 8 + 13];

pub(super) fn run(device: &CudaDevice, engine: &Engine, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
    if engine.device().target.capability < 90 {
        return Ok(());
    }
    for elements in ELEMENTS.map(|of| of(engine.device().l2_bytes)) {
        for dependent in [false, true] {
            if dependent && device.dependent_launch().is_err() {
                continue;
            }
            let wrong = chain(device, engine, elements, dependent)?;
            let launches = if dependent { "dependent launches" } else { "launches" };
            let on = format!("{LINKS} {launches} by bulk copies that keep what they read, n = {elements}, in place");
            report(Case { kernel: STEP.to_owned(), on, wrong });
        }
    }
    Ok(())
}

/// The words of a tensor before the first launch.
fn words(elements: u64, factor: u32) -> Vec<u32> {
    (0..(BEFORE + elements) as u32).map(|place| place.wrapping_mul(factor) ^ (place >> 7)).collect()
}

fn chain(device: &CudaDevice, engine: &Engine, elements: u64, dependent: bool) -> Result<String, Fault> {
    let invalid = |error: &dyn std::error::Error| Fault::Invalid(error.to_string());
    let graph = parse(STEP, &Names::default()).map_err(|error| invalid(&error))?;
    let layout = Layout::contiguous(&[elements]).and_then(|layout| layout.offset_by(BEFORE));
    let layout = layout.map_err(|error| invalid(&error))?;
    let [x, z] = [2_654_435_761, 2_246_822_519].map(|factor| words(elements, factor));
    let upload = |words: &[u32]| -> Result<DeviceBuffer, Fault> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let buffer = DeviceBuffer::new(&device.context, bytes.len() as u64)?;
        buffer.upload(&device.stream, &bytes)?;
        Ok(buffer)
    };
    let (on_x, on_z) = (upload(&x)?, upload(&z)?);
    let [at_x, at_z] = [&on_x, &on_z].map(|buffer| Operand::of(buffer, DType::U32, layout.clone()));
    let hints = Some(Hints { load_no_allocate: true, store_streaming: true });
    let tile = Choose { vector: Some(4), unroll: Some(3), threads: Some(128), ..Choose::default() };
    let choose = Choose { form: Some(Form::Bulk), hints, dependent, ..tile };
    let expression = engine.expression(&graph)?;
    let bound = expression.bind(&[at_x.clone(), at_z], std::slice::from_ref(&at_x), &[], &choose)?;
    (0..LINKS).try_for_each(|_| bound.enqueue(&device.stream))?;
    wait::stream(&device.stream)?;

    let mut bytes = vec![0; 4 * x.len()];
    on_x.download(&device.stream, &mut bytes)?;
    let found = bytes.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
    let step = |x: u32, z: u32| (0..LINKS).fold(x, |x, _| x.wrapping_mul(3).wrapping_add(z));
    let right = (0..).zip(x.iter().zip(&z)).map(|(place, (x, z))| if place < BEFORE { *x } else { step(*x, *z) });
    let wrong = (0_u64..).zip(found.zip(right)).find(|(_, (found, right))| found != right);
    Ok(wrong.map_or_else(String::new, |(place, (found, right))| format!("word {place} is {found:#x}, not {right:#x}")))
}
