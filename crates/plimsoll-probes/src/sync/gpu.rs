//! sync on a GPU: barriers of every scope with in-kernel timing, and events timed by the device and by the host.
//! `crate::sync` explains the figures; the kernels are in `kernel.cu`.

use std::time::{Duration, Instant};

use plimsoll_core::sample::{Batch, Workload};
use plimsoll_gpu::in_kernel::{BlockReport, LastLaunches};
use plimsoll_gpu::{Form, Geometry};

use super::kernels::{self, Meeting};
use crate::prelude::gpu::*;
use crate::sync::{self, ByThreads, Primitive};

/// Cluster sizes, in blocks, that every device with clusters supports.
const CLUSTERS: [u32; 3] = [2, 4, 8];
/// Most round trips between streams in one sample, and most events in one stream: their calls must fit into the time that
/// the device is kept busy.
const MOST_EVENTS: (u32, u32) = (64, 1024);
/// How long the blocking kernel runs while they are queued.
const BLOCKED: Duration = Duration::from_millis(2);
/// Barriers in a checked kernel.
const CHECKED: u32 = 96;

/// A point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spot {
    /// A barrier: its kind, threads per block and number of blocks.
    Meeting(Meeting, u32, u32),
    /// Events in streams.
    Events(Primitive),
}

impl<G: Gpu> Run<G> for super::GpuRunner {
    const NEEDS: &'static [Need] = &[Need::Code(&kernels::SOURCE), Need::KernelClock];

    fn points(&self, device: &G::Device, request: &Request) -> usize {
        spots::<G>(device, request.effort).len()
    }

    fn run(&self, session: &mut Session<'_, G>) -> Result<(), Fault> {
        let bench = Bench::<G>::new(session.device)?;
        let spots = spots::<G>(session.device, session.request.effort);
        let sweep = Sweep { series: sync::primitives(), points: &spots, share: 1.0, flags: Flags::NONE };
        session.sweep(sweep, coordinates, |_, spot| bench.load(*spot))?;
        Ok(())
    }

    fn verify(&self, device: &mut G::Device, _: Depth, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
        let bench = Bench::<G>::new(device)?;
        for kernel in &bench.kernels {
            let meeting = Meeting::ALL.into_iter().find(|m| {
                m.threads()
                    .iter()
                    .any(|t| [false, true].iter().any(|c| kernels::rounds(*m, *t, *c).name == kernel.name))
            });
            let Some(meeting) = meeting else {
                bench.kit.run_once(&bench.kit.unit.launch(kernel, 0, Arguments::new())?)?;
                G::wait(bench.kit.stream())?;
                report(Case { kernel: kernel.name.clone(), on: "one block".to_owned(), wrong: String::new() });
                continue;
            };
            if !supports_barrier::<G>(device, meeting) {
                continue;
            }
            for blocks in bench.blocks(meeting) {
                let reports = bench.in_kernel(kernel, meeting, blocks, CHECKED)?.run_once()?.to_vec();
                let wrong = wrong(&reports, kernel, CHECKED);
                report(Case { kernel: kernel.name.clone(), on: format!("{blocks} blocks, {CHECKED} meetings"), wrong });
            }
        }
        Ok(())
    }
}

/// Describes the first wrong report of a launch with `meetings` barriers; empty if there is none.
fn wrong(reports: &[BlockReport], kernel: &KernelDesc, meetings: u32) -> String {
    let checked = kernel.name.ends_with("_checked");
    let right = if checked { u64::from(meetings) * u64::from(kernel.threads) } else { 0 };
    let differs = |report: &BlockReport| (report.count, report.found) != (u64::from(meetings), right);
    reports.iter().position(differs).map_or(String::new(), |block| {
        let BlockReport { count, found, .. } = reports[block];
        format!("block {block} met {count} times and found {found} of {right} marks")
    })
}

fn coordinates(spot: &Spot) -> ByThreads {
    let (primitive, threads) = match *spot {
        Spot::Meeting(Meeting::Warp, ..) => (Primitive::Warp, 32),
        Spot::Meeting(Meeting::Block, threads, _) => (Primitive::Block, threads),
        Spot::Meeting(Meeting::Half, threads, _) => (Primitive::Half, threads / 2),
        Spot::Meeting(Meeting::Cluster, threads, blocks) => (Primitive::Cluster, threads * blocks),
        Spot::Meeting(Meeting::Grid, threads, blocks) => (Primitive::Grid, threads * blocks),
        Spot::Events(primitive) => (primitive, 0),
    };
    ByThreads { primitive, threads: threads.into() }
}

/// Whether a device supports this kind of barrier.
fn supports_barrier<G: Gpu>(device: &G::Device, meeting: Meeting) -> bool {
    match meeting {
        Meeting::Warp | Meeting::Block | Meeting::Half => true,
        Meeting::Cluster => G::capabilities(device).clusters.is_ok(),
        Meeting::Grid => G::capabilities(device).cooperative.is_ok(),
    }
}

/// All points that this device supports; fewer sizes with quick effort.
fn spots<G: Gpu>(device: &G::Device, effort: Effort) -> Vec<Spot> {
    let quick = effort == Effort::Quick;
    let mut spots = Vec::new();
    for meeting in [Meeting::Warp, Meeting::Block, Meeting::Half] {
        let some = if quick { &meeting.threads()[meeting.threads().len() - 1..] } else { meeting.threads() };
        spots.extend(some.iter().map(|threads| Spot::Meeting(meeting, *threads, 1)));
    }
    if supports_barrier::<G>(device, Meeting::Cluster) {
        let some = if quick { &CLUSTERS[..1] } else { &CLUSTERS };
        spots.extend(some.iter().map(|blocks| Spot::Meeting(Meeting::Cluster, 256, *blocks)));
    }
    if supports_barrier::<G>(device, Meeting::Grid)
        && let Ok(machine) = G::machine(device)
    {
        spots.push(Spot::Meeting(Meeting::Grid, 256, machine.multiprocessors));
    }
    let events = [Primitive::Record, Primitive::Streams, Primitive::Host].into_iter();
    let is_supported = |kind: &Primitive| *kind != Primitive::Streams || G::capabilities(device).second_stream.is_ok();
    spots.extend(events.filter(is_supported).map(Spot::Events));
    spots
}

/// Barriers in one launch: some tenths of a millisecond.
fn meetings(meeting: Meeting) -> u32 {
    match meeting {
        Meeting::Warp => 1 << 16,
        Meeting::Block | Meeting::Half => 1 << 13,
        Meeting::Cluster => 1 << 11,
        Meeting::Grid => 1 << 9,
    }
}

/// Shared by all points.
struct Bench<G: Gpu> {
    kit: Kit<G>,
    kernels: Vec<KernelDesc>,
    marks: Rc<G::Buffer>,
    barrier: Rc<G::Buffer>,
    second: Option<Arc<G::Stream>>,
    blocker: Option<Arc<G::Blocker>>,
}

impl<G: Gpu> Bench<G> {
    fn new(device: &G::Device) -> Result<Self, Fault> {
        let kernels = kernels::kernels(G::target(device));
        let kit = Kit::<G>::new(device, &kernels::SOURCE, &kernels, TRUST)?;
        let marks = kit.array(4 * 1024 * u64::from(kit.unit.machine().multiprocessors.max(16)))?;
        let barrier = kit.array(4)?;
        kit.checker.fill_words(marks.whole(), 0)?;
        kit.checker.fill_words(barrier.whole(), 0)?;
        let has_second = G::capabilities(device).second_stream.is_ok();
        let second = has_second.then(|| G::new_stream(device)).transpose()?;
        let blocker = G::blocker(device).cloned();
        Ok(Self { kit, kernels, marks: Rc::new(marks), barrier: Rc::new(barrier), second, blocker })
    }

    /// Numbers of blocks for verification: of one barrier, or of independent ones side by side.
    fn blocks(&self, meeting: Meeting) -> Vec<u32> {
        match meeting {
            Meeting::Cluster => CLUSTERS.to_vec(),
            Meeting::Grid => vec![1, 2, self.kit.unit.machine().multiprocessors],
            _ => vec![1, 3],
        }
    }

    fn in_kernel(
        &self,
        kernel: &KernelDesc,
        meeting: Meeting,
        blocks: u32,
        meetings: u32,
    ) -> Result<InKernel<G>, Fault> {
        self.kit.checker.fill_words(self.marks.whole(), 0)?;
        let (marks, barrier) = (Rc::clone(&self.marks), Rc::clone(&self.barrier));
        let function = self.kit.unit.function(kernel)?.clone();
        let cluster = if meeting == Meeting::Cluster { blocks } else { 0 };
        let form = Form { cooperative: kernel.cooperative, cluster, dependent: false };
        let geometry = Geometry::linear(blocks, kernel.threads);
        let work = Work { operations: f64::from(meetings), ..Work::default() };
        InKernel::new_full_reports(&self.kit, (blocks, LaunchCycles::First), work, move |place| {
            let arguments = Arguments::new().span(place.out).buffer(&marks).u32(meetings).buffer(&barrier);
            function.launch(geometry, form, &arguments)
        })
    }

    fn load(&self, spot: Spot) -> Result<Box<dyn Workload>, Fault> {
        match spot {
            Spot::Meeting(meeting, threads, blocks) => {
                let (kernel, count) = (kernels::rounds(meeting, threads, false), meetings(meeting));
                let load = self.in_kernel(&kernel, meeting, blocks, count)?;
                let check = move |last: &LastLaunches<'_, G>| {
                    let wrong = wrong(last.reports, &kernel, count);
                    Ok(if wrong.is_empty() { Check::Passed } else { Check::Failed(wrong) })
                };
                Ok(Box::new(load.with_check(check)))
            }
            Spot::Events(kind) => Ok(Box::new(self.events(kind)?)),
        }
    }

    fn events(&self, kind: Primitive) -> Result<Events<G>, Fault> {
        let stream = self.kit.stream();
        // An untimed event costs the device nothing, so `Record` needs timed ones.
        let event = |_| if kind == Primitive::Record { G::event(stream) } else { G::untimed_event(stream) };
        Ok(Events {
            kind,
            stream: Arc::clone(stream),
            second: self.second.clone().filter(|_| kind == Primitive::Streams),
            empty: self.kit.unit.launch(&kernels::empty(), 0, Arguments::new())?,
            pair: (G::event(stream)?, G::event(stream)?),
            marks: (0..2 * MOST_EVENTS.0).map(event).collect::<Result<_, Fault>>()?,
            blocker: self.blocker.clone(),
        })
    }
}

/// Events one after another, back and forth between two streams, or seen by the host.
struct Events<G: Gpu> {
    kind: Primitive,
    stream: Arc<G::Stream>,
    /// The other stream of round trips.
    second: Option<Arc<G::Stream>>,
    empty: G::Launch,
    pair: (G::Event, G::Event),
    marks: Vec<G::Event>,
    blocker: Option<Arc<G::Blocker>>,
}

impl<G: Gpu> Events<G> {
    fn queue(&self, k: u32) -> Result<(), Fault> {
        let first = &self.stream;
        let Some(second) = &self.second else {
            return self.marks.iter().cycle().take(k as usize).try_for_each(|mark| G::record(mark, first));
        };
        for marks in self.marks.chunks(2).take(k as usize) {
            G::launch(first, &self.empty)?;
            G::record(&marks[0], first)?;
            G::wait_for(second, &marks[0])?;
            G::launch(second, &self.empty)?;
            G::record(&marks[1], second)?;
            G::wait_for(first, &marks[1])?;
        }
        Ok(())
    }

    fn time_on_host(&self) -> Result<u64, Fault> {
        G::wait(&self.stream)?;
        let start = Instant::now();
        G::record(&self.marks[0], &self.stream)?;
        G::wait_event(&self.marks[0])?;
        Ok(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    fn time_on_device(&self, k: u32) -> Result<u64, Fault> {
        let (begin, end) = &self.pair;
        if let Some(blocker) = &self.blocker {
            G::block(blocker, &self.stream, BLOCKED)?;
        }
        G::record(begin, &self.stream)?;
        self.queue(k)?;
        G::record(end, &self.stream)?;
        G::wait_event(end)?;
        G::nanoseconds(begin, end)
    }
}

impl<G: Gpu> Workload for Events<G> {
    fn work(&self) -> Work {
        // A round trip is two operations. `in_kernel` avoids the LAUNCH_BOUND flag: such short figures are expected here.
        let operations = if self.kind == Primitive::Streams { 2.0 } else { 1.0 };
        Work { operations, in_kernel: true, ..Work::default() }
    }

    fn batch(&self) -> Batch {
        let max = match self.kind {
            Primitive::Host => 1,
            Primitive::Record => MOST_EVENTS.1,
            _ => MOST_EVENTS.0,
        };
        Batch { cycle: 1, max }
    }

    fn sample(&mut self, k: u32, out: &mut [u64]) -> Result<(), Fault> {
        G::bind(&self.stream)?;
        for sample in out {
            *sample = if self.kind == Primitive::Host { self.time_on_host()? } else { self.time_on_device(k)? }.max(1);
        }
        Ok(())
    }

    fn check(&mut self) -> Result<Check, Fault> {
        Ok(Check::Passed)
    }
}
