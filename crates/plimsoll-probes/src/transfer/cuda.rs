//! transfer on a GPU: copies by the copy engines, back to back and single. `crate::transfer` explains the figures.

use std::cell::RefCell;

use plimsoll_core::flag::Flag;
use plimsoll_core::sample::Figure;
use plimsoll_cuda::StreamAction;
use plimsoll_cuda::driver::Stream;
use plimsoll_cuda::launch::Arguments;
use plimsoll_cuda::memory::{DeviceBuffer, HostBuffer, HostKind};
use plimsoll_cuda::{Action, Load, Shape};
use plimsoll_cuda::{Cuda, CudaDevice};
use plimsoll_gen::kernel::Index;

use crate::copy::kernels as copy;
use crate::cuda::checker::Checker;
use crate::cuda::kit::{combine_checks, requested_bytes};
use crate::cuda::unit::Unit;
use crate::cuda::window::fit_arrays;
use crate::prelude::gpu::*;
use crate::transfer::{self, Path};

/// Smallest and largest copy, bytes.
const SIZES: (u64, u64) = (1 << 10, 1 << 30);
/// Sizes of single copies: beyond the largest one the latency is negligible.
const SINGLES: [u64; 3] = [1 << 10, 64 << 10, 4 << 20];
/// Sizes of copies from and to pageable memory, of those by kernels, and from write-combined memory.
const STAGED: [u64; 3] = [1 << 10, 1 << 20, 64 << 20];
/// In this range every power of four is measured (thorough: from its start to the largest size), elsewhere every second one.
const FINE: std::ops::RangeInclusive<u64> = 1 << 20..=16 << 20;
/// Sizes for `verify`: around words, pages and the driver's staging size; none is a multiple of the next.
const AWKWARD: [u64; 13] = [1, 3, 4, 31, 32, 33, 1025, 4095, 4097, 65_537, 65_539, 1_048_573, 1_048_579];
/// Poison for host memory. It isn't zero, because the driver may hand out pages of zeros.
const HOST_POISON: u8 = 0xa5;

/// A path at a size.
type Point = (Path, u64);

impl Run<Cuda> for super::CudaRunner {
    fn points(&self, _: &CudaDevice, request: &Request) -> usize {
        let largest = request.bytes.unwrap_or(SIZES.1);
        points(request.effort, largest).len() + singles(largest).len()
    }

    fn run(&self, session: &mut Session<'_, Cuda>) -> Result<(), Fault> {
        let effort = session.request.effort;
        let largest = requested_bytes(session, SIZES.1)?.max(SIZES.0);
        let (bytes, shrunk) = fit_arrays(session.device, 3, largest)?;
        let (bench, flags) = Bench::new(session.device, bytes.min(largest), session.request.seed)?;
        let flags = if bytes < largest { flags.union(shrunk) } else { flags };
        let coordinates = |(path, size): &Point| transfer::Copy { path: *path, size: (*size).into() };

        let single = singles(bench.bytes());
        let sweep = Sweep { series: transfer::single(), points: &single, share: 0.2, flags: Flags::NONE };
        session.sweep(sweep, coordinates, |_, (path, size)| bench.load(*path, *size, Figure::Latency))?;
        let copies = points(effort, bench.bytes());
        let sweep = Sweep { series: transfer::copies(), points: &copies, share: 0.8, flags };
        session.sweep(sweep, coordinates, |_, (path, size)| bench.load(*path, *size, Figure::Throughput))?;
        Ok(())
    }

    fn verify(&self, device: &mut CudaDevice, depth: Depth, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
        let large = if depth == Depth::Small { None } else { Some((64 << 20) + 12) };
        let most = AWKWARD.iter().copied().chain(large).max().unwrap_or(SIZES.0);
        let (bench, _) = Bench::new(device, most.next_multiple_of(4096), 1)?;
        for path in Path::ALL {
            // Kernels copy whole words.
            let whole = |size: &u64| !matches!(path, Path::UpKernel | Path::DownKernel) || size.is_multiple_of(4);
            for size in AWKWARD.into_iter().chain(large).filter(whole) {
                report(Case::new(path.to_string(), format!("{size} bytes"), bench.run_once(path, size)?));
            }
        }
        Ok(())
    }
}

/// Paths and sizes, small sizes first, so that the time they save goes to large ones. Copies shorter than their call take the
/// same time at every size, and staged copies are slow, so both have fewer sizes.
fn points(effort: Effort, largest: u64) -> Vec<Point> {
    let mut points: Vec<Point> = Vec::new();
    for i in 0..=10_u32 {
        let size = SIZES.0 << (2 * i);
        if size > largest.max(SIZES.0) {
            break;
        }
        let coarse = i % 2 == 0;
        let fine = match effort {
            Effort::Thorough => size >= *FINE.start(),
            Effort::Standard => FINE.contains(&size),
            _ => false,
        };
        let wanted = |path: Path| match path {
            Path::UpPageable | Path::DownPageable | Path::UpCombined | Path::UpKernel | Path::DownKernel => {
                STAGED.contains(&size)
            }
            _ => coarse || fine,
        };
        points.extend(Path::ALL.into_iter().filter(|path| wanted(*path)).map(|path| (path, size)));
    }
    points
}

/// Single copies. Few sizes suffice, since the line through them has only two terms.
fn singles(largest: u64) -> Vec<Point> {
    let sizes = SINGLES.into_iter().filter(|size| *size <= largest.max(SIZES.0));
    let by_engine = |path: &Path| !matches!(*path, Path::UpCombined | Path::UpKernel | Path::DownKernel);
    sizes.flat_map(|size| Path::ALL.into_iter().filter(by_engine).map(move |path| (path, size))).collect()
}

/// Host memory of one kind. Pinned memory has separate buffers for the two directions, which run at the same time.
struct Host {
    up: Rc<RefCell<HostBuffer>>,
    down: Rc<RefCell<HostBuffer>>,
}

impl Host {
    fn new(device: &CudaDevice, kind: HostKind, bytes: u64) -> Result<Self, Fault> {
        let buffer = || Ok::<_, Fault>(Rc::new(RefCell::new(HostBuffer::new(&device.context, kind, bytes)?)));
        let up = buffer()?;
        let down = if kind == HostKind::Pinned { buffer()? } else { Rc::clone(&up) };
        Ok(Self { up, down })
    }
}

/// Shared by all points.
struct Bench {
    checker: Rc<Checker>,
    stream: Arc<Stream>,
    /// For copies down while the first stream copies up.
    second: Arc<Stream>,
    /// Random data, the source of every copy.
    origin: DeviceBuffer,
    /// Destination of copies up and within the device.
    target: Rc<DeviceBuffer>,
    /// Where data copied down are uploaded again for the check.
    back: Rc<DeviceBuffer>,
    pinned: Host,
    pageable: Host,
    combined: Host,
    /// The unit with the copy kernel.
    unit: Unit,
    kernel: KernelDesc,
}

impl Bench {
    /// Allocates buffers of `bytes`, or smaller ones with [`Flag::Shrunk`] if the host lacks room.
    fn new(device: &CudaDevice, bytes: u64, seed: u64) -> Result<(Self, Flags), Fault> {
        let (mut bytes, mut flags) = (bytes, Flags::NONE);
        let hosts = loop {
            let pinned = Host::new(device, HostKind::Pinned, bytes);
            let others = |kind| Host::new(device, kind, bytes);
            let all =
                pinned.and_then(|pinned| Ok((pinned, others(HostKind::Pageable)?, others(HostKind::WriteCombined)?)));
            match all {
                Err(Fault::OutOfMemory { .. }) if bytes >= 2 * SIZES.0 => {
                    bytes = (bytes / 2).next_multiple_of(16);
                    flags.insert(Flag::Shrunk);
                }
                hosts => break hosts?,
            }
        };
        let array = || DeviceBuffer::new(&device.context, bytes);
        let kernel = copy::vector(4, Index::U64);
        let bench = Self {
            checker: Checker::new(device, TRUST)?,
            stream: Arc::clone(&device.stream),
            second: Arc::new(Stream::new(&device.context)?),
            origin: array()?,
            target: Rc::new(array()?),
            back: Rc::new(array()?),
            pinned: hosts.0,
            pageable: hosts.1,
            combined: hosts.2,
            unit: Unit::new(device, &crate::copy::kernels::SOURCE, std::slice::from_ref(&kernel), TRUST)?,
            kernel,
        };
        bench.checker.fill(Data::Bits, Element::Word, bench.origin.whole(), seed)?;
        Ok((bench, flags))
    }

    fn bytes(&self) -> u64 {
        self.origin.bytes()
    }

    fn host(&self, path: Path) -> &Host {
        match path {
            Path::UpPageable | Path::DownPageable => &self.pageable,
            Path::UpCombined => &self.combined,
            _ => &self.pinned,
        }
    }

    /// Fills the host's source buffer with data and its destination buffer with poison.
    fn fill(&self, path: Path, size: u64) -> Result<(), Fault> {
        let host = self.host(path);
        if is_up(path) {
            host.up.borrow_mut().copy_from(&self.stream, self.origin.part(0, size)?)?;
            host.up.borrow_mut().content()?;
        }
        if is_down(path) {
            let bytes = usize::try_from(size).unwrap_or(usize::MAX);
            host.down.borrow_mut().content()?[..bytes].fill(HOST_POISON);
        }
        Ok(())
    }

    /// The copies of a path: on the first stream, and if needed on the second.
    fn actions(&self, path: Path, size: u64) -> Result<(Action, Option<Action>), Fault> {
        let (origin, target) = (self.origin.part(0, size)?, self.target.part(0, size)?);
        let host = self.host(path);
        let up = || Action::Other(StreamAction::Up(Rc::clone(&host.up), target));
        let down = || Action::Other(StreamAction::Down(Rc::clone(&host.down), origin));
        Ok(match path {
            Path::Across => (Action::Copy(target, origin), None),
            Path::UpKernel => (self.kernel_copy(&host.up, true, size)?, None),
            Path::DownKernel => (self.kernel_copy(&host.down, false, size)?, None),
            Path::BothPinned => (up(), Some(down())),
            _ if is_up(path) => (up(), None),
            _ => (down(), None),
        })
    }

    /// A copy of whole words by a kernel from the host's memory, or to it.
    fn kernel_copy(&self, host: &Rc<RefCell<HostBuffer>>, up: bool, size: u64) -> Result<Action, Fault> {
        let mapped = host.borrow().mapped()?;
        let list = match up {
            true => Arguments::new().span(self.target.part(0, size)?).span(mapped),
            false => Arguments::new().span(mapped).span(self.origin.part(0, size)?),
        };
        let launch = self.unit.launch(&self.kernel, size / 4, list.u64(size / 4))?;
        Ok(Action::Launch(launch))
    }

    /// The check that all data arrived. Whole words are compared on the device; data copied down are uploaded again first.
    fn check(&self, path: Path, size: u64) -> Result<impl Fn(&Arc<Stream>) -> Result<Check, Fault> + use<>, Fault> {
        let whole = size / 4 * 4;
        let (origin, target) = (self.origin.part(0, whole)?, self.target.part(0, whole)?);
        let (back, down) = (self.back.part(0, whole)?, Rc::clone(&self.host(path).down));
        let checker = Rc::clone(&self.checker);
        let keep = (Rc::clone(&self.target), Rc::clone(&self.back));
        Ok(move |stream: &Arc<Stream>| {
            let _ = &keep;
            let compare = |copied| checker.check_map(Op::Copy, Element::Word, copied, [origin; 3], 0.0);
            let arrived = if is_down(path) && whole > 0 {
                checker.poison(back)?;
                down.borrow_mut().copy_to(stream, back)?;
                compare(back)
            } else {
                Ok(Check::Passed)
            };
            combine_checks([
                arrived,
                if is_down(path) && path != Path::BothPinned { Ok(Check::Passed) } else { compare(target) },
            ])
        })
    }

    fn load(&self, path: Path, size: u64, figure: Figure) -> Result<Load, Fault> {
        self.fill(path, size)?;
        let shape = if figure == Figure::Latency { Shape::HostLatency } else { Shape::Stream };
        let (first, second) = self.actions(path, size)?;
        let work = Work { traffic: traffic(path, size), operations: 1.0, ..Work::default() };
        let mut load = Load::new(&self.stream, shape, vec![first], work)?;
        if let Some(second) = second {
            load = load.with_second_stream(&self.second, vec![second])?;
        }
        let (checker, target) = (Rc::clone(&self.checker), self.target.part(0, size)?);
        let poison = move |_: &Arc<Stream>| if ends_on_device(path) { checker.poison(target) } else { Ok(()) };
        Ok(load.with_prepare(poison).with_check(self.check(path, size)?))
    }

    /// One copy of any size, compared byte by byte on the host.
    fn run_once(&self, path: Path, size: u64) -> Result<Check, Fault> {
        use plimsoll_core::sample::Workload as _;
        let bytes = usize::try_from(size).unwrap_or(usize::MAX);
        let download = |buffer: &DeviceBuffer, beyond: usize| {
            let mut to = vec![0; bytes + beyond];
            buffer.download(&self.stream, &mut to).map(|()| to)
        };
        let beyond = 16.min(usize::try_from(self.bytes() - size).unwrap_or(0));
        self.checker.poison(self.target.whole())?;
        let mut load = self.load(path, size, Figure::Latency)?;
        load.sample(1, &mut [0])?;
        let expected = download(&self.origin, 0)?;
        let differs = |found: &[u8], poison: u8| {
            let place = found.iter().zip(&expected).position(|(a, b)| a != b);
            place.or_else(|| found.iter().skip(bytes).position(|byte| *byte != poison).map(|place| bytes + place))
        };
        let mut wrong = None;
        if ends_on_device(path) {
            wrong = differs(&download(&self.target, beyond)?, 0xff);
        }
        if is_down(path) {
            let mut down = self.host(path).down.borrow_mut();
            wrong = wrong.or(differs(&down.content()?[..bytes], HOST_POISON));
        }
        Ok(wrong.map_or(Check::Passed, |place| Check::Failed(format!("byte {place} of {size} is wrong"))))
    }
}

fn is_up(path: Path) -> bool {
    matches!(path, Path::UpPinned | Path::UpPageable | Path::BothPinned | Path::UpCombined | Path::UpKernel)
}

fn is_down(path: Path) -> bool {
    matches!(path, Path::DownPinned | Path::DownPageable | Path::BothPinned | Path::DownKernel)
}

fn ends_on_device(path: Path) -> bool {
    path == Path::Across || is_up(path)
}

/// Bytes of device memory that a copy reads and writes.
fn traffic(path: Path, size: u64) -> Traffic {
    Traffic::new(
        if is_down(path) || path == Path::Across { size } else { 0 },
        if ends_on_device(path) { size } else { 0 },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_has_the_smallest_and_large_sizes() {
        for effort in Effort::ALL {
            let points = points(effort, SIZES.1);
            for path in Path::ALL {
                assert!(
                    points.contains(&(path, SIZES.0))
                        && points.iter().any(|point| point.0 == path && point.1 >= 64 << 20)
                );
            }
            assert!(points.is_sorted_by_key(|point| point.1));
        }
        assert_eq!(points(Effort::Quick, 1).len(), Path::ALL.len());
    }

    #[test]
    fn two_way_and_device_copies_count_each_byte_twice() {
        let total = |path| traffic(path, 100).total();
        assert_eq!(Path::ALL.map(total), [100, 100, 200, 100, 100, 200, 100, 100, 100]);
    }
}
