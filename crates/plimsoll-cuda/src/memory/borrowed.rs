//! Memory that another library owns.

use std::sync::Arc;

use plimsoll_gpu::{Memory, Owner};

use super::Span;
use super::region::{self, Object, Region};
use crate::driver::{Context, DevicePointer};

/// Memory of another library. Its owner is released when the buffer and all launches that use it are dropped and their work is done.
#[derive(Debug)]
pub struct BorrowedBuffer {
    region: Arc<Region>,
}

impl Memory for BorrowedBuffer {
    fn whole(&self) -> Span {
        self.region.whole()
    }
}

impl BorrowedBuffer {
    /// Wraps `bytes` bytes at `pointer`.
    ///
    /// # Safety
    /// The context's device must be able to access them as long as `owner` lives, and the library that owns them must order its own
    /// use of them with the streams that use this buffer.
    #[must_use]
    pub unsafe fn new(context: &Arc<Context>, pointer: DevicePointer, bytes: u64, owner: Owner) -> Self {
        Self { region: Region::new(context, pointer, bytes, region::Owner::Borrowed(Object(owner))) }
    }
}
