//! Bars: which category and which colour each row is, and what else tells it from others.

use plimsoll_suite::operations::unit_at;

use super::build::{mark, varying};
use super::bundle::{Places, coordinates, label};
use super::references::Placed;
use super::{Bar, Category, Plot, Scale};
use crate::content::{Case, coordinate};

/// A bar per row, in categories by `x`, coloured by `by` and by whose it is. Further axes on which rows differ are told
/// behind the figure: colours for each of their values would say nothing.
pub(super) fn bars(case: &Case<'_>, x: &str, y: &str, by: Option<&str>) -> Option<Plot> {
    let by = by.and_then(|by| case.sources[0].series.axis(by));
    let (hued, noted): (Vec<usize>, Vec<usize>) =
        varying(&[case], &[x], false).into_iter().partition(|axis| Some(*axis) == by);
    let metric = case.sources[0].series.metric(y)?;
    let unit = metric.unit.clone();
    let placed = Placed::new(case, y, &unit);
    let (mut categories, mut labels, mut references): (Vec<Category>, Vec<String>, Vec<String>) = Default::default();
    let (mut named, mut labelled, mut owned) = (Places::default(), Places::default(), Places::default());
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
            let published = placed.at(source.series, row).map(|(owner, mark)| {
                let place = owned.of(owner);
                if place == references.len() {
                    references.push(owner.to_owned());
                }
                (place, mark)
            });
            let published = published.collect();
            let unit = unit_at(metric, &row.at);
            categories[category].bars.push(Bar { label: of, mark, unit, note, references: published });
        }
    }
    categories.iter_mut().for_each(|category| category.bars.sort_by_key(|bar| bar.label));
    let bars = categories.iter().flat_map(|category| &category.bars);
    let marks = bars.flat_map(|bar| std::iter::once(&bar.mark).chain(bar.references.iter().map(|(_, mark)| mark)));
    let mut y = Scale::new(y, &unit, false, marks.flat_map(|mark| [mark.y, mark.interval.hi]));
    let other = categories.iter().flat_map(|category| &category.bars).find(|bar| bar.unit != unit);
    y.beside = other.map(|bar| bar.unit.clone());
    (!categories.is_empty()).then_some(Plot::Bars { y, categories, labels, references })
}
