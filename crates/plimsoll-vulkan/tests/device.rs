//! Memory, streams, events, graphs and their errors on a real device.
#![allow(clippy::print_stdout, reason = "it is its own harness")]

mod common;

use std::time::{Duration, Instant};

use plimsoll_core::probe::{Bench, Instrument as _};
use plimsoll_core::sample::{Work, Workload as _};
use plimsoll_core::{Fault, FaultClass};
use plimsoll_gen::kernel::{Hints, Index, KernelDesc, Op, Source, check, clock};
use plimsoll_gpu::load::{Action, Load, Shape};
use plimsoll_gpu::unit::Unit;
use plimsoll_gpu::{Arguments, Form, Geometry, Gpu, Memory as _};
use plimsoll_probes::copy::kernels as copy;
use plimsoll_probes::launch::kernels as launch;
use plimsoll_probes::stream::kernels as streams;
use plimsoll_vulkan::{Options, Vulkan, open};

use common::{TRUST, assert_refused, download, stream, to_bytes, to_words, upload};

fn main() {
    common::run(&[
        ("device_info_is_complete_and_plausible", device_info_is_complete_and_plausible),
        ("copies_preserve_bytes", copies_preserve_bytes),
        ("freed_memory_is_refused", freed_memory_is_refused),
        ("oversized_allocations_are_refused", oversized_allocations_are_refused),
        ("launch_keeps_its_memory_alive", launch_keeps_its_memory_alive),
        ("objects_of_another_device_are_refused", objects_of_another_device_are_refused),
        (
            "launches_that_differ_from_the_description_are_refused",
            launches_that_differ_from_the_description_are_refused,
        ),
        ("missing_capabilities_name_the_cuda_backend", missing_capabilities_name_the_cuda_backend),
        ("probe_without_vulkan_code_names_the_cuda_backend", probe_without_vulkan_code_names_the_cuda_backend),
        ("events_measure_device_time", events_measure_device_time),
        ("graph_runs_its_launches_in_order", graph_runs_its_launches_in_order),
        ("every_load_shape_measures_a_time", every_load_shape_measures_a_time),
        ("wait_covers_many_submissions", wait_covers_many_submissions),
        ("hanging_device_is_given_up", hanging_device_is_given_up),
    ]);
}

fn unit(bench: &mut Bench<Vulkan>, source: &'static Source, kernels: &[KernelDesc]) -> Result<Unit<Vulkan>, Fault> {
    Unit::new(bench.device(), source, kernels, TRUST)
}

fn device_info_is_complete_and_plausible(bench: &mut Bench<Vulkan>) -> Result<(), Fault> {
    let info = bench.info().clone();
    println!("{info:#?}");
    assert!(info.selector.starts_with("vulkan:") && info.id.starts_with("VULKAN-") && info.backend == "vulkan");
    assert!(info.memory_total > 0 && info.memory_free <= info.memory_total && info.multiprocessors > 0);
    assert!(info.calibration.resolution > 0.0);
    let software = Vulkan::capabilities(bench.device()).software;
    // The clock of software depends on the load of the CPU.
    let likely = |hz: f64| if software { hz > 0.0 && hz.is_finite() } else { (1e8..1e11).contains(&hz) };
    assert!(info.calibration.clock_hz.is_none_or(likely));
    // Assumed values are marked.
    assert!(info.notes.contains_key("caches"));
    assert!(!software || info.notes["multiprocessors"].starts_with("assumed: "));
    assert_eq!(bench.info().name.contains("software on the CPU"), software);
    Ok(())
}

fn copies_preserve_bytes(bench: &mut Bench<Vulkan>) -> Result<(), Fault> {
    let stream = stream(bench.device());
    // Larger than the staging memory, and not whole words.
    let pattern: Vec<u8> =
        (0..(9_u32 << 20) + 3).map(|place| (place.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let (a, b) = (upload(&stream, &pattern)?, Vulkan::allocate(&stream, pattern.len() as u64)?);
    Vulkan::copy(&stream, b.whole(), a.whole())?;
    assert!(download(&stream, b.whole())? == pattern);
    Vulkan::fill(&stream, b.part(8, 16)?, 0xab)?;
    let changed = download(&stream, b.part(4, 24)?)?;
    assert_eq!((&changed[..4], &changed[4..20], &changed[20..]), (&pattern[4..8], &[0xab; 16][..], &pattern[24..28]));
    Vulkan::upload(&stream, b.part(5, 3)?, &[1, 2, 3])?;
    assert_eq!(download(&stream, b.part(4, 5)?)?, [pattern[4], 1, 2, 3, 0xab]);

    assert_refused(Vulkan::fill(&stream, b.part(2, 4)?, 0), FaultClass::Invalid);
    assert_refused(Vulkan::fill(&stream, b.part(4, 6)?, 0), FaultClass::Invalid);
    assert_refused(Vulkan::copy(&stream, b.part(0, 8)?, a.part(0, 4)?), FaultClass::Invalid);
    assert_refused(Vulkan::copy(&stream, b.part(0, 8)?, b.part(4, 8)?), FaultClass::Invalid);
    Vulkan::copy(&stream, b.part(0, 8)?, b.part(8, 8)?)?;
    assert_refused(Vulkan::upload(&stream, b.part(0, 4)?, &[0; 5]), FaultClass::Invalid);
    assert_refused(Vulkan::download(&stream, b.part(0, 4)?, &mut [0; 5]), FaultClass::Invalid);

    let empty = Vulkan::allocate(&stream, 0)?;
    Vulkan::upload(&stream, empty.whole(), &[])?;
    Vulkan::fill(&stream, empty.whole(), 1)?;
    Vulkan::copy(&stream, empty.whole(), b.part(0, 0)?)?;
    Vulkan::wait(&stream)
}

fn freed_memory_is_refused(bench: &mut Bench<Vulkan>) -> Result<(), Fault> {
    let stream = stream(bench.device());
    let buffer = Vulkan::allocate(&stream, 4096)?;
    let span = buffer.part(1024, 64)?;
    drop(buffer);
    let unit = unit(bench, &plimsoll_gen::kernel::check::SOURCE, &[check::words()])?;
    let why = assert_refused(
        unit.launch(&check::words(), 16, Arguments::new().span(span).u32(1).u64(16)),
        FaultClass::Invalid,
    );
    assert!(why.contains("freed"), "{why}");
    assert_refused(Vulkan::upload(&stream, span, &[0; 4]), FaultClass::Invalid);
    assert_refused(Vulkan::download(&stream, span, &mut [0; 4]), FaultClass::Invalid);
    assert_refused(Vulkan::fill(&stream, span, 0), FaultClass::Invalid);
    assert_refused(Vulkan::copy(&stream, span, span), FaultClass::Invalid);
    // A span beyond the end of its allocation.
    let other = Vulkan::allocate(&stream, 4096)?;
    let beyond = plimsoll_gpu::Span::new(other.whole().region(), other.pointer() + 4000, 200);
    assert_refused(Vulkan::upload(&stream, beyond, &[0; 200]), FaultClass::Invalid);
    assert_refused(Vulkan::fill(&stream, beyond, 0), FaultClass::Invalid);
    Ok(())
}

fn oversized_allocations_are_refused(bench: &mut Bench<Vulkan>) -> Result<(), Fault> {
    let (stream, total) = (stream(bench.device()), bench.info().memory_total);
    let why = assert_refused(Vulkan::allocate(&stream, total + 1), FaultClass::OutOfMemory);
    assert!(why.contains("requested"), "{why}");
    assert_refused(Vulkan::allocate(&stream, u64::MAX), FaultClass::OutOfMemory);
    let most = Vulkan::capabilities(bench.device()).limits.allocation;
    if most < total {
        assert_refused(Vulkan::allocate(&stream, most + 1), FaultClass::Invalid);
    }
    // Freed memory can be allocated again.
    let free = Vulkan::free_memory(bench.device())?;
    for _ in 0..20 {
        drop(Vulkan::allocate(&stream, (free / 4).min(256 << 20))?);
    }
    assert!(Vulkan::free_memory(bench.device())? >= free - free / 10);
    Ok(())
}

/// The buffer is dropped before its launch runs, and freed after the launch has ended.
fn launch_keeps_its_memory_alive(bench: &mut Bench<Vulkan>) -> Result<(), Fault> {
    let stream = stream(bench.device());
    let unit = unit(bench, &plimsoll_gen::kernel::check::SOURCE, &[check::words()])?;
    let blocker = Vulkan::blocker(bench.device()).cloned().ok_or_else(|| Fault::Invalid("no blocker".to_owned()))?;
    let buffer = Vulkan::allocate(&stream, 1 << 20)?;
    let span = buffer.whole();
    let launch = unit.launch(&check::words(), 1 << 18, Arguments::new().span(span).u32(7).u64(1 << 18))?;
    drop(buffer);
    assert!(download(&stream, span).is_ok(), "the launch should keep its memory alive");
    Vulkan::block(&blocker, &stream, Duration::from_millis(20))?;
    Vulkan::launch(&stream, &launch)?;
    Vulkan::submit(&stream)?;
    drop((launch, unit));
    Vulkan::wait(&stream)?;
    assert_refused(download(&stream, span), FaultClass::Invalid);
    Ok(())
}

fn objects_of_another_device_are_refused(bench: &mut Bench<Vulkan>) -> Result<(), Fault> {
    let mut second = open(common::first_usable()?, &Options::default(), &[])?;
    let (own, other) = (stream(bench.device()), stream(second.device()));
    let (ours, theirs) = (Vulkan::allocate(&own, 64)?, Vulkan::allocate(&other, 64)?);
    assert_refused(Vulkan::upload(&own, theirs.whole(), &[0; 4]), FaultClass::Invalid);
    assert_refused(Vulkan::fill(&own, theirs.whole(), 0), FaultClass::Invalid);
    assert_refused(Vulkan::copy(&own, ours.whole(), theirs.whole()), FaultClass::Invalid);
    let unit = unit(bench, &plimsoll_gen::kernel::check::SOURCE, &[check::words()])?;
    let arguments = |span| Arguments::new().span(span).u32(1).u64(16);
    let why = assert_refused(unit.launch(&check::words(), 16, arguments(theirs.whole())), FaultClass::Invalid);
    assert!(why.contains("another device"), "{why}");
    let launch = unit.launch(&check::words(), 16, arguments(ours.whole()))?;
    assert_refused(Vulkan::launch(&other, &launch), FaultClass::Invalid);
    assert_refused(Vulkan::graph(&other, std::slice::from_ref(&launch), 1, false), FaultClass::Invalid);
    let graph = Vulkan::graph(&own, &[launch], 1, false)?;
    assert_refused(Vulkan::launch_graph(&other, &graph), FaultClass::Invalid);
    let (mark, foreign) = (Vulkan::event(&own)?, Vulkan::event(&other)?);
    assert_refused(Vulkan::record(&mark, &other), FaultClass::Invalid);
    Vulkan::record(&mark, &own)?;
    Vulkan::record(&foreign, &other)?;
    Vulkan::wait(&own)?;
    Vulkan::wait(&other)?;
    assert_refused(Vulkan::nanoseconds(&mark, &foreign), FaultClass::Invalid);
    Ok(())
}

fn launches_that_differ_from_the_description_are_refused(bench: &mut Bench<Vulkan>) -> Result<(), Fault> {
    let stream = stream(bench.device());
    let wide = copy::vector(4, Index::U64);
    let unit_of_copies = unit(bench, &plimsoll_probes::copy::kernels::SOURCE, std::slice::from_ref(&wide))?;
    let (a, b) = (Vulkan::allocate(&stream, 4096)?, Vulkan::allocate(&stream, 4096)?);
    let kernel = unit_of_copies.function(&wide)?;
    let launch = |threads, arguments| kernel.launch(Geometry::linear(1, threads), Form::default(), &arguments);
    let good = || Arguments::new().buffer(&a).buffer(&b);
    assert!(launch(256, good().u64(1024)).is_ok());
    let wrong = [
        good(),
        good().u64(1025),
        good().u32(4),
        good().u64(4).u64(4),
        Arguments::new().u64(a.pointer()).buffer(&b).u64(4),
        // A vector of 16 bytes must be aligned to 16 bytes.
        Arguments::new().span(a.part(4, 64)?).buffer(&b).u64(4),
    ];
    for arguments in wrong {
        assert_refused(launch(256, arguments), FaultClass::Invalid);
    }
    let most = Vulkan::capabilities(bench.device()).limits.threads;
    assert_refused(launch(most + 1, good().u64(4)), FaultClass::Invalid);
    assert_refused(launch(0, good().u64(4)), FaultClass::Invalid);
    let two_rows = Geometry { grid: [1, 2, 1], ..Geometry::linear(1, 32) };
    assert_refused(kernel.launch(two_rows, Form::default(), &good().u64(4)), FaultClass::Invalid);
    // A kernel whose blocks have a fixed size.
    let unit = unit(bench, &plimsoll_probes::launch::kernels::SOURCE, &[launch::scale(launch::Follows::After)])?;
    let scale = unit.function(&launch::scale(launch::Follows::After))?;
    let arguments = good().f32(1.0).u64(4);
    for threads in [512, 128, 255] {
        assert_refused(scale.launch(Geometry::linear(1, threads), Form::default(), &arguments), FaultClass::Invalid);
    }
    Ok(())
}

fn missing_capabilities_name_the_cuda_backend(bench: &mut Bench<Vulkan>) -> Result<(), Fault> {
    let stream = stream(bench.device());
    let empty = clock::empty();
    let unit_of_clocks = unit(bench, &plimsoll_gen::kernel::clock::SOURCE, std::slice::from_ref(&empty))?;
    let kernel = unit_of_clocks.function(&empty)?;
    let form = |form| kernel.launch(Geometry::linear(1, 32), form, &Arguments::new());
    let forms: [Form; 3] = [
        Form { dependent: true, ..Form::default() },
        Form { cooperative: true, ..Form::default() },
        Form { cluster: 2, ..Form::default() },
    ];
    for lacking in &forms {
        let stated = KernelDesc { dependent: lacking.dependent, cooperative: lacking.cooperative, ..empty.clone() };
        let launched =
            unit(bench, &plimsoll_gen::kernel::clock::SOURCE, std::slice::from_ref(&stated)).and_then(|unit_of_form| {
                unit_of_form.function(&stated)?.launch(Geometry::linear(1, 32), *lacking, &Arguments::new())
            });
        let why = assert_refused(launched, FaultClass::Unavailable);
        assert!(why.contains("CUDA"), "{why}");
    }
    // A form that the kernel's description doesn't state is refused on every device.
    for form_of_others in &forms[..2] {
        assert_refused(form(*form_of_others), FaultClass::Invalid);
    }
    let launch = form(Form::default())?;
    let shared = Geometry { shared: 1024, ..Geometry::linear(1, 32) };
    assert_refused(kernel.launch(shared, Form::default(), &Arguments::new()), FaultClass::Unavailable);
    assert_refused(Vulkan::allow_shared(kernel.function(), 1024), FaultClass::Unavailable);
    assert_refused(Vulkan::graph(&stream, &[launch], 4, true), FaultClass::Unavailable);
    assert_refused(Vulkan::wait_for(&stream, &Vulkan::untimed_event(&stream)?), FaultClass::Unavailable);
    assert_refused(Vulkan::clusters_at_once(kernel.function(), Geometry::linear(1, 32), 2), FaultClass::Unavailable);

    // A kernel without Vulkan code is refused when it is used; the others of its source run.
    let plain = streams::Parameters::new(Op::Copy);
    let hints = Hints { store_streaming: true, ..Hints::default() };
    let (plain, hinted) = (plain.kernel(), streams::Parameters { hints, ..plain }.kernel());
    let why = Vulkan::runs(bench.device(), &hinted).unwrap_err().to_string();
    assert!(why.contains(&hinted.name) && why.contains("cache hints") && why.contains("CUDA"), "{why}");
    let unit_of_streams = unit(bench, &plimsoll_probes::stream::kernels::SOURCE, &[hinted.clone(), plain.clone()])?;
    assert!(unit_of_streams.function(&plain).is_ok());
    assert_refused(unit_of_streams.function(&hinted), FaultClass::Unavailable);
    let tensor = plimsoll_probes::tensor::kernels::SOURCE.kernels(Vulkan::target(bench.device()));
    assert_refused(unit(bench, &plimsoll_probes::tensor::kernels::SOURCE, &tensor), FaultClass::Unavailable);
    Ok(())
}

fn probe_without_vulkan_code_names_the_cuda_backend(bench: &mut Bench<Vulkan>) -> Result<(), Fault> {
    let device = bench.device();
    let mut without = 0;
    for probe in plimsoll_probes::gpu_probes::<Vulkan>() {
        let name = probe.spec().name;
        let has_code = plimsoll_probes::sources()
            .iter()
            .filter(|source| source.name() == name)
            .flat_map(|source| source.kernels(Vulkan::target(device)))
            .any(|kernel| Vulkan::runs(device, &kernel).is_ok());
        if !has_code {
            let why = assert_refused(probe.supports(device), FaultClass::Unavailable);
            assert!(why.contains("CUDA"), "{name}: {why}");
            without += 1;
        }
    }
    assert!(without > 0);
    Ok(())
}

fn events_measure_device_time(bench: &mut Bench<Vulkan>) -> Result<(), Fault> {
    let stream = stream(bench.device());
    let blocker = Vulkan::blocker(bench.device()).cloned().ok_or_else(|| Fault::Invalid("no blocker".to_owned()))?;
    let (start, end) = (Vulkan::event(&stream)?, Vulkan::event(&stream)?);
    assert_refused(Vulkan::nanoseconds(&start, &end), FaultClass::Invalid);
    Vulkan::wait_event(&start)?;
    // The clocks of a virtual machine's processors may differ, and a kernel on software may move between processors.
    let lasts = |length: Duration| {
        Vulkan::record(&start, &stream)?;
        Vulkan::block(&blocker, &stream, length)?;
        Vulkan::record(&end, &stream)?;
        assert_refused(Vulkan::nanoseconds(&start, &end), FaultClass::Invalid);
        let wall = Instant::now();
        Vulkan::wait_event(&end)?;
        let wall = wall.elapsed();
        let device = Duration::from_nanos(Vulkan::nanoseconds(&start, &end)?);
        println!("requested {length:?}: {device:?} by the device, {wall:?} by the host");
        assert!(device <= wall + Duration::from_millis(1));
        Ok::<_, Fault>(device >= length.mul_f64(0.9))
    };
    let length = Duration::from_millis(60);
    // On software the length depends on a clock that was measured while other programs may have used the CPU.
    let software = Vulkan::capabilities(bench.device()).software;
    let lasted = (0..5).map(|_| lasts(length)).collect::<Result<Vec<_>, Fault>>()?;
    assert!(software || lasted.contains(&true));
    assert_refused(Vulkan::nanoseconds(&end, &start), FaultClass::Invalid);
    let untimed = Vulkan::untimed_event(&stream)?;
    Vulkan::record(&untimed, &stream)?;
    Vulkan::wait_event(&untimed)?;
    assert_refused(Vulkan::nanoseconds(&start, &untimed), FaultClass::Invalid);
    if let Some(hz) = Vulkan::busy_clock_hz(&blocker, &stream, Duration::from_millis(20))? {
        assert!(software && hz > 0.0 || (1e8..1e11).contains(&hz), "{hz}");
    }
    Ok(())
}

/// Each launch works on the result of the one before, so that order and number are visible: x ← s·x.
fn graph_runs_its_launches_in_order(bench: &mut Bench<Vulkan>) -> Result<(), Fault> {
    let stream = stream(bench.device());
    let scale = launch::scale(launch::Follows::After);
    let unit = unit(bench, &plimsoll_probes::launch::kernels::SOURCE, std::slice::from_ref(&scale))?;
    let n = 1030_u64;
    let (a, b) = (upload(&stream, &to_bytes(&[1.0_f32.to_bits(); 1030]))?, Vulkan::allocate(&stream, 4 * n)?);
    let make = |out, input, s| unit.launch(&scale, n, Arguments::new().span(out).span(input).f32(s).u64(n));
    let pair = [make(b.whole(), a.whole(), 2.0)?, make(a.whole(), b.whole(), 3.0)?];
    let graph = Vulkan::graph(&stream, &pair, 5, false)?;
    drop(pair);
    for _ in 0..2 {
        Vulkan::launch_graph(&stream, &graph)?;
    }
    drop(graph);
    // Five launches write b, a, b, a, b; twice.
    let values = |buffer: &plimsoll_vulkan::Buffer| Ok::<_, Fault>(to_words(&download(&stream, buffer.whole())?));
    let expected = |value: f32| vec![value.to_bits(); 1030];
    assert_eq!(values(&a)?, expected(6.0_f32.powi(4)));
    assert_eq!(values(&b)?, expected(6.0_f32.powi(4) * 2.0));
    Ok(())
}

fn every_load_shape_measures_a_time(bench: &mut Bench<Vulkan>) -> Result<(), Fault> {
    let stream = stream(bench.device());
    let blocker = Vulkan::blocker(bench.device()).cloned().ok_or_else(|| Fault::Invalid("no blocker".to_owned()))?;
    let words_kernel = check::words();
    let unit = unit(bench, &plimsoll_gen::kernel::check::SOURCE, std::slice::from_ref(&words_kernel))?;
    let (a, b) = (Vulkan::allocate(&stream, 1 << 20)?, Vulkan::allocate(&stream, 1 << 20)?);
    let launch = unit.launch(&words_kernel, 1 << 18, Arguments::new().span(a.whole()).u32(7).u64(1 << 18))?;
    let shapes = [
        (Shape::Graph { dependent: false }, 16),
        (Shape::Replay, 16),
        (Shape::Stream, 16),
        (Shape::Queued, 16),
        (Shape::Latency, 1),
        (Shape::HostLatency, 1),
    ];
    for (shape, k) in shapes {
        let load = Load::<Vulkan>::new(&stream, shape, vec![Action::Launch(launch.clone())], Work::default())?;
        let mut load = load.with_blocker(&blocker);
        let mut out = [0; 5];
        load.prepare(k)?;
        load.sample(k, &mut out)?;
        assert!(!out.contains(&0), "{shape:?}: a sample took no time");
    }
    let copies = vec![Action::Copy(b.whole(), a.whole()), Action::Fill(a.whole(), 1)];
    let mut load = Load::<Vulkan>::new(&stream, Shape::Stream, copies, Work::default())?;
    load.sample(4, &mut [0; 3])?;
    assert!(download(&stream, b.whole())?.iter().all(|byte| *byte == 1 || *byte == 7 || *byte == 0));
    Ok(())
}

fn wait_covers_many_submissions(bench: &mut Bench<Vulkan>) -> Result<(), Fault> {
    let stream = stream(bench.device());
    let kernel = check::words();
    let unit = unit(bench, &plimsoll_gen::kernel::check::SOURCE, std::slice::from_ref(&kernel))?;
    let buffer = Vulkan::allocate(&stream, 4096)?;
    for place in 0..1000_u32 {
        let span = buffer.part(4 * u64::from(place), 4)?;
        Vulkan::launch(&stream, &unit.launch(&kernel, 1, Arguments::new().span(span).u32(place).u64(1))?)?;
        Vulkan::submit(&stream)?;
    }
    assert_eq!(to_words(&download(&stream, buffer.part(0, 4000)?)?), (0..1000).collect::<Vec<u32>>());
    Ok(())
}

/// A kernel that runs past the deadline causes a fault. Nothing waits again, and the process continues.
fn hanging_device_is_given_up(_: &mut Bench<Vulkan>) -> Result<(), Fault> {
    let options = Options { deadline: Some(Duration::from_millis(2000)), ..Options::default() };
    let mut bench = open(common::first_usable()?, &options, &[])?;
    let stream = stream(bench.device());
    let blocker = Vulkan::blocker(bench.device()).cloned().ok_or_else(|| Fault::Invalid("no blocker".to_owned()))?;
    let mark = Vulkan::event(&stream)?;
    for _ in 0..80 {
        Vulkan::block(&blocker, &stream, Duration::from_millis(50))?;
    }
    Vulkan::record(&mark, &stream)?;
    let start = Instant::now();
    assert_refused(Vulkan::wait(&stream), FaultClass::Hung);
    assert!(start.elapsed() < Duration::from_secs(3));
    let start = Instant::now();
    assert_refused(Vulkan::wait(&stream), FaultClass::DeviceLost);
    assert_refused(Vulkan::wait_event(&mark), FaultClass::DeviceLost);
    assert_refused(Vulkan::submit(&stream), FaultClass::DeviceLost);
    assert_refused(Vulkan::allocate(&stream, 4096), FaultClass::DeviceLost);
    assert_refused(Vulkan::event(&stream).and_then(|event| Vulkan::record(&event, &stream)), FaultClass::DeviceLost);
    drop((mark, blocker, bench, stream));
    assert!(start.elapsed() < Duration::from_millis(500), "something waited again");
    // Let the kernel end before the process does.
    std::thread::sleep(Duration::from_secs(3));
    Ok(())
}
