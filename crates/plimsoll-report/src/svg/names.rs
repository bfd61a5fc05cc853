//! Names in a line picture. Of its possible positions a name gets the one where it covers the least: a mark counts more than a
//! line, and a line counts by its covered length. Names never overlap.

use super::markup::{Markup, escape};

/// Radius of a mark, pixels.
const MARK: f64 = 5.0;
/// Cost of a covered mark, in pixels of covered line.
const MARK_COST: f64 = 20.0;
/// Additional cost of each position after the first: positions are in order of preference.
const LATER: f64 = 1.0;
/// Letters above and below the baseline, pixels.
const ASCENT: f64 = 11.0;
const DESCENT: f64 = 3.0;

type Place = (f64, f64);

/// A name at a possible position.
#[derive(Clone)]
pub(super) struct Name {
    position: Place,
    /// Radians, clockwise.
    angle: f64,
    anchor: &'static str,
    /// How far it extends before and after `position`, pixels.
    reach: [f64; 2],
}

impl Name {
    /// `anchor` is `start`, `middle` or `end`; `long` is the approximate width of the name.
    pub fn new(position: Place, angle: f64, anchor: &'static str, long: f64) -> Self {
        let reach = match anchor {
            "middle" => [long / 2.0; 2],
            "end" => [long, 0.0],
            _ => [0.0, long],
        };
        Self { position, angle, anchor, reach }
    }

    /// Coordinates of a point along and across the name, relative to `position`.
    fn to_local(&self, (x, y): Place) -> Place {
        let (sin, cos) = self.angle.sin_cos();
        let (x, y) = (x - self.position.0, y - self.position.1);
        (x * cos + y * sin, y * cos - x * sin)
    }

    /// The inverse of [`to_local`](Self::to_local).
    fn to_place(&self, (along, across): Place) -> Place {
        let (sin, cos) = self.angle.sin_cos();
        (self.position.0 + along * cos - across * sin, self.position.1 + along * sin + across * cos)
    }

    /// True where a point is within the name or at most `margin` away from it.
    fn contains(&self, place: Place, margin: f64) -> bool {
        let (along, across) = self.to_local(place);
        (-self.reach[0] - margin..=self.reach[1] + margin).contains(&along)
            && (-ASCENT - margin..=DESCENT + margin).contains(&across)
    }

    /// Points all over it, a few pixels apart.
    fn samples(&self) -> impl Iterator<Item = Place> {
        let [before, behind] = self.reach;
        let steps = ((before + behind) / 6.0).ceil().max(1.0) as usize;
        let along = (0..=steps).map(move |step| (before + behind) * step as f64 / steps as f64 - before);
        along
            .flat_map(|along| [-ASCENT, (DESCENT - ASCENT) / 2.0, DESCENT].map(|across| self.to_place((along, across))))
    }

    fn overlaps(&self, other: &Self) -> bool {
        self.samples().any(|place| other.contains(place, 0.0)) || other.samples().any(|place| self.contains(place, 0.0))
    }

    /// True where all of it is within left, top, right and bottom.
    pub fn is_within(&self, [left, top, right, bottom]: [f64; 4]) -> bool {
        self.samples().all(|(x, y)| (left..=right).contains(&x) && (top..=bottom).contains(&y))
    }

    /// Length of a straight line that it covers (Liang and Barsky, 1984), pixels.
    fn covered_length(&self, [from, to]: [Place; 2]) -> f64 {
        let ((x0, y0), (x1, y1)) = (self.to_local(from), self.to_local(to));
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

    /// `title` is the tooltip.
    pub fn draw(&self, out: &mut Markup, label: &str, title: &str) {
        let (x, y) = self.position;
        let rotation = if self.angle == 0.0 {
            String::new()
        } else {
            format!(" transform=\"rotate({:.1} {x:.1} {y:.1})\"", self.angle.to_degrees())
        };
        out.raw(&format!(
            "<text class=\"tick halo\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{}\"{rotation}><title>{}</title>{}</text>",
            self.anchor,
            escape(title),
            escape(label)
        ));
    }
}

/// What names should not cover, and the names that are already placed.
#[derive(Default)]
pub(super) struct Obstacles {
    pub marks: Vec<Place>,
    pub lines: Vec<[Place; 2]>,
    names: Vec<Name>,
}

impl Obstacles {
    /// Picks the position with the lowest cost from `choices`, which are in order of preference, and marks it as taken. `None`
    /// where every position overlaps another name or covers more than `most`.
    pub fn take_best(&mut self, choices: impl IntoIterator<Item = Name>, most: f64) -> Option<Name> {
        let rated = choices.into_iter().map(|name| (self.cost(&name), name));
        let possible = rated.enumerate().filter(|(_, (cost, _))| *cost <= most);
        let free = possible.filter(|(_, (_, name))| !self.names.iter().any(|other| name.overlaps(other)));
        let preferred = free.map(|(nth, (cost, name))| (cost + LATER * nth as f64, name));
        let (_, name) = preferred.min_by(|(one, _), (other, _)| one.total_cmp(other))?;
        self.names.push(name.clone());
        Some(name)
    }

    /// Adds another text.
    pub fn add_name(&mut self, text: Name) {
        self.names.push(text);
    }

    fn cost(&self, name: &Name) -> f64 {
        let marks = self.marks.iter().filter(|mark| name.contains(**mark, MARK)).count();
        let lines: f64 = self.lines.iter().map(|line| name.covered_length(*line)).sum();
        MARK_COST * marks as f64 + lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(x: f64) -> Name {
        Name::new((x, 100.0), 0.0, "start", 50.0)
    }

    #[test]
    fn covered_length_is_the_part_of_a_line_under_the_name() {
        assert!((name(0.0).covered_length([(-10.0, 95.0), (200.0, 95.0)]) - 50.0).abs() < 1e-9);
        assert!((name(0.0).covered_length([(20.0, 0.0), (20.0, 200.0)]) - 14.0).abs() < 1e-9);
        assert_eq!(name(0.0).covered_length([(-10.0, 80.0), (200.0, 80.0)]), 0.0);
        let vertical = Name::new((10.0, 100.0), -std::f64::consts::FRAC_PI_2, "start", 50.0);
        assert!((vertical.covered_length([(5.0, 0.0), (5.0, 200.0)]) - 50.0).abs() < 1e-9);
        assert_eq!(vertical.covered_length([(20.0, 0.0), (20.0, 200.0)]), 0.0);
    }

    #[test]
    fn name_goes_where_it_covers_the_least_and_never_onto_another() {
        let mut obstacles =
            Obstacles { lines: vec![[(20.0, 0.0), (20.0, 200.0)]], marks: vec![(210.0, 95.0)], ..Obstacles::default() };
        let mut best_x =
            |places: &[f64]| obstacles.take_best(places.iter().map(|&x| name(x)), 100.0).map(|name| name.position.0);
        assert_eq!(best_x(&[0.0, 200.0, 100.0]), Some(100.0));
        assert_eq!(best_x(&[130.0, 200.0, 0.0]), Some(0.0));
        assert_eq!(best_x(&[20.0, 130.0]), None);
        assert!(
            obstacles.take_best([name(190.0)], 10.0).is_none() && obstacles.take_best([name(190.0)], 100.0).is_some()
        );
    }
}
