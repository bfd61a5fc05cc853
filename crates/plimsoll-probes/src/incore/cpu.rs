//! incore on the CPU: each instruction in 1 to 12 independent chains on one core, then each again where it was fastest, since
//! the best of several figures is biased. `mod.rs` defines the figures.

use plimsoll_core::series::{Axes as _, Series};
use plimsoll_cpu::arch::instruction::{
    ILP, Instruction, Kernel, Number, Operation, Width, instructions, kernel, naive,
};
use plimsoll_cpu::timer::Timer;

use crate::incore::{self, Chains};
use crate::prelude::cpu::*;

/// Length of one launch, seconds. Between two launches stands other code, and a core that goes from wide vectors to other
/// code and back may halt for a microsecond to change its clock (measured on an Emerald Rapids core: 1.3 µs in about every
/// second launch of dense 512-bit FMA): half a per cent of this.
const LAUNCH_SECONDS: f64 = 300e-6;
/// Loop iterations that a launch's length is planned from, and the fewest of a launch.
const TRIAL_ITERATIONS: u64 = 64;
/// Most iterations in one launch: as many as a loop makes before it seeds its chains again.
const MOST_ITERATIONS: u64 = 1 << 15;
/// Chains tried in a quick run.
const QUICK_ILP: [usize; 5] = [1, 2, 4, 8, 12];
/// Share of the budget for the sweep over chains.
const SEARCH: f64 = 0.8;

impl Run<Cpu> for super::CpuRunner {
    fn points(&self, _: &CpuDevice, request: &Request) -> usize {
        let kernels = plan(request.effort);
        kernels.len() + kernels.iter().filter(|kernel| kernel.ilp() == 1).count()
    }

    fn run(&self, session: &mut Session<'_, Cpu>) -> Result<(), Fault> {
        let kernels = plan(session.request.effort);
        let team = team(session, 1)?;
        let load = |kernel: &Kernel| Ok(load(&team, *kernel));
        let sweep = Sweep { series: incore::operations(), points: &kernels, share: SEARCH, flags: Flags::NONE };
        let series = session.sweep(sweep, coordinates, |_, kernel| load(kernel))?;
        let fastest = fastest(series, &kernels);
        let sweep = Sweep { series: incore::best(), points: &fastest, share: 1.0 - SEARCH, flags: Flags::NONE };
        session.sweep(sweep, coordinates, |_, kernel| load(kernel)).map(drop)
    }

    fn verify(&self, _: &mut CpuDevice, depth: Depth, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
        let mut iterations = vec![1, 2, 3, 5, 7, 31, 32, 33];
        match depth {
            Depth::Small => {}
            Depth::Usual => iterations.push(1025),
            Depth::Exhaustive => iterations.extend((1..=100).chain([1025, 32_767, 32_768, 32_769])),
        }
        let all = instructions();
        for kernel in all.into_iter().flat_map(|one| ILP.into_iter().filter_map(|ilp| kernel(one, ilp))) {
            for &iterations in &iterations {
                let wrong = wrong(kernel, iterations, |chain| kernel.run(iterations)[chain]);
                let on = format!("{} chains, {iterations} iterations", kernel.ilp());
                report(Case { kernel: name(kernel.instruction()), on, wrong });
            }
        }
        Ok(())
    }
}

/// The instruction as the axis names it: operation, type, width.
fn name(instruction: &Instruction) -> String {
    format!("{} {} {}", instruction.name(), instruction.number.name(), instruction.width.name())
}

fn coordinates(kernel: &Kernel) -> Chains {
    Chains { instruction: name(kernel.instruction()).into(), ilp: (kernel.ilp() as u64).into() }
}

/// Every kernel that an effort measures.
fn plan(effort: Effort) -> Vec<Kernel> {
    let quick = effort == Effort::Quick;
    let wanted = |one: &&Instruction| !quick || matches!(one.number, Number::F64 | Number::I64);
    let ilp: &[usize] = if quick { &QUICK_ILP } else { &ILP };
    let kernels = |one: &'static Instruction| ilp.iter().filter_map(move |&ilp| kernel(one, ilp));
    instructions().into_iter().filter(wanted).flat_map(kernels).collect()
}

/// The kernel of each instruction that took the fewest cycles.
fn fastest(series: &Series, kernels: &[Kernel]) -> Vec<Kernel> {
    let first = kernels.iter().filter(|kernel| kernel.ilp() == 1);
    let best = |first: &Kernel| {
        let name = name(first.instruction());
        let is_of = |at: Chains| at.instruction.as_str() == name;
        let (row, _) = series.best("cycles", |row| Chains::from_values(&row.at).is_some_and(is_of))?;
        kernel(first.instruction(), Chains::from_values(&row.at)?.ilp.0 as usize)
    };
    first.filter_map(best).collect()
}

fn load(team: &std::rc::Rc<std::cell::RefCell<Team>>, kernel: Kernel) -> TeamLoad {
    let iterations = iterations(&team.borrow().timer(), kernel);
    // The initial value is one that no chain ends on.
    let last: Arc<Vec<AtomicU64>> = Arc::new((0..kernel.ilp()).map(|_| AtomicU64::new(u64::MAX)).collect());
    let task = Task::new({
        let last = last.clone();
        move |_| {
            let links = kernel.run(iterations);
            last.iter().zip(links).for_each(|(last, link)| last.store(link, Ordering::Relaxed));
        }
    });
    let check =
        move || match wrong(kernel, iterations, |chain| last.get(chain).map_or(0, |link| link.load(Ordering::Relaxed)))
        {
            right if right.is_empty() => Check::Passed,
            wrong => Check::Failed(wrong),
        };
    let work = Work { operations: kernel.operations(iterations) as f64, in_kernel: true, ..Work::default() };
    let lap = lap(&kernel);
    TeamLoad { team: team.clone(), task, work, lap, batch: Batch::default(), check: Box::new(check) }
}

/// 512-bit multipliers in at least eight chains keep their ports full, and the core then lowers its clock; the same in
/// fewer chains, additions and dividers don't (measured on an Emerald Rapids core, whose clock is 2.77 GHz there and 2.99
/// elsewhere).
fn lap(kernel: &Kernel) -> Lap {
    let Instruction { width, operation, .. } = kernel.instruction();
    let multiplies = matches!(operation, Operation::Mul | Operation::Fma);
    match width {
        Width::V512 if multiplies && kernel.ilp() >= 8 => Lap::Dense,
        Width::V256 | Width::V512 => Lap::Warm,
        Width::Scalar | Width::V128 => Lap::First,
    }
}

/// Loop iterations that make a launch about [`LAUNCH_SECONDS`] long.
fn iterations(timer: &Timer, kernel: Kernel) -> u64 {
    let trial = |_| {
        let begin = timer.now();
        std::hint::black_box(kernel.run(TRIAL_ITERATIONS));
        timer.now().saturating_sub(begin)
    };
    let seconds = timer.seconds((0..3).map(trial).min().unwrap_or(0)).max(1e-9);
    ((LAUNCH_SECONDS / seconds * TRIAL_ITERATIONS as f64) as u64).clamp(TRIAL_ITERATIONS, MOST_ITERATIONS)
}

/// The first chain that doesn't end where the oracle's does; empty where all do.
fn wrong(kernel: Kernel, iterations: u64, last: impl Fn(usize) -> u64) -> String {
    let kept = kernel.instruction().lane_mask();
    let mut expected = naive(kernel, iterations).into_iter().enumerate();
    let differs = expected.find(|&(chain, expected)| last(chain) & kept != expected);
    differs.map_or_else(String::new, |(chain, expected)| {
        format!("chain {chain} ended on {:#x} instead of {expected:#x}", last(chain) & kept)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_instruction_is_measured_in_one_chain_and_in_several() {
        for effort in Effort::ALL {
            let kernels = plan(effort);
            let is_single = |kernel: &&Kernel| kernel.ilp() == 1;
            for kernel in kernels.iter().filter(is_single) {
                let same = kernels.iter().filter(|other| name(other.instruction()) == name(kernel.instruction()));
                assert!(same.count() >= 3);
            }
        }
    }

    #[test]
    fn every_kernel_that_verify_tries_is_right() {
        let cases = crate::verified::verify_on_cpu(&crate::incore::SPEC);
        assert!(cases >= 8 * 8);
    }

    #[test]
    fn a_chain_with_a_wrong_end_is_reported() {
        let kernel = plan(Effort::Quick)[0];
        assert_eq!(wrong(kernel, 3, |chain| kernel.run(3)[chain]), "");
        assert!(wrong(kernel, 3, |chain| kernel.run(4)[chain]).contains("chain 0"));
    }
}
