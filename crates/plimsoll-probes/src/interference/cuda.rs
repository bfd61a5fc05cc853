//! interference on a GPU: kernels of `stream` and copies by a copy engine, each alone and alongside each of the other kind.
//! `mod.rs` defines the figures.

use std::cell::RefCell;
use std::time::Duration;

use plimsoll_core::sample::{Batch, Workload};
use plimsoll_cuda::Action;
use plimsoll_cuda::Spinner;
use plimsoll_cuda::StreamAction;
use plimsoll_cuda::driver::{Context, Event, Stream};
use plimsoll_cuda::launch::Arguments;
use plimsoll_cuda::memory::{DeviceBuffer, HostBuffer, HostKind, Span};
use plimsoll_cuda::{Cuda, CudaDevice, wait};

use crate::cuda::checker::Checker;
use crate::cuda::kit::{Kit, requested_bytes};
use crate::cuda::window::fit_arrays;
use crate::interference::{self, Beside, Pair, Task};
use crate::prelude::gpu::*;
use crate::stream::kernels::Parameters;

/// Bytes per array of a kernel.
const ARRAY: u64 = 1 << 30;
/// Bytes of one copy between host and device.
const TRANSFER: u64 = 64 << 20;
/// How long the device is kept busy while both streams' work is queued.
const BUSY: Duration = Duration::from_micros(500);
/// Attempts at a sample whose competing work ended first.
const ATTEMPTS: u32 = 4;
/// Most launches of a sample.
const MOST_LAUNCHES: u32 = 8;
/// Most launches of the competing work.
const MOST_BESIDE: u32 = 64;
/// Share of samples that may lack full overlap: the same as may be outliers.
const UNCOVERED: f64 = 0.01;
/// Warm-up samples, in which the amount of competing work is adjusted.
const WARM_UPS: u32 = 2;
/// The content of a host buffer before a copy arrives.
const POISON: u8 = 0xcd;

/// The timed task, and the competing one.
type Spot = (Task, Option<Task>);

impl Run<Cuda> for super::CudaRunner {
    fn points(&self, _: &CudaDevice, _: &Request) -> usize {
        spots().len()
    }

    fn run(&self, session: &mut Session<'_, Cuda>) -> Result<(), Fault> {
        let wanted = requested_bytes(session, ARRAY)?;
        let (bytes, flags) = fit_arrays(session.device, 4, wanted)?;
        let bench = Bench::new(session.device, bytes.min(wanted), session.request.seed)?;
        let spots = spots();
        let sweep = Sweep { series: interference::rates(), points: &spots, share: 1.0, flags };
        let coordinates = |(work, beside): &Spot| Pair { work: *work, beside: Beside(*beside) };
        session.sweep(sweep, coordinates, |_, spot| bench.contest(*spot))?;
        Ok(())
    }

    fn verify(&self, device: &mut CudaDevice, _: Depth, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
        let bench = Bench::new(device, 16 << 20, 1)?;
        for (work, beside) in spots() {
            let mut contest = bench.contest((work, beside))?;
            let on = format!("alongside {}", Beside(beside).name());
            report(Case::from_sample(work.name(), on, &mut contest)?);
        }
        Ok(())
    }
}

/// Each task alone and alongside each of the other kind.
fn spots() -> Vec<Spot> {
    let beside = |work: Task, others: [Task; 2]| [(work, None), (work, Some(others[0])), (work, Some(others[1]))];
    let kernels = Task::KERNELS.into_iter().flat_map(|kernel| beside(kernel, Task::COPIES));
    kernels.chain(Task::COPIES.into_iter().flat_map(|copy| beside(copy, Task::KERNELS))).collect()
}

fn kernel(work: Task) -> (Op, KernelDesc) {
    // Reading takes four vectors a thread to fill the memory.
    let (op, unroll) = if work == Task::Read { (Op::Read, 4) } else { (Op::Copy, 1) };
    (op, Parameters { threads: 128, unroll, ..Parameters::new(op) }.kernel())
}

/// State shared by all points. `neighbours` uses it on every device.
pub(crate) struct Bench {
    pub(crate) kit: Kit,
    second: Arc<Stream>,
    spinner: Option<Arc<Spinner>>,
    pub(crate) input: Rc<DeviceBuffer>,
    pub(crate) out: Rc<DeviceBuffer>,
    /// Where copies from the host end.
    landing: Rc<DeviceBuffer>,
    /// What is copied from the host, and where copies to it end.
    host: Rc<RefCell<HostBuffer>>,
    arrival: Rc<RefCell<HostBuffer>>,
}

impl Bench {
    pub(crate) fn new(device: &CudaDevice, bytes: u64, seed: u64) -> Result<Self, Fault> {
        let kit =
            Kit::new(device, &crate::stream::kernels::SOURCE, &[kernel(Task::Read).1, kernel(Task::Copy).1], TRUST)?;
        let transfer = TRANSFER.min(bytes / 16 / 4096 * 4096).max(4096.min(bytes));
        let array = |bytes| Ok::<_, Fault>(Rc::new(kit.array(bytes)?));
        let (input, out, landing) = (array(bytes)?, array(bytes)?, array(transfer)?);
        kit.checker.fill(Data::Unit, Element::F32, input.whole(), seed)?;
        let mut host = HostBuffer::new(&device.context, HostKind::Pinned, transfer)?;
        host.copy_from(&device.stream, input.part(0, transfer)?)?;
        host.content()?;
        let arrival = HostBuffer::new(&device.context, HostKind::Pinned, transfer)?;
        let shared = |buffer| Rc::new(RefCell::new(buffer));
        let second = Arc::new(Stream::new(&device.context)?);
        let spinner = device.spinner.as_ref().ok().cloned();
        Ok(Self { kit, second, spinner, input, out, landing, host: shared(host), arrival: shared(arrival) })
    }

    /// Its device's context.
    pub(crate) fn context(&self) -> &Arc<Context> {
        self.kit.stream().context()
    }

    pub(crate) fn checker(&self) -> &Checker {
        &self.kit.checker
    }

    /// What a task launches or copies.
    pub(crate) fn action(&self, work: Task) -> Result<Action, Fault> {
        let transfer = self.landing.bytes();
        Ok(match work {
            Task::Up => Action::Other(StreamAction::Up(Rc::clone(&self.host), self.landing.whole())),
            Task::Down => Action::Other(StreamAction::Down(Rc::clone(&self.arrival), self.input.part(0, transfer)?)),
            _ => {
                let (_, kernel) = kernel(work);
                let n = self.input.bytes() / 4;
                let (out, a) = (self.out.whole(), self.input.whole());
                let list = Arguments::new().span(out).span(a).span(a).span(a).f32(1.0).u64(n);
                Action::Launch(self.kit.unit.launch(&kernel, n, list)?)
            }
        })
    }

    /// Bytes that a task moves.
    pub(crate) fn traffic(&self, work: Task) -> Traffic {
        match work {
            Task::Up => Traffic::new(0, self.landing.bytes()),
            Task::Down => Traffic::new(self.landing.bytes(), 0),
            _ => kernel(work).1.traffic(self.input.bytes() / 4),
        }
    }

    fn contest(&self, (work, beside): Spot) -> Result<Contest, Fault> {
        let context = self.kit.stream().context();
        let beside = beside.map(|beside| self.action(beside)).transpose()?;
        Ok(Contest {
            streams: [Arc::clone(self.kit.stream()), Arc::clone(&self.second)],
            action: self.action(work)?,
            beside,
            more: 1,
            taken: 0,
            uncovered: 0,
            events: [Event::new(context)?, Event::new(context)?, Event::new(context)?],
            spinner: self.spinner.clone(),
            work: Work { traffic: self.traffic(work), operations: 1.0, ..Work::default() },
            verdict: self.verdict(work),
        })
    }

    /// The check of a task's result.
    pub(crate) fn verdict(&self, work: Task) -> Verdict {
        Verdict {
            work,
            checker: Rc::clone(&self.kit.checker),
            input: Rc::clone(&self.input),
            out: Rc::clone(&self.out),
            landing: Rc::clone(&self.landing),
            arrival: Rc::clone(&self.arrival),
        }
    }
}

/// Checks the result of the timed work.
pub(crate) struct Verdict {
    work: Task,
    checker: Rc<Checker>,
    input: Rc<DeviceBuffer>,
    out: Rc<DeviceBuffer>,
    landing: Rc<DeviceBuffer>,
    arrival: Rc<RefCell<HostBuffer>>,
}

impl Verdict {
    /// Poisons what the work writes.
    pub(crate) fn poison(&self) -> Result<(), Fault> {
        match self.work {
            Task::Up => self.checker.poison(self.landing.whole()),
            Task::Down => {
                self.arrival.borrow_mut().content()?.fill(POISON);
                Ok(())
            }
            _ => self.checker.poison(self.out.whole()),
        }
    }

    fn same(&self, there: Span, from: Span) -> Result<Check, Fault> {
        self.checker.check_map(Op::Copy, Element::Word, there, [from; 3], 0.0)
    }

    /// Compares what the work left with what it should leave.
    pub(crate) fn check(&self, stream: &Arc<Stream>) -> Result<Check, Fault> {
        let transfer = self.input.part(0, self.landing.bytes())?;
        match self.work {
            Task::Up => self.same(self.landing.whole(), transfer),
            Task::Down => {
                self.checker.poison(self.landing.whole())?;
                self.arrival.borrow_mut().copy_to(stream, self.landing.whole())?;
                self.same(self.landing.whole(), transfer)
            }
            Task::Read => {
                // The read kernel leaves an XOR per warp.
                let (_, kernel) = kernel(Task::Read);
                let n = self.input.bytes() / 4;
                let warps = n.div_ceil(kernel.elements_per_block()) * u64::from(kernel.threads / 32);
                let (left, expected) = (self.out.part(0, 4 * warps)?, self.checker.xor_words(self.input.whole())?);
                Ok(Checker::compare_folds("read", self.checker.xor_words(left)?, expected))
            }
            _ => self.same(self.out.whole(), self.input.whole()),
        }
    }
}

/// One action repeated between two events, while another runs longer.
struct Contest {
    streams: [Arc<Stream>; 2],
    action: Action,
    beside: Option<Action>,
    /// Launches of the competing work that outlast a sample.
    more: u32,
    /// Samples so far, and those after the warm-up whose competing work ended first in every attempt.
    taken: u32,
    uncovered: u32,
    /// Begin of both, end of each.
    events: [Event; 3],
    spinner: Option<Arc<Spinner>>,
    work: Work,
    verdict: Verdict,
}

impl Contest {
    /// One sample: its length, and whether the competing work lasted until its end.
    fn once(&mut self, k: u32) -> Result<(u64, bool), Fault> {
        let ([first, second], [begin, end, others]) = (&self.streams, &self.events);
        if let Some(spinner) = &self.spinner {
            spinner.spin(first, BUSY)?;
        }
        begin.record(first)?;
        (0..k).try_for_each(|_| self.action.enqueue(first))?;
        end.record(first)?;
        let Some(beside) = &self.beside else {
            wait::event(end)?;
            return Ok((end.nanoseconds_since(begin)?, true));
        };
        second.wait_for(begin)?;
        (0..self.more).try_for_each(|_| beside.enqueue(second))?;
        others.record(second)?;
        first.wait_for(others)?;
        wait::stream(first)?;
        let (own, other) = (end.nanoseconds_since(begin)?, others.nanoseconds_since(begin)?);
        if other < own {
            // A tenth more than would have sufficed.
            let needed = f64::from(self.more) * own as f64 / other.max(1) as f64;
            self.more = ((1.1 * needed) as u32 + 1).min(MOST_BESIDE);
        }
        Ok((own, other >= own))
    }
}

impl Workload for Contest {
    fn work(&self) -> Work {
        self.work
    }

    fn batch(&self) -> Batch {
        Batch { cycle: 1, max: MOST_LAUNCHES }
    }

    fn prepare(&mut self, _: u32) -> Result<(), Fault> {
        self.streams[0].context().bind()?;
        self.verdict.poison()
    }

    fn sample(&mut self, k: u32, out: &mut [u64]) -> Result<(), Fault> {
        self.streams[0].context().bind()?;
        for sample in out {
            let mut covered = false;
            for _ in 0..ATTEMPTS {
                (*sample, covered) = self.once(k)?;
                if covered {
                    break;
                }
            }
            self.taken += 1;
            self.uncovered += u32::from(!covered && self.taken > WARM_UPS);
        }
        Ok(())
    }

    fn check(&mut self) -> Result<Check, Fault> {
        wait::stream(&self.streams[0])?;
        let overlap = overlap(self.uncovered, self.taken);
        if overlap != Check::Passed {
            return Ok(overlap);
        }
        self.verdict.check(&self.streams[0])
    }
}

/// Whether nearly all samples had full overlap: others would understate the interference.
fn overlap(uncovered: u32, taken: u32) -> Check {
    if f64::from(uncovered) <= UNCOVERED * f64::from(taken) {
        return Check::Passed;
    }
    Check::Failed(format!(
        "the competing work ended first in {uncovered} of {taken} samples, in all {ATTEMPTS} attempts"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_a_few_samples_without_full_overlap_fail_the_point() {
        assert_eq!([overlap(0, 0), overlap(1, 100)], [Check::Passed, Check::Passed]);
        assert!(matches!(overlap(2, 100), Check::Failed(why) if why.contains("2 of 100")));
        assert!(matches!(overlap(1, 30), Check::Failed(_)));
    }

    #[test]
    fn every_task_is_measured_alone_and_alongside_the_other_kind() {
        let spots = spots();
        assert_eq!(spots.len(), 12);
        for work in Task::ALL {
            assert!(spots.contains(&(work, None)));
        }
        let has = |work, beside| spots.contains(&(work, Some(beside)));
        assert!(has(Task::Up, Task::Copy) && has(Task::Read, Task::Down) && !has(Task::Up, Task::Down));
    }
}
