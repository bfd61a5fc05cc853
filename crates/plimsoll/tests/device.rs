//! One device for the CPU and a GPU. The GPU is the stand-in driver, whose kernels do nothing: only the CPU's results are checked.

mod support;

use half::bf16;
use plimsoll::elementwise::{AnyBuffer, Call, Device, Error, Expression, Parameter, ParameterRole, Queue};
use plimsoll::expr::{DType, Foreign, ForeignSet, Value};
use plimsoll::prelude::*;

fn cpu() -> Device {
    Cpu::with_threads(2).unwrap().into()
}

fn gpu() -> (tempfile::TempDir, Device) {
    let folder = tempfile::tempdir().unwrap();
    let device = support::gpu(folder.path()).into();
    (folder, device)
}

fn on_both(check: impl Fn(&Device)) {
    check(&cpu());
    check(&gpu().1);
}

/// What [`program`] computes: the updated tensor, a table, and which elements are negative.
type Computed = (Vec<f32>, Vec<f32>, Vec<bool>);

/// A program that doesn't know its device.
fn program(device: &Device) -> Result<Computed, Error> {
    let step = trace(|rate: Scalar<f32>, g: In<bf16>, m: InOut<f32>| {
        let next = m.get() - rate * g;
        m.set(next);
        next.lt(0.0)
    });
    let step = device.compile(&step.unwrap())?;
    let g = device.upload(&[bf16::ONE, bf16::from_f32(2.0), bf16::ZERO])?;
    let mut m = device.upload(&[1.0_f32, 0.5, 0.25])?;
    let mut negative = device.zeros::<bool>(g.len())?;
    step.run(0.5, &g, &mut m, &mut negative)?;
    let outer = device.compile(&trace(|x: In<f32>, y: In<f32>| x * y).unwrap())?;
    let table = outer.call(&m.shaped(&[3, 1])?, &m)?;
    assert_eq!((table.shape(), table.len(), table.device().name()), (&[3, 3][..], 9, device.name()));
    let mut transposed = device.zeros::<f32>(10)?;
    let behind = Layout::contiguous(&[3, 3])?.offset_by(1)?;
    let add = device.compile(&trace(|x: In<f32>, y: In<f32>| x + y).unwrap())?;
    add.run(&table.transposed(), &m, &mut transposed.view_mut(behind))?;
    device.wait()?;
    Ok((device.download(&m)?, transposed.to_vec()?, device.download(&negative)?))
}

#[test]
fn one_program_runs_on_the_cpu_and_on_a_gpu() {
    let (m, table, negative) = program(&cpu()).unwrap();
    assert_eq!((m, negative), (vec![0.5, -0.5, 0.25], vec![false, true, false]));
    assert_eq!(table, [0.0, 0.75, -0.75, 0.375, 0.25, -0.25, 0.125, 0.625, -0.625, 0.3125]);
    let (m, table, negative) = program(&gpu().1).unwrap();
    assert_eq!((m.len(), table.len(), negative.len()), (3, 10, 3));
}

#[test]
fn results_return_in_tuples_with_the_shape_of_the_call() {
    on_both(|device| {
        type Two = Traced<(Scalar<i32>, In<i32>, In<i32>), (In<i32>, In<bool>)>;
        let two = Two::from_text(&["a", "x", "y"], "s = a*x + y\nless = x < y").unwrap();
        let two = device.compile(&two).unwrap();
        let x = device.upload(&[1, 2]).unwrap().reshaped(&[2, 1]).unwrap();
        let (sum, less) = two.call(2, &x, &device.upload(&[10, 20, 30]).unwrap()).unwrap();
        assert_eq!((sum.shape(), less.shape()), (&[2, 3][..], &[2, 3][..]));
        if !device.is_gpu() {
            assert_eq!(sum.as_slice(), Some(&[12, 22, 32, 14, 24, 34][..]));
            assert_eq!(less.to_vec().unwrap(), [true; 6]);
        }
    });
}

#[test]
fn memory_of_another_device_is_refused_by_name() {
    let (cpu, (_folder, gpu)) = (cpu(), gpu());
    let add = trace(|x: In<f32>, y: In<f32>| x + y).unwrap();
    let (on_cpu, on_gpu) = (cpu.upload(&[1.0_f32]).unwrap(), gpu.upload(&[1.0_f32]).unwrap());
    let (mut cpu_out, mut gpu_out) = (cpu.zeros::<f32>(1).unwrap(), gpu.zeros::<f32>(1).unwrap());
    let names = |error: Error| match error {
        Error::Device { name, expected, given } => [name, expected, given],
        other => panic!("{other}"),
    };
    let add_on_cpu = cpu.compile(&add).unwrap();
    assert_eq!(names(add_on_cpu.run(&on_cpu, &on_gpu, &mut cpu_out).unwrap_err()), ["x1", "cpu", "cuda:0"]);
    assert_eq!(names(add_on_cpu.run(&on_cpu, &on_cpu, &mut gpu_out).unwrap_err()), ["y0", "cpu", "cuda:0"]);
    assert_eq!(names(add_on_cpu.call(&on_gpu, &on_cpu).unwrap_err()), ["x0", "cpu", "cuda:0"]);
    let error = gpu.compile(&add).unwrap().run(&on_gpu, &on_cpu, &mut gpu_out).unwrap_err();
    assert!(error.to_string().contains("'x1' is memory of cpu, but the expression was compiled for cuda:0"), "{error}");
    // A buffer knows its device.
    assert_eq!(cpu.download(&on_gpu).unwrap(), [1.0]);
    let mut call = cpu.compile_graph(add.graph()).unwrap().new_call();
    assert_eq!(names(call.set("x1", on_gpu.into_any()).map(drop).unwrap_err()), ["x1", "cpu", "cuda:0"]);
}

#[test]
fn devices_open_by_name() {
    assert_eq!(Device::open(" CPU").unwrap().name(), "cpu");
    assert_eq!("cpu".parse::<Device>().unwrap().to_string(), "cpu");
    for wrong in ["", "gpu:", "cuda:", "cuda:x", "cuda:+1", "cpu:0", "sim"] {
        let error = Device::open(wrong).unwrap_err();
        assert!(matches!(&error, Error::Selector(given) if given == wrong), "{wrong}: {error}");
    }
    let (_folder, gpu) = gpu();
    assert!(gpu.is_gpu() && gpu.as_gpu().is_some() && gpu.as_cpu().is_none());
    assert_eq!(format!("{gpu} {gpu:?}"), "cuda:0 Device(cuda:0)");
    assert!(!gpu.model().is_empty());
}

#[test]
fn buffers_check_lengths_and_shapes() {
    on_both(|device| {
        let mut x = device.upload(&[1_u8, 2, 3, 4]).unwrap().reshaped(&[2, 2]).unwrap();
        assert_eq!((x.shape(), x.layout().strides(), x.len(), x.is_empty()), (&[2, 2][..], &[2, 1][..], 4, false));
        x.write(&[9, 8]).unwrap();
        assert_eq!(x.to_vec().unwrap(), [9, 8, 3, 4]);
        assert!(x.write(&[0; 5]).is_err());
        let error = x.reshaped(&[3]).unwrap_err().to_string();
        assert!(error.contains("4 needed, 3 given"), "{error}");
        let add = device.compile(&trace(|x: In<f32>, y: In<f32>| x + y).unwrap()).unwrap();
        let (two, three) = (device.zeros::<f32>(2).unwrap(), device.zeros::<f32>(3).unwrap());
        let error = add.call(&two, &three).unwrap_err().to_string();
        assert!(error.contains("shapes 2 and 3"), "{error}");
        let beyond = two.view(Layout::contiguous(&[2]).unwrap().offset_by(1).unwrap());
        assert!(add.run(&beyond, &two, &mut device.zeros(2).unwrap()).is_err());
    });
}

/// `a*x + y` with its operands but no output.
fn axpy(device: &Device) -> (Expression, Call, AnyBuffer, AnyBuffer) {
    let axpy = device.expression("a*x + y").scalar("a", DType::F32).tensors(DType::F32).compile().unwrap();
    let x = device.upload(&[1.0_f32, 2.0, 3.0]).unwrap().into_any();
    let y = device.any_from_bytes(DType::F32, &[3], &[0, 0, 128, 63, 0, 0, 0, 64, 0, 0, 64, 64]).unwrap();
    let mut call = axpy.new_call();
    call.set("x", &x).unwrap().set("y", &y).unwrap().set("a", 2).unwrap();
    (axpy, call, x, y)
}

#[test]
fn untyped_calls_take_operands_by_name_and_by_position() {
    on_both(|device| {
        let (axpy, mut call, x, _) = axpy(device);
        let parameter = |name: &str, role| Parameter { name: name.to_owned(), role, dtype: DType::F32 };
        let (input, scalar) = (ParameterRole::Input, ParameterRole::Scalar);
        let expected = [parameter("x", input), parameter("y", input), parameter("a", scalar)];
        assert_eq!(axpy.parameters()[..3], expected);
        assert_eq!(axpy.parameters()[3], parameter("out", ParameterRole::Output));
        assert_eq!(
            call.run().unwrap_err().to_string(),
            "'out' is not set: use set(\"out\", …), or allocate_outputs() for outputs"
        );
        call.allocate_outputs().unwrap().run().unwrap();
        let out = call.get(3).unwrap().clone();
        assert_eq!(out.shape(), [3]);
        let first = out.to_vec::<f32>().unwrap();
        // By position: y is x, and a is −1.
        call.set(1, &x).unwrap().set(2, Value::Float(-1.0)).unwrap().run().unwrap();
        let second = call.get("out").unwrap().to_bytes().unwrap();
        if !device.is_gpu() {
            assert_eq!((first, second), (vec![3.0, 6.0, 9.0], vec![0; 12]));
        }
    });
}

#[test]
fn untyped_errors_name_what_is_wrong_and_what_there_is() {
    on_both(|device| {
        let (_, mut call, x, _) = axpy(device);
        let mut refusal = |key: &str, setting: plimsoll::elementwise::Setting| {
            call.set(key, setting).map(drop).unwrap_err().to_string()
        };
        let error = refusal("xx", (&x).into());
        assert_eq!(error, "the expression has no 'xx' (did you mean 'x'?): it has x, y, scalar a, output out");
        assert_eq!(refusal("rate", 1.0.into()), "the expression has no 'rate': it has x, y, scalar a, output out");
        assert_eq!(refusal("x", 1.0.into()), "'x' is a tensor, but a number was given");
        assert_eq!(refusal("a", (&x).into()), "'a' is a scalar, but a buffer was given");
        let doubles = device.any_zeros(DType::F64, &[3]).unwrap();
        assert_eq!(
            refusal("x", doubles.into()),
            "'x' is f32, but f64 was given: pass a buffer of f32, or declare 'x' as f64"
        );
        let error = call.set(4, 1.0).map(drop).unwrap_err().to_string();
        assert_eq!(error, "there is no parameter 4: the expression has 4 (x, y, scalar a, output out), counted from 0");
        let error = call.set("out", &x).unwrap().run().unwrap_err().to_string();
        assert!(error.starts_with("the output 'out' and 'x' use the same buffer"), "{error}");
        let fresh = call.expression().new_call().allocate_outputs().map(drop).unwrap_err().to_string();
        assert!(fresh.starts_with("'x' is not set: use set(\"x\", …)"), "{fresh}");
        let error = device.expression("tan(x").tensors(DType::F32).compile().unwrap_err();
        assert!(matches!(error, Error::Text(_)), "{error}");
        assert!(x.to_vec::<i32>().is_err() && x.write(&[1_i32]).is_err() && x.write(&[0.0_f32; 4]).is_err());
        let error = device.any_from_bytes(DType::I16, &[3], &[0; 5]).unwrap_err().to_string();
        assert_eq!(error, "bytes of the shape: 6 needed, 5 given");
    });
}

#[test]
fn untyped_tensors_have_strides_and_are_updated_in_place() {
    let device = cpu();
    let step = device.expression("in g: bf16; m = m + g").tensor("m", DType::F32).compile().unwrap();
    assert_eq!(step.parameters()[1].role, ParameterRole::InOut);
    let g = device.upload(&[1.0, 2.0, 3.0, 4.0].map(bf16::from_f32)).unwrap().reshaped(&[2, 2]).unwrap().into_any();
    let m = device.any_zeros(DType::F32, &[2, 2]).unwrap();
    let mut call = step.new_call();
    call.set("g", g.transposed()).unwrap().set("m", &m).unwrap();
    call.run().unwrap();
    call.run().unwrap();
    assert_eq!(m.to_vec::<f32>().unwrap(), [2.0, 6.0, 4.0, 8.0]);
    assert_eq!(m.transposed().to_vec::<f32>().unwrap(), [2.0, 4.0, 6.0, 8.0]);
    m.write(&[0.0_f32]).unwrap();
    let column = m.view(Layout::strided(&[2], &[-2], 2).unwrap()).unwrap();
    assert_eq!(column.to_vec::<f32>().unwrap(), [4.0, 0.0]);
    assert!(column.shares_memory_with(&m) && !g.shares_memory_with(&m));
    assert!(m.shaped(&[5]).is_err());
    // Other handles keep the memory. The error returns the buffer.
    let failed = m.into_typed::<f32>().unwrap_err();
    assert!(failed.to_string().contains("has other handles"), "{failed}");
    drop((call, column));
    let failed = failed.buffer.into_typed::<i32>().unwrap_err();
    assert!(failed.to_string().contains("elements are f32, not i32"), "{failed}");
    let part = failed.buffer.shaped(&[2]).unwrap();
    drop(failed);
    let failed = part.into_typed::<f32>().unwrap_err();
    assert!(failed.to_string().contains("is a view of a part"), "{failed}");
    let whole = failed.buffer.shaped(&[2, 2]).unwrap();
    drop(failed);
    let shared = whole.clone();
    let failed = whole.into_typed::<f32>().unwrap_err();
    drop(shared);
    let typed = failed.buffer.into_typed::<f32>().unwrap();
    assert_eq!((typed.shape(), typed.as_slice()), (&[2, 2][..], Some(&[0.0, 6.0, 4.0, 8.0][..])));
}

#[test]
fn kernels_take_choices_for_gpus_on_every_device() {
    on_both(|device| {
        let kernel = device.compile(&trace(|x: In<f32>| x * 2.0).unwrap()).unwrap();
        let overlapping = kernel.with_gpu(|kernel| kernel.dependent(true).cached(true));
        let doubled = overlapping.call(&device.upload(&[1.0_f32, 2.0]).unwrap()).unwrap();
        assert_eq!(overlapping.as_gpu().is_some(), device.is_gpu());
        if !device.is_gpu() {
            assert_eq!(doubled.into_vec().unwrap(), [2.0, 4.0]);
        }
    });
}

#[test]
fn other_threads_may_use_everything() {
    fn is_shared<T: Send + Sync>() {}
    is_shared::<(Device, Buffer<f32>, AnyBuffer, Expression, Call, Error)>();
    is_shared::<Kernel<(In<f32>,), In<f32>>>();
}

#[test]
fn memory_of_another_stream_is_waited_for() {
    let (_folder, device) = gpu();
    let other: Device = device.as_gpu().unwrap().fork().unwrap().into();
    let double = device.expression("y = 2.0*x").tensors(DType::F32).compile().unwrap();
    let x = other.upload(&[1.0_f32; 8]).unwrap().into_any();
    let mut call = double.new_call();
    call.set("x", &x).unwrap().allocate_outputs().unwrap();
    call.run().unwrap();
    assert_eq!(call.get("y").unwrap().to_vec::<f32>().unwrap().len(), 8);
}

#[test]
fn a_view_that_repeats_an_element_more_often_than_memory_holds_is_an_error() {
    let buffer = cpu().any_zeros(DType::F64, &[1]).unwrap();
    let repeated = buffer.view(Layout::strided(&[1 << 50], &[0], 0).unwrap()).unwrap();
    assert!(repeated.to_vec::<f64>().is_err() && repeated.to_bytes().is_err());
}

#[test]
fn every_type_passes_through_bytes_and_back() {
    on_both(|device| {
        for dtype in DType::ALL {
            let bytes: Vec<u8> = (0..4 * dtype.bytes()).map(|i| u8::from(i % dtype.bytes() == 0)).collect();
            let any = device.any_from_bytes(dtype, &[2, 2], &bytes).unwrap();
            assert_eq!((any.dtype(), any.to_bytes().unwrap()), (dtype, bytes), "{dtype}");
        }
        let typed = device.any_from_bytes(DType::Bool, &[2], &[7, 0]).unwrap().into_typed::<bool>().unwrap();
        assert_eq!(typed.to_vec().unwrap(), [true, false]);
    });
}

#[test]
fn calls_with_known_layouts_allocate_nothing() {
    on_both(|device| {
        let kernel = device.compile(&trace(|a: Scalar<f32>, x: In<f32>, y: In<f32>| a * x + y).unwrap()).unwrap();
        let table = device.upload(&[1.0_f32; 12]).unwrap().reshaped(&[3, 4]).unwrap();
        let mut out = device.zeros::<f32>(12).unwrap().reshaped(&[3, 4]).unwrap();
        let row = device.upload(&[1.0_f32; 4]).unwrap();
        let reversed = row.view(Layout::strided(&[4], &[-1], 3).unwrap());
        let mut run = |a| {
            kernel.run(a, &table, &row, &mut out).unwrap();
            kernel.run(a, &table, &reversed, &mut out).unwrap();
        };
        run(1.0);
        let counted = allocation_counter::measure(|| (0..10).for_each(|i| run(i as f32)));
        assert_eq!(counted.count_total, 0, "typed calls on {device}");

        let (_, mut call, x, y) = axpy(device);
        call.allocate_outputs().unwrap().run().unwrap();
        let counted = allocation_counter::measure(|| (0..10).for_each(|_| call.run().unwrap()));
        assert_eq!(counted.count_total, 0, "untyped calls on {device}");
        let counted = allocation_counter::measure(|| {
            for i in 0..10 {
                let (first, second) = if i % 2 == 0 { (&x, &y) } else { (&y, &x) };
                call.set("a", i as f32).unwrap().set("x", first).unwrap().set(1, second).unwrap().run().unwrap();
            }
        });
        assert_eq!(counted.count_total, 0, "changed operands on {device}");
    });
}

#[test]
fn calls_from_two_threads_on_the_same_buffers_wait_for_each_other() {
    let device = cpu();
    let add = device.expression("y = x + 1.0").tensors(DType::F64).compile().unwrap();
    let (a, b) = (device.any_zeros(DType::F64, &[1000]).unwrap(), device.any_zeros(DType::F64, &[1000]).unwrap());
    let repeat = |from: &AnyBuffer, to: &AnyBuffer| {
        let mut call = add.clone().new_call();
        call.set("x", from).unwrap().set("y", to).unwrap();
        (0..500).for_each(|_| call.run().unwrap());
    };
    std::thread::scope(|scope| {
        scope.spawn(|| repeat(&a, &b));
        scope.spawn(|| repeat(&b, &a));
    });
    let (a, b) = (a.to_vec::<f64>().unwrap(), b.to_vec::<f64>().unwrap());
    assert!(a.iter().all(|x| *x == a[0]) && b.iter().all(|x| *x == b[0]));
    // Each run reads one as it was before or after a run of the other thread.
    assert!(a[0] >= 1.0 && b[0] >= 1.0 && (a[0] - b[0]).abs() == 1.0, "{} {}", a[0], b[0]);
}

#[test]
fn tuning_on_the_cpu_changes_nothing() {
    let device = Device::open("cpu").unwrap();
    let kernel = device.compile(&trace(|a: Scalar<f32>, x: In<f32>| a * x).unwrap()).unwrap();
    let (x, mut y) = (device.upload(&[1.0_f32, 2.0]).unwrap(), device.zeros::<f32>(2).unwrap());
    let tuned = kernel.tuned(3.0, &x, &mut y).unwrap();
    assert_eq!(y.to_vec().unwrap(), [0.0, 0.0]);
    tuned.run(3.0, &x, &mut y).unwrap();
    assert_eq!(y.to_vec().unwrap(), [3.0, 6.0]);
}

#[test]
fn tensors_of_other_libraries_run_on_the_cpu_and_on_a_gpu() {
    let (x, mut y) = ([1.0_f32, 2.0, 3.0, 4.0], [0.0_f32; 4]);
    let tensor = |start: u64, shape: &'static [u64], strides: &'static [i64]| Foreign {
        start,
        dtype: DType::F32,
        shape,
        strides,
    };
    let run = |device: &Device, x: u64, y: u64, queue| {
        let scale = device.expression("y = a*x").scalar("a", DType::F32).tensors(DType::F32).compile().unwrap();
        // From the last element backwards.
        let tensors = [tensor(x + 12, &[4], &[-1]), tensor(y, &[4], &[1])];
        scale.warm(&tensors)?;
        // SAFETY: both tensors live until the end of the test, which waits for the device.
        unsafe { scale.run_foreign(&tensors, &[Value::Float(10.0)], queue) }
    };
    let (from, to) = (x.as_ptr().expose_provenance() as u64, y.as_mut_ptr().expose_provenance() as u64);
    run(&cpu(), from, to, Queue::Own).unwrap();
    assert_eq!(y, [40.0, 30.0, 20.0, 10.0]);
    let error = run(&cpu(), from, to, Queue::Cuda(0)).unwrap_err().to_string();
    assert!(error.contains("use Queue::Own"), "{error}");
    let (_folder, gpu) = gpu();
    let (from, to) = (gpu.zeros::<f32>(4).unwrap(), gpu.zeros::<f32>(4).unwrap());
    let address = |buffer: &Buffer<f32>| buffer.as_gpu().unwrap().span().pointer();
    for queue in [Queue::Own, Queue::Cuda(0), Queue::Cuda(2)] {
        run(&gpu, address(&from), address(&to), queue).unwrap();
    }
    gpu.wait().unwrap();
    let error = run(&gpu, address(&from), address(&from) + 4, Queue::Own).unwrap_err().to_string();
    assert!(error.contains("'y'") && error.contains("overlaps 'x'"), "{error}");
}

#[test]
fn many_sets_of_tensors_of_other_libraries_run_on_the_cpu_and_on_a_gpu() {
    fn tensor(start: u64) -> Foreign<'static> {
        Foreign { start, dtype: DType::F32, shape: &[4], strides: &[1] }
    }
    let run = |device: &Device, addresses: &[[u64; 2]], groups: &[f64], queue| {
        let step = device.expression("y = a*x + y").scalar("a", DType::F32).tensors(DType::F32).compile().unwrap();
        let pairs: Vec<[Foreign<'_>; 2]> = addresses.iter().map(|pair| pair.map(tensor)).collect();
        let sets: Vec<ForeignSet<'_>> =
            pairs.iter().enumerate().map(|(place, tensors)| ForeignSet { tensors, group: place % 2 }).collect();
        let scalars: Vec<Vec<Value>> = groups.iter().map(|a| vec![Value::Float(*a)]).collect();
        let mut many = step.many();
        (0..2).try_for_each(|_| {
            // SAFETY: the tensors live until the end of the test, which waits for the device.
            unsafe { many.run(&sets, &scalars, queue) }
        })
    };
    let (x, mut y) = ([1.0_f32, 2.0, 3.0, 4.0], [[0.0_f32; 4]; 2]);
    let from = x.as_ptr().expose_provenance() as u64;
    let to = y.as_mut_ptr().expose_provenance() as u64;
    run(&cpu(), &[[from, to], [from, to + 16]], &[0.5, 2.0], Queue::Own).unwrap();
    assert_eq!(y, [[1.0, 2.0, 3.0, 4.0], [4.0, 8.0, 12.0, 16.0]]);
    assert!(run(&cpu(), &[[from, to], [from, to + 16]], &[0.5], Queue::Own).is_err());
    let (_folder, gpu) = gpu();
    let buffers = [(); 3].map(|()| gpu.zeros::<f32>(4).unwrap());
    let [x, y, z] = [0, 1, 2].map(|place| buffers[place].as_gpu().unwrap().span().pointer());
    run(&gpu, &[[x, y], [x, z]], &[0.5, 2.0], Queue::Cuda(0)).unwrap();
    gpu.wait().unwrap();
    let error = run(&gpu, &[[x, y], [z, y]], &[0.5, 2.0], Queue::Own).unwrap_err().to_string();
    assert!(error.contains("of set 0") && error.contains("of set 1"), "{error}");
    assert!(run(&gpu, &[[x, y], [x, z]], &[0.5], Queue::Own).is_err());
}
