//! The choices that a sweep tries on contiguous, aligned tensors.

use plimsoll_expr::Graph;

use super::{Choose, Device};
use crate::elementwise::spec::{Dependent, Form, element_bytes, is_copy};
use crate::kernel::Hints;

/// Cache hints, as bits of [`Hints`].
const HINTS: [(bool, bool); 4] = [(false, false), (true, false), (false, true), (true, true)];

/// Choices for a sweep: flat kernels with every vector from 4 bytes to the widest access × 1 to 8 of them × blocks of 64 to 512 ×
/// hints, and from compute capability 9.0 on bulk copies with 32 to 64 KiB in flight per SM, in blocks of 96 to 256. Among the
/// latter, the best choice changes with the size of large tensors; the differences are up to 0.6 % and unpredictable.
///
/// For overlapping launches, each of these is combined with [`Dependent::Tail`], [`Dependent::Exit`] (if that is fastest,
/// overlapping gains nothing), [`Dependent::Early`] and [`Dependent::Late`]. [`Dependent::Start`] is not tried, because it
/// restricts what other kernels after it may do.
#[must_use]
pub fn candidates(graph: &Graph, device: &Device, dependent: bool) -> Vec<Choose> {
    let mut all = flat(graph, device);
    if device.target.capability >= 90 && graph.reads().contains(&true) {
        all.extend(bulk(graph, device));
    }
    if !dependent {
        return all;
    }
    let released =
        |release: Dependent| move |choose: &Choose| Choose { dependent: true, release: Some(release), ..*choose };
    let releases = [Dependent::Tail, Dependent::Exit, Dependent::Early, Dependent::Late];
    releases.into_iter().flat_map(|release| all.iter().map(released(release))).collect()
}

fn bytes(graph: &Graph) -> (u32, u32) {
    let read = graph.reads();
    let all = element_bytes(graph);
    let used = || all.iter().enumerate().filter(|(place, _)| read.get(*place).copied().unwrap_or(true));
    let narrowest = used().map(|(_, bytes)| *bytes).min().unwrap_or(1);
    let inputs: u32 = used().filter(|(place, _)| *place < read.len()).map(|(_, bytes)| *bytes).sum();
    (narrowest, inputs)
}

/// A choice with each combination of hints.
fn with_all_hints(form: Form, vector: u32, unroll: u32, threads: u32) -> [Choose; 4] {
    HINTS.map(|(load_no_allocate, store_streaming)| Choose {
        form: Some(form),
        vector: Some(vector),
        unroll: Some(unroll),
        threads: Some(threads),
        hints: Some(Hints { load_no_allocate, store_streaming }),
        ..Choose::default()
    })
}

fn flat(graph: &Graph, device: &Device) -> Vec<Choose> {
    let (narrowest, inputs) = bytes(graph);
    let mut all = Vec::new();
    let vectors = [4, 8, 16, 32].into_iter().filter(|&vector| vector <= device.target.widest_access());
    for vector in vectors.filter(|&vector| vector >= narrowest) {
        for unroll in [1, 2, 4, 8] {
            // More would not fit into registers.
            if inputs * (vector / narrowest) * unroll > 256 {
                continue;
            }
            for threads in [64, 128, 256, 512] {
                all.extend(with_all_hints(Form::Flat, vector, unroll, threads));
            }
        }
    }
    all
}

fn bulk(graph: &Graph, device: &Device) -> Vec<Choose> {
    let (narrowest, inputs) = bytes(graph);
    let mut all = Vec::new();
    let copy = is_copy(graph);
    for vector in [2, 4, 8, 16].into_iter().filter(|&vector| vector >= narrowest || copy) {
        for threads in [96, 128, 160, 192, 256] {
            let blocks = device.resident(threads);
            let iteration = if vector < narrowest { vector } else { inputs * (vector / narrowest) } * threads;
            let mut before = 0;
            for in_flight in (32_u32..=64).step_by(4).map(|kib| kib << 10) {
                let unroll = (in_flight / blocks / iteration).clamp(1, 32);
                if unroll == before {
                    continue;
                }
                before = unroll;
                all.extend(with_all_hints(Form::Bulk, vector, unroll, threads));
            }
        }
    }
    all
}
