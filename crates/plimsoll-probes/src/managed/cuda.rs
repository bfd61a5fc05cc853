//! managed on a GPU: one triad over unified memory by where its pages are, and prefetches. `crate::managed` explains the
//! figures; the kernel comes from `stream`.

use std::time::Duration;

use plimsoll_core::sample::{Batch, Workload};
use plimsoll_cuda::Action;
use plimsoll_cuda::driver::{Attribute, Event};
use plimsoll_cuda::launch::Arguments;
use plimsoll_cuda::memory::{Advice, DeviceBuffer, ManagedBuffer, Side, Span};
use plimsoll_cuda::{Cuda, CudaDevice, wait};

use crate::cuda::kit::{Kit, requested_bytes};
use crate::managed::{self, ByPlacement, Placement};
use crate::prelude::gpu::*;
use crate::stream::kernels::Parameters;

/// Output and two inputs.
const ARRAYS: u64 = 3;
/// Bytes per array, usually and with thorough effort: the host touches every page before most samples.
const BYTES: (u64, u64) = (64 << 20, 256 << 20);
/// Share of the free memory that may be used: pages that don't fit would migrate back and forth.
const SHARE: f64 = 0.8;
/// How long the blocking kernel runs while the host queues the timed work: queueing a prefetch takes longer than a launch.
const BLOCKED: Duration = Duration::from_micros(500);
/// The scalar of the triad.
const SCALAR: f32 = 1.625;

impl Run<Cuda> for super::CudaRunner {
    fn check_device(&self, device: &CudaDevice) -> Result<(), Fault> {
        device.context.driver().has_all(&["cuMemAllocManaged", "cuMemPrefetchAsync", "cuMemAdvise"])?;
        let handle = device.context.device();
        let both = [Attribute::ManagedMemory, Attribute::ConcurrentManaged];
        for attribute in both {
            if handle.attribute(attribute)? != 1 {
                let why = "the device or the system doesn't let host and device share pages on demand".to_owned();
                let hint =
                    "Use a device of compute capability 6.0 or later on Linux, outside a shared instance".to_owned();
                return Err(Fault::Unavailable { what: "unified memory", why, hint });
            }
        }
        Ok(())
    }

    fn points(&self, _: &CudaDevice, _: &Request) -> usize {
        Placement::ALL.len()
    }

    fn run(&self, session: &mut Session<'_, Cuda>) -> Result<(), Fault> {
        let effort = session.request.effort;
        let usual = if effort == Effort::Thorough { BYTES.1 } else { BYTES.0 };
        let bytes = requested_bytes(session, usual)?;
        check_fit(bytes, session.device.memory_free()?)?;
        let bench = Rc::new(Bench::new(session.device, bytes, session.request.seed)?);
        let sweep = Sweep { series: managed::triad(), points: &Placement::ALL, share: 1.0, flags: Flags::NONE };
        let coordinates = |placement: &Placement| ByPlacement { placement: *placement };
        session.sweep(sweep, coordinates, |_, placement| bench.placed(*placement))?;
        Ok(())
    }

    fn verify(&self, device: &mut CudaDevice, _: Depth, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
        let bench = Rc::new(Bench::new(device, 1 << 20, 1)?);
        for placement in Placement::ALL {
            let mut placed = bench.placed(placement)?;
            for _ in 0..2 {
                placed.sample(1, &mut [0])?;
            }
            report(Case::new(placement.to_string(), "3 arrays of 1 MiB", placed.check()?));
        }
        Ok(())
    }
}

/// Checks that three arrays of unified memory and three of ordinary memory, `bytes` each, fit into `free` bytes.
fn check_fit(bytes: u64, free: u64) -> Result<(), Fault> {
    let all = bytes.saturating_mul(2 * ARRAYS);
    if all as f64 <= free as f64 * SHARE {
        return Ok(());
    }
    let gib = |bytes: u64| format!("{:.1} GiB", bytes as f64 / (1_u64 << 30) as f64);
    let most = ((free as f64 * SHARE) as u64 / (2 * ARRAYS)) >> 20;
    Err(Fault::Invalid(format!(
        "managed needs {} and may use 80 % of the {} that the device has free: unified memory beyond that would migrate back \
         and forth and may hang the device; give at most --bytes {most}MiB",
        gib(all),
        gib(free)
    )))
}

fn triad() -> KernelDesc {
    Parameters { threads: 128, ..Parameters::new(Op::Triad) }.kernel()
}

/// Shared by all points.
struct Bench {
    kit: Kit,
    ordinary: Vec<DeviceBuffer>,
    bytes: u64,
    seed: u64,
}

impl Bench {
    fn new(device: &CudaDevice, bytes: u64, seed: u64) -> Result<Self, Fault> {
        let kit = Kit::new(device, &crate::stream::kernels::SOURCE, &[triad()], TRUST)?;
        let ordinary: Vec<DeviceBuffer> = (0..ARRAYS).map(|_| kit.array(bytes)).collect::<Result<_, Fault>>()?;
        let bench = Self { kit, ordinary, bytes, seed };
        bench.fill(bench.ordinary.iter().map(DeviceBuffer::whole))?;
        Ok(bench)
    }

    /// Fills all arrays with random data.
    fn fill(&self, spans: impl Iterator<Item = Span>) -> Result<(), Fault> {
        for (place, span) in (0..).zip(spans) {
            self.kit.checker.fill(Data::Unit, Element::F32, span, self.seed.wrapping_add(place))?;
        }
        Ok(())
    }

    /// Unified memory filled with data and advised for the placement.
    fn arrays(&self, placement: Placement) -> Result<Vec<ManagedBuffer>, Fault> {
        if placement == Placement::Ordinary {
            return Ok(Vec::new());
        }
        let context = self.kit.stream().context();
        let arrays: Vec<ManagedBuffer> =
            (0..ARRAYS).map(|_| ManagedBuffer::new(context, self.bytes)).collect::<Result<_, Fault>>()?;
        if placement == Placement::FirstTouch {
            return Ok(arrays);
        }
        self.fill(arrays.iter().map(ManagedBuffer::whole))?;
        wait::stream(self.kit.stream())?;
        for (place, array) in arrays.iter().enumerate() {
            match placement {
                Placement::ReadMostly if place > 0 => array.advise(Advice::ReadMostly)?,
                Placement::Staying => {
                    array.advise(Advice::StayWithHost)?;
                    array.advise(Advice::ReachedByDevice)?;
                }
                _ => {}
            }
        }
        Ok(arrays)
    }

    fn placed(self: &Rc<Self>, placement: Placement) -> Result<Placed, Fault> {
        let context = self.kit.stream().context();
        let elements = self.bytes / 4;
        let moves = matches!(placement, Placement::Prefetch | Placement::PrefetchBack);
        let all = self.bytes * ARRAYS;
        let traffic = match placement {
            Placement::Prefetch => Traffic::new(0, all),
            Placement::PrefetchBack => Traffic::new(all, 0),
            _ => triad().traffic(elements),
        };
        Ok(Placed {
            arrays: self.arrays(placement)?,
            bench: Rc::clone(self),
            placement,
            moves,
            events: (Event::new(context)?, Event::new(context)?),
            work: Work { traffic, operations: 1.0, ..Work::default() },
        })
    }
}

/// One triad, or one prefetch, after all pages have been moved to their placement.
struct Placed {
    arrays: Vec<ManagedBuffer>,
    bench: Rc<Bench>,
    placement: Placement,
    moves: bool,
    events: (Event, Event),
    work: Work,
}

impl Placed {
    /// Output and inputs.
    fn spans(&self) -> Vec<Span> {
        if self.arrays.is_empty() {
            return self.bench.ordinary.iter().map(DeviceBuffer::whole).collect();
        }
        self.arrays.iter().map(ManagedBuffer::whole).collect()
    }

    fn triad(&self) -> Result<Action, Fault> {
        let spans = self.spans();
        let [out, a, b] = [spans[0], spans[1], spans[2]];
        let n = self.bench.bytes / 4;
        let list = Arguments::new().span(out).span(a).span(b).span(b).f32(SCALAR).u64(n);
        Ok(Action::Launch(self.bench.kit.unit.launch(&triad(), n, list)?))
    }

    /// Moves all pages to their placement, and waits.
    fn place(&mut self) -> Result<(), Fault> {
        let stream = Arc::clone(self.bench.kit.stream());
        if self.placement == Placement::FirstTouch {
            // Frees the old arrays first, so that memory use never exceeds the requested size.
            self.arrays.clear();
            self.arrays = self.bench.arrays(Placement::FirstTouch)?;
            return Ok(());
        }
        if !self.moves {
            self.bench.kit.checker.poison(self.spans()[0])?;
        }
        wait::stream(&stream)?;
        match self.placement {
            Placement::FromHost | Placement::ReadMostly | Placement::Staying | Placement::Prefetch => {
                for array in &mut self.arrays {
                    array.touch_by_host()?;
                }
            }
            Placement::Resident | Placement::PrefetchBack => {
                for array in &self.arrays {
                    array.prefetch(&stream, Side::Device)?;
                }
            }
            _ => {}
        }
        wait::stream(&stream)
    }

    fn run_timed(&mut self) -> Result<u64, Fault> {
        self.place()?;
        let stream = Arc::clone(self.bench.kit.stream());
        let action = if self.moves { None } else { Some(self.triad()?) };
        let side = if self.placement == Placement::Prefetch { Side::Device } else { Side::Host };
        self.bench.kit.block(BLOCKED)?;
        self.events.0.record(&stream)?;
        match action {
            Some(action) => action.enqueue(&stream)?,
            None => self.arrays.iter().try_for_each(|array| array.prefetch(&stream, side))?,
        }
        self.events.1.record(&stream)?;
        wait::event(&self.events.1)?;
        Ok(self.events.1.nanoseconds_since(&self.events.0)?)
    }
}

impl Workload for Placed {
    fn work(&self) -> Work {
        self.work
    }

    fn batch(&self) -> Batch {
        Batch { cycle: 1, max: 1 }
    }

    fn sample(&mut self, _: u32, out: &mut [u64]) -> Result<(), Fault> {
        self.bench.kit.stream().context().bind()?;
        for sample in out {
            *sample = self.run_timed()?;
        }
        Ok(())
    }

    fn check(&mut self) -> Result<Check, Fault> {
        let spans = self.spans();
        let [out, a, b] = [spans[0], spans[1], spans[2]];
        let checker = &self.bench.kit.checker;
        if !self.moves {
            return checker.check_map(Op::Triad, Element::F32, out, [a, b, b], f64::from(SCALAR));
        }
        // Prefetched inputs must still equal the ordinary arrays; the output isn't compared.
        let same = |place: usize| {
            checker.check_map(Op::Copy, Element::Word, spans[place], [self.bench.ordinary[place].whole(); 3], 0.0)
        };
        crate::cuda::kit::combine_checks([same(1), same(2)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_large_arrays_are_refused_with_the_largest_size_that_fits() {
        assert!(check_fit(64 << 20, 100 << 30).is_ok());
        assert!(check_fit(16 << 30, 139 << 30).is_ok());
        let refused = check_fit(32 << 30, 139 << 30).unwrap_err().to_string();
        assert!(refused.contains("at most --bytes") && refused.contains("hang"), "{refused}");
        assert!(check_fit(u64::MAX, 139 << 30).is_err());
    }

    #[test]
    fn default_sizes_stay_below_8_gib() {
        assert!(ARRAYS * BYTES.0.max(BYTES.1) <= 8 << 30);
    }
}
