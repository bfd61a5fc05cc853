//! Unsound uses of the Vulkan backend that are typed errors, or made sound at run time, tested on the first usable device. The
//! tests are ignored, with the reason, where there is none. Safe code can't launch arbitrary kernels, so the probes' launches
//! are tested.
#![forbid(unsafe_code)]

mod common;

use std::sync::Arc;
use std::time::{Duration, Instant};

use libtest_mimic::{Failed, Trial};
use plimsoll_core::probe::{Bench, Depth, Instrument as _};
use plimsoll_core::{Fault, FaultClass};
use plimsoll_gpu::{Gpu, Memory as _, Span};
use plimsoll_vulkan::{Options, Stream, Vulkan, devices, open};

type Test = fn(u32) -> Result<(), Fault>;

const TESTS: [(&str, Test); 7] = [
    ("objects_of_another_device_are_refused", refuse_objects_of_another_device),
    ("the_span_of_freed_memory_is_refused", refuse_freed_memory),
    ("a_span_outside_its_memory_is_refused", refuse_a_span_outside_its_memory),
    ("objects_may_be_dropped_in_any_order", drop_in_any_order),
    ("pending_work_keeps_its_memory_alive", free_memory_of_pending_work),
    ("threads_may_share_a_stream", share_a_stream_between_threads),
    ("a_device_that_hung_refuses_all_further_work", refuse_work_after_a_hang),
];

fn main() {
    let find_device = || {
        let mut why = "there is no Vulkan device".to_owned();
        for adapter in devices(&Options::default())? {
            match adapter.usable {
                Ok(()) => return Ok(adapter.index),
                Err(reason) => why = reason.to_string(),
            }
        }
        Err(Fault::Invalid(why))
    };
    let device = find_device();
    let trial = |&(name, test): &(&'static str, Test)| match &device {
        Ok(index) => {
            let index = *index;
            Trial::test(name, move || test(index).map_err(|fault| Failed::from(fault.to_string())))
        }
        Err(fault) => Trial::test(name, || Ok(())).with_ignored_flag(true).with_kind(fault.to_string()),
    };
    libtest_mimic::run(&libtest_mimic::Arguments::from_args(), TESTS.iter().map(trial).collect()).exit();
}

fn open_device(index: u32) -> Result<(Bench<Vulkan>, Arc<Stream>), Fault> {
    let mut bench = open(index, &Options::default(), plimsoll::probes::gpu_probes().leak())?;
    let stream = Arc::clone(Vulkan::stream(bench.device()));
    Ok((bench, stream))
}

#[track_caller]
fn assert_refused<T>(answer: Result<T, Fault>, class: FaultClass, message: &str) {
    let fault = answer.map(drop).unwrap_err();
    assert!(fault.class() == class && fault.to_string().contains(message), "{fault}");
}

#[track_caller]
fn assert_invalid<T>(answer: Result<T, Fault>, message: &str) {
    assert_refused(answer, FaultClass::Invalid, message);
}

fn refuse_objects_of_another_device(index: u32) -> Result<(), Fault> {
    let ((mut bench, own), (mut second, other)) = (open_device(index)?, open_device(index)?);
    let (ours, theirs) = (Vulkan::allocate(&own, 64)?, Vulkan::allocate(&other, 64)?);
    let another = "another device";
    assert_invalid(Vulkan::upload(&own, theirs.whole(), &[0; 4]), another);
    assert_invalid(Vulkan::download(&own, theirs.whole(), &mut [0; 4]), another);
    assert_invalid(Vulkan::fill(&own, theirs.whole(), 0), another);
    assert_invalid(Vulkan::copy(&own, ours.whole(), theirs.whole()), another);
    assert_invalid(Vulkan::copy(&own, theirs.whole(), ours.whole()), another);
    let (mark, foreign) = (Vulkan::event(&own)?, Vulkan::event(&other)?);
    assert_invalid(Vulkan::record(&foreign, &own), another);
    Vulkan::record(&mark, &own)?;
    Vulkan::record(&foreign, &other)?;
    Vulkan::wait_event(&mark)?;
    Vulkan::wait_event(&foreign)?;
    assert_invalid(Vulkan::nanoseconds(&mark, &foreign), "different devices");
    let blocker = Vulkan::blocker(second.device()).cloned();
    let Some(blocker) = blocker else { return Ok(()) };
    assert_invalid(Vulkan::block(&blocker, &own, Duration::from_millis(1)), another);
    assert_invalid(Vulkan::busy_clock_hz(&blocker, &own, Duration::from_millis(1)), another);
    // The device still works.
    Vulkan::wait(&own)?;
    bench.verify("launch", Depth::Small, &mut |case| assert_eq!(case.wrong, ""))
}

fn refuse_freed_memory(index: u32) -> Result<(), Fault> {
    let (_bench, stream) = open_device(index)?;
    let live = Vulkan::allocate(&stream, 4096)?;
    let freed = Vulkan::allocate(&stream, 4096)?.whole();
    assert_invalid(Vulkan::upload(&stream, freed, &[1; 8]), "freed");
    assert_invalid(Vulkan::download(&stream, freed, &mut [1; 8]), "freed");
    assert_invalid(Vulkan::fill(&stream, freed, 1), "freed");
    assert_invalid(Vulkan::copy(&stream, live.whole(), freed), "freed");
    assert_invalid(Vulkan::copy(&stream, freed, live.whole()), "freed");
    Ok(())
}

fn refuse_a_span_outside_its_memory(index: u32) -> Result<(), Fault> {
    let (_bench, stream) = open_device(index)?;
    let live = Vulkan::allocate(&stream, 4096)?;
    let whole = live.whole();
    for span in common::spans_outside(whole) {
        assert_invalid(Vulkan::fill(&stream, span, 1), "is not inside memory");
        let mut all = vec![0; span.bytes() as usize];
        assert_invalid(Vulkan::upload(&stream, span, &all), "is not inside memory");
        assert_invalid(Vulkan::download(&stream, span, &mut all), "is not inside memory");
    }
    assert_invalid(Vulkan::fill(&stream, Span::new(u64::MAX, whole.pointer(), 8), 1), "freed");
    assert_invalid(live.part(4090, 8), "");
    Ok(())
}

fn drop_in_any_order(index: u32) -> Result<(), Fault> {
    let (mut bench, stream) = open_device(index)?;
    let (buffer, mark) = (Vulkan::allocate(&stream, 4096)?, Vulkan::event(&stream)?);
    let blocker = Vulkan::blocker(bench.device()).cloned();
    Vulkan::fill(&stream, buffer.whole(), 3)?;
    Vulkan::record(&mark, &stream)?;
    // First the device, with work that was never submitted.
    drop(bench);
    let mut content = [0; 8];
    Vulkan::download(&stream, buffer.whole(), &mut content)?;
    assert_eq!(content, [3; 8]);
    // Then the stream, before its event, its memory and its blocking kernel.
    drop(stream);
    Vulkan::wait_event(&mark)?;
    drop((buffer, mark, blocker));

    let (bench, stream) = open_device(index)?;
    let buffer = Vulkan::allocate(&stream, 4096)?;
    Vulkan::fill(&stream, buffer.whole(), 1)?;
    drop((buffer, stream, bench));
    Ok(())
}

fn free_memory_of_pending_work(index: u32) -> Result<(), Fault> {
    let (mut bench, stream) = open_device(index)?;
    let (from, to) = (Vulkan::allocate(&stream, 1 << 20)?, Vulkan::allocate(&stream, 1 << 20)?);
    if let Some(blocker) = Vulkan::blocker(bench.device()) {
        Vulkan::block(blocker, &stream, Duration::from_millis(20))?;
    }
    Vulkan::fill(&stream, from.whole(), 9)?;
    Vulkan::copy(&stream, to.whole(), from.whole())?;
    Vulkan::submit(&stream)?;
    let span = from.whole();
    drop(from);
    let mut content = vec![0; 1 << 20];
    Vulkan::download(&stream, to.whole(), &mut content)?;
    assert!(content.iter().all(|byte| *byte == 9));
    assert_invalid(Vulkan::fill(&stream, span, 0), "freed");
    Ok(())
}

fn share_a_stream_between_threads(index: u32) -> Result<(), Fault> {
    let (_bench, stream) = open_device(index)?;
    let work = |thread: u8| {
        let (own, copied) = (Vulkan::allocate(&stream, 8192)?, Vulkan::allocate(&stream, 8192)?);
        let (begin, end) = (Vulkan::event(&stream)?, Vulkan::event(&stream)?);
        for iteration in 0..50_u8 {
            let value = thread.wrapping_mul(50).wrapping_add(iteration);
            Vulkan::record(&begin, &stream)?;
            Vulkan::upload(&stream, own.part(0, 4096)?, &[value; 4096])?;
            Vulkan::fill(&stream, own.part(4096, 4096)?, value)?;
            Vulkan::copy(&stream, copied.whole(), own.whole())?;
            Vulkan::record(&end, &stream)?;
            let mut content = [!value; 8192];
            Vulkan::download(&stream, copied.whole(), &mut content)?;
            assert!(content.iter().all(|byte| *byte == value), "thread {thread}, iteration {iteration}");
            Vulkan::wait_event(&end)?;
            Vulkan::nanoseconds(&begin, &end)?;
            // Memory that is freed while other threads have work pending.
            drop(Vulkan::allocate(&stream, 4096)?);
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|thread| scope.spawn(move || work(thread))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("a thread panicked"))
    })
}

fn refuse_work_after_a_hang(index: u32) -> Result<(), Fault> {
    let mut bench = open(
        index,
        &Options { deadline: Some(Duration::from_secs(2)), ..Options::default() },
        plimsoll::probes::gpu_probes().leak(),
    )?;
    let stream = Arc::clone(Vulkan::stream(bench.device()));
    let Some(blocker) = Vulkan::blocker(bench.device()).cloned() else { return Ok(()) };
    let (buffer, mark) = (Vulkan::allocate(&stream, 4096)?, Vulkan::event(&stream)?);
    // Three times the deadline: kernels that were calibrated on a busy CPU are shorter on an idle one.
    for _ in 0..120 {
        Vulkan::block(&blocker, &stream, Duration::from_millis(50))?;
    }
    assert_refused(Vulkan::wait(&stream), FaultClass::Hung, "");
    let begin = Instant::now();
    let assert_lost =
        |answer: Result<(), Fault>| assert_refused(answer, FaultClass::DeviceLost, "plimsoll_spin of 1 blocks");
    assert_lost(Vulkan::upload(&stream, buffer.whole(), &[0; 4]));
    assert_lost(Vulkan::download(&stream, buffer.whole(), &mut [0; 4]));
    assert_lost(Vulkan::fill(&stream, buffer.whole(), 0));
    assert_lost(Vulkan::allocate(&stream, 4096).map(drop));
    assert_lost(Vulkan::record(&mark, &stream));
    assert_lost(Vulkan::block(&blocker, &stream, Duration::from_millis(1)));
    assert_lost(Vulkan::submit(&stream));
    assert_lost(Vulkan::wait(&stream));
    assert_lost(bench.verify("launch", Depth::Small, &mut |_| ()));
    drop((bench, mark, buffer, stream, blocker));
    assert!(begin.elapsed() < Duration::from_secs(1), "something waited again");
    // The device can be opened again once the kernels have ended.
    std::thread::sleep(Duration::from_secs(5));
    open(index, &Options::default(), &[]).map(drop)
}
