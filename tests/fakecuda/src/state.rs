//! The driver's state: what was ordered, and what exists.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::flight::Flight;

/// `CUDA_ERROR_LAUNCH_FAILED`.
pub const LAUNCH_FAILED: u32 = 719;

/// What was ordered.
#[derive(Clone, Debug)]
pub struct Orders {
    /// Call, answer, and at which of its times.
    pub fail: Vec<(String, u32, RangeInclusive<u64>)>,
    /// Calls before the device is lost.
    pub lost_after: Option<u64>,
    /// Launches before nothing gets done any more.
    pub hang_after: Option<u64>,
    /// `cuDriverGetVersion`.
    pub version: i32,
    /// How many devices.
    pub devices: i32,
    /// Memory, bytes.
    pub memory: usize,
    /// Compute mode.
    pub mode: i32,
    /// Compute capability times ten.
    pub capability: i32,
    /// Second-level cache, bytes.
    pub cache: i32,
    /// Nanoseconds of a kernel.
    pub kernel: u64,
    /// Whether compression is granted where it is asked for.
    pub compression: i32,
    /// Most of the second-level cache that may be set aside, bytes; without any a limit of it is unknown.
    pub persisting: i32,
}

impl Default for Orders {
    fn default() -> Self {
        Self {
            fail: Vec::new(),
            lost_after: None,
            hang_after: None,
            version: 13_000,
            devices: 1,
            memory: 1 << 30,
            mode: 0,
            capability: 90,
            cache: 50 << 20,
            kernel: 1_200,
            compression: 1,
            persisting: 32 << 20,
        }
    }
}

impl Orders {
    /// From words; what isn't understood is left out, since there is nobody to tell.
    pub fn read(text: &str) -> Self {
        let mut orders = Self::default();
        for word in text.split([' ', ';']) {
            let Some((key, value)) = word.split_once('=') else { continue };
            match key {
                "fail" => orders.fail.extend(fault(value)),
                "lost-after" => orders.lost_after = value.parse().ok(),
                "hang-after" => orders.hang_after = value.parse().ok(),
                "version" => set(&mut orders.version, value),
                "devices" => set(&mut orders.devices, value),
                "memory" => set(&mut orders.memory, value),
                "mode" => set(&mut orders.mode, value),
                "capability" => set(&mut orders.capability, value),
                "cache" => set(&mut orders.cache, value),
                "kernel" => set(&mut orders.kernel, value),
                "compression" => set(&mut orders.compression, value),
                "persisting" => set(&mut orders.persisting, value),
                _ => {}
            }
        }
        orders
    }
}

fn set<T: std::str::FromStr>(slot: &mut T, value: &str) {
    if let Ok(value) = value.parse() {
        *slot = value;
    }
}

/// `cuMemAlloc_v2:2@3`, `cuMemAlloc_v2:2@3-4`.
fn fault(text: &str) -> Option<(String, u32, RangeInclusive<u64>)> {
    let (call, rest) = text.split_once(':')?;
    let (code, times) = rest.split_once('@').unwrap_or((rest, "1"));
    let (first, last) = match times.split_once('-') {
        Some((first, last)) => (first, last.parse().ok()?),
        None => (times, u64::MAX),
    };
    Some((call.to_owned(), code.parse().ok()?, first.parse().ok()?..=last))
}

/// A kernel of a loaded image: its name, and the sizes of its parameters where the image tells.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// As in the source.
    pub name: String,
    /// Bytes of each parameter.
    pub sizes: Option<Vec<usize>>,
}

/// A kernel in a graph: which one, and its parameters as they were.
#[derive(Clone, Debug)]
pub struct Node {
    /// The kernel's handle.
    pub function: usize,
    /// Copies of the parameters.
    pub parameters: Vec<Vec<u8>>,
}

/// All that exists.
#[derive(Debug, Default)]
pub struct State {
    /// What was ordered; `None` before the first call.
    pub orders: Option<Orders>,
    /// How often each call was made.
    pub calls: BTreeMap<&'static str, u64>,
    /// Calls of any kind.
    pub total: u64,
    /// Launches of any kind.
    pub launches: u64,
    /// The device's time in nanoseconds.
    pub now: u64,
    /// Once set, the answer to everything.
    pub sticky: Option<u32>,
    /// Next handle.
    pub next: usize,
    /// Allocations: address and bytes.
    pub memory: BTreeMap<usize, usize>,
    /// Pinned allocations: address and bytes.
    pub pinned: BTreeMap<usize, usize>,
    /// Copies from and to pinned memory that the device hasn't come to: address and bytes.
    pub pending: Vec<(usize, usize)>,
    /// Memory without an address: handle, bytes and compression.
    pub physical: BTreeMap<usize, (usize, u8)>,
    /// Addresses without memory: address and bytes.
    pub reserved: BTreeMap<usize, usize>,
    /// Addresses that memory is mapped at: address and bytes.
    pub mapped: BTreeMap<usize, usize>,
    /// Limits of the context, by number.
    pub limits: BTreeMap<u32, usize>,
    /// Contexts retained.
    pub contexts: u64,
    /// Streams.
    pub streams: BTreeSet<usize>,
    /// Events with the time they were recorded.
    pub events: BTreeMap<usize, Option<u64>>,
    /// Modules with the text of their images, where it is ours.
    pub modules: BTreeMap<usize, Option<String>>,
    /// Kernels by handle.
    pub functions: BTreeMap<usize, Kernel>,
    /// What streams record.
    pub recorded: BTreeMap<usize, Vec<Node>>,
    /// Streams whose recording came to nothing.
    pub invalid: BTreeSet<usize>,
    /// Graphs and executables.
    pub graphs: BTreeMap<usize, Vec<Node>>,
    /// Work that isn't done.
    pub flight: Flight,
}

impl State {
    /// What was ordered.
    pub fn orders(&mut self) -> &Orders {
        self.orders.get_or_insert_with(|| Orders::read(&std::env::var("FAKECUDA").unwrap_or_default()))
    }

    /// A handle that was never given before.
    pub fn handle(&mut self) -> usize {
        self.next += 16;
        0x1000 + self.next
    }

    /// Bytes of device memory in use.
    pub fn used(&self) -> usize {
        self.memory.values().sum::<usize>() + self.physical.values().map(|(bytes, _)| bytes).sum::<usize>()
    }

    /// Whether these bytes are inside one allocation.
    pub fn holds(&self, address: usize, bytes: usize) -> bool {
        let inside = |known: &BTreeMap<usize, usize>| {
            let below = known.range(..=address).next_back();
            below.is_some_and(|(start, size)| address - start + bytes <= *size)
        };
        inside(&self.memory) || inside(&self.mapped)
    }

    /// Whether these bytes are inside one pinned allocation.
    pub fn is_pinned(&self, address: usize, bytes: usize) -> bool {
        let below = self.pinned.range(..=address).next_back();
        below.is_some_and(|(start, size)| address - start + bytes <= *size)
    }

    /// Notes work of a stream, with words among which are addresses that it uses.
    pub fn ask(&mut self, stream: usize, words: impl IntoIterator<Item = usize>) {
        let known = [&self.memory, &self.pinned, &self.mapped];
        let inside = |known: &BTreeMap<usize, usize>, address: usize| {
            let (start, size) = known.range(..=address).next_back()?;
            (address - start < *size).then_some(*start)
        };
        let allocation = |address| known.iter().find_map(|known| inside(known, address));
        self.flight.ask(stream, words.into_iter().filter_map(allocation));
    }

    /// Whether waiting is in vain.
    pub fn hangs(&mut self) -> bool {
        let launches = self.launches;
        self.orders().hang_after.is_some_and(|after| launches > after)
    }
}

static STATE: Mutex<Option<State>> = Mutex::new(None);

/// The state, for one call.
pub struct Guard(MutexGuard<'static, Option<State>>);

impl Guard {
    /// The state itself.
    pub fn get(&mut self) -> &mut State {
        self.0.get_or_insert_default()
    }
}

/// Takes the state without counting a call.
pub fn lock() -> Guard {
    Guard(STATE.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Counts a call.
///
/// # Errors
/// The answer that was ordered for it.
pub fn enter(call: &'static str) -> Result<Guard, u32> {
    let mut guard = lock();
    let state = guard.get();
    state.total += 1;
    let total = state.total;
    let times = state.calls.entry(call).or_default();
    *times += 1;
    let times = *times;
    if let Some(code) = state.sticky {
        return Err(code);
    }
    let orders = state.orders();
    if let Some((_, code, _)) = orders.fail.iter().find(|(name, _, at)| name == call && at.contains(&times)) {
        return Err(*code);
    }
    if orders.lost_after.is_some_and(|after| total > after) {
        state.sticky = Some(LAUNCH_FAILED);
        return Err(LAUNCH_FAILED);
    }
    Ok(guard)
}
