//! roofline: arithmetic rate over arithmetic intensity in one binary, from memory-bound to compute-bound (Williams,
//! Waterman and Patterson, 2009).

probe! {
    /// The rate of arithmetic from memory-bound to compute-bound, and where the two meet.
    "roofline" in "arithmetic", seconds: [7.0, 45.0, 135.0], files: cpu gpu kernels, takes bytes, headlines: [
        Headline::gate("fma-f32", "FMA f32", More, &["peak f32"], 0.005),
        Headline::gate("fma-f64", "FMA f64", More, &["peak f64"], 0.005),
    ]
}

use plimsoll_core::series::{FlopPerByte, SeriesSpec};

use crate::prelude::meaning::*;

names! {
    /// Number types, named as in the devices' peaks. CPUs have the first two.
    pub enum Type {
        /// Double precision.
        F64 = "f64",
        /// Single precision.
        F32 = "f32",
        /// Two of binary16 in a word.
        F16x2 = "f16x2",
        /// Two of bfloat16 in a word.
        Bf16x2 = "bf16x2",
    }
}

axes! {
    /// A point on a type's curve.
    pub struct Place {
        /// The type.
        kind as "type": Type,
        /// Operations per byte from memory.
        intensity: FlopPerByte,
    }
}

/// FLOP/s against FLOP per byte from memory, on all cores.
#[must_use]
pub fn sweep() -> TypedSeries<Place> {
    let metrics =
        vec![metric("rate", Unit::FlopPerSecond, Quantity::OperationsPerSecond), metrics::bandwidth(), metrics::time()];
    let draw = Draw::lines("intensity", "rate").grouped_by("type").log_x().log_y();
    TypedSeries::cold("sweep", metrics, draw)
}

/// Power of steady loads along the curve, from the device's energy counter.
#[must_use]
pub fn energy() -> TypedSeries<Place> {
    let SeriesSpec { figure, cache, metrics, .. } = sweep().into();
    let measured =
        [metric("power", Unit::Watt, Quantity::Extra), metric("temperature", Unit::Celsius, Quantity::Extra)];
    let metrics = measured.into_iter().chain(metrics).collect();
    let (x, y, by) = ("intensity".into(), "power".into(), Some("type".into()));
    TypedSeries::new("energy", figure, cache, metrics, Draw::Lines { x, y, by, log_x: true, log_y: false })
}

/// Rows at either end of the curve that count as its plateaus.
const ENDS: usize = 3;
/// The memory-bound end must lie this far below the roof for the two to meet within the curve.
const SLOPED: f64 = 0.5;

fn findings(info: &DeviceInfo, series: &[Series]) -> Vec<Finding> {
    let Some(sweep) = series.iter().find(|series| series.spec.case == "sweep") else { return Vec::new() };
    let energy = series.iter().find(|series| series.spec.case == "energy");
    let roofs = Type::ALL.into_iter().flat_map(|kind| roof(info, sweep, kind));
    roofs.chain(energy.into_iter().flat_map(energies)).collect()
}

/// Highest intensity, FLOP/B, that counts as memory-bound.
const LOW: f64 = 1.0;

/// The whole board's power, per byte moved at the low end and per operation at the high ends.
fn energies(series: &Series) -> Vec<Finding> {
    let rows: Vec<(Place, &Row)> = known_rows(series).collect();
    let last = |kind: Type| {
        let same = rows.iter().filter(|(at, _)| at.kind == kind);
        same.map(|(at, _)| at.intensity.0).fold(0.0, f64::max)
    };
    let first = rows.iter().map(|(at, _)| at.intensity.0).fold(f64::INFINITY, f64::min);
    let finding = |(at, row): &(Place, &Row)| {
        let (kind, intensity) = (at.kind, at.intensity.0);
        if intensity > first && intensity < last(kind) {
            return None;
        }
        let power = series.estimate(row, "power")?;
        let (name, unit, rate) = if intensity <= LOW {
            ("energy per byte".to_owned(), Unit::JoulePerByte, series.estimate(row, "bandwidth")?)
        } else {
            (format!("energy per operation {kind}"), Unit::JoulePerFlop, series.estimate(row, "rate")?)
        };
        let interval = Interval { lo: power.interval.lo / rate.interval.hi, hi: power.interval.hi / rate.interval.lo };
        let says = format!("{} of the whole board, idle power included", Unit::Watt.format(power.value));
        let energy = Estimate { value: power.value / rate.value, interval };
        Some(Finding { says, ..finding(name, unit, row, energy) })
    };
    rows.iter().filter_map(finding).collect()
}

/// The rate at the highest intensity, and the ridge where the memory-bound slope meets it.
fn roof(info: &DeviceInfo, sweep: &Series, kind: Type) -> Vec<Finding> {
    let mut places: Vec<(Place, &Row)> = known_rows(sweep).filter(|(at, _): &(Place, &Row)| at.kind == kind).collect();
    places.sort_by(|(one, _), (other, _)| one.intensity.0.total_cmp(&other.intensity.0));
    let rows: Vec<&Row> = places.into_iter().map(|(_, row)| row).collect();
    if rows.len() < 2 * ENDS {
        return Vec::new();
    }
    // Always the highest intensity, whatever the rates below it: a choice made beforehand can't favour a lucky row.
    let Some((row, peak)) = rows.last().and_then(|row| Some((*row, sweep.estimate(row, "rate")?))) else {
        return Vec::new();
    };
    let mut roof = finding(format!("peak {kind}"), Unit::FlopPerSecond, row, peak);
    roof.metric = kind.to_string();
    if let Some(theory) =
        info.peak(kind.name()).filter(|theory| theory.unit == Unit::FlopPerSecond && theory.value > 0.0)
    {
        roof.says =
            format!("{:.1} % of {}", 100.0 * peak.value / theory.value, Unit::FlopPerSecond.format(theory.value));
    }
    let mut found = vec![roof];
    let slope = middle(sweep, &rows[..2], "bandwidth");
    let lowest = sweep.estimate(rows[0], "rate");
    if let (Some((row, bandwidth)), Some(lowest)) = (slope, lowest)
        && lowest.value < SLOPED * peak.value
    {
        let interval =
            Interval { lo: peak.interval.lo / bandwidth.interval.hi, hi: peak.interval.hi / bandwidth.interval.lo };
        let ridge = Estimate { value: peak.value / bandwidth.value, interval };
        found.push(Finding {
            says: format!("below it a kernel is bound by memory at {}", Unit::BytePerSecond.format(bandwidth.value)),
            ..finding(format!("ridge {kind}"), Unit::FlopPerByte, row, ridge)
        });
    }
    found
}

/// The median row of a plateau by a metric (the lower of two), which can't favour a lucky row.
fn middle<'r>(sweep: &Series, rows: &[&'r Row], metric: &str) -> Option<(&'r Row, Estimate)> {
    let mut figures: Vec<(&Row, Estimate)> =
        rows.iter().filter_map(|row| Some((*row, sweep.estimate(row, metric)?))).collect();
    figures.sort_by(|one, other| one.1.value.total_cmp(&other.1.value));
    figures.get(figures.len().checked_sub(1)? / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::Traffic;
    use plimsoll_core::device::Peak;
    use plimsoll_core::sample::Work;
    use plimsoll_core::series::Point;

    /// A machine of 100 GB/s and 800 GFLOP/s: its ridge is at 8 FLOP/B.
    fn curve(kind: Type, intensities: &[f64]) -> Vec<Point> {
        let point = |&intensity: &f64| {
            let bytes = 1e9;
            let seconds = (bytes / 100e9_f64).max(bytes * intensity / 800e9);
            Point::new(
                Place { kind, intensity: FlopPerByte(intensity) }.to_values(),
                Work { traffic: Traffic::new(bytes as u64, 0), operations: bytes * intensity, ..Work::default() },
                vec![(seconds * 1e9) as u64; 30],
            )
        };
        intensities.iter().map(point).collect()
    }

    #[test]
    fn roof_and_ridge_match_the_machine() {
        let peak = Peak { metric: "f64".into(), value: 1e12, unit: Unit::FlopPerSecond, source: "a document".into() };
        let info = DeviceInfo { peaks: vec![peak], ..DeviceInfo::default() };
        let all = [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0];
        let found = findings(&info, &[Series::new(super::sweep(), curve(Type::F64, &all))]);
        assert_eq!(found.len(), 2);
        assert!((found[0].value / 800e9 - 1.0).abs() < 1e-6 && found[0].metric == "f64", "{found:?}");
        assert!(found[0].says.starts_with("80.0 %"), "{}", found[0].says);
        assert!((found[1].value / 8.0 - 1.0).abs() < 1e-6 && found[1].unit == Unit::FlopPerByte);
        assert!(found[1].interval.lo <= found[1].value && found[1].value <= found[1].interval.hi);
    }

    #[test]
    fn energy_is_power_over_what_it_does_at_either_end() {
        let mut points = curve(Type::F32, &[0.125, 256.0]);
        for (point, watts) in points.iter_mut().zip([400.0, 600.0]) {
            point.extra.insert("power".to_owned(), watts);
        }
        let found =
            findings(&DeviceInfo::default(), &[Series::new(super::sweep(), []), Series::new(super::energy(), points)]);
        let figures: Vec<(&str, f64)> = found.iter().map(|finding| (finding.name.as_str(), finding.value)).collect();
        assert_eq!(figures[0].0, "energy per byte");
        assert!((figures[0].1 / (400.0 / 100e9) - 1.0).abs() < 1e-6, "{figures:?}");
        assert_eq!(figures[1].0, "energy per operation f32");
        assert!((figures[1].1 / (600.0 / 800e9) - 1.0).abs() < 1e-6, "{figures:?}");
    }

    #[test]
    fn flat_curve_has_no_ridge() {
        let flat = Series::new(super::sweep(), curve(Type::F32, &[16.0, 32.0, 64.0, 128.0, 256.0, 512.0]));
        let found = findings(&DeviceInfo::default(), &[flat]);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].name.as_str(), found[0].says.as_str()), ("peak f32", ""));
    }
}
