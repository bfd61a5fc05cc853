//! The state of each calling thread.

use std::cell::Cell;

use crate::call::Handle;

/// The primary context of every device.
pub const CONTEXT: Handle = 0xc0;
/// A context that another library made.
pub const OTHER_CONTEXT: Handle = 0xf0;
/// `CU_STREAM_CAPTURE_MODE_GLOBAL`.
pub const GLOBAL: u32 = 0;
/// `CU_STREAM_CAPTURE_MODE_RELAXED`.
pub const RELAXED: u32 = 2;

thread_local! {
    /// The current context; 0 if there is none.
    pub static CURRENT: Cell<Handle> = const { Cell::new(0) };
    /// How the thread's calls treat captures.
    pub static CAPTURE_MODE: Cell<u32> = const { Cell::new(GLOBAL) };
}
