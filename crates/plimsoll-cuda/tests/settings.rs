//! Device settings: a limit is restored however the scope that changed it ends; a limit that a probe leaves changed is restored and
//! recorded; compressible memory says whether compression was granted.
#![allow(unsafe_code)]

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use common::{Bare, Fake, SourceCompiler};
use plimsoll_core::Fault;
use plimsoll_core::device::DeviceInfo;
use plimsoll_core::probe::{Case, Depth, Instrument as _, Outcome, Probe, ProbeSpec, Request, RunContext, Session};
use plimsoll_core::record::{FaultRecord, Finding, Record, Sink};
use plimsoll_core::series::Series;
use plimsoll_cuda::driver::{Limit, LimitGuard};
use plimsoll_cuda::memory::MappedBuffer;
use plimsoll_cuda::{Cuda, CudaDevice, Options, open_with};

/// `CU_LIMIT_PERSISTING_L2_CACHE_SIZE`, `CU_LIMIT_MAX_L2_FETCH_GRANULARITY`.
const NUMBERS: [u32; 2] = [6, 5];
const LIMITS: [Limit; 2] = [Limit::PersistingL2, Limit::FetchGranularity];

#[test]
fn a_limit_is_restored_after_success_error_and_panic() {
    let (fake, bare) = Bare::with_orders("");
    for (limit, number) in LIMITS.into_iter().zip(NUMBERS) {
        let was = fake.limit(number);
        let change = || {
            let guard = LimitGuard::new(&bare.context, limit).unwrap();
            assert_eq!((guard.original(), guard.set(32).unwrap()), (was, 32));
            assert_eq!(fake.limit(number), 32);
            guard
        };
        drop(change());
        assert_eq!(fake.limit(number), was);
        let early = || -> Result<(), Fault> {
            let _guard = change();
            Err(Fault::Stopped)
        };
        early().unwrap_err();
        assert_eq!(fake.limit(number), was);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _guard = change();
            panic!("in the middle");
        }));
        assert!(panicked.is_err() && fake.limit(number) == was);
    }
    assert!(fake.count("cuCtxResetPersistingL2Cache") >= 3);
}

#[test]
fn a_device_without_persisting_l2_opens_and_reports_the_unsupported_limit() {
    let fake = Fake::new();
    fake.order("persisting=0;capability=75");
    let mut bench = open_with(&fake.driver().unwrap(), 0, &fake.options(), plimsoll_probes::cuda_probes()).unwrap();
    let fault = Fault::from(LimitGuard::new(&bench.device().context, Limit::PersistingL2).unwrap_err());
    assert!(matches!(fault, Fault::Unavailable { .. }) && fault.to_string().contains("UNSUPPORTED_LIMIT"), "{fault}");
}

#[test]
fn mapped_memory_reports_missing_compression_and_refuses_too_many_bytes() {
    let (_fake, bare) = Bare::with_orders("compression=0");
    assert!(!MappedBuffer::new(&bare.stream, 1, true).unwrap().is_compressible());
    let refused = MappedBuffer::new(&bare.stream, 2 << 30, true).unwrap_err();
    assert!(matches!(refused, Fault::OutOfMemory { .. }), "{refused}");
    assert!(matches!(MappedBuffer::new(&bare.stream, u64::MAX, true), Err(Fault::OutOfMemory { .. })));
}

fn nothing(_: &DeviceInfo, _: &[Series]) -> Vec<Finding> {
    Vec::new()
}

static SPEC: ProbeSpec = ProbeSpec { takes_bytes: true, ..ProbeSpec::unlisted("careless", nothing) };

/// A probe that sets limits without the guard, and then succeeds or fails.
struct Careless<'f> {
    fake: &'f Fake,
    fails: bool,
}

// SAFETY: the fake driver's functions lock internally; tests use the probe from one thread.
unsafe impl Sync for Careless<'_> {}

impl Probe<Cuda> for Careless<'_> {
    fn spec(&self) -> &'static ProbeSpec {
        &SPEC
    }

    fn supports(&self, _: &CudaDevice) -> Result<(), Fault> {
        Ok(())
    }

    fn points(&self, _: &CudaDevice, _: &Request) -> usize {
        0
    }

    fn run(&self, _: &mut Session<'_, Cuda>) -> Result<(), Fault> {
        NUMBERS.iter().for_each(|number| self.fake.set_limit(*number, 48));
        if self.fails { Err(Fault::Stopped) } else { Ok(()) }
    }

    fn verify(&self, _: &mut CudaDevice, _: Depth, _: &mut dyn FnMut(Case)) -> Result<(), Fault> {
        Ok(())
    }
}

#[test]
fn limits_that_a_probe_leaves_changed_are_restored_and_recorded() {
    let fake = Fake::new();
    for fails in [false, true] {
        fake.order("");
        let mut bench = open_with(&fake.driver().unwrap(), 0, &fake.options(), plimsoll_probes::cuda_probes()).unwrap();
        let was = NUMBERS.map(|number| fake.limit(number));
        let (stop, mut records) = (AtomicBool::new(false), Vec::new());
        let request = Request::default();
        let mut run = RunContext { request: &request, sink: &mut records, stop: &stop, device: 0, next_series: 0 };
        let outcome = bench.measure_with(&Careless { fake: &fake, fails }, &mut run).unwrap();
        assert_eq!(NUMBERS.map(|number| fake.limit(number)), was);
        let faults: Vec<&FaultRecord> = records
            .iter()
            .filter_map(|record| match record {
                Record::Fault(fault) => Some(fault),
                _ => None,
            })
            .collect();
        let changed = faults.iter().find(|fault| fault.what.contains("was left at 48 B instead of")).unwrap();
        assert!(changed.what.contains("set aside") && changed.what.contains("fetch granularity"), "{}", changed.what);
        match outcome {
            Outcome::Faulted(Fault::Stopped) => assert!(fails && faults.len() == 2),
            Outcome::Faulted(Fault::Panicked(_)) => assert!(!fails && faults.len() == 1),
            other => panic!("{other:?}"),
        }
    }
}

/// The probes that change limits.
const CHANGERS: [&str; 2] = ["residency", "fetch-granularity"];
/// Slow kernels, so that a sample has few of them, and a small cache.
const LONG: &str = "kernel=500000;cache=1048576";

/// Keeps records and requests a stop after the first point.
#[derive(Default)]
struct Stopping {
    records: Vec<Record>,
    stop: Option<Arc<AtomicBool>>,
}

impl Sink for Stopping {
    fn write(&mut self, record: &Record) -> Result<(), Fault> {
        if let (Record::Point(_), Some(stop)) = (record, &self.stop) {
            stop.store(true, Ordering::Relaxed);
        }
        self.records.push(record.clone());
        Ok(())
    }
}

/// Runs one probe on a driver with these orders, and returns the faults that it recorded. With `stopping`, stops it after the first
/// point.
fn run(fake: &Fake, probe: &str, orders: &str, stopping: bool) -> (Result<Outcome, Fault>, Vec<String>) {
    fake.order(&format!("{LONG};{orders}"));
    let options = Options { compiler: Some(Arc::new(SourceCompiler)), ..fake.options() };
    let mut bench = match open_with(&fake.driver().unwrap(), 0, &options, plimsoll_probes::cuda_probes()) {
        Ok(bench) => bench,
        Err(fault) => return (Err(fault), Vec::new()),
    };
    let stop = Arc::new(AtomicBool::new(false));
    let mut sink = Stopping { stop: stopping.then(|| Arc::clone(&stop)), ..Stopping::default() };
    let request = Request { bytes: Some(64 << 20), seed: 7, ..Request::default() };
    let mut run = RunContext { request: &request, sink: &mut sink, stop: &stop, device: 0, next_series: 0 };
    let outcome = bench.measure(probe, &mut run);
    let fault = |record: &Record| match record {
        Record::Fault(fault) => Some(fault.what.clone()),
        _ => None,
    };
    (outcome, sink.records.iter().filter_map(fault).collect())
}

#[test]
fn a_probe_restores_its_limits_when_it_is_stopped_or_a_call_fails() {
    let fake = Fake::new();
    fake.order("");
    let was = NUMBERS.map(|number| fake.limit(number));
    for probe in CHANGERS {
        let (outcome, _) = run(&fake, probe, "", true);
        assert!(matches!(outcome, Ok(Outcome::Faulted(Fault::Stopped))), "{probe}: {outcome:?}");
        assert!(fake.count("cuCtxSetLimit") >= 2, "{probe}: nothing was changed");
        assert_eq!(NUMBERS.map(|number| fake.limit(number)), was, "{probe}, stopped");
        for failure in ["cuGraphInstantiateWithFlags:1@3", "cuMemcpyDtoHAsync_v2:801@4", "cuLaunchKernel:1@40"] {
            let (outcome, faults) = run(&fake, probe, &format!("fail={failure}"), false);
            assert!(!matches!(outcome, Ok(Outcome::Complete)), "{probe}, {failure}");
            assert_eq!(NUMBERS.map(|number| fake.limit(number)), was, "{probe}, {failure}: {faults:?}");
            assert!(!faults.iter().any(|what| what.contains("was left at")), "{probe}, {failure}: {faults:?}");
        }
    }
}

#[test]
fn a_device_without_the_feature_skips_the_probe_and_says_so() {
    let fake = Fake::new();
    for (probe, orders, why) in [
        ("compression", "compression=0", "the device has none"),
        ("residency", "persisting=0;capability=75", "can be set aside"),
        ("residency", "fail=cuCtxSetLimit:801", "cuCtxSetLimit"),
        ("fetch-granularity", "fail=cuCtxGetLimit:215", "UNSUPPORTED_LIMIT"),
    ] {
        let (outcome, faults) = run(&fake, probe, orders, false);
        assert!(matches!(outcome, Ok(Outcome::Faulted(Fault::Unavailable { .. }))), "{probe}: {outcome:?}");
        assert!(faults.iter().any(|what| what.contains(why)), "{probe}: {faults:?}");
    }
}

#[test]
fn too_little_memory_is_refused_with_a_size_that_would_fit() {
    let fake = Fake::new();
    for probe in ["residency", "fetch-granularity", "l2-reuse"] {
        let (outcome, faults) = run(&fake, probe, "cache=1073741824;memory=2000000000", false);
        assert!(matches!(outcome, Ok(Outcome::Faulted(_))), "{probe}: {outcome:?}");
        assert!(faults.iter().any(|what| what.contains("use ")), "{probe}: {faults:?}");
    }
}
