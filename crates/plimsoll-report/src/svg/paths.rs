//! Lines from mark to mark. Where several lines of one dash pattern coincide, their dashes alternate, so that none hides the
//! others.

use super::PATTERNS;
use super::guides::{Frame, format_points};
use super::legend::Keys;
use super::markup::{MOST_FOCUSABLE, Markup};
use crate::chart::Trace;

/// Points closer than this coincide, pixels.
const SAME: f64 = 1.5;

type Place = (f64, f64);
/// The segment from one mark to the next.
type Step = [Place; 2];

/// Draws all lines.
pub(super) fn draw_paths(out: &mut Markup, traces: &[Trace], frame: &Frame<'_>, keys: &Keys<'_>) {
    let pixel_path = |trace: &Trace| trace.places().into_iter().map(|at| frame.place(at)).collect::<Vec<Place>>();
    let steps = |trace: &Trace| pixel_path(trace).windows(2).map(|pair| [pair[0], pair[1]]).collect::<Vec<Step>>();
    let all: Vec<Vec<Step>> = traces.iter().map(steps).collect();
    // With very many marks alternating dashes would be invisible.
    let few = all.iter().map(Vec::len).sum::<usize>() <= MOST_FOCUSABLE;
    for (nth, trace) in traces.iter().enumerate().filter(|(nth, _)| !all[*nth].is_empty()) {
        let dash = trace.dash % PATTERNS;
        let lines_of = |step: &Step| if few { coinciding_lines(traces, &all, nth, step) } else { vec![nth] };
        let shared: Vec<Vec<usize>> = all[nth].iter().map(lines_of).collect();
        out.raw(&keys.open(nth));
        let mut from = 0;
        for run in shared.chunk_by(|one, next| one == next) {
            let steps = &all[nth][from..from + run.len()];
            let path = format_points(std::iter::once(steps[0][0]).chain(steps.iter().map(|step| step[1])));
            let alternation = alternating_dashes(dash, run[0].iter().position(|other| *other == nth), run[0].len());
            out.raw(&format!("<polyline class=\"line dash{dash}\"{alternation} points=\"{path}\"/>"));
            from += run.len();
        }
        out.raw("</g>");
    }
}

/// The lines of the same dash pattern with the same segment. References are in the background and never share.
fn coinciding_lines(traces: &[Trace], all: &[Vec<Step>], nth: usize, step: &Step) -> Vec<usize> {
    let near = |a: Place, b: Place| (a.0 - b.0).abs() < SAME && (a.1 - b.1).abs() < SAME;
    let same = |other: &Step| near(step[0], other[0]) && near(step[1], other[1]);
    let alike = |other: &Trace| {
        other.dash % PATTERNS == traces[nth].dash % PATTERNS && !other.reference && !traces[nth].reference
    };
    let shares = |&other: &usize| other == nth || (alike(&traces[other]) && all[other].iter().any(same));
    (0..traces.len()).filter(shares).collect()
}

/// The dashes of the `nth` of `count` coinciding lines: its own dash, then gaps for the dashes of the others.
fn alternating_dashes(dash: usize, nth: Option<usize>, count: usize) -> String {
    let Some(nth) = nth.filter(|_| count > 1) else { return String::new() };
    let (on, off) = [(8, 0), (7, 4), (2, 3), (14, 4), (4, 6), (1, 5)][dash];
    let (every, rest) = (on + off, count * (on + off) - on);
    format!(" style=\"stroke-dasharray:{on} {rest};stroke-dashoffset:{}\"", -((nth * every) as isize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dashes_of_coinciding_lines_alternate() {
        assert_eq!(alternating_dashes(0, Some(0), 1), "");
        assert_eq!(alternating_dashes(0, Some(1), 2), " style=\"stroke-dasharray:8 8;stroke-dashoffset:-8\"");
        assert_eq!(alternating_dashes(1, Some(2), 3), " style=\"stroke-dasharray:7 26;stroke-dashoffset:-22\"");
    }

    #[test]
    fn only_lines_of_one_dash_pattern_coincide() {
        let trace = |dash: usize| Trace {
            label: String::new(),
            series: String::new(),
            source: String::new(),
            reference: false,
            hue: 0,
            dash,
            marks: vec![],
            path: None,
        };
        let traces = [trace(0), trace(0), trace(1), trace(0)];
        let path = |height: f64| vec![[(0.0, 0.0), (10.0, height)], [(10.0, height), (20.0, 50.0)]];
        let all = [path(10.0), path(10.5), path(10.0), path(30.0)];
        assert_eq!(coinciding_lines(&traces, &all, 0, &all[0][0]), [0, 1]);
        assert_eq!(coinciding_lines(&traces, &all, 2, &all[2][0]), [2]);
        assert_eq!(coinciding_lines(&traces, &all, 3, &all[3][1]), [3]);
    }
}
