//! One program for the CPU and for a GPU: typed calls of a closure, and calls of a text whose types are known only at run time.
//! Takes the device's name, `cpu`, `cuda:0` or `auto` (the first GPU, else the CPU).
//!
//! `cargo run --release -p plimsoll --example 11_one_device -- auto`
#![allow(clippy::print_stdout, reason = "it is a program")]

use std::error::Error;

use plimsoll::elementwise::Expression;
use plimsoll::expr::DType;
use plimsoll::prelude::*;

fn main() -> Result<(), Box<dyn Error>> {
    let name = std::env::args().nth(1).unwrap_or_else(|| "auto".to_owned());
    let device = Device::open(&name)?;
    println!("{device}: {}", device.model());
    typed(&device)?;
    untyped(&device)
}

/// The compiler checks types; every call checks shapes.
fn typed(device: &Device) -> Result<(), Box<dyn Error>> {
    let axpy = device.compile(&trace(|a: Scalar<f32>, x: In<f32>, y: In<f32>| (a * x + y).tanh())?)?;
    let x = device.upload(&vec![1.0_f32; 1 << 20])?;
    let y = device.upload(&vec![0.5_f32; 1 << 20])?;
    let mut out = device.zeros::<f32>(x.len())?;
    axpy.run(0.25, &x, &y, &mut out)?; // into memory that exists
    println!("tanh(0.25·1 + 0.5) = {}", device.download(&out)?[0]);

    // Into new memory, with a column and a row that are broadcast.
    let (column, row) = (device.upload(&[1.0_f32, 2.0, 3.0])?, device.upload(&[10.0_f32, 20.0])?);
    let sum = device.compile(&trace(|x: In<f32>, y: In<f32>| x + y)?)?;
    let table = sum.call(&column.shaped(&[3, 1])?, &row)?;
    println!("{:?}: {:?}", table.shape(), table.to_vec()?);
    Ok(())
}

/// A text, its types and its operands by name, as a program that reads them from somewhere has them.
fn untyped(device: &Device) -> Result<(), Box<dyn Error>> {
    let text = "m = 0.9*m + g; p = p - rate*m";
    let step: Expression = device.expression(text).scalar("rate", DType::F32).tensors(DType::F32).compile()?;
    for parameter in step.parameters() {
        println!("{}: {:?} of {}", parameter.name, parameter.role, parameter.dtype);
    }
    let gradient = device.upload(&[1.0_f32, -1.0])?.into_any();
    let (m, p) = (device.any_zeros(DType::F32, &[2])?, device.any_zeros(DType::F32, &[2])?);
    let mut call = step.new_call();
    call.set("g", &gradient)?.set("m", &m)?.set("p", &p)?;
    for rate in [0.5, 0.25] {
        call.set("rate", rate)?.run()?; // the rest stays
    }
    println!("m = {:?}, p = {:?}", m.to_vec::<f32>()?, p.to_vec::<f32>()?);

    // A wrong name is an error that knows the right ones.
    if let Err(error) = call.set("rte", 1.0) {
        println!("{error}");
    }
    Ok(())
}
