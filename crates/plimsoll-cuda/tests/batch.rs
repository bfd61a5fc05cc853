//! Batches with the fake driver: what a launch costs the host, when the table is copied, which memory lives how long, and error messages.
#![allow(unsafe_code)]

mod common;

use std::sync::Arc;
use std::time::{Duration, Instant};

use common::Fake;
use plimsoll_cuda::Options;
use plimsoll_cuda::elementwise::{Batch, BatchOptions, BatchSet, Buffer, Error, Expression, Gpu, Operand};
use plimsoll_expr::{Layout, Names, Value, parse};
use plimsoll_gen::elementwise::PlanError;

fn gpu() -> (Fake, Gpu) {
    let fake = Fake::new();
    let options = Options { compiler: Some(Arc::new(common::AnyCompiler)), ..fake.options() };
    let gpu = Gpu::open(&fake.driver().unwrap(), 0, &options).unwrap();
    (fake, gpu)
}

fn expression(gpu: &Gpu, text: &str) -> Expression {
    gpu.engine().expression(&parse(text, &Names::default()).unwrap()).unwrap()
}

const SCALED: &str = "in x: f32, y: f32; scalar a: f32; y = a*x + y";

/// Sets of two buffers each.
fn sets(buffers: &[(Buffer<f32>, Buffer<f32>)]) -> Vec<BatchSet> {
    let set = |(x, y): &(Buffer<f32>, Buffer<f32>)| {
        let y = y.operand().unwrap();
        BatchSet::new(vec![x.operand().unwrap(), y.clone()], vec![y])
    };
    buffers.iter().map(set).collect()
}

fn buffers(gpu: &Gpu, count: usize) -> Vec<(Buffer<f32>, Buffer<f32>)> {
    (0..count).map(|place| (gpu.zeros(100 + place).unwrap(), gpu.zeros(100 + place).unwrap())).collect()
}

fn batch(gpu: &Gpu, sets: &[BatchSet]) -> Batch {
    let scalars = [vec![Value::Float(0.5)]];
    let options = BatchOptions { scalars: &scalars, ..BatchOptions::default() };
    expression(gpu, SCALED).batch(sets, &options, gpu.stream()).unwrap()
}

#[test]
fn a_launch_of_hundreds_of_sets_is_one_launch_that_allocates_nothing() {
    let (fake, gpu) = gpu();
    let buffers = buffers(&gpu, 300);
    let mut batch = batch(&gpu, &sets(&buffers));
    assert!(batch.table_bytes() > 0 && batch.len() == 300);
    let launched = || fake.count("cuLaunchKernel") + fake.count("cuLaunchKernelEx");
    let before = launched();
    let mut shortest = Duration::MAX;
    let counted = allocation_counter::measure(|| {
        for _ in 0..50 {
            let begin = Instant::now();
            batch.enqueue(gpu.stream()).unwrap();
            shortest = shortest.min(begin.elapsed());
        }
    });
    assert_eq!((counted.count_total, launched() - before), (0, 50));
    // Without optimisation, and without the driver's own time: far below that of looking at 600 tensors.
    assert!(shortest < Duration::from_micros(50), "{shortest:?}");
    batch.set_scalars(0, &[Value::Float(2.0)]).unwrap();
    batch.enqueue(gpu.stream()).unwrap();
}

#[test]
fn table_is_copied_only_for_other_tensors_and_old_launches_keep_theirs() {
    let (fake, gpu) = gpu();
    let (buffers, others) = (buffers(&gpu, 300), buffers(&gpu, 300));
    let mut batch = batch(&gpu, &sets(&buffers));
    let copies = || fake.count("cuMemcpyHtoDAsync_v2") + fake.count("cuMemcpyHtoDAsync");
    let before = copies();
    batch.update(&sets(&buffers), gpu.stream()).unwrap();
    assert_eq!(copies(), before);
    let alive = fake.alive();
    batch.update(&sets(&others), gpu.stream()).unwrap();
    assert_eq!((copies(), fake.alive()), (before + 1, alive));
    // In a recording nothing is copied, and the recording holds what it uses.
    let recorded = gpu.record(|| batch.enqueue(gpu.stream())).unwrap();
    drop((batch, others));
    recorded.launch().unwrap();
    gpu.wait().unwrap();
    assert_eq!(fake.freed_early(), 0);
}

#[test]
fn few_sets_need_no_memory_for_a_table() {
    let (_fake, gpu) = gpu();
    let buffers = buffers(&gpu, 20);
    let few = batch(&gpu, &sets(&buffers));
    assert_eq!((few.table_bytes(), few.is_empty()), (0, false));
    few.enqueue(gpu.stream()).unwrap();
    let none = batch(&gpu, &[]);
    assert!(none.is_empty());
    none.enqueue(gpu.stream()).unwrap();
}

#[test]
fn overlaps_are_found_among_100_000_sets() {
    let (_fake, gpu) = gpu();
    let count = 100_000;
    let memory = gpu.zeros::<f32>(2 * 8 * count).unwrap().operand().unwrap();
    let part =
        |place: usize| memory.with_layout(Layout::contiguous(&[8]).unwrap().offset_by(8 * place as u64).unwrap());
    let set = |x: usize, y: usize| BatchSet::new(vec![part(x), part(y)], vec![part(y)]);
    let mut all: Vec<BatchSet> = (0..count).map(|set_number| set(count + set_number, set_number)).collect();
    batch(&gpu, &all);
    all[count - 1] = set(count, 7);
    let scalars = [vec![Value::Float(0.5)]];
    let options = BatchOptions { scalars: &scalars, ..BatchOptions::default() };
    let error = expression(&gpu, SCALED).batch(&all, &options, gpu.stream()).map(drop).unwrap_err().to_string();
    assert!(error.contains("y of set 7") && error.contains("of set 99999"), "{error}");
}

#[test]
fn errors_of_batches_name_the_set_and_the_way_out() {
    let (_fake, gpu) = gpu();
    let memory = gpu.zeros::<f32>(4096).unwrap();
    let (memory, flag) = (memory.operand().unwrap(), gpu.zeros::<f32>(2).unwrap().operand().unwrap());
    let part =
        |from: u64, length: u64| memory.with_layout(Layout::contiguous(&[length]).unwrap().offset_by(from).unwrap());
    let set = |x, y: Operand| BatchSet::new(vec![x, y.clone()], vec![y]);
    let one = [vec![Value::Float(0.5)]];
    let refused = |sets: &[BatchSet], options: &BatchOptions<'_>| {
        expression(&gpu, SCALED).batch(sets, options, gpu.stream()).map(drop).unwrap_err()
    };
    let options = BatchOptions { scalars: &one, ..BatchOptions::default() };
    let good = || set(part(0, 10), part(100, 10));
    // One element for all in one set, and not in another.
    let error = refused(&[set(part(0, 1), part(200, 10)), good()], &options).to_string();
    assert!(error.contains("set 1 of the batch: 'x'") && error.contains("in every set"), "{error}");
    let gaps = Layout::strided(&[10], &[2], 300).unwrap();
    let error = refused(&[set(part(0, 10), memory.with_layout(gaps))], &options);
    assert!(matches!(error, Error::Batch { set: 0, .. }), "{error}");
    let error = refused(&[good().in_group(1)], &options);
    assert!(matches!(error, Error::Plan(PlanError::Choice { what: "group", .. })), "{error}");
    let error = refused(&[good()], &BatchOptions::default());
    assert!(matches!(error, Error::Plan(PlanError::Choice { what: "group", .. })), "{error}");
    let error = refused(&[good()], &BatchOptions { skip: Some(&flag), ..options });
    assert_eq!(error.to_string(), "the expression has 1 elements of the flag to skip and 2 were given");
    let inside = part(105, 1);
    let options = BatchOptions { scalars: &one, skip: Some(&inside), ..BatchOptions::default() };
    let error = refused(&[good()], &options).to_string();
    assert!(error.contains("'the flag to skip'") && error.contains("y of set 0"), "{error}");
}
