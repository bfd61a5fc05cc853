//! Compiles a closure for the first CUDA device and runs it on buffers there. Needs an NVIDIA GPU with its driver and NVRTC.
//!
//! `cargo run --release -p plimsoll --example 06_cuda`
#![allow(clippy::print_stdout, reason = "it is a program")]

use std::error::Error;

use plimsoll::prelude::*;

fn main() -> Result<(), Box<dyn Error>> {
    let gpu = Cuda::device(0)?;
    let axpy = gpu.compile(&trace(|a: Scalar<f32>, x: In<bf16>, y: In<bf16>| (a * x + y).tanh())?)?;

    let x = gpu.upload(&[bf16::ONE; 1 << 20])?;
    let y = gpu.zeros::<bf16>(x.len())?;
    let mut out = gpu.zeros::<bf16>(x.len())?;
    axpy.run(0.5, &x, &y, &mut out)?; // queued on the stream of `gpu`
    axpy.run(0.25, &x, &y, &mut out)?; // another scalar needs no new compilation
    println!("tanh(0.25·1 + 0) = {}", gpu.download(&out)?[0]); // waits for the result
    Ok(())
}
