//! Any error of a driver and any missing call must become a typed fault, without a panic or leaked objects.
#![allow(unsafe_code)]

mod common;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use common::{Bare, CountingCompiler, Fake, everything};
use plimsoll_core::Fault;
use plimsoll_core::probe::Instrument;
use plimsoll_core::sample::{Work, Workload};
use plimsoll_cuda::cache::Cache;
use plimsoll_cuda::compile::{Compiler, Kernels, Program};
use plimsoll_cuda::driver::{Context, DeviceHandle, Driver, Module, Stream};
use plimsoll_cuda::launch::{Arguments, Geometry, Launch};
use plimsoll_cuda::memory::DeviceBuffer;
use plimsoll_cuda::{Load, Options, open_with, wait};

/// Every call that the backend makes.
const CALLS: &[&str] = Driver::CALLS;

#[test]
fn a_working_driver_runs_everything_and_no_object_leaks() {
    let fake = Fake::new();
    everything(fake.order("")).unwrap();
    assert_eq!(fake.alive(), 0);
}

/// Whether a failure of the call may go unnoticed: destructors can't report it, and some calls are optional.
fn may_pass(call: &str, code: u32) -> bool {
    let ends = ["Destroy", "Release", "Unload", "Unmap", "Unregister", "Free", "ParamInfo"];
    // Only streams of other libraries are checked for capture.
    let optional = [
        "cuStreamIsCapturing",
        "cuThreadExchangeStreamCaptureMode",
        "cuGraphAddDependencies_v2",
        "cuOccupancyMaxActiveBlocksPerMultiprocessor",
        "cuFuncSetAttribute",
    ];
    // For a query, 600 isn't an error: it means "not ready".
    ends.iter().any(|end| call.contains(end)) || optional.contains(&call) || code == 600
}

#[test]
fn every_error_code_of_every_call_is_a_typed_fault() {
    let fake = Fake::new();
    for call in CALLS {
        for code in [1, 2, 3, 34, 46, 100, 101, 209, 214, 700, 719, 801, 999, 54321] {
            let ended = everything(fake.order(&format!("fail={call}:{code}")));
            match ended {
                Ok(_) => assert!(may_pass(call, code), "{call} returned {code} unnoticed"),
                Err(fault) => {
                    let text = fault.to_string();
                    assert!(text.contains("cu") || matches!(fault, Fault::OutOfMemory { .. }), "{call} {code}: {text}");
                    assert!(!matches!(fault, Fault::Panicked(_) | Fault::Invalid(_)), "{call} {code}: {text}");
                }
            }
        }
    }
}

#[test]
fn a_call_that_fails_later_is_a_typed_fault_as_well() {
    let fake = Fake::new();
    for call in CALLS {
        for time in [2, 40] {
            if let Err(fault) = everything(fake.order(&format!("fail={call}:719@{time}"))) {
                let lost = matches!(&fault, Fault::DeviceLost { .. });
                assert!(lost || matches!(fault, Fault::Unavailable { .. }), "{call} at {time}: {fault}");
            }
        }
    }
}

#[test]
fn a_device_lost_at_any_moment_ends_with_that_fault() {
    let fake = Fake::new();
    let total = everything(fake.order("")).unwrap();
    let early = (0..40).chain((40..total).step_by(usize::try_from(total / 50).unwrap_or(1).max(1)));
    let late = total.saturating_sub(20)..total;
    for after in early.chain(late) {
        match everything(fake.order(&format!("lost-after={after}"))) {
            // The last calls are destructors, which can't report errors.
            Ok(_) => assert!(after + 2 > total, "the loss after {after} of {total} calls went unnoticed"),
            Err(Fault::DeviceLost { why, .. }) => assert!(why.contains("719") || why.contains("given up"), "{why}"),
            Err(Fault::Unavailable { why, .. }) => assert!(why.contains("719"), "{after}: {why}"),
            Err(other) => panic!("lost after {after} calls: {other}"),
        }
    }
}

#[test]
fn an_older_driver_lacks_only_what_needs_the_missing_call() {
    for call in CALLS {
        let fake = Fake::without(&[call]);
        match everything(fake.order("")) {
            Ok(_) => {
                // Each of these has a fallback.
                let has_fallback =
                    ["cuDeviceGetUuid_v2", "cuMemAllocAsync", "cuMemFreeAsync", "cuPointerGetAttributes"];
                assert!(may_pass(call, 0) || has_fallback.contains(call), "{call} is missing, unnoticed")
            }
            Err(Fault::Unavailable { why, hint, .. }) => {
                assert!(why.contains(call) && hint.contains("Update"), "{call}: {why} {hint}");
            }
            Err(other) => panic!("without {call}: {other}"),
        }
    }
}

#[test]
fn a_driver_of_11_8_measures_without_dependent_launch_and_says_so() {
    let fake = Fake::without(&["cuGraphAddDependencies_v2", "cuFuncGetParamInfo"]);
    fake.order("version=11080");
    let bench = open_with(&fake.driver().unwrap(), 0, &fake.options(), plimsoll_probes::cuda_probes()).unwrap();
    let row = |name: &str| bench.info().capabilities.iter().find(|row| row.name == name).unwrap().why_not.clone();
    assert_eq!(row("kernel graphs"), "");
    assert!(row("dependent launch").contains("cuGraphAddDependencies_v2"));
    assert_eq!(bench.info().driver.as_deref(), Some("CUDA 11.8"));
}

#[test]
fn a_hanging_kernel_ends_at_the_deadline_and_is_not_waited_for_again() {
    let (_fake, bare) = Bare::with_orders("hang-after=0");
    let buffer = DeviceBuffer::new(&bare.context, 4096).unwrap();
    let mut load = Load::graph(&bare.stream, vec![bare.launch(&buffer).unwrap()], false, Work::default()).unwrap();
    let fault = load.sample(1, &mut [0]).unwrap_err();
    assert!(matches!(fault, Fault::Hung { .. }) && fault.ends_the_device(), "{fault}");
    let start = Instant::now();
    for _ in 0..100 {
        assert!(load.sample(1, &mut [0]).unwrap_err().ends_the_device());
    }
    drop((load, buffer, bare));
    // A hundred deadlines would be 3 s.
    assert!(start.elapsed() < Duration::from_secs(2));
}

#[test]
fn a_hang_in_one_context_gives_up_the_device_for_all() {
    let fake = Fake::new();
    fake.order("hang-after=0");
    let driver = fake.driver().unwrap();
    let make = |deadline| Context::new(DeviceHandle::new(&driver, 0).unwrap(), deadline).unwrap();
    let (ours, other) = (make(Duration::from_millis(10)), make(Duration::from_secs(60)));
    let (stream, others) = (Stream::new(&ours).unwrap(), Stream::new(&other).unwrap());
    // SAFETY: a complete image for the fake driver, whose kernels do nothing.
    let launch = unsafe {
        let module = Module::load(&ours, &fakecuda::image(common::KERNELS)).unwrap();
        Launch::raw(&module.function("plimsoll_empty").unwrap(), Geometry::linear(1, 32), Arguments::new())
    };
    let launch = launch.unwrap();
    stream.launch(&launch).unwrap();
    assert!(matches!(wait::stream(&stream), Err(Fault::Hung { .. })));
    let start = Instant::now();
    assert!(wait::stream(&others).unwrap_err().ends_the_device());
    assert!(start.elapsed() < Duration::from_secs(30));
}

#[test]
fn an_allocation_beyond_the_free_memory_is_refused_with_both_numbers() {
    let (_fake, bare) = Bare::with_orders("memory=1000000");
    let refused = DeviceBuffer::new(&bare.context, 2_000_000).unwrap_err();
    assert!(matches!(refused, Fault::OutOfMemory { asked: 2_000_000, free: Some(999_984) }), "{refused}");
    assert!(matches!(DeviceBuffer::new(&bare.context, u64::MAX), Err(Fault::OutOfMemory { .. })));
    assert!(DeviceBuffer::new(&bare.context, 0).is_ok());
}

#[test]
fn copies_and_launches_that_do_not_fit_never_reach_the_driver() {
    let (_fake, bare) = Bare::with_orders("");
    let buffer = DeviceBuffer::new(&bare.context, 64).unwrap();
    assert!(matches!(buffer.upload(&bare.stream, &[0; 65]), Err(Fault::Invalid(_))));
    assert!(matches!(buffer.part(60, 5), Err(Fault::Invalid(_))));
    assert!(matches!(buffer.part(u64::MAX, 2), Err(Fault::Invalid(_))));
    let whole = || Arguments::new().buffer(&buffer).u64(1).f32(1.0);
    // SAFETY: kernels of the fake driver do nothing.
    let launch = |geometry, arguments| unsafe { Launch::raw(&bare.scale, geometry, arguments) };
    let long = launch(Geometry::linear(1, 32), whole().u32(1)).unwrap_err();
    assert!(long.to_string().contains("takes 3 arguments and was given 4"), "{long}");
    let most = (0..100).fold(whole(), |arguments, _| arguments.u32(1));
    assert!(matches!(launch(Geometry::linear(1, 32), most), Err(Fault::Invalid(_))));
    assert!(matches!(launch(Geometry::linear(0, 32), whole()), Err(Fault::Invalid(_))));
}

#[test]
fn a_device_that_can_not_be_opened_says_why_and_what_to_do() {
    let fake = Fake::new();
    let refusal = |orders: &str, index: u32| {
        fake.order(orders);
        let opened = fake
            .driver()
            .and_then(|driver| open_with(&driver, index, &fake.options(), plimsoll_probes::cuda_probes()).map(drop));
        let fault = opened.unwrap_err();
        assert!(matches!(fault, Fault::Unavailable { .. }), "{fault}");
        fault.to_string()
    };
    assert!(refusal("fail=cuInit:34", 0).contains("stub"));
    assert!(refusal("fail=cuInit:100", 0).contains("CUDA_VISIBLE_DEVICES"));
    assert!(refusal("fail=cuInit:803", 0).contains("Update"));
    assert!(refusal("devices=0", 0).contains("nvidia-smi"));
    assert!(refusal("devices=2", 2).contains("sees 2 device"));
    assert!(refusal("version=10020", 0).contains("CUDA 10.2"));
    assert!(refusal("mode=2", 0).contains("prohibits"));
    assert!(refusal("mode=3 fail=cuDevicePrimaryCtxRetain:46", 0).contains("another process is using it"));
}

#[test]
fn a_missing_library_and_a_file_that_is_none_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("libcuda.so.1");
    assert!(Driver::open(&path).unwrap_err().why.contains("can't load"));
    std::fs::write(&path, "not a library").unwrap();
    assert!(Driver::open(&path).unwrap_err().why.contains("can't load"));
}

#[test]
fn a_device_opens_without_a_compiler_and_reports_that_it_is_missing() {
    let fake = Fake::new();
    let made = CountingCompiler::default();
    made.refuses.store(true, std::sync::atomic::Ordering::Relaxed);
    let options = Options { compiler: Some(Arc::new(made)), ..fake.options() };
    let bench = open_with(&fake.order("").driver().unwrap(), 0, &options, plimsoll_probes::cuda_probes()).unwrap();
    let row = bench.info().capabilities.iter().find(|row| row.name == "calibration kernels").unwrap();
    assert!(row.why_not.contains("expected ';'"), "{row:?}");
    assert!(bench.info().calibration.resolution > 0.0);
}

#[test]
fn a_cached_kernel_is_not_compiled_again_and_a_damaged_entry_is_replaced() {
    let fake = Fake::new();
    let folder = fake.folder.path().join("cubin");
    let made = Arc::new(CountingCompiler::default());
    let options =
        Options { compiler: Some(made.clone()), cache: Some(folder.clone()), no_cache: false, ..fake.options() };
    let open =
        || drop(open_with(&fake.order("").driver().unwrap(), 0, &options, plimsoll_probes::cuda_probes()).unwrap());
    let times = || made.times.load(std::sync::atomic::Ordering::Relaxed);
    open();
    open();
    assert_eq!(times(), 1);
    for entry in std::fs::read_dir(&folder).unwrap() {
        std::fs::write(entry.unwrap().path(), "damaged").unwrap();
    }
    open();
    open();
    assert_eq!(times(), 2);
}

#[test]
fn kernels_compiled_ahead_are_compiled_once_and_failures_are_reported_on_load() {
    let fake = Fake::new();
    let context =
        Context::new(DeviceHandle::new(&fake.order("").driver().unwrap(), 0).unwrap(), wait::DEADLINE).unwrap();
    let made = Arc::new(CountingCompiler::default());
    let times = || made.times.load(std::sync::atomic::Ordering::Relaxed);
    let kernels = |cache| Kernels::new(&context, "sm_90".to_owned(), Ok(made.clone() as Arc<dyn Compiler>), cache);
    let texts: Vec<String> = (0..20).map(|number| format!("// {number}")).collect();
    let program = |text| Program { name: "a.cu", source: text, headers: &[], options: &[], target: "sm_90" };
    let programs: Vec<Program<'_>> = texts.iter().map(|text| program(text)).collect();
    let kept = kernels(Cache::open(&fake.folder.path().join("cubin")));
    let going = AtomicBool::new(false);
    kept.compile_ahead(&programs, &going);
    assert_eq!(times(), 20);
    programs.iter().for_each(|program| drop(kept.load_as(program).unwrap()));
    assert_eq!(times(), 20);
    // Without a cache nothing is compiled ahead.
    kernels(Err(plimsoll_cuda::Unavailable::new("kernel cache", "a test", "none"))).compile_ahead(&programs, &going);
    assert_eq!(times(), 20);
    made.refuses.store(true, std::sync::atomic::Ordering::Relaxed);
    kept.compile_ahead(&[program("// wrong")], &going);
    assert!(kept.load_as(&program("// wrong")).unwrap_err().to_string().contains("expected ';'"));
}

/// A compiler that sets a stop flag on its first call.
struct Stops(CountingCompiler, Arc<AtomicBool>);

// SAFETY: kernels of the fake driver do nothing.
unsafe impl Compiler for Stops {
    fn identity(&self) -> String {
        self.0.identity()
    }

    fn compile(&self, program: &Program<'_>) -> Result<Vec<u8>, plimsoll_cuda::Unavailable> {
        self.1.store(true, Relaxed);
        self.0.compile(program)
    }
}

#[test]
fn no_further_kernel_is_compiled_ahead_once_the_user_asked_to_stop() {
    let fake = Fake::new();
    let handle = DeviceHandle::new(&fake.order("").driver().unwrap(), 0).unwrap();
    let context = Context::new(handle, wait::DEADLINE).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let compiler = Arc::new(Stops(CountingCompiler::default(), Arc::clone(&stop)));
    let cache = Cache::open(&fake.folder.path().join("cubin"));
    let kernels = Kernels::new(&context, "sm_90".to_owned(), Ok(Arc::clone(&compiler) as _), cache);
    let texts: Vec<String> = (0..5000).map(|number| format!("// {number}")).collect();
    let program = |text| Program { name: "a.cu", source: text, headers: &[], options: &[], target: "sm_90" };
    let programs: Vec<Program<'_>> = texts.iter().map(|text| program(text)).collect();
    kernels.compile_ahead(&programs, &stop);
    // Each thread may have started one.
    let threads = std::thread::available_parallelism().unwrap().get() as u64;
    assert!((1..=threads).contains(&compiler.0.times.load(Relaxed)));
}

#[test]
fn device_info_has_everything_a_record_header_needs() {
    let fake = Fake::new();
    let bench =
        open_with(&fake.order("").driver().unwrap(), 0, &fake.options(), plimsoll_probes::cuda_probes()).unwrap();
    let info = bench.info();
    assert_eq!(info.selector, "cuda:0");
    assert_eq!(info.id, "GPU-00000000-0000-0000-0000-000000000000");
    assert_eq!((info.multiprocessors, info.memory_total, info.last_level_cache()), (132, 1 << 30, 50 << 20));
    let peak = info.peak("bandwidth").unwrap();
    assert!((peak.value - 6144.0 / 8.0 * 2.0 * 3.201e9).abs() < 1.0, "{peak:?}");
    assert_eq!(info.calibration.clock_hz, Some(1.98e9));
    assert!(info.calibration.empty_launch > 1e-6 && info.calibration.empty_launch < 2e-6);
    assert_eq!(info.notes["compute mode"], "default");
}
