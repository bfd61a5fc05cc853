//! The GPU's clock as the sampling engine sees it: nanoseconds between events, and what telemetry observed meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use plimsoll_core::Fault;
use plimsoll_core::sample::{Clock, Evidence};

use crate::Gpu;

/// Seconds per tick: samples are nanoseconds.
pub const TICK: f64 = 1e-9;
/// The clock is steady when the last windows, this many, agree within [`STEADY`].
const WINDOWS: usize = 3;
/// Length of a window.
const WINDOW: Duration = Duration::from_millis(50);
/// Largest relative spread of a steady clock.
const STEADY: f64 = 0.01;
/// Longest time to wait for a steady clock. After that, flags report an unsteady one.
const SETTLE_AT_MOST: Duration = Duration::from_secs(3);

/// Readings of a device's management library during measurements.
pub trait Telemetry: Send {
    /// What happened since the last call; `None` if nothing is known. Must not allocate.
    fn observe(&mut self) -> Option<Evidence>;

    /// Energy that the device has used since its driver was loaded, joules.
    fn energy_joules(&self) -> Option<f64>;
}

/// Time stamps, and telemetry and the blocking kernel if there are any.
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

/// Keeps all multiprocessors busy until their clock is steady. Returns the clock in hertz; `None` where kernels can't read one.
///
/// # Errors
/// [`Fault::Hung`].
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
