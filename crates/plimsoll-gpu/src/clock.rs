//! The GPU's clock as the sampling engine sees it: nanoseconds of events, and what telemetry says happened meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use plimsoll_core::Fault;
use plimsoll_core::sample::{Clock, Evidence};

use crate::Gpu;

/// Samples count nanoseconds.
pub const TICK: f64 = 1e-9;
/// The clock is steady when this many windows agree within [`STEADY`].
const WINDOWS: usize = 3;
/// Length of one of them.
const WINDOW: Duration = Duration::from_millis(50);
/// Relative spread of a steady clock.
const STEADY: f64 = 0.01;
/// After this long, what the clock does is left to the flags.
const SETTLE_AT_MOST: Duration = Duration::from_secs(3);

/// What a device's management library says while it is measured.
pub trait Telemetry: Send {
    /// What happened since the last call; `None` where nothing is known. Doesn't allocate.
    fn observe(&mut self) -> Option<Evidence>;

    /// Energy that the device has used since its driver was loaded, joules.
    fn energy_joules(&self) -> Option<f64>;
}

/// Time stamps, telemetry and the kernel that settles the clock, as far as there are any.
pub struct GpuClock<G: Gpu> {
    stream: Arc<G::Stream>,
    resolution: f64,
    start: Instant,
    observed: Instant,
    telemetry: Option<Box<dyn Telemetry>>,
    blocker: Option<Arc<G::Blocker>>,
}

impl<G: Gpu> GpuClock<G> {
    /// A clock whose events resolve `resolution` seconds.
    #[must_use]
    pub fn new(
        stream: &Arc<G::Stream>,
        resolution: f64,
        telemetry: Option<Box<dyn Telemetry>>,
        blocker: Option<Arc<G::Blocker>>,
    ) -> Self {
        let now = Instant::now();
        Self { stream: Arc::clone(stream), resolution, start: now, observed: now, telemetry, blocker }
    }

    /// Energy that the device has used since its driver was loaded, joules.
    #[must_use]
    pub fn energy_joules(&self) -> Option<f64> {
        self.telemetry.as_ref().and_then(|telemetry| telemetry.energy_joules())
    }
}

/// Keeps all multiprocessors busy until their clock is steady; returns it in hertz, where the device tells.
///
/// # Errors
/// [`Fault::Hung`]; the driver's.
pub fn settle<G: Gpu>(blocker: &G::Blocker, stream: &G::Stream, stop: &AtomicBool) -> Result<Option<f64>, Fault> {
    let begin = Instant::now();
    let mut last = [0.0_f64; WINDOWS];
    for window in 0.. {
        let Some(hz) = G::busy_clock_hz(blocker, stream, WINDOW)? else { return Ok(None) };
        last[window % WINDOWS] = hz;
        let low = last.iter().copied().fold(f64::INFINITY, f64::min);
        let high = last.iter().copied().fold(0.0, f64::max);
        let steady = window + 1 >= WINDOWS && high - low <= STEADY * high;
        if steady || begin.elapsed() > SETTLE_AT_MOST || stop.load(Ordering::Relaxed) {
            return Ok(Some(hz));
        }
    }
    Ok(None)
}

impl<G: Gpu> Clock for GpuClock<G> {
    fn now(&mut self) -> f64 {
        self.start.elapsed().as_secs_f64()
    }

    fn tick(&self) -> f64 {
        TICK
    }

    fn resolution(&self) -> f64 {
        self.resolution
    }

    fn observe(&mut self) -> Evidence {
        let seen = self.telemetry.as_mut().and_then(|telemetry| telemetry.observe()).unwrap_or_default();
        let wall = self.observed.elapsed().as_secs_f64();
        self.observed = Instant::now();
        Evidence { wall, ..seen }
    }

    fn settle(&mut self, stop: &AtomicBool) -> Result<(), Fault> {
        self.blocker.as_ref().map_or(Ok(()), |blocker| settle::<G>(blocker, &self.stream, stop).map(drop))
    }
}
