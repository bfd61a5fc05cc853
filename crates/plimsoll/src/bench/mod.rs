//! Timing elementwise expressions: from what a user asks ([`Ask`]) to points, and running these on a device. The expression
//! is `plimsoll-expr`'s, its kernels are the backends', what the figures mean is `plimsoll_suite::bench`'s.

mod ask;
mod name;
mod operand;
mod variant;

use std::sync::atomic::AtomicBool;

use plimsoll_core::Fault;
use plimsoll_core::device::DeviceInfo;
use plimsoll_core::probe::{Bench, Instrument, Outcome, Probe, Request, RunContext};
use plimsoll_core::record::{Record, Sink};
use plimsoll_cuda::{Cuda, Options as CudaOptions};
use plimsoll_sim::{ElementwiseBench, Sim};
use plimsoll_suite::bench::SPEC;

use crate::run::{Plan, ProbeEnd, Summary, header_of};
use crate::select::DeviceSelector;
use crate::{OpenError, cuda_devices};

pub use ask::{Ask, AskError, Point, sizes};
pub use name::{operation, types};
pub use operand::{Operand, OperandError};
pub use plimsoll_suite::bench::{Cell, DEPENDENT, Line, PLAIN, PLANNED, ceiling, lines};
pub use variant::{ALL, Variant, VariantError, variants};

/// A device that expressions can be timed on.
#[allow(clippy::large_enum_variant, reason = "there is one of them, and it is never moved about")]
pub enum Device {
    /// A GPU.
    Cuda(Bench<Cuda>),
    /// The simulated device.
    Sim(Bench<Sim>),
}

impl Device {
    /// Opens one device: the first CUDA device, else the CPU, by default.
    ///
    /// # Errors
    /// Those of [`crate::open`]; [`Fault::Invalid`] for all devices, as expressions are timed on one.
    pub fn open(selector: &DeviceSelector, options: &CudaOptions) -> Result<Self, OpenError> {
        let cuda = |number| Ok(Self::Cuda(plimsoll_cuda::open(number, options)?));
        match selector {
            DeviceSelector::Default if cuda_devices().is_ok() => cuda(0),
            DeviceSelector::Default | DeviceSelector::Cpu => Err(Fault::Unavailable {
                what: "expressions on the CPU",
                why: "this version runs them on GPUs".to_owned(),
                mend: "Choose a GPU with --device cuda:0".to_owned(),
            }
            .into()),
            DeviceSelector::Cuda(number) => {
                cuda_devices()?;
                cuda(*number)
            }
            DeviceSelector::Sim(scenario) => {
                let scenario: plimsoll_sim::Scenario =
                    scenario.parse().map_err(|error| OpenError::Scenario(format!("{error}")))?;
                Ok(Self::Sim(plimsoll_sim::open(&scenario)))
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
            Self::Sim(bench) => bench.info(),
        }
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

/// Times points: writes the header, then series and points as they are known, and the end.
///
/// # Errors
/// [`Fault::Sink`] where `sink` refuses a record; whatever else goes wrong is recorded and told in the summary.
pub fn measure(
    device: &mut Device,
    points: &[Point],
    plan: &Plan,
    sink: &mut (dyn Sink + Send),
    stop: &AtomicBool,
) -> Result<Summary, Fault> {
    sink.write(&Record::Run(header_of(vec![device.info().clone()], plan)))?;
    let outcome = match device {
        Device::Cuda(_) => Err(Fault::Invalid("not yet".to_owned())),
        Device::Sim(bench) => {
            let cells = points.iter().map(|point| point.cell.clone()).collect();
            with(bench, &ElementwiseBench { cells }, &plan.request, sink, stop)
        }
    }?;
    let complete =
        !matches!(&outcome, Outcome::Faulted(fault) if fault.ends_the_device() || matches!(fault, Fault::Stopped));
    sink.write(&Record::End { complete })?;
    Ok(Summary { ends: vec![ProbeEnd { device: 0, probe: SPEC.name.to_owned(), outcome }], complete })
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
