//! Explanations on the stand-in driver, whose kernels do nothing: the plan and the prediction are the device's all the same, and a
//! wrong result is said.

use std::sync::Arc;
use std::time::Duration;

use plimsoll::bench::Device;
use plimsoll::core::Flag;
use plimsoll::core::sample::CachePolicy;
use plimsoll::explain::{Explain, How, Origin};
use plimsoll::prelude::*;
use plimsoll_cuda::compile::{Compiler, Program};
use plimsoll_cuda::driver::Driver;
use plimsoll_cuda::{Options, Unavailable, open_with};

/// A compiler for the stand-in, whose kernels take whatever they are given.
struct Anything;

impl Compiler for Anything {
    fn identity(&self) -> String {
        "anything for the stand-in 1.0".to_owned()
    }

    fn compile(&self, program: &Program<'_>) -> Result<Vec<u8>, Unavailable> {
        if !matches!(program.name, "elementwise.cu" | "check.cu") {
            return Ok(fakecuda::image("plimsoll_spin(8,8);plimsoll_empty();scale(8,8,4)"));
        }
        let mut image = b"\x7fELF".to_vec();
        image.resize(256, 0);
        Ok(image)
    }
}

#[test]
fn a_gpu_s_plan_prediction_and_measurement_stand_side_by_side() {
    let folder = tempfile::tempdir().unwrap();
    let library = fakecuda::without(folder.path(), &[]).unwrap();
    let deadline = Some(Duration::from_millis(500));
    let options = Options { no_cache: true, compiler: Some(Arc::new(Anything)), deadline, ..Options::default() };
    let bench = open_with(&Driver::open(&library).unwrap(), 0, &options).unwrap();
    let mut device = Device::Cuda(bench);
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
