//! pattern: whether memory returns what was written. Every word holds a value that depends on its index, so that stuck bits, wrong
//! addresses and lost writes all show; a second pass inverts every bit.

probe! {
    /// Whether memory returns what was written, in all that is free.
    "pattern" in "bandwidth", seconds: [4.0, 8.0, 30.0], files: cpu gpu kernels, takes bytes
}

use crate::prelude::meaning::*;

names! {
    /// What is written.
    pub enum Pass {
        /// A random word for each index.
        Random = "random",
        /// The same with every bit inverted.
        Inverted = "inverted",
    }
}

axes! {
    /// A check of all memory.
    pub struct Checked {
        /// What was written.
        pass: Pass,
        /// Bytes of memory.
        memory: Bytes,
    }
}

impl Pass {
    /// The bits that are inverted in every word.
    #[must_use]
    pub const fn flip(self) -> u64 {
        match self {
            Self::Random => 0,
            Self::Inverted => u64::MAX,
        }
    }
}

/// Reading all memory back and comparing each word.
#[must_use]
pub fn checks() -> TypedSeries<Checked> {
    let metrics = vec![metrics::bandwidth(), metrics::time()];
    let draw = Draw::bars("pass", "bandwidth");
    TypedSeries::new("checks", Figure::Throughput, CachePolicy::Stream, metrics, draw)
}

/// The bytes that were read back and compared, over all passes, rounds and samples. That they were right is what every point's check
/// says.
fn findings(_: &DeviceInfo, series: &[Series]) -> Vec<Finding> {
    let rows = || series.iter().filter(|series| series.spec.case == "checks").flat_map(|series| &series.rows);
    let read = |point: &plimsoll_core::series::Point| {
        let launches = point.samples.len() as f64 * f64::from(point.k);
        point.work.traffic.read as f64 * launches
    };
    let bytes: f64 = rows().flat_map(|row| &row.points).map(read).sum();
    let flags = rows().fold(Flags::NONE, |all, row| all.union(row.flags));
    let value = Estimate { value: bytes, interval: Interval { lo: bytes, hi: bytes } };
    let found = (bytes > 0.0).then(|| derived("bytes checked".to_owned(), Unit::Byte, value, flags));
    found.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use plimsoll_core::Traffic;
    use plimsoll_core::sample::Work;
    use plimsoll_core::series::Point;

    use super::*;

    #[test]
    fn bytes_of_every_launch_are_counted() {
        let point = |pass| Point {
            k: 2,
            ..Point::new(
                Checked { pass, memory: Bytes(1000) }.to_values(),
                Work { traffic: Traffic::new(1000, 0), ..Work::default() },
                vec![7; 5],
            )
        };
        let series = Series::new(checks(), [point(Pass::Random), point(Pass::Inverted)]);
        let found = findings(&DeviceInfo::default(), &[series]);
        assert_eq!((found.len(), found[0].value), (1, 20_000.0));
        assert!(findings(&DeviceInfo::default(), &[]).is_empty());
    }
}
