//! Times elementwise expressions: expands a request ([`BenchRequest`]) to points, and runs these on a device. `plimsoll-expr` has
//! the expressions, the backends have the kernels, and `plimsoll_suite::bench` interprets the figures.

mod apply;
mod batch;
mod name;
mod operand;
mod request;
mod tune;
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
use plimsoll_gen::elementwise::Device as PlanningDevice;
use plimsoll_sim::{ElementwiseBench, Sim};
use plimsoll_suite::bench::SPEC;

use crate::open::resolve_here;
use crate::run::{Plan, ProbeEnd, Summary, build_device_header};
use crate::select::DeviceSelector;
use crate::{OpenError, cuda_devices};

pub use apply::apply;
pub use batch::{BatchSets, BatchSetsError};
pub use name::{operation, types};
pub use operand::{Operand, OperandError};
pub use plimsoll_cuda::bench::Covers;
pub use plimsoll_cuda::elementwise::{Store, Tuned};
pub use plimsoll_gen::elementwise::{Table, TableError};
pub use plimsoll_suite::bench::{Cell, DEPENDENT, Line, PLAIN, PLANNED, ceiling, lines};
pub use request::{BenchRequest, BenchRequestError, Point, sizes};
pub use tune::tune_points;
pub use variant::{ALL, Variant, VariantError, variants};

/// A device on which expressions can be timed.
#[allow(clippy::large_enum_variant, reason = "a program has one, and doesn't move it")]
pub enum Device {
    /// A GPU.
    Cuda(Bench<Cuda>),
    /// The CPU that this process runs on.
    Cpu(Bench<Cpu>),
    /// The simulated device.
    Sim(Bench<Sim>),
}

impl Device {
    /// Opens one device; by default the first CUDA device, or else the CPU.
    ///
    /// # Errors
    /// As for [`crate::open()`]; [`Fault::Invalid`] for several devices, as expressions are timed on one device at a time.
    pub fn open(selector: &DeviceSelector, options: &CudaOptions) -> Result<Self, OpenError> {
        let cuda = |number| Ok(Self::Cuda(plimsoll_cuda::open(number, options, plimsoll_probes::cuda_probes())?));
        let resolved = resolve_here(selector)?;
        let Some(selector) = resolved.single() else {
            return Err(Fault::Invalid("expressions are timed on one device at a time: name it".to_owned()).into());
        };
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
                let (what, why) = ("expressions", "the Vulkan backend doesn't run them yet".to_owned());
                Err(Fault::Unavailable { what, why, hint: "Use cpu or cuda:N".to_owned() }.into())
            }
            other => Err(Fault::Invalid(format!("expressions can't be timed on {other}")).into()),
        }
    }

    /// The device's description of itself.
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
    /// Checks whether hardware counters can be read in addition to times.
    ///
    /// # Errors
    /// The reason if they can't, with a hint.
    pub fn counters(&self) -> Result<(), Fault> {
        match self {
            Self::Cuda(bench) => Instrument::counters(bench),
            Self::Cpu(bench) => Instrument::counters(bench),
            Self::Sim(bench) => Instrument::counters(bench),
        }
    }

    /// The properties of a GPU that plans depend on.
    ///
    /// # Errors
    /// [`Fault::Unavailable`] for a device that needs no plans.
    pub fn planning_device(&mut self) -> Result<PlanningDevice, Fault> {
        match self {
            Self::Cuda(bench) => Ok(*Engine::new(bench.device()).map_err(Fault::from)?.device()),
            Self::Cpu(_) | Self::Sim(_) => Err(Fault::Unavailable {
                what: "plans to tune",
                why: "this device runs expressions without plans".to_owned(),
                hint: "Choose a GPU, such as cuda:0".to_owned(),
            }),
        }
    }

    /// Whether a launch may begin before the previous one has ended.
    pub(crate) fn supports_dependent_launch(&mut self) -> bool {
        match self {
            Self::Cuda(bench) => bench.device().dependent_launch().is_ok(),
            Self::Cpu(_) => false,
            Self::Sim(_) => true,
        }
    }
}

/// Times points within `seconds` in total, with or without a check of results, and writes no header: for searches.
pub(crate) fn time_within(
    device: &mut Device,
    points: &[Point],
    (seconds, checked): (f64, bool),
    request: &Request,
    sink: &mut dyn Sink,
    stop: &AtomicBool,
) -> Result<Outcome, Fault> {
    match device {
        Device::Cuda(bench) => {
            let probe = CudaBench::new(points.iter().map(to_cuda_point).collect(), None).with_budget(seconds, checked);
            run_probe(bench, &probe, request, sink, stop)
        }
        Device::Cpu(_) | Device::Sim(_) => device.planning_device().map(|_| Outcome::Complete),
    }
}

/// The bytes of memory that a point needs if its operands rotate through `window` bytes each (only cold points rotate).
#[must_use]
pub fn memory_needed(point: &Point, window: u64) -> u64 {
    let problem = &point.problem;
    let inputs = (0..problem.inputs().len()).map(|slot| problem.input_bytes(slot));
    let outputs = problem.graph().outputs().iter().enumerate();
    let outputs = outputs.filter(|(_, output)| output.in_place.is_none()).map(|(place, _)| problem.output_bytes(place));
    let window = if point.cell.cache.is_cold() { window } else { 0 };
    let least = if window > 0 && point.covers == Covers::Rotating { 2 } else { 1 };
    let rotated = |bytes: u64| bytes.saturating_mul(window.div_ceil(bytes.max(1)).max(least));
    inputs.chain(outputs).map(rotated).fold(0, u64::saturating_add)
}

/// The result of a run of points.
#[derive(Debug)]
pub struct BenchSummary {
    /// The summary of the run.
    pub summary: Summary,
    /// Points that no kernel can run as chosen by hand, each with the reason.
    pub left_out: Vec<String>,
}

/// Times points: writes the header, then series and points as soon as they are known, and the end. `table` replaces the plans
/// that are shipped for the device with measured ones.
///
/// # Errors
/// [`Fault::Invalid`] for dependent launches and plans by hand on a CPU, before anything is written; [`Fault::Sink`] if `sink`
/// refuses a record. Other faults are recorded and listed in the summary.
pub fn measure(
    device: &mut Device,
    points: &[Point],
    table: Option<&Table>,
    plan: &Plan,
    sink: &mut (dyn Sink + Send),
    stop: &AtomicBool,
) -> Result<BenchSummary, Fault> {
    let mut left_out = Vec::new();
    if matches!(device, Device::Cpu(_)) {
        let gpu_only = |what: &str| Err(Fault::Invalid(format!("{what} need a GPU: leave them out on the CPU")));
        if points.iter().any(|point| point.cell.launch == DEPENDENT) {
            return gpu_only("dependent launches");
        }
        if points.iter().any(|point| point.variant != Variant::default()) {
            return gpu_only("plans by hand");
        }
        if points.iter().any(|point| point.covers != Covers::Rotating) {
            return gpu_only("batches");
        }
    }
    sink.write(&Record::Run(build_device_header(vec![device.info().clone()], plan)))?;
    let outcome = match device {
        Device::Cuda(bench) => {
            let probe = CudaBench::new(points.iter().map(to_cuda_point).collect(), table.cloned());
            let outcome = run_probe(bench, &probe, &plan.request, sink, stop);
            left_out = probe.left_out();
            outcome
        }
        Device::Cpu(bench) => {
            let to_cpu_point =
                |point: &Point| CpuPoint { cell: point.cell.clone(), problem: Arc::clone(&point.problem) };
            run_probe(bench, &CpuBench { points: points.iter().map(to_cpu_point).collect() }, &plan.request, sink, stop)
        }
        Device::Sim(bench) => {
            let cells = points.iter().map(|point| point.cell.clone()).collect();
            run_probe(bench, &ElementwiseBench { cells }, &plan.request, sink, stop)
        }
    }?;
    let complete =
        !matches!(&outcome, Outcome::Faulted(fault) if fault.ends_the_device() || matches!(fault, Fault::Stopped));
    sink.write(&Record::End { complete })?;
    let ends = vec![ProbeEnd { device: 0, probe: SPEC.name.to_owned(), outcome }];
    Ok(BenchSummary { summary: Summary { ends, complete }, left_out })
}

fn to_cuda_point(point: &Point) -> CudaPoint {
    CudaPoint {
        cell: point.cell.clone(),
        problem: Arc::clone(&point.problem),
        choose: point.variant.0,
        covers: point.covers.clone(),
    }
}

pub(crate) fn run_probe<B: plimsoll_core::probe::Backend>(
    bench: &mut Bench<B>,
    probe: &dyn Probe<B>,
    request: &Request,
    sink: &mut dyn Sink,
    stop: &AtomicBool,
) -> Result<Outcome, Fault> {
    bench.measure_with(probe, &mut RunContext { request, sink, stop, device: 0, next_series: 0 })
}
