//! Ground figures of a device, measured once when it is opened: what events resolve, what an empty launch costs alone and
//! in a graph.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use plimsoll_core::Fault;
use plimsoll_core::device::Calibration;

use crate::Gpu;
use crate::clock::{TICK, settle};
use crate::launch::{Arguments, Form, Geometry, Kernel};

/// Pairs of events that resolution and floor are read from.
const PAIRS: usize = 2000;
/// Pairs between two waits.
const CHUNK: usize = 100;
/// Kernels of the graphs that the replay fit is made of.
const KERNELS: [u32; 4] = [1, 16, 64, 256];
/// Replays of each, of which the fastest counts.
const REPLAYS: usize = 30;

/// `T(N) = a + b·N` of graphs of N empty kernels, seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Replay {
    /// What a graph costs.
    pub a: f64,
    /// What each kernel adds.
    pub b: f64,
}

/// What events resolve, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Events {
    /// The smallest non-zero difference.
    pub resolution: u64,
    /// The median of two events with nothing between.
    pub floor: u64,
}

/// Resolution and floor of events.
///
/// # Errors
/// [`Fault::Hung`]; the driver's.
pub fn events<G: Gpu>(stream: &Arc<G::Stream>) -> Result<Events, Fault> {
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
    // A device whose events never differ resolves no less than what they show.
    let resolution = steps.min().unwrap_or_else(|| gaps[0].max(1));
    Ok(Events { resolution, floor: gaps[gaps.len() / 2] })
}

/// Least-squares line through (N, T).
fn fit(points: &[(f64, f64)]) -> Replay {
    let n = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / n;
    let (x, y) = (mean(|p| p.0), mean(|p| p.1));
    let covariance: f64 = points.iter().map(|p| (p.0 - x) * (p.1 - y)).sum();
    let variance: f64 = points.iter().map(|p| (p.0 - x).powi(2)).sum();
    let b = if variance > 0.0 { covariance / variance } else { 0.0 };
    Replay { a: y - b * x, b }
}

/// The replay fit of graphs of empty kernels.
///
/// # Errors
/// [`Fault::Hung`]; the driver's, among them that it has no graphs.
pub fn replay<G: Gpu>(stream: &Arc<G::Stream>, empty: &Kernel<G>, blocker: &G::Blocker) -> Result<Replay, Fault> {
    let launch = empty.launch(Geometry::linear(1, 32), Form::default(), &Arguments::new())?;
    let (start, end) = (G::event(stream)?, G::event(stream)?);
    let mut points = Vec::with_capacity(KERNELS.len());
    for kernels in KERNELS {
        let graph = G::graph(stream, std::slice::from_ref(&launch), kernels, false)?;
        let mut least = u64::MAX;
        for _ in 0..REPLAYS {
            // The device is kept busy while the host queues the graph, so that its part isn't counted.
            G::block(blocker, stream, Duration::from_micros(100))?;
            G::record(&start, stream)?;
            G::launch_graph(stream, &graph)?;
            G::record(&end, stream)?;
            G::wait_event(&end)?;
            least = least.min(G::nanoseconds(&start, &end)?);
        }
        points.push((f64::from(kernels), least as f64 * TICK));
    }
    Ok(fit(&points))
}

/// All of it: events, and where kernels can be compiled the clock and the replay.
///
/// # Errors
/// [`Fault::Hung`]; the driver's.
pub fn calibrate<G: Gpu>(
    stream: &Arc<G::Stream>,
    kernels: Option<(&G::Blocker, &Kernel<G>)>,
) -> Result<(Calibration, Option<Replay>), Fault> {
    let seen = events::<G>(stream)?;
    let (mut clock_hz, mut fitted) = (None, None);
    if let Some((blocker, empty)) = kernels {
        clock_hz = settle::<G>(blocker, stream, &AtomicBool::new(false))?;
        fitted = match replay(stream, empty, blocker) {
            Ok(fit) => Some(fit),
            Err(Fault::Unavailable { .. }) => None,
            Err(fault) => return Err(fault),
        };
    }
    let calibration = Calibration {
        tick: TICK,
        resolution: seen.resolution as f64 * TICK,
        overhead: seen.floor as f64 * TICK,
        empty_launch: fitted.map_or(0.0, |fit| fit.b.max(0.0)),
        clock_hz,
    };
    Ok((calibration, fitted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fit_finds_the_line_that_made_the_points() {
        let points = KERNELS.map(|n| (f64::from(n), 3e-6 + 1.25e-6 * f64::from(n)));
        let found = fit(&points);
        assert!((found.a - 3e-6).abs() < 1e-12 && (found.b - 1.25e-6).abs() < 1e-12, "{found:?}");
    }
}
