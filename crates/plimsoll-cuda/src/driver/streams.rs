//! State that all contexts of one device share, since they are the process's one primary context: whether it was given up, and its
//! streams, so that their work can be waited for. Only after such a wait does the host access memory that kernels may use, is such
//! memory unmapped or freed, or a module unloaded.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use plimsoll_core::Fault;

use super::error::is_done;
use super::stream::{Core, Owner, check_not_captured};
use super::types::Handle;
use super::{Context, DriverError};
use crate::wait;

/// The shared state of one device.
#[derive(Debug, Default)]
pub(super) struct Shared {
    dead: AtomicBool,
    streams: Mutex<Streams>,
}

#[derive(Debug, Default)]
struct Streams {
    ours: Vec<Weak<Core>>,
    /// Dropped streams of other libraries that still have work of ours, kept alive until it was waited for.
    theirs: Vec<(u64, Handle, Owner)>,
    /// How many of those there have been; numbers them.
    adopted: u64,
}

impl Shared {
    pub(super) fn give_up(&self) {
        self.dead.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_given_up(&self) -> bool {
        self.dead.load(Ordering::Relaxed)
    }

    fn streams(&self) -> MutexGuard<'_, Streams> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn register(&self, core: &Arc<Core>) {
        let mut streams = self.streams();
        streams.ours.retain(|known| known.strong_count() > 0);
        streams.ours.push(Arc::downgrade(core));
    }

    /// Keeps a dropped stream of another library until its work was waited for.
    pub(super) fn adopt(&self, handle: Handle, owner: &Owner) {
        let mut streams = self.streams();
        streams.adopted += 1;
        let number = streams.adopted;
        streams.theirs.push((number, handle, owner.clone()));
    }

    fn ours(&self) -> Vec<Arc<Core>> {
        self.streams().ours.iter().filter_map(Weak::upgrade).collect()
    }

    /// Waits until all callers that are submitting work have left.
    pub(super) fn wait_for_callers(&self) -> bool {
        self.ours().iter().all(|core| core.wait_for_callers())
    }

    /// Waits until all work submitted to the streams so far is done.
    ///
    /// # Errors
    /// [`Fault::Hung`]; another library is recording one of the streams.
    pub(super) fn wait_idle(&self, context: &Context) -> Result<(), Fault> {
        self.ours().iter().try_for_each(|core| core.wait_idle())?;
        let theirs = self.streams().theirs.clone();
        for (_, handle, _) in &theirs {
            check_not_captured(context, *handle)?;
            // SAFETY: `theirs` holds the stream's owner.
            let query = || context.watch(is_done(unsafe { context.call().stream_query(*handle) }));
            wait::until(context, "cuStreamQuery", query)?;
        }
        // A stream that is dropped again during the wait is listed again, under another number.
        let was_waited_for = |number: u64| theirs.iter().any(|(known, ..)| *known == number);
        self.streams().theirs.retain(|(number, ..)| !was_waited_for(*number));
        Ok(())
    }
}

impl Context {
    /// Whether both belong to the same device of the same opened driver, and so share state.
    pub(crate) fn shares_device_with(&self, other: &Self) -> bool {
        std::ptr::eq(self.shared(), other.shared())
    }

    /// Waits until all work that this library submitted to the device is done.
    pub(crate) fn wait_idle(&self) -> Result<(), Fault> {
        if self.is_given_up() {
            return Err(Fault::DeviceLost { call: "cuStreamQuery", why: "given up after an earlier fault".to_owned() });
        }
        self.shared().wait_idle(self)
    }

    /// Waits until all callers that are submitting work to the device have left.
    pub(crate) fn wait_for_callers(&self) -> Result<(), Fault> {
        let busy = || Fault::Invalid("other threads use the device's streams: try again".to_owned());
        self.shared().wait_for_callers().then_some(()).ok_or_else(busy)
    }

    /// Whether a host address is pageable, that is, not memory that a device can access: then the driver finishes copies from or to
    /// it before the call returns.
    ///
    /// # Errors
    /// Driver errors. With a driver that lacks the call, no memory counts as pageable.
    pub(crate) fn is_pageable(&self, place: *const u8) -> Result<bool, DriverError> {
        /// `CU_POINTER_ATTRIBUTE_MEMORY_TYPE`; 0 if the driver doesn't know the address.
        const MEMORY_TYPE: u32 = 2;
        let mut kind = 0_u32;
        let (attribute, mut to) = (MEMORY_TYPE, (&raw mut kind).cast());
        let pointer = place.addr() as u64;
        // SAFETY: one attribute, whose value is written to a live integer; the pointer is only looked up.
        match self.watch(unsafe { self.call().pointer_attributes(1, &raw const attribute, &raw mut to, pointer) }) {
            Ok(()) => Ok(kind == 0),
            Err(DriverError::Unavailable(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }
}
