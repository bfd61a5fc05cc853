//! The progress bar: on stderr, and only where that is a terminal. It is drawn between points and by no thread of its own,
//! so it never runs beside a measurement.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use plimsoll::core::record::Progress;

/// Steps of a second that the bar knows.
const STEPS: f64 = 10.0;

/// Where a run is, and how long it may still take.
pub(crate) struct Bar {
    bar: ProgressBar,
    /// Probes with their budgets in seconds, in the order in which they run.
    budgets: Vec<(String, f64)>,
}

impl Bar {
    /// A bar over probes with their budgets in seconds.
    pub fn new(budgets: Vec<(String, f64)>) -> Self {
        let total: f64 = budgets.iter().map(|(_, seconds)| seconds).sum();
        // Hides itself where stderr is no terminal.
        let bar = ProgressBar::new((total * STEPS) as u64);
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {wide_msg}") {
            bar.set_style(style);
        }
        bar.set_message(format!("at most {} left", words(total)));
        bar.tick();
        Self { bar, budgets }
    }

    /// A point has been measured.
    pub fn show(&self, progress: &Progress<'_>) {
        let place = self.budgets.iter().position(|(name, _)| name == progress.probe);
        let (before, rest) = self.budgets.split_at(place.unwrap_or(0));
        let sum = |part: &[(String, f64)]| part.iter().map(|(_, seconds)| seconds).sum::<f64>();
        let own = rest.first().map_or(0.0, |(_, seconds)| *seconds);
        self.bar.set_position(((sum(before) + own * progress.spent) * STEPS) as u64);
        let left = sum(rest) - own + progress.seconds_left;
        let points = if progress.points == 1 { "1 point".to_owned() } else { format!("{} points", progress.points) };
        self.bar.set_message(format!("{}: {points}, at most {} left", progress.probe, words(left)));
    }

    /// Takes the bar off the screen.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// `1 min 5 s`.
fn words(seconds: f64) -> String {
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
    fn time_left_is_said_in_minutes_and_seconds_whatever_it_is() {
        assert_eq!(words(64.2), "1 min 5 s");
        assert_eq!(words(0.0), "0 s");
        assert_eq!(words(f64::NAN), "0 s");
        assert_eq!(words(-3.0), "0 s");
    }
}
