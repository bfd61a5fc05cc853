//! Expressions with the fake driver: launches and their order, error messages, and the host's cost of a call. Kernels aren't
//! checked here: those of the fake driver do nothing.
#![allow(unsafe_code)]

mod common;
#[path = "elementwise/tuning.rs"]
mod tuning;

use std::slice::from_ref;
use std::sync::Arc;

use common::Fake;
use half::bf16;
use plimsoll_core::Fault;
use plimsoll_core::probe::{Case, Depth, EXPRESSIONS, Instrument as _};
use plimsoll_cuda::Options;
use plimsoll_cuda::elementwise::{Argument, Buffer, Engine, Error, Gpu, Kernel, Operand, Recorded, View};
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
    assert_eq!(
        refusal(&gpu, text, &[bytes], &[y(flat(64))]),
        "'x' is f32, but i16 was given: pass a tensor of f32, or declare 'x' as i16"
    );
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
    let buffer = plimsoll_cuda::memory::DeviceBuffer::new(gpu.stream().context(), 4096).unwrap();
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

/// A tensor of another type than it claims, as safe code of another crate can write it.
struct Wrong<'b>(&'b View<'b, f32>);

impl<'b> Argument<In<f64>> for Wrong<'b> {
    type Held = &'b View<'b, f32>;

    fn hold(self, _: &Gpu) -> Result<Self::Held, Error> {
        Ok(self.0)
    }
}

#[test]
fn a_typed_call_checks_types_even_if_the_plan_is_known() {
    let (fake, gpu) = gpu();
    let negate = gpu.compile(&trace(|x: In<f64>| -x).unwrap()).unwrap();
    let (doubles, floats) = (gpu.zeros::<f64>(8).unwrap(), gpu.zeros::<f32>(64).unwrap());
    let mut out = gpu.zeros::<f64>(8).unwrap();
    // Backwards from the last element: read as 8 bytes each, the others would be before the buffer.
    let backwards = Layout::strided(&[8], &[-1], 7).unwrap();
    negate.run(&doubles.view(backwards.clone()), &mut out).unwrap();
    let launched = fake.count("cuLaunchKernelEx");
    let error = negate.run(Wrong(&floats.view(backwards)), &mut out).unwrap_err();
    assert!(matches!(error, Error::Type { expected: DType::F64, given: DType::F32, .. }), "{error}");
    assert_eq!(fake.count("cuLaunchKernelEx"), launched);
}

/// Calls of an expression that was parsed at run time, as bindings to other languages make them.
#[test]
fn an_untyped_call_with_a_known_plan_allocates_nothing() {
    let (fake, gpu) = gpu();
    let graph = parse("in x: f32, y: f32; scalar a: f32, n: i64; z = a * x + y * n", &Names::default()).unwrap();
    let expression = gpu.engine().expression(&graph).unwrap();
    // Memory of a stream and of the device.
    let (x, z) = (gpu.zeros::<f32>(4096).unwrap(), gpu.zeros::<f32>(4096).unwrap());
    let y = plimsoll_cuda::memory::DeviceBuffer::new(gpu.stream().context(), 4 * 4096).unwrap();
    let (x, y) = (x.operand().unwrap(), Operand::from_buffer(&y, DType::F32, flat(4096)));
    let z = z.operand().unwrap();
    let square = Layout::contiguous(&[64, 64]).unwrap();
    let rows = [x.with_layout(square.transposed()), y.with_layout(square.clone())];
    let (flat, square, choose) = ([x, y], [z.with_layout(square)], Choose::default());
    let run = |a: f64, n: i128| -> Result<(), Error> {
        let scalars = [Value::Float(a), Value::Int(n)];
        expression.run(&flat, from_ref(&z), &scalars, &choose, gpu.stream())?;
        expression.run(&rows, &square, &scalars, &choose, gpu.stream())
    };
    run(0.5, 1).unwrap();
    let launched = || fake.count("cuLaunchKernel") + fake.count("cuLaunchKernelEx");
    let counted = allocation_counter::measure(|| (0..10).for_each(|i| run(f64::from(i), i.into()).unwrap()));
    assert_eq!((counted.count_total, launched(), fake.count("cuModuleLoadData")), (0, 22, 2));
    // Other tensors of the same layout.
    let memory = [0, 1].map(|_| plimsoll_cuda::memory::DeviceBuffer::new(gpu.stream().context(), 4 * 4096).unwrap());
    let mut moved = flat.clone();
    let counted = allocation_counter::measure(|| {
        for place in 0..10 {
            moved[place % 2].set_memory(memory[place / 2 % 2].whole());
            expression.run(&moved, from_ref(&z), &[Value::Float(0.5), Value::Int(1)], &choose, gpu.stream()).unwrap();
        }
    });
    assert_eq!((counted.count_total, launched(), fake.count("cuModuleLoadData")), (0, 32, 2));
    // As many tensors as rarely occur.
    let names: Vec<String> = (0..40).map(|place| format!("x{place}")).collect();
    let graph = parse(&format!("z = {}", names.join(" + ")), &Names::with_default(DType::F32)).unwrap();
    let wide = gpu.engine().expression(&graph).unwrap();
    let inputs = vec![flat[0].clone(); 40];
    let run = || wide.run(&inputs, from_ref(&z), &[], &choose, gpu.stream()).unwrap();
    run();
    assert_eq!(allocation_counter::measure(run).count_total, 0);
}

#[test]
fn an_untyped_call_refuses_what_binding_refuses() {
    let (fake, gpu) = gpu();
    let graph = parse("in x: f32; scalar a: f32; y = a * x", &Names::default()).unwrap();
    let expression = gpu.engine().expression(&graph).unwrap();
    let operand = |length| gpu.zeros::<f32>(length).unwrap().operand().unwrap();
    let (x, y, bytes) = (operand(64), operand(64), gpu.zeros::<u8>(64).unwrap().operand().unwrap());
    let held = gpu.zeros::<f32>(64).unwrap().operand().unwrap();
    let freed_span = plimsoll_cuda::memory::DeviceBuffer::new(gpu.stream().context(), 256).unwrap().whole();
    let freed = Operand::new(freed_span, DType::F32, flat(64));
    let run = |inputs: &[Operand], outputs: &[Operand], scalars: &[Value]| {
        let (choose, stream) = (Choose::default(), gpu.stream());
        let run = expression.run(inputs, outputs, scalars, &choose, stream).map_err(|error| error.to_string());
        let bound = expression.bind(inputs, outputs, scalars, &choose).map(drop).map_err(|error| error.to_string());
        assert_eq!(run, bound);
        run.err().unwrap_or_default()
    };
    let one = [Value::Float(1.0)];
    // The plan is known from the first call, so each refusal is made by the call itself.
    assert_eq!(run(from_ref(&x), from_ref(&y), &one), "");
    assert_eq!(run(from_ref(&held), from_ref(&y), &one), "");
    let launched = fake.count("cuLaunchKernelEx");
    assert!(run(from_ref(&x), from_ref(&y), &[]).contains("1 scalars and 0"));
    assert!(run(&[], from_ref(&y), &one).contains("1 inputs and 0"));
    assert!(run(from_ref(&x), &[], &one).contains("1 outputs and 0"));
    assert!(run(from_ref(&bytes), from_ref(&y), &one).contains("u8 was given"));
    assert!(run(from_ref(&operand(32).with_layout(flat(64))), from_ref(&y), &one).contains("128 bytes"));
    let halves = [0, 16].map(|from| x.with_layout(flat(32).offset_by(from).unwrap()));
    assert!(run(&halves[..1], &halves[1..], &one).contains("overlaps"));
    assert!(run(&[freed], from_ref(&y), &one).contains("freed"));
    assert_eq!(fake.count("cuLaunchKernelEx"), launched);
}

#[test]
fn an_untyped_call_keeps_its_memory_until_its_work_has_ended() {
    let (fake, gpu) = gpu();
    let graph = parse("in x: f32; y = -x", &Names::default()).unwrap();
    let expression = gpu.engine().expression(&graph).unwrap();
    let other = gpu.fork().unwrap();
    let operands = || {
        let buffer = |_| gpu.zeros::<f32>(64).unwrap().operand().unwrap();
        [0, 1].map(buffer)
    };
    let run = |[x, y]: [Operand; 2], gpu: &Gpu| expression.run(&[x], &[y], &[], &Choose::default(), gpu.stream());
    run(operands(), &gpu).unwrap();
    gpu.wait().unwrap();
    // The operands are dropped while the work runs on a stream that isn't theirs.
    let tensors = operands();
    fake.hold();
    assert!(fake.waits(|| run(tensors, &other).unwrap()));
    assert_eq!(fake.freed_early(), 0);
    // A recording keeps them.
    let (tensors, freed) = (operands(), fake.count("cuMemFreeAsync"));
    let recorded = gpu.record(|| run(tensors, &gpu)).unwrap();
    drop(expression);
    recorded.launch().unwrap();
    gpu.wait().unwrap();
    assert_eq!(fake.count("cuMemFreeAsync"), freed);
    drop(recorded);
    assert_eq!(fake.count("cuMemFreeAsync"), freed + 2);
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
    assert!(matches!(error, Error::Fault(Fault::OutOfMemory { asked: 8_000_000, free: Some(1_000_000) })), "{error}");
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
    let long = |case: &Case| case.kernel == "batch" && case.on.contains("300 sets");
    // Cases that don't change their tensors, or have no elements, pass anyway.
    assert!(wrong.len() > 50 && right.len() * 3 < wrong.len(), "{} right of {}: {right:?}", right.len(), wrong.len());
    assert!(wrong.iter().any(|case| case.kernel == "chain") && wrong.iter().any(long));
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
