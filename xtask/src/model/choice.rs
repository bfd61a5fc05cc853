//! Compares two ways to choose a plan where no table was measured: the model, and the rule of bytes in flight. Both choose among
//! the plans with times in `records/model/h200-plans.csv.gz`, so the cost of each choice is known.

use std::collections::BTreeMap;
use std::fmt::Write;

use anyhow::{Context, Result};
use plimsoll_core::model::{Description, predict};

use super::{TimedPlan, timed_plans};

/// A plan of the sweep: bytes per access, accesses per operand and thread, threads per block.
type Choice = (u32, u32, u32);

/// One expression at one size and launch form: each plan with its description and its time in seconds.
#[derive(Default)]
struct Contest(BTreeMap<Choice, (Description, f64)>);

/// The plan that the rule of `plimsoll-gen`'s planner chooses on an H200: accesses of 16 bytes, enough of them for 24 bytes per
/// thread in flight, and blocks of 256 threads.
fn choose_by_rule(inputs: u32) -> Choice {
    let per_thread: u32 = (48 << 10) / 2048;
    (16, per_thread.div_ceil(16 * inputs).clamp(1, 4).next_power_of_two(), 256)
}

/// If predictions differ by less than this share, the rule's plan is kept.
const TOLERANCE: f64 = 0.01;

fn contests() -> Result<BTreeMap<(String, bool, u64), Contest>> {
    let mut contests: BTreeMap<(String, bool, u64), Contest> = BTreeMap::new();
    for TimedPlan { op, dependent, bytes, shape, description, seconds } in timed_plans()? {
        let choice = (shape.vector, shape.unroll, shape.threads);
        contests.entry((op, dependent, bytes)).or_default().0.insert(choice, (description, seconds));
    }
    Ok(contests)
}

/// For each way to choose: how much longer its plan takes than the fastest, as a share.
#[derive(Default)]
struct Losses {
    rule: Vec<f64>,
    model: Vec<f64>,
}

/// The table: mean and worst loss of each way to choose, by expression and launch form.
pub fn table() -> Result<String> {
    let h200 = plimsoll_suite::model::of_machine("H200")?;
    let mut all: BTreeMap<String, Losses> = BTreeMap::new();
    for ((op, dependent, _), Contest(plans)) in contests()? {
        let inputs = if op.starts_with("triad") { 2 } else { 1 };
        let fastest = plans.values().map(|(_, seconds)| *seconds).fold(f64::INFINITY, f64::min);
        let (described, by_rule) = plans.get(&choose_by_rule(inputs)).context("the sweep has the rule's plan")?;
        let expected = |described: &Description| predict(described, &h200).total.map_or(f64::INFINITY, |t| t.value);
        let best = plans.values().min_by(|a, b| expected(&a.0).total_cmp(&expected(&b.0))).context("no plans")?;
        let by_model = if expected(&best.0) < (1.0 - TOLERANCE) * expected(described) { best.1 } else { *by_rule };
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
        let mean = |losses: &[f64]| 100.0 * losses.iter().sum::<f64>() / losses.len() as f64;
        let worst = |losses: &[f64]| 100.0 * losses.iter().copied().fold(0.0, f64::max);
        let Losses { rule, model } = losses;
        let (a, b, c, d) = (mean(rule), worst(rule), mean(model), worst(model));
        writeln!(text, "| {name} | {} | {a:.1} % | {b:.1} % | {c:.1} % | {d:.1} % |", rule.len())?;
    }
    Ok(text)
}
