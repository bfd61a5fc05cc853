//! Compiles a closure for the CPU and runs it on ordinary slices, on all cores. Needs no GPU.
//!
//! `cargo run --release -p plimsoll --example 04_expression`
#![allow(clippy::print_stdout, reason = "it is a program")]

use std::error::Error;

use plimsoll::prelude::*;

fn main() -> Result<(), Box<dyn Error>> {
    let axpy = trace(|a: Scalar<f32>, x: In<f32>, y: In<f32>| (a * x + y).tanh())?;
    println!("{}", axpy.graph()); // the same expression as text
    let axpy = Cpu::new()?.compile(&axpy)?;

    let x = vec![1.0_f32; 1 << 20];
    let y = vec![0.5_f32; 1 << 20];
    let mut out = vec![0.0_f32; 1 << 20];
    axpy.run(0.25, &x, &y, &mut out)?;
    println!("tanh(0.25·1 + 0.5) = {}", out[0]);

    // The same from text; `call` returns its result in a new vector.
    let text = Traced::<(Scalar<f32>, In<f32>, In<f32>), In<f32>>::from_text(&["a", "x", "y"], "tanh(a*x + y)")?;
    let again = Cpu::new()?.compile(&text)?.call(0.25, &x, &y)?;
    println!("from text: {}", again[0]);

    // An optimizer step: the momentum `m` and the parameters `p` are updated in place.
    let step = trace(|rate: Scalar<f32>, g: In<f32>, m: InOut<f32>, p: InOut<f32>| {
        let momentum = 0.9 * m.get() + g;
        m.set(momentum);
        p.set(p.get() - rate * momentum);
    })?;
    let step = Cpu::new()?.compile(&step)?;
    let (gradient, mut m, mut p) = (vec![1.0_f32; 1000], vec![0.0_f32; 1000], vec![1.0_f32; 1000]);
    step.run(0.5, &gradient, &mut m, &mut p, ())?;
    println!("m = {}, p = {}", m[0], p[0]);
    Ok(())
}
