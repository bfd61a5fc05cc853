//! Expressions with the fake driver: launches and their order, error messages, and the host's cost of a call. Kernels aren't
//! checked here: those of the fake driver do nothing.
#![allow(unsafe_code)]

mod common;

use std::slice::from_ref;
use std::sync::Arc;

use common::Fake;
use half::bf16;
use plimsoll_core::Fault;
use plimsoll_core::probe::{Case, Depth, EXPRESSIONS, Instrument as _};
use plimsoll_cuda::Options;
use plimsoll_cuda::elementwise::{Buffer, Engine, Error, Gpu, Kernel, Operand, Recorded};
use plimsoll_cuda::memory::Span;
use plimsoll_expr::{DType, In, InOut, Layout, Names, Scalar, Traced, Value, parse, trace};
use plimsoll_gen::elementwise::{Choose, Dependent};

fn open(fake: &Fake) -> Result<Gpu, Error> {
    Gpu::open(&fake.driver()?, 0, &Options { compiler: Some(Arc::new(common::AnyCompiler)), ..fake.options() })
}

fn gpu() -> (Fake, Gpu) {
    let fake = Fake::new();
    let gpu = open(&fake).unwrap();
    (fake, gpu)
}

/// The error message for binding an expression to these tensors.
fn refusal(gpu: &Gpu, text: &str, inputs: &[Operand], outputs: &[Operand]) -> String {
    let graph = parse(text, &Names::default()).unwrap();
    let expression = gpu.engine().expression(&graph).unwrap();
    let bound = expression.bind(inputs, outputs, &[], &Choose::default());
    bound.map(drop).unwrap_err().to_string()
}

fn flat(length: u64) -> Layout {
    Layout::contiguous(&[length]).unwrap()
}

#[test]
fn errors_about_tensors_name_sizes_types_and_addresses() {
    let (_fake, gpu) = gpu();
    let memory = gpu.zeros::<f32>(1024).unwrap();
    let x = memory.operand().unwrap();
    let other = gpu.zeros::<f32>(1024).unwrap().operand().unwrap();
    let text = "in x: f32; y = x + 1";
    let strided =
        |shape: &[u64], strides: &[i64], offset| x.with_layout(Layout::strided(shape, strides, offset).unwrap());
    let y = |layout| other.with_layout(layout);
    assert_eq!(refusal(&gpu, text, &[], from_ref(&x)), "the expression has 1 inputs and 0 were given");
    let bytes = gpu.zeros::<i16>(64).unwrap().operand().unwrap();
    assert_eq!(refusal(&gpu, text, &[bytes], &[y(flat(64))]), "'x' is declared as f32 and was given as i16");
    let error = refusal(&gpu, text, &[x.with_layout(flat(1025))], &[y(flat(1025))]);
    assert!(error.contains("'x' has 4096 bytes, but its shape and strides need 4100"), "{error}");
    let error = refusal(&gpu, text, &[x.with_layout(flat(7))], &[y(flat(5))]);
    assert!(error.contains("'x'") && error.contains('7') && error.contains('5'), "{error}");
    let error = refusal(&gpu, text, &[x.with_layout(flat(8))], &[strided(&[8], &[1], 4)]);
    assert!(error.contains("'y'") && error.contains("overlaps 'x'") && error.contains("0x"), "{error}");
    let error = refusal(&gpu, text, from_ref(&x), &[y(Layout::strided(&[4, 4], &[1, 1], 0).unwrap())]);
    assert!(error.contains("share memory"), "{error}");
    let error = refusal(&gpu, "in x: f32; y = x; z = -x", &[x.with_layout(flat(8))], &[y(flat(8)), y(flat(9))]);
    assert!(error.contains("'y' of 8") && error.contains("'z' of 9"), "{error}");
    let error = refusal(&gpu, "in x: f32; x = x + 1", from_ref(&x), from_ref(&other));
    assert_eq!(error, "'x' is read and written in place: give the same tensor as input and as output");
    let error = refusal(&gpu, "in x: f32; y = x + index(2)", from_ref(&x), from_ref(&other));
    assert_eq!(error, "the expression needs 3 dimensions and the outputs have 1");
}

#[test]
fn a_misaligned_address_is_refused() {
    let (_fake, gpu) = gpu();
    let memory = gpu.zeros::<u8>(4096).unwrap().operand().unwrap();
    let graph = parse("in x: f32; y = x", &Names::default()).unwrap();
    let expression = gpu.engine().expression(&graph).unwrap();
    let buffer = plimsoll_cuda::memory::DeviceBuffer::new(gpu.engine().context(), 4096).unwrap();
    let odd: Span = buffer.part(2, 400).unwrap();
    let x = Operand::new(odd, DType::F32, flat(10));
    let y = Operand::from_buffer(&buffer, DType::F32, flat(10));
    let error = expression.bind(&[x], &[y], &[], &Choose::default()).map(drop).unwrap_err();
    assert!(matches!(error, Error::Misaligned { bytes: 4, .. }), "{error}");
    drop(memory);
}

#[test]
fn disjoint_columns_of_one_matrix_and_in_place_are_allowed() {
    let (_fake, gpu) = gpu();
    let memory = gpu.zeros::<f32>(1024).unwrap();
    let graph = parse("in x: f32; y = x + 1", &Names::default()).unwrap();
    let expression = gpu.engine().expression(&graph).unwrap();
    let columns = |from| memory.operand().unwrap().with_layout(Layout::strided(&[12, 8], &[64, 1], from).unwrap());
    for (input, output) in [(0, 8), (40, 8), (0, 56), (8, 8)] {
        expression.bind(&[columns(input)], &[columns(output)], &[], &Choose::default()).unwrap();
    }
    for (input, output) in [(0, 4), (12, 8), (60, 0)] {
        let bound = expression.bind(&[columns(input)], &[columns(output)], &[], &Choose::default());
        assert!(matches!(bound.map(drop), Err(Error::Overlap { .. })), "{input} {output}");
    }
}

/// Fails if something that `run` makes on a device outlives it.
fn without_leaks(run: impl FnOnce(&Fake, &Gpu)) {
    let (fake, gpu) = gpu();
    run(&fake, &gpu);
    gpu.wait().unwrap();
    drop(gpu);
    assert_eq!(fake.alive(), 0);
}

#[test]
fn typed_calls_launch_once_each_and_no_object_leaks() {
    without_leaks(|fake, gpu| {
        let axpy = trace(|a: Scalar<f32>, x: In<bf16>, y: In<bf16>| (a * x + y).tanh()).unwrap();
        let axpy = gpu.compile(&axpy).unwrap();
        let x = gpu.upload(&[bf16::ONE; 1000]).unwrap();
        let y = gpu.zeros::<bf16>(1000).unwrap();
        let mut out = gpu.zeros::<bf16>(1000).unwrap();
        axpy.run(0.5, &x, &y, &mut out).unwrap();
        axpy.run(0.25, &x, &y, &mut out).unwrap();
        assert_eq!((fake.count("cuLaunchKernelEx"), fake.count("cuModuleLoadData")), (2, 1));
        axpy.dependent(true).run(0.25, &x, &y, &mut out).unwrap();
        assert_eq!((fake.count("cuLaunchKernelEx"), fake.count("cuModuleLoadData")), (3, 2));
        // An ordinary launch uses another kernel, which doesn't wait.
        let ordinary = axpy.with_choices(Choose { release: Some(Dependent::No), ..Choose::default() });
        ordinary.run(0.25, &x, &y, &mut out).unwrap();
        assert_eq!((fake.count("cuLaunchKernel"), fake.count("cuModuleLoadData")), (1, 3));
        assert_eq!(gpu.download(&x).unwrap(), [bf16::ONE; 1000]);
        let step = trace(|lr: Scalar<f32>, g: In<bf16>, p: InOut<f32>, m: InOut<f32>| {
            let next = m.get() * 0.9 + 0.1 * g;
            m.set(next);
            p.set(p.get() - lr * next);
        });
        let step = gpu.compile(&step.unwrap()).unwrap();
        let (mut p, mut m) = (gpu.zeros::<f32>(1000).unwrap(), gpu.zeros::<f32>(1000).unwrap());
        step.run(1e-3, &x, &mut p, &mut m, ()).unwrap();
        let both = gpu.compile(&trace(|x: In<f32>, y: In<f32>| (x + y, x.lt(y))).unwrap()).unwrap();
        let (mut sum, mut less) = (gpu.zeros::<f32>(1200).unwrap(), gpu.zeros::<bool>(1200).unwrap());
        let (rows, columns) = (p.shaped(&[40, 1]).unwrap(), m.shaped(&[30]).unwrap());
        let mut sums = sum.shaped_mut(&[40, 30]).unwrap();
        let mut lesses = less.shaped_mut(&[40, 30]).unwrap();
        both.run(&rows, &columns, (&mut sums, &mut lesses)).unwrap();
        assert_eq!(gpu.download(&less).unwrap(), [false; 1200]);
    });
}

#[test]
fn calls_return_buffers_of_the_common_shape_and_none_leaks() {
    without_leaks(|fake, gpu| {
        let x = gpu.zeros::<f32>(40).unwrap();
        let y = gpu.zeros::<f32>(30).unwrap();
        type Sum = Traced<(In<f32>, In<f32>), (In<f32>, In<bool>)>;
        let sum = gpu.compile(&Sum::from_text(&["x", "y"], "s = x + y\nless = x < y").unwrap()).unwrap();
        let (values, less) = sum.call(&x.shaped(&[40, 1]).unwrap(), &y).unwrap();
        assert_eq!((values.len(), less.len()), (1200, 1200));
        let launches = fake.count("cuLaunchKernelEx");
        let error = sum.call(&x, &y).map(drop).unwrap_err();
        assert!(matches!(error, Error::Layout(_)) && error.to_string().contains("shapes 40 and 30"), "{error}");
        assert_eq!(fake.count("cuLaunchKernelEx"), launches);
        // A result that isn't returned, because it is in place.
        let mut m = gpu.zeros::<f32>(30).unwrap();
        let step = gpu.compile(&trace(|g: In<f32>, m: InOut<f32>| m.set(m.get() + g)).unwrap()).unwrap();
        step.call(&y, &mut m).unwrap();
    });
}

#[test]
fn a_call_with_a_known_plan_allocates_nothing() {
    let (_fake, gpu) = gpu();
    let axpy = gpu.compile(&trace(|a: Scalar<f32>, x: In<f32>, y: In<f32>| a * x + y).unwrap()).unwrap();
    let (x, y) = (gpu.zeros::<f32>(4096).unwrap(), gpu.zeros::<f32>(4096).unwrap());
    let mut out = gpu.zeros::<f32>(4096).unwrap();
    axpy.run(0.5, &x, &y, &mut out).unwrap();
    let view = x.shaped(&[64, 64]).unwrap().transposed();
    let square = y.shaped(&[64, 64]).unwrap();
    let mut square_out = gpu.zeros::<f32>(4096).unwrap();
    let mut written = square_out.shaped_mut(&[64, 64]).unwrap();
    axpy.run(0.5, &view, &square, &mut written).unwrap();
    // The fake driver lives in another library, whose allocations aren't counted here.
    let counted = allocation_counter::measure(|| {
        for i in 0..10 {
            axpy.run(i as f32, &x, &y, &mut out).unwrap();
            axpy.run(i as f32, &view, &square, &mut written).unwrap();
        }
    });
    assert_eq!(counted.count_total, 0);
    let bound = axpy.expression().bind(
        &[x.operand().unwrap(), y.operand().unwrap()],
        &[out.operand().unwrap()],
        &[Value::Float(0.5)],
        &Choose::default(),
    );
    let bound = bound.unwrap();
    let counted = allocation_counter::measure(|| (0..10).for_each(|_| bound.enqueue(gpu.stream()).unwrap()));
    assert_eq!(counted.count_total, 0);
}

#[test]
fn streams_wait_for_each_other_before_and_after_a_call_with_memory_of_another() {
    let (fake, gpu) = gpu();
    let other = gpu.fork().unwrap();
    let negate = gpu.compile(&trace(|x: In<f32>| -x).unwrap()).unwrap();
    let (x, mut y) = (gpu.zeros::<f32>(100).unwrap(), gpu.zeros::<f32>(100).unwrap());
    negate.run(&x, &mut y).unwrap();
    assert_eq!(fake.count("cuStreamWaitEvent"), 0);
    negate.on_stream(&other).run(&x, &mut y).unwrap();
    // Two tensors of the first stream: two waits before and two after.
    assert_eq!(fake.count("cuStreamWaitEvent"), 4);
}

#[test]
fn recorded_calls_launch_as_one_graph_and_keep_their_memory() {
    let (fake, gpu) = gpu();
    let negate = gpu.compile(&trace(|x: In<f32>| -x).unwrap()).unwrap();
    let (x, mut y) = (gpu.zeros::<f32>(100).unwrap(), gpu.zeros::<f32>(100).unwrap());
    let recorded = gpu.record(|| (0..5).try_for_each(|_| negate.run(&x, &mut y))).unwrap();
    assert_eq!(fake.count("cuLaunchKernelEx"), 5);
    drop((x, y, negate));
    assert_eq!(fake.count("cuMemFreeAsync"), 0, "the graph keeps the memory");
    recorded.launch().unwrap();
    recorded.launch().unwrap();
    gpu.wait().unwrap();
    drop(recorded);
    assert_eq!(fake.count("cuMemFreeAsync"), 2);
    let refused = gpu.record(|| gpu.zeros::<f32>(10).map(drop)).unwrap_err();
    assert!(refused.to_string().contains("allocate it before"), "{refused}");
    gpu.zeros::<f32>(10).unwrap();
}

#[test]
fn nothing_is_launched_for_no_elements() {
    let (fake, gpu) = gpu();
    let negate = gpu.compile(&trace(|x: In<f32>| -x).unwrap()).unwrap();
    let (x, mut y) = (gpu.zeros::<f32>(0).unwrap(), gpu.upload::<f32>(&[]).unwrap());
    negate.run(&x, &mut y).unwrap();
    assert!(gpu.download(&y).unwrap().is_empty());
    assert_eq!(fake.count("cuLaunchKernel") + fake.count("cuLaunchKernelEx"), 0);
}

#[test]
fn launches_are_plain_if_driver_or_device_cant_overlap_them() {
    // A driver without programmatic edges, and a device without dependent launch.
    for (fake, order) in [(Fake::without(&["cuGraphAddDependencies_v2"]), ""), (Fake::new(), "capability=80")] {
        let gpu = open(fake.order(order)).unwrap();
        let negate = gpu.compile(&trace(|x: In<f32>| -x).unwrap()).unwrap();
        let (x, mut y) = (gpu.zeros::<f32>(64).unwrap(), gpu.zeros::<f32>(64).unwrap());
        negate.run(&x, &mut y).unwrap();
        negate.dependent(true).run(&x, &mut y).unwrap();
        assert_eq!((fake.count("cuLaunchKernel"), fake.count("cuLaunchKernelEx")), (2, 0));
    }
}

#[test]
fn a_lost_device_fails_every_later_call() {
    let fake = Fake::new();
    let gpu = open(fake.order("fail=cuLaunchKernelEx:719@2")).unwrap();
    let negate = gpu.compile(&trace(|x: In<f32>| -x).unwrap()).unwrap();
    let (x, mut y) = (gpu.zeros::<f32>(64).unwrap(), gpu.zeros::<f32>(64).unwrap());
    negate.run(&x, &mut y).unwrap();
    for _ in 0..3 {
        let error = negate.run(&x, &mut y).unwrap_err();
        assert!(matches!(error, Error::Fault(Fault::DeviceLost { .. })), "{error}");
    }
    assert_eq!(fake.count("cuLaunchKernelEx"), 2, "a lost device must not be called again");
}

#[test]
fn out_of_memory_errors_have_sizes() {
    let fake = Fake::new();
    let gpu = open(fake.order("memory=1000000")).unwrap();
    let error = gpu.zeros::<f64>(1_000_000).unwrap_err();
    assert!(matches!(error, Error::Fault(Fault::OutOfMemory { asked: 8_000_000, free: 1_000_000 })), "{error}");
    let error = gpu.zeros::<f64>(usize::MAX).unwrap_err();
    assert!(matches!(error, Error::Fault(Fault::OutOfMemory { .. })), "{error}");
}

#[test]
fn every_error_code_of_the_driver_is_a_typed_error() {
    let fake = Fake::new();
    let calls = ["cuMemAllocAsync", "cuMemsetD8Async", "cuModuleLoadData", "cuModuleGetFunction", "cuLaunchKernelEx"];
    for call in calls {
        for code in [1, 2, 209, 214, 700, 719, 999, 54321] {
            fake.order(&format!("fail={call}:{code}"));
            let run = || -> Result<(), Error> {
                let gpu = open(&fake)?;
                let negate = gpu.compile(&trace(|x: In<f32>| -x).unwrap())?;
                let (x, mut y) = (gpu.zeros::<f32>(64)?, gpu.zeros::<f32>(64)?);
                negate.run(&x, &mut y)?;
                gpu.download(&y).map(drop)
            };
            assert!(matches!(run(), Err(Error::Fault(_))), "{call} {code}");
        }
    }
}

#[test]
fn an_engine_can_be_made_from_a_measured_device() {
    let fake = Fake::new();
    let bench = plimsoll_cuda::open_with(
        &fake.driver().unwrap(),
        0,
        &Options { compiler: Some(Arc::new(common::CountingCompiler::default())), ..fake.options() },
        plimsoll_probes::cuda_probes(),
    );
    let engine = Engine::new(bench.unwrap().device()).unwrap();
    assert_eq!(engine.device().target.capability, 90);
}

#[test]
fn verify_reports_kernels_that_do_nothing() {
    let fake = Fake::new();
    let options = Options { compiler: Some(Arc::new(common::AnyCompiler)), ..fake.options() };
    let mut bench =
        plimsoll_cuda::open_with(&fake.driver().unwrap(), 0, &options, plimsoll_probes::cuda_probes()).unwrap();
    let (mut right, mut wrong) = (Vec::new(), Vec::new());
    let mut report = |case: Case| if case.wrong.is_empty() { right.push(case) } else { wrong.push(case) };
    bench.verify(EXPRESSIONS, Depth::Small, &mut report).unwrap();
    // 270 sets have elements, and 102 fit into the parameters of a launch.
    let in_three = |case: &Case| case.kernel == "batch" && case.on.contains("300 sets in 3 launches");
    // Cases that don't change their tensors, or have no elements, pass anyway.
    assert!(wrong.len() > 50 && right.len() * 3 < wrong.len(), "{} right of {}: {right:?}", right.len(), wrong.len());
    assert!(wrong.iter().any(|case| case.kernel == "chain") && wrong.iter().any(in_three));
}

#[test]
fn devices_kernels_and_buffers_are_shared_among_threads() {
    fn assert_send_sync<T: Send + Sync>() {}
    fn assert_send<T: Send>() {}
    assert_send_sync::<(Gpu, Engine, Buffer<f32>)>();
    // Only one thread at a time launches a graph.
    assert_send::<Recorded>();
    assert_send_sync::<Kernel<(In<f32>, In<f32>), In<f32>>>();
    let (fake, gpu) = gpu();
    let negate = gpu.compile(&trace(|x: In<f32>| -x).unwrap()).unwrap();
    let x = gpu.zeros::<f32>(1000).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let here = gpu.fork().unwrap();
                let mut y = here.zeros::<f32>(1000).unwrap();
                (0..50).for_each(|_| negate.on_stream(&here).run(&x, &mut y).unwrap());
            });
        }
    });
    assert_eq!(fake.count("cuLaunchKernelEx"), 200);
    // Threads may compile the same kernel at once; only one of the loaded modules is kept and launched.
    assert_eq!(fake.count("cuModuleLoadData"), fake.count("cuModuleUnload") + 1);
}
