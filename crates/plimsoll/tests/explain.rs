//! Explanations on the stand-in driver, whose kernels do nothing: the plan and the prediction are the device's all the same, and a
//! wrong result is said.

mod support;

use plimsoll::core::Flag;
use plimsoll::core::sample::CachePolicy;
use plimsoll::explain::{Explain, How, Origin};
use plimsoll::prelude::*;

#[test]
fn a_gpu_s_plan_prediction_and_measurement_stand_side_by_side() {
    let folder = tempfile::tempdir().unwrap();
    let mut device = support::device(folder.path());
    let axpy = trace(|a: Scalar<f32>, x: In<f32>, y: In<f32>| a * x + y).unwrap();
    let found = axpy.explain(&mut device, 1 << 16, &How { cache: CachePolicy::Hot, ..How::default() }).unwrap();
    let plan = found.forecast.plan.as_ref().unwrap();
    assert!(plan.reasons.iter().any(|reason| reason.what == "vector" && !reason.why.is_empty()), "{plan:?}");
    assert!(found.measured.as_ref().unwrap_or_else(|| panic!("{}", found.unmeasured)).flags.contains(Flag::VerifyFail));
    // Nobody measured an imaginary device or published anything of it but rates of instructions.
    assert_eq!((found.origin, found.forecast.prediction.total, found.residue()), (Origin::Nothing, None, None));
    let words = found.words();
    for said in ["launch (launch (graph))", "plimsoll measure", "results were wrong"] {
        assert!(words.contains(said), "{words}");
    }
    assert!(found.counted.is_empty() && !found.uncounted.is_empty());
}
