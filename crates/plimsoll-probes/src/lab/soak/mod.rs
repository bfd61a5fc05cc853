//! soak: one load near the power limit for minutes to hours, in windows: its rate, clock, power and temperature, and whether its results
//! stay the same.

probe! {
    /// How a device settles under a constant load near its power limit, and whether its results stay the same.
    "soak" in LAB, seconds: [60.0, 300.0, 1800.0], files: cpu gpu
}

use plimsoll_core::sample::Effort;
use plimsoll_core::series::Seconds;
use plimsoll_core::stats::median;

use crate::prelude::meaning::*;

axes! {
    /// A window of the run.
    pub struct Window {
        /// When it begins.
        time: Seconds,
    }
}

/// Shortest window, seconds: many steps of the energy counter and of the clock.
const SHORTEST: f64 = 2.5;
/// Fewest and most windows: an hour has windows of 15 s, so that a record stays small however long the run is.
const COUNT: (f64, f64) = (8.0, 240.0);

/// The windows of a run of so many seconds.
#[must_use]
pub fn windows(seconds: f64) -> Vec<Window> {
    let length = window_length(seconds);
    let count = (seconds / length).round() as u32;
    (0..count).map(|number| Window { time: Seconds(f64::from(number) * length) }).collect()
}

/// The number of windows of a run.
#[cfg(any(feature = "cpu", feature = "gpu"))]
fn count(request: &plimsoll_core::probe::Request) -> usize {
    windows(request.seconds.unwrap_or_else(|| SPEC.budget(request.effort))).len()
}

fn window_length(seconds: f64) -> f64 {
    seconds / (seconds / SHORTEST).clamp(COUNT.0, COUNT.1).floor()
}

/// Length of a sample in a run of so many seconds, in seconds: the engine ends a window after the fewest samples that an effort takes.
/// The clock, the energy counter and throttle reasons are read in between.
#[must_use]
pub fn sample_length(seconds: f64, effort: Effort) -> f64 {
    window_length(seconds) / effort.policy().min_samples as f64
}

/// The rate of each window; its power and temperature where the device reports them.
#[must_use]
pub fn over_time() -> TypedSeries<Window> {
    let metrics = vec![
        metric("rate", Unit::FlopPerSecond, Quantity::OperationsPerSecond),
        metric(POWER, Unit::Watt, Quantity::Extra),
        metric(TEMPERATURE, Unit::Celsius, Quantity::Extra),
    ];
    // Windows last as long as planned, however steady their samples are.
    TypedSeries::hot("over time", metrics, Draw::lines("time", "rate"))
        .with_precision(PRECISION)
        .with_expected(expected())
}

/// Metric names of what the device reports.
pub const POWER: &str = "power";
/// See [`POWER`].
pub const TEMPERATURE: &str = "temperature";
/// A device that works as hard as it can is at its power limit, below its highest clock.
fn expected() -> Flags {
    Flags::from_iter([Flag::ThrottlePower, Flag::ClockLow])
}

/// Every window is precise enough.
const PRECISION: f64 = 0.5;

/// Relative difference, and difference in kelvins, from the end of the run within which the device has settled.
const STEADY: f64 = 0.01;
const STEADY_KELVINS: f64 = 2.0;
/// Fewest windows that tell whether the device has settled.
const FEWEST: usize = 4;

/// A window's figures.
struct Step<'s> {
    time: f64,
    row: &'s Row,
    rate: f64,
    clock: Option<f64>,
    power: Option<f64>,
    temperature: Option<f64>,
}

fn findings(_: &DeviceInfo, series: &[Series]) -> Vec<Finding> {
    let Some(series) = series.iter().find(|series| series.spec.case == "over time") else { return Vec::new() };
    let value = |row: &Row, name: &str| series.estimate(row, name).map(|estimate| estimate.value);
    let steps: Vec<Step<'_>> = known_rows::<Window>(series)
        .filter_map(|(at, row)| {
            let rate = value(row, "rate")?;
            let (power, temperature) = (value(row, POWER), value(row, TEMPERATURE));
            Some(Step { time: at.time.0, row, rate, clock: row.clock_hz(), power, temperature })
        })
        .collect();
    if steps.is_empty() { Vec::new() } else { describe(&steps) }
}

/// The level at the end of the run: the last quarter of the windows.
fn describe(steps: &[Step<'_>]) -> Vec<Finding> {
    let last = &steps[steps.len() - (steps.len() / 4).max(2).min(steps.len())..];
    let level = |of: fn(&Step<'_>) -> Option<f64>| {
        let values: Vec<f64> = last.iter().filter_map(of).collect();
        let bound = |pick: fn(f64, f64) -> f64| values.iter().copied().reduce(pick);
        Some(Estimate { interval: Interval { lo: bound(f64::min)?, hi: bound(f64::max)? }, value: median(values) })
    };
    let levels: [(&str, Unit, Option<Estimate>); 4] = [
        ("rate", Unit::FlopPerSecond, level(|step| Some(step.rate))),
        ("clock", Unit::Hertz, level(|step| step.clock)),
        (POWER, Unit::Watt, level(|step| step.power).map(widen_power)),
        (TEMPERATURE, Unit::Celsius, level(|step| step.temperature)),
    ];
    let known = |name: &str| levels.iter().find(|(known, ..)| *known == name).and_then(|(.., level)| level.as_ref());
    let is_level = |step: &Step<'_>| {
        let near = |name, value: Option<f64>, allowed: &dyn Fn(f64) -> f64| match (known(name), value) {
            (Some(level), Some(value)) => (value - level.value).abs() <= allowed(level.value),
            _ => true,
        };
        near("rate", Some(step.rate), &|rate| STEADY * rate) && near(TEMPERATURE, step.temperature, &|_| STEADY_KELVINS)
    };
    let steady = smoothed(steps);
    let settled = steps.len() - steady.iter().rev().take_while(|step| is_level(step)).count();
    let words: Vec<String> =
        levels.iter().filter_map(|(_, unit, level)| Some(unit.format(level.as_ref()?.value))).collect();
    let loss = known("rate").map_or(0.0, |rate| 100.0 * (1.0 - rate.value / steps[0].rate));
    let loss = if loss > 0.1 { format!(", {loss:.1} % below the first window") } else { String::new() };
    let tail = format!("{}{loss}{}", words.join(", "), describe_limits(steps));
    let row = last[0].row;
    // The level itself is not evidence that it was reached.
    let settled = (steps.len() >= FEWEST && settled + last.len() < steps.len()).then(|| Estimate {
        value: steps[settled].time,
        interval: Interval { lo: steps[settled.saturating_sub(1)].time, hi: steps[settled].time },
    });
    let says = match settled {
        Some(time) => format!("settled after {} at {tail}", in_words(time.value)),
        None if steps.len() < FEWEST => format!("too short to say whether the device settled: at the end {tail}"),
        None => format!("not settled after {}: at the end {tail}", in_words(steps[steps.len() - 1].time)),
    };
    let says = match describe_wrong(steps) {
        Some(wrong) => format!("{wrong}; {says}"),
        None => format!("{says}; the same results in {}", describe_checked(steps)),
    };
    let levels: Vec<Finding> = levels
        .into_iter()
        .filter_map(|(name, unit, level)| Some(finding(format!("{name} at the end"), unit, row, level?)))
        .collect();
    let advice = levels.first().map(|rate| {
        let decides = Estimate { value: rate.value, interval: rate.interval };
        advice(says, rate.unit.clone(), decides, steps.iter().map(|step| step.row))
    });
    let settled = settled.map(|time| finding("settled after", Unit::Second, row, time));
    let sound = |finding: Finding| Finding { flags: finding.flags.without(expected()), ..finding };
    settled.into_iter().chain(levels).chain(advice).map(sound).collect()
}

/// The windows with the median temperature of five windows around each: a sensor that is read in a gap between launches is off for one
/// window or two.
fn smoothed<'s>(steps: &[Step<'s>]) -> Vec<Step<'s>> {
    let smooth = |place: usize| {
        let from = place.saturating_sub(2).min(steps.len().saturating_sub(5));
        let near = &steps[from..(from + 5).min(steps.len())];
        let values: Vec<f64> = near.iter().filter_map(|step| step.temperature).collect();
        let temperature = (!values.is_empty()).then(|| median(values));
        Step { temperature, ..steps[place] }
    };
    (0..steps.len()).map(smooth).collect()
}

/// A time of the run: minutes from ten on, hours from two on.
fn in_words(seconds: f64) -> String {
    match seconds {
        7200.0.. => format!("{:.1} h", seconds / 3600.0),
        600.0.. => format!("{:.0} min", seconds / 60.0),
        _ => Unit::Second.format(seconds),
    }
}

/// The windows in which the device was at a limit: `; at the power limit in 58 of 60 windows`.
fn describe_limits(steps: &[Step<'_>]) -> String {
    let count = |flag: Flag| steps.iter().filter(|step| step.row.flags.contains(flag)).count();
    let limits = [
        ("at the power limit", count(Flag::ThrottlePower)),
        ("too hot", count(Flag::ThrottleThermal)),
        ("braked by the board", count(Flag::ThrottleHw)),
    ];
    let known = limits.into_iter().filter(|(_, count)| *count > 0);
    known.map(|(what, count)| format!("; {what} in {count} of {} windows", steps.len())).collect()
}

/// From when on results were wrong; `None` if they were right in every window.
fn describe_wrong(steps: &[Step<'_>]) -> Option<String> {
    let is_wrong = |step: &&Step<'_>| step.row.flags.contains(Flag::VerifyFail);
    let first = in_words(steps.iter().find(is_wrong)?.time);
    let count = steps.iter().filter(is_wrong).count();
    Some(format!("WRONG results in {count} of {} windows, first at {first}", steps.len()))
}

/// The windows whose results were checked. Those of a window that a fault ended were not.
fn describe_checked(steps: &[Step<'_>]) -> String {
    let unchecked = steps.iter().filter(|step| step.row.flags.contains(Flag::Unchecked)).count();
    match unchecked {
        0 => format!("all {} windows", steps.len()),
        _ => format!(
            "{} of {} windows; a fault ended the others before their check",
            steps.len() - unchecked,
            steps.len()
        ),
    }
}

/// The energy counter is read after each sample, so both ends of a window are known to one sample of its about 30.
fn widen_power(power: Estimate) -> Estimate {
    let by = power.value / 30.0;
    Estimate { interval: Interval { lo: power.interval.lo - by, hi: power.interval.hi + by }, ..power }
}

#[cfg(test)]
mod tests {
    use plimsoll_core::flag::Flags;
    use plimsoll_core::sample::{Evidence, Work};
    use plimsoll_core::series::Point;

    use super::*;

    /// A run of 300 s whose rate and temperature follow these functions of the time.
    fn run(rate: impl Fn(f64) -> f64, temperature: impl Fn(f64) -> f64) -> Vec<Finding> {
        let point = |window: Window| {
            let time = window.time.0;
            let seconds = 1e-3 / rate(time);
            let flags: Flags = (time > 30.0).then_some(Flag::ThrottlePower).into_iter().collect();
            Point {
                flags,
                evidence: Evidence { clock_hz: Some(1.5e9 * rate(time)), ..Evidence::default() },
                extra: [(POWER.to_owned(), 698.0), (TEMPERATURE.to_owned(), temperature(time))].into(),
                ..Point::new(
                    window.to_values(),
                    Work { operations: 6e11, ..Work::default() },
                    vec![(seconds * 1e9) as u64; 30],
                )
            }
        };
        findings(&DeviceInfo::default(), &[Series::new(over_time(), windows(300.0).into_iter().map(point))])
    }

    #[test]
    fn windows_are_few_however_long_the_run_is() {
        for (seconds, count) in [(20.0, 8), (60.0, 24), (300.0, 120), (3600.0, 240), (86_400.0, 240)] {
            let windows = windows(seconds);
            assert_eq!(windows.len(), count, "{seconds}");
            let end = windows[count - 1].time.0 + 30.0 * sample_length(seconds, Effort::Quick);
            assert!((end / seconds - 1.0).abs() < 1e-9, "{seconds}: {end}");
        }
    }

    #[test]
    fn a_device_that_cools_down_to_a_level_settles_and_says_when_and_at_what() {
        let found = run(|time| 1.0 + 0.1 * (-time / 20.0).exp(), |time| 65.0 - 30.0 * (-time / 25.0).exp());
        // 30 K · exp(−t / 25 s) is 2 K after 68 s.
        assert!((65.0..75.0).contains(&found[0].value), "{found:?}");
        let settled = found.last().unwrap();
        assert!(
            settled.says.contains("600 TFLOP/s, 1.500 GHz, 698 W, 65.0 °C, 9.1 % below the first window"),
            "{}",
            settled.says
        );
        let end = "; at the power limit in 107 of 120 windows; the same results in all 120 windows";
        assert!(settled.says.ends_with(end), "{}", settled.says);
        let names: Vec<&str> = found.iter().map(|finding| finding.name.as_str()).collect();
        let levels = ["rate", "clock", "power", "temperature"].map(|name| format!("{name} at the end"));
        assert_eq!(names[0], "settled after");
        assert!(names[1..5] == levels && names[5..] == ["advice"], "{names:?}");
        // At its power limit the device is where it should be.
        assert!(found.iter().all(|finding| finding.flags.is_empty()), "{found:?}");
    }

    #[test]
    fn a_device_that_keeps_slowing_down_has_not_settled() {
        let found = run(|time| 1.0 - time / 1000.0, |_| 65.0);
        let says = &found.last().unwrap().says;
        assert!(
            found[0].name == "rate at the end" && says.starts_with("not settled after 298 s: at the end "),
            "{found:?}"
        );
        assert!(run(|_| 1.0, |time| 40.0 + time / 10.0).last().unwrap().says.starts_with("not settled"));
        assert!(findings(&DeviceInfo::default(), &[]).is_empty());
    }

    #[test]
    fn long_times_are_in_minutes_and_hours() {
        let words = [298.0, 1800.0, 86_400.0].map(in_words);
        assert_eq!(words, ["298 s", "30 min", "24.0 h"]);
    }

    #[test]
    fn a_sensor_that_is_off_for_two_windows_does_not_unsettle_a_device() {
        let says =
            |off: f64| run(|_| 1.0, move |time| if time == off { 57.0 } else { 61.0 }).last().unwrap().says.clone();
        for off in [0.0, 150.0, 295.0, 297.5] {
            assert!(says(off).starts_with("settled after 0 s"), "{}", says(off));
        }
    }

    #[test]
    fn a_change_where_the_last_quarter_begins_is_not_settled() {
        // The last quarter of 300 s begins at 225 s.
        let says =
            |from: f64| run(move |time| if time < from { 1.1 } else { 1.0 }, |_| 65.0).last().unwrap().says.clone();
        assert!(says(225.0).starts_with("not settled"), "{}", says(225.0));
        assert!(says(222.4).starts_with("settled after 222 s"), "{}", says(222.4));
    }

    #[test]
    fn few_windows_have_a_sentence_and_wrong_results_come_first() {
        let (right, wrong) = (Flags::NONE, Some(Flag::VerifyFail).into_iter().collect::<Flags>());
        let says = |flags: &[Flags]| {
            let point = |(place, flags): (usize, &Flags)| Point {
                flags: *flags,
                ..Point::new(
                    Window { time: Seconds(2.5 * place as f64) }.to_values(),
                    Work { operations: 6e11, ..Work::default() },
                    vec![1_000_000; 30],
                )
            };
            let series = Series::new(over_time(), flags.iter().enumerate().map(point));
            findings(&DeviceInfo::default(), &[series]).last().unwrap().says.clone()
        };
        let short = says(&[right, right]);
        assert!(short.starts_with("too short to say whether the device settled: at the end 600 TFLOP/s"), "{short}");
        assert!(short.ends_with("; the same results in all 2 windows"), "{short}");
        let cut = Some(Flag::Unchecked).into_iter().collect();
        let lost = says(&[right, right, right, right, cut]);
        assert!(
            lost.ends_with("; the same results in 4 of 5 windows; a fault ended the others before their check"),
            "{lost}"
        );
        assert!(says(&[wrong]).starts_with("WRONG results in 1 of 1 windows, first at 0 s; too short"));
        let late = says(&[right, right, right, right, right, wrong, right, right]);
        assert!(late.starts_with("WRONG results in 1 of 8 windows, first at 12.5 s; settled after 0 s at"), "{late}");
    }
}
