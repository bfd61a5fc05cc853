//! The reasons of a plan in words.

use super::Reason;
use crate::elementwise::spec::{Form, KernelSpec};

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
