//! The reasons of a plan in words.

use super::{Choose, Reason};
use crate::elementwise::spec::{Form, KernelSpec};
use crate::kernel::Index;

/// Updates a tuned choice to the value in `spec`, which tensors or registers may have changed.
pub fn with_final_value(reason: Reason, spec: &KernelSpec) -> Reason {
    let chosen = match reason.what {
        "hints" => return Reason { chosen: describe_hints(spec), ..reason },
        "vector" => format!("{} elements", spec.lanes),
        "unroll" => spec.unroll.to_string(),
        "threads" => spec.threads.to_string(),
        "dependent" => spec.dependent.name().to_owned(),
        _ => return reason,
    };
    if reason.what == "vector" || chosen == reason.chosen {
        let why = if reason.what == "vector" { format!("{}: {}", reason.chosen, reason.why) } else { reason.why };
        return Reason { what: reason.what, chosen, why };
    }
    let more = reason.what == "unroll" && reason.chosen.parse().is_ok_and(|unroll: u32| spec.unroll > unroll);
    let cause = if more {
        "because of the tensors, or so that all blocks fit at once"
    } else {
        "because of the tensors or the registers"
    };
    let why = format!("instead of {} ({}), {cause}", reason.chosen, reason.why);
    Reason { what: reason.what, chosen, why }
}

/// The hints in words. Bulk copies never allocate lines in L1.
fn describe_hints(spec: &KernelSpec) -> String {
    let bulk = "inputs stay in L2 until the last tiles";
    let loads = if spec.form == Form::Bulk { bulk } else { "loads allocate no lines in L1" };
    match (spec.hints.load_no_allocate, spec.hints.store_streaming) {
        (false, false) => "none".to_owned(),
        (true, false) => loads.to_owned(),
        (false, true) => "streaming stores".to_owned(),
        (true, true) => format!("{loads}, streaming stores"),
    }
}

/// The reasons for all choices: those of the tuning, for the form and the index, and for what follows from them.
pub fn explain_plan(
    spec: &KernelSpec,
    blocks: u32,
    choose: &Choose,
    tuned: Vec<Reason>,
    [why_form, why_index]: [&str; 2],
    first_wave: Option<u64>,
) -> Vec<Reason> {
    let reason = |what, chosen: String, why: &str| Reason { what, chosen, why: why.to_owned() };
    let or_requested = |requested: bool, why| if requested { "requested" } else { why };
    let mut reasons = vec![reason("form", spec.form.name().to_owned(), why_form)];
    reasons.extend(tuned.into_iter().map(|reason| with_final_value(reason, spec)));
    reasons.push(reason("index", format!("{} bits", if spec.index == Index::U32 { 32 } else { 64 }), why_index));
    let one_shot = or_requested(choose.grid.is_some(), "one-shot grids in block order are the fastest");
    reasons.push(reason("grid", format!("{blocks} blocks"), one_shot));
    if spec.resident > 0 {
        let registers = "each thread has the registers to load all inputs before it computes";
        let why = or_requested(choose.resident.is_some(), registers);
        reasons.push(reason("resident", format!("{} blocks per SM", spec.resident), why));
    }
    if let Some(first_wave) = first_wave {
        let why = "they prefetch their inputs while they wait for the previous kernel";
        reasons.push(reason("prefetch", format!("the first {first_wave} blocks"), why));
    }
    reasons
}
