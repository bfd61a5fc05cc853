//! The backend on a real GPU: every shape of load has a nonzero time, copies arrive, and telemetry and calibration work. Without a
//! driver or a compiler the test is reported as ignored, with the reason. Times are printed, not asserted. With PLIMSOLL_TEST_HANG
//! set, a kernel that doesn't end runs last; tools that watch every kernel don't survive it.
#![allow(clippy::print_stdout, reason = "it is its own harness")]

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use libtest_mimic::{Failed, Trial};
use plimsoll_core::Fault;
use plimsoll_core::probe::{Depth, EXPRESSIONS, Instrument};
use plimsoll_core::sample::{Work, Workload};
use plimsoll_cuda::compile::{Compiler, Kernels};
use plimsoll_cuda::driver::{Attribute, Context, DeviceHandle, Driver, Stream};
use plimsoll_cuda::launch::{Arguments, Form, Geometry, Launch};
use plimsoll_cuda::memory::{DeviceBuffer, HostBuffer, HostKind, Transfer as _};
use plimsoll_cuda::nvrtc::Nvrtc;
use plimsoll_cuda::{
    Action, Counter, Counters, Load, Options, Shape, Spinner, StreamAction, Unavailable, open_with, wait,
};
use plimsoll_gen::kernel::{HEADERS, OPTIONS};

const BYTES: u64 = 64 << 20;

fn main() {
    let ready = Driver::system().and_then(|driver| {
        let major = u32::try_from(driver.version() / 1000).ok();
        Nvrtc::find(None, major).map(|nvrtc| (driver, Arc::new(nvrtc)))
    });
    let trial = match ready {
        Ok((driver, nvrtc)) => Trial::test("gpu", move || run(&driver, nvrtc).map_err(Failed::from)),
        Err(Unavailable { what, why, .. }) => {
            Trial::test("gpu", || Ok(())).with_ignored_flag(true).with_kind(format!("{what}: {why}"))
        }
    };
    libtest_mimic::run(&libtest_mimic::Arguments::from_args(), vec![trial]).exit();
}

fn run(driver: &Arc<Driver>, nvrtc: Arc<Nvrtc>) -> Result<(), Fault> {
    let options = Options { no_cache: true, compiler: Some(nvrtc.clone()), ..Options::default() };
    let mut bench = open_with(driver, 0, &options, plimsoll_probes::cuda_probes())?;
    println!("{:#?}", bench.info());
    assert!(bench.info().calibration.resolution > 0.0 && bench.info().memory_total > 0);

    let mut wrong = Vec::new();
    bench.verify(EXPRESSIONS, Depth::Small, &mut |case| wrong.extend((!case.wrong.is_empty()).then_some(case)))?;
    assert!(wrong.is_empty(), "{wrong:#?}");

    let handle = DeviceHandle::new(driver, 0)?;
    let multiprocessors = u32::try_from(handle.attribute(Attribute::Multiprocessors)?).unwrap_or(1);
    let major = handle.attribute(Attribute::CapabilityMajor)?;
    let minor = handle.attribute(Attribute::CapabilityMinor)?;
    let context = Context::new(handle, wait::DEADLINE)?;
    let stream = Arc::new(Stream::new(&context)?);
    let no_cache = Err(Unavailable::new("kernel cache", "a test", "none"));
    let compiler: Arc<dyn Compiler> = nvrtc;
    let kernels = Kernels::new(&context, format!("sm_{major}{minor}"), Ok(Arc::clone(&compiler)), no_cache);
    let module =
        kernels.load("clock.cu", plimsoll_gen::kernel::clock::SOURCE.text(), &HEADERS, &OPTIONS.map(str::to_owned))?;
    let spinner = Arc::new(Spinner::compile(&context, &kernels, multiprocessors)?);
    // SAFETY: the kernel has no parameters.
    let empty = unsafe { Launch::raw(&module.function("plimsoll_empty")?, Geometry::linear(1, 32), Arguments::new()) }?;
    // SAFETY: the kernel touches no memory.
    let dependent = unsafe { empty.clone().with_form(Form { dependent: true, ..Form::default() }) };

    let (a, b) = (DeviceBuffer::new(&context, BYTES)?, DeviceBuffer::new(&context, BYTES)?);
    let pattern: Vec<u8> = (0..BYTES).map(|place| (place.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    a.upload(&stream, &pattern)?;
    b.whole().copy_from(&stream, a.whole())?;
    let mut back = vec![0; pattern.len()];
    b.download(&stream, &mut back)?;
    assert!(back == pattern, "a copy came back changed");

    let plain = |shape, action| Load::new(&stream, shape, vec![action], Work::default());
    let kernel = || Action::Launch(empty.clone());
    let across = || Action::Copy(b.whole(), a.whole());
    let host = |kind| Ok::<_, Fault>(Rc::new(RefCell::new(HostBuffer::new(&context, kind, BYTES)?)));
    let up = |kind| Ok::<_, Fault>(Action::Other(StreamAction::Up(host(kind)?, a.whole())));
    let down = |kind| Ok::<_, Fault>(Action::Other(StreamAction::Down(host(kind)?, b.whole())));
    let second = Arc::new(Stream::new(&context)?);
    let (graph, in_stream) = (Shape::Graph { dependent: false }, Shape::Stream);
    let mut loads = vec![
        ("empty, graph", 1024, plain(graph, kernel())?.with_blocker(&spinner)),
        ("empty, stream", 1024, plain(in_stream, kernel())?),
        ("empty, stream, dependent", 1024, plain(in_stream, Action::Launch(dependent))?),
        ("empty, latency", 1, plain(Shape::Latency, kernel())?),
        ("empty, latency with a blocker", 1, plain(Shape::Latency, kernel())?.with_blocker(&spinner)),
        ("empty, host", 1, plain(Shape::HostLatency, kernel())?),
        ("64 MiB on the device", 64, plain(in_stream, across())?.with_blocker(&spinner)),
        ("64 MiB up, pinned", 4, plain(in_stream, up(HostKind::Pinned)?)?),
        ("64 MiB down, pinned", 4, plain(in_stream, down(HostKind::Pinned)?)?),
        ("64 MiB up, pageable", 2, plain(in_stream, up(HostKind::Pageable)?)?),
        (
            "64 MiB both ways, pinned",
            4,
            plain(in_stream, up(HostKind::Pinned)?)?.with_second_stream(&second, vec![down(HostKind::Pinned)?])?,
        ),
    ];
    if 10 * major + minor >= 90 && driver.version() >= 12_030 {
        loads.push((
            "empty, graph, dependent",
            1024,
            plain(Shape::Graph { dependent: true }, kernel())?.with_blocker(&spinner),
        ));
    }
    for (name, k, load) in &mut loads {
        let mut out = [0; 20];
        load.prepare(*k)?;
        load.sample(*k, &mut out)?;
        load.sample(*k, &mut out)?;
        assert!(!out.contains(&0), "{name}: a sample took no time");
        out.sort_unstable();
        println!(
            "{name}: {:.3} us (least {:.3})",
            out[10] as f64 / 1e3 / f64::from(*k),
            out[0] as f64 / 1e3 / f64::from(*k)
        );
    }
    drop(loads);
    for _ in 0..3 {
        println!("clock: {:?} Hz", spinner.clock_hz(&stream, Duration::from_millis(50))?);
    }
    match Counters::new(&context) {
        Ok(counters) => {
            let counts = counters.measure(|| {
                stream.launch(&empty)?;
                wait::stream(&stream)
            })?;
            println!("{} in {} pass(es): {counts:?}", counters.chip(), counters.passes());
            // Even an empty warp executes its exit instruction.
            assert!(counts.get(Counter::Instructions).is_none_or(|executed| executed >= 1.0), "{counts:?}");
        }
        Err(reason) => println!("no counters: {reason}"),
    }
    if std::env::var_os("PLIMSOLL_TEST_HANG").is_none() {
        return Ok(());
    }
    hang(driver, compiler, kernels.target())
}

/// A kernel that runs for an hour is a fault at the deadline, and the process still ends.
fn hang(driver: &Arc<Driver>, compiler: Arc<dyn Compiler>, target: &str) -> Result<(), Fault> {
    let deadline = Duration::from_millis(300);
    let context = Context::new(DeviceHandle::new(driver, 0)?, deadline)?;
    let stream = Stream::new(&context)?;
    let no_cache = Err(Unavailable::new("kernel cache", "a test", "none"));
    let spinner = Spinner::compile(&context, &Kernels::new(&context, target.to_owned(), Ok(compiler), no_cache), 1)?;
    spinner.spin(&stream, Duration::from_secs(3600))?;
    let start = Instant::now();
    let fault = wait::stream(&stream).unwrap_err();
    assert!(matches!(fault, Fault::Hung { .. }) && start.elapsed() >= deadline, "{fault}");
    Ok(())
}
