//! Lines over labelled axes: a mark per point, whiskers where an interval is wide enough to see, references in the background.

use super::guides::{Frame, draw_names, draw_rules, find_obstacles};
use super::legend::{Keys, class};
use super::markup::{Markup, number, width};
use super::names::Name;
use super::paths;
use super::{HUES, PATTERNS, RIGHT, TOP, WIDTH};
use crate::chart::{Lines, Scale, Trace};

const HEIGHT: f64 = 270.0;
const BOTTOM: f64 = TOP + HEIGHT;
/// Whiskers shorter than this are hidden by the mark, pixels.
const SEEN: f64 = 4.0;

/// Returns the picture's height.
pub(super) fn draw_lines(out: &mut Markup, plot: &Lines<'_>) -> f64 {
    let Lines { x, y, levels, guides, traces } = *plot;
    let ticks = y.ticks(6);
    let left = ticks.iter().map(|tick| width(&tick.label)).fold(20.0, f64::max) + 12.0;
    let right = WIDTH - RIGHT;
    let title = (4.0, TOP - 12.0);
    out.text("soft", title, "start", &y.title());
    for tick in &ticks {
        let height = BOTTOM - y.position(tick.value) * HEIGHT;
        out.line("grid", (left, height), (right, height));
        out.text("tick", (left - 6.0, height + 4.0), "end", &tick.label);
    }
    draw_x_axis(out, x, left);
    out.line("axis", (left, BOTTOM), (right, BOTTOM));
    out.text("soft", (right, BOTTOM + 37.0), "end", &x.title());
    let frame = Frame { x, y, left, top: TOP, bottom: BOTTOM, levels };
    let height = |value| BOTTOM - y.position(value) * HEIGHT;
    for level in levels {
        out.line("level", (left, height(level.value)), (right, height(level.value)));
    }
    let keys = Keys::new(traces);
    draw_rules(out, &frame, guides, &keys);
    paths::draw_paths(out, traces, &frame, &keys);
    // Names are drawn before the marks, so that none keeps a mark from being pointed at.
    let mut obstacles = find_obstacles(&frame, guides, traces);
    obstacles.add_name(Name::new(title, 0.0, "start", width(&y.title())));
    draw_names(out, &frame, guides, &mut obstacles);
    for (nth, trace) in traces.iter().enumerate() {
        if out.is_page() {
            out.raw(&keys.open(nth));
            draw_marks(out, trace, &frame, "");
            out.raw("</g>");
        } else {
            draw_marks(out, trace, &frame, &class(trace));
        }
    }
    keys.draw(out, BOTTOM + 58.0).max(BOTTOM + 46.0)
}

/// Draws the ticks of the x axis, and the labels that don't overlap.
fn draw_x_axis(out: &mut Markup, x: &Scale, left: f64) {
    let mut free = 0.0;
    for tick in x.ticks(8) {
        let place = left + x.position(tick.value) * (WIDTH - RIGHT - left);
        out.line("axis", (place, BOTTOM), (place, BOTTOM + 5.0));
        let half = width(&tick.label) / 2.0;
        let middle = place.clamp(half, WIDTH - half);
        if middle - half >= free {
            out.text("tick", (middle, BOTTOM + 19.0), "middle", &tick.label);
            free = middle + half + 6.0;
        }
    }
}

/// `class` is the class of each mark; in a page the group around them has it.
fn draw_marks(out: &mut Markup, trace: &Trace, frame: &Frame<'_>, class: &str) {
    for mark in &trace.marks {
        let (x, y) = frame.place((mark.x, mark.y));
        let height = |value: f64| frame.place((mark.x, value)).1;
        out.point(class, None, mark, |out| {
            let (lo, hi) = (height(mark.interval.lo), height(mark.interval.hi));
            if lo - hi > SEEN {
                let [x, lo, hi] = [x, lo, hi].map(number);
                out.raw(&format!("<path class=\"iv\" d=\"M{x} {lo}V{hi}m-3 0h6M{x} {lo}m-3 0h6\"/>"));
            }
            draw_dot(out, trace, (x, y));
            if !out.is_page() {
                out.raw(&format!("<circle class=\"hit\" cx=\"{}\" cy=\"{}\" r=\"9\"/>", number(x), number(y)));
            }
        });
    }
}

/// Draws the dot of a mark. Its shape depends on the dash (circle, square, diamond) and changes where hues repeat. The second
/// half of the hues, some of which resemble the first half, uses triangles and crosses.
pub(super) fn draw_dot(out: &mut Markup, trace: &Trace, (x, y): (f64, f64)) {
    let form = (trace.dash + trace.dash / PATTERNS + trace.hue / HUES) % 3;
    let second_half = !trace.reference && trace.hue % HUES >= HUES / 2;
    let path = |out: &mut Markup, top: f64, steps: &str| {
        out.raw(&format!("<path class=\"dot\" d=\"M{} {}{steps}z\"/>", number(x), number(y + top)));
    };
    match (second_half, form) {
        (false, 0) => {
            // A page has thousands of them; its style knows that a circle is a dot.
            let class = if out.is_page() { "" } else { " class=\"dot\"" };
            out.raw(&format!("<circle{class} cx=\"{}\" cy=\"{}\" r=\"3.5\"/>", number(x), number(y)));
        }
        (false, 1) => out.rect("dot", (x - 3.5, y - 3.5), (7.0, 7.0), ""),
        (false, _) => path(out, -5.0, "l5 5-5 5-5-5"),
        (true, 0) => path(out, -5.0, "l4.7 8h-9.4"),
        (true, 1) => path(out, 5.0, "l4.7-8h-9.4"),
        (true, _) => path(out, -4.5, "m-1.5 0h3v3h3v3h-3v3h-3v-3h-3v-3h3"),
    }
}
