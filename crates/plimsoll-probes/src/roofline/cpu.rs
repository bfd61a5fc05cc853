//! roofline on the CPU: arithmetic of growing intensity over arrays far larger than the last-level cache, on all cores, in
//! f64 and f32. `mod.rs` explains the figures.

use plimsoll_core::Traffic;
use plimsoll_core::series::FlopPerByte;
use plimsoll_cpu::arch::intensity::{ADDEND, CHAINS, FACTOR, FORMS, Form, IntensityKernel, Real, Reduction};
use plimsoll_cpu::arch::{available, best};
use plimsoll_cpu::memory::{Buffer, Pages, Plain};
use plimsoll_cpu::workload::kernels::finite;
use plimsoll_cpu::workload::verdict;
use plimsoll_cpu::workload::window::{self, Chunk, Window};

use crate::prelude::cpu::*;
use crate::roofline::{self, Place, Type};

/// The lowest and highest intensity of the series, FLOP per byte.
const INTENSITIES: (f64, f64) = (1.0 / 8.0, 256.0);

/// A type that the probe runs in.
trait Float: Real + Plain {
    /// Value on the type axis.
    const TYPE: Type;
    /// Largest relative difference from the oracle, which adds up in f64.
    const ROUNDING: f64;
    /// Random bits as a number in [1, 2).
    fn finite(bits: u64) -> Self;
    /// Converts to f64, exactly.
    fn to_f64(self) -> f64;
}

impl Float for f64 {
    const TYPE: Type = Type::F64;
    const ROUNDING: f64 = 1e-9;
    fn finite(bits: u64) -> Self {
        finite(bits)
    }
    fn to_f64(self) -> f64 {
        self
    }
}

impl Float for f32 {
    const TYPE: Type = Type::F32;
    // A chain adds up to a hundred thousand numbers; each addition may be off by 2⁻²⁴ of the sum.
    const ROUNDING: f64 = 5e-3;
    fn finite(bits: u64) -> Self {
        Self::from_bits((bits >> 41) as u32 | 1.0_f32.to_bits())
    }
    fn to_f64(self) -> f64 {
        f64::from(self)
    }
}

/// A point: the kernel on one of the types.
#[derive(Clone, Copy, Debug)]
struct Spot {
    kind: Type,
    kernel: IntensityKernel,
    intensity: f64,
}

impl Run<Cpu> for super::CpuRunner {
    fn points(&self, _: &CpuDevice, _: &Request) -> usize {
        spots().len()
    }

    fn run(&self, session: &mut Session<'_, Cpu>) -> Result<(), Fault> {
        let size = window::size(session.request.bytes, session.info().cold_window(), 2)?;
        let team = team(session, session.device.cpus.len())?;
        let seed = session.request.seed;
        // Kernels skip a partial block at the end of every chunk.
        let bytes = size.bytes + size.bytes / 1000;
        let wide = Window::<f64>::new(&team, 1, bytes, (seed, Float::finite), &|| session.is_stopped())?;
        let narrow = Window::<f32>::new(&team, 1, bytes, (seed, Float::finite), &|| session.is_stopped())?;
        let spots = spots();
        let flags = size.shrunk.then_some(Flag::Shrunk).into_iter().collect();
        let sweep = Sweep { series: roofline::sweep(), points: &spots, share: 1.0, flags };
        let coordinates = |spot: &Spot| Place { kind: spot.kind, intensity: FlopPerByte(spot.intensity) };
        session.sweep(sweep, coordinates, |_, spot| {
            Ok(if spot.kind == Type::F64 { load(&team, &wide, spot.kernel) } else { load(&team, &narrow, spot.kernel) })
        })?;
        Ok(())
    }

    fn verify(&self, _: &mut CpuDevice, depth: Depth, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
        verify::<f64>(&FORMS, depth, report)?;
        verify::<f32>(&FORMS, depth, report)
    }
}

/// Both types over all intensities with a kernel, at every effort: there are few, and the ridge lies between two of them.
fn spots() -> Vec<Spot> {
    spots_of_type::<f64>().chain(spots_of_type::<f32>()).collect()
}

fn spots_of_type<T: Float>() -> impl Iterator<Item = Spot> {
    let (lowest, highest) = INTENSITIES;
    let spot = move |form: Form| {
        let intensity = form.arithmetic_intensity::<T>();
        let kernel = IntensityKernel::new(best(), form).filter(|_| (lowest..=highest).contains(&intensity))?;
        Some(Spot { kind: T::TYPE, kernel, intensity })
    };
    FORMS.into_iter().filter_map(spot)
}

/// The form with the most arithmetic per byte, in f64, on all cores: the load of `soak`.
pub(crate) struct Heaviest {
    team: Rc<RefCell<Team>>,
    window: Arc<Window<f64>>,
    kernel: IntensityKernel,
}

/// Bytes of its array: its arithmetic takes far longer than reading them.
const HEAVIEST_BYTES: u64 = 64 << 20;

impl Heaviest {
    fn kernel() -> Result<IntensityKernel, Fault> {
        let most = spots_of_type::<f64>().max_by(|a, b| a.intensity.total_cmp(&b.intensity));
        most.map(|spot| spot.kernel).ok_or_else(|| Fault::Unavailable {
            what: "soak",
            why: "no kernel of roofline runs on this CPU".to_owned(),
            hint: "Use another device".to_owned(),
        })
    }

    pub(crate) fn new(session: &mut Session<'_, Cpu>) -> Result<Self, Fault> {
        let kernel = Self::kernel()?;
        let team = team(session, session.device.cpus.len())?;
        let size = window::size(session.request.bytes, HEAVIEST_BYTES, 1)?;
        let filled = (session.request.seed, f64::finite as fn(u64) -> f64);
        let window = Window::<f64>::new(&team, 1, size.bytes, filled, &|| session.is_stopped())?;
        Ok(Self { team, window, kernel })
    }

    pub(crate) fn load(&self) -> TeamLoad {
        load(&self.team, &self.window, self.kernel)
    }

    /// Checks the form with every instruction set, on small arrays.
    pub(crate) fn verify(depth: Depth, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
        verify::<f64>(&[Self::kernel()?.form()], depth, report)
    }
}

/// The kernel's name in messages: `1 FMA per 4 f32`.
fn name<T: Float>(kernel: IntensityKernel) -> String {
    match kernel.form() {
        Form { fma, elements: 1 } => format!("{fma} FMA per {}", T::TYPE),
        Form { fma, elements } => format!("{fma} FMA per {elements} {}", T::TYPE),
    }
}

/// The latest chunk of a team member and the kernel's result on it, the sum as bits of an f64.
#[derive(Debug)]
#[repr(align(128))]
struct Last {
    part: AtomicU64,
    number: AtomicU64,
    sum: AtomicU64,
    parity: AtomicU64,
}

impl Last {
    /// The state before any run.
    fn none() -> Self {
        let zero = || AtomicU64::new(0);
        Self { part: zero(), number: zero(), sum: AtomicU64::new(f64::NAN.to_bits()), parity: zero() }
    }
}

fn load<T: Float>(team: &Rc<RefCell<Team>>, window: &Arc<Window<T>>, kernel: IntensityKernel) -> TeamLoad {
    let cores = team.borrow().size();
    let elements = kernel.elements::<T>(window.chunk());
    let last: Arc<[Last]> = (0..cores).map(|_| Last::none()).collect();
    window.rewind();
    let (data, note) = (Arc::clone(window), Arc::clone(&last));
    let task = Task::new(move |rank| {
        let chunk = data.step(rank.index, rank.members);
        let taken = kernel.run(&data.part(0, chunk.part)[data.range(chunk)][..elements]);
        let last = &note[rank.index];
        last.part.store(chunk.part as u64, Ordering::Relaxed);
        last.number.store(chunk.number as u64, Ordering::Relaxed);
        last.sum.store(taken.sum.to_f64().to_bits(), Ordering::Relaxed);
        last.parity.store(taken.parity, Ordering::Relaxed);
    });
    let work = Work {
        traffic: Traffic::new(kernel.bytes::<T>(elements) * cores as u64, 0),
        operations: (kernel.flops::<T>(elements) * cores as u64) as f64,
        window: (elements as u64 * T::BYTES) * window.total_chunks() as u64,
        ..Work::default()
    };
    let check = checker(team, window, kernel, elements, last);
    TeamLoad { team: Rc::clone(team), task, work, lap: Lap::Team, batch: Batch::default(), check }
}

/// Compares every member's latest chunk with the oracle.
fn checker<T: Float>(
    team: &Rc<RefCell<Team>>,
    window: &Arc<Window<T>>,
    kernel: IntensityKernel,
    elements: usize,
    last: Arc<[Last]>,
) -> Box<dyn FnMut() -> Check> {
    let (team, window, found) = (Rc::clone(team), Arc::clone(window), Arc::new(Mutex::new(None)));
    let note = Arc::clone(&found);
    let task = Task::new(move |rank| {
        let last = &last[rank.index];
        let noted = |word: &AtomicU64| word.load(Ordering::Relaxed);
        let chunk = Chunk { part: noted(&last.part) as usize, number: noted(&last.number) as usize };
        let part = window.part(0, chunk.part);
        let taken = Reduction { sum: f64::from_bits(noted(&last.sum)), parity: noted(&last.parity) };
        if let Some(wrong) = wrong(&part[window.range(chunk)][..elements], kernel, taken) {
            let what = format!("{} on thread {}: {wrong}", name::<T>(kernel), rank.index);
            note.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(what);
        }
    });
    Box::new(move || verdict(&team, &task, &found))
}

/// Describes the error in a kernel's result, if any. The n − 1 steps `acc·f + b` that follow each element equal one step
/// `acc·p + q` with `p = fⁿ⁻¹` and `q = b (1 − p) / (1 − f)`, the sum of the geometric series, so the oracle costs one step
/// per element.
fn wrong<T: Float>(a: &[T], kernel: IntensityKernel, taken: Reduction<f64>) -> Option<String> {
    let Form { fma, elements } = kernel.form();
    let (factor, addend) = (f64::from(FACTOR), f64::from(ADDEND));
    let power = factor.powf(fma as f64 - 1.0);
    let rest = addend * (1.0 - power) / (1.0 - factor);
    let lanes = kernel.lanes::<T>();
    let mut chains = vec![addend; CHAINS * lanes];
    let mut parity = 0;
    for block in a[..kernel.elements::<T>(a.len())].chunks_exact(CHAINS * elements * lanes) {
        for (chains, vectors) in chains.chunks_exact_mut(lanes).zip(block.chunks_exact(elements * lanes)) {
            let (first, others) = vectors.split_at(lanes);
            for (chain, &x) in chains.iter_mut().zip(first) {
                *chain = (x.to_f64() * factor + *chain) * power + rest;
            }
            parity = others.iter().fold(parity, |parity, &x| parity ^ x.bits());
        }
    }
    let expected: f64 = chains.iter().sum();
    let near = (taken.sum - expected).abs() <= T::ROUNDING * expected.abs();
    if !near {
        return Some(format!("the sum is {} instead of {expected}", taken.sum));
    }
    (taken.parity != parity).then(|| format!("the parity is {:#x} instead of {parity:#x}", taken.parity))
}

/// The result with its sum widened to the oracle's f64.
fn widened<T: Float>(taken: Reduction<T>) -> Reduction<f64> {
    Reduction { sum: taken.sum.to_f64(), parity: taken.parity }
}

fn verify<T: Float>(forms: &[Form], depth: Depth, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
    let sizes: Vec<usize> = match depth {
        Depth::Small | Depth::Usual => vec![0, 1, 2, 3, 5, 7, 31, 33, 95, 97, 191, 193, 385, 769, 1025],
        Depth::Exhaustive => (0..=1100).collect(),
    };
    let longest = if depth == Depth::Small { 0 } else { 65_537 };
    let mut data = Buffer::<T>::new(longest.max(2048), Pages::Huge)?;
    data.iter_mut().enumerate().for_each(|(i, x)| *x = T::finite(window::mixed(i as u64)));
    for n in sizes.into_iter().chain((longest > 0).then_some(longest)) {
        for isa in available() {
            for kernel in forms.iter().filter_map(|form| IntensityKernel::new(isa, *form)) {
                let wrong = wrong(&data[..n], kernel, widened(kernel.run(&data[..n]))).unwrap_or_default();
                let kernel = format!("{} {}", name::<T>(kernel), isa.name());
                report(Case { kernel, on: format!("n = {n}"), wrong });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_cpu::timer::Timer;

    #[test]
    fn every_kernel_of_every_instruction_set_matches_the_oracle() {
        let mut report = |case: Case| assert_eq!(case.wrong, "", "{case:?}");
        verify::<f64>(&FORMS, Depth::Small, &mut report).unwrap();
        verify::<f32>(&FORMS, Depth::Small, &mut report).unwrap();
    }

    #[test]
    fn wrong_and_missing_sums_are_detected() {
        let a: Vec<f64> = (0..960).map(|i| <f64 as Float>::finite(window::mixed(i))).collect();
        for form in [Form { fma: 4, elements: 1 }, Form { fma: 1, elements: 2 }] {
            let kernel = IntensityKernel::new(best(), form).unwrap();
            let taken = kernel.run(&a);
            assert_eq!(wrong(&a, kernel, taken), None);
            assert!(wrong(&a, kernel, Reduction { sum: taken.sum - 1e-3, ..taken }).is_some());
            assert!(wrong(&a, kernel, Reduction { sum: f64::NAN, ..taken }).is_some());
            assert!(wrong(&a, kernel, Reduction { parity: taken.parity ^ 1, ..taken }).is_some());
        }
    }

    #[test]
    fn both_types_go_from_an_eighth_to_256_flop_per_byte() {
        let spots = spots();
        for kind in [Type::F64, Type::F32] {
            let intensities: Vec<f64> =
                spots.iter().filter(|spot| spot.kind == kind).map(|spot| spot.intensity).collect();
            assert_eq!((intensities.len(), intensities[0], intensities[11]), (12, 0.125, 256.0), "{kind}");
        }
    }

    #[test]
    fn each_launch_takes_the_next_chunk_and_is_checked_on_every_member() {
        let team = Rc::new(RefCell::new(Team::new(&[0, 0], Timer::Os).unwrap()));
        let window = Window::<f32>::new(&team, 1, 1 << 18, (3, Float::finite), &|| false).unwrap();
        let mut load = load(&team, &window, IntensityKernel::new(best(), FORMS[2]).unwrap());
        assert!(matches!((load.check)(), Check::Failed(_)), "nothing ran yet");
        team.borrow_mut().run_timed(2, &load.task).unwrap();
        assert_eq!((load.check)(), Check::Passed);
        assert_eq!(window.visited(1, 2).count(), 2);
        assert!((load.work.operations / load.work.traffic.total() as f64 - 0.5).abs() < 1e-12);
    }
}
