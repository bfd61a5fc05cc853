//! Would the model choose better plans than the rule of bytes in flight, where no table was measured? Both choose among the plans
//! that `records/model/h200-plans.csv.gz` has times of, so what each choice costs is known.

use std::collections::BTreeMap;
use std::fmt::Write;

use anyhow::{Context, Result};
use plimsoll_core::model::{Description, LaunchForm, predict};

use super::{Shape, code_of, description, number, rows};

/// A plan of the sweep: bytes per access, accesses per operand and thread, threads per block.
type Choice = (u32, u32, u32);

/// One expression at one size, launched in one way: each plan with what it does and what it took.
#[derive(Default)]
struct Contest(BTreeMap<Choice, (Description, f64)>);

/// What the rule of `plimsoll-gen`'s planner takes on an H200: one access of 16 bytes, as many as keep 24 bytes per thread in
/// flight, blocks of 256.
fn rule(inputs: u32) -> Choice {
    let per_thread: u32 = (48 << 10) / 2048;
    (16, per_thread.div_ceil(16 * inputs).clamp(1, 4).next_power_of_two(), 256)
}

/// Predictions nearer to each other than this are alike: then the rule's plan stays.
const ALIKE: f64 = 0.01;

fn contests() -> Result<BTreeMap<(String, bool, u64), Contest>> {
    let mut contests: BTreeMap<(String, bool, u64), Contest> = BTreeMap::new();
    for row in rows("h200-plans.csv.gz")? {
        let op = row.get("op").cloned().unwrap_or_default();
        let [vector, unroll, threads] = ["vector", "unroll", "block"].map(|name| number(&row, name).map(|n| n as u32));
        let (vector, unroll, threads) = (vector?, unroll?, threads?);
        let (bytes, dependent) = (number(&row, "bytes")? as u64, number(&row, "dependent")? > 0.0);
        let inputs = if op.starts_with("triad") { 2 } else { 1 };
        let shape = Shape { inputs, vector, unroll, threads, registers: 18 + inputs * vector * unroll / 4 };
        let launch = if dependent { LaunchForm::GraphDependent } else { LaunchForm::Graph };
        let described = description(&shape, bytes, launch, &code_of(&op, vector * unroll));
        let seconds = number(&row, "us")? * 1e-6;
        contests.entry((op, dependent, bytes)).or_default().0.insert((vector, unroll, threads), (described, seconds));
    }
    Ok(contests)
}

/// How much longer than the fastest plan those take that each way of choosing takes, by expression and way to launch.
#[derive(Default)]
struct Losses {
    rule: Vec<f64>,
    model: Vec<f64>,
}

/// # Errors
/// A record that can't be read.
pub fn table() -> Result<String> {
    let h200 = plimsoll_suite::model::of_machine("H200")?;
    let mut all: BTreeMap<String, Losses> = BTreeMap::new();
    for ((op, dependent, _), Contest(plans)) in contests()? {
        let inputs = if op.starts_with("triad") { 2 } else { 1 };
        let fastest = plans.values().map(|(_, seconds)| *seconds).fold(f64::INFINITY, f64::min);
        let (described, by_rule) = plans.get(&rule(inputs)).context("the sweep has the rule's plan")?;
        let expected = |described: &Description| predict(described, &h200).total.map_or(f64::INFINITY, |t| t.value);
        let best = plans.values().min_by(|a, b| expected(&a.0).total_cmp(&expected(&b.0))).context("no plans")?;
        let by_model = if expected(&best.0) < (1.0 - ALIKE) * expected(described) { best.1 } else { *by_rule };
        let way = if dependent { "dependent" } else { "plain" };
        for name in [format!("{op}, {way}"), "**all**".to_owned()] {
            let losses = all.entry(name).or_default();
            losses.rule.push(by_rule / fastest - 1.0);
            losses.model.push(by_model / fastest - 1.0);
        }
    }
    let mut text = String::from(
        "| plans of | sizes | rule: mean loss | worst | model: mean loss | worst |\n| --- | ---: | ---: | ---: | ---: | ---: |\n",
    );
    for (name, losses) in &all {
        let mean = |of: &[f64]| 100.0 * of.iter().sum::<f64>() / of.len() as f64;
        let worst = |of: &[f64]| 100.0 * of.iter().copied().fold(0.0, f64::max);
        let Losses { rule, model } = losses;
        let (a, b, c, d) = (mean(rule), worst(rule), mean(model), worst(model));
        writeln!(text, "| {name} | {} | {a:.1} % | {b:.1} % | {c:.1} % | {d:.1} % |", rule.len())?;
    }
    Ok(text)
}
