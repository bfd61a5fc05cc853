//! Today's rules for flags, applied to the runs in `records/`: on an idle machine hardly any figure has a flag.

use std::path::Path;

use plimsoll_core::device::DeviceInfo;
use plimsoll_core::flag::{Flag, Flags};
use plimsoll_core::record::{Run, path_in, read_file};
use plimsoll_core::sample::{Context, is_narrow_enough, judge};
use plimsoll_core::series::{Point, SeriesSpec};

/// Flags that describe what was measured, not how well.
const HARMLESS: [Flag; 2] = [Flag::LaunchBound, Flag::CacheResident];
/// Flags of a card that throttles at its power limit, which some cards do whenever memory streams, even on an idle machine.
const POWER: [Flag; 2] = [Flag::ThrottlePower, Flag::ClockLow];
/// Flags that can't be derived from samples and evidence, so they are taken from the record.
const RECORDED: [Flag; 4] = [Flag::VerifyFail, Flag::Unchecked, Flag::Shrunk, Flag::Counted];

/// The flags of a point by today's rules. The record doesn't store the resolution: it is the device's, or one cycle if the kernel
/// counted cycles.
fn judge_again(run: &Run, spec: &SeriesSpec, device: &DeviceInfo, point: &Point) -> Flags {
    let seconds: Vec<f64> = point.seconds().collect();
    let cycle = point.evidence.clock_hz.filter(|_| point.work.in_kernel).map(f64::recip);
    let resolution = cycle.map_or(device.calibration.resolution, |cycle| cycle.max(point.tick));
    let half_width = run.header.effort.policy().half_width.max(spec.precision);
    let context = Context { device, cache: spec.cache, resolution, half_width, precision: spec.precision };
    let mut flags = judge(&seconds, point.k, &point.work, &point.evidence, &context);
    let cut = point.flags.contains(Flag::Budget);
    flags.insert_if(Flag::Budget, cut && !is_narrow_enough(&seconds, half_width));
    flags.union(point.flags.iter().filter(|flag| RECORDED.contains(flag)).collect())
}

#[test]
fn at_most_one_point_in_twenty_of_an_idle_h200_has_a_flag() {
    let records = Path::new(env!("CARGO_MANIFEST_DIR")).join("../records/h200");
    for (name, throttles) in [
        ("2026-11-20-second/measure-1", false),
        ("2026-11-20-second/measure-2", false),
        ("2026-11-22-suite/suite-1", true),
        ("2026-11-22-suite/suite-2", true),
        ("2026-11-23-suite/stream", false),
    ] {
        let run = read_file(&path_in(&records.join(name))).unwrap();
        let (mut all, mut flagged) = (0, 0);
        for series in &run.series {
            let device = &run.header.devices[series.spec.device as usize];
            for point in series.rows.iter().flat_map(|row| &row.points) {
                all += 1;
                let flags = judge_again(&run, &series.spec, device, point);
                let counts = |flag| !(HARMLESS.contains(&flag) || throttles && POWER.contains(&flag));
                flagged += usize::from(flags.iter().any(counts));
            }
        }
        assert!(all > 500 && flagged * 20 <= all, "{name}: {flagged} of {all}");
    }
}
