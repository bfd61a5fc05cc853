//! What the fake libraries of vendors share: state behind a lock, and settings.

use std::ffi::{CStr, c_char};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A library's state; `None` before the first call.
pub struct Shared<T>(Mutex<Option<T>>);

impl<T> Shared<T> {
    /// No state yet.
    pub const fn new() -> Self {
        Self(Mutex::new(None))
    }

    /// The state, also after a call that panicked.
    pub fn lock(&self) -> MutexGuard<'_, Option<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Calls `set` for each setting: words of the form `key=value`, separated by spaces or semicolons.
///
/// # Safety
/// `settings` must be a terminated string.
pub unsafe fn read_settings(settings: *const c_char, mut set: impl FnMut(&str, &str)) {
    // SAFETY: by this function's contract.
    let settings = unsafe { CStr::from_ptr(settings) }.to_string_lossy();
    settings.split([' ', ';']).filter_map(|word| word.split_once('=')).for_each(|(key, value)| set(key, value));
}
