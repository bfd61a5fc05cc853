//! Heat maps: shades of one hue over two axes, figures in the cells where they fit, and a key below.

use std::collections::BTreeMap;

use super::markup::{MOST_FOCUSABLE, Markup, fit, number, width};
use super::{RIGHT, TOP, WIDTH};
use crate::chart::{Cell, Heat, Scale};

/// Largest width of the rows' names, pixels.
const NAMES: f64 = 150.0;
/// Largest width of a cell, pixels, so that a matrix of two devices isn't stretched.
const WIDEST: f64 = 110.0;
/// Shade of the smallest value, as a share of the largest value's. The style sets the strongest shade, so that text stays
/// readable on it.
const FAINTEST: f64 = 0.06;

/// Returns the picture's height.
pub(super) fn draw_heat(out: &mut Markup, heat: &Heat) -> f64 {
    let left = heat.rows.iter().map(|row| width(row)).fold(20.0, f64::max).min(NAMES) + 12.0;
    let size = (
        ((WIDTH - RIGHT - left) / heat.columns.len().max(1) as f64).min(WIDEST),
        (300.0 / heat.rows.len().max(1) as f64).clamp(4.5, 34.0),
    );
    let bottom = TOP + size.1 * heat.rows.len() as f64;
    out.text("soft", (4.0, TOP - 10.0), "start", &heat.y);
    let right = left + size.0 * heat.columns.len() as f64;
    out.rect("none", (left, TOP), (right - left, bottom - TOP), "");
    let every = (14.0 / size.1).ceil() as usize;
    for (place, row) in heat.rows.iter().enumerate().step_by(every.max(1)) {
        let y = bottom - (place as f64 + 0.5) * size.1 + 4.0;
        out.text("tick", (left - 6.0, y), "end", &fit(row, NAMES));
    }
    let mut free = 0.0;
    for (place, column) in heat.columns.iter().enumerate() {
        let middle = left + (place as f64 + 0.5) * size.0;
        let half = width(column) / 2.0;
        if middle - half >= free && middle + half <= WIDTH {
            out.text("tick", (middle, bottom + 17.0), "middle", column);
            free = middle + half + 6.0;
        }
    }
    out.text("soft", (right.max(left + width(&heat.x)), bottom + 36.0), "end", &heat.x);
    let corner = |column: usize, row: usize| (left + column as f64 * size.0, bottom - (row + 1) as f64 * size.1);
    if heat.cells.len() > MOST_FOCUSABLE {
        draw_field(out, heat, corner, size.1);
    } else {
        if out.is_page() {
            let gap = gap(size);
            let [width, height] = [size.0 - gap, size.1 - gap].map(number);
            out.raw(&format!("<g class=\"cells\" style=\"--w:{width}px;--h:{height}px\">"));
        }
        for cell in &heat.cells {
            draw_cell(out, &heat.value, cell, corner(cell.column, cell.row), size);
        }
        if out.is_page() {
            out.raw("</g>");
        }
    }
    draw_key(out, &heat.value, bottom + 58.0);
    bottom + 72.0
}

fn shade(scale: &Scale, value: f64) -> f64 {
    FAINTEST + (1.0 - FAINTEST) * scale.position(value)
}

/// The space between cells of this size.
fn gap(size: (f64, f64)) -> f64 {
    if size.0.min(size.1) < 8.0 { 0.0 } else { 1.0 }
}

fn draw_cell(out: &mut Markup, value: &Scale, cell: &Cell, at: (f64, f64), size: (f64, f64)) {
    let shade = shade(value, cell.mark.y);
    out.point("", None, &cell.mark, |out| {
        let opacity = format!(" style=\"--s:{shade:.2}\"");
        let gap = gap(size);
        let corner = (at.0 + gap / 2.0, at.1 + gap / 2.0);
        if out.is_page() {
            // The group around the cells has their size.
            out.raw(&format!("<rect x=\"{}\" y=\"{}\"{opacity}/>", number(corner.0), number(corner.1)));
        } else {
            out.rect("cell", corner, (size.0 - gap, size.1 - gap), &opacity);
        }
        let figure = value.number(cell.mark.y);
        if size.1 >= 16.0 && width(&figure) * 12.0 / 13.0 + 2.0 <= size.0 {
            let (class, anchor) = if out.is_page() { ("", "start") } else { ("fig", "middle") };
            out.text(class, (at.0 + size.0 / 2.0, at.1 + size.1 / 2.0 + 4.0), anchor, &figure);
        }
    });
}

/// Steps of shade in a field: more than can be distinguished.
const STEPS: f64 = 48.0;

/// Draws very many cells as one field, in which only the pattern matters: neighbours in a row that look alike are merged into a
/// rectangle, and all rectangles of one shade into a path.
fn draw_field(out: &mut Markup, heat: &Heat, corner: impl Fn(usize, usize) -> (f64, f64), height: f64) {
    let look = |cell: &Cell| ((shade(&heat.value, cell.mark.y) * STEPS).round() as u32, cell.mark.doubtful);
    let mut cells: Vec<&Cell> = heat.cells.iter().collect();
    cells.sort_by_key(|cell| (cell.row, cell.column));
    let continues = |a: &&Cell, b: &&Cell| a.row == b.row && a.column + 1 == b.column && look(a) == look(b);
    let mut paths: BTreeMap<(u32, bool), String> = BTreeMap::new();
    for run in cells.chunk_by(continues) {
        let (x0, y0) = corner(run[0].column, run[0].row);
        let x1 = corner(run[run.len() - 1].column + 1, run[0].row).0;
        let [x0, y0, x1, y1] = [x0, y0, x1, y0 + height].map(number);
        paths.entry(look(run[0])).or_default().push_str(&format!("M{x0} {y0}H{x1}V{y1}H{x0}z"));
    }
    for ((step, doubtful), path) in paths {
        let doubt = if doubtful { " class=\"doubt\"" } else { "" };
        let shade = f64::from(step) / STEPS;
        // Crisp edges avoid visible seams between rectangles.
        out.raw(&format!(
            "<g{doubt} shape-rendering=\"crispEdges\"><path class=\"cell\" style=\"--s:{shade:.2}\" d=\"{path}\"/></g>"
        ));
    }
}

fn draw_key(out: &mut Markup, value: &Scale, y: f64) {
    let title = format!("{}:", value.title());
    let (lo, hi) = (value.number(value.lo()), value.number(value.hi()));
    out.text("soft", (8.0, y), "start", &title);
    let mut x = 8.0 + width(&title) + 10.0;
    out.text("tick", (x, y), "start", &lo);
    x += width(&lo) + 4.0;
    for step in 0..=5 {
        let opacity = format!(" style=\"--s:{:.2}\"", FAINTEST + (1.0 - FAINTEST) * f64::from(step) / 5.0);
        out.rect("cell", (x, y - 11.0), (22.0, 14.0), &opacity);
        x += 22.0;
    }
    out.text("tick", (x + 6.0, y), "start", &hi);
}
