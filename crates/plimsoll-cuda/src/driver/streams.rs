//! What all contexts of one device share, which is one primary context for all of the process: whether it was given up, and its
//! streams, so that all that was asked of them can be waited for. Memory that kernels may use on any of them is looked at by the
//! host, unmapped or freed after that, and modules are unloaded after that.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use plimsoll_core::Fault;

use super::error::done;
use super::stream::{Core, Owner, is_captured};
use super::types::Handle;
use super::{Context, DriverError};
use crate::wait;

/// A device's own.
#[derive(Debug, Default)]
pub(super) struct Shared {
    dead: AtomicBool,
    streams: Mutex<Streams>,
}

#[derive(Debug, Default)]
struct Streams {
    ours: Vec<Weak<Core>>,
    /// Streams of other libraries that we asked something of and no longer have, kept alive until it was waited for.
    theirs: Vec<(u64, Handle, Owner)>,
    /// How many of those there have been.
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

    /// Remembers a stream of another library that we let go of.
    pub(super) fn adopt(&self, handle: Handle, owner: &Owner) {
        let mut streams = self.streams();
        streams.adopted += 1;
        let number = streams.adopted;
        streams.theirs.push((number, handle, owner.clone()));
    }

    fn ours(&self) -> Vec<Arc<Core>> {
        self.streams().ours.iter().filter_map(Weak::upgrade).collect()
    }

    /// Waits until nobody is asking anything who began before.
    pub(super) fn pass(&self) -> bool {
        self.ours().iter().all(|core| core.pass())
    }

    /// Waits until all that was asked of the streams by now is done.
    ///
    /// # Errors
    /// [`Fault::Hung`]; a stream that another library records; the driver's.
    pub(super) fn settle(&self, context: &Context) -> Result<(), Fault> {
        self.ours().iter().try_for_each(|core| core.settle())?;
        let theirs = self.streams().theirs.clone();
        for (_, handle, _) in &theirs {
            is_captured(context, *handle)?;
            // SAFETY: the stream's owner is held here.
            let query = || context.watch(done(unsafe { context.call().stream_query(*handle) }));
            wait::until(context, "cuStreamQuery", query)?;
        }
        // A stream that somebody lets go of meanwhile is there once more, with another number.
        let settled = |number: u64| theirs.iter().any(|(known, ..)| *known == number);
        self.streams().theirs.retain(|(number, ..)| !settled(*number));
        Ok(())
    }
}

impl Context {
    /// Whether streams of both are waited for together: they are of one device, and of one opening of the driver.
    pub(crate) fn shares_device_with(&self, other: &Self) -> bool {
        std::ptr::eq(self.shared(), other.shared())
    }

    /// Waits until all that was asked of the device by this library is done.
    pub(crate) fn settle(&self) -> Result<(), Fault> {
        if self.is_given_up() {
            return Err(Fault::DeviceLost { call: "cuStreamQuery", why: "given up after an earlier fault".to_owned() });
        }
        self.shared().settle(self)
    }

    /// Waits until nobody is asking anything of the device who began before.
    pub(crate) fn pass(&self) -> Result<(), Fault> {
        let busy = || Fault::Invalid("other threads use the device's streams: try again".to_owned());
        self.shared().pass().then_some(()).ok_or_else(busy)
    }

    /// Whether the driver copies from and to a place of the host before the call returns: no memory that a device reaches is there.
    ///
    /// # Errors
    /// The driver's. One without the call can't tell, and no memory counts as pageable.
    pub(crate) fn is_pageable(&self, place: *const u8) -> Result<bool, DriverError> {
        /// `CU_POINTER_ATTRIBUTE_MEMORY_TYPE`; 0 where the driver knows nothing of the place.
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
