//! residency: whether pinning data in the L2 pays: a histogram's bins, and a buffer that is updated while other data stream through
//! the cache, with part of the L2 set aside and without; and how to release pinned lines.

probe! {
    /// Does pinning data in the L2 pay?
    "residency" in LAB, seconds: [4.0, 20.0, 60.0], files: cuda kernels, takes bytes
}

#[cfg(feature = "cuda")]
mod letting_go;

use crate::prelude::meaning::*;

names! {
    /// How data are pinned; the first way is the control.
    pub enum Way {
        /// No cache set aside, and no window.
        Unpinned = "not pinned",
        /// A window over all data, as an attribute of the stream.
        Stream = "pinned, by stream",
        /// The same as an attribute of the graph's nodes.
        Node = "pinned, by graph node",
        /// A window with a hit ratio that fills two thirds of the set-aside.
        Tuned = "pinned, ratio tuned",
    }

    /// How pinned lines are released; the first is the control.
    pub enum Ending {
        /// Nothing was pinned before.
        Never = "never pinned",
        /// Data were pinned and not released.
        Left = "left pinned",
        /// The limit was set to 0 and the reset call released the lines.
        Limit = "limit 0 and reset call",
        /// The same data were accessed through a window with normal hits.
        Normal = "window of normal hits",
    }
}

axes! {
    /// A histogram.
    pub struct OnBins {
        /// How its bins are pinned.
        way: Way,
        /// Bytes of the bins.
        bins: Bytes,
    }

    /// A buffer that is updated while other data stream through the cache.
    pub struct OnWindow {
        /// How it is pinned.
        way: Way,
        /// Its size.
        window: Bytes,
    }

    /// Reads after data were pinned.
    pub struct After {
        /// How the pinned lines were released.
        after: Ending,
    }
}

/// Bytes of the cache set aside; the workload reports them.
pub const SET_ASIDE: &str = "set aside";

fn aside_metric() -> Metric {
    metric(SET_ASIDE, Unit::Byte, Quantity::Extra)
}

/// Additions to the bins of a histogram. An operation is an addition.
#[must_use]
pub fn histogram() -> TypedSeries<OnBins> {
    let metrics = vec![
        metric("additions", Unit::OpPerSecond, Quantity::OperationsPerSecond),
        metrics::bandwidth(),
        aside_metric(),
    ];
    let draw = Draw::bars("bins", "additions").grouped_by("way");
    TypedSeries::hot("histogram", metrics, draw)
}

/// A buffer that is updated in pass after pass while other data stream through the cache.
#[must_use]
pub fn sliding() -> TypedSeries<OnWindow> {
    let draw = Draw::lines("window", "bandwidth").grouped_by("way");
    TypedSeries::hot("sliding window", vec![metrics::bandwidth(), aside_metric()], draw)
}

/// Reads of other data that fit in the cache, after data were pinned and released.
#[must_use]
pub fn reset() -> TypedSeries<After> {
    TypedSeries::hot("reset", vec![metrics::bandwidth(), aside_metric()], Draw::bars("after", "bandwidth"))
}

/// One case over its control with the same second coordinate.
struct Gain<'s> {
    way: Way,
    at: Bytes,
    ratio: Estimate,
    rows: [&'s Row; 2],
    aside: f64,
}

fn gains<'s, A: Axes>(series: &'s Series, place: impl Fn(&A) -> (Way, Bytes), what: &str) -> Vec<Gain<'s>> {
    let rows: Vec<((Way, Bytes), &'s Row)> = known_rows(series).map(|(at, row)| (place(&at), row)).collect();
    let gain = |&((way, at), row): &((Way, Bytes), &'s Row)| {
        let (_, control) = *rows.iter().find(|(place, _)| *place == (Way::Unpinned, at))?;
        let ratio = ratio(series.estimate(row, what)?, series.estimate(control, what)?);
        let aside = series.estimate(row, SET_ASIDE).map_or(0.0, |known| known.value);
        (way != Way::Unpinned).then_some(Gain { way, at, ratio, rows: [row, control], aside })
    };
    rows.iter().filter_map(gain).collect()
}

fn findings(_: &DeviceInfo, series: &[Series]) -> Vec<Finding> {
    let find_case = |case: &str| series.iter().find(|series| series.spec.case == case);
    let histogram = find_case("histogram")
        .map_or_else(Vec::new, |series| gains(series, |at: &OnBins| (at.way, at.bins), "additions"));
    let sliding = find_case("sliding window")
        .map_or_else(Vec::new, |series| gains(series, |at: &OnWindow| (at.way, at.window), "bandwidth"));
    let gain_finding = |what: &'static str| {
        move |gain: &Gain<'_>| {
            let name = format!("{what} of {}, {}", Unit::Byte.format(gain.at.0 as f64), gain.way);
            let says = format!("over not pinned, with {} set aside", Unit::Byte.format(gain.aside));
            let flags = gain.rows[0].flags.union(gain.rows[1].flags);
            Finding { says, flags, ..finding(name, Unit::One, gain.rows[0], gain.ratio) }
        }
    };
    let mut found: Vec<Finding> = histogram.iter().map(gain_finding("gain, bins")).collect();
    for way in [Way::Stream, Way::Tuned] {
        let gains_of_way = || sliding.iter().filter(move |gain| gain.way == way);
        let ends = [best(gains_of_way()), worst(gains_of_way())];
        found.extend(ends.into_iter().flatten().map(gain_finding("gain, buffer")));
    }
    let after = find_case("reset").map_or_else(Vec::new, after);
    let release_advice = release_advice(&after);
    found.extend(after);
    found.extend(advise(&histogram, &sliding, &release_advice));
    found
}

fn best<'g, 's>(gains: impl Iterator<Item = &'g Gain<'s>>) -> Option<&'g Gain<'s>>
where
    's: 'g,
{
    gains.max_by(|a, b| a.ratio.value.total_cmp(&b.ratio.value))
}

fn worst<'g, 's>(gains: impl Iterator<Item = &'g Gain<'s>>) -> Option<&'g Gain<'s>>
where
    's: 'g,
{
    gains.min_by(|a, b| a.ratio.value.total_cmp(&b.ratio.value))
}

/// The bandwidth of other data after each way to release lines, over the bandwidth if nothing was pinned.
fn after(reset: &Series) -> Vec<Finding> {
    let find_ending = |ending: Ending| {
        let (_, row) = known_rows(reset).find(|(at, _): &(After, &Row)| *at == After { after: ending })?;
        Some((row, reset.estimate(row, "bandwidth")?))
    };
    let Some(never) = find_ending(Ending::Never) else { return Vec::new() };
    let left = |ending: &Ending| {
        let (row, known) = find_ending(*ending)?;
        let flags = row.flags.union(never.0.flags);
        let kept = ratio(known, never.1);
        let says = if flags.contains(Flag::Drift) {
            "whether they are slower can't be told, since the samples drifted"
        } else if kept.interval.hi < WHOLE {
            "they are slower afterwards"
        } else if kept.interval.lo > WHOLE {
            "they have it whole"
        } else {
            "whether they are slower can't be told from these samples"
        };
        let says = format!("of the bandwidth where nothing was pinned: {says}");
        Some(Finding { flags, says, ..finding(format!("other data after: {ending}"), Unit::One, row, kept) })
    };
    Ending::ALL[1..].iter().filter_map(left).collect()
}

/// Other data that keep more than this share of their bandwidth count as unaffected.
const WHOLE: f64 = 0.95;

/// How to release pinned lines, from the findings of [`after`].
fn release_advice(after: &[Finding]) -> String {
    let find_ending = |ending: Ending| after.iter().find(|found| found.name.ends_with(ending.name()));
    let Some(left) = find_ending(Ending::Left) else { return "Reset afterwards.".to_owned() };
    let kept = Estimate { value: left.value, interval: left.interval };
    if left.flags.contains(Flag::Drift) {
        return "Whether lines left pinned cost other data anything can't be told: their bandwidth drifted.".to_owned();
    }
    if left.interval.hi >= WHOLE {
        return "Lines left pinned cost other data nothing that could be seen.".to_owned();
    }
    let frees = |ending: &Ending| find_ending(*ending).is_some_and(|found| found.interval.lo > WHOLE);
    let ways: Vec<&str> = [Ending::Limit, Ending::Normal].into_iter().filter(frees).map(Ending::name).collect();
    let slower = describe_ratio(kept, ["faster", "as fast", "slower"]);
    match ways[..] {
        [] => format!("Other data are {slower} afterwards, and no way to let go helped."),
        _ => format!("Let go afterwards, by {}: else other data are {slower}.", ways.join(" or ")),
    }
}

/// The advice whether to pin, from the best and the worst gain.
fn advise(histogram: &[Gain<'_>], sliding: &[Gain<'_>], release: &str) -> Option<Finding> {
    /// A smaller gain doesn't justify a setting that affects all other kernels.
    const WORTH: f64 = 1.03;
    let words = |gain: &Gain<'_>| describe_ratio(gain.ratio, ["faster", "as fast", "slower"]);
    let best = best(histogram.iter().chain(sliding))?;
    let place = |gain: &Gain<'_>| {
        let what = if histogram.iter().any(|other| std::ptr::eq(other, gain)) { "bins" } else { "a buffer" };
        format!("{what} of {}", Unit::Byte.format(gain.at.0 as f64))
    };
    let full = worst(sliding.iter().filter(|gain| gain.way == Way::Stream));
    let tuned = worst(sliding.iter().filter(|gain| gain.way == Way::Tuned));
    let mut rows = best.rows.to_vec();
    let mut risk = String::new();
    if let Some(full) = full {
        rows.extend(full.rows);
        risk = format!("; with hit ratio 1.0 {} is at the worst {}", place(full), words(full));
    }
    if let Some(tuned) = tuned {
        rows.extend(tuned.rows);
        risk += &format!(", with the ratio tuned to two thirds of the set-aside {}", words(tuned));
    }
    let aside = Unit::Byte.format(best.aside);
    let says = if best.ratio.interval.lo >= WORTH {
        format!(
            "Pin what is used again and again and fits into the {aside} that can be set aside: {} runs {} so{risk}. {release}",
            place(best),
            words(best)
        )
    } else {
        format!(
            "Don't pin: with {aside} set aside the most that is gained is {} for {}{risk}.",
            words(best),
            place(best)
        )
    };
    Some(advice(says, Unit::One, best.ratio, rows))
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

    fn point(at: impl Axes, rate: f64) -> Point {
        synthetic::point(
            at.to_values(),
            (1_u64 << 30) as f64 / rate,
            Work { traffic: Traffic::new(1 << 30, 0), operations: (1_u64 << 30) as f64, ..Work::default() },
            &[(SET_ASIDE, 30.0 * MIB)],
        )
    }

    fn find_all(rate: impl Fn(Way, f64) -> f64) -> Vec<Finding> {
        let places = |sizes: &'static [u64]| {
            Way::ALL.into_iter().flat_map(move |way| sizes.iter().map(move |mib| (way, *mib, Bytes(mib << 20))))
        };
        let bins = places(&[20, 25]).map(|(way, mib, bins)| point(OnBins { way, bins }, rate(way, mib as f64)));
        let windows =
            places(&[15, 30, 60, 90]).map(|(way, mib, window)| point(OnWindow { way, window }, rate(way, mib as f64)));
        let ends = Ending::ALL.map(|after| point(After { after }, if after == Ending::Left { 4e12 } else { 6e12 }));
        let series = [Series::new(histogram(), bins), Series::new(sliding(), windows), Series::new(reset(), ends)];
        findings(&DeviceInfo::default(), &series)
    }

    #[test]
    fn advice_names_the_gain_of_pinning_and_the_cost_past_the_set_aside() {
        let found = find_all(|way, size| match (way, size) {
            (Way::Unpinned, _) => 2e12,
            (_, ..30.5) => 3e12,
            (Way::Tuned, _) => 2e12,
            _ => 1.8e12,
        });
        let advice = found.iter().find(|finding| is_advice(finding)).unwrap();
        assert!((advice.value - 1.5).abs() < 1e-6 && advice.is_sound());
        assert_says(
            advice,
            &[
                "Pin what",
                "30 MiB that can be set aside",
                "50 % faster",
                "10 % slower",
                "two thirds of the set-aside as fast",
            ],
        );
        let left = found.iter().find(|finding| finding.name == "other data after: left pinned").unwrap();
        assert!((left.value - 4.0 / 6.0).abs() < 1e-6 && left.says.ends_with("slower afterwards"), "{}", left.says);
        let expected =
            "Let go afterwards, by limit 0 and reset call or window of normal hits: else other data are 33 % slower.";
        assert!(advice.says.ends_with(expected), "{}", advice.says);
    }

    #[test]
    fn advice_is_against_pinning_if_it_gains_nothing() {
        let found = find_all(|way, _| if way == Way::Unpinned { 2e12 } else { 1.9e12 });
        let advice = found.iter().find(|finding| is_advice(finding)).unwrap();
        assert!(advice.says.starts_with("Don't pin") && advice.says.contains("5.0 % slower"), "{}", advice.says);
        assert!(findings(&DeviceInfo::default(), &[]).is_empty());
    }
}
