//! compression: whether memory that may be compressed pays: z = a·x + y on data of seven kinds, in four grids, and how
//! much of such data the second-level cache holds, each beside the same on plain memory.

#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(feature = "kernels")]
pub mod kernels;

use plimsoll_core::device::DeviceInfo;
use plimsoll_core::probe::ProbeSpec;
use plimsoll_core::record::Finding;
use plimsoll_core::sample::{CachePolicy, Figure};
use plimsoll_core::series::{Draw, Estimate, Quantity, Row, Series, SeriesSpec, axis, metric};
use plimsoll_core::stats::Interval;
use plimsoll_core::unit::Unit;

use plimsoll_suite::findings::advice::{advice, differs, ratio};
use plimsoll_suite::findings::{LAB, finding};

/// What the probe is.
pub static SPEC: ProbeSpec = ProbeSpec {
    name: "compression",
    group: LAB,
    sentence: "Does compressible memory pay?",
    seconds: [4.0, 20.0, 60.0],
    findings,
};

/// The kinds of data, from the most compressible on.
pub const DATA: [&str; 7] = ["zeros", "ones", "1 byte in 4", "2 bytes in 4", "sparse", "bf16 weights", "random"];
/// The grids: one vector per thread, and loops over fewer and fewer blocks.
pub const GRIDS: [&str; 4] = ["one-shot", "4000 blocks", "2 per multiprocessor", "1 per multiprocessor"];
/// What stands behind the name of data in memory that was not asked to be compressible.
const PLAIN: &str = ", plain";
/// The data of the footprint curves: those that compress best and those that don't.
pub const CURVES: [&str; 2] = [DATA[1], DATA[6]];

/// The name of data in compressible memory, or of the control.
#[must_use]
pub fn place(data: &str, compressible: bool) -> String {
    if compressible { data.to_owned() } else { format!("{data}{PLAIN}") }
}

/// z = a·x + y on arrays that no cache holds.
#[must_use]
pub fn saxpy() -> SeriesSpec {
    SeriesSpec::new(
        "saxpy",
        Figure::Throughput,
        // The same arrays each time, and larger than any cache. 'Cold' would hold the figure against what the bus carries,
        // which is not what compressed data are bound by.
        CachePolicy::Hot,
        vec![axis("data", Unit::One), axis("grid", Unit::One)],
        vec![metric("bandwidth", Unit::BytePerSecond, Quantity::Bandwidth)],
        Draw::Bars { x: "data".into(), y: "bandwidth".into(), by: Some("grid".into()) },
    )
}

/// Reads of the same array again and again, over its size.
#[must_use]
pub fn knee() -> SeriesSpec {
    SeriesSpec::new(
        "footprint",
        Figure::Throughput,
        CachePolicy::Hot,
        vec![axis("data", Unit::One), axis("footprint", Unit::Byte)],
        vec![metric("bandwidth", Unit::BytePerSecond, Quantity::Bandwidth)],
        Draw::Lines {
            x: "footprint".into(),
            y: "bandwidth".into(),
            by: Some("data".into()),
            log_x: true,
            log_y: false,
        },
    )
}

/// A figure and the row it was read from.
type Known<'s> = (&'s Row, Estimate);

fn at<'s>(saxpy: &'s Series, data: &str, grid: &str) -> Option<Known<'s>> {
    let here = |row: &&Row| saxpy.text(row, "data") == Some(data) && saxpy.text(row, "grid") == Some(grid);
    let row = saxpy.rows.iter().find(here)?;
    Some((row, saxpy.estimate(row, "bandwidth")?))
}

/// Compressible over plain memory, for data in a grid.
struct Gain<'s> {
    data: &'static str,
    grid: &'static str,
    ratio: Estimate,
    case: Known<'s>,
    control: Known<'s>,
}

fn gains(saxpy: &Series) -> Vec<Gain<'_>> {
    let pairs = GRIDS.iter().flat_map(|grid| DATA.iter().map(move |data| (*data, *grid)));
    let gain = |(data, grid): (&'static str, &'static str)| {
        let (case, control) = (at(saxpy, data, grid)?, at(saxpy, &place(data, false), grid)?);
        Some(Gain { data, grid, ratio: ratio(case.1, control.1), case, control })
    };
    pairs.filter_map(gain).collect()
}

fn findings(_: &DeviceInfo, series: &[Series]) -> Vec<Finding> {
    let of = |case: &str| series.iter().find(|series| series.spec.case == case);
    let mut found = Vec::new();
    if let Some(saxpy) = of("saxpy") {
        let gains = gains(saxpy);
        found.extend(gains.iter().map(|gain| {
            let rate = |known: &Known<'_>| Unit::BytePerSecond.format(known.1.value);
            let says = format!("{} against {} in plain memory", rate(&gain.case), rate(&gain.control));
            let name = format!("gain of {}, {}", gain.data, gain.grid);
            let flags = gain.case.0.flags.union(gain.control.0.flags);
            Finding { says, flags, ..finding(name, Unit::One, gain.case.0, gain.ratio) }
        }));
        found.extend(advised(&gains));
    }
    if let Some(curve) = of("footprint") {
        let names = CURVES.iter().flat_map(|data| [place(data, true), place(data, false)]);
        found.extend(names.filter_map(|name| holds(curve, &name)));
    }
    found
}

/// What to do about it: where the most is won, and what random data lose there and at the worst.
fn advised(gains: &[Gain<'_>]) -> Option<Finding> {
    /// Less than this is not worth an allocation of another kind.
    const WORTH: f64 = 1.03;
    let by = |a: &&Gain<'_>, b: &&Gain<'_>| a.ratio.value.total_cmp(&b.ratio.value);
    let best = gains.iter().max_by(by)?;
    let random = |grid: Option<&str>| {
        let of = gains.iter().filter(move |gain| gain.data == DATA[6] && grid.is_none_or(|grid| grid == gain.grid));
        of.min_by(by)
    };
    let (beside, worst) = (random(Some(best.grid))?, random(None)?);
    let words = |gain: &Gain<'_>| differs(gain.ratio, ["faster", "as fast", "slower"]);
    let rate = |known: &Known<'_>| Unit::BytePerSecond.format(known.1.value);
    let says = if best.ratio.interval.lo < WORTH {
        format!(
            "Allocate plain memory: compressible memory gains nothing here, at the most {} against {} for {} in the \
             grid '{}', and random data are {} in the grid '{}'.",
            rate(&best.case),
            rate(&best.control),
            best.data,
            best.grid,
            words(worst),
            worst.grid
        )
    } else {
        let kinds: Vec<&str> = gains
            .iter()
            .filter(|gain| gain.grid == best.grid && gain.ratio.interval.lo >= WORTH)
            .map(|gain| gain.data)
            .collect();
        format!(
            "Allocate compressible memory for data that kernels write and that hold many like bytes, in the grid '{}': {} run \
             at {} against {} in plain memory; of the kinds tried it pays for {}. Random data are {} there and {} in the \
             grid '{}'.",
            best.grid,
            best.data,
            rate(&best.case),
            rate(&best.control),
            kinds.join(", "),
            words(beside),
            words(worst),
            worst.grid
        )
    };
    Some(advice(says, Unit::One, best.ratio, [best.case.0, best.control.0, worst.case.0, worst.control.0]))
}

/// What counts as still on the plateau.
const NEAR: f64 = 0.9;

/// The largest footprint up to which reads keep nine tenths of the best that they reach.
fn holds(curve: &Series, name: &str) -> Option<Finding> {
    let of = curve.rows.iter().filter(|row| curve.text(row, "data") == Some(name));
    let mut rows: Vec<(f64, &Row, Estimate)> =
        of.filter_map(|row| Some((curve.number(row, "footprint")?, row, curve.estimate(row, "bandwidth")?))).collect();
    rows.sort_by(|a, b| a.0.total_cmp(&b.0));
    let best = rows.iter().map(|row| row.2.value).fold(0.0, f64::max);
    let peak = rows.iter().position(|row| row.2.value >= best)?;
    let after = peak + rows[peak..].iter().position(|row| row.2.value < NEAR * best)?;
    let before = &rows[after.checked_sub(1)?];
    let known = Estimate { value: before.0, interval: Interval { lo: before.0, hi: rows[after].0 } };
    let says = format!("to which reads keep nine tenths of {}", Unit::BytePerSecond.format(best));
    Some(Finding { says, ..finding(format!("L2 holds of {name}"), Unit::Byte, before.1, known) })
}

#[cfg(test)]
mod tests {
    use plimsoll_core::Traffic;
    use plimsoll_core::sample::Work;
    use plimsoll_core::series::{Point, Value};
    use plimsoll_suite::findings::synthetic;

    use super::*;
    use plimsoll_suite::findings::advice::is_advice;

    fn point(at: Vec<Value>, bandwidth: f64) -> Point {
        synthetic::point(
            at,
            (5_u64 << 30) as f64 / bandwidth,
            Work { traffic: Traffic::new(5 << 30, 0), ..Work::default() },
            &[],
        )
    }

    fn all(rate: impl Fn(&str, &str, bool) -> f64) -> Series {
        let cases =
            GRIDS.iter().flat_map(|grid| DATA.iter().flat_map(move |data| [true, false].map(|c| (data, grid, c))));
        let points = cases.map(|(data, grid, compressible)| {
            let at = vec![place(data, compressible).as_str().into(), (*grid).into()];
            point(at, rate(data, grid, compressible))
        });
        Series::new(saxpy(), points.collect::<Vec<Point>>())
    }

    #[test]
    fn where_it_pays_the_advice_names_the_grid_the_kinds_and_the_loss() {
        let series = all(|data, grid, compressible| match (data, grid, compressible) {
            ("zeros" | "ones", "one-shot", true) => 8.1e12,
            ("random", "4000 blocks", true) => 3.11e12,
            (_, "4000 blocks", false) => 4.2e12,
            _ => 4.38e12,
        });
        let found = findings(&DeviceInfo::default(), &[series]);
        assert_eq!(found.len(), 28 + 1);
        let told = found.iter().find(|finding| is_advice(finding)).unwrap();
        assert!((told.value - 8.1 / 4.38).abs() < 1e-3 && told.is_sound(), "{told:?}");
        for part in
            ["'one-shot'", "8.10 TB/s against 4.38 TB/s", "for zeros, ones.", "26 % slower in the grid '4000 blocks'"]
        {
            assert!(told.says.contains(part), "{part}: {}", told.says);
        }
    }

    #[test]
    fn where_it_gains_nothing_plain_memory_is_advised() {
        let found =
            findings(&DeviceInfo::default(), &[all(|_, _, compressible| if compressible { 4.0e12 } else { 4.2e12 })]);
        let told = found.iter().find(|finding| is_advice(finding)).unwrap();
        assert!(told.says.starts_with("Allocate plain memory") && told.says.contains("4.8 % slower"), "{}", told.says);
        assert!(findings(&DeviceInfo::default(), &[]).is_empty());
    }

    #[test]
    fn the_cache_holds_more_of_what_compresses() {
        let sizes = (0..24).map(|i| 16_777_216.0 * 2.0_f64.powf(f64::from(i) / 4.0));
        let points = sizes.flat_map(|size| {
            [("ones", 200e6), ("ones, plain", 50e6)].map(|(name, end): (&str, f64)| {
                point(vec![name.into(), size.into()], if size < end { 7e12 } else { 4.5e12 })
            })
        });
        let found = findings(&DeviceInfo::default(), &[Series::new(knee(), points.collect::<Vec<Point>>())]);
        let of = |name: &str| found.iter().find(|finding| finding.name == name).unwrap().value;
        assert!(of("L2 holds of ones") > 3.0 * of("L2 holds of ones, plain"));
    }
}
