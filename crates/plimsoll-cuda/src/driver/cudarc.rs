//! Streams of the cudarc crate as ours. Both crates use the device's primary context, so no conversion is needed.

use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaStream};

use super::types::Handle;
use super::{Context, Stream};
use plimsoll_gpu::Unavailable;

impl Context {
    /// Whether a context of cudarc is this one.
    #[must_use]
    pub fn is_same_context(&self, other: &CudaContext) -> bool {
        other.cu_ctx().cast() == self.handle().0
    }
}

impl Stream {
    /// Wraps a stream of cudarc and keeps it alive.
    ///
    /// # Errors
    /// It belongs to another device, or not to the device's primary context.
    pub fn from_cudarc(context: &Arc<Context>, stream: &Arc<CudaStream>) -> Result<Self, Unavailable> {
        if !context.is_same_context(stream.context()) {
            let (theirs, ours) = (stream.context().ordinal(), context.device().number());
            let why = format!("it belongs to cuda:{theirs}, and not to the primary context of cuda:{ours}");
            return Err(Unavailable::new(
                "cudarc stream",
                why,
                "Open the stream's device, and create streams from CudaContext::new",
            ));
        }
        Ok(Self::from_foreign(context, Handle(stream.cu_stream().cast()), Arc::clone(stream) as _))
    }

    /// Whether a stream of cudarc is this one.
    #[must_use]
    pub fn is_same_stream(&self, other: &CudaStream) -> bool {
        other.cu_stream().cast() == self.handle().0
    }
}
