//! Explanations with the stand-in driver, whose kernels do nothing: the plan and the prediction are still the device's, and the
//! wrong result is reported.

mod support;

use plimsoll::core::Flag;
use plimsoll::core::sample::CachePolicy;
use plimsoll::explain::{Explain, ExplainOptions, Origin};
use plimsoll::prelude::*;

#[test]
fn explanation_of_a_gpu_has_plan_prediction_and_measurement() {
    let folder = tempfile::tempdir().unwrap();
    let mut device = support::device(folder.path());
    let axpy = trace(|a: Scalar<f32>, x: In<f32>, y: In<f32>| a * x + y).unwrap();
    let found = axpy
        .explain(&mut device, 1 << 16, &ExplainOptions { cache: CachePolicy::Hot, ..ExplainOptions::default() })
        .unwrap();
    let plan = found.forecast.plan.as_ref().unwrap();
    assert!(plan.reasons.iter().any(|reason| reason.what == "vector" && !reason.why.is_empty()), "{plan:?}");
    assert!(found.measured.as_ref().unwrap_or_else(|| panic!("{}", found.unmeasured)).flags.contains(Flag::VerifyFail));
    // For an imaginary device nothing is measured or published except instruction rates.
    assert_eq!((found.origin, found.forecast.prediction.total, found.residue()), (Origin::Nothing, None, None));
    let words = found.words();
    for expected in ["launch (launch (graph))", "measuring ", "results were wrong"] {
        assert!(words.contains(expected), "{words}");
    }
    assert!(found.counted.is_empty() && !found.uncounted.is_empty());
}
