//! Predicts the time of an expression on GPUs that need not be present, and what limits it. Needs no GPU; instruction counts are
//! rough estimates.
//!
//! `cargo run -p plimsoll --example 03_predict -- 'x + 1'`
#![allow(clippy::print_stdout, reason = "it is a program")]

use std::error::Error;

use plimsoll::expr::{DType, Names, Problem, parse};
use plimsoll::predict::model::Cache;
use plimsoll::predict::{Choose, find_machine, predict_problem};

fn main() -> Result<(), Box<dyn Error>> {
    let text = std::env::args().nth(1).unwrap_or_else(|| "x + 1".to_owned());
    let graph = parse(&text, &Names::with_default(DType::F32))?;
    let scalars = []; // `text` declares no run-time scalars
    let problem = Problem::flat(&graph, 1 << 26, &scalars)?;
    for name in ["H200", "H100 SXM", "A100 80GB", "L4"] {
        let machine = find_machine(name)?;
        let conditions = (Cache::Cold, machine.launch(false));
        let prediction = predict_problem(&machine, &problem, &Choose::default(), conditions, None)?.prediction;
        if let (Some(total), Some(limiter)) = (prediction.total, prediction.limiter) {
            println!("{name}: {:.0} µs, limited by {limiter}", 1e6 * total.value);
        }
    }
    Ok(())
}
