//! Measures an expression on a device and explains the time in words. The argument is a device, by default `sim`, the simulated
//! one; `cuda:0` gives the full explanation.
//!
//! `cargo run --release -p plimsoll --example 05_explain -- cuda:0`
#![allow(clippy::print_stdout, reason = "it is a program")]

use std::error::Error;

use plimsoll::bench::Device;
use plimsoll::explain::{Explain, ExplainOptions};
use plimsoll::prelude::*;

fn main() -> Result<(), Box<dyn Error>> {
    let selector = std::env::args().nth(1).unwrap_or_else(|| "sim".to_owned());
    let mut device = Device::open(&selector.parse()?, &plimsoll::CudaOptions::default())?;
    let gelu = trace(|x: In<bf16>| x.gelu())?;
    let explanation = gelu.explain(&mut device, 1 << 24, &ExplainOptions::default())?;
    if let Some(line) = &explanation.measured {
        println!("measured: {:.1} µs", 1e6 * line.time.value);
    }
    println!("{}", explanation.words());
    Ok(())
}
