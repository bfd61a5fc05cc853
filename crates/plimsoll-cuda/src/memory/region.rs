//! Reference-counted allocations: everything that may still use memory holds it, and it is freed after the last holder. A [`Span`]
//! names an allocation without holding it; each use looks it up again, and fails if it was freed.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};

use plimsoll_core::Fault;

use super::Span;
use super::mapped::Mapping;
use super::placed::Pages;
use crate::driver::{Context, DevicePointer, Handle, Stream};
use crate::wait;

/// A cheap hasher for consecutive numbers.
#[derive(Default)]
struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0 << 8 | u64::from(*byte));
    }

    fn write_u64(&mut self, number: u64) {
        // The map uses the upper bits too, so they must differ.
        self.0 = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

type Known = RwLock<Option<HashMap<u64, Weak<Region>, BuildHasherDefault<NumberHasher>>>>;

/// All live regions by number; numbers are never reused.
static KNOWN: Known = RwLock::new(None);
static NEXT: AtomicU64 = AtomicU64::new(1);

/// How memory was allocated, which decides how it is freed.
#[derive(Debug)]
pub(super) enum Owner {
    /// By `cuMemAlloc`; the driver's free waits for the device.
    Device,
    /// In a stream's order, from the driver's pool or, if there is none, as [`Owner::Device`].
    Ordered { home: Arc<Stream>, pooled: bool },
    /// By `cuMemMap`.
    Mapped(Option<Mapping>),
    /// By `cuMemAllocManaged`.
    Managed,
    /// By `cuMemHostAlloc`.
    Pinned,
    /// Pages of ours that were pinned by `cuMemHostRegister`.
    Registered(Option<Pages>),
    /// By another library, whose object is held.
    Borrowed(#[allow(dead_code, reason = "held, not used")] Object),
}

/// An object of another library.
pub(super) struct Object(#[allow(dead_code, reason = "held, not used")] pub(super) plimsoll_gpu::Owner);

impl std::fmt::Debug for Object {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("another library")
    }
}

/// An allocation that a device can access.
#[derive(Debug)]
pub(crate) struct Region {
    number: u64,
    context: Arc<Context>,
    pointer: DevicePointer,
    bytes: u64,
    owner: Owner,
    /// Whether it was used on a stream other than its own.
    used_elsewhere: AtomicBool,
    /// Whether the host is accessing it.
    host_access: AtomicBool,
    /// Other devices' contexts that use it.
    peers: Mutex<Vec<Arc<Context>>>,
}

impl Region {
    /// Takes ownership of an allocation of `bytes` bytes; for 0 bytes there is no allocation.
    pub(super) fn new(context: &Arc<Context>, pointer: DevicePointer, bytes: u64, owner: Owner) -> Arc<Self> {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let (used_elsewhere, host_access, peers) = (AtomicBool::new(false), AtomicBool::new(false), Mutex::default());
        let context = Arc::clone(context);
        let region = Arc::new(Self { number, context, pointer, bytes, owner, used_elsewhere, host_access, peers });
        let mut known = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
        known.get_or_insert_default().insert(number, Arc::downgrade(&region));
        region
    }

    /// The region that contains a span.
    ///
    /// # Errors
    /// [`Fault::Invalid`] if it was freed, or the span isn't inside it.
    pub(crate) fn find(span: Span) -> Result<Arc<Self>, Fault> {
        let known = KNOWN.read().unwrap_or_else(PoisonError::into_inner);
        let found = known.as_ref().and_then(|known| known.get(&span.region())).and_then(Weak::upgrade);
        let found = found.ok_or_else(|| Fault::Invalid("the memory was freed".to_owned()))?;
        let outside = || Fault::Invalid(format!("{span:?} is outside its allocation"));
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

    /// The span of the whole region.
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

    /// Whether [`Region::admit`] must be called before every use.
    pub(crate) fn needs_admission(&self) -> bool {
        !matches!(self.owner, Owner::Device)
    }

    /// Whether the host may access it while it lives.
    fn host_can_access(&self) -> bool {
        matches!(self.owner, Owner::Managed | Owner::Pinned | Owner::Registered(_))
    }

    /// Lets a stream use it.
    ///
    /// # Errors
    /// [`Fault::Invalid`] while the host accesses it.
    #[inline]
    pub(crate) fn admit(&self, stream: Handle) -> Result<(), Fault> {
        if self.host_access.load(Ordering::SeqCst) {
            return Err(Fault::Invalid("the host accesses the memory at the moment".to_owned()));
        }
        if self.home().is_some_and(|home| home.handle() != stream) {
            self.used_elsewhere.store(true, Ordering::Relaxed);
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

    /// Waits until no device uses it, and blocks all use until the returned [`HostAccess`] is dropped.
    ///
    /// # Errors
    /// [`Fault::Invalid`] if the host accesses it already; [`Fault::Hung`].
    pub(super) fn begin_host_access(self: &Arc<Self>) -> Result<HostAccess, Fault> {
        if self.host_access.swap(true, Ordering::SeqCst) {
            return Err(Fault::Invalid("the host accesses the memory already".to_owned()));
        }
        let access = HostAccess(Arc::clone(self));
        for user in self.users() {
            // A caller that was admitted before the flag was set has submitted its work once it has left the stream.
            user.wait_for_callers()?;
            user.wait_idle()?;
        }
        Ok(access)
    }

    /// Waits for all users that freeing itself doesn't wait for.
    fn wait_idle(&self) -> Result<(), Fault> {
        let peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner).clone();
        peers.iter().try_for_each(|peer| peer.wait_idle())?;
        let own = match &self.owner {
            Owner::Device => false,
            Owner::Ordered { .. } => self.used_elsewhere.load(Ordering::Relaxed),
            Owner::Mapped(_) | Owner::Managed | Owner::Pinned | Owner::Registered(_) | Owner::Borrowed(_) => true,
        };
        if own { self.context.wait_idle() } else { Ok(()) }
    }
}

/// While it lives, the host may access the memory and no device does.
#[derive(Debug)]
pub(super) struct HostAccess(Arc<Region>);

impl Drop for HostAccess {
    fn drop(&mut self) {
        self.0.host_access.store(false, Ordering::SeqCst);
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
        if self.wait_idle().is_err() {
            // Something may still use it, so it is leaked.
            match &mut self.owner {
                Owner::Mapped(mapping) => std::mem::forget(mapping.take()),
                Owner::Registered(pages) => std::mem::forget(pages.take()),
                Owner::Borrowed(Object(owner)) => std::mem::forget(Arc::clone(owner)),
                _ => {}
            }
            return;
        }
        let pointer = self.pointer;
        match &mut self.owner {
            Owner::Ordered { home, pooled: true } => home.free(pointer),
            Owner::Ordered { home, pooled: false } => {
                // `cuMemFree` should wait for the stream by itself; waiting here costs nothing extra.
                if !home.is_recording() {
                    let _ = wait::stream(home);
                }
                // SAFETY: allocated once, freed once; nothing holds it any more.
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
            Owner::Registered(pages) => {
                let place = std::ptr::with_exposed_provenance_mut(usize::try_from(pointer).unwrap_or(0));
                let mut released = false;
                self.context.destroy(|call| {
                    // SAFETY: registered once, released once; nothing uses it any more.
                    let answer = unsafe { call.host_unregister(place) };
                    released = answer.is_ok();
                    answer
                });
                if !released {
                    // The driver may still use the pages, so they are leaked.
                    std::mem::forget(pages.take());
                }
            }
            // Unmapped or released when `owner` is dropped.
            Owner::Mapped(_) | Owner::Borrowed(_) => {}
        }
    }
}

/// Allocations that a launch, a graph or an operand keeps alive, and admits before each use if necessary.
#[derive(Clone, Debug)]
pub struct HeldRegions {
    regions: Regions,
    needs_admission: bool,
}

#[derive(Clone, Debug)]
enum Regions {
    /// As most operands have.
    One(Arc<Region>),
    Many(Arc<Many>),
}

/// Regions that a launch uses together, such as the tensors of a model.
#[derive(Debug)]
struct Many {
    regions: Box<[Arc<Region>]>,
    /// Whether the host may access some of them, so that each use must check it.
    host_accesses: bool,
    /// The handle of the stream for which all were admitted last. Admitting them again would change nothing: whether a use is noted
    /// depends only on the handle, and a note lasts.
    admitted: AtomicUsize,
}

impl HeldRegions {
    pub(crate) fn one(region: Arc<Region>) -> Self {
        let needs_admission = region.needs_admission();
        Self { regions: Regions::One(region), needs_admission }
    }

    pub(crate) fn new(regions: impl IntoIterator<Item = Arc<Region>>) -> Self {
        let mut regions: Vec<Arc<Region>> = regions.into_iter().collect();
        regions.sort_by_key(|region| region.number);
        regions.dedup_by_key(|region| region.number);
        let needs_admission = regions.iter().any(|region| region.needs_admission());
        let host_accesses = regions.iter().any(|region| region.host_can_access());
        let many = Many { regions: regions.into(), host_accesses, admitted: AtomicUsize::new(usize::MAX) };
        Self { regions: Regions::Many(Arc::new(many)), needs_admission }
    }

    /// Lets work submitted to a stream use all of them.
    ///
    /// # Errors
    /// Those of [`Region::admit`].
    #[inline]
    pub(crate) fn admit(&self, entered: &crate::driver::Entered<'_>) -> Result<(), Fault> {
        if !self.needs_admission {
            return Ok(());
        }
        let Regions::Many(many) = &self.regions else {
            return self.iter().try_for_each(|region| entered.admit(region));
        };
        let stream = entered.handle().0.addr();
        let once = !many.host_accesses && !entered.is_recording();
        if once && many.admitted.load(Ordering::Acquire) == stream {
            return Ok(());
        }
        many.regions.iter().try_for_each(|region| entered.admit(region))?;
        many.admitted.store(stream, Ordering::Release);
        Ok(())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.iter().len() == 0
    }

    pub(crate) fn iter(&self) -> std::slice::Iter<'_, Arc<Region>> {
        match &self.regions {
            Regions::One(region) => std::slice::from_ref(region).iter(),
            Regions::Many(many) => many.regions.iter(),
        }
    }
}
