//! Unsound uses of the Vulkan backend that are typed errors, or made sound at run time, tried on the first device that can be opened: they
//! are ignored, with the reason, where there is none. Launches need a promise that safe code can't make; those of the probes are tried.
#![forbid(unsafe_code)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use libtest_mimic::{Failed, Trial};
use plimsoll_core::probe::{Bench, Depth, Instrument as _};
use plimsoll_core::{Fault, FaultClass};
use plimsoll_gpu::{Gpu, Memory as _, Span};
use plimsoll_vulkan::{Options, Stream, Vulkan, devices, open};

type Test = fn(u32) -> Result<(), Fault>;

const TESTS: [(&str, Test); 7] = [
    ("objects_of_another_device_are_refused", objects_of_another_device),
    ("memory_that_was_freed_can_not_be_used_by_its_span", memory_that_was_freed),
    ("a_span_outside_of_its_memory_is_refused", a_span_outside_of_its_memory),
    ("things_may_go_in_any_order", things_go_in_any_order),
    ("pending_work_holds_its_memory", pending_work_holds_its_memory),
    ("threads_may_share_a_stream", threads_share_a_stream),
    ("a_device_that_was_given_up_does_nothing_more", a_device_that_was_given_up),
];

fn main() {
    let first = || {
        let mut why = "there is no Vulkan device".to_owned();
        for adapter in devices(&Options::default())? {
            match adapter.usable {
                Ok(()) => return Ok(adapter.index),
                Err(reason) => why = reason.to_string(),
            }
        }
        Err(Fault::Invalid(why))
    };
    let ready = first();
    let trial = |&(name, test): &(&'static str, Test)| match &ready {
        Ok(index) => {
            let index = *index;
            Trial::test(name, move || test(index).map_err(|fault| Failed::from(fault.to_string())))
        }
        Err(fault) => Trial::test(name, || Ok(())).with_ignored_flag(true).with_kind(fault.to_string()),
    };
    libtest_mimic::run(&libtest_mimic::Arguments::from_args(), TESTS.iter().map(trial).collect()).exit();
}

fn opened(index: u32) -> Result<(Bench<Vulkan>, Arc<Stream>), Fault> {
    let mut bench = open(index, &Options::default(), plimsoll::probes::gpu_probes().leak())?;
    let stream = Arc::clone(Vulkan::stream(bench.device()));
    Ok((bench, stream))
}

#[track_caller]
fn refused<T>(answer: Result<T, Fault>, class: FaultClass, says: &str) {
    let fault = answer.map(drop).unwrap_err();
    assert!(fault.class() == class && fault.to_string().contains(says), "{fault}");
}

#[track_caller]
fn invalid<T>(answer: Result<T, Fault>, says: &str) {
    refused(answer, FaultClass::Invalid, says);
}

fn objects_of_another_device(index: u32) -> Result<(), Fault> {
    let ((mut bench, own), (mut second, other)) = (opened(index)?, opened(index)?);
    let (ours, theirs) = (Vulkan::allocate(&own, 64)?, Vulkan::allocate(&other, 64)?);
    let another = "another device";
    invalid(Vulkan::upload(&own, theirs.whole(), &[0; 4]), another);
    invalid(Vulkan::download(&own, theirs.whole(), &mut [0; 4]), another);
    invalid(Vulkan::fill(&own, theirs.whole(), 0), another);
    invalid(Vulkan::copy(&own, ours.whole(), theirs.whole()), another);
    invalid(Vulkan::copy(&own, theirs.whole(), ours.whole()), another);
    let (mark, foreign) = (Vulkan::event(&own)?, Vulkan::event(&other)?);
    invalid(Vulkan::record(&foreign, &own), another);
    Vulkan::record(&mark, &own)?;
    Vulkan::record(&foreign, &other)?;
    Vulkan::wait_event(&mark)?;
    Vulkan::wait_event(&foreign)?;
    invalid(Vulkan::nanoseconds(&mark, &foreign), "different devices");
    let blocker = Vulkan::blocker(second.device()).cloned();
    let Some(blocker) = blocker else { return Ok(()) };
    invalid(Vulkan::block(&blocker, &own, Duration::from_millis(1)), another);
    invalid(Vulkan::busy_clock_hz(&blocker, &own, Duration::from_millis(1)), another);
    // Nothing was harmed.
    Vulkan::wait(&own)?;
    bench.verify("launch", Depth::Small, &mut |case| assert_eq!(case.wrong, ""))
}

fn memory_that_was_freed(index: u32) -> Result<(), Fault> {
    let (_bench, stream) = opened(index)?;
    let there = Vulkan::allocate(&stream, 4096)?;
    let gone = Vulkan::allocate(&stream, 4096)?.whole();
    invalid(Vulkan::upload(&stream, gone, &[1; 8]), "freed");
    invalid(Vulkan::download(&stream, gone, &mut [1; 8]), "freed");
    invalid(Vulkan::fill(&stream, gone, 1), "freed");
    invalid(Vulkan::copy(&stream, there.whole(), gone), "freed");
    invalid(Vulkan::copy(&stream, gone, there.whole()), "freed");
    Ok(())
}

fn a_span_outside_of_its_memory(index: u32) -> Result<(), Fault> {
    let (_bench, stream) = opened(index)?;
    let there = Vulkan::allocate(&stream, 4096)?;
    let whole = there.whole();
    let spans = [
        Span::new(whole.region(), whole.pointer(), 4100),
        Span::new(whole.region(), whole.pointer() - 4, 8),
        Span::new(whole.region(), u64::MAX - 3, 8),
        Span::new(whole.region(), 0, 8),
    ];
    for span in spans {
        invalid(Vulkan::fill(&stream, span, 1), "lies in no memory");
        let mut all = vec![0; span.bytes() as usize];
        invalid(Vulkan::upload(&stream, span, &all), "lies in no memory");
        invalid(Vulkan::download(&stream, span, &mut all), "lies in no memory");
    }
    invalid(Vulkan::fill(&stream, Span::new(u64::MAX, whole.pointer(), 8), 1), "freed");
    invalid(there.part(4090, 8), "");
    Ok(())
}

fn things_go_in_any_order(index: u32) -> Result<(), Fault> {
    let (mut bench, stream) = opened(index)?;
    let (buffer, mark) = (Vulkan::allocate(&stream, 4096)?, Vulkan::event(&stream)?);
    let blocker = Vulkan::blocker(bench.device()).cloned();
    Vulkan::fill(&stream, buffer.whole(), 3)?;
    Vulkan::record(&mark, &stream)?;
    // The device, with work that was never submitted.
    drop(bench);
    let mut content = [0; 8];
    Vulkan::download(&stream, buffer.whole(), &mut content)?;
    assert_eq!(content, [3; 8]);
    // The stream, before its mark, its memory and its blocking kernel.
    drop(stream);
    Vulkan::wait_event(&mark)?;
    drop((buffer, mark, blocker));

    let (bench, stream) = opened(index)?;
    let buffer = Vulkan::allocate(&stream, 4096)?;
    Vulkan::fill(&stream, buffer.whole(), 1)?;
    drop((buffer, stream, bench));
    Ok(())
}

fn pending_work_holds_its_memory(index: u32) -> Result<(), Fault> {
    let (mut bench, stream) = opened(index)?;
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
    invalid(Vulkan::fill(&stream, span, 0), "freed");
    Ok(())
}

fn threads_share_a_stream(index: u32) -> Result<(), Fault> {
    let (_bench, stream) = opened(index)?;
    let work = |thread: u8| {
        let (own, copied) = (Vulkan::allocate(&stream, 8192)?, Vulkan::allocate(&stream, 8192)?);
        let (begin, end) = (Vulkan::event(&stream)?, Vulkan::event(&stream)?);
        for turn in 0..50_u8 {
            let value = thread.wrapping_mul(50).wrapping_add(turn);
            Vulkan::record(&begin, &stream)?;
            Vulkan::upload(&stream, own.part(0, 4096)?, &[value; 4096])?;
            Vulkan::fill(&stream, own.part(4096, 4096)?, value)?;
            Vulkan::copy(&stream, copied.whole(), own.whole())?;
            Vulkan::record(&end, &stream)?;
            let mut content = [!value; 8192];
            Vulkan::download(&stream, copied.whole(), &mut content)?;
            assert!(content.iter().all(|byte| *byte == value), "thread {thread}, turn {turn}");
            Vulkan::wait_event(&end)?;
            Vulkan::nanoseconds(&begin, &end)?;
            // Memory that goes while others have work pending.
            drop(Vulkan::allocate(&stream, 4096)?);
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|thread| scope.spawn(move || work(thread))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no thread panics"))
    })
}

fn a_device_that_was_given_up(index: u32) -> Result<(), Fault> {
    let mut bench = open(
        index,
        &Options { deadline: Some(Duration::from_secs(2)), ..Options::default() },
        plimsoll::probes::gpu_probes().leak(),
    )?;
    let stream = Arc::clone(Vulkan::stream(bench.device()));
    let Some(blocker) = Vulkan::blocker(bench.device()).cloned() else { return Ok(()) };
    let (buffer, mark) = (Vulkan::allocate(&stream, 4096)?, Vulkan::event(&stream)?);
    for _ in 0..80 {
        Vulkan::block(&blocker, &stream, Duration::from_millis(50))?;
    }
    refused(Vulkan::wait(&stream), FaultClass::Hung, "");
    let begin = Instant::now();
    let lost = |answer: Result<(), Fault>| refused(answer, FaultClass::DeviceLost, "plimsoll_spin of 1 blocks");
    lost(Vulkan::upload(&stream, buffer.whole(), &[0; 4]));
    lost(Vulkan::download(&stream, buffer.whole(), &mut [0; 4]));
    lost(Vulkan::fill(&stream, buffer.whole(), 0));
    lost(Vulkan::allocate(&stream, 4096).map(drop));
    lost(Vulkan::record(&mark, &stream));
    lost(Vulkan::block(&blocker, &stream, Duration::from_millis(1)));
    lost(Vulkan::submit(&stream));
    lost(Vulkan::wait(&stream));
    lost(bench.verify("launch", Depth::Small, &mut |_| ()));
    drop((bench, mark, buffer, stream, blocker));
    assert!(begin.elapsed() < Duration::from_secs(1), "something waited again");
    // Another one can be opened, once the kernels have ended.
    std::thread::sleep(Duration::from_secs(3));
    open(index, &Options::default(), &[]).map(drop)
}
