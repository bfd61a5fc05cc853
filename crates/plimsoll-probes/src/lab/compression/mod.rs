//! compression: whether compressible memory pays. z = a·x + y on seven kinds of data in four grids, and how much of such data the
//! L2 holds, each compared with plain memory.

probe! {
    /// Does compressible memory pay?
    "compression" in LAB, seconds: [4.0, 20.0, 60.0], files: cuda kernels, takes bytes
}

use std::fmt;

use crate::prelude::meaning::*;

names! {
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

    /// The grids: one vector per thread, and loops over fewer and fewer blocks.
    pub enum Grid {
        /// A vector per thread.
        OneShot = "one-shot",
        /// A loop over 4000 blocks.
        Many = "4000 blocks",
        /// A loop over two blocks per SM.
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
    /// The kind of data.
    pub data: Data,
    /// Whether compressible memory was requested.
    pub compressible: bool,
}

impl Place {
    /// Suffix of the data's name in plain memory.
    const PLAIN: &'static str = ", plain";
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.data, if self.compressible { "" } else { Self::PLAIN })
    }
}

impl Label for Place {
    fn from_label(label: &str) -> Option<Self> {
        let plain = label.strip_suffix(Self::PLAIN);
        Some(Self { data: Data::from_name(plain.unwrap_or(label))?, compressible: plain.is_none() })
    }
}

axes! {
    /// z = a·x + y.
    pub struct Saxpy {
        /// What the arrays hold.
        place as "data": Place,
        /// The grid of the kernel.
        grid: Grid,
    }

    /// Reads of an array.
    pub struct Reads {
        /// Its data.
        place as "data": Place,
        /// Its size.
        footprint: Bytes,
    }
}

/// z = a·x + y on arrays larger than any cache.
#[must_use]
pub fn saxpy() -> TypedSeries<Saxpy> {
    TypedSeries::new(
        "saxpy",
        Figure::Throughput,
        // The same arrays each time, larger than any cache. 'Cold' would compare the figure with the bus bandwidth, which is not
        // the limit for compressed data.
        CachePolicy::Hot,
        vec![metrics::bandwidth()],
        Draw::bars("data", "bandwidth").grouped_by("grid"),
    )
}

/// Repeated reads of one array, over its size.
#[must_use]
pub fn knee() -> TypedSeries<Reads> {
    let draw = Draw::lines("footprint", "bandwidth").grouped_by("data").log_x();
    TypedSeries::hot("footprint", vec![metrics::bandwidth()], draw)
}

/// A row and its figure.
type Known<'s> = (&'s Row, Estimate);

fn find_saxpy(saxpy: &Series, place: Place, grid: Grid) -> Option<Known<'_>> {
    let (_, row) = known_rows(saxpy).find(|(at, _): &(Saxpy, &Row)| *at == Saxpy { place, grid })?;
    Some((row, saxpy.estimate(row, "bandwidth")?))
}

/// Gain of compressible over plain memory, for one kind of data in one grid.
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
        let in_memory = |compressible| find_saxpy(saxpy, Place { data, compressible }, grid);
        let (case, control) = (in_memory(true)?, in_memory(false)?);
        Some(Gain { data, grid, ratio: ratio(case.1, control.1), case, control })
    };
    pairs.filter_map(gain).collect()
}

fn findings(_: &DeviceInfo, series: &[Series]) -> Vec<Finding> {
    let find_case = |case: &str| series.iter().find(|series| series.spec.case == case);
    let mut found = Vec::new();
    if let Some(saxpy) = find_case("saxpy") {
        let gains = gains(saxpy);
        found.extend(gains.iter().map(|gain| {
            let rate = |known: &Known<'_>| Unit::BytePerSecond.format(known.1.value);
            let says = format!("{} against {} in plain memory", rate(&gain.case), rate(&gain.control));
            let name = format!("gain of {}, {}", gain.data, gain.grid);
            let flags = gain.case.0.flags.union(gain.control.0.flags);
            Finding { says, flags, ..finding(name, Unit::One, gain.case.0, gain.ratio) }
        }));
        found.extend(advise(&gains));
    }
    if let Some(curve) = find_case("footprint") {
        let both_places = |data: Data| [true, false].map(|compressible| Place { data, compressible });
        found.extend(CURVES.into_iter().flat_map(both_places).filter_map(|place| find_capacity(curve, place)));
    }
    found
}

/// The advice: the largest gain, and the loss of random data in the same grid and at worst.
fn advise(gains: &[Gain<'_>]) -> Option<Finding> {
    /// A smaller gain doesn't justify a special allocation.
    const WORTH: f64 = 1.03;
    let by_gain = |a: &&Gain<'_>, b: &&Gain<'_>| a.ratio.value.total_cmp(&b.ratio.value);
    let best = gains.iter().max_by(by_gain)?;
    let random = |grid: Option<Grid>| {
        let random =
            gains.iter().filter(move |gain| gain.data == Data::Random && grid.is_none_or(|grid| grid == gain.grid));
        random.min_by(by_gain)
    };
    let (in_best_grid, worst) = (random(Some(best.grid))?, random(None)?);
    let words = |gain: &Gain<'_>| describe_ratio(gain.ratio, ["faster", "as fast", "slower"]);
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
            words(in_best_grid),
            words(worst),
            worst.grid
        )
    };
    Some(advice(says, Unit::One, best.ratio, [best.case.0, best.control.0, worst.case.0, worst.control.0]))
}

/// Share of the best bandwidth that still counts as the plateau.
const NEAR: f64 = 0.9;

/// The largest footprint at which reads keep nine tenths of their best bandwidth.
fn find_capacity(curve: &Series, place: Place) -> Option<Finding> {
    let reads = known_rows(curve).filter(|(at, _): &(Reads, &Row)| at.place == place);
    let mut rows: Vec<(f64, &Row, Estimate)> =
        reads.filter_map(|(at, row)| Some((at.footprint.0 as f64, row, curve.estimate(row, "bandwidth")?))).collect();
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
    use plimsoll_suite::findings::synthetic::{self, assert_says};

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

    fn series_of(rate: impl Fn(&str, &str, bool) -> f64) -> Series {
        let places = || Data::ALL.into_iter().flat_map(|data| [true, false].map(|c| Place { data, compressible: c }));
        let cases = Grid::ALL.into_iter().flat_map(|grid| places().map(move |place| Saxpy { place, grid }));
        let points = cases.map(|at| {
            let rate = rate(at.place.data.name(), at.grid.name(), at.place.compressible);
            point(at, rate)
        });
        Series::new(saxpy(), points.collect::<Vec<Point>>())
    }

    #[test]
    fn advice_names_the_grid_the_kinds_and_the_loss() {
        let series = series_of(|data, grid, compressible| match (data, grid, compressible) {
            ("zeros" | "ones", "one-shot", true) => 8.1e12,
            ("random", "4000 blocks", true) => 3.11e12,
            (_, "4000 blocks", false) => 4.2e12,
            _ => 4.38e12,
        });
        let found = findings(&DeviceInfo::default(), &[series]);
        assert_eq!(found.len(), 28 + 1);
        let advice = found.iter().find(|finding| is_advice(finding)).unwrap();
        assert!((advice.value - 8.1 / 4.38).abs() < 1e-3 && advice.is_sound(), "{advice:?}");
        assert_says(
            advice,
            &["'one-shot'", "8.10 TB/s against 4.38 TB/s", "for zeros, ones.", "26 % slower in the grid '4000 blocks'"],
        );
    }

    #[test]
    fn advice_is_plain_memory_if_compression_gains_nothing() {
        let found = findings(
            &DeviceInfo::default(),
            &[series_of(|_, _, compressible| if compressible { 4.0e12 } else { 4.2e12 })],
        );
        let advice = found.iter().find(|finding| is_advice(finding)).unwrap();
        assert!(
            advice.says.starts_with("Allocate plain memory") && advice.says.contains("4.8 % slower"),
            "{}",
            advice.says
        );
        assert!(findings(&DeviceInfo::default(), &[]).is_empty());
    }

    #[test]
    fn findings_show_larger_capacity_for_compressible_data() {
        let sizes = (0..24).map(|i| (16_777_216.0 * 2.0_f64.powf(f64::from(i) / 4.0)) as u64);
        let points = sizes.flat_map(|size| {
            [(true, 200_000_000), (false, 50_000_000)].map(|(compressible, end)| {
                let place = Place { data: Data::Ones, compressible };
                point(Reads { place, footprint: Bytes(size) }, if size < end { 7e12 } else { 4.5e12 })
            })
        });
        let found = findings(&DeviceInfo::default(), &[Series::new(knee(), points.collect::<Vec<Point>>())]);
        let value = |name: &str| found.iter().find(|finding| finding.name == name).unwrap().value;
        assert!(value("L2 holds of ones") > 3.0 * value("L2 holds of ones, plain"));
    }
}
