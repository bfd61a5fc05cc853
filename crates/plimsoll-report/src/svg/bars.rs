//! Horizontal bars from zero with readable names, each followed by its figure.

use super::markup::{Markup, fit, hue, width};
use super::{RIGHT, TOP, WIDTH};
use crate::chart::{Bar, Category, Scale};

const BAR: f64 = 16.0;
const STEP: f64 = 19.0;
const GAP: f64 = 9.0;
/// Largest width of the names, pixels.
const NAMES: f64 = 190.0;
/// Smallest width for the figure after the longest bar, pixels.
const FIGURE: f64 = 92.0;

/// Returns the picture's height. `labels` name the colours, `references` the marks of published figures.
pub(super) fn draw_bars(
    out: &mut Markup,
    y: &Scale,
    categories: &[Category],
    [labels, references]: [&[String]; 2],
) -> f64 {
    let left = categories.iter().map(|category| width(&category.name)).fold(20.0, f64::max).min(NAMES) + 12.0;
    let all_bars = || categories.iter().flat_map(|category| &category.bars);
    let figure = all_bars().map(|bar| width(&figure_text(bar)) * 12.0 / 13.0).fold(FIGURE, f64::max).min(WIDTH / 2.0);
    let length = WIDTH - RIGHT - figure - left;
    let sources = count_sources(categories);
    let bars: usize = categories.iter().map(|category| category.bars.len()).sum();
    let bottom = TOP + bars as f64 * STEP + categories.len() as f64 * GAP;
    for tick in y.ticks(5) {
        let x = left + y.position(tick.value) * length;
        out.line("grid", (x, TOP - 4.0), (x, bottom));
        out.text("tick", (x, bottom + 16.0), "middle", &tick.label);
    }
    let mut top = TOP;
    for category in categories {
        let middle = top + category.bars.len() as f64 * STEP / 2.0 + 3.0;
        out.text("", (left - 8.0, middle), "end", &fit(&category.name, NAMES));
        for bar in &category.bars {
            let mark = &bar.mark;
            let end = left + y.position(mark.y) * length;
            let from = (left + y.position(mark.interval.hi.max(mark.y)) * length).max(end) + 6.0;
            out.point(&hue(bar.hue), Some(bar.label), mark, |out| {
                out.rect("bar", (left, top), (end - left, BAR), &strength(bar.source, sources));
                let ends = [mark.interval.lo, mark.interval.hi].map(|value| left + y.position(value) * length);
                if ends[1] - ends[0] > 3.0 {
                    out.line("iv over", (ends[0], top + BAR / 2.0), (ends[1], top + BAR / 2.0));
                }
                out.text("fig", (from, top + BAR - 4.0), "start", &figure_text(bar));
                out.hit_rect((left, top), (WIDTH - RIGHT - left, STEP));
            });
            for (_, published) in &bar.references {
                let x = left + y.position(published.y) * length;
                out.point("refs", None, published, |out| {
                    draw_tick(out, (x, top), BAR);
                    out.hit_rect((x - 5.0, top), (10.0, STEP));
                });
            }
            top += STEP;
        }
        top += GAP;
    }
    out.line("axis", (left, TOP - 4.0), (left, bottom));
    out.text("soft", (WIDTH - RIGHT, bottom + 34.0), "end", &y.title());
    draw_legend(out, categories, [labels, references], bottom).max(bottom + 44.0)
}

/// Draws the legend below the axis and returns the position below it.
fn draw_legend(out: &mut Markup, categories: &[Category], [labels, references]: [&[String]; 2], bottom: f64) -> f64 {
    let all_bars = || categories.iter().flat_map(|category| &category.bars);
    let sources = count_sources(categories);
    // Colours need names only where there are several; references always do.
    let labels_and_references = labels.iter().chain(references).map(String::as_str).enumerate();
    out.legend(bottom + 54.0, labels_and_references, |out, place, (x, y)| {
        if place >= labels.len() {
            out.raw("<g class=\"refs\">");
            draw_tick(out, (x + 16.0, y - 8.0), BAR);
            out.raw("</g>");
            return;
        }
        let look = all_bars().find(|bar| bar.label == place).map_or((place, 0), |bar| (bar.hue, bar.source));
        out.raw(&format!("<g class=\"{}\">", hue(look.0)));
        out.rect("bar", (x + 6.0, y - 6.0), (20.0, 12.0), &strength(look.1, sources));
        out.raw("</g>");
    })
}

/// The number of runs or devices.
fn count_sources(categories: &[Category]) -> usize {
    1 + categories.iter().flat_map(|category| &category.bars).map(|bar| bar.source).max().unwrap_or(0)
}

/// Draws a published figure: a stroke across its bar, light at the edges so that it stands out from any colour.
fn draw_tick(out: &mut Markup, (x, top): (f64, f64), height: f64) {
    out.line("edge", (x, top - 2.0), (x, top + height + 2.0));
    out.line("mark", (x, top - 2.0), (x, top + height + 2.0));
}

/// The strength of a bar's colour: bars of later runs are paler.
fn strength(source: usize, sources: usize) -> String {
    if source == 0 {
        return String::new();
    }
    format!(" fill-opacity=\"{:.2}\"", 1.0 - 0.7 * source as f64 / (sources - 1) as f64)
}

/// The figure and its note.
fn figure_text(bar: &Bar) -> String {
    let figure = bar.unit.format(bar.mark.y);
    if bar.note.is_empty() { figure } else { format!("{figure}, {}", bar.note) }
}
