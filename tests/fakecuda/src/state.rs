//! The driver's state: its settings and all objects.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::call::CAPTURED;
use crate::flight::Flight;
use crate::thread::{CAPTURE_MODE, RELAXED};

/// `CUDA_ERROR_LAUNCH_FAILED`.
pub const LAUNCH_FAILED: u32 = 719;

/// The settings, described in the crate's documentation.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Injected errors: the call, the error it returns, and in which of its calls.
    pub fail: Vec<(String, u32, RangeInclusive<u64>)>,
    /// Calls before the device is lost.
    pub lost_after: Option<u64>,
    /// Launches before work stops finishing.
    pub hang_after: Option<u64>,
    /// `cuDriverGetVersion`.
    pub version: i32,
    /// Number of devices.
    pub devices: i32,
    /// Memory, bytes.
    pub memory: usize,
    /// Compute mode.
    pub mode: i32,
    /// Compute capability times ten.
    pub capability: i32,
    /// L2, bytes.
    pub cache: i32,
    /// Nanoseconds of a kernel.
    pub kernel: u64,
    /// 1 if requested compression is granted.
    pub compression: i32,
    /// Maximum bytes of L2 that may be set aside for persisting accesses; with 0 that limit is unsupported.
    pub persisting: i32,
}

impl Default for Settings {
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

impl Settings {
    /// Parses settings. Unknown words are ignored, because there is nowhere to report them.
    pub fn parse(text: &str) -> Self {
        let mut settings = Self::default();
        for word in text.split([' ', ';']) {
            let Some((key, value)) = word.split_once('=') else { continue };
            match key {
                "fail" => settings.fail.extend(parse_fault(value)),
                "lost-after" => settings.lost_after = value.parse().ok(),
                "hang-after" => settings.hang_after = value.parse().ok(),
                "version" => set(&mut settings.version, value),
                "devices" => set(&mut settings.devices, value),
                "memory" => set(&mut settings.memory, value),
                "mode" => set(&mut settings.mode, value),
                "capability" => set(&mut settings.capability, value),
                "cache" => set(&mut settings.cache, value),
                "kernel" => set(&mut settings.kernel, value),
                "compression" => set(&mut settings.compression, value),
                "persisting" => set(&mut settings.persisting, value),
                _ => {}
            }
        }
        settings
    }
}

fn set<T: std::str::FromStr>(slot: &mut T, value: &str) {
    if let Ok(value) = value.parse() {
        *slot = value;
    }
}

/// Parses `cuMemAlloc_v2:2@3` or `cuMemAlloc_v2:2@3-4`.
fn parse_fault(text: &str) -> Option<(String, u32, RangeInclusive<u64>)> {
    let (call, rest) = text.split_once(':')?;
    let (code, times) = rest.split_once('@').unwrap_or((rest, "1"));
    let (first, last) = match times.split_once('-') {
        Some((first, last)) => (first, last.parse().ok()?),
        None => (times, u64::MAX),
    };
    Some((call.to_owned(), code.parse().ok()?, first.parse().ok()?..=last))
}

/// A kernel of a loaded image: its name, and the sizes of its parameters if known.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// As in the source.
    pub name: String,
    /// Bytes of each parameter.
    pub sizes: Option<Vec<usize>>,
}

/// A kernel in a graph, with copies of its parameters.
#[derive(Clone, Debug)]
pub struct Node {
    /// The kernel's handle.
    pub function: usize,
    /// Copies of the parameters.
    pub parameters: Vec<Vec<u8>>,
}

/// Everything that exists.
#[derive(Debug, Default)]
pub struct State {
    /// The settings; `None` before the first call.
    pub settings: Option<Settings>,
    /// How often each call was made.
    pub calls: BTreeMap<&'static str, u64>,
    /// Number of calls of any kind.
    pub total: u64,
    /// Number of launches of any kind.
    pub launches: u64,
    /// The device's time in nanoseconds.
    pub now: u64,
    /// Once set, every call returns this error.
    pub sticky: Option<u32>,
    /// Next handle.
    pub next: usize,
    /// Allocations: address and bytes.
    pub memory: BTreeMap<usize, usize>,
    /// Pinned allocations: address and bytes.
    pub pinned: BTreeMap<usize, usize>,
    /// Starts of pinned memory that the driver did not allocate.
    pub registered: std::collections::BTreeSet<usize>,
    /// Unfinished copies from and to pinned memory: address and bytes.
    pub pending: Vec<(usize, usize)>,
    /// Physical memory: handle, bytes and compression.
    pub physical: BTreeMap<usize, (usize, u8)>,
    /// Reserved addresses: address and bytes.
    pub reserved: BTreeMap<usize, usize>,
    /// Mapped memory: address and bytes.
    pub mapped: BTreeMap<usize, usize>,
    /// Limits of the context, by number.
    pub limits: BTreeMap<u32, usize>,
    /// Number of retained contexts.
    pub contexts: u64,
    /// Streams.
    pub streams: BTreeSet<usize>,
    /// Events with the time they were recorded.
    pub events: BTreeMap<usize, Option<u64>>,
    /// Modules, with the text of their images if these are ours.
    pub modules: BTreeMap<usize, Option<String>>,
    /// Kernels by handle.
    pub functions: BTreeMap<usize, Kernel>,
    /// Streams that are being captured, with the nodes so far.
    pub recorded: BTreeMap<usize, Vec<Node>>,
    /// Those among them that calls of any thread break unless it is relaxed.
    pub strict: BTreeSet<usize>,
    /// Streams whose capture was invalidated.
    pub invalid: BTreeSet<usize>,
    /// The stream of the last launch.
    pub last_stream: usize,
    /// Number of nodes of the last recording that ended.
    pub captured: usize,
    /// Graphs and executables.
    pub graphs: BTreeMap<usize, Vec<Node>>,
    /// Unfinished work.
    pub flight: Flight,
}

impl State {
    /// The settings.
    pub fn settings(&mut self) -> &Settings {
        self.settings.get_or_insert_with(|| Settings::parse(&std::env::var("FAKECUDA").unwrap_or_default()))
    }

    /// A new handle.
    pub fn handle(&mut self) -> usize {
        self.next += 16;
        0x1000 + self.next
    }

    /// Bytes of device memory in use.
    pub fn used(&self) -> usize {
        self.memory.values().sum::<usize>() + self.physical.values().map(|(bytes, _)| bytes).sum::<usize>()
    }

    /// True if these bytes are inside one allocation.
    pub fn holds(&self, address: usize, bytes: usize) -> bool {
        let inside = |known: &BTreeMap<usize, usize>| {
            let below = known.range(..=address).next_back();
            below.is_some_and(|(start, size)| address - start + bytes <= *size)
        };
        inside(&self.memory) || inside(&self.mapped)
    }

    /// True if these bytes are inside one pinned allocation.
    pub fn is_pinned(&self, address: usize, bytes: usize) -> bool {
        let below = self.pinned.range(..=address).next_back();
        below.is_some_and(|(start, size)| address - start + bytes <= *size)
    }

    /// Adds work to a stream. Words that are addresses of allocations name the memory it uses.
    pub fn add_work(&mut self, stream: usize, words: impl IntoIterator<Item = usize>) {
        let known = [&self.memory, &self.pinned, &self.mapped];
        let inside = |known: &BTreeMap<usize, usize>, address: usize| {
            let (start, size) = known.range(..=address).next_back()?;
            (address - start < *size).then_some(*start)
        };
        let allocation = |address| known.iter().find_map(|known| inside(known, address));
        self.flight.add_work(stream, words.into_iter().filter_map(allocation));
    }

    /// True for a stream or one of the special handles 0, 1 and 2.
    pub fn is_stream(&self, handle: usize) -> bool {
        handle <= 2 || self.streams.contains(&handle)
    }

    /// A call that may wait for the device breaks captures, unless the calling thread is relaxed.
    ///
    /// # Errors
    /// `CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED` if it broke some.
    pub fn break_captures(&mut self) -> Result<(), u32> {
        if self.strict.is_empty() || CAPTURE_MODE.get() == RELAXED {
            return Ok(());
        }
        self.invalid.extend(&self.strict);
        Err(CAPTURED)
    }

    /// True if work no longer finishes.
    pub fn hangs(&mut self) -> bool {
        let launches = self.launches;
        self.settings().hang_after.is_some_and(|after| launches > after)
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

/// Locks the state without counting a call.
pub fn lock() -> Guard {
    Guard(STATE.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Locks the state and counts a call.
///
/// # Errors
/// The error injected for this call.
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
    let settings = state.settings();
    if let Some((_, code, _)) = settings.fail.iter().find(|(name, _, range)| name == call && range.contains(&times)) {
        return Err(*code);
    }
    if settings.lost_after.is_some_and(|after| total > after) {
        state.sticky = Some(LAUNCH_FAILED);
        return Err(LAUNCH_FAILED);
    }
    Ok(guard)
}
