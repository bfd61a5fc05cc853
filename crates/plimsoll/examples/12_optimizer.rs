//! AdamW for all parameters of a model in one launch: weights that decay and others that don't, gradients in bf16, and a loss scale, a
//! step counter and a flag for overflows that stay on the device. Checks the results, then times a step. Needs an NVIDIA GPU.
//!
//! `cargo run --release -p plimsoll --example 12_optimizer`
#![allow(clippy::print_stdout, reason = "it is a program")]

use std::error::Error;
use std::time::Instant;

use plimsoll::elementwise::gpu::{Batch, BatchOptions, BatchSet, Buffer, Choose};
use plimsoll::expr::{Names, Value, parse};
use plimsoll::prelude::{Cuda, Gpu, bf16};

/// `t` and `unscale` are inputs of one element. The terms that depend only on them and on scalars are computed once per thread.
const ADAMW: &str = "
    in g: bf16, m: f32, v: f32, p: f32, t: f32, unscale: f32
    scalar rate: f32, decay: f32
    m = 0.9*m + 0.1*(g*unscale)
    v = 0.999*v + 0.001*(g*unscale)*(g*unscale)
    p = p - rate*decay*p - rate/(1 - pow(0.9, t))*m/(sqrt(v*(1/(1 - pow(0.999, t)))) + 1e-8)";

/// A transformer of this many layers, of this width.
const LAYERS: usize = 24;
const WIDTH: usize = 1024;

struct Parameter {
    g: Buffer<bf16>,
    m: Buffer<f32>,
    v: Buffer<f32>,
    p: Buffer<f32>,
    decays: bool,
}

impl Parameter {
    fn new(gpu: &Gpu, length: usize, decays: bool) -> Result<Self, Box<dyn Error>> {
        let (m, v) = (gpu.zeros(length)?, gpu.zeros(length)?);
        Ok(Self { g: gpu.upload(&vec![bf16::ONE; length])?, m, v, p: gpu.upload(&vec![1.0; length])?, decays })
    }
}

/// What stays on the device from step to step.
struct State {
    t: Buffer<f32>,
    unscale: Buffer<f32>,
    overflow: Buffer<f32>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let gpu = Cuda::device(0)?;
    let parameters = model(&gpu)?;
    let mut state = State { t: gpu.zeros(1)?, unscale: gpu.upload(&[0.5])?, overflow: gpu.zeros(1)? };
    let step = adamw(&gpu, &parameters, &state)?;

    // The counter is another expression, in place. Recorded together, a step is one launch of a graph.
    let count = gpu.engine().expression(&parse("in t: f32\nt = t + 1", &Names::default())?)?;
    let (t, choose) = ([state.t.operand()?], Choose::default());
    let recorded = gpu.record(|| {
        count.run(&t, &t, &[], &choose, gpu.stream())?;
        step.enqueue(gpu.stream())
    })?;
    recorded.launch()?;

    // The first step goes as far as the learning rate; a decaying weight of 1 also loses rate · decay.
    for (parameter, expected) in [(&parameters[0], 1.0 - 1e-3 - 1e-3 * 0.1), (&parameters[1], 1.0 - 1e-3)] {
        let p = f64::from(gpu.download(&parameter.p)?[0]);
        println!("p = {p:.6}: {}", if (p - expected).abs() < 1e-6 { "right" } else { "wrong" });
    }
    // With the flag set, a launch writes nothing.
    let before = gpu.download(&parameters[0].p)?[0];
    state.overflow.write(&[1.0])?;
    step.enqueue(gpu.stream())?;
    println!("skipped: {}", if gpu.download(&parameters[0].p)?[0] == before { "right" } else { "wrong" });
    state.overflow.write(&[0.0])?;
    time(&gpu, &step, &parameters)
}

fn model(gpu: &Gpu) -> Result<Vec<Parameter>, Box<dyn Error>> {
    let mut parameters = Vec::new();
    for _ in 0..LAYERS {
        for (length, decays) in
            [(4 * WIDTH * WIDTH, true), (WIDTH, false), (8 * WIDTH * WIDTH, true), (4 * WIDTH, false)]
        {
            parameters.push(Parameter::new(gpu, length, decays)?);
        }
    }
    Ok(parameters)
}

fn adamw(gpu: &Gpu, parameters: &[Parameter], state: &State) -> Result<Batch, Box<dyn Error>> {
    let expression = gpu.engine().expression(&parse(ADAMW, &Names::default())?)?;
    let (t, unscale) = (state.t.operand()?, state.unscale.operand()?);
    let mut sets = Vec::new();
    for parameter in parameters {
        let [m, v, p] = [parameter.m.operand()?, parameter.v.operand()?, parameter.p.operand()?];
        let inputs = vec![parameter.g.operand()?, m.clone(), v.clone(), p.clone(), t.clone(), unscale.clone()];
        sets.push(BatchSet::new(inputs, vec![m, v, p]).in_group(usize::from(parameter.decays)));
    }
    let scalars = [0.0, 0.1].map(|decay| vec![Value::Float(1e-3), Value::Float(decay)]);
    let overflow = state.overflow.operand()?;
    let options = BatchOptions { scalars: &scalars, skip: Some(&overflow), ..BatchOptions::default() };
    Ok(expression.batch(&sets, &options, gpu.stream())?)
}

fn time(gpu: &Gpu, step: &Batch, parameters: &[Parameter]) -> Result<(), Box<dyn Error>> {
    const STEPS: u32 = 50;
    gpu.wait()?;
    let begin = Instant::now();
    for _ in 0..STEPS {
        step.enqueue(gpu.stream())?;
    }
    let host = begin.elapsed() / STEPS;
    gpu.wait()?;
    let all = begin.elapsed() / STEPS;
    let elements: usize = parameters.iter().map(|parameter| parameter.p.len()).sum();
    let rate = 26.0 * elements as f64 / all.as_secs_f64() / 1e9;
    println!("{} sets, {elements} elements: {all:?} a step ({rate:.0} GB/s), {host:?} of the host's time", step.len());
    Ok(())
}
