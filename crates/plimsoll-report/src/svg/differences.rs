//! The differences of two runs as a picture: one row per headline figure, worst first, with the ratio and its interval around the
//! line of no difference.

use plimsoll_core::headline::Role;
use plimsoll_suite::gate::{Gate, Row, Verdict};

use super::markup::{Markup, escape, fit, hue, width};
use super::{RIGHT, TOP, WIDTH, in_file};
use crate::chart::Mark;

const BAR: f64 = 14.0;
const STEP: f64 = 24.0;
/// Largest width of the names, pixels.
const NAMES: f64 = 190.0;
/// Width of the text behind a bar: `−12.3 %  worse`.
const FIGURE: f64 = 120.0;
/// The scale shows at least this change, per cent.
const LEAST: f64 = 2.0;
/// The scale shows at most this change, per cent; longer bars are cut off.
const MOST: f64 = 100.0;
/// The heading's height above the bars.
const HEAD: f64 = TOP - 34.0;

/// The picture as a self-contained file.
#[must_use]
pub fn render_differences(gate: &Gate) -> String {
    in_file(|attributes, style| draw(gate, Markup::new(false), attributes, style))
}

/// The picture for a page that already contains the style sheets.
pub(crate) fn render_differences_inline(gate: &Gate) -> String {
    draw(gate, Markup::new(false), "", "")
}

fn draw(gate: &Gate, mut out: Markup, attributes: &str, extra: &str) -> String {
    let height = draw_rows(&mut out, &gate.rows);
    let title = escape(&fit(&format!("Change of each figure: {}", gate.sentence()), WIDTH - 8.0));
    format!(
        "<svg class=\"chart\"{attributes} viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"group\" aria-label=\"{title}\">\
         <rect class=\"paper\" width=\"{WIDTH}\" height=\"{height:.0}\"/>{extra}\
         <text class=\"title\" x=\"4\" y=\"18\">{title}</text>\
         <text class=\"soft\" x=\"4\" y=\"36\">New against base, in per cent: right is better. Lines are 95 % intervals.</text>\
         {}</svg>\n",
        out.into_string()
    )
}

/// Returns the picture's height.
fn draw_rows(out: &mut Markup, rows: &[Row]) -> f64 {
    let left = rows.iter().map(|row| width(row.headline.name)).fold(20.0, f64::max).min(NAMES) + 12.0;
    let reach = rows.iter().flat_map(|row| [gain(row), bounds(row)[0], bounds(row)[1]]).map(f64::abs);
    let reach = reach.filter(|gain| gain.is_finite()).fold(LEAST, f64::max).min(MOST);
    let right = WIDTH - RIGHT - FIGURE;
    let place = |gain: f64| left + (gain.clamp(-reach, reach) / reach + 1.0) / 2.0 * (right - left);
    let bottom = HEAD + rows.len() as f64 * STEP;
    for tick in ticks(reach) {
        out.line("grid", (place(tick), HEAD - 4.0), (place(tick), bottom));
        out.text("tick", (place(tick), bottom + 16.0), "middle", &signed(tick, 0));
    }
    for (row, top) in rows.iter().zip((0..).map(|step| HEAD + f64::from(step) * STEP)) {
        let middle = top + BAR / 2.0;
        out.text(
            if row.headline.role == Role::Gate { "" } else { "soft" },
            (left - 8.0, middle + 4.0),
            "end",
            &fit(row.headline.name, NAMES),
        );
        let (from, to) = (place(gain(row).min(0.0)), place(gain(row).max(0.0)));
        let figure = format!("{} → {}", row.unit.format(row.base.value), row.unit.format(row.new.value));
        let mark = Mark {
            x: 0.0,
            y: gain(row),
            interval: row.interval,
            place: row.headline.name.to_owned(),
            figure: format!("{figure}, {} %, {}", signed(gain(row), 1), row.verdict.name()),
            doubtful: row.headline.role == Role::Information,
            row: None,
        };
        out.point(&class(row), None, &mark, |out| {
            out.rect("bar", (from, top), ((to - from).max(1.0), BAR), "");
            let [lo, hi] = bounds(row).map(place);
            out.line("iv over", (lo, middle), (hi, middle));
            out.hit_rect((left, top), (right - left, STEP));
        });
        let verdict = if row.verdict == Verdict::Same { "" } else { row.verdict.name() };
        out.text("fig", (right + 8.0, middle + 4.0), "start", &format!("{} %  {verdict}", signed(gain(row), 1)));
    }
    out.line("axis", (place(0.0), HEAD - 4.0), (place(0.0), bottom));
    bottom + 30.0
}

/// Red-brown for worse, green for better, blue for the rest; the verdict is also written next to the bar.
fn class(row: &Row) -> String {
    hue(match row.verdict {
        Verdict::Worse | Verdict::Unclear => 1,
        Verdict::Better => 2,
        Verdict::Same => 0,
    })
}

/// How much better the new figure is, per cent.
fn gain(row: &Row) -> f64 {
    100.0 * row.gain()
}

/// The interval of the gain, per cent, from worse to better.
fn bounds(row: &Row) -> [f64; 2] {
    let ends = [row.interval.lo, row.interval.hi].map(|ratio| 100.0 * (row.headline.better.ratio(ratio, 1.0) - 1.0));
    [ends[0].min(ends[1]), ends[0].max(ends[1])]
}

/// Round numbers on both sides of zero.
fn ticks(reach: f64) -> Vec<f64> {
    let steps = [1.0, 2.0, 5.0, 10.0, 20.0, 50.0];
    let step = steps.into_iter().find(|step| reach / step <= 3.5).unwrap_or(50.0);
    let most = (reach / step).floor() as i32;
    (-most..=most).map(|tick| f64::from(tick) * step).collect()
}

/// `+1.2`, `−3.0`, `0`.
fn signed(number: f64, digits: usize) -> String {
    let text = format!("{:.digits$}", number.abs());
    let is_zero = text.chars().all(|c| matches!(c, '0' | '.'));
    match (is_zero, number > 0.0) {
        (true, _) => text,
        (false, true) => format!("+{text}"),
        (false, false) => format!("−{text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic;
    use plimsoll_suite::gate::{Options, gate};

    fn compare(slower: f64) -> Gate {
        let mut runs = [1.0, slower].map(|slower| synthetic::run("Box", "2026-01-02T03:04:05Z", slower));
        runs.iter_mut().for_each(|run| run.series.clear());
        gate(&runs[0], &runs[1], plimsoll_probes::ALL, &Options::default())
    }

    #[test]
    fn each_headline_has_a_bar_its_interval_and_its_change_in_words() {
        let picture = render_differences(&compare(1.1));
        assert!(picture.starts_with("<svg") && picture.contains("xmlns"), "{picture}");
        assert_eq!(picture.matches("class=\"bar\"").count(), compare(1.1).rows.len());
        assert!(picture.contains("−9.1 %  worse") && picture.contains("memory read"), "{picture}");
        assert!(render_differences(&compare(1.0)).contains(">0.0 %  <"), "{}", render_differences(&compare(1.0)));
    }

    #[test]
    fn a_comparison_without_figures_is_a_picture_without_bars() {
        let none = Gate { rows: vec![], incomparable: vec![], notes: vec![], least: 0.01 };
        assert!(render_differences(&none).contains("inconclusive"));
    }

    #[test]
    fn numbers_have_a_sign_unless_they_are_zero() {
        assert_eq!([signed(1.25, 1), signed(-3.0, 0), signed(-0.01, 1)], ["+1.2", "−3", "0.0"]);
        assert_eq!(ticks(7.0), [-6.0, -4.0, -2.0, 0.0, 2.0, 4.0, 6.0]);
    }
}
