//! strides on a GPU: warps that read at a stride, or in rows, from L1 and from shared memory. `crate::strides` explains the
//! figures; the kernels are in `kernel.cu`.

use super::kernels::{self, APART, ELEMENTS, THREADS, UNROLL};
use crate::folds::{MANY, Readers, SOME};
use crate::prelude::gpu::*;
use crate::strides::{self, Shape, Shaped, Stride};

/// The largest stride, elements.
const LARGEST: u32 = 128;
/// Bytes after which a loop's loads wrap around: two iterations.
const SPAN: u32 = 2 * UNROLL * APART;
/// Bytes between rows of an array: a power of two, and one sector more.
const PITCHES: [u32; 2] = [4096, 4128];
/// Bytes of an element in the `shapes` series.
const SHAPE_ELEMENT: u32 = 8;
/// Bytes of the array, enough for the farthest access.
const BYTES: u64 = 32 * PITCHES[1] as u64 + SPAN as u64 + 64;
/// Loop iterations of a launch whose accesses take one cycle each, and the minimum for others.
const ITERATIONS: (u32, u32) = (256, 48);
/// Loop iterations of a verified launch: untimed, timed.
const VERIFIED: [u32; 2] = [1, 5];

impl<G: Gpu> Run<G> for super::GpuRunner {
    const NEEDS: &'static [Need] = &[Need::Code(&kernels::SOURCE), Need::KernelClock];

    fn points(&self, device: &G::Device, request: &Request) -> usize {
        strided(request.effort, false).len() + shared_patterns::<G>(device, request.effort).len() + shapes().len()
    }

    fn run(&self, session: &mut Session<'_, G>) -> Result<(), Fault> {
        let effort = session.request.effort;
        let bench = Bench::<G>::new(session.device, session.request.seed)?;
        let (in_cache, in_shared, shapes) =
            (strided(effort, false), shared_patterns::<G>(session.device, effort), shapes());
        let load = |pattern: &Pattern| bench.load(*pattern, [pattern.iterations() / 8 + 1, pattern.iterations()], SOME);

        let sweep = Sweep { series: strides::tableau(), points: &in_cache, share: 0.6, flags: Flags::NONE };
        session.sweep(sweep, Pattern::stride_coordinates, |_, pattern| load(pattern))?;
        let sweep = Sweep { series: strides::shared(), points: &in_shared, share: 0.35, flags: Flags::NONE };
        session.sweep(sweep, Pattern::stride_coordinates, |_, pattern| load(pattern))?;
        let sweep = Sweep { series: strides::shapes(), points: &shapes, share: 0.05, flags: Flags::NONE };
        let coordinates = |pattern: &Pattern| Shaped { shape: pattern.shape(), pitch: pattern.pitch.into() };
        session.sweep(sweep, coordinates, |_, pattern| load(pattern)).map(drop)
    }

    fn verify(&self, device: &mut G::Device, depth: Depth, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
        let bench = Bench::<G>::new(device, 1)?;
        let effort = if depth == Depth::Small { Effort::Quick } else { Effort::Thorough };
        let few = |pattern: &Pattern| depth != Depth::Small || [1, 2, 3, 32, 128].contains(&pattern.stride());
        let all = [false, true].into_iter().flat_map(|shared| strided(effort, shared)).filter(few).chain(shapes());
        for pattern in all {
            let mut load = bench.load(pattern, VERIFIED, MANY)?;
            let on = format!("{} lanes a row, rows {} B apart", pattern.width, pattern.pitch);
            report(Case::from_sample(pattern.kernel().name, on, &mut load)?);
        }
        Ok(())
    }
}

/// The addresses that a warp reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pattern {
    shared: bool,
    element: u32,
    /// Lanes in a row.
    width: u32,
    /// Bytes between rows.
    pitch: u32,
}

impl Pattern {
    fn kernel(self) -> KernelDesc {
        if self.shared { kernels::shared(self.element) } else { kernels::cache(self.element) }
    }

    /// Elements from one row to the next.
    fn stride(self) -> u32 {
        self.pitch / self.element
    }

    fn stride_coordinates(&self) -> Stride {
        Stride { element: self.element.into(), stride: self.stride().into() }
    }

    /// Columns and rows of a block of threads.
    fn shape(self) -> Shape {
        Shape { columns: self.width, rows: THREADS / self.width }
    }

    /// Bytes from the base to the first access of a lane.
    fn offset(self, lane: u32) -> u32 {
        lane % self.width * self.element + lane / self.width * self.pitch
    }

    /// Bytes that contain all accesses.
    fn extent(self) -> u64 {
        u64::from(self.offset(31).max(self.offset(self.width.min(32) - 1)) + self.element + SPAN)
    }

    /// Loop iterations of a launch: fewer if the lanes touch many lines and so take many cycles.
    fn iterations(self) -> u32 {
        let lines = (self.offset(31) / APART + 1).min(32);
        (ITERATIONS.0 / lines).max(ITERATIONS.1)
    }

    /// The XOR of everything that a lane reads in two phases of `phases` iterations, each from the beginning.
    fn fold(self, seed: u64, lane: u32, phases: [u32; 2]) -> u32 {
        let iteration = |iteration: u32| {
            let begin = self.offset(lane) + iteration * UNROLL * APART % SPAN;
            let loads = (0..UNROLL).map(move |load| begin + load * APART);
            loads
                .flat_map(|at| at / 4..(at + self.element) / 4)
                .fold(0, |bits, word| bits ^ pattern::bits(seed, word.into()))
        };
        phases.into_iter().flat_map(|iterations| 0..iterations).fold(0, |bits, number| bits ^ iteration(number))
    }
}

/// Strides of a quick run: all small ones, then powers of two and numbers near them.
const QUICK_STRIDES: [u32; 27] =
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 128];

fn strided(effort: Effort, shared: bool) -> Vec<Pattern> {
    let strides: Vec<u32> = match effort {
        Effort::Quick | Effort::Unknown => QUICK_STRIDES.to_vec(),
        // Beyond half of the largest stride every lane is in a separate line, so fewer strides suffice.
        Effort::Standard => (1..=LARGEST).filter(|stride| *stride <= LARGEST / 2 || stride.is_multiple_of(4)).collect(),
        Effort::Thorough => (1..=LARGEST).collect(),
    };
    let patterns =
        |element| strides.iter().map(move |stride| Pattern { shared, element, width: 1, pitch: stride * element });
    ELEMENTS.into_iter().flat_map(patterns).collect()
}

/// The shared-memory patterns that fit into a block of this device.
fn shared_patterns<G: Gpu>(device: &G::Device, effort: Effort) -> Vec<Pattern> {
    let most = u64::from(G::capabilities(device).limits.shared_per_block);
    let fits = |pattern: &Pattern| pattern.extent() <= most;
    strided(effort, true).into_iter().filter(fits).collect()
}

fn shapes() -> Vec<Pattern> {
    let widths = (0..=10).map(|log| 1 << log);
    let patterns = |width| PITCHES.map(|pitch| Pattern { shared: false, element: SHAPE_ELEMENT, width, pitch });
    // From a warp's width on all shapes are alike; the widest one shows that.
    widths.filter(|width| *width <= 32 || *width == THREADS).flat_map(patterns).collect()
}

/// Shared by all points.
struct Bench<G: Gpu>(Readers<G>);

impl<G: Gpu> Bench<G> {
    fn new(device: &G::Device, seed: u64) -> Result<Self, Fault> {
        let kit = Kit::<G>::new(device, &kernels::SOURCE, &kernels::kernels(), TRUST)?;
        for element in ELEMENTS {
            G::prefer_cache(kit.unit.function(&kernels::cache(element))?.function())?;
        }
        Ok(Self(Readers::new(kit, BYTES, THREADS, seed)?))
    }

    fn load(&self, pattern: Pattern, phases: [u32; 2], every: usize) -> Result<InKernel<G>, Fault> {
        let kernel = pattern.kernel();
        let bytes = pattern.extent().next_multiple_of(16);
        let shared = if pattern.shared { bytes as u32 } else { 0 };
        let accesses = u64::from(THREADS / 32 * UNROLL * phases[1]);
        let traffic = Traffic::new(accesses * 32 * u64::from(pattern.element), 0);
        let work = Work { traffic, operations: accesses as f64, ..Work::default() };
        let Readers { kit, input, left, .. } = &self.0;
        let launch = |cycles| {
            let list = Arguments::new().buffer(left).span(cycles).buffer(input).u32((bytes / 4) as u32);
            let list = list.u32(pattern.width).u32(pattern.pitch).u32(SPAN).u32(phases[0]).u32(phases[1]);
            kit.unit.launch_with_shared(&kernel, 0, list, shared)
        };
        self.0.load(work, every, launch, move |seed, thread| pattern.fold(seed, thread as u32 % 32, phases))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_fits_into_the_array() {
        for pattern in strided(Effort::Thorough, true).into_iter().chain(shapes()) {
            assert!(pattern.extent() <= BYTES, "{pattern:?}");
            let last = (0..32).map(|lane| pattern.offset(lane)).max().unwrap();
            assert!(u64::from(last + pattern.element + SPAN) <= pattern.extent(), "{pattern:?}");
            assert!(pattern.pitch.is_multiple_of(pattern.element) && pattern.iterations() >= ITERATIONS.1);
        }
    }

    #[test]
    fn shapes_cover_widths_up_to_a_warp_and_the_widest() {
        let some = shapes().into_iter().filter(|shape| shape.pitch == 4096);
        let names: Vec<String> = some.map(|pattern| pattern.shape().to_string()).collect();
        assert_eq!(names[0], "1 × 1024");
        assert_eq!(names[5..], ["32 × 32", "1024 × 1"]);
    }
}
