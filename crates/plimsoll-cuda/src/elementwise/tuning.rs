//! Tunes a typed call's plan.

use std::sync::Arc;

use plimsoll_core::Fault;
use plimsoll_gpu::Gpu as _;
use plimsoll_gpu::elementwise::Tuner;

use super::call::{Call, Kernel};
use super::{Engine, Error};
use crate::driver::Stream;
use crate::{Cuda, CudaDevice, wait};

/// A tuner in the stream of a device opened for measuring, for an engine of the same device.
#[must_use]
pub fn tuner(device: &CudaDevice, engine: &Engine) -> Tuner<Cuda> {
    Tuner::new(engine, &device.stream).with_blocker(Cuda::blocker(device).cloned())
}

impl<Args, R> Kernel<Args, R> {
    /// Tunes the plan for calls like this one, which isn't run.
    pub(super) fn tune<const N: usize>(&self, call: &mut Call<'_, N>) -> Result<Self, Error> {
        let lane = self.gpu.stream();
        if lane.is_recording() {
            let why = "a kernel can't be tuned while its stream is being recorded: tune it before".to_owned();
            return Err(Fault::Invalid(why).into());
        }
        wait::stream(lane)?;
        // A stream of its own, so that other threads may use this one meanwhile.
        let stream = Arc::new(Stream::new(lane.context())?);
        let mut tuner = Tuner::new(self.expression.engine(), &stream).with_store(self.gpu.store.clone());
        self.arrange(call);
        let (tensors, bits) = call.parts();
        let tuned = self.expression.tune_borrowed(tensors, bits, &self.choose, (&mut tuner, &self.gpu.stop))?;
        let mut kernel = self.clone();
        kernel.tuned = Some(Arc::new(tuned));
        Ok(kernel)
    }
}
