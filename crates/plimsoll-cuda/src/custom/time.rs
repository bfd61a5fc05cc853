//! Times a user's kernel as a probe outside the registry: in graphs of launches that rotate through memory, or that use the same data
//! each time.

use std::rc::Rc;

use plimsoll_core::Fault;
use plimsoll_core::flag::Flags;
use plimsoll_core::probe::{Case, Depth, Probe, ProbeSpec, Request as RunRequest, Requirement, Session, Sweep};
use plimsoll_core::sample::{CachePolicy, Work};
use plimsoll_core::series::{Bytes, Name};
use plimsoll_gpu::Need;
use plimsoll_suite::custom::{Launch as Place, SPEC, series};

use super::fault::explain_fault;
use super::kernel::Request;
use super::windows::{Layout, Windows};
use crate::memory::{Transfer as _, free};
use crate::{Cuda, CudaDevice, Load, wait};

/// A kernel to time, with the cache policies to time it under.
#[derive(Clone, Debug)]
pub struct Custom {
    request: Request,
    caches: Vec<CachePolicy>,
}

/// Device memory that timing takes, bytes, if cold data rotate through `window` bytes.
#[must_use]
pub fn memory_needed(request: &Request, cache: CachePolicy, window: u64) -> u64 {
    Layout::new(request.arguments(), cache.is_cold().then_some(window), 0).bytes()
}

impl Custom {
    /// Times `request` under each policy.
    #[must_use]
    pub fn new(request: Request, caches: Vec<CachePolicy>) -> Self {
        Self { request, caches }
    }

    /// The coordinates of the launch in its series.
    #[must_use]
    pub fn place(request: &Request) -> Place {
        let sides = |[x, y, z]: [u32; 3]| Name::from(format!("{x},{y},{z}"));
        let geometry = request.geometry();
        Place {
            kernel: Name::from(request.signature().name.clone()),
            arguments: Name::from(request.arguments().to_string()),
            grid: sides(geometry.grid),
            block: sides(geometry.block),
            shared: Bytes(geometry.shared.into()),
        }
    }

    fn load(&self, device: &CudaDevice, cache: CachePolicy, window: u64, seed: u64) -> Result<Load, Fault> {
        let (request, stream) = (&self.request, &device.stream);
        let kernel = request.load(&device.context)?;
        kernel.occupy(request.geometry())?;
        let layout = Layout::new(request.arguments(), cache.is_cold().then_some(window), free(&device.context)?.0);
        let (count, touched) = (layout.windows, layout.touched());
        let windows = Rc::new(Windows::new(stream, layout, seed)?);
        let launches = (0..count).map(|window| request.launch(&kernel, &windows.set(window)?));
        let launches = launches.collect::<Result<Vec<_>, Fault>>()?;
        // A kernel that faults or never ends does so here, before anything is timed.
        stream.context().bind()?;
        stream.launch(&launches[0])?;
        wait::stream(stream)?;
        let work = Work { traffic: request.traffic(), window: touched, ..Work::default() };
        let mut load = Load::graph(stream, launches, false, work)?;
        if let Ok(spinner) = &device.spinner {
            load = load.with_blocker(spinner);
        }
        let copies = windows.restoring_copies()?;
        if !copies.is_empty() {
            load =
                load.with_prepare(move |stream| copies.iter().try_for_each(|(to, from)| to.copy_from(stream, *from)));
        }
        Ok(load.with_check(move |stream| windows.check_guards(stream)))
    }

    fn measure(&self, session: &mut Session<'_, Cuda>) -> Result<(), Fault> {
        let (window, seed) = (session.info().cold_window(), session.request.seed);
        let share = 1.0;
        for cache in &self.caches {
            let sweep = Sweep { series: series(*cache), points: &[*cache], share, flags: Flags::NONE };
            session.sweep(
                sweep,
                |_| Self::place(&self.request),
                |device, cache| self.load(device, *cache, window, seed),
            )?;
        }
        Ok(())
    }
}

impl Probe<Cuda> for Custom {
    fn spec(&self) -> &'static ProbeSpec {
        &SPEC
    }

    fn needs(&self) -> &'static [Need] {
        &[Need::Graphs]
    }

    /// A cubin needs no compiler, unlike every other probe.
    fn supports(&self, device: &CudaDevice) -> Result<(), Fault> {
        self.needs().iter().try_for_each(|need| Requirement::<Cuda>::check(*need, device))
    }

    fn points(&self, _: &CudaDevice, _: &RunRequest) -> usize {
        self.caches.len()
    }

    fn run(&self, session: &mut Session<'_, Cuda>) -> Result<(), Fault> {
        self.measure(session).map_err(explain_fault)
    }

    fn verify(&self, _: &mut CudaDevice, _: Depth, _: &mut dyn FnMut(Case)) -> Result<(), Fault> {
        Ok(())
    }
}
