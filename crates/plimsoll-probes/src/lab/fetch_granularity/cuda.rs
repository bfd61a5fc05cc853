//! fetch-granularity on a GPU: a guard restores the limit when the probe ends. `crate::lab::fetch_granularity` defines the
//! figures; `kernel.cu` has the kernels.

use plimsoll_cuda::driver::{Limit, LimitGuard};
use plimsoll_cuda::launch::{Arguments, Launch};
use plimsoll_cuda::memory::DeviceBuffer;
use plimsoll_cuda::{Action, Load};
use plimsoll_cuda::{Cuda, CudaDevice};

use super::kernels::{self, HINTS, UNROLL};
use crate::cuda::kit::{GRAPH, Kit, requested_bytes};
use crate::cuda::window::fit_arrays;
use crate::folds::{self, MANY, SOME};
use crate::gather::kernels::{LINE, place};
use crate::lab::fetch_granularity::{self, Hint, IN_FORCE, LIMITS, Read};
use crate::prelude::gpu::*;

/// Footprint as a multiple of the L2: one read in sixteen finds its line there.
const USUAL: u64 = 16;
/// The least footprint as a multiple of the L2.
const LEAST: u64 = 4;
/// Bytes of a read.
const SIZE: u32 = 32;
/// Loop iterations of a launch: some 3·10⁷ reads, so that a launch touches most of the footprint.
const ITERATIONS: u32 = 64;
/// Cache lines of the verified array.
const VERIFIED: u64 = 5000;

impl Run<Cuda> for super::CudaRunner {
    const NEEDS: &'static [Need] = &[Need::Graphs];

    fn check_device(&self, device: &CudaDevice) -> Result<(), Fault> {
        device.context.driver().has("cuCtxSetLimit")?;
        Ok(device.context.limit(Limit::FetchGranularity).map(drop)?)
    }

    fn points(&self, _: &CudaDevice, _: &Request) -> usize {
        LIMITS.len() * HINTS.len()
    }

    fn run(&self, session: &mut Session<'_, Cuda>) -> Result<(), Fault> {
        let cache = session.info().last_level_cache().max(1 << 20);
        let (bytes, flags) = fit_arrays(session.device, 1, requested_bytes(session, USUAL * cache)?)?;
        if bytes <= LEAST * cache {
            let need = LEAST * cache;
            let why = format!("the cache would hold too large a part of {bytes} bytes; use more than {need}");
            return Err(Fault::Invalid(why));
        }
        let bench = Rc::new(Bench::new(session.device, bytes, session.request.seed)?);
        let points: Vec<(u64, u32)> = HINTS.iter().flat_map(|hint| LIMITS.map(|limit| (limit, *hint))).collect();
        let coordinates = |(limit, bytes): &(u64, u32)| Read { limit: (*limit).into(), hint: Hint((*bytes).into()) };
        let sweep = Sweep { series: fetch_granularity::reads(), points: &points, share: 1.0, flags };
        session.sweep(sweep, coordinates, |_, (limit, hint)| bench.load(*limit, *hint))?;
        Ok(())
    }

    fn verify(&self, device: &mut CudaDevice, _: Depth, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
        let bench = Bench::new(device, VERIFIED * u64::from(LINE), 1)?;
        for bytes in HINTS {
            for iterations in [1, 3] {
                bench.kit.checker.poison(bench.left.whole())?;
                bench.kit.run(&[Action::Launch(bench.launch(bytes, iterations)?)])?;
                let (on, check) = (format!("{iterations} iterations"), bench.check(iterations, MANY)?);
                report(Case::new(kernels::read(bytes).name, on, check));
            }
        }
        Ok(())
    }
}

/// State shared by all points.
struct Bench {
    kit: Kit,
    array: DeviceBuffer,
    /// One word per thread.
    left: DeviceBuffer,
    limit: LimitGuard,
    lines: u32,
    threads: u32,
    seed: u64,
}

impl Bench {
    fn new(device: &CudaDevice, bytes: u64, seed: u64) -> Result<Self, Fault> {
        let kit = Kit::new(device, &crate::lab::fetch_granularity::kernels::SOURCE, &kernels::kernels(), TRUST)?;
        let grid = kernels::read(0).geometry(1, kit.unit.machine())?;
        let threads = grid.blocks * grid.threads;
        let (array, left) = (kit.array(bytes)?, kit.array(4 * u64::from(threads))?);
        kit.checker.fill(Data::Bits, Element::Word, array.whole(), seed)?;
        let limit = LimitGuard::new(&device.context, Limit::FetchGranularity)?;
        let lines = u32::try_from(bytes / u64::from(LINE)).unwrap_or(u32::MAX);
        Ok(Self { kit, array, left, limit, lines, threads, seed })
    }

    fn launch(&self, hint: u32, iterations: u32) -> Result<Launch, Fault> {
        let arguments = Arguments::new().buffer(&self.left).buffer(&self.array).u32(self.lines);
        self.kit.unit.launch(&kernels::read(hint), 1, arguments.u32(self.seed as u32).u32(iterations))
    }

    fn load(self: &Rc<Self>, limit: u64, hint: u32) -> Result<Load, Fault> {
        let force = self.limit.set(limit)?;
        let reads = u64::from(self.threads / 2) * u64::from(UNROLL * ITERATIONS);
        let traffic = Traffic::new(reads * u64::from(SIZE), 0);
        let work = Work { traffic, operations: reads as f64, ..Work::default() };
        self.kit.checker.poison(self.left.whole())?;
        let load = self.kit.load(GRAPH, vec![self.launch(hint, ITERATIONS)?], work)?.with_extra(IN_FORCE, force as f64);
        let bench = Rc::clone(self);
        Ok(load.with_check(move |_| bench.check(ITERATIONS, SOME)))
    }

    /// Whether every `every`-th thread read the right words.
    fn check(&self, iterations: u32, every: usize) -> Result<Check, Fault> {
        let found = folds::words::<Cuda>(self.kit.stream(), self.left.whole())?;
        let (pairs, seed) = (self.threads / 2, self.seed);
        let fold = |thread: usize| {
            let base = (seed as u32).wrapping_add(thread as u32 / 2);
            let numbers = (0..iterations * UNROLL).map(|number| base.wrapping_add(number.wrapping_mul(pairs)));
            let begins = numbers.map(|i| place(i, SIZE, self.lines) / 4 + thread as u64 % 2 * 4);
            begins.flat_map(|word| word..word + 4).fold(0, |bits, word| bits ^ pattern::bits(seed, word))
        };
        Ok(folds::check(&found, every, fold))
    }
}
