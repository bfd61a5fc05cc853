//! Measures one probe and prints its findings. Arguments are a device and a probe, by default `cpu` and `latency`; `sim` is a
//! simulated device.
//!
//! `cargo run --release -p plimsoll --example 02_measure -- cpu latency`
#![allow(clippy::print_stdout, reason = "it is a program")]

use std::error::Error;
use std::sync::atomic::AtomicBool;

use plimsoll::prelude::*;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let device: DeviceSelector = arguments.next().as_deref().unwrap_or("cpu").parse()?;
    let probe = arguments.next().unwrap_or_else(|| "latency".to_owned());

    let mut devices = plimsoll::open(&device)?.devices;
    let plan = Plan { probes: vec![probe], ..Plan::default() };
    let mut records: Vec<Record> = Vec::new(); // a `Writer` would write a file
    plimsoll::measure(&mut devices, &plan, &mut records, &AtomicBool::new(false))?;

    for record in records {
        match record {
            Record::Finding(finding) => println!("{}: {}", finding.name, finding.unit.format(finding.value)),
            Record::Fault(fault) => println!("{}: {}", fault.probe, fault.what),
            _ => {}
        }
    }
    Ok(())
}
