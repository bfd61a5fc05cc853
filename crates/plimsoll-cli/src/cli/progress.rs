//! Progress on stderr: a bar if that is a terminal, else a line per probe as it ends. It is shown between points and without a
//! separate thread, so it never runs during a measurement.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use plimsoll::EndedProbe;
use plimsoll::core::record::Progress;
use plimsoll::prelude::Outcome;

use super::exit::say;

/// Steps of the bar per second.
const STEPS: f64 = 10.0;

/// The progress of a run, and the time it may still take.
pub(crate) struct Bar {
    bar: ProgressBar,
    /// Probes with their budgets in seconds, in the order in which they run.
    budgets: Vec<(String, f64)>,
}

impl Bar {
    /// A bar over probes with their budgets in seconds.
    pub fn new(budgets: Vec<(String, f64)>) -> Self {
        let total: f64 = budgets.iter().map(|(_, seconds)| seconds).sum();
        // The bar hides itself if stderr is not a terminal.
        let bar = ProgressBar::new((total * STEPS) as u64);
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {wide_msg}") {
            bar.set_style(style);
        }
        bar.set_message(format!("at most {} left", format_seconds(total)));
        bar.tick();
        Self { bar, budgets }
    }

    /// The same without showing anything, if `--quiet` was given.
    pub fn quiet_if(self, is_quiet: bool) -> Self {
        if is_quiet {
            self.bar.set_draw_target(ProgressDrawTarget::hidden());
        }
        self
    }

    /// Whether no bar is drawn.
    pub fn is_hidden(&self) -> bool {
        self.bar.is_hidden()
    }

    /// Shows the progress after a point.
    pub fn show(&self, progress: &Progress<'_>) {
        let place = self.budgets.iter().position(|(name, _)| name == progress.probe);
        let (before, rest) = self.budgets.split_at(place.unwrap_or(0));
        let sum = |part: &[(String, f64)]| part.iter().map(|(_, seconds)| seconds).sum::<f64>();
        let own = rest.first().map_or(0.0, |(_, seconds)| *seconds);
        self.bar.set_position(((sum(before) + own * progress.spent) * STEPS) as u64);
        let left = sum(rest) - own + progress.seconds_left;
        let points = count_points(progress.points);
        self.bar.set_message(format!("{}: {points}, at most {} left", progress.probe, format_seconds(left)));
    }

    /// Takes the bar off the screen.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// Prints a line about a probe that has ended: `measured: stream, 34 points, 8.1 s`. The device is named if there are several.
pub(crate) fn print_end(end: &EndedProbe<'_>, with_device: bool) {
    say("measured", &describe_end(end, with_device));
}

fn describe_end(end: &EndedProbe<'_>, with_device: bool) -> String {
    let device = if with_device { format!("{} ", end.device) } else { String::new() };
    let outcome = match end.outcome {
        Outcome::Complete => String::new(),
        Outcome::Faulted(fault) => format!(", ended early: {fault}"),
    };
    format!("{device}{}, {}, {:.1} s{outcome}", end.probe, count_points(end.points), end.seconds)
}

fn count_points(points: usize) -> String {
    if points == 1 { "1 point".to_owned() } else { format!("{points} points") }
}

/// `1 min 5 s`.
fn format_seconds(seconds: f64) -> String {
    let seconds = Duration::try_from_secs_f64(seconds.ceil()).unwrap_or_default().as_secs();
    match (seconds / 60, seconds % 60) {
        (0, seconds) => format!("{seconds} s"),
        (minutes, seconds) => format!("{minutes} min {seconds} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_that_ended_is_described_with_points_seconds_and_its_fault() {
        let fault = Outcome::Faulted(plimsoll::core::Fault::Panicked("boom".to_owned()));
        let end = EndedProbe { device: "cpu", probe: "sync", outcome: &Outcome::Complete, points: 1, seconds: 1.26 };
        assert_eq!(describe_end(&end, false), "sync, 1 point, 1.3 s");
        let failed = describe_end(&EndedProbe { outcome: &fault, points: 0, ..end }, true);
        assert!(failed.starts_with("cpu sync, 0 points, 1.3 s, ended early: ") && failed.contains("boom"), "{failed}");
    }

    #[test]
    fn time_left_is_formatted_in_minutes_and_seconds_even_if_invalid() {
        assert_eq!(format_seconds(64.2), "1 min 5 s");
        assert_eq!(format_seconds(0.0), "0 s");
        assert_eq!(format_seconds(f64::NAN), "0 s");
        assert_eq!(format_seconds(-3.0), "0 s");
    }
}
