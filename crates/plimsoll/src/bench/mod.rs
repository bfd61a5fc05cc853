//! Timing elementwise expressions: from what a user asks ([`Ask`]) to points, and running these on a device. The expression
//! is `plimsoll-expr`'s, its kernels are the backends', what the figures mean is `plimsoll_suite::bench`'s.

mod apply;
mod ask;
mod name;
mod operand;
mod variant;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use plimsoll_core::Fault;
use plimsoll_core::device::DeviceInfo;
use plimsoll_core::probe::{Bench, Instrument, Outcome, Probe, Request, RunContext};
use plimsoll_core::record::{Record, Sink};
use plimsoll_cpu::Cpu;
use plimsoll_cpu::workload::bench::{Bench as CpuBench, Point as CpuPoint};
use plimsoll_cuda::bench::{Bench as CudaBench, Point as CudaPoint};
use plimsoll_cuda::elementwise::Engine;
use plimsoll_cuda::{Cuda, Options as CudaOptions};
use plimsoll_gen::elementwise::Device as Planned;
use plimsoll_sim::{ElementwiseBench, Sim};
use plimsoll_suite::bench::SPEC;

use crate::run::{Plan, ProbeEnd, Summary, header_of};
use crate::select::DeviceSelector;
use crate::{OpenError, cuda_devices};

pub use apply::apply;
pub use ask::{Ask, AskError, Point, sizes};
pub use name::{operation, types};
pub use operand::{Operand, OperandError};
pub use plimsoll_gen::elementwise::{Table, TableError};
pub use plimsoll_suite::bench::{Cell, DEPENDENT, Line, PLAIN, PLANNED, ceiling, lines};
pub use variant::{ALL, Variant, VariantError, variants};

/// A device that expressions can be timed on.
#[allow(clippy::large_enum_variant, reason = "there is one of them, and it is never moved about")]
pub enum Device {
    /// A GPU.
    Cuda(Bench<Cuda>),
    /// The CPU that this process runs on.
    Cpu(Bench<Cpu>),
    /// The simulated device.
    Sim(Bench<Sim>),
}

impl Device {
    /// Opens one device: the first CUDA device, else the CPU, by default.
    ///
    /// # Errors
    /// Those of [`crate::open()`]; [`Fault::Invalid`] for all devices, as expressions are timed on one.
    pub fn open(selector: &DeviceSelector, options: &CudaOptions) -> Result<Self, OpenError> {
        let cuda = |number| Ok(Self::Cuda(plimsoll_cuda::open(number, options, plimsoll_probes::cuda_probes())?));
        match selector {
            DeviceSelector::Default if cuda_devices().is_ok() => cuda(0),
            DeviceSelector::Default | DeviceSelector::Cpu => {
                Ok(Self::Cpu(plimsoll_cpu::open(plimsoll_probes::cpu_probes())?))
            }
            DeviceSelector::Cuda(number) => {
                cuda_devices()?;
                cuda(*number)
            }
            DeviceSelector::Sim(scenario) => {
                let scenario: plimsoll_sim::Scenario =
                    scenario.parse().map_err(|error| OpenError::Scenario(format!("{error}")))?;
                Ok(Self::Sim(plimsoll_sim::open(&scenario)))
            }
            DeviceSelector::Vulkan(_) | DeviceSelector::VulkanHardware => {
                let (what, why) = ("expressions", "the Vulkan backend runs none yet".to_owned());
                Err(Fault::Unavailable { what, why, hint: "Use cpu or cuda:N".to_owned() }.into())
            }
            DeviceSelector::All => {
                Err(Fault::Invalid("expressions are timed on one device at a time: name it".to_owned()).into())
            }
        }
    }

    /// What it says of itself.
    #[must_use]
    pub fn info(&self) -> &DeviceInfo {
        match self {
            Self::Cuda(bench) => bench.info(),
            Self::Cpu(bench) => bench.info(),
            Self::Sim(bench) => bench.info(),
        }
    }
}

impl Device {
    /// Whether hardware counters can be read beside the times.
    ///
    /// # Errors
    /// Why not, and what brings it.
    pub fn counters(&self) -> Result<(), Fault> {
        match self {
            Self::Cuda(bench) => Instrument::counters(bench),
            Self::Cpu(bench) => Instrument::counters(bench),
            Self::Sim(bench) => Instrument::counters(bench),
        }
    }

    /// What plans depend on of a GPU.
    ///
    /// # Errors
    /// [`Fault::Unavailable`] for a device that needs no plans; the driver's.
    pub fn planned(&mut self) -> Result<Planned, Fault> {
        match self {
            Self::Cuda(bench) => Ok(*Engine::new(bench.device()).map_err(Fault::from)?.device()),
            Self::Cpu(_) | Self::Sim(_) => Err(Fault::Unavailable {
                what: "plans to tune",
                why: "this device runs expressions without any".to_owned(),
                hint: "Tune a GPU: --device cuda:0".to_owned(),
            }),
        }
    }

    /// Whether launches may begin before the one before them has ended.
    pub(crate) fn dependent_launch(&mut self) -> bool {
        match self {
            Self::Cuda(bench) => bench.device().dependent_launch().is_ok(),
            Self::Cpu(_) => false,
            Self::Sim(_) => true,
        }
    }
}

/// Times points in so many seconds together, checked or not, without a header: what a search does.
pub(crate) fn time_hurried(
    device: &mut Device,
    points: &[Point],
    (seconds, checked): (f64, bool),
    request: &Request,
    sink: &mut dyn Sink,
    stop: &AtomicBool,
) -> Result<Outcome, Fault> {
    match device {
        Device::Cuda(bench) => {
            let probe = CudaBench::new(points.iter().map(of_cuda).collect(), None).hurried(seconds, checked);
            with(bench, &probe, request, sink, stop)
        }
        Device::Cpu(_) | Device::Sim(_) => device.planned().map(|_| Outcome::Complete),
    }
}

/// Bytes of memory that a point needs where its operands rotate through `window` bytes each, or don't.
#[must_use]
pub fn memory(point: &Point, window: u64) -> u64 {
    let problem = &point.problem;
    let inputs = (0..problem.inputs().len()).map(|slot| problem.input_bytes(slot));
    let outputs = problem.graph().outputs().iter().enumerate();
    let outputs = outputs.filter(|(_, output)| output.in_place.is_none()).map(|(place, _)| problem.output_bytes(place));
    let window = if point.cell.cache.is_cold() { window } else { 0 };
    let rotated = |bytes: u64| bytes.saturating_mul(window.div_ceil(bytes.max(1)).max(if window > 0 { 2 } else { 1 }));
    inputs.chain(outputs).map(rotated).fold(0, u64::saturating_add)
}

/// How a run of points ended.
#[derive(Debug)]
pub struct Ended {
    /// As of any run.
    pub summary: Summary,
    /// Points that no kernel can do as chosen by hand, each with the reason.
    pub left_out: Vec<String>,
}

/// Times points: writes the header, then series and points as they are known, and the end. `table` has plans found by
/// measurement, instead of those that are shipped for the device.
///
/// # Errors
/// [`Fault::Invalid`] for dependent launches and plans by hand on a CPU, before anything is written; [`Fault::Sink`] where
/// `sink` refuses a record; whatever else goes wrong is recorded and told in the summary.
pub fn measure(
    device: &mut Device,
    points: &[Point],
    table: Option<&Table>,
    plan: &Plan,
    sink: &mut (dyn Sink + Send),
    stop: &AtomicBool,
) -> Result<Ended, Fault> {
    let mut left_out = Vec::new();
    if matches!(device, Device::Cpu(_)) {
        let only = |what: &str| Err(Fault::Invalid(format!("{what} are a GPU's: leave them out on the CPU")));
        if points.iter().any(|point| point.cell.launch == DEPENDENT) {
            return only("dependent launches");
        }
        if points.iter().any(|point| point.variant != Variant::default()) {
            return only("plans by hand");
        }
    }
    sink.write(&Record::Run(header_of(vec![device.info().clone()], plan)))?;
    let outcome = match device {
        Device::Cuda(bench) => {
            let probe = CudaBench::new(points.iter().map(of_cuda).collect(), table.cloned());
            let outcome = with(bench, &probe, &plan.request, sink, stop);
            left_out = probe.left_out();
            outcome
        }
        Device::Cpu(bench) => {
            let of_cpu = |point: &Point| CpuPoint { cell: point.cell.clone(), problem: Arc::clone(&point.problem) };
            with(bench, &CpuBench { points: points.iter().map(of_cpu).collect() }, &plan.request, sink, stop)
        }
        Device::Sim(bench) => {
            let cells = points.iter().map(|point| point.cell.clone()).collect();
            with(bench, &ElementwiseBench { cells }, &plan.request, sink, stop)
        }
    }?;
    let complete =
        !matches!(&outcome, Outcome::Faulted(fault) if fault.ends_the_device() || matches!(fault, Fault::Stopped));
    sink.write(&Record::End { complete })?;
    let ends = vec![ProbeEnd { device: 0, probe: SPEC.name.to_owned(), outcome }];
    Ok(Ended { summary: Summary { ends, complete }, left_out })
}

fn of_cuda(point: &Point) -> CudaPoint {
    CudaPoint { cell: point.cell.clone(), problem: Arc::clone(&point.problem), choose: point.variant.0 }
}

fn with<B: plimsoll_core::probe::Backend>(
    bench: &mut Bench<B>,
    probe: &dyn Probe<B>,
    request: &Request,
    sink: &mut dyn Sink,
    stop: &AtomicBool,
) -> Result<Outcome, Fault> {
    bench.measure_with(probe, &mut RunContext { request, sink, stop, device: 0, next_series: 0 })
}
