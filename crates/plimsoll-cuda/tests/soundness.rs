//! Safe code must not cause undefined behaviour: checked by the calls that reach the fake driver.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use common::{Bare, Fake};
use plimsoll_cuda::cache::Cache;
use plimsoll_cuda::compile::{Compiler, Kernels, Program};
use plimsoll_cuda::driver::Stream;
use plimsoll_cuda::elementwise::Gpu;
use plimsoll_cuda::memory::{
    DeviceBuffer, HostBuffer, HostKind, ManagedBuffer, MappedBuffer, StreamBuffer, Transfer as _,
};
use plimsoll_cuda::{Options, Unavailable};
use plimsoll_expr::{In, trace};

/// A compiler whose output depends on how often it was called, so that its first output can be wrong.
struct ScriptedCompiler<F> {
    times: AtomicU64,
    output: F,
}

// SAFETY: kernels of the fake driver do nothing.
unsafe impl<F: Fn(u64, &Program<'_>) -> Vec<u8> + Send + Sync> Compiler for ScriptedCompiler<F> {
    fn identity(&self) -> String {
        "wrong for the fake driver 1.0".to_owned()
    }

    fn compile(&self, program: &Program<'_>) -> Result<Vec<u8>, Unavailable> {
        Ok((self.output)(self.times.fetch_add(1, Ordering::Relaxed), program))
    }
}

/// A fake driver with these orders, what runs on it, and a second stream.
fn with_two_streams(orders: &str) -> (Fake, Bare, Stream) {
    let (fake, bare) = Bare::with_orders(orders);
    let other = Stream::new(&bare.context).unwrap();
    (fake, bare, other)
}

#[test]
fn a_truncated_image_never_reaches_the_driver_and_is_compiled_again() {
    let (fake, bare) = Bare::with_orders("");
    let whole = fakecuda::image("scale(8,8,4)");
    for cut in [0, 3, 63, 64, whole.len() / 2, whole.len() - 1] {
        let before = fake.count("cuModuleLoadData");
        let folder = tempfile::tempdir().unwrap();
        let image = whole.clone();
        let output = move |time: u64, _: &Program<'_>| if time == 0 { image[..cut].to_vec() } else { image.clone() };
        let compiler = Arc::new(ScriptedCompiler { times: AtomicU64::new(0), output });
        let cache = Cache::open(&folder.path().join("cubin"));
        let kernels = Kernels::new(&bare.context, "sm_90".to_owned(), Ok(Arc::clone(&compiler) as _), cache);
        let refused = kernels.load("a.cu", "", &[], &[]).map(drop).unwrap_err().to_string();
        assert!(refused.contains("not a cubin"), "cut to {cut}: {refused}");
        assert_eq!(fake.count("cuModuleLoadData"), before, "cut to {cut}");
        // The cache holds the truncated image with a valid hash.
        kernels.load("a.cu", "", &[], &[]).unwrap();
        assert_eq!((compiler.times.load(Ordering::Relaxed), fake.count("cuModuleLoadData")), (2, before + 1));
    }
}

#[test]
fn a_kernel_whose_parameters_differ_from_its_plan_is_refused_and_compiled_again() {
    let fake = Fake::without(&["cuFuncGetParamInfo"]);
    fake.order("version=11080");
    for wrong in ["elementwise(8)", "elementwise()", "elementwise(4000)", "other(8)"] {
        let right = |program: &Program<'_>| fakecuda::image_from_text(program.source).unwrap();
        let output =
            move |time: u64, program: &Program<'_>| if time == 0 { fakecuda::image(wrong) } else { right(program) };
        let compiler = Arc::new(ScriptedCompiler { times: AtomicU64::new(0), output });
        let folder = tempfile::tempdir().unwrap();
        let options = Options {
            no_cache: false,
            cache: Some(folder.path().join("cubin")),
            compiler: Some(Arc::clone(&compiler) as _),
            ..fake.options()
        };
        let gpu = Gpu::open(&fake.driver().unwrap(), 0, &options).unwrap();
        let kernel = gpu.compile(&trace(|x: In<f32>| x + 1.0).unwrap()).unwrap();
        let (x, mut out) = (gpu.upload(&[1.0_f32; 64]).unwrap(), gpu.zeros::<f32>(64).unwrap());
        let refused = kernel.run(&x, &mut out).unwrap_err().to_string();
        assert!(refused.contains("takes parameters of") || refused.contains("has no elementwise"), "{refused}");
        kernel.run(&x, &mut out).unwrap();
        assert_eq!(compiler.times.load(Ordering::Relaxed), 2);
    }
}

#[test]
fn memory_is_freed_after_the_last_launch_and_graph_that_use_it() {
    let (fake, bare) = Bare::with_orders("");
    let freed = || fake.count("cuMemFree_v2");
    let buffer = DeviceBuffer::new(&bare.context, 4096).unwrap();
    let launch = bare.launch(&buffer).unwrap();
    drop(buffer);
    bare.stream.launch(&launch).unwrap();
    assert_eq!(freed(), 0);
    bare.stream.begin_recording().unwrap();
    bare.stream.launch(&launch).unwrap();
    drop(launch);
    let graph = bare.stream.end_recording().unwrap();
    graph.launch(&bare.stream).unwrap();
    assert_eq!(freed(), 0);
    drop(graph);
    assert_eq!(freed(), 1);
}

#[test]
fn a_graph_keeps_the_memory_of_recorded_fills_and_copies() {
    let (fake, bare) = Bare::with_orders("");
    let buffers = [(); 3].map(|()| StreamBuffer::new(&bare.stream, 4096).unwrap());
    bare.stream.begin_recording().unwrap();
    buffers[0].whole().fill(&bare.stream, 1).unwrap();
    buffers[1].whole().copy_from(&bare.stream, buffers[2].whole()).unwrap();
    drop(buffers);
    let graph = bare.stream.end_recording().unwrap();
    assert_eq!(fake.count("cuMemFreeAsync"), 0);
    drop(graph);
    assert_eq!(fake.count("cuMemFreeAsync"), 3);
}

#[test]
fn no_copy_of_a_borrowed_slice_stays_pending_on_a_hanging_device() {
    let (fake, bare) = Bare::with_orders("hang-after=0");
    let pending = || fake.number("fakecuda_pending");
    let buffer = DeviceBuffer::new(&bare.context, 4096).unwrap();
    let mut host = HostBuffer::new(&bare.context, HostKind::Pinned, 4096).unwrap();
    let mut content = host.content().unwrap();
    bare.stream.launch(&bare.launch(&buffer).unwrap()).unwrap();
    assert!(buffer.upload(&bare.stream, &content).unwrap_err().ends_the_device());
    assert!(buffer.download(&bare.stream, &mut content).unwrap_err().ends_the_device());
    assert_eq!(pending(), 0);
    // Pinned memory that a hanging copy may still read is never freed.
    drop(content);
    drop(host);
    assert_eq!(fake.count("cuMemFreeHost"), 0);
}

#[test]
fn a_hanging_copy_keeps_its_pinned_buffer() {
    let (fake, bare) = Bare::with_orders("hang-after=0");
    let buffer = DeviceBuffer::new(&bare.context, 4096).unwrap();
    let mut host = HostBuffer::new(&bare.context, HostKind::Pinned, 4096).unwrap();
    bare.stream.launch(&bare.launch(&buffer).unwrap()).unwrap();
    host.copy_to(&bare.stream, buffer.whole()).unwrap();
    assert_eq!(fake.number("fakecuda_pending"), 1);
    assert!(host.content().map(drop).unwrap_err().ends_the_device());
    drop(host);
    assert_eq!(fake.count("cuMemFreeHost"), 0);
}

#[test]
fn the_host_waits_for_all_streams_before_it_touches_unified_memory() {
    let (fake, bare, other) = with_two_streams("");
    let buffer = DeviceBuffer::new(&bare.context, 4096).unwrap();
    let mut managed = ManagedBuffer::new(&bare.context, 4096).unwrap();
    let launch = bare.launch(&buffer).unwrap();
    other.launch(&launch).unwrap();
    let before = fake.count("cuStreamQuery");
    managed.touch_by_host().unwrap();
    assert!(fake.count("cuStreamQuery") >= before + 2, "both streams must be waited for");
}

#[test]
fn mapped_memory_is_not_unmapped_while_a_stream_hangs() {
    let (fake, bare, other) = with_two_streams("hang-after=0");
    let mapped = MappedBuffer::new(&bare.stream, 4096, false).unwrap();
    let buffer = DeviceBuffer::new(&bare.context, 4096).unwrap();
    other.launch(&bare.launch(&buffer).unwrap()).unwrap();
    drop(mapped);
    assert_eq!(fake.count("cuMemUnmap"), 0);
}

#[test]
fn memory_of_a_stream_used_on_another_is_freed_after_both() {
    let (fake, bare, other) = with_two_streams("");
    let memory = StreamBuffer::new(&bare.stream, 4096).unwrap();
    let queries = || fake.count("cuStreamQuery");
    memory.whole().fill(&bare.stream, 1).unwrap();
    let before = queries();
    drop(memory);
    assert_eq!(
        queries(),
        before,
        "memory used only on its own stream must be freed in that stream's order, without a wait"
    );
    let memory = StreamBuffer::new(&bare.stream, 4096).unwrap();
    memory.whole().fill(&other, 1).unwrap();
    drop(memory);
    assert!(queries() >= before + 2);
}

#[test]
fn a_module_is_not_unloaded_while_a_stream_hangs() {
    let (fake, bare) = Bare::with_orders("hang-after=0");
    let Bare { context, stream, scale, spinner } = bare;
    let buffer = DeviceBuffer::new(&context, 4096).unwrap();
    let arguments = plimsoll_cuda::launch::Arguments::new().buffer(&buffer).u64(1).f32(1.0);
    // SAFETY: kernels of the fake driver do nothing.
    let launch = unsafe {
        plimsoll_cuda::launch::Launch::raw(&scale, plimsoll_cuda::launch::Geometry::linear(1, 32), arguments).unwrap()
    };
    stream.launch(&launch).unwrap();
    drop((launch, scale, spinner));
    assert_eq!(fake.count("cuModuleUnload"), 0);
    assert!(context.deadline() < Duration::from_secs(1));
}
