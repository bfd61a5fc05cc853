//! Calls on memory and streams of other libraries with the fake driver: calls that reach it, what other libraries notice, errors.
#![allow(unsafe_code)]

mod common;

use std::sync::Arc;

use common::{CONTEXT, Fake, OTHER_CONTEXT};
use plimsoll_cuda::Options;
use plimsoll_cuda::elementwise::{Batch, BatchOptions, Buffer, Error, Expression, Gpu};
use plimsoll_expr::{DType, Foreign, ForeignSet, LayoutError, Names, Value, parse};
use plimsoll_gen::elementwise::Choose;

fn open(fake: &Fake) -> Gpu {
    let options = Options { compiler: Some(Arc::new(common::AnyCompiler)), ..fake.options() };
    Gpu::open(&fake.driver().unwrap(), 0, &options).unwrap()
}

fn gpu() -> (Fake, Gpu) {
    let fake = Fake::new();
    let gpu = open(&fake);
    (fake, gpu)
}

fn expression(gpu: &Gpu, text: &str) -> Expression {
    gpu.engine().expression(&parse(text, &Names::with_default(DType::F32)).unwrap()).unwrap()
}

/// A row-major tensor of f32 that begins some elements after a buffer's start.
fn tensor<'a>(buffer: &Buffer<f32>, from: u64, shape: &'a [u64], strides: &'a [i64]) -> Foreign<'a> {
    Foreign { start: buffer.span().pointer() + 4 * from, dtype: DType::F32, shape, strides }
}

/// A call, with memory of the fake driver that lives as long as the test.
fn run(expression: &Expression, tensors: &[Foreign<'_>], scalars: &[Value], stream: u64) -> Result<(), Error> {
    // SAFETY: tests pass tensors inside buffers that outlive the call, or expect an error; kernels of the fake driver do nothing.
    unsafe { expression.run_foreign(tensors, scalars, &Choose::default(), stream) }
}

fn launched(fake: &Fake) -> u64 {
    fake.count("cuLaunchKernel") + fake.count("cuLaunchKernelEx")
}

#[test]
fn a_call_with_a_known_plan_allocates_nothing_and_makes_two_calls_of_the_driver() {
    let (fake, gpu) = gpu();
    let [x, y, z] = [(); 3].map(|()| gpu.zeros::<f32>(4096).unwrap());
    let axpy = expression(&gpu, "scalar a: f32; z = a*x + y");
    let stream = fake.foreign_stream(false);
    let flat = [&x, &y, &z].map(|buffer| tensor(buffer, 0, &[4096], &[1]));
    // Transposed, reversed, a row.
    let square = [tensor(&x, 0, &[64, 64], &[1, 64]), tensor(&y, 63, &[64], &[-1]), tensor(&z, 0, &[64, 64], &[64, 1])];
    for tensors in [&flat, &square] {
        run(&axpy, tensors, &[Value::Float(0.5)], stream).unwrap();
        let (total, before) = (fake.total(), launched(&fake));
        let counted = allocation_counter::measure(|| {
            (0..10_i16).for_each(|a| run(&axpy, tensors, &[Value::Float(a.into())], stream).unwrap());
        });
        assert_eq!((counted.count_total, launched(&fake) - before, fake.total() - total), (0, 10, 20));
    }
    // As many tensors as rarely occur, some at other addresses of the same alignment.
    let names: Vec<String> = (0..40).map(|place| format!("x{place}")).collect();
    let sum = expression(&gpu, &format!("z = {}", names.join(" + ")));
    let mut tensors = vec![tensor(&x, 0, &[64], &[1]); 40];
    tensors.push(tensor(&z, 0, &[64], &[1]));
    run(&sum, &tensors, &[], stream).unwrap();
    let loaded = fake.count("cuModuleLoadData");
    tensors[7] = tensor(&y, 8, &[64], &[1]);
    let counted = allocation_counter::measure(|| run(&sum, &tensors, &[], stream).unwrap());
    assert_eq!((counted.count_total, fake.count("cuModuleLoadData")), (0, loaded));
}

#[test]
fn outputs_in_place_are_given_once_and_results_follow_the_inputs() {
    let (fake, gpu) = gpu();
    let [m, g, d] = [(); 3].map(|()| gpu.zeros::<f32>(256).unwrap());
    let step = expression(&gpu, "d = g - m; m = 0.9*m + g");
    let names: Vec<&str> = step.graph().inputs().iter().map(|input| input.name.as_str()).collect();
    let by_name = |name: &str| tensor(if name == "m" { &m } else { &g }, 0, &[256], &[1]);
    let mut tensors: Vec<Foreign<'_>> = names.iter().map(|name| by_name(name)).collect();
    tensors.push(tensor(&d, 0, &[256], &[1]));
    run(&step, &tensors, &[], 0).unwrap();
    assert_eq!(launched(&fake), 1);
    let error = run(&step, &tensors[..2], &[], 0).unwrap_err().to_string();
    assert_eq!(error, "the expression has 3 tensors (inputs, then outputs that aren't in place) and 2 were given");
}

#[test]
fn every_refused_call_names_the_tensor_and_launches_nothing() {
    let (fake, gpu) = gpu();
    let [x, y] = [(); 2].map(|()| gpu.zeros::<f32>(1024).unwrap());
    let add = expression(&gpu, "y = x + 1");
    let vector = |buffer, from, shape| tensor(buffer, from, shape, &[1]);
    let refuse = |tensors: &[Foreign<'_>]| run(&add, tensors, &[], 0).unwrap_err();
    let good = [vector(&x, 0, &[64]), vector(&y, 0, &[64])];
    // The plan is known, so the call itself must refuse.
    run(&add, &good, &[], 0).unwrap();
    assert!(matches!(refuse(&good[..1]), Error::Count { expected: 2, given: 1, .. }));
    assert!(matches!(refuse(&[good[0], good[1], good[1]]), Error::Count { expected: 2, given: 3, .. }));
    let scalars = run(&add, &good, &[Value::Float(1.0)], 0).unwrap_err();
    assert!(matches!(scalars, Error::Count { what: "scalars", expected: 0, given: 1 }));
    let halves = Foreign { dtype: DType::F16, ..good[0] };
    assert!(matches!(refuse(&[halves, good[1]]), Error::Type { name, given: DType::F16, .. } if name == "x"));
    let odd = Foreign { start: good[1].start + 2, ..good[1] };
    assert!(matches!(refuse(&[good[0], odd]), Error::Misaligned { name, bytes: 4, .. } if name == "y"));
    let ranks = tensor(&x, 0, &[1; 9], &[1; 9]);
    assert!(matches!(refuse(&[ranks, good[1]]), Error::Shape { name, error: LayoutError::Rank(9) } if name == "x"));
    let strides = tensor(&y, 0, &[64], &[64, 1]);
    assert!(matches!(refuse(&[good[0], strides]), Error::Shape { name, .. } if name == "y"));
    let beyond = Foreign { start: u64::MAX - 3, ..good[0] };
    assert!(matches!(refuse(&[beyond, good[1]]), Error::Shape { name, .. } if name == "x"));
    assert!(matches!(refuse(&[vector(&x, 0, &[63]), good[1]]), Error::Shape { name, .. } if name == "x"));
    let shared = tensor(&y, 0, &[8, 8], &[1, 1]);
    assert!(matches!(refuse(&[vector(&x, 0, &[8]), shared]), Error::SharedElements { name, .. } if name == "y"));
    // The plan of `good` fits these too.
    let partly = vector(&x, 8, &[64]);
    let overlap = refuse(&[good[0], partly]);
    assert!(
        matches!(&overlap, Error::Overlap { output, other, .. } if (&output[..], &other[..]) == ("y", "x")),
        "{overlap}"
    );
    let rank = run(&expression(&gpu, "y = x + index(1)"), &good, &[], 0).unwrap_err();
    assert!(matches!(rank, Error::Rank { needed: 2, given: 1 }));
    let outputs = expression(&gpu, "y = x; z = -x");
    let apart = [good[0], good[1], vector(&y, 64, &[65])];
    assert!(matches!(run(&outputs, &apart, &[], 0).unwrap_err(), Error::Outputs { .. }));
    let same = [good[0], good[1], good[1]];
    assert!(
        matches!(run(&outputs, &same, &[], 0).unwrap_err(), Error::Overlap { output, other, .. } if (&output[..], &other[..]) == ("z", "y"))
    );
    assert_eq!(launched(&fake), 1);
}

#[test]
fn inputs_may_share_memory_and_an_output_may_be_exactly_an_input() {
    let (fake, gpu) = gpu();
    let [x, y] = [(); 2].map(|()| gpu.zeros::<f32>(1024).unwrap());
    let add = expression(&gpu, "z = x + y");
    let [low, high, out] = [tensor(&x, 0, &[64], &[1]), tensor(&x, 8, &[64], &[1]), tensor(&y, 0, &[64], &[1])];
    run(&add, &[low, low, out], &[], 0).unwrap();
    run(&add, &[low, high, out], &[], 0).unwrap();
    run(&add, &[low, out, out], &[], 0).unwrap();
    // Columns of one matrix.
    let column = |from| tensor(&x, from, &[16, 8], &[64, 1]);
    run(&add, &[column(0), column(8), column(16)], &[], 0).unwrap();
    assert_eq!(launched(&fake), 4);
    assert!(run(&add, &[low, high, low], &[], 0).is_err(), "the second input overlaps the output");
}

#[test]
fn tensors_without_elements_may_have_any_address_and_launch_nothing() {
    let (fake, gpu) = gpu();
    let add = expression(&gpu, "y = x + 1");
    let empty = |start| Foreign { start, dtype: DType::F32, shape: &[3, 0], strides: &[7, 1] };
    for (x, y) in [(0, 0), (3, u64::MAX), (17, 17)] {
        run(&add, &[empty(x), empty(y)], &[], 0).unwrap();
    }
    assert_eq!(launched(&fake), 0);
}

#[test]
fn a_scalar_tensor_has_no_dimensions() {
    let (fake, gpu) = gpu();
    let [x, y] = [(); 2].map(|()| gpu.zeros::<f32>(4).unwrap());
    let add = expression(&gpu, "y = x + 1");
    run(&add, &[tensor(&x, 1, &[], &[]), tensor(&y, 3, &[], &[])], &[], 0).unwrap();
    assert_eq!(launched(&fake), 1);
}

#[test]
fn the_special_streams_and_two_streams_are_passed_to_the_driver() {
    let (fake, gpu) = gpu();
    let [x, y] = [(); 2].map(|()| gpu.zeros::<f32>(64).unwrap());
    let add = expression(&gpu, "y = x + 1");
    let tensors = [tensor(&x, 0, &[64], &[1]), tensor(&y, 0, &[64], &[1])];
    let streams = [0, 1, 2, fake.foreign_stream(false), fake.foreign_stream(false)];
    for stream in streams {
        run(&add, &tensors, &[], stream).unwrap();
        assert_eq!(fake.number("fakecuda_last_stream"), stream);
    }
    assert_eq!((launched(&fake), fake.count("cuStreamDestroy_v2")), (5, 0));
}

#[test]
fn the_current_context_is_unchanged_after_every_call() {
    let (fake, gpu) = gpu();
    let [x, y] = [(); 2].map(|()| gpu.zeros::<f32>(1024).unwrap());
    let add = expression(&gpu, "y = x + 1");
    let tensors = |length: &'static [u64]| [tensor(&x, 0, length, &[1]), tensor(&y, 0, length, &[1])];
    let lengths: [&[u64]; 4] = [&[64], &[65], &[66], &[67]];
    for (current, lengths) in [(OTHER_CONTEXT, &lengths[..2]), (0, &lengths[2..])] {
        fake.set_current(current);
        add.prepare_foreign(&tensors(lengths[0]), &Choose::default()).unwrap();
        assert_eq!(fake.current(), current);
        // A known plan, a new one, and a refused call.
        for length in [lengths[0], lengths[1]] {
            run(&add, &tensors(length), &[], 0).unwrap();
            assert_eq!(fake.current(), current);
        }
        let overlapping = [tensor(&x, 0, &[64], &[1]), tensor(&x, 8, &[64], &[1])];
        run(&add, &overlapping, &[], 0).unwrap_err();
        assert_eq!(fake.current(), current);
        // What is dropped.
        drop(gpu.engine().expression(add.graph()).unwrap());
        drop(gpu.driver().keep_current(|| gpu.zeros::<f32>(64).unwrap()).unwrap());
        assert_eq!(fake.current(), current);
        let other = gpu.driver().keep_current(|| open(&fake)).unwrap();
        assert_eq!(fake.current(), current);
        drop(other);
        assert_eq!(fake.current(), current);
    }
    assert_eq!(launched(&fake), 4);
    fake.set_current(CONTEXT);
    let set = fake.count("cuCtxSetCurrent");
    run(&add, &tensors(&[64]), &[], 0).unwrap();
    assert_eq!(fake.count("cuCtxSetCurrent"), set, "it is current already");
}

#[test]
fn a_failed_launch_puts_the_current_context_back() {
    let fake = Fake::new();
    fake.order("fail=cuLaunchKernelEx:1;fail=cuLaunchKernel:1");
    let gpu = open(&fake);
    let [x, y] = [(); 2].map(|()| gpu.zeros::<f32>(64).unwrap());
    let add = expression(&gpu, "y = x + 1");
    fake.set_current(OTHER_CONTEXT);
    let error = run(&add, &[tensor(&x, 0, &[64], &[1]), tensor(&y, 0, &[64], &[1])], &[], 0).unwrap_err();
    assert!(matches!(error, Error::Fault(_)), "{error}");
    assert_eq!(fake.current(), OTHER_CONTEXT);
}

#[test]
fn a_call_in_another_librarys_recording_is_recorded_even_if_it_compiles_first() {
    let (fake, gpu) = gpu();
    let [x, y] = [(); 2].map(|()| gpu.zeros::<f32>(64).unwrap());
    let add = expression(&gpu, "y = x + 1");
    let tensors = [tensor(&x, 0, &[64], &[1]), tensor(&y, 0, &[64], &[1])];
    let stream = fake.foreign_stream(false);
    let memory = plimsoll_cuda::memory::DeviceBuffer::new(gpu.stream().context(), 64).unwrap();
    fake.begin_capture(stream);
    let loaded = fake.count("cuModuleLoadData");
    run(&add, &tensors, &[], stream).unwrap();
    run(&add, &tensors, &[], stream).unwrap();
    assert_eq!(fake.count("cuModuleLoadData"), loaded + 1);
    // Freeing memory breaks no recording either.
    drop(memory);
    assert_eq!(fake.end_capture(stream), Ok(2));
    // A call that another thread makes while a recording runs.
    fake.begin_capture(stream);
    let other = [tensor(&x, 0, &[63], &[1]), tensor(&y, 0, &[63], &[1])];
    std::thread::scope(|scope| {
        scope.spawn(|| add.prepare_foreign(&other, &Choose::default()).unwrap());
    });
    assert_eq!(fake.end_capture(stream), Ok(0));
    assert_eq!(fake.capture_mode(), 0, "the thread's mode is back");
}

#[test]
fn prepared_calls_load_nothing() {
    let (fake, gpu) = gpu();
    let [x, y] = [(); 2].map(|()| gpu.zeros::<f32>(64).unwrap());
    let scale = expression(&gpu, "scalar a: f32, n: i64; y = a*x + n");
    let tensors = [tensor(&x, 0, &[8, 8], &[1, 8]), tensor(&y, 0, &[8, 8], &[8, 1])];
    scale.prepare_foreign(&tensors, &Choose::default()).unwrap();
    let (loaded, total) = (fake.count("cuModuleLoadData"), fake.total());
    assert_eq!(launched(&fake), 0);
    run(&scale, &tensors, &[Value::Float(0.5), Value::Int(3)], 0).unwrap();
    assert_eq!((fake.count("cuModuleLoadData"), fake.total() - total), (loaded, 2));
    assert!(matches!(scale.prepare_foreign(&tensors[..1], &Choose::default()), Err(Error::Count { .. })));
}

#[test]
fn a_kernel_that_ran_in_another_librarys_stream_is_never_unloaded() {
    let (fake, gpu) = gpu();
    let [x, y] = [(); 2].map(|()| gpu.zeros::<f32>(64).unwrap());
    let tensors = [tensor(&x, 0, &[64], &[1]), tensor(&y, 0, &[64], &[1])];
    let (add, other) = (expression(&gpu, "y = x + 1"), expression(&gpu, "y = x + 2"));
    run(&add, &tensors, &[], 0).unwrap();
    run(&add, &tensors, &[], 0).unwrap();
    other.prepare_foreign(&tensors, &Choose::default()).unwrap();
    drop((add, other, x, y, gpu));
    // The context lives on with the one module that may be running.
    assert_eq!((fake.count("cuModuleLoadData") - fake.count("cuModuleUnload"), fake.alive()), (1, 2));
}

#[test]
fn threads_call_at_once() {
    let (fake, gpu) = gpu();
    let add = expression(&gpu, "y = x + 1");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let [x, y] = [(); 2].map(|()| gpu.zeros::<f32>(64).unwrap());
                for length in [&[64_u64], &[63], &[62]] {
                    let tensors = [tensor(&x, 0, length, &[1]), tensor(&y, 0, length, &[1])];
                    (0..20).for_each(|_| run(&add, &tensors, &[], 0).unwrap());
                }
            });
        }
    });
    assert_eq!(launched(&fake), 240);
}

const SCALED: &str = "scalar a: f32; y = a*x + y";

/// Pairs of tensors in place, and their lengths.
fn pairs<'a>(gpu: &Gpu, shapes: &'a [[u64; 1]], keep: &mut Vec<Buffer<f32>>) -> Vec<[Foreign<'a>; 2]> {
    let mut make = |shape: &'a [u64; 1]| {
        let buffers = [(); 2].map(|()| gpu.zeros::<f32>(shape[0] as usize).unwrap());
        let tensors = [0, 1].map(|place| tensor(&buffers[place], 0, shape, &[1]));
        keep.extend(buffers);
        tensors
    };
    shapes.iter().map(&mut make).collect()
}

fn sets<'a>(pairs: &'a [[Foreign<'a>; 2]]) -> Vec<ForeignSet<'a>> {
    pairs.iter().map(|tensors| ForeignSet { tensors, group: 0 }).collect()
}

fn batch(gpu: &Gpu, pairs: &[[Foreign<'_>; 2]]) -> Result<Batch, Error> {
    let scalars = [vec![Value::Float(0.5)]];
    let options = BatchOptions { scalars: &scalars, ..BatchOptions::default() };
    // SAFETY: the tests keep the memory until the end; kernels of the fake driver do nothing.
    unsafe { expression(gpu, SCALED).batch_foreign(&sets(pairs), &options, gpu.stream()) }
}

#[test]
fn a_batch_of_foreign_tensors_is_copied_only_when_addresses_change() {
    let (fake, gpu) = gpu();
    let shapes: Vec<[u64; 1]> = (0..300).map(|place| [100 + place]).collect();
    let mut keep = Vec::new();
    let (first, second) = (pairs(&gpu, &shapes, &mut keep), pairs(&gpu, &shapes, &mut keep));
    fake.set_current(OTHER_CONTEXT);
    let mut many = batch(&gpu, &first).unwrap();
    assert_eq!((many.table_bytes() > 0, fake.current()), (true, OTHER_CONTEXT));
    fake.set_current(CONTEXT);
    // SAFETY: as above.
    let update = |many: &mut Batch, pairs: &[[Foreign<'_>; 2]]| unsafe {
        let (given, mut changed) = (sets(pairs), None);
        let counted =
            allocation_counter::measure(|| changed = Some(many.update_foreign(&given, gpu.stream()).unwrap()));
        (changed.unwrap(), counted.count_total == 0)
    };
    let copies = fake.count("cuMemcpyHtoDAsync_v2");
    assert_eq!(update(&mut many, &first), (false, true));
    assert_eq!(fake.count("cuMemcpyHtoDAsync_v2"), copies);
    assert!(update(&mut many, &second).0);
    assert_eq!(fake.count("cuMemcpyHtoDAsync_v2"), copies + 1);
    // Freeing waits for the device, so it is done rarely.
    let mut freed = |times| {
        let before = fake.count("cuMemFree_v2");
        (0..times).for_each(|time| assert!(update(&mut many, [&first, &second][time % 2]).0));
        fake.count("cuMemFree_v2") - before
    };
    assert_eq!((freed(14), freed(17)), (0, 16));
    let stream = fake.foreign_stream(false);
    // SAFETY: as above. The first launch looks up the driver's functions.
    unsafe { many.enqueue_foreign(stream) }.unwrap();
    let (before, total) = (launched(&fake), fake.total());
    // SAFETY: as above.
    let counted =
        allocation_counter::measure(|| (0..10).for_each(|_| unsafe { many.enqueue_foreign(stream) }.unwrap()));
    // Each looks at the context and at whether the stream is being recorded, and launches.
    assert_eq!((counted.count_total, launched(&fake) - before, fake.total() - total), (0, 10, 30));
    many.set_scalars(0, &[Value::Float(2.0)]).unwrap();
}

#[test]
fn a_recorded_batch_keeps_its_table_and_few_sets_need_none() {
    let (fake, gpu) = gpu();
    let shapes: Vec<[u64; 1]> = (0..300).map(|place| [100 + place]).collect();
    let mut keep = Vec::new();
    let all = pairs(&gpu, &shapes, &mut keep);
    let (many, few) = (batch(&gpu, &all).unwrap(), batch(&gpu, &all[..3]).unwrap());
    let (stream, freed) = (fake.foreign_stream(false), fake.count("cuMemFree_v2"));
    fake.begin_capture(stream);
    // SAFETY: as above.
    unsafe {
        many.enqueue_foreign(stream).unwrap();
        few.enqueue_foreign(stream).unwrap();
    }
    drop((many, few));
    assert_eq!((fake.end_capture(stream), fake.count("cuMemFree_v2")), (Ok(2), freed));
    let unrecorded = batch(&gpu, &all).unwrap();
    // SAFETY: as above.
    unsafe { unrecorded.enqueue_foreign(stream) }.unwrap();
    drop(unrecorded);
    assert_eq!(fake.count("cuMemFree_v2"), freed + 1);
}

#[test]
fn errors_of_a_foreign_batch_name_the_set_and_leave_it_unchanged() {
    let (_fake, gpu) = gpu();
    let (shapes, mut keep) = ([[100], [50]], Vec::new());
    let good = pairs(&gpu, &shapes, &mut keep);
    let mut many = batch(&gpu, &good).unwrap();
    let mut refuse = |pairs: &[[Foreign<'_>; 2]]| {
        // SAFETY: as above.
        unsafe { many.update_foreign(&sets(pairs), gpu.stream()) }.unwrap_err()
    };
    let gaps = [good[0], [Foreign { shape: &[25], strides: &[2], ..good[1][0] }; 2]];
    assert!(matches!(refuse(&gaps), Error::Batch { set: 1, .. }));
    let overlapping = refuse(&[good[0], good[0]]).to_string();
    assert!(overlapping.contains("of set 0") && overlapping.contains("of set 1"), "{overlapping}");
    let wrong = [good[0], [good[1][0], Foreign { dtype: DType::Bf16, ..good[1][1] }]];
    assert!(matches!(refuse(&wrong), Error::Type { .. }));
    // SAFETY: as above.
    assert!(!unsafe { many.update_foreign(&sets(&good), gpu.stream()) }.unwrap());
    let one = [ForeignSet { tensors: &good[0][..1], group: 0 }];
    // SAFETY: as above.
    let count = unsafe { many.update_foreign(&one, gpu.stream()) }.unwrap_err();
    assert!(matches!(count, Error::Count { expected: 2, given: 1, .. }), "{count}");
}
