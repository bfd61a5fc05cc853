//! The progress bar, on stderr if that is a terminal. It is drawn between points and without a separate thread, so it never
//! runs during a measurement.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use plimsoll::core::record::Progress;

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

    /// Shows the progress after a point.
    pub fn show(&self, progress: &Progress<'_>) {
        let place = self.budgets.iter().position(|(name, _)| name == progress.probe);
        let (before, rest) = self.budgets.split_at(place.unwrap_or(0));
        let sum = |part: &[(String, f64)]| part.iter().map(|(_, seconds)| seconds).sum::<f64>();
        let own = rest.first().map_or(0.0, |(_, seconds)| *seconds);
        self.bar.set_position(((sum(before) + own * progress.spent) * STEPS) as u64);
        let left = sum(rest) - own + progress.seconds_left;
        let points = if progress.points == 1 { "1 point".to_owned() } else { format!("{} points", progress.points) };
        self.bar.set_message(format!("{}: {points}, at most {} left", progress.probe, format_seconds(left)));
    }

    /// Takes the bar off the screen.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
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
    fn time_left_is_formatted_in_minutes_and_seconds_even_if_invalid() {
        assert_eq!(format_seconds(64.2), "1 min 5 s");
        assert_eq!(format_seconds(0.0), "0 s");
        assert_eq!(format_seconds(f64::NAN), "0 s");
        assert_eq!(format_seconds(-3.0), "0 s");
    }
}
