//! launch on a GPU: the empty kernel and `scale` in every mode. `mod.rs` explains the figures; the kernels are in
//! `kernel.cu`.

use plimsoll_core::series::Bytes;
use plimsoll_gen::kernel::Output;
use plimsoll_gpu::rules::{MapOutput, MappedPoint, Rules, SCALAR};
use plimsoll_gpu::window::Rotation;

use super::kernels;
use super::kernels::Follows;
use crate::launch::{self, ByClock, ByMode, Clock, Mode, Scale};
use crate::prelude::gpu::*;

/// Smallest and largest footprint, bytes, input and output together.
const FOOTPRINTS: (u64, u64) = (4 << 10, 1 << 30);
/// At this footprint and above, a launch takes longer than its call, bytes.
const BY_DEVICE: u64 = 8 << 20;
/// Below this footprint, launch time doesn't depend on the footprint, bytes.
const BY_WORK: u64 = 256 << 10;
/// Footprints of cold launches, bytes. At the smallest, the longest graph already reads more than any cache holds.
const COLD: [u64; 4] = [128 << 10, 512 << 10, 2 << 20, 8 << 20];
/// Largest footprint measured with queued launches, bytes: half of the largest cache. Beyond it the device is slower than any
/// call, and a stream gives the same figure.
const QUEUED_TO: u64 = 64 << 20;
/// Work of one persistent launch, bytes: enough rounds to make its start a small part, few enough for a sample.
const PERSISTENT_BYTES: u64 = 1 << 30;
/// Smallest and largest number of rounds of a persistent launch.
const ROUNDS: (u64, u64) = (4, 256);

/// How the kernels are called and verified. Only the one with barriers makes rounds: 3 when it is verified.
const RULES: Rules = Rules {
    arguments: |kernel, with| {
        let list = Arguments::new();
        if kernel.output == Output::None {
            return list;
        }
        let list = list.span(with.out).span(with.input).f32(SCALAR).u64(with.n);
        if kernel.cooperative { list.u32(with.count as u32).span(with.barrier) } else { list }
    },
    map_output: |kernel| Some(MapOutput::Map(Op::Scale, kernel.element)),
    count: 3,
    ..Rules::new(&kernels::SOURCE)
};

impl<G: Gpu> Run<G> for super::GpuRunner {
    fn points(&self, device: &G::Device, request: &Request) -> usize {
        let modes = modes::<G>(device);
        let largest = request.bytes.unwrap_or(FOOTPRINTS.1);
        modes.len()
            + 2
            + points(&modes, &footprints(request.effort, largest, &[])).len()
            + cold_points(&modes, largest).len()
    }

    fn run(&self, session: &mut Session<'_, G>) -> Result<(), Fault> {
        let effort = session.request.effort;
        let largest = requested_bytes(session, FOOTPRINTS.1)?;
        let (bytes, flags) = fit_arrays::<G>(session.device, 2, largest / 2)?;
        let bench = Bench::new(session, bytes.min(largest / 2))?;
        let modes = modes::<G>(session.device);

        let sweep = Sweep { series: launch::empty(), points: &modes, share: 0.1, flags: Flags::NONE };
        session.sweep(sweep, |mode| ByMode { mode: *mode }, |_, mode| bench.empty(*mode))?;
        let sweep = Sweep { series: launch::single(), points: &Clock::ALL, share: 0.05, flags: Flags::NONE };
        session.sweep(sweep, |clock| ByClock { clock: *clock }, |_, clock| bench.single(*clock))?;

        let (cache, window, most) =
            (session.info().last_level_cache(), session.info().cold_window(), 2 * bench.out.bytes());
        let points = points(&modes, &footprints(effort, most, &around_cache(cache)));
        let sweep = Sweep { series: launch::scale(), points: &points, share: 0.7, flags };
        session.sweep(sweep, Scale::clone, |_, at| bench.scale(at, 0))?;
        let points = cold_points(&modes, most);
        let sweep = Sweep { series: launch::cold(), points: &points, share: 0.15, flags };
        session.sweep(sweep, Scale::clone, |_, at| bench.scale(at, window))?;
        Ok(())
    }

    fn verify(&self, device: &mut G::Device, depth: Depth, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
        RULES.verify::<G>(device, (depth, TRUST), report)
    }
}

/// The modes that this device and driver support, in axis order.
fn modes<G: Gpu>(device: &G::Device) -> Vec<Mode> {
    let can = G::capabilities(device);
    let has = |mode: &Mode| match mode {
        Mode::Stream => true,
        Mode::Queued => G::blocker(device).is_some(),
        Mode::Graph | Mode::Replay => can.graphs.is_ok(),
        Mode::StreamDependent => can.dependent.is_ok(),
        Mode::GraphDependent | Mode::GraphExit => can.dependent_graphs.is_ok(),
        Mode::Persistent => can.cooperative.is_ok(),
    };
    Mode::ALL.into_iter().filter(has).collect()
}

/// Footprints of input and output together, in steps up to `largest` (at least the smallest), in whole vectors, plus those of
/// `extra`.
fn footprints(effort: Effort, largest: u64, extra: &[u64]) -> Vec<u64> {
    let step = if effort == Effort::Quick { 2 } else { 1 };
    let sizes = (0..).map(|i| FOOTPRINTS.0 << (step * i)).take_while(|bytes| *bytes <= largest.max(FOOTPRINTS.0));
    let mut sizes: Vec<u64> = sizes.take(40).chain(extra.iter().copied().filter(|bytes| *bytes <= largest)).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// Closely spaced footprints around the size of a cache, in eighths of it: they show where it stops holding the data of repeated
/// launches.
fn around_cache(cache: u64) -> Vec<u64> {
    (4..=9).map(|eighths| cache / 8 * eighths / FOOTPRINTS.0 * FOOTPRINTS.0).filter(|bytes| *bytes > 0).collect()
}

/// Cold launches. Graphs only, since launches in a stream take as long as their calls.
fn cold_points(modes: &[Mode], largest: u64) -> Vec<Scale> {
    let modes = modes.iter().filter(|mode| is_graph(**mode));
    let footprints: Vec<u64> = COLD.into_iter().filter(|bytes| *bytes <= largest).collect();
    at_footprints(modes, &footprints).collect()
}

/// Whether the mode puts many kernels in one graph.
fn is_graph(mode: Mode) -> bool {
    matches!(mode, Mode::Graph | Mode::GraphDependent | Mode::GraphExit)
}

fn at_footprints<'m>(modes: impl Iterator<Item = &'m Mode>, footprints: &[u64]) -> impl Iterator<Item = Scale> {
    modes.flat_map(|mode| footprints.iter().map(|bytes| Scale { mode: *mode, footprint: Bytes(*bytes) }))
}

/// Every mode at every footprint, with fewer of the small ones: all of those take the same time, the time of the call where the
/// host launches each kernel. Between powers of two only graphs show what the cache holds.
fn points(modes: &[Mode], footprints: &[u64]) -> Vec<Scale> {
    let is_measured = |&Scale { mode, footprint: Bytes(bytes) }: &Scale| {
        let by_host = matches!(mode, Mode::Stream | Mode::StreamDependent | Mode::Replay) && bytes < BY_DEVICE;
        if !(bytes / FOOTPRINTS.0).is_power_of_two() {
            return mode == Mode::Graph;
        }
        let every = if by_host {
            4
        } else if bytes < BY_WORK || mode == Mode::Queued {
            2
        } else {
            1
        };
        (mode != Mode::Queued || bytes <= QUEUED_TO) && (bytes / FOOTPRINTS.0).ilog2().is_multiple_of(every)
    };
    at_footprints(modes.iter(), footprints).filter(is_measured).collect()
}

/// Shared by all points.
struct Bench<G: Gpu> {
    kit: Kit<G>,
    stream: Arc<G::Stream>,
    out: G::Buffer,
    input: G::Buffer,
    /// The counter of the grid barrier: zero before the first launch.
    barrier: G::Buffer,
}

impl<G: Gpu> Bench<G> {
    /// Allocates arrays of `bytes` each.
    fn new(session: &Session<'_, G>, bytes: u64) -> Result<Self, Fault> {
        let bytes = bytes.max(FOOTPRINTS.0 / 2);
        let kit = Kit::<G>::new(session.device, &kernels::SOURCE, &kernels::kernels(), TRUST)?;
        let (out, input, barrier) = (kit.array(bytes)?, kit.array(bytes)?, kit.array(4)?);
        kit.checker.fill(Data::Unit, Element::F32, input.whole(), session.request.seed)?;
        kit.checker.fill_words(barrier.whole(), 0)?;
        Ok(Self { kit, stream: Arc::clone(G::stream(session.device)), out, input, barrier })
    }

    /// Launches of one kernel in a mode. Plain stream launches are issued as a program would, without a blocking kernel.
    fn load(&self, mode: Mode, launches: Vec<G::Launch>, work: Work) -> Result<Load<G>, Fault> {
        let actions = |launches: Vec<_>| launches.into_iter().map(Action::Launch).collect();
        match mode {
            Mode::Graph | Mode::GraphDependent | Mode::GraphExit => {
                self.kit.load(Shape::Graph { dependent: mode != Mode::Graph }, launches, work)
            }
            Mode::Queued => self.kit.load(Shape::Queued, launches, work),
            Mode::Replay => Load::new(&self.stream, Shape::Replay, actions(launches), work),
            Mode::Stream | Mode::StreamDependent | Mode::Persistent => {
                Load::new(&self.stream, Shape::Stream, actions(launches), work)
            }
        }
    }

    fn follows_for(mode: Mode) -> Follows {
        match mode {
            Mode::StreamDependent | Mode::GraphDependent => Follows::Early,
            Mode::GraphExit => Follows::AtExit,
            _ => Follows::After,
        }
    }

    /// A kernel over a rotation; the one with barriers makes `rounds` rounds.
    fn point(&self, kernel: &KernelDesc, rotation: Rotation, rounds: u64) -> Result<MappedPoint, Fault> {
        let rules = Rules { count: rounds, ..RULES };
        let point = rules.rotate(kernel, rotation, self.out.whole(), &[self.input.whole()])?;
        Ok(point.with_barrier(self.barrier.whole()))
    }

    fn empty(&self, mode: Mode) -> Result<Load<G>, Fault> {
        let (kernel, rounds) = match mode {
            Mode::Persistent => (kernels::rounds(), ROUNDS.1),
            _ => (kernels::empty(Self::follows_for(mode)), 1),
        };
        let launches = self.point(&kernel, Rotation::hot(0), rounds)?.launches(&self.kit)?;
        self.load(mode, launches, Work { operations: rounds as f64, ..Work::default() })
    }

    fn single(&self, clock: Clock) -> Result<Load<G>, Fault> {
        let launch = self.kit.unit.launch(&kernels::empty(Follows::After), 0, Arguments::new())?;
        let work = Work { operations: 1.0, ..Work::default() };
        match clock {
            Clock::Host => Load::new(&self.stream, Shape::HostLatency, vec![Action::Launch(launch)], work),
            Clock::Events => self.kit.load(Shape::Latency, vec![launch], work),
        }
    }

    /// `scale` over a footprint of input and output together. The output is poisoned before every slice and checked after it.
    /// Launches use the same bytes each time, or rotate through `window` bytes of each array.
    fn scale(&self, at: &Scale, window: u64) -> Result<Load<G>, Fault> {
        let (mode, bytes) = (at.mode, at.footprint.0);
        let rotation = Rotation::cold(bytes / 2, window).within(self.out.bytes());
        let (kernel, rounds) = match mode {
            Mode::Persistent => (kernels::rounds(), (PERSISTENT_BYTES / bytes).clamp(ROUNDS.0, ROUNDS.1)),
            _ => (kernels::scale(Self::follows_for(mode)), 1),
        };
        let point = self.point(&kernel, rotation, rounds)?;
        let moved = rotation.slice * rounds;
        let work = Work { traffic: Traffic::new(moved, moved), operations: rounds as f64, ..point.work() };
        let load = point.add_check(&self.kit, self.load(mode, point.launches(&self.kit)?, work)?)?;
        let (out, checker) = (point.out(), Rc::clone(&self.kit.checker));
        Ok(load.with_prepare(move |_| checker.poison(out)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stream_measures_fewer_small_footprints_and_all_large_ones() {
        let all = footprints(Effort::Standard, FOOTPRINTS.1, &[]);
        let points = points(&[Mode::Stream, Mode::Queued, Mode::Graph], &all);
        let footprints_of =
            |mode| points.iter().filter(|at| at.mode == mode).map(|at| at.footprint.0).collect::<Vec<u64>>();
        assert_eq!(footprints_of(Mode::Graph)[..5], [4 << 10, 16 << 10, 64 << 10, 256 << 10, 512 << 10]);
        assert_eq!(footprints_of(Mode::Graph).len(), all.len() - 3);
        assert_eq!(footprints_of(Mode::Stream)[..4], [4 << 10, 64 << 10, 1 << 20, 8 << 20]);
        assert_eq!(footprints_of(Mode::Stream).len(), all.len() - 8);
        assert_eq!(
            footprints_of(Mode::Queued),
            [4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20]
        );
    }

    #[test]
    fn footprints_near_the_cache_size_are_dense_and_measured_with_graphs_only() {
        let all = footprints(Effort::Standard, FOOTPRINTS.1, &around_cache(60 << 20));
        let close: Vec<u64> = all.iter().copied().filter(|bytes| ((30 << 20)..(70 << 20)).contains(bytes)).collect();
        assert_eq!(close.len(), 8, "{close:?}");
        let points = points(&[Mode::Stream, Mode::Graph], &all);
        let count = |mode| points.iter().filter(|at| at.mode == mode && close.contains(&at.footprint.0)).count();
        assert_eq!((count(Mode::Stream), count(Mode::Graph)), (2, 8));
        assert_eq!(cold_points(&[Mode::Stream, Mode::Graph, Mode::GraphDependent], 1 << 20).len(), 4);
        assert!(around_cache(0).is_empty());
    }

    #[test]
    fn footprints_double_from_smallest_to_largest_and_quadruple_with_quick_effort() {
        let all = footprints(Effort::Standard, FOOTPRINTS.1, &[]);
        assert_eq!((all[0], all[1], all.len(), *all.last().unwrap()), (4096, 8192, 19, 1 << 30));
        let quick = footprints(Effort::Quick, FOOTPRINTS.1, &[]);
        assert_eq!((quick.len(), *quick.last().unwrap()), (10, 1 << 30));
        assert_eq!(footprints(Effort::Quick, 1, &[]), [4096]);
        assert!(all.iter().all(|bytes| bytes % 32 == 0));
    }
}
