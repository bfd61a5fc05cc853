//! Bar charts: the category and colour of each row, and the text that tells it from others.

use plimsoll_suite::operations::unit_at;

use super::build::{mark, varying_axes};
use super::bundle::{NameIndex, coordinates, label};
use super::references::PlacedReferences;
use super::{Bar, Category, Plot, Scale};
use crate::content::{Case, format_coordinate};

/// One bar per row, in categories by `x`, coloured by `by`; bars of several sources share colours. Coordinates on the other axes that vary follow the
/// figure as text: a colour for each of their values would be unreadable.
pub(super) fn build_bars(case: &Case<'_>, x: &str, y: &str, by: Option<&str>) -> Option<Plot> {
    let by = by.and_then(|by| case.sources[0].series.axis(by));
    let (hued, noted): (Vec<usize>, Vec<usize>) =
        varying_axes(&[case], &[x], false).into_iter().partition(|axis| Some(*axis) == by);
    let metric = case.sources[0].series.metric(y)?;
    let unit = metric.unit.clone();
    let placed = PlacedReferences::new(case, y, &unit);
    let (mut categories, mut labels, mut references): (Vec<Category>, Vec<String>, Vec<String>) = Default::default();
    let (mut names, mut label_indices, mut owners) = (NameIndex::default(), NameIndex::default(), NameIndex::default());
    let mut hues = NameIndex::default();
    for (place_of_source, source) in case.sources.iter().enumerate() {
        for (nth, row) in source.series.rows.iter().enumerate() {
            let (Some(place), Some(mark)) = (source.series.axis(x), mark(source, nth, 0.0, y)) else { continue };
            let name = format_coordinate(&source.series.spec.axes[place].unit, &row.at[place]);
            let own = label(source, row, &hued);
            let hue = hues.index_of(&coordinates(source, row, &hued).join(", "));
            let (category, label) = (names.index_of(&name), label_indices.index_of(&own));
            if category == categories.len() {
                categories.push(Category { name, bars: vec![] });
            }
            if label == labels.len() {
                labels.push(own);
            }
            let note = coordinates(source, row, &noted).join(", ");
            let published = placed.marks_at(source.series, row).map(|(owner, mark)| {
                let place = owners.index_of(owner);
                if place == references.len() {
                    references.push(owner.to_owned());
                }
                (place, mark)
            });
            let published = published.collect();
            let unit = unit_at(metric, &row.at);
            categories[category].bars.push(Bar {
                label,
                hue,
                source: place_of_source,
                mark,
                unit,
                note,
                references: published,
            });
        }
    }
    categories.iter_mut().for_each(|category| category.bars.sort_by_key(|bar| bar.label));
    let bars = categories.iter().flat_map(|category| &category.bars);
    let marks = bars.flat_map(|bar| std::iter::once(&bar.mark).chain(bar.references.iter().map(|(_, mark)| mark)));
    let mut y = Scale::new(y, &unit, false, marks.flat_map(|mark| [mark.y, mark.interval.hi]));
    let other = categories.iter().flat_map(|category| &category.bars).find(|bar| bar.unit != unit);
    y.integer_unit = other.map(|bar| bar.unit.clone());
    (!categories.is_empty()).then_some(Plot::Bars { y, categories, labels, references })
}
