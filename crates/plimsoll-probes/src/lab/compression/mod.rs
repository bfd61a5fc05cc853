//! compression: whether memory that may be compressed pays: z = a·x + y on data of seven kinds, in four grids, and how
//! much of such data the second-level cache holds, each beside the same on plain memory.

#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(feature = "kernels")]
pub mod kernels;

use std::fmt;

use plimsoll_core::device::DeviceInfo;
use plimsoll_core::probe::ProbeSpec;
use plimsoll_core::record::Finding;
use plimsoll_core::sample::{CachePolicy, Figure};
use plimsoll_core::series::{Bytes, Coordinate, Draw, Estimate, Quantity, Row, Series, TypedSeries, Value, metric};
use plimsoll_core::stats::Interval;
use plimsoll_core::unit::Unit;

use plimsoll_suite::findings::advice::{advice, differs, ratio};
use plimsoll_suite::findings::{LAB, finding, known_rows};

/// What the probe is.
pub static SPEC: ProbeSpec = ProbeSpec {
    name: "compression",
    group: LAB,
    sentence: "Does compressible memory pay?",
    seconds: [4.0, 20.0, 60.0],
    findings,
};

plimsoll_core::names! {
    /// The kinds of data, from the most compressible on.
    pub enum Data {
        /// Zeros.
        Zeros = "zeros",
        /// The number one.
        Ones = "ones",
        /// One random byte of every four, the others zero.
        Byte = "1 byte in 4",
        /// Two random bytes of every four, the others zero.
        TwoBytes = "2 bytes in 4",
        /// One random word of eight, the others zero.
        Sparse = "sparse",
        /// Pairs of bf16 weights, nearly normal.
        Weights = "bf16 weights",
        /// Random bits.
        Random = "random",
    }
}

plimsoll_core::names! {
    /// The grids: one vector per thread, and loops over fewer and fewer blocks.
    pub enum Grid {
        /// A vector per thread.
        OneShot = "one-shot",
        /// A loop over 4000 blocks.
        Many = "4000 blocks",
        /// A loop over two blocks per multiprocessor.
        Two = "2 per multiprocessor",
        /// A loop over one.
        One = "1 per multiprocessor",
    }
}

/// The data of the footprint curves: those that compress best and those that don't.
pub const CURVES: [Data; 2] = [Data::Ones, Data::Random];

/// Data in compressible memory, or in the control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// What the data are.
    pub data: Data,
    /// Whether the memory was asked to be compressible.
    pub compressible: bool,
}

impl Place {
    /// What stands behind the name of data in memory that was not asked to be compressible.
    const PLAIN: &'static str = ", plain";
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.data, if self.compressible { "" } else { Self::PLAIN })
    }
}

impl Coordinate for Place {
    const UNIT: Unit = Unit::One;

    fn to_value(&self) -> Value {
        self.to_string().as_str().into()
    }

    fn from_value(value: &Value) -> Option<Self> {
        let name = value.text()?;
        let plain = name.strip_suffix(Self::PLAIN);
        Some(Self { data: Data::from_name(plain.unwrap_or(name))?, compressible: plain.is_none() })
    }
}

plimsoll_core::axes! {
    /// z = a·x + y.
    pub struct Saxpy {
        /// What the arrays hold.
        place as "data": Place,
        /// The grid of the kernel.
        grid: Grid,
    }
}

plimsoll_core::axes! {
    /// Reads of an array.
    pub struct Reads {
        /// What it holds.
        place as "data": Place,
        /// Its bytes.
        footprint: Bytes,
    }
}

/// z = a·x + y on arrays that no cache holds.
#[must_use]
pub fn saxpy() -> TypedSeries<Saxpy> {
    TypedSeries::new(
        "saxpy",
        Figure::Throughput,
        // The same arrays each time, and larger than any cache. 'Cold' would hold the figure against what the bus carries,
        // which is not what compressed data are bound by.
        CachePolicy::Hot,
        vec![metric("bandwidth", Unit::BytePerSecond, Quantity::Bandwidth)],
        Draw::Bars { x: "data".into(), y: "bandwidth".into(), by: Some("grid".into()) },
    )
}

/// Reads of the same array again and again, over its size.
#[must_use]
pub fn knee() -> TypedSeries<Reads> {
    TypedSeries::new(
        "footprint",
        Figure::Throughput,
        CachePolicy::Hot,
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

fn at(saxpy: &Series, place: Place, grid: Grid) -> Option<Known<'_>> {
    let (_, row) = known_rows(saxpy).find(|(at, _): &(Saxpy, &Row)| *at == Saxpy { place, grid })?;
    Some((row, saxpy.estimate(row, "bandwidth")?))
}

/// Compressible over plain memory, for data in a grid.
struct Gain<'s> {
    data: Data,
    grid: Grid,
    ratio: Estimate,
    case: Known<'s>,
    control: Known<'s>,
}

fn gains(saxpy: &Series) -> Vec<Gain<'_>> {
    let pairs = Grid::ALL.into_iter().flat_map(|grid| Data::ALL.map(|data| (data, grid)));
    let gain = |(data, grid): (Data, Grid)| {
        let in_memory = |compressible| at(saxpy, Place { data, compressible }, grid);
        let (case, control) = (in_memory(true)?, in_memory(false)?);
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
        let of_data = |data: Data| [true, false].map(|compressible| Place { data, compressible });
        found.extend(CURVES.into_iter().flat_map(of_data).filter_map(|place| holds(curve, place)));
    }
    found
}

/// What to do about it: where the most is won, and what random data lose there and at the worst.
fn advised(gains: &[Gain<'_>]) -> Option<Finding> {
    /// Less than this is not worth an allocation of another kind.
    const WORTH: f64 = 1.03;
    let by = |a: &&Gain<'_>, b: &&Gain<'_>| a.ratio.value.total_cmp(&b.ratio.value);
    let best = gains.iter().max_by(by)?;
    let random = |grid: Option<Grid>| {
        let of =
            gains.iter().filter(move |gain| gain.data == Data::Random && grid.is_none_or(|grid| grid == gain.grid));
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
            .map(|gain| gain.data.name())
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
fn holds(curve: &Series, place: Place) -> Option<Finding> {
    let of = known_rows(curve).filter(|(at, _): &(Reads, &Row)| at.place == place);
    let mut rows: Vec<(f64, &Row, Estimate)> =
        of.filter_map(|(at, row)| Some((at.footprint.0 as f64, row, curve.estimate(row, "bandwidth")?))).collect();
    rows.sort_by(|a, b| a.0.total_cmp(&b.0));
    let best = rows.iter().map(|row| row.2.value).fold(0.0, f64::max);
    let peak = rows.iter().position(|row| row.2.value >= best)?;
    let after = peak + rows[peak..].iter().position(|row| row.2.value < NEAR * best)?;
    let before = &rows[after.checked_sub(1)?];
    let known = Estimate { value: before.0, interval: Interval { lo: before.0, hi: rows[after].0 } };
    let says = format!("to which reads keep nine tenths of {}", Unit::BytePerSecond.format(best));
    Some(Finding { says, ..finding(format!("L2 holds of {place}"), Unit::Byte, before.1, known) })
}

#[cfg(test)]
mod tests {
    use plimsoll_core::Traffic;
    use plimsoll_core::sample::Work;
    use plimsoll_core::series::{Axes, Point};
    use plimsoll_suite::findings::synthetic;

    use super::*;
    use plimsoll_suite::findings::advice::is_advice;

    fn point(at: impl Axes, bandwidth: f64) -> Point {
        synthetic::point(
            at.to_values(),
            (5_u64 << 30) as f64 / bandwidth,
            Work { traffic: Traffic::new(5 << 30, 0), ..Work::default() },
            &[],
        )
    }

    fn all(rate: impl Fn(&str, &str, bool) -> f64) -> Series {
        let places = || Data::ALL.into_iter().flat_map(|data| [true, false].map(|c| Place { data, compressible: c }));
        let cases = Grid::ALL.into_iter().flat_map(|grid| places().map(move |place| Saxpy { place, grid }));
        let points = cases.map(|at| {
            let rate = rate(at.place.data.name(), at.grid.name(), at.place.compressible);
            point(at, rate)
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
        let sizes = (0..24).map(|i| (16_777_216.0 * 2.0_f64.powf(f64::from(i) / 4.0)) as u64);
        let points = sizes.flat_map(|size| {
            [(true, 200_000_000), (false, 50_000_000)].map(|(compressible, end)| {
                let place = Place { data: Data::Ones, compressible };
                point(Reads { place, footprint: Bytes(size) }, if size < end { 7e12 } else { 4.5e12 })
            })
        });
        let found = findings(&DeviceInfo::default(), &[Series::new(knee(), points.collect::<Vec<Point>>())]);
        let of = |name: &str| found.iter().find(|finding| finding.name == name).unwrap().value;
        assert!(of("L2 holds of ones") > 3.0 * of("L2 holds of ones, plain"));
    }
}
