//! neighbours: what each device of a host loses while all the others work, too.

pub mod rounds;

probe! {
    /// What each device loses while all devices of the host work: memory, arithmetic, copies from and to the host, and copies in pairs.
    "neighbours" in "transfers", seconds: [8.0, 32.0, 96.0], files: cuda, takes bytes
}

use crate::interference::Task;
use crate::prelude::meaning::*;

names! {
    /// What else runs.
    pub enum Company {
        /// Nothing.
        Alone = "alone",
        /// The same on all other devices, or on all other pairs of the round.
        Together = "all at once",
    }
}

axes! {
    /// One device, alone or with all others.
    pub struct Place {
        /// The device.
        device: Name,
        /// What the other devices do.
        with: Company,
    }
}

axes! {
    /// Two devices, alone or with all other pairs of their round.
    pub struct Pair {
        /// The two devices.
        pair: Name,
        /// What the other pairs do.
        with: Company,
    }
}

/// What every device does: a kernel that reads its memory, and copies from and to pinned memory of the host.
pub const TASKS: [Task; 3] = [Task::Read, Task::Up, Task::Down];

/// The case of the series of a task, and the beginning of its findings' names.
fn case(task: Task) -> &'static str {
    match task {
        Task::Read => "memory reads",
        Task::Copy => "memory copies",
        Task::Up => "host to device",
        Task::Down => "device to host",
    }
}

/// The case of the series of pairs.
const PAIRS: &str = "pairs";

/// Bandwidth of a task on each device, alone and while all others do the same.
#[must_use]
pub fn rates(task: Task) -> TypedSeries<Place> {
    let draw = Draw::bars("device", "bandwidth").grouped_by("with");
    TypedSeries::hot(case(task), vec![metrics::bandwidth()], draw).with_precision(HOST_PRECISION)
}

/// Copies between two devices in both directions at once, counted together: one pair alone, and all pairs of its round at once.
#[must_use]
pub fn pairs() -> TypedSeries<Pair> {
    let draw = Draw::bars("pair", "bandwidth").grouped_by("with");
    TypedSeries::hot(PAIRS, vec![metrics::bandwidth()], draw).with_precision(HOST_PRECISION)
}

/// The case of the series of matrix products.
const PRODUCTS: &str = "matrix products";
/// Metrics set by the workload: the device's power while it computes, and its clock.
pub const POWER: &str = "power";
/// See [`POWER`].
pub const CLOCK: &str = "clock";

/// Matrix products without pause, which draw the most power of all kernels here, on each device alone and on all at once.
#[must_use]
pub fn products() -> TypedSeries<Place> {
    let metrics = vec![
        metric("rate", Unit::FlopPerSecond, Quantity::OperationsPerSecond),
        metric(POWER, Unit::Watt, Quantity::Extra),
        metric(CLOCK, Unit::Hertz, Quantity::Extra),
    ];
    TypedSeries::hot(PRODUCTS, metrics, Draw::bars("device", "rate").grouped_by("with")).with_precision(HOST_PRECISION)
}

/// The name of a pair on its axis.
#[must_use]
pub fn pair_name(first: &str, second: &str) -> Name {
    Name::from(format!("{first} and {second}"))
}

/// For each series the largest loss, and for copies from and to the host the sum over all devices at once.
fn findings(_: &DeviceInfo, series: &[Series]) -> Vec<Finding> {
    let find = |case: &str| series.iter().find(|series| series.spec.case == case);
    let by_device = |series| known_rows(series).map(|(at, row): (Place, &Row)| (at.device, at.with, row)).collect();
    let by_pair = |series| known_rows(series).map(|(at, row): (Pair, &Row)| (at.pair, at.with, row)).collect();
    let mut found = Vec::new();
    for task in TASKS {
        let Some(series) = find(case(task)) else { continue };
        let both: Vec<Both> = pair_up(series, "bandwidth", by_device(series));
        found.extend(largest_loss(case(task), Unit::BytePerSecond, &both));
        if task != Task::Read {
            found.extend(sum(case(task), &both));
        }
    }
    let both = |series| pair_up(series, "rate", by_device(series));
    found.extend(find(PRODUCTS).and_then(|series| largest_loss(PRODUCTS, Unit::FlopPerSecond, &both(series))));
    let both = |series| pair_up(series, "bandwidth", by_pair(series));
    found.extend(find(PAIRS).and_then(|series| largest_loss(PAIRS, Unit::BytePerSecond, &both(series))));
    found
}

/// A device's or a pair's rate alone and with all others.
struct Both {
    name: Name,
    alone: Estimate,
    together: Estimate,
    flags: Flags,
}

impl Both {
    /// One minus the shared rate over the rate alone, percent.
    fn loss(&self) -> Estimate {
        let percent = |together: f64, alone: f64| 100.0 * (1.0 - together / alone);
        let (alone, together) = (self.alone, self.together);
        let interval = Interval {
            lo: percent(together.interval.hi, alone.interval.lo),
            hi: percent(together.interval.lo, alone.interval.hi),
        };
        Estimate { value: percent(together.value, alone.value), interval }
    }
}

/// Both figures of each device or pair, in the order of the rows. Those with only one of them are left out.
fn pair_up(series: &Series, metric: &str, rows: Vec<(Name, Company, &Row)>) -> Vec<Both> {
    let alone = rows.iter().filter(|(_, with, _)| *with == Company::Alone);
    let both = |(name, _, row): &(Name, Company, &Row)| {
        let (_, _, shared) = rows.iter().find(|(other, with, _)| other == name && *with == Company::Together)?;
        let [alone, together] = [*row, *shared].map(|row| series.estimate(row, metric));
        Some(Both {
            name: name.clone(),
            alone: alone.filter(|alone| alone.value > 0.0)?,
            together: together?,
            flags: row.flags.union(shared.flags),
        })
    };
    alone.filter_map(both).collect()
}

fn largest_loss(case: &str, unit: Unit, both: &[Both]) -> Option<Finding> {
    let worst = both.iter().max_by(|a, b| a.loss().value.total_cmp(&b.loss().value))?;
    let format = |figure: Estimate| unit.format(figure.value);
    let (together, alone) = (format(worst.together), format(worst.alone));
    let says = format!("{}: {together} with all at once, {alone} alone. Losses: {}.", worst.name, list_losses(both));
    Some(Finding { says, ..derived(format!("{case}, largest loss"), Unit::Percent, worst.loss(), worst.flags) })
}

/// Losses that a sentence names of more than one more: those of eight devices. They have 28 pairs.
const MOST_NAMED: usize = 8;

/// The losses of all, or the largest ones and a limit for the others.
fn list_losses(both: &[Both]) -> String {
    let mut losses: Vec<(&Name, f64)> = both.iter().map(|one| (&one.name, one.loss().value)).collect();
    if losses.len() > MOST_NAMED + 1 {
        losses.sort_by(|a, b| b.1.total_cmp(&a.1));
    }
    let named = if losses.len() > MOST_NAMED + 1 { &losses[..MOST_NAMED] } else { &losses[..] };
    let mut words: Vec<String> = named.iter().map(|(name, loss)| format!("{name} {loss:.1} %")).collect();
    if let [(_, next), ..] = &losses[named.len()..] {
        words.push(format!("the other {} at most {next:.1} %", losses.len() - named.len()));
    }
    words.join(", ")
}

/// The bandwidth of all devices at once.
fn sum(case: &str, both: &[Both]) -> Option<Finding> {
    let add = |take: fn(&Both) -> f64| both.iter().map(take).sum::<f64>();
    let interval = Interval { lo: add(|one| one.together.interval.lo), hi: add(|one| one.together.interval.hi) };
    let known = Estimate { value: add(|one| one.together.value), interval };
    let flags = both.iter().fold(Flags::NONE, |flags, one| flags.union(one.flags));
    let single = Unit::BytePerSecond.format(add(|one| one.alone.value));
    let says = format!("The sum over {} devices; each alone adds up to {single}.", both.len());
    (!both.is_empty())
        .then(|| Finding { says, ..derived(format!("{case}, all at once"), Unit::BytePerSecond, known, flags) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::Traffic;
    use plimsoll_core::sample::Work;
    use plimsoll_core::series::Point;

    fn point(at: Vec<Value>, bytes: u64) -> Point {
        let work = Work { traffic: Traffic::new(bytes, 0), ..Work::default() };
        Point::new(at, work, vec![1_000_000; 30])
    }

    fn place(device: &'static str, with: Company, bytes: u64) -> Point {
        point(Place { device: device.into(), with }.to_values(), bytes)
    }

    #[test]
    fn findings_name_the_worst_device_and_add_up_all_devices() {
        use Company::{Alone, Together};
        let points = [
            place("cuda:0", Alone, 50_000),
            place("cuda:0", Together, 49_000),
            place("cuda:1", Alone, 50_000),
            place("cuda:1", Together, 30_000),
            place("cuda:2", Alone, 50_000),
        ];
        let found = findings(&DeviceInfo::default(), &[Series::new(rates(Task::Up), points)]);
        let names: Vec<&str> = found.iter().map(|finding| finding.name.as_str()).collect();
        assert_eq!(names, ["host to device, largest loss", "host to device, all at once"]);
        assert!((found[0].value - 40.0).abs() < 1e-9, "{found:?}");
        assert!(found[0].says.starts_with("cuda:1: ") && found[0].says.contains("cuda:0 2.0 %"), "{}", found[0].says);
        // 79,000 bytes in a millisecond; cuda:2 has no figure with the others.
        assert!((found[1].value - 79e6).abs() < 1.0 && found[1].says.contains("2 devices"), "{found:?}");
        assert!(found.iter().all(|finding| finding.interval.contains(finding.value)));
    }

    #[test]
    fn pairs_have_a_loss_and_memory_has_no_sum() {
        let pair = |with, bytes| point(Pair { pair: pair_name("cuda:0", "cuda:3"), with }.to_values(), bytes);
        let series = [
            Series::new(rates(Task::Read), [place("a", Company::Alone, 10), place("a", Company::Together, 10)]),
            Series::new(pairs(), [pair(Company::Alone, 800), pair(Company::Together, 600)]),
        ];
        let found = findings(&DeviceInfo::default(), &series);
        let names: Vec<&str> = found.iter().map(|finding| finding.name.as_str()).collect();
        assert_eq!(names, ["memory reads, largest loss", "pairs, largest loss"]);
        assert!((found[1].value - 25.0).abs() < 1e-9 && found[1].says.starts_with("cuda:0 and cuda:3: "), "{found:?}");
    }

    #[test]
    fn of_many_pairs_the_sentence_names_those_that_lose_most() {
        let pairs_of =
            |devices: u64| (0..devices).flat_map(move |first| (first + 1..devices).map(move |second| (first, second)));
        let points = pairs_of(8).enumerate().flat_map(|(number, (first, second))| {
            let name = pair_name(&format!("cuda:{first}"), &format!("cuda:{second}"));
            let bytes = [(Company::Alone, 100_000), (Company::Together, 100_000 - 1000 * number as u64)];
            bytes.map(|(with, bytes)| point(Pair { pair: name.clone(), with }.to_values(), bytes))
        });
        let found = findings(&DeviceInfo::default(), &[Series::new(pairs(), points)]);
        let says = &found[0].says;
        assert!(says.contains("Losses: cuda:6 and cuda:7 27.0 %, cuda:5 and cuda:7 26.0 %"), "{says}");
        assert!(says.ends_with("20.0 %, the other 20 at most 19.0 %.") && says.chars().count() < 400, "{says}");
    }

    #[test]
    fn empty_series_have_no_findings() {
        assert!(findings(&DeviceInfo::default(), &[]).is_empty());
        assert!(findings(&DeviceInfo::default(), &[Series::new(rates(Task::Down), [])]).is_empty());
    }
}
