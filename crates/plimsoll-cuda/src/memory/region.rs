//! Allocations, held by count: whoever may still use the memory holds it, and it is freed after the last. A [`Span`] names one
//! without holding it; each use finds it again, or learns that it is gone.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};

use plimsoll_core::Fault;

use super::Span;
use super::mapped::Mapping;
use crate::driver::{Context, DevicePointer, Handle, Stream};
use crate::wait;

/// A number that is as good as its hash.
#[derive(Default)]
struct Counted(u64);

impl Hasher for Counted {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0 << 8 | u64::from(*byte));
    }

    fn write_u64(&mut self, number: u64) {
        // The upper bits are looked at as well.
        self.0 = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

type Known = RwLock<Option<HashMap<u64, Weak<Region>, BuildHasherDefault<Counted>>>>;

/// All that are there, by their number, which no other ever has.
static KNOWN: Known = RwLock::new(None);
static NEXT: AtomicU64 = AtomicU64::new(1);

/// How memory came to be, and so how it is freed.
#[derive(Debug)]
pub(super) enum Owner {
    /// By `cuMemAlloc`; the driver's free waits for the device.
    Device,
    /// In a stream's order, from the driver's pool or, where there is none, as [`Owner::Device`].
    Ordered { home: Arc<Stream>, pooled: bool },
    /// By `cuMemMap`.
    Mapped(Option<Mapping>),
    /// By `cuMemAllocManaged`.
    Managed,
    /// By `cuMemHostAlloc`.
    Pinned,
}

/// An allocation that a device reaches.
#[derive(Debug)]
pub(crate) struct Region {
    number: u64,
    context: Arc<Context>,
    pointer: DevicePointer,
    bytes: u64,
    owner: Owner,
    /// It was used on another stream than its own.
    elsewhere: AtomicBool,
    /// The host looks at it.
    looked_at: AtomicBool,
    /// Other devices' contexts that use it.
    peers: Mutex<Vec<Arc<Context>>>,
}

impl Region {
    /// Takes over an allocation of so many bytes, none where they are 0.
    pub(super) fn new(context: &Arc<Context>, pointer: DevicePointer, bytes: u64, owner: Owner) -> Arc<Self> {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let (elsewhere, looked_at, peers) = (AtomicBool::new(false), AtomicBool::new(false), Mutex::default());
        let context = Arc::clone(context);
        let region = Arc::new(Self { number, context, pointer, bytes, owner, elsewhere, looked_at, peers });
        let mut known = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
        known.get_or_insert_default().insert(number, Arc::downgrade(&region));
        region
    }

    /// The one that a span is part of.
    ///
    /// # Errors
    /// [`Fault::Invalid`] where it was freed, or the span doesn't lie inside it.
    pub(crate) fn find(span: Span) -> Result<Arc<Self>, Fault> {
        let known = KNOWN.read().unwrap_or_else(PoisonError::into_inner);
        let found = known.as_ref().and_then(|known| known.get(&span.region())).and_then(Weak::upgrade);
        let found = found.ok_or_else(|| Fault::Invalid("memory is used that was freed".to_owned()))?;
        let outside = || Fault::Invalid(format!("{span:?} lies in no memory of this device"));
        span.is_inside(found.pointer, found.bytes).then_some(found).ok_or_else(outside)
    }

    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.context
    }

    pub(crate) fn pointer(&self) -> DevicePointer {
        self.pointer
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// All of it.
    pub(crate) fn whole(&self) -> Span {
        Span::new(self.number, self.pointer, self.bytes)
    }

    /// The stream in whose order it is freed.
    pub(super) fn home(&self) -> Option<&Arc<Stream>> {
        match &self.owner {
            Owner::Ordered { home, .. } => Some(home),
            _ => None,
        }
    }

    /// Whether [`Region::admit`] must be asked before every use.
    pub(crate) fn is_careful(&self) -> bool {
        !matches!(self.owner, Owner::Device)
    }

    /// Lets a stream use it.
    ///
    /// # Errors
    /// [`Fault::Invalid`] while the host looks at it.
    pub(crate) fn admit(&self, stream: Handle) -> Result<(), Fault> {
        if self.looked_at.load(Ordering::SeqCst) {
            return Err(Fault::Invalid("the host looks at the memory meanwhile".to_owned()));
        }
        if self.home().is_some_and(|home| home.handle() != stream) {
            self.elsewhere.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Notes that a context of another device uses it.
    pub(crate) fn share(&self, context: &Arc<Context>) {
        if !context.shares_device_with(&self.context) {
            let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
            if !peers.iter().any(|known| Arc::ptr_eq(known, context)) {
                peers.push(Arc::clone(context));
            }
        }
    }

    fn users(&self) -> Vec<Arc<Context>> {
        let mut users = self.peers.lock().unwrap_or_else(PoisonError::into_inner).clone();
        users.push(Arc::clone(&self.context));
        users
    }

    /// Waits until no device uses it, and lets none until [`Looking`] is dropped.
    ///
    /// # Errors
    /// [`Fault::Invalid`] where it is looked at already; [`Fault::Hung`]; the driver's.
    pub(super) fn look(self: &Arc<Self>) -> Result<Looking, Fault> {
        if self.looked_at.swap(true, Ordering::SeqCst) {
            return Err(Fault::Invalid("the host looks at the memory already".to_owned()));
        }
        let looking = Looking(Arc::clone(self));
        for user in self.users() {
            // Whoever asked whether it may before the mark was set has launched when it has left.
            user.pass()?;
            user.settle()?;
        }
        Ok(looking)
    }

    /// Waits for those who may use it beyond what freeing waits for by itself.
    fn settle(&self) -> Result<(), Fault> {
        let peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner).clone();
        peers.iter().try_for_each(|peer| peer.settle())?;
        let own = match &self.owner {
            Owner::Device => false,
            Owner::Ordered { .. } => self.elsewhere.load(Ordering::Relaxed),
            Owner::Mapped(_) | Owner::Managed | Owner::Pinned => true,
        };
        if own { self.context.settle() } else { Ok(()) }
    }
}

/// Memory that the host looks at.
#[derive(Debug)]
pub(super) struct Looking(Arc<Region>);

impl Drop for Looking {
    fn drop(&mut self) {
        self.0.looked_at.store(false, Ordering::SeqCst);
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        let mut known = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.as_mut() {
            known.remove(&self.number);
        }
        drop(known);
        if self.bytes == 0 {
            return;
        }
        if self.settle().is_err() {
            // Something may use it as long as the process lives.
            if let Owner::Mapped(mapping) = &mut self.owner {
                std::mem::forget(mapping.take());
            }
            return;
        }
        let pointer = self.pointer;
        match &self.owner {
            Owner::Ordered { home, pooled: true } => home.free(pointer),
            Owner::Ordered { home, pooled: false } => {
                // A free that doesn't wait for the stream by itself would be a fault of the driver; waiting costs nothing more.
                if !home.is_recording() {
                    let _ = wait::stream(home);
                }
                // SAFETY: allocated once, freed once; nobody holds it.
                self.context.destroy(|call| unsafe { call.memory_free(pointer) });
            }
            Owner::Device | Owner::Managed => {
                // SAFETY: as above.
                self.context.destroy(|call| unsafe { call.memory_free(pointer) });
            }
            Owner::Pinned => {
                let place = std::ptr::with_exposed_provenance_mut(usize::try_from(pointer).unwrap_or(0));
                // SAFETY: as above.
                self.context.destroy(|call| unsafe { call.host_free(place) });
            }
            // Unmapped as it is dropped.
            Owner::Mapped(_) => {}
        }
    }
}

/// Memory that something holds, and that it asks before each use where it must.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    regions: Arc<[Arc<Region>]>,
    careful: bool,
}

impl Held {
    pub(crate) fn new(regions: impl IntoIterator<Item = Arc<Region>>) -> Self {
        let mut regions: Vec<Arc<Region>> = regions.into_iter().collect();
        regions.sort_by_key(|region| region.number);
        regions.dedup_by_key(|region| region.number);
        let careful = regions.iter().any(|region| region.is_careful());
        Self { regions: regions.into(), careful }
    }

    /// Lets the device use all of it by what is asked of a stream.
    ///
    /// # Errors
    /// Those of [`Region::admit`].
    pub(crate) fn admit(&self, entered: &crate::driver::Entered<'_>) -> Result<(), Fault> {
        if !self.careful {
            return Ok(());
        }
        self.regions.iter().try_for_each(|region| entered.admit(region))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Region>> {
        self.regions.iter()
    }
}
