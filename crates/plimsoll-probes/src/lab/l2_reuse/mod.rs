//! l2-reuse: the gain if a consumer finds in the L2 what a producer has just written: tiles of various sizes, updated by kernels in
//! a stream, in a graph and in one cooperative launch, compared with the same work without tiles.

probe! {
    /// What does staging through the L2 gain, and in tiles of what size?
    "l2-reuse" in LAB, seconds: [4.0, 20.0, 60.0], files: gpu kernels, takes bytes
}

use crate::prelude::meaning::*;

names! {
    /// How producer and consumer are launched.
    pub enum Form {
        /// Producer and consumer of the same tile in turn, in a stream.
        Stream = "stream",
        /// The same as nodes of a graph.
        Graph = "graph",
        /// The same in one launch, with grid barriers.
        Cooperative = "cooperative",
        /// The producer on every tile of an array larger than any cache, then the consumer on every tile: the control.
        Apart = "no tiles",
    }
}

impl Form {
    /// The forms with tiles.
    const TILED: [Self; 3] = [Self::Stream, Self::Graph, Self::Cooperative];
}

axes! {
    /// A tile in one form.
    pub struct Tile {
        /// The form of its update.
        form: Form,
        /// Its size.
        tile: Bytes,
    }
}

/// Updates of a tile by producer and consumer, over the tile's size: each reads and writes it once.
#[must_use]
pub fn tiles() -> TypedSeries<Tile> {
    let draw = Draw::lines("tile", "bandwidth").grouped_by("form").log_x();
    let metrics = vec![metrics::bandwidth()];
    TypedSeries::hot("tiles", metrics, draw)
}

/// Share of the best that still counts as full speed.
const NEAR: f64 = 0.9;
/// The least ratio over the control that counts as a gain.
const GAIN: f64 = 1.05;

/// Tile, row and figure, by tile.
type Rows<'s> = Vec<(f64, &'s Row, Estimate)>;

fn rows_of_form(tiles: &Series, form: Form) -> Rows<'_> {
    let of_form = known_rows(tiles).filter(|(at, _): &(Tile, &Row)| at.form == form);
    let mut rows: Rows<'_> =
        of_form.filter_map(|(at, row)| Some((at.tile.0 as f64, row, tiles.estimate(row, "bandwidth")?))).collect();
    rows.sort_by(|a, b| a.0.total_cmp(&b.0));
    rows
}

/// A form's best tile, the largest tile that keeps nine tenths of that speed, and the tile size at which the gain ends.
struct Reach<'s> {
    best: (f64, &'s Row, Estimate),
    keeps: (f64, &'s Row, Interval),
    gone: Option<f64>,
    /// The control at the tile of the best.
    control: (f64, &'s Row, Estimate),
}

fn reach<'s>(rows: &Rows<'s>, control: &Rows<'s>) -> Option<Reach<'s>> {
    let peak = (0..rows.len()).max_by(|a, b| rows[*a].2.value.total_cmp(&rows[*b].2.value))?;
    let best = rows[peak];
    let control_at = |tile: f64| control.iter().find(|row| row.0 == tile).copied();
    let after = rows[peak..].iter().position(|row| row.2.value < NEAR * best.2.value).map(|step| peak + step);
    let kept = rows[after.unwrap_or(rows.len()) - 1];
    let end = after.map_or(kept.0, |after| rows[after].0);
    let gains =
        |row: &(f64, &Row, Estimate)| control_at(row.0).is_some_and(|other| row.2.value >= GAIN * other.2.value);
    let last = rows.iter().rposition(gains);
    let gone = last.and_then(|last| rows.get(last + 1)).map(|row| row.0);
    let keeps = (kept.0, kept.1, Interval { lo: kept.0, hi: end });
    Some(Reach { best, keeps, gone, control: control_at(best.0)? })
}

fn findings(_: &DeviceInfo, series: &[Series]) -> Vec<Finding> {
    let Some(tiles) = series.iter().find(|series| series.spec.case == "tiles") else { return Vec::new() };
    let control = rows_of_form(tiles, Form::Apart);
    let mut found = Vec::new();
    for form in Form::TILED {
        let Some(reach) = reach(&rows_of_form(tiles, form), &control) else { continue };
        let (tile, row, known) = reach.best;
        let against = Unit::BytePerSecond.format(reach.control.2.value);
        let says = format!("in tiles of {}, against {against} without", Unit::Byte.format(tile));
        found.push(Finding { says, ..finding(format!("{form}, best"), Unit::BytePerSecond, row, known) });
        let (tile, row, interval) = reach.keeps;
        let gone = reach.gone.map(|tile| format!("; from {} on nothing is gained", Unit::Byte.format(tile)));
        let says = format!("to which it keeps nine tenths of that{}", gone.unwrap_or_default());
        let known = Estimate { value: tile, interval };
        found.push(Finding { says, ..finding(format!("{form}, full speed to"), Unit::Byte, row, known) });
    }
    found.extend(advise(tiles, &control));
    found
}

/// The advice: the largest useful tile, the best form, and the gain.
fn advise(tiles: &Series, control: &Rows<'_>) -> Option<Finding> {
    let forms = Form::TILED.into_iter().filter_map(|form| Some((form, reach(&rows_of_form(tiles, form), control)?)));
    let (form, reach) = forms.max_by(|a, b| a.1.best.2.value.total_cmp(&b.1.best.2.value))?;
    let gain = ratio(reach.best.2, reach.control.2);
    let rate = |known: Estimate| Unit::BytePerSecond.format(known.value);
    let mut rows = vec![reach.best.1, reach.control.1, reach.keeps.1];
    let at_best = |other: Form| rows_of_form(tiles, other).into_iter().find(|row| row.0 == reach.best.0);
    let others: Vec<String> = [Form::Stream, Form::Graph]
        .into_iter()
        .filter(|other| *other != form)
        .filter_map(|other| {
            let row = at_best(other)?;
            rows.push(row.1);
            let by = describe_ratio(ratio(row.2, reach.best.2), ["faster", "as fast", "slower"]);
            Some(format!("in a {other} it is {by}"))
        })
        .collect();
    let says = if gain.interval.lo >= GAIN {
        let gone =
            reach.gone.map_or(String::new(), |tile| format!(", and from {} on is gone", Unit::Byte.format(tile)));
        format!(
            "Stage through the L2 in tiles of {} or less: {} against {} without tiles ({form}, tiles of {}); full \
             speed ends there{gone}. At the best tile, {}.",
            Unit::Byte.format(reach.keeps.0),
            rate(reach.best.2),
            rate(reach.control.2),
            Unit::Byte.format(reach.best.0),
            others.join(", ")
        )
    } else {
        format!(
            "Don't cut into tiles for the L2: at the best {} against {} without ({form}, tiles of {}).",
            rate(reach.best.2),
            rate(reach.control.2),
            Unit::Byte.format(reach.best.0)
        )
    };
    Some(advice(says, Unit::One, gain, rows))
}

#[cfg(test)]
mod tests {
    use plimsoll_core::Traffic;
    use plimsoll_core::sample::Work;
    use plimsoll_core::series::Point;
    use plimsoll_suite::findings::synthetic::{self, assert_says};

    use super::*;
    use plimsoll_suite::findings::advice::is_advice;

    const MIB: f64 = 1_048_576.0;

    fn find_all(rate: impl Fn(Form, f64) -> f64) -> Vec<Finding> {
        let sizes: Vec<f64> = (0..=14).map(|step| 2.0_f64.powf(f64::from(step) / 2.0)).collect();
        let all = Form::ALL.into_iter().flat_map(|form| sizes.iter().map(move |mib| (form, *mib)));
        let points = all.map(|(form, mib)| {
            synthetic::point(
                Tile { form, tile: Bytes((mib * MIB) as u64) }.to_values(),
                (1_u64 << 30) as f64 / rate(form, mib),
                Work { traffic: Traffic::new(1 << 30, 0), ..Work::default() },
                &[],
            )
        });
        findings(&DeviceInfo::default(), &[Series::new(tiles(), points.collect::<Vec<Point>>())])
    }

    #[test]
    fn advice_names_the_largest_tile_at_full_speed_and_the_end_of_the_gain() {
        let found = find_all(|form, mib| match (form, mib) {
            (Form::Apart, _) => 4e12,
            (_, 30.0..70.0) => 5e12,
            (_, 70.0..) => 4e12,
            (Form::Graph, _) => 8e12,
            (Form::Cooperative, _) => 7e12,
            _ => 6e12,
        });
        let advice = found.iter().find(|finding| is_advice(finding)).unwrap();
        assert!((advice.value - 2.0).abs() < 1e-6 && advice.is_sound(), "{advice:?}");
        assert_says(
            advice,
            &[
                "tiles of 22.6 MiB or less",
                "8.00 TB/s against 4.00 TB/s",
                "from 90.5 MiB on is gone",
                "in a stream it is 25 % slower",
            ],
        );
        assert_eq!(found.len(), 7);
    }

    #[test]
    fn advice_is_against_tiles_if_they_gain_nothing() {
        let found = find_all(|_, _| 4e12);
        let advice = found.iter().find(|finding| is_advice(finding)).unwrap();
        assert!(advice.says.starts_with("Don't cut into tiles"), "{}", advice.says);
        assert!(findings(&DeviceInfo::default(), &[]).is_empty());
    }
}
