//! Unsound uses of the CUDA backend that are typed errors, or made sound at run time, tried with the stand-in driver.
#![forbid(unsafe_code)]

use std::sync::Arc;
use std::time::Duration;

use plimsoll_core::Fault;
use plimsoll_cuda::Options;
use plimsoll_cuda::driver::{Event, Stream};
use plimsoll_cuda::elementwise::{Bound, Gpu, Operand};
use plimsoll_cuda::memory::{DeviceBuffer, HostBuffer, HostKind, ManagedBuffer, Span, StreamBuffer, Transfer as _};
use plimsoll_expr::{DType, In, Layout, Names, parse, trace};
use plimsoll_gen::elementwise::Choose;

/// A GPU that isn't there, with its driver and compiler in a folder of its own.
fn gpu() -> (tempfile::TempDir, Gpu) {
    let folder = tempfile::tempdir().unwrap();
    let driver = fakecuda::without(folder.path(), &[]).unwrap();
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

/// `out = x + 1` on two parts of memory.
fn bound(gpu: &Gpu, x: Operand, out: Operand) -> Result<Bound, plimsoll_cuda::elementwise::Error> {
    let graph = parse("in x: f32; out = x + 1", &Names::default()).unwrap();
    gpu.engine().expression(&graph).unwrap().bind(&[x], &[out], &[], &Choose::default())
}

fn floats(span: Span) -> Operand {
    Operand::new(span, DType::F32, Layout::contiguous(&[span.bytes() / 4]).unwrap())
}

#[test]
fn memory_that_was_freed_can_not_be_used_by_its_span() {
    let (_folder, gpu) = gpu();
    let (stream, context) = (gpu.stream(), gpu.engine().context());
    let there = DeviceBuffer::new(context, 4096).unwrap();
    let gone = [
        DeviceBuffer::new(context, 4096).unwrap().whole(),
        StreamBuffer::new(stream, 4096).unwrap().whole(),
        ManagedBuffer::new(context, 4096).unwrap().whole(),
        HostBuffer::new(context, HostKind::Pinned, 4096).unwrap().mapped().unwrap(),
    ];
    for span in gone {
        assert!(invalid(span.fill(stream, 1)).contains("freed"));
        assert!(invalid(span.upload(stream, &[1; 8])).contains("freed"));
        assert!(invalid(span.download(stream, &mut [1; 8])).contains("freed"));
        assert!(invalid(span.copy_from(stream, there.whole())).contains("freed"));
        assert!(invalid(there.whole().copy_from(stream, span)).contains("freed"));
        assert!(invalid(there.whole().copy_from_peer(stream, span)).contains("freed"));
        let mut host = HostBuffer::new(context, HostKind::Pageable, 4096).unwrap();
        assert!(invalid(host.copy_to(stream, span)).contains("freed"));
        assert!(invalid(host.copy_from(stream, span)).contains("freed"));
        let error = bound(&gpu, floats(span), floats(there.whole())).map(drop).unwrap_err();
        assert!(error.to_string().contains("freed"), "{error}");
    }
}

#[test]
fn a_span_outside_of_its_memory_is_refused() {
    let (_folder, gpu) = gpu();
    let (stream, there) = (gpu.stream(), DeviceBuffer::new(gpu.engine().context(), 4096).unwrap());
    let whole = there.whole();
    let spans = [
        Span::new(whole.region(), whole.pointer(), 4100),
        Span::new(whole.region(), whole.pointer() - 4, 8),
        Span::new(whole.region(), u64::MAX - 3, 8),
        Span::new(whole.region(), 0, 8),
    ];
    for span in spans {
        assert!(invalid(span.fill(stream, 1)).contains("lies in no memory"));
        let error = bound(&gpu, floats(span), floats(span)).map(drop).unwrap_err();
        assert!(error.to_string().contains("lies in no memory"), "{error}");
    }
    let unknown = Span::new(u64::MAX, whole.pointer(), 8);
    assert!(invalid(unknown.fill(stream, 1)).contains("freed"));
}

#[test]
fn what_was_bound_to_a_buffer_holds_it() {
    let (_folder, gpu) = gpu();
    let (x, out) = (gpu.upload(&[1.0_f32; 64]).unwrap(), gpu.zeros::<f32>(64).unwrap());
    let (x, at) = (x.operand().unwrap(), out.operand().unwrap());
    drop(out);
    let bound = bound(&gpu, x, at).unwrap();
    let launch = bound.launch().unwrap();
    bound.enqueue(gpu.stream()).unwrap();
    drop(bound);
    gpu.stream().launch(&launch).unwrap();
    // Memory of another stream than the one that is asked.
    gpu.fork().unwrap().stream().launch(&launch).unwrap();
    gpu.wait().unwrap();
}

#[test]
fn a_graph_never_copies_the_host_s_memory() {
    let (_folder, gpu) = gpu();
    let (stream, context) = (gpu.stream(), gpu.engine().context());
    let buffer = DeviceBuffer::new(context, 4096).unwrap();
    for kind in [HostKind::Pinned, HostKind::WriteCombined, HostKind::Pageable] {
        let mut host = HostBuffer::new(context, kind, 4096).unwrap();
        stream.record().unwrap();
        assert!(invalid(host.copy_from(stream, buffer.whole())).contains("recorded"));
        assert!(invalid(host.copy_to(stream, buffer.whole())).contains("recorded"));
        assert!(invalid(buffer.upload(stream, &[0; 8])).contains("recorded"));
        assert!(invalid(buffer.download(stream, &mut [0; 8])).contains("recorded"));
        drop(host);
        stream.recorded().unwrap().launch(stream).unwrap();
    }
}

#[test]
fn a_recording_has_one_beginning_and_one_end_and_no_other_stream_slips_in() {
    let (_folder, gpu) = gpu();
    let (stream, context) = (gpu.stream(), gpu.engine().context());
    assert!(invalid(stream.recorded()).contains("ends what it began"));
    stream.record().unwrap();
    assert!(invalid(stream.record()).contains("once at a time"));
    let (event, other) = (Event::untimed(context).unwrap(), Stream::new(context).unwrap());
    assert!(event.record(stream).unwrap_err().to_string().contains("recorded"));
    event.record(&other).unwrap();
    assert!(stream.wait_for(&event).unwrap_err().to_string().contains("recorded"));
    let graph = stream.recorded().unwrap();
    stream.record().unwrap();
    assert!(graph.launch(stream).unwrap_err().to_string().contains("recorded"));
    stream.recorded().unwrap();
}

#[test]
fn while_the_host_looks_at_memory_no_device_may() {
    let (_folder, gpu) = gpu();
    let (stream, context) = (gpu.stream(), gpu.engine().context());
    let mut host = HostBuffer::new(context, HostKind::Pinned, 4096).unwrap();
    let out = DeviceBuffer::new(context, 4096).unwrap();
    let reads = bound(&gpu, floats(host.mapped().unwrap()), floats(out.whole())).unwrap();
    let launch = reads.launch().unwrap();
    stream.record().unwrap();
    stream.launch(&launch).unwrap();
    let graph = stream.recorded().unwrap();
    {
        let mut content = host.content().unwrap();
        content[0] = 7;
        assert!(invalid(stream.launch(&launch)).contains("host looks"));
        assert!(invalid(graph.launch(stream)).contains("host looks"));
        assert!(reads.enqueue(stream).unwrap_err().to_string().contains("host looks"));
    }
    stream.launch(&launch).unwrap();
    graph.launch(stream).unwrap();
    reads.enqueue(stream).unwrap();
    // Held by the launch, whoever drops the buffer.
    drop(host);
    stream.launch(&launch).unwrap();
}

#[test]
fn a_program_s_calls_and_another_thread_s_recordings_keep_out_of_each_other_s_way() {
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
                    // Memory of a stream that is being recorded may be refused, and nothing worse.
                    let _ = kernel.run(&x, &mut out);
                }
            });
        }
        for _ in 0..30 {
            let mut out = first_of(&gpu);
            if let Ok(recorded) = gpu.record(|| kernel.run(&x, &mut out)) {
                drop(out);
                recorded.launch().unwrap();
            }
        }
    });
    gpu.wait().unwrap();
}

/// Memory of a stream that nobody records meanwhile.
fn first_of(gpu: &Gpu) -> plimsoll_cuda::elementwise::Buffer<f32> {
    loop {
        if let Ok(buffer) = gpu.zeros::<f32>(64) {
            return buffer;
        }
        std::thread::yield_now();
    }
}

#[test]
fn a_stream_outlives_what_belongs_to_it() {
    let (_folder, gpu) = gpu();
    let stream = Arc::new(Stream::new(gpu.engine().context()).unwrap());
    let memory = StreamBuffer::new(&stream, 4096).unwrap();
    drop(stream);
    memory.upload(&[7; 4096]).unwrap();
    let mut back = [0; 4096];
    memory.download(&mut back).unwrap();
    assert_eq!(back, [7; 4096]);
}
