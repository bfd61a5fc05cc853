//! Names within a picture of lines. Of the places where a name may stand it gets the one with the least in its way: marks weigh
//! most, then lines by how much of them it would cover; where another name stands there is no place.

use super::markup::{Markup, escape};

/// How far a mark reaches about its place, pixels.
const MARK: f64 = 5.0;
/// What a mark in the way weighs, in pixels of covered line.
const WEIGHT: f64 = 20.0;
/// What each place after the first weighs more: the places are in order of preference.
const LATER: f64 = 1.0;
/// Letters above and below the baseline, pixels.
const ASCENT: f64 = 11.0;
const DESCENT: f64 = 3.0;

type Place = (f64, f64);

/// A name at a place where it may stand.
#[derive(Clone)]
pub(super) struct Name {
    at: Place,
    /// Radians, clockwise.
    angle: f64,
    anchor: &'static str,
    /// How much of it is before `at`, and how much behind.
    reach: [f64; 2],
}

impl Name {
    /// `anchor` is `start`, `middle` or `end`; `long` is about how wide the name is.
    pub fn new(at: Place, angle: f64, anchor: &'static str, long: f64) -> Self {
        let reach = match anchor {
            "middle" => [long / 2.0; 2],
            "end" => [long, 0.0],
            _ => [0.0, long],
        };
        Self { at, angle, anchor, reach }
    }

    /// A place as the name sees it: along it and across it, from `at`.
    fn seen(&self, (x, y): Place) -> Place {
        let (sin, cos) = self.angle.sin_cos();
        let (x, y) = (x - self.at.0, y - self.at.1);
        (x * cos + y * sin, y * cos - x * sin)
    }

    /// The way back.
    fn place(&self, (along, across): Place) -> Place {
        let (sin, cos) = self.angle.sin_cos();
        (self.at.0 + along * cos - across * sin, self.at.1 + along * sin + across * cos)
    }

    fn holds(&self, place: Place, margin: f64) -> bool {
        let (along, across) = self.seen(place);
        (-self.reach[0] - margin..=self.reach[1] + margin).contains(&along)
            && (-ASCENT - margin..=DESCENT + margin).contains(&across)
    }

    /// Places all over it, a few pixels apart.
    fn samples(&self) -> impl Iterator<Item = Place> {
        let [before, behind] = self.reach;
        let steps = ((before + behind) / 6.0).ceil().max(1.0) as usize;
        let along = (0..=steps).map(move |step| (before + behind) * step as f64 / steps as f64 - before);
        along.flat_map(|along| [-ASCENT, (DESCENT - ASCENT) / 2.0, DESCENT].map(|across| self.place((along, across))))
    }

    fn meets(&self, other: &Self) -> bool {
        self.samples().any(|place| other.holds(place, 0.0)) || other.samples().any(|place| self.holds(place, 0.0))
    }

    /// True where all of it is within left, top, right and bottom.
    pub fn within(&self, [left, top, right, bottom]: [f64; 4]) -> bool {
        self.samples().all(|(x, y)| (left..=right).contains(&x) && (top..=bottom).contains(&y))
    }

    /// How much of a straight line it covers (Liang and Barsky, 1984).
    fn covers(&self, [from, to]: [Place; 2]) -> f64 {
        let ((x0, y0), (x1, y1)) = (self.seen(from), self.seen(to));
        let (dx, dy) = (x1 - x0, y1 - y0);
        let (mut enters, mut leaves) = (0.0f64, 1.0f64);
        let edges = [(-dx, x0 + self.reach[0]), (dx, self.reach[1] - x0), (-dy, y0 + ASCENT), (dy, DESCENT - y0)];
        for (towards, room) in edges {
            if towards == 0.0 && room < 0.0 {
                return 0.0;
            } else if towards < 0.0 {
                enters = enters.max(room / towards);
            } else if towards > 0.0 {
                leaves = leaves.min(room / towards);
            }
        }
        (leaves - enters).max(0.0) * dx.hypot(dy)
    }

    /// `says` is shown to who points at it.
    pub fn draw(&self, out: &mut Markup, label: &str, says: &str) {
        let (x, y) = self.at;
        let turn = if self.angle == 0.0 {
            String::new()
        } else {
            format!(" transform=\"rotate({:.1} {x:.1} {y:.1})\"", self.angle.to_degrees())
        };
        out.raw(&format!(
            "<text class=\"tick halo\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{}\"{turn}><title>{}</title>{}</text>",
            self.anchor,
            escape(says),
            escape(label)
        ));
    }
}

/// What names may be in the way of.
#[derive(Default)]
pub(super) struct InWay {
    pub marks: Vec<Place>,
    pub lines: Vec<[Place; 2]>,
    names: Vec<Name>,
}

impl InWay {
    /// The best of these places, the preferred ones first; it is taken from then on. `None` where other names stand at all, or
    /// more is in the way than `most`.
    pub fn best(&mut self, choices: impl IntoIterator<Item = Name>, most: f64) -> Option<Name> {
        let weighed = choices.into_iter().map(|name| (self.weight(&name), name));
        let possible = weighed.enumerate().filter(|(_, (weight, _))| *weight <= most);
        let free = possible.filter(|(_, (_, name))| !self.names.iter().any(|other| name.meets(other)));
        let preferred = free.map(|(nth, (weight, name))| (weight + LATER * nth as f64, name));
        let (_, name) = preferred.min_by(|(one, _), (other, _)| one.total_cmp(other))?;
        self.names.push(name.clone());
        Some(name)
    }

    /// Another text stands here.
    pub fn take(&mut self, text: Name) {
        self.names.push(text);
    }

    fn weight(&self, name: &Name) -> f64 {
        let marks = self.marks.iter().filter(|mark| name.holds(**mark, MARK)).count();
        let lines: f64 = self.lines.iter().map(|line| name.covers(*line)).sum();
        WEIGHT * marks as f64 + lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(x: f64) -> Name {
        Name::new((x, 100.0), 0.0, "start", 50.0)
    }

    #[test]
    fn a_line_is_covered_as_far_as_it_lies_beneath() {
        assert!((name(0.0).covers([(-10.0, 95.0), (200.0, 95.0)]) - 50.0).abs() < 1e-9);
        assert!((name(0.0).covers([(20.0, 0.0), (20.0, 200.0)]) - 14.0).abs() < 1e-9);
        assert_eq!(name(0.0).covers([(-10.0, 80.0), (200.0, 80.0)]), 0.0);
        let upright = Name::new((10.0, 100.0), -std::f64::consts::FRAC_PI_2, "start", 50.0);
        assert!((upright.covers([(5.0, 0.0), (5.0, 200.0)]) - 50.0).abs() < 1e-9);
        assert_eq!(upright.covers([(20.0, 0.0), (20.0, 200.0)]), 0.0);
    }

    #[test]
    fn a_name_goes_where_the_least_is_in_its_way_and_never_onto_another() {
        let mut way =
            InWay { lines: vec![[(20.0, 0.0), (20.0, 200.0)]], marks: vec![(210.0, 95.0)], ..InWay::default() };
        let mut at = |places: &[f64]| way.best(places.iter().map(|&x| name(x)), 100.0).map(|name| name.at.0);
        assert_eq!(at(&[0.0, 200.0, 100.0]), Some(100.0));
        assert_eq!(at(&[130.0, 200.0, 0.0]), Some(0.0));
        assert_eq!(at(&[20.0, 130.0]), None);
        assert!(way.best([name(190.0)], 10.0).is_none() && way.best([name(190.0)], 100.0).is_some());
    }
}
