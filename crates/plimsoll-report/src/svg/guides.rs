//! Guides of a picture of lines: rules with their names along them, names above flat parts, fitted curves. A name goes where
//! the least is in its way, and is left out where others stand: its figure is in the list of findings.

use std::f64::consts::FRAC_PI_2;

use super::markup::{Markup, escape, fit, hue, number, width};
use super::names::{InWay, Name};
use super::{RIGHT, WIDTH};
use crate::chart::{Form, Guide, Level, Scale, Trace};

/// A flat part's name is left out where more than this is in its way, pixels of covered line.
const MOST: f64 = 45.0;

/// Where a picture's plot lies, and its scales.
pub(super) struct Frame<'f> {
    pub x: &'f Scale,
    pub y: &'f Scale,
    pub left: f64,
    pub top: f64,
    pub bottom: f64,
    pub levels: &'f [Level],
}

impl Frame<'_> {
    const END: f64 = WIDTH - RIGHT;

    pub fn place(&self, (x, y): (f64, f64)) -> (f64, f64) {
        let across = self.left + self.x.position(x) * (Self::END - self.left);
        (across, self.bottom - self.y.position(y) * (self.bottom - self.top))
    }

    /// The part of y = `slope` · x that is within the plot and below the highest level.
    pub fn slope(&self, slope: f64) -> Option<[(f64, f64); 2]> {
        let roof = self.levels.iter().map(|level| level.value).reduce(f64::max).unwrap_or(self.y.hi());
        let from = self.x.lo().max(self.y.lo() / slope);
        let to = self.x.hi().min(roof.min(self.y.hi()) / slope);
        (from < to).then_some([(from, slope * from), (to, slope * to)])
    }
}

/// Rules and curves, which lie behind the marks.
pub(super) fn rules(out: &mut Markup, frame: &Frame<'_>, guides: &[Guide]) {
    for guide in guides {
        match &guide.form {
            Form::Upright(x) => {
                let across = frame.place((*x, frame.y.lo())).0;
                out.line("level", (across, frame.top), (across, frame.bottom));
            }
            Form::Slope(slope) => {
                if let Some([from, to]) = frame.slope(*slope) {
                    out.line("level", frame.place(from), frame.place(to));
                }
            }
            Form::Fit { hue: of, dash, path } => {
                let (hue, path) = (hue(*of), points(path.iter().map(|&at| frame.place(at))));
                out.raw(&format!(
                    "<g class=\"{hue}\"><title>{}</title>",
                    escape(&format!("{}; {}", guide.label, guide.source))
                ));
                out.raw(&format!("<polyline class=\"line fit dash{}\" points=\"{path}\"/></g>", dash % 3));
            }
            Form::Plateau { .. } => {}
        }
    }
}

/// Places as an attribute.
pub(super) fn points(places: impl Iterator<Item = (f64, f64)>) -> String {
    places.map(|(x, y)| format!("{},{}", number(x), number(y))).collect::<Vec<String>>().join(" ")
}

/// What names should keep clear of: marks, the lines of traces, rules and curves.
pub(super) fn in_way(frame: &Frame<'_>, guides: &[Guide], traces: &[Trace]) -> InWay {
    let mut way = InWay::default();
    let mut along = |path: Vec<(f64, f64)>| way.lines.extend(path.windows(2).map(|pair| [pair[0], pair[1]]));
    let places = |path: &[(f64, f64)]| path.iter().map(|&at| frame.place(at)).collect::<Vec<_>>();
    traces.iter().for_each(|trace| along(places(&trace.places())));
    for level in frame.levels {
        let height = frame.place((frame.x.lo(), level.value)).1;
        along(vec![(frame.left, height), (Frame::END, height)]);
    }
    for guide in guides {
        match &guide.form {
            Form::Upright(x) => {
                let across = frame.place((*x, frame.y.lo())).0;
                along(vec![(across, frame.top), (across, frame.bottom)]);
            }
            Form::Slope(slope) => along(frame.slope(*slope).map_or_else(Vec::new, |ends| places(&ends))),
            Form::Fit { path, .. } => along(places(path)),
            Form::Plateau { .. } => {}
        }
    }
    way.marks = traces.iter().flat_map(|trace| &trace.marks).map(|mark| frame.place((mark.x, mark.y))).collect();
    way
}

/// Names of levels, which are always told, and of guides: rules first, which say nothing without a name.
pub(super) fn names(out: &mut Markup, frame: &Frame<'_>, guides: &[Guide], way: &mut InWay) {
    for level in frame.levels {
        let choices = along_level(frame, level);
        let name = way.best(choices.clone(), f64::INFINITY).or_else(|| choices.first().cloned());
        name.into_iter().for_each(|name| name.draw(out, &level.label, &level.source));
    }
    let (flat, rules): (Vec<&Guide>, Vec<&Guide>) =
        guides.iter().partition(|guide| matches!(guide.form, Form::Plateau { .. }));
    for guide in rules.into_iter().chain(flat) {
        let label = shown(frame, guide);
        let most = if matches!(guide.form, Form::Plateau { .. }) { MOST } else { f64::INFINITY };
        let Some(name) = way.best(choices(frame, guide, &label), most) else { continue };
        let says =
            if label == guide.label { guide.source.clone() } else { format!("{}; {}", guide.label, guide.source) };
        name.draw(out, &label, &says);
    }
}

/// A guide's name, of an upright one as much as the plot is high: the title says all of it.
fn shown(frame: &Frame<'_>, guide: &Guide) -> String {
    match guide.form {
        Form::Upright(_) => fit(&guide.label, (frame.bottom - frame.top - 10.0) * 13.0 / 12.0),
        _ => guide.label.clone(),
    }
}

/// About how wide a name is.
fn long(label: &str) -> f64 {
    width(label) * 12.0 / 13.0
}

/// Where a name may go, the best place first.
fn choices(frame: &Frame<'_>, guide: &Guide, label: &str) -> Vec<Name> {
    let long = long(label);
    match &guide.form {
        Form::Upright(x) => along_upright(frame, *x, long),
        Form::Slope(slope) => along_slope(frame, *slope, long),
        Form::Plateau { from, to, value } => about_plateau(frame, [*from, *to], *value, long),
        Form::Fit { .. } => Vec::new(),
    }
}

/// Shares of the room that is left beside a name.
const SHARES: [f64; 9] = [0.0, 1.0, 0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875];

/// Above the line or below it, at its ends or between.
fn along_level(frame: &Frame<'_>, level: &Level) -> Vec<Name> {
    let height = frame.place((frame.x.lo(), level.value)).1;
    let long = long(&level.label);
    let (first, last) = (frame.left + 4.0, Frame::END - 4.0);
    let at = |share: f64, baseline: f64| match share {
        0.0 => Name::new((first, baseline), 0.0, "start", long),
        1.0 => Name::new((last, baseline), 0.0, "end", long),
        _ => Name::new((first + share * (last - first - long).max(0.0), baseline), 0.0, "start", long),
    };
    let above = SHARES.map(|share| at(share, height - 4.0));
    let below = SHARES.map(|share| at(share, height + 14.0));
    let below = below.into_iter().filter(|name| name.within([0.0, frame.top, WIDTH, frame.bottom]));
    above.into_iter().chain(below).collect()
}

/// Names are read upwards; where the lower end is taken, they move up.
fn along_upright(frame: &Frame<'_>, x: f64, long: f64) -> Vec<Name> {
    let across = frame.place((x, frame.y.lo())).0;
    let room = (frame.bottom - frame.top - long - 10.0).max(0.0);
    let baselines = [across - 4.0, across + 13.0];
    let along = |share: f64| {
        baselines.map(|baseline| match share {
            // How wide a name is is only known about: at the top its end is there.
            1.0 => Name::new((baseline, frame.top + 5.0), -FRAC_PI_2, "end", long),
            _ => Name::new((baseline, frame.bottom - 5.0 - share * room), -FRAC_PI_2, "start", long),
        })
    };
    let within = |name: &Name| name.within([frame.left, 0.0, Frame::END, f64::INFINITY]);
    SHARES.into_iter().flat_map(along).filter(within).collect()
}

/// Above it or below it, from its lower end on.
fn along_slope(frame: &Frame<'_>, slope: f64, long: f64) -> Vec<Name> {
    let Some([from, to]) = frame.slope(slope) else { return Vec::new() };
    let ((x0, y0), (x1, y1)) = (frame.place(from), frame.place(to));
    let angle = (y1 - y0).atan2(x1 - x0);
    let (sin, cos) = angle.sin_cos();
    let room = ((x1 - x0).hypot(y1 - y0) - long - 16.0).max(0.0);
    let at = |share: f64, off: f64| {
        let along = 8.0 + share * room;
        Name::new((x0 + along * cos + off * sin, y0 + along * sin - off * cos), angle, "start", long)
    };
    let shares = || (0..=12).map(|step| f64::from(step) / 12.0);
    // Farther off where marks lie on it.
    let all = [5.0, 9.0, -14.0, -19.0].into_iter().flat_map(|off| shares().map(move |share| (share, off)));
    let within = |name: &Name| name.within([frame.left + 2.0, frame.top - 14.0, Frame::END, frame.bottom]);
    all.map(|(share, off)| at(share, off)).filter(within).collect()
}

/// Above or below the flat part, in its middle, at its ends, or beside it.
fn about_plateau(frame: &Frame<'_>, [from, to]: [f64; 2], value: f64, long: f64) -> Vec<Name> {
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
    let beside =
        [Name::new((x0 - 10.0, y + 4.0), 0.0, "end", long), Name::new((x1 + 10.0, y + 4.0), 0.0, "start", long)];
    // No farther off: between a name and its line there must be room for no other.
    let rows = [y - 9.0, y + 19.0, y - 16.0].map(row).into_iter().flatten();
    let within = |name: &Name| name.within([frame.left, frame.top - 14.0, Frame::END, frame.bottom]);
    rows.chain(beside).filter(within).collect()
}
