//! Guides of a picture of lines: rules with their names along them, names above flat parts, fitted curves. A name goes where
//! the fewest marks are in the way, and is left out where another name stands: its figure is in the list of findings.

use super::markup::{Markup, escape, fit, hue, number, width};
use super::{RIGHT, WIDTH};
use crate::chart::{Form, Guide, Level, Scale};

/// How far a mark reaches about its place, pixels.
const MARK: f64 = 5.0;

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

/// A name: from where, at which angle, and what it covers.
struct Name {
    at: (f64, f64),
    /// Degrees, clockwise.
    angle: f64,
    anchor: &'static str,
    covers: [f64; 4],
}

impl Name {
    fn meets(&self, other: &[f64; 4]) -> bool {
        let [x0, y0, x1, y1] = self.covers;
        x0 < other[2] && other[0] < x1 && y0 < other[3] && other[1] < y1
    }

    fn holds(&self, &(x, y): &(f64, f64)) -> bool {
        let [x0, y0, x1, y1] = self.covers;
        (x0 - MARK..x1 + MARK).contains(&x) && (y0 - MARK..y1 + MARK).contains(&y)
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

/// Names of guides. `taken` is what other texts cover: left, top, right, bottom.
pub(super) fn names(
    out: &mut Markup,
    frame: &Frame<'_>,
    guides: &[Guide],
    marks: &[(f64, f64)],
    taken: &mut Vec<[f64; 4]>,
) {
    for guide in guides {
        let label = shown(frame, guide);
        let choices = choices(frame, guide, &label);
        let free = choices.iter().filter(|name| !taken.iter().any(|other| name.meets(other)));
        let in_way = |name: &&Name| marks.iter().filter(|mark| name.holds(mark)).count();
        let Some(name) = free.min_by_key(in_way) else { continue };
        taken.push(name.covers);
        let (x, y) = name.at;
        let turn = if name.angle == 0.0 {
            String::new()
        } else {
            format!(" transform=\"rotate({:.1} {x:.1} {y:.1})\"", name.angle)
        };
        out.raw(&format!(
            "<text class=\"tick halo\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{}\"{turn}><title>{}</title>{}</text>",
            name.anchor,
            escape(&if label == guide.label {
                guide.source.clone()
            } else {
                format!("{}; {}", guide.label, guide.source)
            }),
            escape(&label)
        ));
    }
}

/// A guide's name, of an upright one as much as the plot is high: the title says all of it.
fn shown(frame: &Frame<'_>, guide: &Guide) -> String {
    match guide.form {
        Form::Upright(_) => fit(&guide.label, (frame.bottom - frame.top - 10.0) * 13.0 / 12.0),
        _ => guide.label.clone(),
    }
}

/// Where a name may go, the best place first.
fn choices(frame: &Frame<'_>, guide: &Guide, label: &str) -> Vec<Name> {
    let long = width(label) * 12.0 / 13.0;
    match &guide.form {
        Form::Upright(x) => {
            let across = frame.place((*x, frame.y.lo())).0;
            // Names are read upwards; where the lower end is taken, they move up.
            let along = |baseline: f64, begin: f64| Name {
                at: (baseline, begin),
                angle: -90.0,
                anchor: "start",
                covers: [baseline - 11.0, begin - long, baseline + 3.0, begin],
            };
            let room = (frame.bottom - frame.top - long).max(0.0);
            let begins = [0.0, 1.0, 0.25, 0.5, 0.75].map(|share| frame.bottom - 5.0 - share * (room - 8.0).max(0.0));
            begins
                .iter()
                .flat_map(|&begin| [across - 4.0, across + 13.0].map(|baseline| along(baseline, begin)))
                .collect()
        }
        Form::Slope(slope) => {
            let Some([from, to]) = frame.slope(*slope) else { return Vec::new() };
            let ((x0, y0), (x1, y1)) = (frame.place(from), frame.place(to));
            let angle = (y1 - y0).atan2(x1 - x0);
            let name = |from: f64| {
                let (x, y) = (x0 + from * angle.cos() + 5.0 * angle.sin(), y0 + from * angle.sin() - 5.0 * angle.cos());
                let (end, rise) = (x + long * angle.cos(), y + long * angle.sin());
                // Of a slanted name only its middle: neighbours run beside it.
                let middle = ((x + end) / 2.0, (y + rise) / 2.0);
                let covers = [middle.0 - 6.0, middle.1 - 8.0, middle.0 + 6.0, middle.1 + 4.0];
                Name { at: (x, y), angle: angle.to_degrees(), anchor: "start", covers }
            };
            vec![name(8.0), name(60.0)]
        }
        Form::Plateau { from, to, value } => {
            let ((x0, y), (x1, _)) = (frame.place((*from, *value)), frame.place((*to, *value)));
            let centred = |middle: f64, baseline: f64| Name {
                at: (middle, baseline),
                angle: 0.0,
                anchor: "middle",
                covers: [middle - long / 2.0, baseline - 11.0, middle + long / 2.0, baseline + 3.0],
            };
            // Not `clamp`, which panics where a name is wider than the plot.
            let (least, most) = (frame.left + long / 2.0, Frame::END - long / 2.0);
            let middle = ((x0 + x1) / 2.0).min(most).max(least);
            let at = |baseline: f64| centred(middle, baseline);
            let beside = |x: f64, anchor: &'static str, from: f64| Name {
                at: (x, y + 4.0),
                angle: 0.0,
                anchor,
                covers: [from, y - 7.0, from + long, y + 7.0],
            };
            let (before, behind) = (x0 - 10.0, x1 + 10.0);
            let within = |name: &Name| {
                let [x0, y0, x1, y1] = name.covers;
                y0 >= frame.top - 14.0 && y1 <= frame.bottom && x0 >= frame.left && x1 <= Frame::END
            };
            let all = [
                at(y - 9.0),
                at(y + 19.0),
                beside(before, "end", before - long),
                beside(behind, "start", behind),
                at(y - 23.0),
                centred(x0 + long / 2.0, y - 9.0),
                centred(x0 + long / 2.0, y + 19.0),
            ];
            all.into_iter().filter(within).collect()
        }
        Form::Fit { .. } => Vec::new(),
    }
}
