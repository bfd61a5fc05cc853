//! Settings of the device: a limit is what it was before, however the scope ends that changed it; what a probe leaves changed
//! is put back and told; memory that may be compressed says whether it was granted.
#![allow(unsafe_code)]

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicBool;

use common::{Bare, Fake};
use plimsoll_core::Fault;
use plimsoll_core::device::DeviceInfo;
use plimsoll_core::probe::{Case, Depth, Outcome, Probe, ProbeSpec, Request, RunContext, Session};
use plimsoll_core::record::{FaultRecord, Finding, Record};
use plimsoll_core::series::Series;
use plimsoll_cuda::driver::{Held, Limit};
use plimsoll_cuda::memory::MappedBuffer;
use plimsoll_cuda::{Cuda, CudaDevice, open_with};

/// `CU_LIMIT_PERSISTING_L2_CACHE_SIZE`, `CU_LIMIT_MAX_L2_FETCH_GRANULARITY`.
const NUMBERS: [u32; 2] = [6, 5];
const LIMITS: [Limit; 2] = [Limit::PersistingL2, Limit::FetchGranularity];

#[test]
fn a_limit_is_what_it_was_after_success_error_and_panic() {
    let fake = Fake::new();
    let bare = Bare::new(fake.order("")).unwrap();
    for (limit, number) in LIMITS.into_iter().zip(NUMBERS) {
        let was = fake.limit(number);
        let change = || {
            let held = Held::new(&bare.context, limit).unwrap();
            assert_eq!((held.found(), held.set(32).unwrap()), (was, 32));
            assert_eq!(fake.limit(number), 32);
            held
        };
        drop(change());
        assert_eq!(fake.limit(number), was);
        let early = || -> Result<(), Fault> {
            let _held = change();
            Err(Fault::Stopped)
        };
        early().unwrap_err();
        assert_eq!(fake.limit(number), was);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _held = change();
            panic!("in the middle");
        }));
        assert!(panicked.is_err() && fake.limit(number) == was);
    }
    assert!(fake.count("cuCtxResetPersistingL2Cache") >= 3);
}

#[test]
fn a_device_without_a_set_aside_says_so_and_is_opened_all_the_same() {
    let fake = Fake::new();
    fake.order("persisting=0;capability=75");
    let mut bench = open_with(&fake.driver().unwrap(), 0, &fake.options()).unwrap();
    let fault = Fault::from(Held::new(&bench.device().context, Limit::PersistingL2).unwrap_err());
    assert!(matches!(fault, Fault::Unavailable { .. }) && fault.to_string().contains("UNSUPPORTED_LIMIT"), "{fault}");
}

#[test]
fn compression_that_is_not_granted_is_told_and_memory_that_is_not_there_refused() {
    let fake = Fake::new();
    let bare = Bare::new(fake.order("compression=0")).unwrap();
    assert!(!MappedBuffer::new(&bare.stream, 1, true).unwrap().is_compressible());
    let refused = MappedBuffer::new(&bare.stream, 2 << 30, true).unwrap_err();
    assert!(matches!(refused, Fault::OutOfMemory { .. }), "{refused}");
    assert!(matches!(MappedBuffer::new(&bare.stream, u64::MAX, true), Err(Fault::OutOfMemory { .. })));
}

fn nothing(_: &DeviceInfo, _: &[Series]) -> Vec<Finding> {
    Vec::new()
}

static SPEC: ProbeSpec = ProbeSpec {
    name: "careless",
    group: "lab",
    sentence: "Leaves a limit changed.",
    page: "",
    seconds: [1.0; 3],
    findings: nothing,
};

/// A probe that sets limits past the guard, and ends as it is told.
struct Careless<'f> {
    fake: &'f Fake,
    fails: bool,
}

// SAFETY: the stand-in's functions take a lock of their own; tests use the probe from one thread.
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
fn what_a_probe_leaves_changed_is_put_back_and_recorded_however_it_ended() {
    let fake = Fake::new();
    for fails in [false, true] {
        fake.order("");
        let mut bench = open_with(&fake.driver().unwrap(), 0, &fake.options()).unwrap();
        let was = NUMBERS.map(|number| fake.limit(number));
        let (stop, mut records) = (AtomicBool::new(false), Vec::new());
        let request = Request::default();
        let mut run = RunContext { request: &request, sink: &mut records, stop: &stop, device: 0, next_series: 0 };
        let outcome = bench.measure_with(&Careless { fake: &fake, fails }, &mut run).unwrap();
        assert_eq!(NUMBERS.map(|number| fake.limit(number)), was);
        let told: Vec<&FaultRecord> = records
            .iter()
            .filter_map(|record| match record {
                Record::Fault(fault) => Some(fault),
                _ => None,
            })
            .collect();
        let changed = told.iter().find(|fault| fault.what.contains("was left at 48 B instead of")).unwrap();
        assert!(changed.what.contains("set aside") && changed.what.contains("fetches at once"), "{}", changed.what);
        match outcome {
            Outcome::Faulted(Fault::Stopped) => assert!(fails && told.len() == 2),
            Outcome::Faulted(Fault::Panicked(_)) => assert!(!fails && told.len() == 1),
            other => panic!("{other:?}"),
        }
    }
}
