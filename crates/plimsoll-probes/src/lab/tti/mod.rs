//! tti: how well a kernel with one block per SM hides its copies into shared memory: loads through registers, asynchronous copies
//! and bulk copies of the next plane of a wave in a tilted medium.

probe! {
    /// How well copies into shared memory are hidden at one block per SM.
    "tti" in "lab", seconds: [3.0, 12.0, 40.0], files: gpu kernels, takes bytes
}

#[cfg(feature = "gpu")]
mod model;
#[cfg(feature = "gpu")]
mod oracle;
#[cfg(feature = "gpu")]
mod verify;

use plimsoll_suite::findings::advice;

use crate::prelude::meaning::*;

names! {
    /// How planes get into shared memory, in display order.
    pub enum Way {
        /// Loads and stores by the threads when a plane is needed: the control.
        Direct = "direct loads",
        /// `cp.async` of the next plane.
        Async = "cp.async",
        /// `cp.async.bulk` of the next plane.
        Bulk = "bulk copies",
        /// The same work on planes of zeros, without copies.
        NoCopies = "no copies",
    }
}

axes! {
    /// A time step by the way of copying planes.
    pub struct ByWay {
        /// The way of copying.
        way as "copies": Way,
    }
}

/// Cells per second by the way of copying planes.
#[must_use]
pub fn speed() -> TypedSeries<ByWay> {
    let metrics = vec![metrics::speed(), metrics::bandwidth()];
    let draw = Draw::bars("copies", "speed");
    TypedSeries::new("speed", Figure::Throughput, CachePolicy::Stream, metrics, draw)
}

/// The row of a way and its speed.
fn known(series: &Series, way: Way) -> Option<(&Row, Estimate)> {
    let (_, row) = known_rows(series).find(|(at, _): &(ByWay, &Row)| *at == ByWay { way })?;
    Some((row, series.estimate(row, "speed")?))
}

/// The speed of every way, its share of the speed without copies, and the advice.
fn findings(_: &DeviceInfo, series: &[Series]) -> Vec<Finding> {
    let Some(series) = series.iter().find(|series| series.spec.case == "speed") else { return Vec::new() };
    let mut found = Vec::new();
    for (way, (row, speed)) in Way::ALL.into_iter().filter_map(|way| Some((way, known(series, way)?))) {
        found.push(finding(way.name(), Unit::ElementPerSecond, row, speed));
        if let Some((other, without)) = known(series, Way::NoCopies).filter(|_| way != Way::NoCopies) {
            let share = advice::ratio(speed, without);
            let flags = row.flags.union(other.flags);
            let says = "Of the speed without any copies: what is missing to 1 isn't hidden.".to_owned();
            let name = format!("{way}, share hidden");
            found.push(Finding { says, ..derived(name, Unit::One, share, flags) });
        }
    }
    found.extend(advise(series));
    found
}

/// The advice, decided by the fastest way over direct loads.
fn advise(series: &Series) -> Option<Finding> {
    let (control_row, control) = known(series, Way::Direct)?;
    let ahead = [Way::Async, Way::Bulk].into_iter().filter_map(|way| Some((way, known(series, way)?)));
    let (way, (row, best)) = ahead.max_by(|a, b| a.1.1.value.total_cmp(&b.1.1.value))?;
    let gain = advice::ratio(best, control);
    let words = advice::describe_ratio(gain, ["faster", "as fast", "slower"]);
    let speed = Unit::ElementPerSecond.format(best.value);
    let advice = match words.as_str() {
        "as fast" => format!("Copies a plane ahead gain nothing here: {way} are as fast as {} ({speed})", Way::Direct),
        _ if gain.value < 1.0 => {
            format!("Load planes directly: {way}, the better of the copies ahead, is {words} ({speed})")
        }
        _ => format!("Bring the next plane by {way}: {words} than {} ({speed})", Way::Direct),
    };
    let left = known(series, Way::NoCopies).map(|(_, without)| {
        let percent = |estimate: Estimate| 100.0 * (1.0 - estimate.value / without.value).max(0.0);
        format!(
            "; {:.0} % of the time goes on copies with it and {:.0} % with {}",
            percent(best),
            percent(control),
            Way::Direct
        )
    });
    let says = format!("{advice}{}.", left.unwrap_or_default());
    Some(advice::advice(says, Unit::One, gain, [control_row, row]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::sample::Work;
    use plimsoll_core::series::Point;
    use plimsoll_suite::findings::synthetic;

    /// A step at `speed` Gcells/s.
    fn point(way: Way, speed: f64) -> Point {
        synthetic::point(
            ByWay { way }.to_values(),
            1e6 / (speed * 1e9),
            Work { operations: 1e6, ..Work::default() },
            &[],
        )
    }

    fn find_all(speeds: &[(Way, f64)]) -> Vec<Finding> {
        let points = speeds.iter().map(|(way, speed)| point(*way, *speed));
        findings(&DeviceInfo::default(), &[Series::new(speed(), points)])
    }

    fn find_advice(speeds: &[(Way, f64)]) -> Finding {
        find_all(speeds).into_iter().find(advice::is_advice).unwrap()
    }

    #[test]
    fn advice_names_the_better_way_and_the_remaining_cost_of_copies() {
        let advice = find_advice(&[(Way::Direct, 15.0), (Way::Async, 18.0), (Way::Bulk, 17.0), (Way::NoCopies, 20.0)]);
        assert!((advice.value - 1.2).abs() < 1e-5);
        let expected = "Bring the next plane by cp.async: 20 % faster than direct loads (18.0 Gelement/s); 10 % of the \
                        time goes on copies with it and 25 % with direct loads.";
        assert_eq!(advice.says, expected);
        let all = find_all(&[(Way::Direct, 15.0), (Way::NoCopies, 20.0)]);
        assert_eq!(all.len(), 3);
        assert!((all[1].value - 0.75).abs() < 1e-5 && all[1].name == "direct loads, share hidden");
    }

    #[test]
    fn advice_rejects_copies_ahead_without_gain() {
        assert!(
            find_advice(&[(Way::Direct, 15.0), (Way::Async, 15.0)])
                .says
                .starts_with("Copies a plane ahead gain nothing here")
        );
        assert!(find_advice(&[(Way::Direct, 15.0), (Way::Async, 12.0)]).says.starts_with("Load planes directly"));
        assert!(find_all(&[]).is_empty() && find_all(&[(Way::Direct, 15.0)]).len() == 1);
    }
}
