//! A fake `libcupti.so.13` with fault injection: every metric has the value set for it, whatever is launched. It checks the order
//! of calls and the sizes of structures against the headers.
//!
//! Settings come from `fakecupti_configure`, separated by spaces or semicolons:
//!
//! | setting | effect |
//! | --- | --- |
//! | `fail=cuptiRangeProfilerStart:35` | the call returns 35 |
//! | `after=cuptiRangeProfilerSetConfig:1` | the call does its work and returns 1 |
//! | `bytes=cuptiProfilerHostGetConfigImageSize:1000000000000` | the size that a call returns |
//! | `value=dram__bytes_read.sum:4096` | the value of a metric; default 1 |
//! | `unknown=dram__bytes_read.sum` | the chip has no such metric |
//! | `passes=3` | passes that a range needs |
//! | `version=26` | the version of the interface |
#![allow(unsafe_code, non_snake_case, clippy::missing_safety_doc)]

#[path = "../../fake.rs"]
mod fake;

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_void};

use fake::{Shared, read_settings};

const OK: u32 = 0;
const INVALID_PARAMETER: u32 = 1;
const INVALID_OPERATION: u32 = 7;
const UNKNOWN_METRIC: u32 = 17;
/// The byte that the profiler writes into its buffer.
const WRITTEN: u8 = 0xa5;

#[derive(Default)]
struct State {
    fail: BTreeMap<String, u32>,
    after: BTreeMap<String, u32>,
    bytes: BTreeMap<String, usize>,
    values: BTreeMap<String, f64>,
    unknown: Vec<String>,
    passes: usize,
    version: u32,
    /// Live host objects, by number, with their metrics.
    hosts: BTreeMap<usize, Vec<String>>,
    next: usize,
    initialized: bool,
    enabled: bool,
    /// Address and size of the buffer passed to the profiler.
    data: Option<(usize, usize)>,
    configured: bool,
    started: bool,
    pushed: bool,
    pass: usize,
    /// Number of ranges popped since the profiler was configured.
    ranges: usize,
    calls: u64,
}

static STATE: Shared<State> = Shared::new();

fn new_state() -> State {
    State { passes: 1, version: 130_000, ..State::default() }
}

/// Sets the settings and discards all other state.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fakecupti_configure(settings: *const c_char) {
    let mut state = new_state();
    let set = |key: &str, value: &str| {
        let (name, number) = value.split_once(':').unwrap_or((value, ""));
        match key {
            "fail" => drop(state.fail.insert(name.to_owned(), number.parse().unwrap_or(999))),
            "after" => drop(state.after.insert(name.to_owned(), number.parse().unwrap_or(999))),
            "bytes" => drop(state.bytes.insert(name.to_owned(), number.parse().unwrap_or(0))),
            "value" => drop(state.values.insert(name.to_owned(), number.parse().unwrap_or(f64::NAN))),
            "unknown" => state.unknown.push(name.to_owned()),
            "passes" => state.passes = name.parse().unwrap_or(1),
            "version" => state.version = name.parse().unwrap_or(0),
            _ => {}
        }
    };
    // SAFETY: the test passes a terminated string.
    unsafe { read_settings(settings, set) };
    *STATE.lock() = Some(state);
}

/// The number of objects that still exist: hosts, and the profiler if it is enabled.
#[unsafe(no_mangle)]
pub extern "C" fn fakecupti_alive() -> u64 {
    STATE.lock().as_ref().map_or(0, |state| state.hosts.len() as u64 + u64::from(state.enabled))
}

/// 1 if the last buffer passed to the profiler still has the bytes written there, or none was passed; else 0.
#[unsafe(no_mangle)]
pub extern "C" fn fakecupti_kept() -> u64 {
    STATE.lock().as_ref().map_or(1, |state| u64::from(state.is_data_intact()))
}

impl State {
    fn is_data_intact(&self) -> bool {
        self.data.is_none_or(|(address, bytes)| {
            // SAFETY: the caller of SetConfig must keep the buffer alive; this check is there to find callers that don't.
            (0..bytes).all(|offset| unsafe { (address as *const u8).add(offset).read_volatile() } == WRITTEN)
        })
    }

    /// The size that a call returns: the one set for it, or the default.
    fn size(&self, call: &str, default: usize) -> usize {
        self.bytes.get(call).copied().unwrap_or(default)
    }
}

/// The number of calls.
#[unsafe(no_mangle)]
pub extern "C" fn fakecupti_total() -> u64 {
    STATE.lock().as_ref().map_or(0, |state| state.calls)
}

/// The version of the interface.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuptiGetVersion(version: *mut u32) -> u32 {
    // SAFETY: the caller passes a pointer to a live integer.
    unsafe { *version = STATE.lock().get_or_insert_with(new_state).version };
    OK
}

/// Defines calls, each with its parameter structure, the structure's size in the headers, and the body.
macro_rules! calls {
    ($($symbol:ident $size:literal { $($field:ident: $ty:ty),* } |$state:ident, $params:ident| $body:expr;)*) => {$(
        #[doc = concat!("As the headers' `", stringify!($symbol), "`.")]
        #[unsafe(no_mangle)]
        #[allow(clippy::redundant_closure_call, reason = "bodies return early, and their result may be replaced")]
        pub unsafe extern "C" fn $symbol(params: *mut c_void) -> u32 {
            #[repr(C)]
            struct Params { size: usize, private: *mut c_void, $($field: $ty),* }
            // SAFETY: the caller passes this call's structure.
            let $params = unsafe { &mut *params.cast::<Params>() };
            let mut guard = STATE.lock();
            let $state = guard.get_or_insert_with(new_state);
            $state.calls += 1;
            if let Some(code) = $state.fail.get(stringify!($symbol)) {
                return *code;
            }
            if $params.size != $size || !$params.private.is_null() {
                return INVALID_PARAMETER;
            }
            let answer = (|| $body)();
            $state.after.get(stringify!($symbol)).copied().unwrap_or(answer)
        }
    )*};
}

/// The names of a list.
///
/// # Safety
/// The list must have `count` terminated strings.
unsafe fn names(list: *const *const c_char, count: usize) -> Vec<String> {
    // SAFETY: this function's own obligation.
    let name = |index| unsafe { CStr::from_ptr(*list.add(index)) }.to_string_lossy().into_owned();
    (0..count).map(name).collect()
}

fn check_operation(allowed: bool) -> u32 {
    if allowed { OK } else { INVALID_OPERATION }
}

calls! {
    cuptiProfilerInitialize 16 {} |state, _params| check_operation(!std::mem::replace(&mut state.initialized, true));
    cuptiProfilerDeInitialize 16 {} |state, _params| check_operation(std::mem::replace(&mut state.initialized, false));
    cuptiProfilerGetCounterAvailability 40 { context: *mut c_void, bytes: usize, image: *mut u8 } |state, params| {
        if params.context.is_null() {
            return INVALID_PARAMETER;
        }
        if params.image.is_null() {
            params.bytes = state.size("cuptiProfilerGetCounterAvailability", 8);
        } else if params.bytes != 8 {
            return INVALID_PARAMETER;
        }
        check_operation(state.initialized)
    };
    cuptiDeviceGetChipName 32 { device: usize, name: *const c_char } |_state, params| {
        params.name = c"GH100".as_ptr();
        check_operation(params.device == 0)
    };
    cuptiProfilerHostInitialize 48 { kind: u32, chip: *const c_char, availability: *const u8, host: usize } |state, params| {
        state.next += 16;
        params.host = state.next;
        state.hosts.insert(params.host, Vec::new());
        check_operation(params.kind == 0 && !params.chip.is_null() && !params.availability.is_null())
    };
    cuptiProfilerHostDeinitialize 24 { host: usize } |state, params| check_operation(state.hosts.remove(&params.host).is_some());
    cuptiProfilerHostGetMetricProperties 60 { host: usize, name: *const c_char, texts: [usize; 3], kind: u32 } |state, params| {
        // SAFETY: the caller passes a terminated string.
        let name = unsafe { names(&raw const params.name, 1) };
        if state.unknown.contains(&name[0]) { UNKNOWN_METRIC } else { check_operation(state.hosts.contains_key(&params.host)) }
    };
    cuptiProfilerHostConfigAddMetrics 40 { host: usize, list: *const *const c_char, count: usize } |state, params| {
        // SAFETY: the caller's list has `count` names.
        let names = unsafe { names(params.list, params.count) };
        if names.iter().any(|name| state.unknown.contains(name)) {
            return UNKNOWN_METRIC;
        }
        match state.hosts.get_mut(&params.host) {
            Some(host) => host.extend(names),
            None => return INVALID_PARAMETER,
        }
        OK
    };
    cuptiProfilerHostGetConfigImageSize 32 { host: usize, bytes: usize } |state, params| {
        params.bytes = state.size("cuptiProfilerHostGetConfigImageSize", 64);
        check_operation(state.hosts.contains_key(&params.host))
    };
    cuptiProfilerHostGetConfigImage 40 { host: usize, bytes: usize, image: *mut u8 } |state, params| {
        check_operation(state.hosts.contains_key(&params.host) && params.bytes == 64 && !params.image.is_null())
    };
    cuptiProfilerHostGetNumOfPasses 40 { bytes: usize, image: *const u8, passes: usize } |state, params| {
        params.passes = state.passes;
        check_operation(params.bytes == 64)
    };
    cuptiProfilerHostEvaluateToGpuValues 72 {
        host: usize, data: *const u8, bytes: usize, range: usize, list: *const *const c_char, count: usize, values: *mut f64
    } |state, params| {
        // SAFETY: the caller's lists have `count` entries.
        for (index, name) in unsafe { names(params.list, params.count) }.iter().enumerate() {
            // SAFETY: as above.
            unsafe { *params.values.add(index) = state.values.get(name).copied().unwrap_or(1.0) };
        }
        check_operation(params.bytes == 32 && params.range == 0 && state.ranges == state.passes)
    };
    cuptiRangeProfilerEnable 32 { context: *mut c_void, profiler: usize } |state, params| {
        let allowed = state.initialized && !state.enabled && !params.context.is_null();
        state.enabled = true;
        params.profiler = 0x77;
        check_operation(allowed)
    };
    cuptiRangeProfilerDisable 24 { profiler: usize } |state, params| {
        let allowed = state.enabled && !state.started && params.profiler == 0x77;
        if state.is_data_intact() {
            (state.enabled, state.data) = (false, None);
        }
        check_operation(allowed)
    };
    cuptiRangeProfilerGetCounterDataSize 64 {
        profiler: usize, list: *const *const c_char, count: usize, ranges: usize, nodes: u32, bytes: usize
    } |state, params| {
        params.bytes = state.size("cuptiRangeProfilerGetCounterDataSize", 32);
        check_operation(state.enabled && params.count > 0 && params.ranges >= 1 && params.nodes as usize >= params.ranges)
    };
    cuptiRangeProfilerCounterDataImageInitialize 40 { profiler: usize, bytes: usize, image: *mut u8 } |state, params| {
        check_operation(state.enabled && params.bytes == 32 && !params.image.is_null())
    };
    cuptiRangeProfilerSetConfig 90 {
        profiler: usize, config_bytes: usize, config: *const u8, data_bytes: usize, data: *mut u8, range: u32, replay: u32,
        ranges: usize, levels: u16, least: u16, pass: usize, level: u16
    } |state, params| {
        (state.configured, state.pass, state.ranges) = (true, 0, 0);
        let sizes = params.config_bytes == 64 && params.data_bytes == 32;
        if sizes && !params.data.is_null() {
            // SAFETY: the caller's buffer has `data_bytes` bytes.
            unsafe { params.data.write_bytes(WRITTEN, params.data_bytes) };
            state.data = Some((params.data as usize, params.data_bytes));
        }
        check_operation(sizes && state.enabled && !state.started && (params.range, params.replay) == (2, 3))
    };
    cuptiRangeProfilerStart 24 { profiler: usize } |state, _params| {
        let allowed = state.configured && !state.started;
        state.started = true;
        check_operation(allowed)
    };
    cuptiRangeProfilerStop 41 { profiler: usize, pass: usize, level: usize, all: u8 } |state, params| {
        let allowed = state.started && !state.pushed;
        state.started = false;
        state.pass += 1;
        params.all = u8::from(state.pass >= state.passes);
        check_operation(allowed)
    };
    cuptiRangeProfilerPushRange 32 { profiler: usize, name: *const c_char } |state, params| {
        let allowed = state.started && !state.pushed && !params.name.is_null();
        state.pushed = true;
        check_operation(allowed)
    };
    cuptiRangeProfilerPopRange 24 { profiler: usize } |state, _params| {
        let allowed = state.pushed;
        state.pushed = false;
        state.ranges += 1;
        check_operation(allowed)
    };
    cuptiRangeProfilerDecodeData 32 { profiler: usize, dropped: usize } |state, params| {
        params.dropped = 0;
        check_operation(state.configured && !state.started && state.pass == state.passes)
    };
}
