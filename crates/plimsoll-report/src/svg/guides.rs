//! The guides of a line picture: rules with their names along them, names above flat parts, and fitted curves. A name goes
//! where it covers the least. It is left out where only occupied places remain; its figure is still in the list of findings.

use std::f64::consts::FRAC_PI_2;

use super::legend::Keys;
use super::markup::{Markup, escape, fit, number, width};
use super::names::{Name, Obstacles};
use super::{PATTERNS, RIGHT, WIDTH};
use crate::chart::{Form, Guide, Level, Scale, Trace};

/// A flat part's name is left out where it would cover more than this, in pixels of line.
const MOST_COVERED: f64 = 45.0;

/// The position of the plot in a picture, and its scales.
pub(super) struct Frame<'f> {
    pub x: &'f Scale,
    pub y: &'f Scale,
    pub left: f64,
    pub top: f64,
    pub bottom: f64,
    pub levels: &'f [Level],
}

impl Frame<'_> {
    /// The right edge.
    const END: f64 = WIDTH - RIGHT;

    /// The pixel position of a point.
    pub fn place(&self, (x, y): (f64, f64)) -> (f64, f64) {
        let across = self.left + self.x.position(x) * (Self::END - self.left);
        (across, self.bottom - self.y.position(y) * (self.bottom - self.top))
    }

    /// The part of y = `slope` · x that is within the plot and below the highest level.
    pub fn clip_slope(&self, slope: f64) -> Option<[(f64, f64); 2]> {
        let roof = self.levels.iter().map(|level| level.value).reduce(f64::max).unwrap_or(self.y.hi());
        let from = self.x.lo().max(self.y.lo() / slope);
        let to = self.x.hi().min(roof.min(self.y.hi()) / slope);
        (from < to).then_some([(from, slope * from), (to, slope * to)])
    }
}

/// Draws rules and curves, which lie behind the marks.
pub(super) fn draw_rules(out: &mut Markup, frame: &Frame<'_>, guides: &[Guide], keys: &Keys<'_>) {
    for guide in guides {
        match &guide.form {
            Form::Vertical(x) => {
                let across = frame.place((*x, frame.y.lo())).0;
                out.line("level", (across, frame.top), (across, frame.bottom));
            }
            Form::Slope(slope) => {
                if let Some([from, to]) = frame.clip_slope(*slope) {
                    out.line("level", frame.place(from), frame.place(to));
                }
            }
            Form::Fit { hue: index, dash, path } => {
                let path = format_points(path.iter().map(|&at| frame.place(at)));
                let title = escape(&format!("{}; {}", guide.label, guide.source));
                out.raw(&format!("{}<title>{title}</title>", keys.open_like(*index, *dash)));
                out.raw(&format!("<polyline class=\"line fit dash{}\" points=\"{path}\"/></g>", dash % PATTERNS));
            }
            Form::Plateau { .. } => {}
        }
    }
}

/// The value of a `points` attribute.
pub(super) fn format_points(places: impl Iterator<Item = (f64, f64)>) -> String {
    places.map(|(x, y)| format!("{},{}", number(x), number(y))).collect::<Vec<String>>().join(" ")
}

/// What names should not cover: marks, the lines of traces, rules and curves.
pub(super) fn find_obstacles(frame: &Frame<'_>, guides: &[Guide], traces: &[Trace]) -> Obstacles {
    let mut obstacles = Obstacles::default();
    let mut add_path = |path: Vec<(f64, f64)>| obstacles.lines.extend(path.windows(2).map(|pair| [pair[0], pair[1]]));
    let places = |path: &[(f64, f64)]| path.iter().map(|&at| frame.place(at)).collect::<Vec<_>>();
    traces.iter().for_each(|trace| add_path(places(&trace.places())));
    for level in frame.levels {
        let height = frame.place((frame.x.lo(), level.value)).1;
        add_path(vec![(frame.left, height), (Frame::END, height)]);
    }
    for guide in guides {
        match &guide.form {
            Form::Vertical(x) => {
                let across = frame.place((*x, frame.y.lo())).0;
                add_path(vec![(across, frame.top), (across, frame.bottom)]);
            }
            Form::Slope(slope) => add_path(frame.clip_slope(*slope).map_or_else(Vec::new, |ends| places(&ends))),
            Form::Fit { path, .. } => add_path(places(path)),
            Form::Plateau { .. } => {}
        }
    }
    obstacles.marks = traces.iter().flat_map(|trace| &trace.marks).map(|mark| frame.place((mark.x, mark.y))).collect();
    obstacles
}

/// Draws the names of levels, which are always shown, and of guides. Rules come first, because they mean nothing without a name.
pub(super) fn draw_names(out: &mut Markup, frame: &Frame<'_>, guides: &[Guide], obstacles: &mut Obstacles) {
    for level in frame.levels {
        let choices = level_positions(frame, level);
        let name = obstacles.take_best(choices.clone(), f64::INFINITY).or_else(|| choices.first().cloned());
        name.into_iter().for_each(|name| name.draw(out, &level.label, &level.source));
    }
    let (flat, rules): (Vec<&Guide>, Vec<&Guide>) =
        guides.iter().partition(|guide| matches!(guide.form, Form::Plateau { .. }));
    for guide in rules.into_iter().chain(flat) {
        let label = shorten_label(frame, guide);
        let most = if matches!(guide.form, Form::Plateau { .. }) { MOST_COVERED } else { f64::INFINITY };
        let Some(name) = obstacles.take_best(name_positions(frame, guide, &label), most) else { continue };
        let title =
            if label == guide.label { guide.source.clone() } else { format!("{}; {}", guide.label, guide.source) };
        name.draw(out, &label, &title);
    }
}

/// A guide's name; a vertical one is shortened to the height of the plot. The title has the full text.
fn shorten_label(frame: &Frame<'_>, guide: &Guide) -> String {
    match guide.form {
        Form::Vertical(_) => fit(&guide.label, (frame.bottom - frame.top - 10.0) * 13.0 / 12.0),
        _ => guide.label.clone(),
    }
}

/// Approximate width of a name, pixels.
fn name_width(label: &str) -> f64 {
    width(label) * 12.0 / 13.0
}

/// Possible positions of a name, the best first.
fn name_positions(frame: &Frame<'_>, guide: &Guide, label: &str) -> Vec<Name> {
    let long = name_width(label);
    match &guide.form {
        Form::Vertical(x) => vertical_positions(frame, *x, long),
        Form::Slope(slope) => slope_positions(frame, *slope, long),
        Form::Plateau { from, to, value } => plateau_positions(frame, [*from, *to], *value, long),
        Form::Fit { .. } => Vec::new(),
    }
}

/// Positions along a line to try, as shares of the free length.
const SHARES: [f64; 9] = [0.0, 1.0, 0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875];

/// Above the line or below it, at its ends or between.
fn level_positions(frame: &Frame<'_>, level: &Level) -> Vec<Name> {
    let height = frame.place((frame.x.lo(), level.value)).1;
    let long = name_width(&level.label);
    let (first, last) = (frame.left + 4.0, Frame::END - 4.0);
    let name_at = |share: f64, baseline: f64| match share {
        0.0 => Name::new((first, baseline), 0.0, "start", long),
        1.0 => Name::new((last, baseline), 0.0, "end", long),
        _ => Name::new((first + share * (last - first - long).max(0.0), baseline), 0.0, "start", long),
    };
    let above = SHARES.map(|share| name_at(share, height - 4.0));
    let below = SHARES.map(|share| name_at(share, height + 14.0));
    let below = below.into_iter().filter(|name| name.is_within([0.0, frame.top, WIDTH, frame.bottom]));
    above.into_iter().chain(below).collect()
}

/// The text reads upwards. It starts at the lower end and moves up where that is taken.
fn vertical_positions(frame: &Frame<'_>, x: f64, long: f64) -> Vec<Name> {
    let across = frame.place((x, frame.y.lo())).0;
    let room = (frame.bottom - frame.top - long - 10.0).max(0.0);
    let baselines = [across - 4.0, across + 13.0];
    let along = |share: f64| {
        baselines.map(|baseline| match share {
            // The width is only approximate, so at the top the name is anchored by its end.
            1.0 => Name::new((baseline, frame.top + 5.0), -FRAC_PI_2, "end", long),
            _ => Name::new((baseline, frame.bottom - 5.0 - share * room), -FRAC_PI_2, "start", long),
        })
    };
    let within = |name: &Name| name.is_within([frame.left, 0.0, Frame::END, f64::INFINITY]);
    SHARES.into_iter().flat_map(along).filter(within).collect()
}

/// Above the line or below it, from its lower end upwards.
fn slope_positions(frame: &Frame<'_>, slope: f64, long: f64) -> Vec<Name> {
    let Some([from, to]) = frame.clip_slope(slope) else { return Vec::new() };
    let ((x0, y0), (x1, y1)) = (frame.place(from), frame.place(to));
    let angle = (y1 - y0).atan2(x1 - x0);
    let (sin, cos) = angle.sin_cos();
    let room = ((x1 - x0).hypot(y1 - y0) - long - 16.0).max(0.0);
    let name_at = |share: f64, off: f64| {
        let along = 8.0 + share * room;
        Name::new((x0 + along * cos + off * sin, y0 + along * sin - off * cos), angle, "start", long)
    };
    let shares = || (0..=12).map(|step| f64::from(step) / 12.0);
    // The larger distances are for lines with marks on them.
    let all = [5.0, 9.0, -14.0, -19.0].into_iter().flat_map(|off| shares().map(move |share| (share, off)));
    let within = |name: &Name| name.is_within([frame.left + 2.0, frame.top - 14.0, Frame::END, frame.bottom]);
    all.map(|(share, off)| name_at(share, off)).filter(within).collect()
}

/// Above or below the flat part, in its middle or at its ends, or to its left or right.
fn plateau_positions(frame: &Frame<'_>, [from, to]: [f64; 2], value: f64, long: f64) -> Vec<Name> {
    let ((x0, y), (x1, _)) = (frame.place((from, value)), frame.place((to, value)));
    // Not `clamp`, which panics where a name is wider than the plot.
    let middle = ((x0 + x1) / 2.0).min(Frame::END - long / 2.0).max(frame.left + long / 2.0);
    let row = |baseline: f64| {
        [
            Name::new((middle, baseline), 0.0, "middle", long),
            Name::new((x0, baseline), 0.0, "start", long),
            Name::new((x1, baseline), 0.0, "end", long),
        ]
    };
    let left_and_right =
        [Name::new((x0 - 10.0, y + 4.0), 0.0, "end", long), Name::new((x1 + 10.0, y + 4.0), 0.0, "start", long)];
    // No larger distances: another line could pass between a name and its own.
    let rows = [y - 9.0, y + 19.0, y - 16.0].map(row).into_iter().flatten();
    let within = |name: &Name| name.is_within([frame.left, frame.top - 14.0, Frame::END, frame.bottom]);
    rows.chain(left_and_right).filter(within).collect()
}
