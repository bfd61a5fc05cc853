//! The arguments of `collect`.

use std::path::PathBuf;

use clap::ValueEnum;

const COLLECT_HELP: &str = "Every device is compared with the median of its fleet, within devices of one model with equal settings, and with what its \
model should reach; only the second shows that all are slow. A figure is slow if it is more than 4 spreads and more than \
2 % worse. A device measured three times is judged by the median of its runs: `check --fleet DIR --round 2` and `--round 3` \
measure it again.

The verdict is `healthy`, `slow`, `broken`, `unknown` (disturbed, cut off, on two hosts, or without samples) or `not judged`; the \
fleet's is the worst of its devices. The exit code is 0 for healthy and not judged, 1 for slow and broken, and 4 for unknown and \
where devices are missing or files are cut off, unusable or twice. It is 2 for wrong options, where DIR can't be read or has no \
file of a device, and where the output can't be written.";

#[derive(Debug, clap::Args)]
#[command(after_help = COLLECT_HELP)]
pub(crate) struct CollectArgs {
    /// Folder that `check --fleet` wrote to
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// Number of devices that the fleet should have
    #[arg(long, value_name = "N", value_parser = super::judging::parse_count)]
    pub expect: Option<usize>,
    /// Number of devices that every host should have
    #[arg(long, value_name = "N", value_parser = super::judging::parse_count)]
    pub per_host: Option<usize>,
    /// Leave out measurements that began earlier: 2h ago, or at 2026-01-02T03:04:05Z
    #[arg(long, value_name = "TIME", value_parser = parse_since)]
    pub since: Option<String>,
    /// Call a device slow only where three runs agree, and name the devices to measure again
    #[arg(long)]
    pub confirm: bool,
    /// List every device and every problem
    #[arg(long)]
    pub all: bool,
    /// Output format; default: by the ending of --out, else a table
    #[arg(long, value_enum)]
    pub format: Option<CollectFormat>,
    /// File to write, complete or not at all; default: stdout
    #[arg(short, long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Replace an existing file
    #[arg(long, requires = "out")]
    pub force: bool,
}

/// The formats of a fleet's judgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CollectFormat {
    /// For people
    Table,
    /// For programs
    Json,
    /// Gauges for Prometheus and others
    #[value(name = "openmetrics")]
    OpenMetrics,
    /// One self-contained web page with a map of hosts and slots
    Html,
    /// Commands that drain the nodes of slow and broken devices in Slurm
    Slurm,
    /// Commands that set a condition of each node in Kubernetes
    Kubernetes,
}

/// A time of day as records have it, from `90min`, `2h`, `3d` before now, or from a time stamp with its zone.
fn parse_since(text: &str) -> Result<String, String> {
    let format = |time: jiff::Timestamp| time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let units = [("min", 60.0), ("h", 3600.0), ("d", 86_400.0), ("s", 1.0)];
    let ago =
        units.iter().find_map(|(unit, seconds)| Some(text.strip_suffix(unit)?.trim().parse::<f64>().ok()? * seconds));
    match ago {
        Some(seconds) if (0.0..=1e9).contains(&seconds) => {
            Ok(format(jiff::Timestamp::now() - jiff::SignedDuration::from_secs_f64(seconds)))
        }
        _ => text.parse().map(format).map_err(|_| "write 90min, 2h, 3d or 2026-01-02T03:04:05Z".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::parse_since;

    #[test]
    fn a_time_is_so_long_ago_or_a_time_stamp() {
        assert_eq!(parse_since("2026-01-02T03:04:05+01:00").unwrap(), "2026-01-02T02:04:05Z");
        let [hours, days] = ["48h", "2d"].map(|text| parse_since(text).unwrap());
        assert!(hours[..16] == days[..16] || hours < days);
        for wrong in ["", "h", "-2h", "yesterday", "2026-01-02", "nanh"] {
            assert!(parse_since(wrong).is_err(), "{wrong}");
        }
    }
}
