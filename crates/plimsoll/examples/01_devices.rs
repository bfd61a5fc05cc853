//! Lists the devices of this machine with the probes that each can run. Needs no GPU.
//!
//! `cargo run -p plimsoll --example 01_devices`
#![allow(clippy::print_stdout, reason = "it is a program")]

use plimsoll::prelude::*;

fn main() {
    let opened = plimsoll::survey();
    for device in &opened.devices {
        println!("{}: {}", device.info().selector, device.info().name);
        for listing in device.probes(&Request::default()) {
            match listing.supported {
                Ok(()) => println!("  {:<20} {}", listing.spec.name, listing.spec.sentence),
                Err(fault) => println!("  {:<20} not here: {fault}", listing.spec.name),
            }
        }
    }
    for (name, fault) in &opened.missing {
        println!("{name}: {fault}");
    }
}
