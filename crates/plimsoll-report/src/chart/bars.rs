//! Bars: which category and which colour each row is, and what else tells it from others.

use super::build::{mark, varying};
use super::bundle::{Places, coordinates, label};
use super::{Bar, Category, Plot, Scale};
use crate::content::{Case, coordinate};

/// A bar per row, in categories by `x`, coloured by `by` and by whose it is. Further axes on which rows differ are told
/// behind the figure: colours for each of their values would say nothing.
pub(super) fn bars(case: &Case<'_>, x: &str, y: &str, by: Option<&str>) -> Option<Plot> {
    let by = by.and_then(|by| case.sources[0].series.axis(by));
    let (hued, noted): (Vec<usize>, Vec<usize>) =
        varying(&[case], &[x], false).into_iter().partition(|axis| Some(*axis) == by);
    let (mut categories, mut labels): (Vec<Category>, Vec<String>) = Default::default();
    let (mut named, mut labelled) = (Places::default(), Places::default());
    for source in &case.sources {
        for row in &source.series.rows {
            let (Some(place), Some(mark)) = (source.series.axis(x), mark(source, row, 0.0, y)) else { continue };
            let name = coordinate(&source.series.spec.axes[place].unit, &row.at[place]);
            let own = label(source, row, &hued);
            let (category, of) = (named.of(&name), labelled.of(&own));
            if category == categories.len() {
                categories.push(Category { name, bars: vec![] });
            }
            if of == labels.len() {
                labels.push(own);
            }
            let note = coordinates(source, row, &noted).join(", ");
            categories[category].bars.push(Bar { label: of, mark, note });
        }
    }
    categories.iter_mut().for_each(|category| category.bars.sort_by_key(|bar| bar.label));
    let unit = case.sources[0].series.metric(y)?.unit.clone();
    let marks = categories.iter().flat_map(|category| &category.bars).map(|bar| &bar.mark);
    let y = Scale::new(y, &unit, false, marks.flat_map(|mark| [mark.y, mark.interval.hi]));
    (!categories.is_empty()).then_some(Plot::Bars { y, categories, labels })
}
