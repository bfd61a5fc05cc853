//! interference: how much a memory-bound kernel and a copy between host and device slow each other down.

probe! {
    /// What a kernel and a copy between host and device lose when both run at once.
    "interference" in "transfers", seconds: [3.0, 12.0, 36.0], files: cuda, takes bytes
}

use crate::prelude::meaning::*;

names! {
    /// What is timed.
    pub enum Task {
        /// A kernel that reads the device's memory.
        Read = "kernel read",
        /// A kernel that copies within it.
        Copy = "kernel copy",
        /// A copy from the host, by a copy engine.
        Up = "H2D",
        /// A copy to the host.
        Down = "D2H",
    }
}

impl Task {
    /// The kernels.
    pub const KERNELS: [Self; 2] = [Self::Read, Self::Copy];
    /// The copies.
    pub const COPIES: [Self; 2] = [Self::Up, Self::Down];
}

/// What runs at the same time; `None` where nothing does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beside(pub Option<Task>);

impl Beside {
    /// The axis value where nothing else runs.
    const NOTHING: &'static str = "nothing";

    /// Its name on the axis.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.0.map_or(Self::NOTHING, Task::name)
    }
}

impl Coordinate for Beside {
    const UNIT: Unit = Unit::One;

    fn to_value(&self) -> Value {
        self.name().into()
    }

    fn from_value(value: &Value) -> Option<Self> {
        match value.text()? {
            Self::NOTHING => Some(Self(None)),
            name => Task::from_name(name).map(|task| Self(Some(task))),
        }
    }
}

axes! {
    /// One task, alone or alongside another.
    pub struct Pair {
        /// What is timed.
        work: Task,
        /// What runs at the same time.
        beside: Beside,
    }
}

/// Bandwidth of one task, alone and alongside another.
#[must_use]
pub fn rates() -> TypedSeries<Pair> {
    let metrics = vec![metrics::bandwidth()];
    let draw = Draw::bars("work", "bandwidth").grouped_by("beside");
    TypedSeries::hot("rates", metrics, draw).with_precision(HOST_PRECISION)
}

/// The loss of each task to each other one, as a share of its bandwidth alone.
fn findings(_: &DeviceInfo, series: &[Series]) -> Vec<Finding> {
    let Some(rates) = series.iter().find(|series| series.spec.case == "rates") else { return Vec::new() };
    let rows: Vec<(Pair, &Row)> = known_rows(rates).collect();
    let loss = |(at, row): &(Pair, &Row)| {
        let (work, beside) = (at.work, at.beside.0?);
        let (_, alone) = rows.iter().find(|(at, _)| *at == Pair { work, beside: Beside(None) })?;
        let (a, b) = (rates.estimate(alone, "bandwidth")?, rates.estimate(row, "bandwidth")?);
        let percent = |shared: f64, alone: f64| 100.0 * (1.0 - shared / alone);
        let interval =
            Interval { lo: percent(b.interval.hi, a.interval.lo), hi: percent(b.interval.lo, a.interval.hi) };
        let known = Estimate { value: percent(b.value, a.value), interval };
        let format = |figure: Estimate| Unit::BytePerSecond.format(figure.value);
        Some(Finding {
            says: format!("{} alongside {beside}, {} alone.", format(b), format(a)),
            flags: row.flags.union(alone.flags),
            ..finding(format!("{work} loses to {beside}"), Unit::Percent, row, known)
        })
    };
    rows.iter().filter_map(loss).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::Traffic;
    use plimsoll_core::sample::Work;
    use plimsoll_core::series::Point;

    fn point(work: Task, beside: Option<Task>, bytes: u64) -> Point {
        Point::new(
            Pair { work, beside: Beside(beside) }.to_values(),
            Work { traffic: Traffic::new(bytes, 0), ..Work::default() },
            vec![1_000_000; 30],
        )
    }

    #[test]
    fn every_pair_whose_work_was_also_measured_alone_has_a_loss() {
        let points = [
            point(Task::Read, None, 4_000_000),
            point(Task::Read, Some(Task::Up), 3_800_000),
            point(Task::Up, None, 50_000),
            point(Task::Up, Some(Task::Read), 40_000),
            point(Task::Down, Some(Task::Read), 40_000),
        ];
        let found = findings(&DeviceInfo::default(), &[Series::new(rates(), points)]);
        let figures: Vec<(&str, f64)> =
            found.iter().map(|finding| (finding.name.as_str(), finding.value.round())).collect();
        assert_eq!(figures, [("kernel read loses to H2D", 5.0), ("H2D loses to kernel read", 20.0)]);
        assert!(found.iter().all(|finding| finding.interval.contains(finding.value)));
        assert!(findings(&DeviceInfo::default(), &[]).is_empty());
    }
}
