//! Which streams are waited for, by whom and when, seen by a driver that finishes work only when the test says so.
#![allow(unsafe_code)]

mod common;

use std::slice::from_ref;
use std::sync::Arc;
use std::thread::{scope, yield_now};
use std::time::Duration;

use common::{Anything, Bare, Fake};
use plimsoll_core::Fault;
use plimsoll_cuda::Options;
use plimsoll_cuda::driver::{Context, DeviceHandle, DriverError, Graph, Stream};
use plimsoll_cuda::elementwise::Gpu;
use plimsoll_cuda::memory::{DeviceBuffer, StreamBuffer, Transfer as _};
use plimsoll_expr::{In, trace};

/// Longer than any test holds work back.
const LONG: Duration = Duration::from_secs(60);

/// Which stream is being recorded meanwhile.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Recorded {
    None,
    Another,
    Itself,
}

#[test]
fn a_dropped_stream_is_waited_for_before_memory_that_it_used_is_freed() {
    for recorded in [Recorded::None, Recorded::Another, Recorded::Itself] {
        let fake = Fake::new();
        let bare = Bare::with_deadline(fake.order(""), LONG).unwrap();
        let (other, memory) = (Stream::new(&bare.context).unwrap(), StreamBuffer::new(&bare.stream, 4096).unwrap());
        fake.hold();
        memory.whole().fill(&other, 1).unwrap();
        match recorded {
            Recorded::None => {}
            Recorded::Another => bare.stream.record().unwrap(),
            Recorded::Itself => other.record().unwrap(),
        }
        let waited = fake.waits(|| {
            drop(other);
            drop(memory);
            if recorded == Recorded::Another {
                bare.stream.recorded().map(drop).unwrap();
            }
        });
        assert!(waited, "{recorded:?}");
        assert_eq!((fake.freed_early(), fake.count("cuMemFreeAsync")), (0, 1), "{recorded:?}");
    }
}

#[test]
fn a_stream_that_one_thread_drops_is_waited_for_by_another_that_frees_its_memory() {
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
fn all_streams_of_a_call_are_ordered_after_it_though_one_of_them_cant_be() {
    // Both streams are waited for in two calls, and then wait. The second call's are the seventh and eighth wait.
    for failing in ["7-7", "8-8", "7-8"] {
        let fake = Fake::new();
        fake.order(&format!("fail=cuStreamWaitEvent:1@{failing}"));
        let options = Options { compiler: Some(Arc::new(Anything)), deadline: Some(LONG), ..fake.options() };
        let first = Gpu::open(&fake.driver().unwrap(), 0, &options).unwrap();
        let (second, third) = (first.fork().unwrap(), first.fork().unwrap());
        let add = first.compile(&trace(|x: In<f32>, y: In<f32>| x + y).unwrap()).unwrap();
        let (x, y) = (first.zeros::<f32>(64).unwrap(), second.zeros::<f32>(64).unwrap());
        let mut sum = third.zeros::<f32>(64).unwrap();
        add.on(&third).run(&x, &y, &mut sum).unwrap();
        fake.hold();
        let waited = fake.waits(|| {
            let error = add.on(&third).run(&x, &y, &mut sum).unwrap_err();
            assert!(error.to_string().contains("cuStreamWaitEvent"), "{error}");
            drop((x, y));
        });
        assert!(waited, "{failing}: nobody waited for a stream that isn't ordered");
        assert_eq!((fake.count("cuStreamWaitEvent"), fake.freed_early()), (8, 0), "{failing}");
    }
}

#[test]
fn a_graph_is_launched_and_uploaded_on_streams_of_its_own_device_alone() {
    let fake = Fake::new();
    let bare = Bare::new(fake.order("devices=2")).unwrap();
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
fn kernels_are_launched_on_streams_of_their_own_device_and_opening_of_the_driver_alone() {
    let fake = Fake::new();
    let bare = Bare::new(fake.order("devices=2")).unwrap();
    let launch = bare.launch(&DeviceBuffer::new(&bare.context, 4096).unwrap()).unwrap();
    let another = DeviceHandle::new(bare.context.device().driver(), 1).unwrap();
    let anew = DeviceHandle::new(&fake.driver().unwrap(), 0).unwrap();
    for handle in [another, anew] {
        let context = Context::new(handle, LONG).unwrap();
        let stream = Stream::new(&context).unwrap();
        assert!(matches!(stream.launch(&launch), Err(Fault::Invalid(_))));
        assert!(matches!(Graph::chain(&context, from_ref(&launch), 1, false), Err(DriverError::Unavailable(_))));
    }
    let options = Options { compiler: Some(Arc::new(Anything)), ..fake.options() };
    let open = || Gpu::open(&fake.driver().unwrap(), 0, &options).unwrap();
    let (here, there) = (open(), open());
    let negate = here.compile(&trace(|x: In<f32>| -x).unwrap()).unwrap();
    let (x, mut y) = (here.zeros::<f32>(64).unwrap(), there.zeros::<f32>(64).unwrap());
    let refused = negate.run(&x, &mut y).unwrap_err().to_string();
    assert!(refused.contains("cuda:0 by another opening of the driver"), "{refused}");
    assert_eq!(fake.count("cuLaunchKernel") + fake.count("cuLaunchKernelEx") + fake.count("cuGraphAddKernelNode"), 0);
}
