//! Unsound uses of the CUDA backend that are typed errors, or made sound at run time, tested with the fake driver.
#![forbid(unsafe_code)]

mod common;

use std::sync::Arc;
use std::time::Duration;

use plimsoll_core::Fault;
use plimsoll_cuda::Options;
use plimsoll_cuda::driver::{Event, Stream};
use plimsoll_cuda::elementwise::{BoundExpression, Gpu, Operand};
use plimsoll_cuda::memory::{DeviceBuffer, HostBuffer, HostKind, ManagedBuffer, Span, StreamBuffer, Transfer as _};
use plimsoll_expr::{DType, In, Layout, Names, parse, trace};
use plimsoll_gen::elementwise::Choose;

/// A fake GPU, with its driver and compiler in a separate folder.
fn gpu() -> (tempfile::TempDir, Gpu) {
    let folder = tempfile::tempdir().unwrap();
    let driver = fakecuda::driver_without(folder.path(), &[]).unwrap();
    let nvrtc = folder.path().join("libnvrtc.so.13");
    for copy in [&nvrtc, &folder.path().join("libnvrtc-builtins.so.13.0")] {
        std::fs::copy(&driver, copy).unwrap();
    }
    let deadline = Some(Duration::from_millis(200));
    let options = Options { nvrtc: Some(nvrtc), no_cache: true, deadline, ..Options::default() };
    let gpu = Gpu::open_library(&driver, 0, &options).unwrap();
    (folder, gpu)
}

fn invalid<T>(answer: Result<T, Fault>) -> String {
    match answer.map(drop).unwrap_err() {
        Fault::Invalid(why) => why,
        fault => panic!("{fault}"),
    }
}

/// Binds `out = x + 1` to two operands.
fn bind(gpu: &Gpu, x: Operand, out: Operand) -> Result<BoundExpression, plimsoll_cuda::elementwise::Error> {
    let graph = parse("in x: f32; out = x + 1", &Names::default()).unwrap();
    gpu.engine().expression(&graph).unwrap().bind(&[x], &[out], &[], &Choose::default())
}

fn floats(span: Span) -> Operand {
    Operand::new(span, DType::F32, Layout::contiguous(&[span.bytes() / 4]).unwrap())
}

#[test]
fn the_span_of_freed_memory_is_refused() {
    let (_folder, gpu) = gpu();
    let (stream, context) = (gpu.stream(), gpu.stream().context());
    let live = DeviceBuffer::new(context, 4096).unwrap();
    let freed = [
        DeviceBuffer::new(context, 4096).unwrap().whole(),
        StreamBuffer::new(stream, 4096).unwrap().whole(),
        ManagedBuffer::new(context, 4096).unwrap().whole(),
        HostBuffer::new(context, HostKind::Pinned, 4096).unwrap().mapped().unwrap(),
    ];
    for span in freed {
        assert!(invalid(span.fill(stream, 1)).contains("freed"));
        assert!(invalid(span.upload(stream, &[1; 8])).contains("freed"));
        assert!(invalid(span.download(stream, &mut [1; 8])).contains("freed"));
        assert!(invalid(span.copy_from(stream, live.whole())).contains("freed"));
        assert!(invalid(live.whole().copy_from(stream, span)).contains("freed"));
        assert!(invalid(live.whole().copy_from_peer(stream, span)).contains("freed"));
        let mut host = HostBuffer::new(context, HostKind::Pageable, 4096).unwrap();
        assert!(invalid(host.copy_to(stream, span)).contains("freed"));
        assert!(invalid(host.copy_from(stream, span)).contains("freed"));
        let error = bind(&gpu, floats(span), floats(live.whole())).map(drop).unwrap_err();
        assert!(error.to_string().contains("freed"), "{error}");
    }
}

#[test]
fn a_span_outside_its_memory_is_refused() {
    let (_folder, gpu) = gpu();
    let (stream, buffer) = (gpu.stream(), DeviceBuffer::new(gpu.stream().context(), 4096).unwrap());
    let whole = buffer.whole();
    for span in common::spans_outside(whole) {
        assert!(invalid(span.fill(stream, 1)).contains("outside its allocation"));
        let error = bind(&gpu, floats(span), floats(span)).map(drop).unwrap_err();
        assert!(error.to_string().contains("outside its allocation"), "{error}");
    }
    let unknown = Span::new(u64::MAX, whole.pointer(), 8);
    assert!(invalid(unknown.fill(stream, 1)).contains("freed"));
}

#[test]
fn a_bound_expression_keeps_its_buffers_alive() {
    let (_folder, gpu) = gpu();
    let (x, out) = (gpu.upload(&[1.0_f32; 64]).unwrap(), gpu.zeros::<f32>(64).unwrap());
    let (x, at) = (x.operand().unwrap(), out.operand().unwrap());
    drop(out);
    let bound = bind(&gpu, x, at).unwrap();
    let launch = bound.launch().unwrap();
    bound.enqueue(gpu.stream()).unwrap();
    drop(bound);
    gpu.stream().launch(&launch).unwrap();
    // The memory belongs to a different stream than the one that launches.
    gpu.fork().unwrap().stream().launch(&launch).unwrap();
    gpu.wait().unwrap();
}

#[test]
fn copies_of_host_memory_are_refused_while_recording() {
    let (_folder, gpu) = gpu();
    let (stream, context) = (gpu.stream(), gpu.stream().context());
    let buffer = DeviceBuffer::new(context, 4096).unwrap();
    for kind in [HostKind::Pinned, HostKind::WriteCombined, HostKind::Pageable] {
        let mut host = HostBuffer::new(context, kind, 4096).unwrap();
        stream.begin_recording().unwrap();
        assert!(invalid(host.copy_from(stream, buffer.whole())).contains("record"));
        assert!(invalid(host.copy_to(stream, buffer.whole())).contains("record"));
        assert!(invalid(buffer.upload(stream, &[0; 8])).contains("record"));
        assert!(invalid(buffer.download(stream, &mut [0; 8])).contains("record"));
        drop(host);
        stream.end_recording().unwrap().launch(stream).unwrap();
    }
}

#[test]
fn recordings_do_not_nest_and_take_no_events_of_other_streams() {
    let (_folder, gpu) = gpu();
    let (stream, context) = (gpu.stream(), gpu.stream().context());
    assert!(invalid(stream.end_recording()).contains("no recording to end"));
    stream.begin_recording().unwrap();
    assert!(invalid(stream.begin_recording()).contains("already recording"));
    let (event, other) = (Event::untimed(context).unwrap(), Stream::new(context).unwrap());
    assert!(event.record(stream).unwrap_err().to_string().contains("record"));
    event.record(&other).unwrap();
    assert!(stream.wait_for(&event).unwrap_err().to_string().contains("record"));
    let graph = stream.end_recording().unwrap();
    stream.begin_recording().unwrap();
    assert!(graph.launch(stream).unwrap_err().to_string().contains("record"));
    stream.end_recording().unwrap();
}

#[test]
fn the_device_may_not_use_memory_while_the_host_accesses_it() {
    let (_folder, gpu) = gpu();
    let (stream, context) = (gpu.stream(), gpu.stream().context());
    let mut host = HostBuffer::new(context, HostKind::Pinned, 4096).unwrap();
    let out = DeviceBuffer::new(context, 4096).unwrap();
    let reads = bind(&gpu, floats(host.mapped().unwrap()), floats(out.whole())).unwrap();
    let launch = reads.launch().unwrap();
    stream.begin_recording().unwrap();
    stream.launch(&launch).unwrap();
    let graph = stream.end_recording().unwrap();
    {
        let mut content = host.content().unwrap();
        content[0] = 7;
        assert!(invalid(stream.launch(&launch)).contains("host accesses"));
        assert!(invalid(graph.launch(stream)).contains("host accesses"));
        assert!(reads.enqueue(stream).unwrap_err().to_string().contains("host accesses"));
    }
    stream.launch(&launch).unwrap();
    graph.launch(stream).unwrap();
    reads.enqueue(stream).unwrap();
    // The launch keeps the memory alive after the buffer is dropped.
    drop(host);
    stream.launch(&launch).unwrap();
}

#[test]
fn runs_on_one_thread_and_recordings_on_another_do_not_interfere() {
    let (_folder, gpu) = gpu();
    let kernel = gpu.compile(&trace(|x: In<f32>| x + 1.0).unwrap()).unwrap();
    let x = gpu.upload(&[1.0_f32; 64]).unwrap();
    let mut first = gpu.zeros::<f32>(64).unwrap();
    kernel.run(&x, &mut first).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let other = gpu.fork().unwrap();
                let mut out = other.zeros::<f32>(64).unwrap();
                for _ in 0..100 {
                    // May be refused because the memory's stream is being recorded, but must not do anything worse.
                    let _ = kernel.run(&x, &mut out);
                }
            });
        }
        for _ in 0..30 {
            let mut out = allocate_when_allowed(&gpu);
            if let Ok(recorded) = gpu.record(|| kernel.run(&x, &mut out)) {
                drop(out);
                recorded.launch().unwrap();
            }
        }
    });
    gpu.wait().unwrap();
}

/// Allocates memory, retrying while the stream is being recorded.
fn allocate_when_allowed(gpu: &Gpu) -> plimsoll_cuda::elementwise::Buffer<f32> {
    loop {
        if let Ok(buffer) = gpu.zeros::<f32>(64) {
            return buffer;
        }
        std::thread::yield_now();
    }
}

#[test]
fn memory_keeps_its_stream_alive() {
    let (_folder, gpu) = gpu();
    let stream = Arc::new(Stream::new(gpu.stream().context()).unwrap());
    let memory = StreamBuffer::new(&stream, 4096).unwrap();
    drop(stream);
    memory.upload(&[7; 4096]).unwrap();
    let mut back = [0; 4096];
    memory.download(&mut back).unwrap();
    assert_eq!(back, [7; 4096]);
}
