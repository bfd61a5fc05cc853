//! Horizontal bars with their figures, and heat maps of shaded blocks.

use unicode_width::UnicodeWidthStr;

use super::{Style, fit};
use crate::chart::{Bar, Category, Heat, Scale};

/// Bars from zero, one line each, followed by the figure.
pub(super) fn draw_bars(
    y: &Scale,
    categories: &[Category],
    [labels, references]: [&[String]; 2],
    style: &Style,
) -> String {
    let several = labels.len() > 1;
    let name_width = widest(categories.iter().map(|category| category.name.as_str())).min(style.columns() / 4);
    let label_width = if several { widest(labels.iter().map(String::as_str)).min(style.columns() / 4) } else { 0 };
    let figures: Vec<Vec<String>> =
        categories.iter().map(|category| category.bars.iter().map(format_figure).collect()).collect();
    let figure_width = widest(figures.iter().flatten().map(String::as_str)).min(style.columns() / 2);
    let gap = if several { label_width + 1 } else { 0 };
    let room = style.columns().saturating_sub(name_width + 1 + gap + figure_width + 1).max(4);
    let mut out = format!("{}\n", fit(&y.title(), style.columns()));
    for (category, figures) in categories.iter().zip(&figures) {
        for (place, (each, figure)) in category.bars.iter().zip(figures).enumerate() {
            let name = if place == 0 { fit(&category.name, name_width) } else { String::new() };
            let label = if several {
                format!("{} ", pad(&fit(&labels[each.label], label_width), label_width))
            } else {
                String::new()
            };
            let bar = make_bar(y.position(each.mark.y), room, style.unicode);
            let published = each.references.iter().map(|(_, mark)| y.position(mark.y));
            let bar = add_ticks(bar, published, room, style);
            let line = format!(
                "{} {label}{} {}",
                pad(&name, name_width),
                style.hue(&bar, each.label),
                fit(figure, figure_width)
            );
            out.push_str(line.trim_end());
            out.push('\n');
        }
    }
    for owner in references {
        out.push_str(&format!("  {} {}\n", tick(style), fit(owner, style.columns() - 4)));
    }
    if categories.iter().flat_map(|category| &category.bars).any(|bar| bar.mark.doubtful) {
        out.push_str("! carries a flag that throws doubt on it\n");
    }
    out
}

fn format_figure(bar: &Bar) -> String {
    let doubt = if bar.mark.doubtful { " !" } else { "" };
    let note = if bar.note.is_empty() { String::new() } else { format!(", {}", bar.note) };
    format!("{}{doubt}{note}", crate::text::clean(&bar.unit.format(bar.mark.y)))
}

fn widest<'t>(texts: impl Iterator<Item = &'t str>) -> usize {
    texts.map(UnicodeWidthStr::width).max().unwrap_or(0)
}

fn pad(text: &str, width: usize) -> String {
    format!("{text}{}", " ".repeat(width.saturating_sub(text.width())))
}

/// A bar with a resolution of an eighth of a character.
fn make_bar(share: f64, room: usize, unicode: bool) -> String {
    const PARTS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    if !unicode {
        return "#".repeat((share * room as f64).round() as usize);
    }
    let eighths = (share * 8.0 * room as f64).round() as usize;
    format!("{}{}", "█".repeat(eighths / 8), PARTS[eighths % 8])
}

/// The mark for a published figure.
fn tick(style: &Style) -> char {
    if style.unicode { '┃' } else { '|' }
}

/// A bar with a mark at each of `shares` of the room.
fn add_ticks(bar: String, shares: impl Iterator<Item = f64>, room: usize, style: &Style) -> String {
    let mut all: Vec<char> = bar.chars().collect();
    for share in shares {
        let place = ((share * room as f64) as usize).min(room.saturating_sub(1));
        all.resize(all.len().max(place + 1), ' ');
        all[place] = tick(style);
    }
    all.into_iter().collect()
}

const SHADES: [char; 5] = ['·', '░', '▒', '▓', '█'];
const ASCII_SHADES: [char; 5] = ['.', ':', '+', '*', '#'];

/// Shaded blocks; below them the names of the first and last columns and the meaning of the shades.
pub(super) fn draw_heat(heat: &Heat, style: &Style) -> String {
    let shades = if style.unicode { SHADES } else { ASCII_SHADES };
    let gutter = widest(heat.rows.iter().map(String::as_str)).min(style.columns() / 3);
    let room = style.columns() - gutter - 1;
    let shown = heat.columns.len().min(room);
    let cell_width = (room / shown.max(1)).clamp(1, 4);
    let title = if heat.x.is_empty() { heat.y.clone() } else { format!("{} over {}", heat.y, heat.x) };
    let mut out = format!("{}\n", fit(&title, style.columns()));
    for row in (0..heat.rows.len()).rev() {
        let mut line = vec![' '; shown];
        for cell in heat.cells.iter().filter(|cell| cell.row == row && cell.column < shown) {
            let shade = heat.value.position(cell.mark.y) * (shades.len() - 1) as f64;
            line[cell.column] = shades[shade.round() as usize];
        }
        let blocks: String = line.into_iter().flat_map(|shade| std::iter::repeat_n(shade, cell_width)).collect();
        out.push_str(&format!("{} {}\n", pad(&fit(&heat.rows[row], gutter), gutter), style.hue(blocks.trim_end(), 0)));
    }
    if let (Some(first), Some(last)) = (heat.columns.first(), heat.columns.get(shown.wrapping_sub(1))) {
        let ends = shown * cell_width;
        let gap = ends.saturating_sub(first.width() + last.width()).max(1);
        let ends = if shown > 1 { format!("{first}{}{last}", " ".repeat(gap)) } else { first.clone() };
        out.push_str(&format!("{} {}\n", " ".repeat(gutter), fit(&ends, room)));
    }
    let (lo, hi) = (heat.value.unit.format(heat.value.lo()), heat.value.unit.format(heat.value.hi()));
    let key: String = shades.iter().collect();
    let key = crate::text::clean(&format!("{}: {lo} {key} {hi}", heat.value.name));
    out.push_str(&super::wrap(&key, style.columns(), "  "));
    out.push('\n');
    if shown < heat.columns.len() {
        out.push_str(&format!("{} more columns don't fit; the HTML report shows them\n", heat.columns.len() - shown));
    }
    out
}
