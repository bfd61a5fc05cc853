//! fetch-granularity: how many bytes memory delivers for a read of 32: whether the context's limit and the loads' hints are
//! honoured.

probe! {
    /// Where 32 bytes are wanted, are 32, 64 or 128 fetched from memory?
    "fetch-granularity" in LAB, seconds: [3.0, 10.0, 30.0], files: cuda kernels, takes bytes
}

use std::fmt;

use plimsoll_core::counted::DRAM_READ;

use crate::prelude::meaning::*;

/// The limits that are requested, bytes.
pub const LIMITS: [u64; 3] = [32, 64, 128];
/// The limit in force, bytes; the workload reports it.
pub const IN_FORCE: &str = "limit in force";

/// The bytes that a load asks the cache to fetch; 0 in a load without a hint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hint(pub u64);

impl Hint {
    /// A load without a hint.
    pub const PLAIN: Self = Self(0);
    /// Its display name.
    const NO_HINT: &'static str = "none";
}

impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::PLAIN { f.write_str(Self::NO_HINT) } else { write!(f, "{} B", self.0) }
    }
}

impl Label for Hint {
    fn from_label(label: &str) -> Option<Self> {
        match label {
            Self::NO_HINT => Some(Self::PLAIN),
            name => Some(Self(name.strip_suffix(" B")?.parse().ok()?)),
        }
    }
}

axes! {
    /// A read.
    pub struct Read {
        /// The requested limit.
        limit: Bytes,
        /// The load's hint.
        hint: Hint,
    }
}

/// Reads of 32 bytes at random places far beyond the cache, by limit and hint. An operation is a read.
#[must_use]
pub fn reads() -> TypedSeries<Read> {
    let metrics = vec![
        metric("reads", Unit::OpPerSecond, Quantity::OperationsPerSecond),
        metrics::bandwidth(),
        metric(IN_FORCE, Unit::Byte, Quantity::Extra),
    ];
    let draw = Draw::bars("limit", "reads").grouped_by("hint");
    TypedSeries::hot("reads", metrics, draw)
}

/// Bytes from memory per byte wanted, if they were counted.
fn moved(reads: &Series, row: &Row) -> Option<Estimate> {
    let useful = row.points.first()?.work.traffic.read as f64;
    let counted = reads.estimate(row, DRAM_READ).filter(|_| useful > 0.0)?;
    let Interval { lo, hi } = counted.interval;
    Some(Estimate { value: counted.value / useful, interval: Interval { lo: lo / useful, hi: hi / useful } })
}

fn find_read(reads: &Series, limit: u64, hint: Hint) -> Option<(&Row, Estimate)> {
    let (_, row) = known_rows(reads).find(|(at, _): &(Read, &Row)| *at == Read { limit: Bytes(limit), hint })?;
    Some((row, reads.estimate(row, "reads")?))
}

fn findings(_: &DeviceInfo, series: &[Series]) -> Vec<Finding> {
    let Some(reads) = series.iter().find(|series| series.spec.case == "reads") else { return Vec::new() };
    let mut found = Vec::new();
    for (Read { limit: Bytes(limit), hint }, row) in known_rows(reads) {
        let name = format!("limit {limit} B, hint {hint}");
        let force = reads.estimate(row, IN_FORCE).map_or(limit as f64, |known| known.value);
        let says = if force == limit as f64 { String::new() } else { format!("{force} B are in force") };
        if let Some(rate) = reads.estimate(row, "reads") {
            found.push(Finding { says, ..finding(name.clone(), Unit::OpPerSecond, row, rate) });
        }
        found.extend(
            moved(reads, row).map(|moved| finding(format!("moved per byte wanted, {name}"), Unit::One, row, moved)),
        );
    }
    found.extend(advise(reads));
    found
}

/// Whether limit and hint are honoured, and which is best for such reads.
fn advise(reads: &Series) -> Option<Finding> {
    /// Measurements repeat within a hundredth; fetching twice as much changes far more.
    const HONOURED: f64 = 0.05;
    let without_hint = |limit: u64| find_read(reads, limit, Hint::PLAIN);
    let (small, large) = (without_hint(LIMITS[0])?, without_hint(LIMITS[2])?);
    let decides = ratio(small.1, large.1);
    let words = |ratio: Estimate| describe_ratio(ratio, ["faster", "as fast", "slower"]);
    let counted = moved(reads, small.0).zip(moved(reads, large.0));
    let bytes = counted.as_ref().map_or(String::new(), |(small, large)| {
        format!(", {:.1} bytes fetched per byte wanted against {:.1}", small.value, large.value)
    });
    let shares = counted.map_or(decides.value, |(small, large)| large.value / small.value);
    let than = describe_ratio(decides, ["faster than", "as fast as", "slower than"]);
    let limit = if (shares - 1.0).abs() >= HONOURED {
        let better = if decides.value >= 1.0 { LIMITS[0] } else { LIMITS[2] };
        format!(
            "Set the limit to {better} B where such reads decide, since it is honoured: with 32 B they are {than} with 128 \
             B{bytes}"
        )
    } else {
        format!("Leave the limit alone, it is not honoured: with 32 B random reads are {than} with 128 B{bytes}")
    };
    let usual = without_hint(LIMITS[1]).unwrap_or(small);
    let hints = LIMITS[1..]
        .iter()
        .chain(&[256])
        .filter_map(|bytes| Some((Hint(*bytes), find_read(reads, LIMITS[1], Hint(*bytes))?)));
    let worst = hints.min_by(|(_, a), (_, b)| a.1.value.total_cmp(&b.1.value));
    let mut rows = vec![small.0, large.0];
    let per_load = worst.map_or(String::new(), |(hint, worst)| {
        rows.extend([worst.0, usual.0]);
        let by = ratio(worst.1, usual.1);
        let heed = if (by.value - 1.0).abs() >= HONOURED {
            "hints of loads are honoured, so give random reads none"
        } else {
            "hints of loads change nothing"
        };
        format!("; {heed}: {} at the worst, '{hint}'", words(by))
    });
    Some(advice(format!("{limit}{per_load}."), Unit::One, decides, rows))
}

#[cfg(test)]
mod tests {
    use plimsoll_core::Traffic;
    use plimsoll_core::sample::Work;
    use plimsoll_core::series::{Point, SeriesSpec};
    use plimsoll_suite::findings::synthetic::assert_says;

    use super::*;
    use plimsoll_suite::findings::advice::is_advice;

    fn find_advice(rate: impl Fn(u64, u64) -> f64, fetched: Option<&dyn Fn(u64) -> f64>) -> Finding {
        let mut spec = SeriesSpec::from(reads());
        spec.metrics.extend(plimsoll_core::counted::metrics());
        let all = LIMITS.iter().flat_map(|limit| [0, 64, 128, 256].map(|asked| (*limit, asked)));
        let points = all.map(|(limit, asked)| Point {
            tick: 1e-12,
            extra: fetched.map(|fetched| (DRAM_READ.to_owned(), 32e6 * fetched(limit))).into_iter().collect(),
            ..Point::new(
                Read { limit: Bytes(limit), hint: Hint(asked) }.to_values(),
                Work { traffic: Traffic::new(32_000_000, 0), operations: 1e6, ..Work::default() },
                vec![(1e6 / rate(limit, asked) * 1e12) as u64; 30],
            )
        });
        let found = findings(&DeviceInfo::default(), &[Series::new(spec, points.collect::<Vec<Point>>())]);
        assert_eq!(found.len(), 13 + if fetched.is_some() { 12 } else { 0 });
        found.into_iter().find(is_advice).unwrap()
    }

    #[test]
    fn advice_sets_an_honoured_limit_and_names_its_bytes() {
        let advice = find_advice(|limit, _| 1e11 * 32.0 / limit as f64, Some(&|limit| limit as f64 / 32.0));
        assert_says(
            &advice,
            &[
                "Set the limit to 32 B",
                "4.0 times as fast as with 128",
                "1.0 bytes fetched per byte wanted against 4.0",
                "change nothing",
            ],
        );
    }

    #[test]
    fn advice_leaves_an_ineffective_limit_alone_and_names_a_costly_hint() {
        let advice = find_advice(|_, asked| if asked == 256 { 5e10 } else { 1e11 }, None);
        assert_says(&advice, &["Leave the limit alone", "as fast as with 128 B", "50 % slower at the worst, '256 B'"]);
        assert!(findings(&DeviceInfo::default(), &[]).is_empty());
    }
}
