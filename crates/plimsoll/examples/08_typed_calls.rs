//! Uses every kind of typed call on a GPU and checks the results, then compares the host time of a call with a bare launch of the
//! same kernel. Needs an NVIDIA GPU.
//!
//! `cargo run --release -p plimsoll --example 08_typed_calls`
#![allow(clippy::print_stdout, reason = "it is a program")]

use std::error::Error;
use std::time::{Duration, Instant};

use plimsoll::elementwise::gpu::{Choose, Dependent};
use plimsoll::expr::Value;
use plimsoll::prelude::*;

/// Calls that are timed together: fewer than a stream queues before it blocks the host.
const CALLS: u32 = 500;
/// The number of rounds.
const ROUNDS: usize = 201;

fn main() -> Result<(), Box<dyn Error>> {
    let gpu = Cuda::device(0)?;
    fused(&gpu)?;
    in_place(&gpu)?;
    layouts(&gpu)?;
    streams(&gpu)?;
    recorded(&gpu)?;
    host_time(&gpu)?;
    compile_time()
}

fn check(what: &str, right: bool) -> Result<(), Box<dyn Error>> {
    println!("{what}: {}", if right { "right" } else { "wrong" });
    if right { Ok(()) } else { Err(format!("{what} is wrong").into()) }
}

fn fused(gpu: &Gpu) -> Result<(), Box<dyn Error>> {
    let axpy = gpu.compile(&trace(|a: Scalar<f32>, x: In<bf16>, y: In<f32>| (a * x + y, x.lt(y)))?)?;
    let xs: Vec<bf16> = (0..10_001).map(|i| bf16::from_f32(i as f32 / 64.0)).collect();
    let ys: Vec<f32> = (0..10_001).map(|i| (5000 - i) as f32).collect();
    let (x, y) = (gpu.upload(&xs)?, gpu.upload(&ys)?);
    let (mut sum, mut less) = (gpu.zeros::<f32>(xs.len())?, gpu.zeros::<bool>(xs.len())?);
    for a in [0.5, -3.0] {
        axpy.run(a, &x, &y, (&mut sum, &mut less))?;
        let (sum, less) = (gpu.download(&sum)?, gpu.download(&less)?);
        let right = |i: usize| sum[i] == a * xs[i].to_f32() + ys[i] && less[i] == (xs[i].to_f32() < ys[i]);
        check("two outputs of mixed types", (0..xs.len()).all(right))?;
    }
    Ok(())
}

fn in_place(gpu: &Gpu) -> Result<(), Box<dyn Error>> {
    let step = trace(|rate: Scalar<f32>, g: In<f32>, m: InOut<f32>, p: InOut<f32>| {
        let next = m.get() * 0.5 + g;
        m.set(next);
        p.set(p.get() - rate * next);
    })?;
    let step = gpu.compile(&step)?;
    let g = gpu.upload(&[2.0_f32; 777])?;
    let (mut m, mut p) = (gpu.zeros::<f32>(777)?, gpu.zeros::<f32>(777)?);
    for _ in 0..2 {
        step.run(0.25, &g, &mut m, &mut p, ())?;
    }
    // m: 2, then 3; p: −0.5, then −1.25.
    let right = gpu.download(&m)? == [3.0; 777] && gpu.download(&p)? == [-1.25; 777];
    check("an optimizer step in place, twice", right)
}

fn layouts(gpu: &Gpu) -> Result<(), Box<dyn Error>> {
    let (rows, columns) = (301_u64, 205_u64);
    let add = gpu.compile(&trace(|x: In<i32>, b: In<i32>| x * 3 + b)?)?;
    let xs: Vec<i32> = (0..(rows * columns) as i32).collect();
    let (x, b) = (gpu.upload(&xs)?, gpu.upload(&xs[..columns as usize])?);
    let mut out = gpu.zeros::<i32>(xs.len() + 7)?;
    let transposed = x.shaped(&[columns, rows])?.transposed();
    let bias = b.shaped(&[columns])?;
    let mut offset_view = out.view_mut(Layout::contiguous(&[rows, columns])?.offset_by(7)?);
    add.run(&transposed, &bias, &mut offset_view)?;
    let out = gpu.download(&out)?;
    let expected = |row: u64, column: u64| (3 * (column * rows + row) + column) as i32;
    let right =
        (0..rows).all(|row| (0..columns).all(|col| out[(7 + row * columns + col) as usize] == expected(row, col)));
    check("a transposed input, a broadcast one, an output with an offset", right && out[..7] == [0; 7])
}

fn streams(gpu: &Gpu) -> Result<(), Box<dyn Error>> {
    let other = gpu.fork()?;
    let next = gpu.compile(&trace(|x: InOut<u32>| x.set(x.get() * 5 + 1))?)?;
    let (here, there) = (next.dependent(true), next.on_stream(&other));
    let mut x = gpu.zeros::<u32>(1 << 20)?;
    for _ in 0..50 {
        here.run(&mut x, ())?;
        there.run(&mut x, ())?;
    }
    let expected = (0..100).fold(0_u32, |x, _| x.wrapping_mul(5).wrapping_add(1));
    check("100 calls alternating between two streams", x.to_vec()?.iter().all(|&x| x == expected))
}

fn recorded(gpu: &Gpu) -> Result<(), Box<dyn Error>> {
    let next = gpu.compile(&trace(|x: In<u32>| x * 5 + 1)?)?;
    let (mut x, mut y) = (gpu.zeros::<u32>(4097)?, gpu.zeros::<u32>(4097)?);
    let recorded = gpu.record(|| {
        next.run(&x, &mut y)?;
        next.run(&y, &mut x)
    })?;
    for _ in 0..10 {
        recorded.launch()?;
    }
    let expected = (0..20).fold(0_u32, |x, _| x.wrapping_mul(5).wrapping_add(1));
    check("20 recorded calls", x.to_vec()?.iter().all(|&x| x == expected))
}

/// Nanoseconds per call in one round.
fn time_calls(gpu: &Gpu, mut call: impl FnMut() -> Result<(), Box<dyn Error>>) -> Result<f64, Box<dyn Error>> {
    gpu.wait()?;
    let start = Instant::now();
    for _ in 0..CALLS {
        call()?;
    }
    Ok(start.elapsed().as_nanos() as f64 / f64::from(CALLS))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn host_time(gpu: &Gpu) -> Result<(), Box<dyn Error>> {
    let axpy = gpu.compile(&trace(|a: Scalar<f32>, x: In<f32>, y: In<f32>| a * x + y)?)?;
    let (x, y) = (gpu.zeros::<f32>(4096)?, gpu.zeros::<f32>(4096)?);
    let mut out = gpu.zeros::<f32>(4096)?;
    axpy.run(0.5, &x, &y, &mut out)?;
    let operands = [x.operand()?, y.operand()?];
    let bound = axpy.expression().bind(&operands, &[out.operand()?], &[Value::Float(0.5)], &Choose::default())?;
    let launch = bound.launch()?;
    let ordinary = Choose { release: Some(Dependent::No), ..Choose::default() };
    let ordinary = axpy.expression().bind(&operands, &[out.operand()?], &[Value::Float(0.5)], &ordinary)?.launch()?;
    // Interleaved, as the cost of a launch drifts by more than the differences compared here.
    let mut rounds = [const { Vec::new() }; 4];
    for _ in 0..ROUNDS {
        rounds[0].push(time_calls(gpu, || Ok(gpu.stream().launch(&launch)?))?);
        rounds[1].push(time_calls(gpu, || Ok(axpy.run(0.5, &x, &y, &mut out)?))?);
        rounds[2].push(time_calls(gpu, || Ok(bound.enqueue(gpu.stream())?))?);
        rounds[3].push(time_calls(gpu, || Ok(gpu.stream().launch(&ordinary)?))?);
    }
    let excess = |which: usize| {
        let pairs = rounds[which].iter().zip(&rounds[0]);
        median(pairs.map(|(more, bare)| more - bare).collect())
    };
    let (typed, again, ordinary) = (excess(1), excess(2), excess(3));
    let bare = median(rounds[0].clone());
    println!(
        "a bare launch takes the host {bare:.0} ns, a typed call {typed:.0} ns more, a bound one {again:.0} ns more"
    );
    println!("an ordinary launch, whose blocks wait for the previous kernel to end: {ordinary:+.0} ns");
    println!("(medians of {ROUNDS} rounds of {CALLS} calls each, interleaved)");
    Ok(())
}

/// The time from tensors to a launch, with an empty kernel cache and with a filled one.
fn compile_time() -> Result<(), Box<dyn Error>> {
    let folder = std::env::temp_dir().join(format!("plimsoll-typed-calls-{}", std::process::id()));
    let first_call = || -> Result<Duration, Box<dyn Error>> {
        let gpu = plimsoll::elementwise::gpu::open(0, Some(folder.clone()))?;
        let mut y = gpu.zeros::<bf16>(1 << 20)?;
        let x = gpu.zeros::<bf16>(1 << 20)?;
        let kernel = gpu.compile(&trace(|x: In<bf16>| (x * 2.0 + 1.0).tanh())?)?;
        let start = Instant::now();
        kernel.run(&x, &mut y)?;
        Ok(start.elapsed())
    };
    let (compiled, cached) = (first_call()?, first_call()?);
    println!("first call: {compiled:.1?} compiled, {cached:.1?} from disk");
    Ok(std::fs::remove_dir_all(&folder)?)
}
