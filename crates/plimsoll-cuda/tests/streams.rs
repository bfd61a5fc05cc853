//! Waits for streams, with a fake driver that finishes work only when the test says so.
#![allow(unsafe_code)]

mod common;

use std::slice::from_ref;
use std::sync::Arc;
use std::thread::{scope, yield_now};
use std::time::Duration;

use common::{AnyCompiler, Bare, Fake};
use plimsoll_core::Fault;
use plimsoll_cuda::Options;
use plimsoll_cuda::driver::{Context, DeviceHandle, DriverError, Graph, Stream};
use plimsoll_cuda::elementwise::Gpu;
use plimsoll_cuda::memory::{DeviceBuffer, StreamBuffer, Transfer as _};
use plimsoll_expr::{In, trace};

/// Longer than any test holds work.
const LONG: Duration = Duration::from_secs(60);

/// Which stream is recording meanwhile.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Recorded {
    None,
    Another,
    Itself,
}

#[test]
fn memory_used_by_a_dropped_stream_is_freed_after_its_work() {
    for recorded in [Recorded::None, Recorded::Another, Recorded::Itself] {
        let fake = Fake::new();
        let bare = Bare::with_deadline(fake.order(""), LONG).unwrap();
        let (other, memory) = (Stream::new(&bare.context).unwrap(), StreamBuffer::new(&bare.stream, 4096).unwrap());
        fake.hold();
        memory.whole().fill(&other, 1).unwrap();
        match recorded {
            Recorded::None => {}
            Recorded::Another => bare.stream.begin_recording().unwrap(),
            Recorded::Itself => other.begin_recording().unwrap(),
        }
        let waited = fake.waits(|| {
            drop(other);
            drop(memory);
            if recorded == Recorded::Another {
                bare.stream.end_recording().map(drop).unwrap();
            }
        });
        assert!(waited, "{recorded:?}");
        assert_eq!((fake.freed_early(), fake.count("cuMemFreeAsync")), (0, 1), "{recorded:?}");
    }
}

#[test]
fn freeing_memory_waits_for_a_stream_that_another_thread_is_dropping() {
    let fake = Fake::new();
    let bare = Bare::with_deadline(fake.order(""), LONG).unwrap();
    let (other, memory) = (Stream::new(&bare.context).unwrap(), StreamBuffer::new(&bare.stream, 4096).unwrap());
    fake.hold();
    memory.whole().fill(&other, 1).unwrap();
    scope(|scope| {
        let dropping = scope.spawn(|| drop(other));
        while !dropping.is_finished() && fake.waiting() < 1 {
            yield_now();
        }
        assert!(fake.waits(|| drop(memory)), "the memory was freed while the stream was being dropped");
    });
    assert_eq!((fake.freed_early(), fake.count("cuMemFreeAsync")), (0, 1));
}

#[test]
fn if_one_stream_of_a_call_cant_wait_the_others_still_do() {
    // Each call makes two waits before and two after the launch. Those after the second call's launch are the seventh and eighth.
    for failing in ["7-7", "8-8", "7-8"] {
        let fake = Fake::new();
        fake.order(&format!("fail=cuStreamWaitEvent:1@{failing}"));
        let options = Options { compiler: Some(Arc::new(AnyCompiler)), deadline: Some(LONG), ..fake.options() };
        let first = Gpu::open(&fake.driver().unwrap(), 0, &options).unwrap();
        let (second, third) = (first.fork().unwrap(), first.fork().unwrap());
        let add = first.compile(&trace(|x: In<f32>, y: In<f32>| x + y).unwrap()).unwrap();
        let (x, y) = (first.zeros::<f32>(64).unwrap(), second.zeros::<f32>(64).unwrap());
        let mut sum = third.zeros::<f32>(64).unwrap();
        add.on_stream(&third).run(&x, &y, &mut sum).unwrap();
        fake.hold();
        let waited = fake.waits(|| {
            let error = add.on_stream(&third).run(&x, &y, &mut sum).unwrap_err();
            assert!(error.to_string().contains("cuStreamWaitEvent"), "{error}");
            drop((x, y));
        });
        assert!(waited, "{failing}: the host must wait for a stream that can't be ordered");
        assert_eq!((fake.count("cuStreamWaitEvent"), fake.freed_early()), (8, 0), "{failing}");
    }
}

#[test]
fn a_graph_is_refused_on_streams_of_another_device() {
    let (fake, bare) = Bare::with_orders("devices=2");
    let buffer = DeviceBuffer::new(&bare.context, 4096).unwrap();
    let graph = Graph::chain(&bare.context, &[bare.launch(&buffer).unwrap()], 2, false).unwrap();
    let second = Context::new(DeviceHandle::new(bare.context.device().driver(), 1).unwrap(), LONG).unwrap();
    let stream = Stream::new(&second).unwrap();
    let refused = graph.launch(&stream).unwrap_err();
    assert!(matches!(&refused, Fault::Invalid(why) if why.contains("two devices")), "{refused}");
    assert!(matches!(graph.upload(&stream), Err(DriverError::Unavailable(_))));
    assert_eq!((fake.count("cuGraphLaunch"), fake.count("cuGraphUpload")), (0, 0));
    graph.upload(&bare.stream).unwrap();
    graph.launch(&bare.stream).unwrap();
}

#[test]
fn kernels_are_refused_on_streams_of_another_device_or_another_copy_of_the_driver() {
    let (fake, bare) = Bare::with_orders("devices=2");
    let launch = bare.launch(&DeviceBuffer::new(&bare.context, 4096).unwrap()).unwrap();
    let another = DeviceHandle::new(bare.context.device().driver(), 1).unwrap();
    let reopened = DeviceHandle::new(&fake.driver().unwrap(), 0).unwrap();
    for handle in [another, reopened] {
        let context = Context::new(handle, LONG).unwrap();
        let stream = Stream::new(&context).unwrap();
        assert!(matches!(stream.launch(&launch), Err(Fault::Invalid(_))));
        assert!(matches!(Graph::chain(&context, from_ref(&launch), 1, false), Err(DriverError::Unavailable(_))));
    }
    let options = Options { compiler: Some(Arc::new(AnyCompiler)), ..fake.options() };
    let open = || Gpu::open(&fake.driver().unwrap(), 0, &options).unwrap();
    let (here, there) = (open(), open());
    let negate = here.compile(&trace(|x: In<f32>| -x).unwrap()).unwrap();
    let (x, mut y) = (here.zeros::<f32>(64).unwrap(), there.zeros::<f32>(64).unwrap());
    let refused = negate.run(&x, &mut y).unwrap_err().to_string();
    assert!(refused.contains("cuda:0 in another copy of the driver"), "{refused}");
    assert_eq!(fake.count("cuLaunchKernel") + fake.count("cuLaunchKernelEx") + fake.count("cuGraphAddKernelNode"), 0);
}
