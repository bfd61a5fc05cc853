//! compression on a GPU: z = a·x + y, and reads over footprint, in compressible memory and in plain memory that is mapped the same
//! way. `crate::lab::compression` defines the figures; `kernel.cu` has the kernels.

use plimsoll_cuda::driver::Attribute;
use plimsoll_cuda::launch::{Arguments, Launch};
use plimsoll_cuda::memory::{DeviceBuffer, MappedBuffer, Span};
use plimsoll_cuda::{Action, Load};
use plimsoll_cuda::{Cuda, CudaDevice};

use super::kernels::{self, Kind, datum};
use crate::cuda::checker::{Checker, POISON};
use crate::cuda::kit::{GRAPH, Kit, combine_checks, requested_bytes};
use crate::cuda::unit::Unit;
use crate::cuda::window::fit_arrays;
use crate::folds;
use crate::lab::compression::{self, CURVES, Data, Place, Reads, Saxpy};
use crate::prelude::gpu::*;
use crate::uniformity::kernels as uniformity;

/// Bytes of each array, as in the talk that this experiment follows.
const USUAL: u64 = 1_677_721_600;
/// Arrays in each of the two memories: x, y and z.
const ARRAYS: u64 = 3;
/// The scalar of measured launches: with y the same as x, z is twice that, and of the same kind.
const SCALAR: f32 = 1.0;
/// Footprints per octave (`quick` and otherwise), and the smallest and largest as multiples of the L2.
const PER_OCTAVE: [u32; 2] = [2, 4];
const ENDS: (f64, f64) = (0.25, 8.0);
/// Share of the budget for z = a·x + y.
const SHARE: f64 = 0.6;

/// The data as an index in [`Kind::ALL`], and whether the memory is compressible.
type DataPlace = (usize, bool);

impl Run<Cuda> for super::CudaRunner {
    const NEEDS: &'static [Need] = &[Need::Graphs];

    fn check_device(&self, device: &CudaDevice) -> Result<(), Fault> {
        device.context.driver().has("cuMemCreate")?;
        for attribute in [Attribute::VirtualMemory, Attribute::Compression] {
            if device.context.device().attribute(attribute)? == 0 {
                return Err(unavailable("the device has none"));
            }
        }
        Ok(())
    }

    fn points(&self, _: &CudaDevice, request: &Request) -> usize {
        let most = usize::from(request.effort != Effort::Quick);
        saxpies(request.effort).len() + (5 * PER_OCTAVE[most] as usize + 1) * 2 * CURVES.len()
    }

    fn run(&self, session: &mut Session<'_, Cuda>) -> Result<(), Fault> {
        let effort = session.request.effort;
        let cache = session.info().last_level_cache().max(1 << 20);
        let (bytes, flags) = fit_arrays(session.device, 2 * ARRAYS, requested_bytes(session, USUAL)?)?;
        let bench = Rc::new(Bench::new(session.device, bytes, session.request.seed)?);

        let points = saxpies(effort);
        let coordinates = |&((data, compressible), grid): &(DataPlace, usize)| Saxpy {
            place: Place { data: Data::ALL[data], compressible },
            grid: compression::Grid::ALL[grid],
        };
        let sweep = Sweep { series: compression::saxpy(), points: &points, share: SHARE, flags };
        session.sweep(sweep, coordinates, |_, (place, grid)| bench.saxpy(*place, *grid))?;

        let most = usize::from(effort != Effort::Quick);
        let points = footprints(cache, bytes, PER_OCTAVE[most]);
        let coordinates = |&((data, compressible), size): &(DataPlace, u64)| Reads {
            place: Place { data: Data::ALL[data], compressible },
            footprint: size.into(),
        };
        let series = compression::knee();
        let sweep = Sweep { series, points: &points, share: 1.0 - SHARE, flags: Flags::NONE };
        session.sweep(sweep, coordinates, |_, (place, size)| bench.reads(*place, *size))?;
        Ok(())
    }

    fn verify(&self, device: &mut CudaDevice, depth: Depth, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
        let bench = Bench::new(device, 4 << 20, 1)?;
        let sizes: &[u64] = match depth {
            Depth::Small => &[0, 1, 1025],
            _ => &[0, 1, 31, 33, 1023, 1024, 1025, 65_537, (4 << 20) / 16 - 256],
        };
        for compressible in [true, false] {
            let memory = if compressible { "compressible" } else { "plain" };
            for &n in sizes {
                for kind in Kind::ALL {
                    let on = format!("{n} vectors, {kind:?}, {memory}");
                    report(Case::new(kernels::fill().name, on, bench.filled(compressible, kind, n)?));
                }
                for kernel in [kernels::looped().with_grid(Grid::Blocks(3)), kernels::once()] {
                    let check = bench.computed(compressible, &kernel, n)?;
                    report(Case::new(kernel.name, format!("{n} vectors, {memory}"), check));
                }
            }
        }
        Ok(())
    }
}

fn unavailable(why: &str) -> Fault {
    let hint = "Use a device of compute capability 8.0 or later with a driver that supports it".to_owned();
    Fault::Unavailable { what: "compressible memory", why: why.to_owned(), hint }
}

/// Every kind of data in every grid, compressible and plain next to each other; `quick` has two grids.
fn saxpies(effort: Effort) -> Vec<(DataPlace, usize)> {
    let grids = if effort == Effort::Quick { 2 } else { compression::Grid::ALL.len() };
    let kinds = |grid| {
        (0..Data::ALL.len()).flat_map(move |data| [true, false].map(|compressible| ((data, compressible), grid)))
    };
    (0..grids).flat_map(kinds).collect()
}

/// Footprints around the cache's size, at most `most` bytes, each for all compared data and memories.
fn footprints(cache: u64, most: u64, per_octave: u32) -> Vec<(DataPlace, u64)> {
    let octaves = (ENDS.1 / ENDS.0).log2();
    let steps = (octaves * f64::from(per_octave)).round() as u32;
    let size = |step: u32| (cache as f64 * ENDS.0 * 2.0_f64.powf(f64::from(step) / f64::from(per_octave))) as u64;
    let sizes = (0..=steps).map(move |step| size(step).next_multiple_of(4096)).filter(move |size| *size <= most);
    let kinds: Vec<usize> = CURVES.iter().filter_map(|curve| Data::ALL.iter().position(|data| data == curve)).collect();
    let places = kinds.iter().flat_map(|data| [(*data, true), (*data, false)]).collect::<Vec<DataPlace>>();
    sizes.flat_map(|size| places.iter().map(move |place| (*place, size)).collect::<Vec<_>>()).collect()
}

/// x, y and z of one memory.
struct Arrays([MappedBuffer; 3]);

impl Arrays {
    fn new(device: &CudaDevice, bytes: u64, compressible: bool) -> Result<Self, Fault> {
        let new = || MappedBuffer::new(&device.stream, bytes, compressible);
        let arrays = [new()?, new()?, new()?];
        if compressible && !arrays.iter().all(MappedBuffer::is_compressible) {
            return Err(unavailable("the driver granted none on request"));
        }
        Ok(Self(arrays))
    }

    fn parts(&self, bytes: u64) -> Result<[Span; 3], Fault> {
        let [x, y, z] = &self.0;
        Ok([x.part(0, bytes)?, y.part(0, bytes)?, z.part(0, bytes)?])
    }
}

/// State shared by all points.
struct Bench {
    kit: Kit,
    /// The kernel that reads over footprints.
    reader: Unit,
    /// Its output: one word per warp.
    left: Rc<DeviceBuffer>,
    compressible: Arrays,
    plain: Arrays,
    bytes: u64,
    seed: u64,
}

impl Bench {
    fn new(device: &CudaDevice, bytes: u64, seed: u64) -> Result<Self, Fault> {
        let kit = Kit::new(device, &crate::lab::compression::kernels::SOURCE, &kernels::kernels(), TRUST)?;
        let reader = Unit::new(device, &crate::uniformity::kernels::SOURCE, &[uniformity::region()], TRUST)?;
        let warps = uniformity::region().geometry(1, reader.machine())?.warps();
        let left = Rc::new(kit.array(4 * warps)?);
        let (compressible, plain) = (Arrays::new(device, bytes, true)?, Arrays::new(device, bytes, false)?);
        Ok(Self { kit, reader, left, compressible, plain, bytes, seed })
    }

    fn arrays(&self, compressible: bool) -> &Arrays {
        if compressible { &self.compressible } else { &self.plain }
    }

    /// Fills a span of whole vectors by a kernel: only kernel writes are compressed.
    fn fill(&self, out: Span, kind: Kind, seed: u64) -> Result<(), Fault> {
        let n = out.bytes() / 16;
        let arguments = Arguments::new().span(out).u32(kind as u32).u64(seed).u64(n);
        self.kit.run(&[Action::Launch(self.kit.unit.launch(&kernels::fill(), 4 * n, arguments)?)])
    }

    fn launch(&self, kernel: &KernelDesc, [x, y, z]: [Span; 3], a: f32) -> Result<Launch, Fault> {
        let n = z.bytes() / 16;
        let arguments = Arguments::new().span(z).span(x).span(y).f32(a).u64(n);
        self.kit.unit.launch(kernel, 4 * n, arguments)
    }

    fn saxpy(&self, (data, compressible): DataPlace, grid: usize) -> Result<Load, Fault> {
        let [x, y, z] = self.arrays(compressible).parts(self.bytes)?;
        [x, y].into_iter().try_for_each(|array| self.fill(array, Kind::ALL[data], self.seed))?;
        self.kit.checker.poison(z)?;
        let grids = [Grid::Cover, Grid::Blocks(4000), Grid::Resident { blocks: 2 }, Grid::Resident { blocks: 1 }];
        let kernel = if grid == 0 { kernels::once() } else { kernels::looped().with_grid(grids[grid]) };
        let work = Work { traffic: Traffic::new(2 * self.bytes, self.bytes), window: self.bytes, ..Work::default() };
        let load = self.kit.load(GRAPH, vec![self.launch(&kernel, [x, y, z], SCALAR)?], work)?;
        let checker = Rc::clone(&self.kit.checker);
        Ok(load.with_check(move |_| checker.check_map(Op::Triad, Element::F32, z, [y, x, y], SCALAR.into())))
    }

    fn reads(&self, (data, compressible): DataPlace, size: u64) -> Result<Load, Fault> {
        let [input, ..] = self.arrays(compressible).parts(size)?;
        self.fill(input, Kind::ALL[data], self.seed)?;
        self.kit.checker.poison(self.left.whole())?;
        let arguments = Arguments::new().buffer(&self.left).span(input).u64(size / 16);
        let launch = self.reader.launch(&uniformity::region(), 1, arguments)?;
        let work = Work { traffic: Traffic::new(size, 0), ..Work::default() };
        let load = self.kit.load(GRAPH, vec![launch], work)?;
        let (checker, left) = (Rc::clone(&self.kit.checker), self.left.whole());
        Ok(load.with_check(move |_| {
            Ok(Checker::compare_folds("reads", checker.xor_words(left)?, checker.xor_words(input)?))
        }))
    }

    /// Whether a fill writes what the host computes, and nothing past its end.
    fn filled(&self, compressible: bool, kind: Kind, n: u64) -> Result<Check, Fault> {
        let [out, ..] = self.arrays(compressible).parts(16 * n + 4096)?;
        self.kit.checker.poison(out)?;
        self.fill(out.first(16 * n)?, kind, self.seed)?;
        let found = folds::words::<Cuda>(self.kit.stream(), out)?;
        let expected = |i: usize| if i < 4 * n as usize { datum(kind, self.seed, i as u64) } else { POISON };
        let wrong = found.iter().enumerate().find(|(i, word)| **word != expected(*i));
        Ok(wrong.map_or(Check::Passed, |(i, word)| {
            Check::Failed(format!("word {i} is {word:#010x}, not {:#010x}", expected(i)))
        }))
    }

    /// Whether a kernel writes a·x + y for different x and y, and nothing past its end.
    fn computed(&self, compressible: bool, kernel: &KernelDesc, n: u64) -> Result<Check, Fault> {
        const A: f32 = 1.625;
        let parts = self.arrays(compressible).parts(16 * n + 4096)?;
        let [x, y, z] = parts;
        self.fill(x, Kind::Random, self.seed)?;
        self.fill(y, Kind::Random, !self.seed)?;
        self.kit.checker.poison(z)?;
        let part = |span: Span| span.first(16 * n);
        let (x, y, out) = (part(x)?, part(y)?, part(z)?);
        self.kit.run(&[Action::Launch(self.launch(kernel, [x, y, out], A)?)])?;
        let behind = folds::words::<Cuda>(self.kit.stream(), z.part(16 * n, 4096)?)?;
        let guard = match behind.iter().all(|word| *word == POISON) {
            true => Check::Passed,
            false => Check::Failed("the kernel wrote past the end of the output".to_owned()),
        };
        combine_checks([self.kit.checker.check_map(Op::Triad, Element::F32, out, [y, x, y], A.into()), Ok(guard)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_is_followed_by_its_control() {
        for effort in [Effort::Quick, Effort::Standard] {
            let points = saxpies(effort);
            assert!(
                points.chunks(2).all(|pair| pair[0].0 == (pair[1].0.0, true) && !pair[1].0.1 && pair[0].1 == pair[1].1)
            );
        }
        assert_eq!(saxpies(Effort::Standard).len(), 56);
        assert_eq!(Kind::ALL.len(), Data::ALL.len());
    }

    #[test]
    fn footprints_span_the_cache_and_fit_the_array() {
        let points = footprints(60 << 20, 1 << 30, 4);
        assert_eq!(points.len(), 21 * 4);
        assert_eq!((points[0].1, points[83].1), (15 << 20, 480 << 20));
        assert!(footprints(60 << 20, 64 << 20, 2).iter().all(|(_, size)| *size <= 64 << 20));
    }
}
