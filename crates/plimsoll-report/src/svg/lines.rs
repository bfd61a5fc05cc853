//! Lines over labelled axes: a mark per point, whiskers where an interval is wide enough to see, references behind.

use super::markup::{Markup, hue, width};
use super::{HUES, RIGHT, TOP, WIDTH};
use crate::chart::{Mark, Scale, Trace};

const HEIGHT: f64 = 270.0;
const BOTTOM: f64 = TOP + HEIGHT;
/// Whiskers shorter than this vanish behind the mark, pixels.
const SEEN: f64 = 4.0;

/// Returns the picture's height.
pub(super) fn draw(out: &mut Markup, x: &Scale, y: &Scale, traces: &[Trace]) -> f64 {
    let ticks = y.ticks(6);
    let left = ticks.iter().map(|tick| width(&tick.label)).fold(20.0, f64::max) + 12.0;
    let right = WIDTH - RIGHT;
    out.text("soft", (4.0, TOP - 12.0), "start", &y.title());
    for tick in &ticks {
        let height = BOTTOM - y.position(tick.value) * HEIGHT;
        out.line("grid", (left, height), (right, height));
        out.text("tick", (left - 6.0, height + 4.0), "end", &tick.label);
    }
    let mut free = 0.0;
    for tick in x.ticks(8) {
        let place = left + x.position(tick.value) * (right - left);
        out.line("axis", (place, BOTTOM), (place, BOTTOM + 5.0));
        let half = width(&tick.label) / 2.0;
        let middle = place.clamp(half, WIDTH - half);
        if middle - half >= free {
            out.text("tick", (middle, BOTTOM + 19.0), "middle", &tick.label);
            free = middle + half + 6.0;
        }
    }
    out.line("axis", (left, BOTTOM), (right, BOTTOM));
    out.text("soft", (right, BOTTOM + 37.0), "end", &x.title());
    let at = |mark: &Mark| (left + x.position(mark.x) * (right - left), BOTTOM - y.position(mark.y) * HEIGHT);
    for (place, each) in traces.iter().enumerate() {
        trace(out, &class(traces, place), place, each, &at, &|value| BOTTOM - y.position(value) * HEIGHT);
    }
    let labels = traces.iter().enumerate().map(|(place, trace)| (place, trace.label.as_str()));
    let below = out.legend(BOTTOM + 58.0, labels, |out, place, (x, y)| {
        out.raw(&format!("<g class=\"{}\">", class(traces, place)));
        out.line(&format!("line run{}", traces[place].run % 3), (x, y), (x + 26.0, y));
        dot(out, place, (x + 13.0, y));
        out.raw("</g>");
    });
    below.max(BOTTOM + 46.0)
}

/// The hue among those that are no references, which all look alike.
fn class(traces: &[Trace], place: usize) -> String {
    if traces[place].reference {
        return "ref".to_owned();
    }
    hue(traces[..place].iter().filter(|trace| !trace.reference).count())
}

fn trace(
    out: &mut Markup,
    class: &str,
    place: usize,
    trace: &Trace,
    at: &dyn Fn(&Mark) -> (f64, f64),
    height: &dyn Fn(f64) -> f64,
) {
    let points: Vec<String> = trace.marks.iter().map(at).map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    out.raw(&format!(
        "<g class=\"{class}\"><polyline class=\"line run{}\" points=\"{}\"/></g>",
        trace.run % 3,
        points.join(" ")
    ));
    for mark in &trace.marks {
        let (x, y) = at(mark);
        out.point(class, mark, |out| {
            let (lo, hi) = (height(mark.interval.lo), height(mark.interval.hi));
            if lo - hi > SEEN {
                out.line("iv", (x, lo), (x, hi));
                out.line("iv", (x - 3.0, lo), (x + 3.0, lo));
                out.line("iv", (x - 3.0, hi), (x + 3.0, hi));
            }
            dot(out, place, (x, y));
            out.raw(&format!("<circle class=\"hit\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"9\"/>"));
        });
    }
}

/// Circles, and squares once the hues repeat.
fn dot(out: &mut Markup, place: usize, (x, y): (f64, f64)) {
    if (place / HUES).is_multiple_of(2) {
        out.raw(&format!("<circle class=\"dot\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\"/>"));
    } else {
        out.rect("dot", (x - 3.5, y - 3.5), (7.0, 7.0), "");
    }
}
