//! Basic figures of a device, measured once when it is opened: the resolution of events, the cost of an empty kernel in a graph,
//! and the clock.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use plimsoll_core::Fault;
use plimsoll_core::device::Calibration;

use crate::Gpu;
use crate::clock::{TICK, settle};
use crate::launch::{Arguments, Form, Geometry, Kernel};

/// Pairs of events from which resolution and floor are taken.
const PAIRS: usize = 2000;
/// Pairs between two waits.
const CHUNK: usize = 100;
/// Number of kernels in each graph of the replay fit.
const KERNELS: [u32; 4] = [1, 16, 64, 256];
/// Replays of each graph. The fastest counts.
const REPLAYS: usize = 30;

/// The fit `T(N) = a + b·N` for the time of a graph of N empty kernels, seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Replay {
    /// Cost of a graph.
    pub a: f64,
    /// Additional cost per kernel.
    pub b: f64,
}

/// Resolution and floor of events, nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventTiming {
    /// The smallest non-zero difference.
    pub resolution: u64,
    /// The median difference of two events with nothing between them.
    pub floor: u64,
}

/// Measures resolution and floor of events.
///
/// # Errors
/// [`Fault::Hung`].
pub fn measure_events<G: Gpu>(stream: &Arc<G::Stream>) -> Result<EventTiming, Fault> {
    let mut pairs = Vec::with_capacity(CHUNK);
    for _ in 0..CHUNK {
        pairs.push((G::event(stream)?, G::event(stream)?));
    }
    let mut gaps = Vec::with_capacity(PAIRS);
    for _ in 0..PAIRS / CHUNK {
        for (start, end) in &pairs {
            G::record(start, stream)?;
            G::record(end, stream)?;
        }
        G::wait(stream)?;
        for (start, end) in &pairs {
            gaps.push(G::nanoseconds(start, end)?);
        }
    }
    gaps.sort_unstable();
    let steps = gaps.windows(2).map(|pair| pair[1] - pair[0]).filter(|&step| step > 0);
    // If all differences are equal, the resolution is taken to be that difference.
    let resolution = steps.min().unwrap_or_else(|| gaps[0].max(1));
    Ok(EventTiming { resolution, floor: gaps[gaps.len() / 2] })
}

/// Fits a least-squares line through (N, T).
fn fit_line(points: &[(f64, f64)]) -> Replay {
    let n = points.len() as f64;
    let mean = |value: fn(&(f64, f64)) -> f64| points.iter().map(value).sum::<f64>() / n;
    let (x, y) = (mean(|p| p.0), mean(|p| p.1));
    let covariance: f64 = points.iter().map(|p| (p.0 - x) * (p.1 - y)).sum();
    let variance: f64 = points.iter().map(|p| (p.0 - x).powi(2)).sum();
    let b = if variance > 0.0 { covariance / variance } else { 0.0 };
    Replay { a: y - b * x, b }
}

/// Measures the replay fit with graphs of empty kernels.
///
/// # Errors
/// [`Fault::Hung`]; [`Fault::Unavailable`] where the driver has no graphs.
pub fn measure_replay<G: Gpu>(
    stream: &Arc<G::Stream>,
    empty: &Kernel<G>,
    blocker: &G::Blocker,
) -> Result<Replay, Fault> {
    let launch = empty.launch(Geometry::linear(1, 32), Form::default(), &Arguments::new())?;
    let (start, end) = (G::event(stream)?, G::event(stream)?);
    let mut points = Vec::with_capacity(KERNELS.len());
    for kernels in KERNELS {
        let graph = G::graph(stream, std::slice::from_ref(&launch), kernels, false)?;
        let mut least = u64::MAX;
        for _ in 0..REPLAYS {
            // The device is busy while the host queues the graph, so that the host's time isn't counted.
            G::block(blocker, stream, Duration::from_micros(100))?;
            G::record(&start, stream)?;
            G::launch_graph(stream, &graph)?;
            G::record(&end, stream)?;
            G::wait_event(&end)?;
            least = least.min(G::nanoseconds(&start, &end)?);
        }
        points.push((f64::from(kernels), least as f64 * TICK));
    }
    Ok(fit_line(&points))
}

/// Measures all of it: events and, where kernels can be compiled, the clock and the replay fit.
///
/// # Errors
/// [`Fault::Hung`].
pub fn calibrate<G: Gpu>(
    stream: &Arc<G::Stream>,
    kernels: Option<(&G::Blocker, &Kernel<G>)>,
) -> Result<(Calibration, Option<Replay>), Fault> {
    let timing = measure_events::<G>(stream)?;
    let (mut clock_hz, mut fitted) = (None, None);
    if let Some((blocker, empty)) = kernels {
        clock_hz = settle::<G>(blocker, stream, &AtomicBool::new(false))?;
        fitted = match measure_replay(stream, empty, blocker) {
            Ok(fit) => Some(fit),
            Err(Fault::Unavailable { .. }) => None,
            Err(fault) => return Err(fault),
        };
    }
    let calibration = Calibration {
        tick: TICK,
        resolution: timing.resolution as f64 * TICK,
        overhead: timing.floor as f64 * TICK,
        empty_launch: fitted.map_or(0.0, |fit| fit.b.max(0.0)),
        clock_hz,
    };
    Ok((calibration, fitted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fit_recovers_the_line_of_its_points() {
        let points = KERNELS.map(|n| (f64::from(n), 3e-6 + 1.25e-6 * f64::from(n)));
        let found = fit_line(&points);
        assert!((found.a - 3e-6).abs() < 1e-12 && (found.b - 1.25e-6).abs() < 1e-12, "{found:?}");
    }
}
