//! Streams of the cudarc crate as ours. Both use the device's primary context, so nothing has to be carried over.

use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaStream};

use super::types::Handle;
use super::{Context, Stream};
use plimsoll_gpu::Unavailable;

impl Context {
    /// Whether a context of cudarc is this one.
    #[must_use]
    pub fn is_of(&self, other: &CudaContext) -> bool {
        other.cu_ctx().cast() == self.handle().0
    }
}

impl Stream {
    /// A stream of cudarc, which stays alive as long as this.
    ///
    /// # Errors
    /// It belongs to another device, or not to the device's primary context.
    pub fn of_cudarc(context: &Arc<Context>, stream: &Arc<CudaStream>) -> Result<Self, Unavailable> {
        if !context.is_of(stream.context()) {
            let (theirs, ours) = (stream.context().ordinal(), context.device().number());
            let why = format!("it is one of cuda:{theirs}, and this is the primary context of cuda:{ours}");
            return Err(Unavailable::new(
                "cudarc stream",
                why,
                "Open the stream's device, and streams by CudaContext::new",
            ));
        }
        Ok(Self::of(context, Handle(stream.cu_stream().cast()), Arc::clone(stream) as _))
    }

    /// Whether a stream of cudarc is this one.
    #[must_use]
    pub fn is_of(&self, other: &CudaStream) -> bool {
        other.cu_stream().cast() == self.handle().0
    }
}
