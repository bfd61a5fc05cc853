//! custom: a user's own kernel, timed like any other. Defines the points, the series, and the figures that the command shows.

use plimsoll_core::device::DeviceInfo;
use plimsoll_core::flag::Flags;
use plimsoll_core::probe::ProbeSpec;
use plimsoll_core::record::{Finding, Run};
use plimsoll_core::sample::CachePolicy;
use plimsoll_core::series::{Bytes, Draw, Estimate, Name, Quantity, Series, TypedSeries, metric};
use plimsoll_core::unit::Unit;

/// The description of a user's kernel as a probe outside the registry. Its seconds are those of one point.
pub static SPEC: ProbeSpec = ProbeSpec {
    name: "custom",
    group: "custom",
    sentence: "How long a kernel of your own takes, compared with what the model expects.",
    seconds: [0.35, 1.0, 3.0],
    takes_bytes: false,
    headlines: &[],
    findings,
};

plimsoll_core::axes! {
    /// A launch of a user's kernel.
    pub struct Launch {
        /// The symbol.
        kernel: Name,
        /// The arguments, as on the command line.
        arguments: Name,
        /// Blocks, as `x,y,z`.
        grid: Name,
        /// Threads per block, as `x,y,z`.
        block: Name,
        /// Dynamic shared memory per block.
        shared: Bytes,
    }
}

/// The series of one cache policy: `cold` or `hot`.
#[must_use]
pub fn series(cache: CachePolicy) -> TypedSeries<Launch> {
    let metrics = vec![
        metric("time", Unit::Second, Quantity::Time),
        metric("bandwidth", Unit::BytePerSecond, Quantity::Bandwidth),
    ];
    let draw = Draw::bars("kernel", "time");
    if cache.is_cold() { TypedSeries::cold("cold", metrics, draw) } else { TypedSeries::hot("hot", metrics, draw) }
}

/// What was measured for a launch.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// Seconds per launch.
    pub time: Estimate,
    /// Bandwidth of the stated reads and writes together, B/s, if any are stated.
    pub bandwidth: Option<Estimate>,
    /// Bandwidth as a share of the device's theoretical bandwidth, where that is known and data are cold.
    pub of_peak: Option<f64>,
    /// Flags of all rounds.
    pub flags: Flags,
}

/// Finds a launch in a run.
#[must_use]
pub fn find(run: &Run, launch: &Launch, cold: bool) -> Option<Measured> {
    let matches = |series: &&Series| series.spec.probe == SPEC.name && series.spec.cache.is_cold() == cold;
    let series = run.series.iter().find(matches)?;
    let (_, row) = series.parse_rows::<Launch>().filter_map(Result::ok).find(|(at, _)| at == launch)?;
    let bandwidth = series.estimate(row, "bandwidth").filter(|bandwidth| bandwidth.value > 0.0);
    let peak = run.header.devices.get(series.spec.device as usize)?.peak("bandwidth");
    let peak = peak.map(|peak| peak.value).filter(|peak| cold && *peak > 0.0);
    let of_peak = bandwidth.zip(peak).map(|(bandwidth, peak)| bandwidth.value / peak);
    Some(Measured { time: row.time, bandwidth, of_peak, flags: row.flags })
}

/// The time of each launch.
fn findings(_: &DeviceInfo, series: &[Series]) -> Vec<Finding> {
    let rows = series
        .iter()
        .flat_map(|series| series.parse_rows::<Launch>().filter_map(Result::ok).map(move |row| (series, row)));
    let found = rows.map(|(series, (at, row))| {
        let name = format!("{}, {}", at.kernel, series.spec.case);
        let says = format!("grid {}, block {}", at.grid, at.block);
        let finding = crate::findings::finding(name, Unit::Second, row, row.time);
        Finding { metric: "time".into(), says, ..finding }
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use plimsoll_core::Traffic;
    use plimsoll_core::sample::Work;
    use plimsoll_core::series::{Axes as _, Point, SeriesSpec};

    use super::*;

    #[test]
    fn a_launch_is_found_with_its_time_and_is_a_finding() {
        let text = |text: &str| Name::from(text.to_owned());
        let at = Launch {
            kernel: text("scale"),
            arguments: text("in:f32:1Ki"),
            grid: text("4,1,1"),
            block: text("256,1,1"),
            shared: Bytes(0),
        };
        let work = Work { traffic: Traffic::new(4000, 0), ..Work::default() };
        let mut spec = SeriesSpec::from(series(CachePolicy::Hot));
        spec.probe = SPEC.name.to_owned();
        let series = Series::new(spec, [Point::new(at.to_values(), work, vec![2000; 30])]);
        let found = findings(&DeviceInfo::default(), std::slice::from_ref(&series));
        assert_eq!((found.len(), &*found[0].name, &*found[0].says), (1, "scale, hot", "grid 4,1,1, block 256,1,1"));
        assert!((found[0].value / 2e-6 - 1.0).abs() < 1e-9);
    }
}
