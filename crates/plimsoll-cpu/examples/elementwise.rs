//! Times one expression on the CPU: `elementwise "TEXT" DTYPE ELEMENTS THREADS [ordinary|nontemporal] [ISA]`. Prints the best
//! and the median of some runs in GB/s of the bytes that the expression must move, and the best in ns an element.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::AtomicBool;

use plimsoll_core::sample::{Check, Workload};
use plimsoll_cpu::arch::available;
use plimsoll_cpu::elementwise::{How, Load, StorePolicy};
use plimsoll_cpu::threads::{Team, affinity};
use plimsoll_cpu::timer::Timer;
use plimsoll_expr::{DType, Names, Problem, Value, parse};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [text, dtype, elements, threads, rest @ ..] = args.as_slice() else {
        return Err("usage: elementwise TEXT DTYPE ELEMENTS THREADS [ordinary|nontemporal] [ISA]".into());
    };
    let names = Names { default: Some(dtype.parse::<DType>()?), ..Names::default() };
    let graph = parse(text, &names)?;
    let scalars = vec![Value::Float(1.5); graph.scalars().len()];
    let problem = Problem::flat(&graph, elements.parse()?, &scalars)?;
    let threads: usize = threads.parse()?;
    let mut how = How::for_threads(threads);
    if rest.first().is_some_and(|stores| stores == "nontemporal") {
        how.stores = StorePolicy::NonTemporal;
    }
    if let Some(name) = rest.get(1) {
        how.isa = available().into_iter().find(|isa| isa.name() == name).ok_or("no such instruction set")?;
    }
    let cpus = affinity::allowed_cpus();
    let timer = Timer::best();
    let team = Rc::new(RefCell::new(Team::new(&cpus[..threads.min(cpus.len())], timer)?));
    let mut load = Load::new(team, &problem, &how, (0, 1), &AtomicBool::new(false))?;
    let mut ticks = [0; 15];
    load.sample(1, &mut ticks[..2])?;
    load.sample(1, &mut ticks)?;
    ticks.sort_unstable();
    let rate = |ticks: u64| problem.traffic().total() as f64 / (ticks as f64 * timer.tick_seconds()) / 1e9;
    if let Check::Failed(wrong) = load.check()? {
        return Err(wrong.into());
    }
    #[allow(clippy::print_stdout, reason = "an example's result")]
    {
        let each = ticks[0] as f64 * timer.tick_seconds() * 1e9 / problem.elements() as f64;
        println!("{:.2} best, {:.2} median GB/s, {each:.2} ns: {text}", rate(ticks[0]), rate(ticks[ticks.len() / 2]));
    }
    Ok(())
}
