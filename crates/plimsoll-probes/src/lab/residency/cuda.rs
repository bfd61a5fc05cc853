//! residency on a GPU: part of the L2 set aside, access policy windows, and how lines are released. A guard restores the limit when
//! the probe ends. `crate::lab::residency` defines the figures; `kernel.cu` has the kernels.

use plimsoll_cuda::driver::{Access, AccessWindow, Attribute, Limit, LimitGuard, Stream};
use plimsoll_cuda::launch::{Arguments, Launch};
use plimsoll_cuda::memory::Transfer as _;
use plimsoll_cuda::memory::{DeviceBuffer, Span};
use plimsoll_cuda::{Action, Load, Shape};
use plimsoll_cuda::{Cuda, CudaDevice, wait};

use super::kernels;
use super::letting_go::{End, LettingGo};
use crate::cuda::checker::Checker;
use crate::cuda::kit::{GRAPH, Kit, requested_bytes};
use crate::cuda::unit::Unit;
use crate::cuda::window::fit_arrays;
use crate::lab::residency::{self, After, Ending, OnBins, OnWindow, SET_ASIDE, Way};
use crate::prelude::gpu::*;
use crate::uniformity::kernels as uniformity;

mod verify;

/// Bytes of the histogram's data, and of the streamed data: 256 Mi integers.
const USUAL: u64 = 1 << 30;
/// Bytes of the smaller bins, as in the talk that this experiment follows; the larger ones are half of the cache.
const BINS: u64 = 20 << 20;
/// Largest buffer as a multiple of the cache, and the steps up to it (`quick` and otherwise).
const LARGEST: f64 = 1.5;
const STEPS: [u32; 2] = [6, 12];
/// Ways of the sliding window; by graph node would be the same as by stream.
const SLIDING: [Way; 3] = [Way::Unpinned, Way::Stream, Way::Tuned];
/// Share of the set-aside that a tuned ratio fills: lines are chosen at random, so a full share would overfill some sets.
const FILLED: f64 = 2.0 / 3.0;
/// Share of the cache that is read after pinning: more than the set-aside leaves (three eighths on an H200, a quarter
/// on an A100), and less than the cache keeps of data that are read again (six tenths on an H200).
const AFTER: f64 = 0.5;
/// Shares of the budget: histogram, sliding window, reset.
const SHARES: [f64; 3] = [0.3, 0.5, 0.2];

/// A way to pin, and the bytes of the buffer.
type Point = (Way, u64);

impl Run<Cuda> for super::CudaRunner {
    const NEEDS: &'static [Need] = &[Need::Graphs];

    fn check_device(&self, device: &CudaDevice) -> Result<(), Fault> {
        let calls =
            ["cuStreamSetAttribute", "cuGraphKernelNodeSetAttribute", "cuCtxSetLimit", "cuCtxResetPersistingL2Cache"];
        device.context.driver().has_all(&calls)?;
        if attribute(device, Attribute::MostPersistingL2)? > 0 {
            return Ok(());
        }
        let why = "no part of the L2 can be set aside on this device".to_owned();
        let hint = "Use a device of compute capability 8.0 or later, not divided into instances".to_owned();
        Err(Fault::Unavailable { what: "residency in the L2", why, hint })
    }

    fn points(&self, _: &CudaDevice, request: &Request) -> usize {
        let most = usize::from(request.effort != Effort::Quick);
        2 * Way::ALL.len() + (STEPS[most] - STEPS[most] / 6) as usize * SLIDING.len() + Ending::ALL.len()
    }

    fn run(&self, session: &mut Session<'_, Cuda>) -> Result<(), Fault> {
        let effort = session.request.effort;
        let cache = session.info().last_level_cache().max(1 << 20);
        let sizes = windows(cache, STEPS[usize::from(effort != Effort::Quick)]);
        let largest = sizes.iter().copied().max().unwrap_or(cache);
        let (bytes, flags) = fit_arrays(session.device, 1, requested_bytes(session, USUAL)?)?;
        if bytes < 2 * largest {
            let need = 2 * largest;
            let why = format!(
                "{bytes} bytes are too few to stream past a buffer of one and a half times the cache; use {need} or more"
            );
            return Err(Fault::Invalid(why));
        }
        let bench = Rc::new(Bench::new(session.device, bytes, largest.max(BINS), session.request.seed)?);

        let bins = [BINS.min(bytes / 4), (cache / 2).next_multiple_of(4096)];
        let points: Vec<Point> = bins.iter().flat_map(|bins| Way::ALL.map(|way| (way, *bins))).collect();
        let coordinates = |(way, size): &Point| OnBins { way: *way, bins: (*size).into() };
        bench.kit.checker.fill(Data::Bits, Element::Word, bench.data.whole(), bench.seed)?;
        let sweep = Sweep { series: residency::histogram(), points: &points, share: SHARES[0], flags };
        session.sweep(sweep, coordinates, |_, point| bench.histogram(*point))?;

        let points: Vec<Point> = sizes.iter().flat_map(|size| SLIDING.map(|way| (way, *size))).collect();
        let sweep = Sweep { series: residency::sliding(), points: &points, share: SHARES[1], flags };
        let coordinates = |(way, size): &Point| OnWindow { way: *way, window: (*size).into() };
        session.sweep(sweep, coordinates, |_, point| bench.sliding(*point))?;

        let sweep = Sweep { series: residency::reset(), points: &Ending::ALL, share: SHARES[2], flags: Flags::NONE };
        let read = ((cache as f64 * AFTER) as u64).next_multiple_of(4096).min(bytes);
        session.sweep(sweep, |after| After { after: *after }, |_, end| bench.after(*end, read))?;
        Ok(())
    }

    fn verify(&self, device: &mut CudaDevice, depth: Depth, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
        verify::check_kernels(&Bench::new(device, 8 << 20, 4 << 20, 1)?, depth, report)
    }
}

fn attribute(device: &CudaDevice, attribute: Attribute) -> Result<u64, Fault> {
    Ok(u64::try_from(device.context.device().attribute(attribute)?).unwrap_or(0))
}

/// Buffers from a quarter of the cache to one and a half times its size.
fn windows(cache: u64, steps: u32) -> Vec<u64> {
    let size = |step: u32| (cache as f64 * LARGEST * f64::from(step) / f64::from(steps)) as u64;
    (steps / 6..=steps).filter(|step| *step > 0).map(|step| size(step).next_multiple_of(4096)).collect()
}

/// The hit ratio that fills two thirds of the set-aside.
fn tuned_ratio(aside: u64, window: u64) -> f64 {
    (FILLED * aside as f64 / window.max(1) as f64).min(1.0)
}

/// State shared by all points.
struct Bench {
    kit: Kit,
    /// The kernel that reads after pinning.
    reader: Unit,
    /// Its output: one word per warp.
    left: Rc<DeviceBuffer>,
    /// Data of the histogram, or the streamed data.
    data: Rc<DeviceBuffer>,
    /// Bins, or the repeatedly updated buffer.
    kept: Rc<DeviceBuffer>,
    result: DeviceBuffer,
    /// The set-aside; restores the former limit.
    limit: LimitGuard,
    /// The largest set-aside and the largest window, bytes.
    most: [u64; 2],
    seed: u64,
}

impl Bench {
    fn new(device: &CudaDevice, bytes: u64, kept: u64, seed: u64) -> Result<Self, Fault> {
        let kit = Kit::new(device, &crate::lab::residency::kernels::SOURCE, &kernels::kernels(), TRUST)?;
        let reader = Unit::new(device, &crate::uniformity::kernels::SOURCE, &[uniformity::region()], TRUST)?;
        let warps = uniformity::region().geometry(1, reader.machine())?.warps();
        let array = |bytes| kit.array(bytes).map(Rc::new);
        let (left, data, kept) = (array(4 * warps)?, array(bytes)?, array(kept)?);
        let result = kit.array(8)?;
        let limit = LimitGuard::new(&device.context, Limit::PersistingL2)?;
        let most = [attribute(device, Attribute::MostPersistingL2)?, attribute(device, Attribute::LargestWindow)?];
        Ok(Self { kit, reader, left, data, kept, result, limit, most, seed })
    }

    /// Releases all lines, then sets aside as much as possible or nothing. Returns the bytes in force.
    fn set_aside(&self, wanted: bool) -> Result<u64, Fault> {
        self.kit.stream().context().reset_persisting()?;
        Ok(self.limit.set(if wanted { self.most[0] } else { 0 })?)
    }

    /// A window over as much of a span as the device allows.
    fn window(&self, span: Span, ratio: f64, hits: Access) -> Result<AccessWindow, Fault> {
        Ok(AccessWindow::new(span.first(span.bytes().min(self.most[1]))?, ratio, hits))
    }

    /// A workload of one kernel with `span` pinned in one way.
    fn load(&self, launch: Launch, span: Span, way: Way, work: Work) -> Result<Load, Fault> {
        let aside = self.set_aside(way != Way::Unpinned)?;
        let ratio = if way == Way::Tuned { tuned_ratio(aside, span.bytes()) } else { 1.0 };
        let window = self.window(span, ratio, Access::Persisting)?;
        let load = match way {
            Way::Unpinned => self.kit.load(GRAPH, vec![launch], work)?,
            Way::Stream => {
                // The attribute ends with the stream.
                let stream = Arc::new(Stream::new(self.kit.stream().context())?);
                stream.set_window(Some(window))?;
                // The fills run in the other stream.
                wait::stream(self.kit.stream())?;
                Load::new(&stream, Shape::Stream, vec![Action::Launch(launch)], work)?
            }
            _ => self.kit.load(GRAPH, vec![launch.with_window(window)], work)?,
        };
        Ok(load.with_extra(SET_ASIDE, aside as f64))
    }

    fn additions(&self, bins: Span, data: Span) -> Result<Launch, Fault> {
        let (count, n) = ((bins.bytes() / 4) as u32, data.bytes() / 16);
        let arguments = Arguments::new().span(bins).span(data).u32(count).u64(n);
        self.kit.unit.launch(&kernels::histogram(), 4 * n, arguments)
    }

    fn histogram(self: &Rc<Self>, (way, size): Point) -> Result<Load, Fault> {
        let (bins, data) = (self.kept.part(0, size)?, self.data.whole());
        let n = data.bytes() / 16 * 4;
        self.kit.checker.fill_words(bins, 0)?;
        let traffic = Traffic::new(data.bytes() + bins.bytes(), bins.bytes());
        let work = Work { traffic, operations: n as f64, ..Work::default() };
        let load = self.load(self.additions(bins, data)?, bins, way, work)?;
        let bench = Rc::clone(self);
        Ok(load.with_check(move |_| bench.check_bins(bins, data)))
    }

    fn updates(&self, buffer: Span, stream: Span) -> Result<Launch, Fault> {
        let (kept, passes) = (buffer.bytes() / 16, stream.bytes() / buffer.bytes());
        let arguments = Arguments::new().span(buffer).span(stream).u64(kept).u32(passes as u32);
        self.kit.unit.launch(&kernels::sliding(), kept, arguments)
    }

    fn sliding(self: &Rc<Self>, (way, size): Point) -> Result<Load, Fault> {
        let buffer = self.kept.part(0, size)?;
        let stream = self.data.part(0, self.data.bytes() / size * size)?;
        self.kit.checker.fill_words(buffer, 0)?;
        self.kit.checker.fill_words(stream, 0)?;
        let traffic = Traffic::new(2 * stream.bytes(), 2 * stream.bytes());
        let work = Work { traffic, ..Work::default() };
        let load = self.load(self.updates(buffer, stream)?, buffer, way, work)?;
        let bench = Rc::clone(self);
        Ok(load.with_check(move |_| bench.check_updates(buffer, stream)))
    }

    /// Reads of `size` bytes of other data, after data as large as the set-aside were pinned and released.
    fn after(self: &Rc<Self>, ending: Ending, size: u64) -> Result<LettingGo, Fault> {
        let aside = self.set_aside(ending != Ending::Never)?;
        let input = self.data.part(0, size)?;
        let pinned = self.kept.part(0, aside.max(self.most[0]).min(self.kept.bytes()) / 16 * 16)?;
        let touch = self.updates(pinned, pinned)?;
        self.kit.checker.poison(self.left.whole())?;
        let arguments = Arguments::new().buffer(&self.left).span(input).u64(size / 16);
        let read = self.reader.launch(&uniformity::region(), 1, arguments)?;
        let work = Work { traffic: Traffic::new(size, 0), ..Work::default() };
        let load = self.kit.load(GRAPH, vec![read.clone()], work)?.with_extra(SET_ASIDE, aside as f64);
        let (checker, left) = (Rc::clone(&self.kit.checker), self.left.whole());
        let load = load.with_check(move |_| {
            Ok(Checker::compare_folds("reads", checker.xor_words(left)?, checker.xor_words(input)?))
        });
        let persisting = self.window(pinned, 1.0, Access::Persisting)?;
        let normal = touch.clone().with_window(self.window(pinned, 1.0, Access::Normal)?);
        let pin = (ending != Ending::Never).then(|| touch.with_window(persisting));
        let end = match ending {
            Ending::Never | Ending::Left => End::Nothing,
            Ending::Limit => End::Reset,
            _ => End::Launch(Box::new(normal)),
        };
        let (bench, most) = (Rc::clone(self), self.most[0]);
        let limit = move |wanted: bool| bench.limit.set(if wanted { most } else { 0 }).map(drop).map_err(Fault::from);
        Ok(LettingGo::new(load, self.kit.stream(), pin, end, read, Box::new(limit)))
    }

    /// The count of a checking kernel.
    fn run_check(&self, kernel: &KernelDesc, arguments: Arguments) -> Result<u64, Fault> {
        self.result.upload(self.kit.stream(), &0_u64.to_le_bytes())?;
        self.kit.run(&[Action::Launch(self.kit.unit.launch(kernel, 1, arguments)?)])?;
        let mut bytes = [0; 8];
        self.result.download(self.kit.stream(), &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    fn total(&self, at: Span) -> Result<u64, Fault> {
        self.run_check(&kernels::total(), Arguments::new().buffer(&self.result).span(at).u64(at.bytes() / 4))
    }

    fn others(&self, at: Span, word: u32) -> Result<u64, Fault> {
        self.run_check(&kernels::others(), Arguments::new().buffer(&self.result).span(at).u32(word).u64(at.bytes() / 4))
    }

    fn count(&self, data: Span, bins: u32, wanted: u32) -> Result<u64, Fault> {
        let arguments = Arguments::new().buffer(&self.result).span(data).u32(bins).u32(wanted);
        self.run_check(&kernels::count(), arguments.u64(data.bytes() / 4))
    }

    /// Whether the bins hold all data of a whole number of launches, and some bins the number that a second kernel counts.
    fn check_bins(&self, bins: Span, data: Span) -> Result<Check, Fault> {
        let (n, count) = (data.bytes() / 16 * 4, bins.bytes() / 4);
        let total = self.total(bins)?;
        if total == 0 || total % n != 0 {
            return Ok(Check::Failed(format!("the bins sum to {total}, which is not a multiple of {n}")));
        }
        for bin in [0, count / 2, count - 1] {
            let mut word = [0; 4];
            bins.part(4 * bin, 4)?.download(self.kit.stream(), &mut word)?;
            let expected = self.count(data, count as u32, bin as u32)? * (total / n);
            if u64::from(u32::from_le_bytes(word)) != expected {
                return Ok(Check::Failed(format!("bin {bin} holds {}, not {expected}", u32::from_le_bytes(word))));
            }
        }
        Ok(Check::Passed)
    }

    /// Whether every streamed word was updated as often as the first one, and every buffer word once per pass.
    fn check_updates(&self, buffer: Span, stream: Span) -> Result<Check, Fault> {
        let mut first = [0; 4];
        stream.download(self.kit.stream(), &mut first)?;
        let (launches, passes) = (u32::from_le_bytes(first), (stream.bytes() / buffer.bytes()) as u32);
        let wrong = [(stream, launches), (buffer, launches.wrapping_mul(passes))];
        for (span, word) in wrong {
            let others = self.others(span, word)?;
            if launches == 0 || others > 0 {
                return Ok(Check::Failed(format!("{others} words are not {word} after {launches} launches")));
            }
        }
        Ok(Check::Passed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_span_a_quarter_to_one_and_a_half_caches() {
        for steps in STEPS {
            let windows = windows(60 << 20, steps);
            assert_eq!((windows[0], windows[windows.len() - 1]), (15 << 20, 90 << 20));
            assert_eq!(windows.len() as u32, steps - steps / 6 + 1);
        }
    }

    #[test]
    fn tuned_ratio_fills_two_thirds_of_the_set_aside_and_is_at_most_one() {
        assert!((tuned_ratio(30 << 20, 40 << 20) - 0.5).abs() < 1e-12);
        assert_eq!(tuned_ratio(30 << 20, 1 << 20), 1.0);
    }
}
