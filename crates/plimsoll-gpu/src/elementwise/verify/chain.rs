//! A chain of a hundred launches that may overlap, each of which reads everything that the preceding one wrote: alternately in
//! place, and transposed from one matrix to another. This finds kernels that access memory before they have waited.

use std::sync::Arc;

use plimsoll_core::Fault;
use plimsoll_core::probe::Case;
use plimsoll_core::stats::Rng;
use plimsoll_expr::{DType, Layout, LayoutError, Names, Value, parse};
use plimsoll_gen::elementwise::{Choose, Dependent};

use super::arena::{SEED, Tensor};
use crate::elementwise::{Elementwise, Engine, Expression};

/// Number of launches.
const LINKS: u32 = 100;
/// Rows and columns: one size with several waves of blocks, and one so small that many launches queue up on the device. Not
/// multiples of a tile.
const SIDES: [u64; 2] = [1031, 133];

fn expression<G: Elementwise>(engine: &Engine<G>, text: &str) -> Result<Expression<G>, Fault> {
    let graph = parse(text, &Names::default()).map_err(|error| Fault::Invalid(error.to_string()))?;
    Ok(engine.expression(&graph)?)
}

pub(super) fn run<G: Elementwise>(
    stream: &Arc<G::Stream>,
    engine: &Engine<G>,
    report: &mut dyn FnMut(Case),
) -> Result<(), Fault> {
    let step = expression(engine, "in x: u32; scalar a: u32; x = x * 1664525 + a")?;
    let transpose = expression(engine, "in x: u32; scalar a: u32; y = (x ^ a) * 5 + x")?;
    let invalid = |error: LayoutError| Fault::Invalid(error.to_string());
    for side in SIDES {
        let plain = Layout::contiguous(&[side, side]).map_err(invalid)?;
        let mut rng = Rng::new(SEED);
        let ways = Dependent::ALL.map(|release| (release, !matches!(release, Dependent::No | Dependent::Exit)));
        for (release, dependent) in ways.into_iter().chain([(Dependent::Exit, true)]) {
            if dependent && !engine.overlaps() {
                continue;
            }
            let first = Tensor::new(stream, DType::U32, plain.clone(), Some(&mut rng))?;
            let second = Tensor::new(stream, DType::U32, plain.clone(), None)?;
            let choose = Choose { dependent, release: Some(release), ..Choose::default() };
            let ends = [first.operand()?, second.operand()?];
            let mut launches = Vec::new();
            for link in 0..LINKS {
                let scalar = [Value::Int(link.into())];
                let (from, to) = (&ends[link as usize / 2 % 2], &ends[(link as usize / 2 + 1) % 2]);
                launches.push(if link % 2 == 0 {
                    step.bind(std::slice::from_ref(from), std::slice::from_ref(from), &scalar, &choose)?
                } else {
                    let transposed = from.with_layout(plain.transposed());
                    transpose.bind(&[transposed], std::slice::from_ref(to), &scalar, &choose)?
                });
            }
            launches.iter().try_for_each(|launch| launch.enqueue(stream))?;
            G::wait(stream)?;
            let last = if (LINKS / 2).is_multiple_of(2) { &first } else { &second };
            let wrong = compare(side, &first, last)?;
            let launches = if dependent { "dependent launches" } else { "launches" };
            let release = release.name();
            let on = format!("{LINKS} {launches}, release {release}, {side} x {side} in place and transposed");
            report(Case { kernel: "chain".to_owned(), on, wrong });
        }
    }
    Ok(())
}

/// Repeats the chain on the host from the initial content of `first`, and compares the result with `last`.
fn compare<G: Elementwise>(side: u64, first: &Tensor<G>, last: &Tensor<G>) -> Result<String, Fault> {
    let int = |value: Option<Value>| value.map_or(0, Value::as_int) as u32;
    let mut values: Vec<u32> = (0..side * side).map(|place| int(first.element(place))).collect();
    let side = side as usize;
    for link in 0..LINKS {
        if link % 2 == 0 {
            values.iter_mut().for_each(|x| *x = x.wrapping_mul(1_664_525).wrapping_add(link));
        } else {
            let transposed = |place: usize| values[place % side * side + place / side];
            values = (0..side * side).map(transposed).map(|x| (x ^ link).wrapping_mul(5).wrapping_add(x)).collect();
        }
    }
    let now = last.download()?;
    let wrong = (0..).zip(&values).find(|(place, right)| int(now.element(*place)) != **right);
    Ok(wrong.map_or_else(String::new, |(place, right)| {
        format!("element {place} is {:#x}, not {right:#x}", int(now.element(place)))
    }))
}
