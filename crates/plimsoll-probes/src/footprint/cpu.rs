//! footprint on the CPU: read, copy and triad over private data of every core, from 4 KiB per core to what memory allows.
//! `mod.rs` defines the figures.

use std::hint::black_box;

use plimsoll_cpu::arch::stream::{Stores, StreamKernels};
use plimsoll_cpu::workload::kernels::{self, POISON};
use plimsoll_cpu::workload::verdict;
use plimsoll_cpu::workload::window::{self, Place, Window};
use plimsoll_suite::kernels::Op;

use crate::footprint::{self, Spread};
use crate::prelude::cpu::*;

/// Smallest footprint of one core.
const LEAST: f64 = 4096.0;
/// Largest footprint of all cores together, where effort and memory allow.
const MOST: u64 = 8 << 30;
/// Most bytes of one core's data that a launch moves: a larger footprint takes several launches.
const SEGMENT: usize = 8 << 20;
/// Least bytes of one core's data that a launch moves: a smaller footprint takes several passes.
const PASS: usize = 256 << 10;
/// Elements of six lines: footprints are multiples of it, so that one, two and three arrays all consist of whole lines.
const GRAIN: usize = 6 * 8;

/// One core's data at one footprint, all arrays together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    /// Elements of a segment, the part of the data that one launch covers.
    length: usize,
    /// Segments.
    segments: usize,
    /// Passes of a launch over its segment.
    passes: usize,
}

impl Shape {
    /// About `bytes` bytes.
    fn from_bytes(bytes: f64) -> Self {
        let segments = ((bytes / SEGMENT as f64).ceil() as usize).max(1);
        let length = ((bytes / (8 * segments * GRAIN) as f64).round() as usize).max(1) * GRAIN;
        Self { length, segments, passes: (PASS / (8 * length)).max(1) }
    }

    fn elements(self) -> usize {
        self.length * self.segments
    }
}

#[derive(Clone, Copy, Debug)]
struct Spot {
    name: footprint::Kernel,
    kernel: Op,
    shape: Shape,
    footprint: u64,
}

impl Run<Cpu> for super::CpuRunner {
    fn points(&self, device: &CpuDevice, request: &Request) -> usize {
        let most = room(request, device.last_level_bytes());
        spots(device.cpus.len(), most.map_or(0, |size| size.bytes), request.effort).len()
    }

    fn run(&self, session: &mut Session<'_, Cpu>) -> Result<(), Fault> {
        let (cores, effort) = (session.device.cpus.len(), session.request.effort);
        let size = room(session.request, session.device.last_level_bytes())?;
        // A shorter curve for lack of memory is fine, unless the user asked for its size.
        let shrunk = size.shrunk && session.request.bytes.is_some();
        let spots = spots(cores, size.bytes, effort);
        let team = team(session, cores)?;
        let largest = spots.iter().map(|spot| spot.shape.elements()).max().unwrap_or(GRAIN);
        let segments = spots.iter().map(|spot| spot.shape.segments).max().unwrap_or(1);
        let window = |array: u64, elements: usize| {
            let data = (session.request.seed ^ array, kernels::finite as fn(u64) -> f64);
            Window::new(&team, 1, (8 * elements * cores) as u64, data, &|| session.is_stopped())
        };
        // A copy's target is half of its footprint.
        let (source, target) = (window(0, largest)?, window(1, largest / 2)?);
        let data = Arc::new(Data {
            source,
            target,
            places: (0..cores).map(|_| Place::default()).collect(),
            sums: (0..cores * segments).map(|_| AtomicU64::new(0)).collect(),
        });
        let last_level = session.device.last_level_bytes();
        let flags = shrunk.then_some(Flag::Shrunk).into_iter().collect();
        let sweep = Sweep { series: footprint::curve(), points: &spots, share: 1.0, flags };
        let coordinates = |spot: &Spot| Spread { kernel: spot.name, footprint: spot.footprint.into() };
        session.sweep(sweep, coordinates, |_, spot| load(&team, &data, *spot, spot.footprint <= 2 * last_level))?;
        Ok(())
    }

    fn verify(&self, _: &mut CpuDevice, depth: Depth, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
        let kernels: Vec<Op> = named_kernels().map(|(_, kernel)| kernel).collect();
        kernels::verify(&kernels, depth, report)
    }
}

/// The kernels of the curve.
fn named_kernels() -> impl Iterator<Item = (footprint::Kernel, Op)> {
    footprint::Kernel::ALL.into_iter().filter_map(|name| Some((name, Op::from_name(name.name())?)))
}

/// The bytes of source and target: one and a half times the largest footprint, which the user or the effort sets. A quick curve may
/// end once it has reached memory.
fn room(request: &Request, last_level: u64) -> Result<window::Size, Fault> {
    let both = |footprint: u64| footprint.saturating_add(footprint / 2);
    let own = if request.effort == Effort::Quick { last_level.saturating_mul(4).clamp(1 << 30, MOST) } else { MOST };
    window::size(request.bytes.map(both), both(own), 1)
}

/// Every kernel at every footprint of `cores` cores, smallest first, for which `bytes` bytes hold source and target.
fn spots(cores: usize, bytes: u64, effort: Effort) -> Vec<Spot> {
    let per_octave = match effort {
        Effort::Quick | Effort::Unknown => 3.0,
        Effort::Standard => 4.0,
        Effort::Thorough => 6.0,
    };
    let most = (bytes as f64 / 1.5 / cores as f64).max(LEAST);
    let steps = ((most / LEAST).log2() * per_octave).floor() as usize;
    let shapes = (0..=steps).map(|step| Shape::from_bytes(LEAST * (step as f64 / per_octave).exp2()));
    let shapes: Vec<Shape> = shapes.collect();
    let spot = |(name, kernel), shape: &Shape| {
        let footprint = (8 * shape.elements() * cores) as u64;
        Spot { name, kernel, shape: *shape, footprint }
    };
    named_kernels().flat_map(|kernel| shapes.iter().map(move |shape| spot(kernel, shape))).collect()
}

/// State shared by all points.
struct Data {
    source: Arc<Window<f64>>,
    target: Arc<Window<f64>>,
    places: Box<[Place]>,
    /// The latest sum of each segment of each member, as bits.
    sums: Box<[AtomicU64]>,
}

impl Data {
    /// Calls `action` with the arrays of one segment of member `rank`.
    fn on_segment<R>(
        &self,
        rank: usize,
        segment: usize,
        Spot { kernel, shape, .. }: Spot,
        action: impl FnOnce(&mut [f64], [&[f64]; 3]) -> R,
    ) -> R {
        let mix = kernel.mix();
        let (reads, writes) = (mix.reads as usize, mix.writes as usize);
        let each = shape.length / (reads + writes);
        let source = self.source.part(0, rank);
        let mut target = self.target.part(0, rank);
        // Operands that the kernel doesn't use repeat its last one; they aren't touched.
        let operand = |i: usize| &source[(i.min(reads - 1) * shape.segments + segment) * each..][..each];
        let operands = [operand(0), operand(1), operand(2)];
        // Kernels write one array, or none.
        action(&mut target[segment * each * writes..][..each * writes], operands)
    }

    fn sum(&self, rank: usize, segment: usize) -> &AtomicU64 {
        &self.sums[segment * self.places.len() + rank]
    }
}

/// A point's workload. Where `warm`, one pass covers the whole footprint first.
fn load(team: &Rc<RefCell<Team>>, data: &Arc<Data>, spot: Spot, warm: bool) -> Result<TeamLoad, Fault> {
    let Spot { kernel, shape, .. } = spot;
    let (kernels, shared) = (StreamKernels::best(), Arc::clone(data));
    let task = Task::new(move |rank| {
        let segment = shared.places[rank.index].next() % shape.segments;
        let sum = shared.on_segment(rank.index, segment, spot, |a, operands| {
            let mut sum = 0.0;
            for _ in 0..shape.passes {
                sum = kernels::run(kernel, kernels, Stores::Ordinary, a, black_box(operands));
            }
            sum
        });
        shared.sum(rank.index, segment).store(sum.to_bits(), Ordering::Relaxed);
    });
    let shared = Arc::clone(data);
    let poison = Task::new(move |rank| {
        for segment in 0..shape.segments {
            shared.on_segment(rank.index, segment, spot, |a, _| kernels.init(a, POISON, Stores::Ordinary));
            shared.sum(rank.index, segment).store(POISON.to_bits(), Ordering::Relaxed);
        }
    });
    {
        let mut team = team.borrow_mut();
        team.run(&poison)?;
        data.places.iter().for_each(Place::rewind);
        if warm {
            team.run_timed(shape.segments as u64, &task)?;
        }
    }
    let cores = data.places.len() as u64;
    let elements = (shape.length * shape.passes) as u64 / u64::from(kernel.mix().reads + kernel.mix().writes);
    let traffic = kernels::traffic(kernel, elements * cores);
    let work = Work { traffic, write_allocate: traffic.written, ..Work::default() };
    let check = checker(team, data, spot);
    Ok(TeamLoad { team: Rc::clone(team), task, work, lap: Lap::Team, batch: Batch::default(), check })
}

/// Compares every visited segment with the oracle.
fn checker(team: &Rc<RefCell<Team>>, data: &Arc<Data>, spot: Spot) -> Box<dyn FnMut() -> Check> {
    let (team, data, found) = (Rc::clone(team), Arc::clone(data), Arc::new(Mutex::new(None)));
    let note = Arc::clone(&found);
    let task = Task::new(move |rank| {
        for segment in 0..data.places[rank.index].steps().min(spot.shape.segments) {
            let sum = f64::from_bits(data.sum(rank.index, segment).load(Ordering::Relaxed));
            let wrong = |a: &mut [f64], operands: [&[f64]; 3]| kernels::wrong(spot.kernel, a, operands, sum);
            if let Some(wrong) = data.on_segment(rank.index, segment, spot, wrong) {
                let what = format!("{} in segment {segment} of thread {}: {wrong}", spot.kernel.name(), rank.index);
                note.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(what);
            }
        }
    });
    Box::new(move || verdict(&team, &task, &found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn footprints_grow_in_whole_lines_and_fit_the_allowed_bytes() {
        for (cores, bytes) in [(1, 64 << 20), (2, 3 << 30), (7, 1 << 34)] {
            let spots = spots(cores, bytes, Effort::Quick);
            let reads: Vec<&Spot> = spots.iter().filter(|spot| spot.kernel == Op::Read).collect();
            assert_eq!(3 * reads.len(), spots.len());
            assert!(reads.windows(2).all(|pair| pair[0].footprint < pair[1].footprint));
            let last = reads[reads.len() - 1];
            assert!(last.footprint as f64 * 1.5 <= 1.01 * bytes as f64 && last.footprint * 3 > bytes, "{last:?}");
            for spot in reads {
                assert!(spot.shape.length % GRAIN == 0 && 8 * spot.shape.length <= SEGMENT + 8 * GRAIN);
                assert!(8 * spot.shape.length * spot.shape.passes >= PASS / 2, "{spot:?}");
            }
        }
        assert_eq!(spots(2, 1, Effort::Quick).len(), 3, "a request that is too small gets the smallest footprint");
    }

    #[test]
    fn a_skipped_segment_fails_the_check() {
        use plimsoll_cpu::timer::Timer;
        let team = Rc::new(RefCell::new(Team::new(&[0], Timer::Os).unwrap()));
        let window = || Window::new(&team, 1, 1 << 20, (7, kernels::finite as fn(u64) -> f64), &|| false).unwrap();
        let data = Arc::new(Data {
            source: window(),
            target: window(),
            places: [Place::default()].into(),
            sums: (0..4).map(|_| AtomicU64::new(0)).collect(),
        });
        let shape = Shape { length: 100 * GRAIN, segments: 4, passes: 2 };
        assert_eq!(named_kernels().count(), footprint::Kernel::ALL.len());
        for (name, kernel) in named_kernels() {
            let spot = Spot { name, kernel, shape, footprint: 0 };
            let mut load = load(&team, &data, spot, true).unwrap();
            assert_eq!((load.check)(), Check::Passed, "{name}");
            team.borrow_mut()
                .run(&Task::new({
                    let data = Arc::clone(&data);
                    move |_| {
                        data.on_segment(0, 3, spot, |a, _| a.fill(POISON));
                        data.sum(0, 3).store(POISON.to_bits(), Ordering::Relaxed);
                    }
                }))
                .unwrap();
            assert!(matches!((load.check)(), Check::Failed(_)), "{name}");
        }
    }
}
