//! The tables of points. Their rows are written here and not by the template, because there are thousands of them. All text is
//! escaped as in pictures.

use minijinja::Value;
use serde::Serialize;

use crate::content::{Case, format_coordinate, format_figure};
use crate::svg::escape;
use crate::text::clean;

/// Bytes of all tables of a page, and of all its pictures: far more than a full run of one machine needs.
const MOST_BYTES: usize = 12 << 20;

/// What is left of a page's size, so that no record makes it endless.
pub(super) struct Budget {
    pictures: usize,
    tables: usize,
}

impl Budget {
    pub fn new() -> Self {
        Self { pictures: MOST_BYTES, tables: MOST_BYTES }
    }

    /// False where a picture of this size doesn't fit any more.
    pub fn take_picture(&mut self, bytes: usize) -> bool {
        take(&mut self.pictures, bytes)
    }
}

fn take(left: &mut usize, bytes: usize) -> bool {
    let fits = bytes <= *left;
    *left -= if fits { bytes } else { 0 };
    fits
}

/// The points of a series.
#[derive(Serialize)]
pub(super) struct Table {
    title: String,
    pub points: usize,
    /// The number of its first row within the section, to which the marks of pictures refer.
    first: usize,
    head: Vec<String>,
    /// The body's rows.
    body: Value,
    /// Rows that didn't fit.
    left_out: usize,
}

pub(super) fn build_table(case: &Case<'_>, budget: &mut Budget) -> Table {
    let spec = &case.sources[0].series.spec;
    let several = case.sources.len() > 1;
    let mut head: Vec<String> = spec.axes.iter().map(|axis| clean(&axis.name)).collect();
    head.extend(spec.metrics.iter().map(|metric| clean(&metric.name)));
    head.extend(["samples".to_owned(), "flags".to_owned()]);
    if several {
        head.insert(0, "device".into());
    }
    let (mut body, mut points, mut left_out) = (String::new(), 0, 0);
    for source in &case.sources {
        for row in &source.series.rows {
            points += 1;
            if left_out > 0 {
                left_out += 1;
                continue;
            }
            let mut line = "<tr>".to_owned();
            let mut add = |text: &str| line.extend(["<td>", &escape(text)]);
            if several {
                add(&source.label);
            }
            spec.axes.iter().zip(&row.at).for_each(|(axis, value)| add(&format_coordinate(&axis.unit, value)));
            spec.metrics.iter().for_each(|metric| add(&format_figure(source.series, row, &metric.name)));
            add(&row.n.to_string());
            add(&row.flags.to_string());
            line.push('\n');
            if take(&mut budget.tables, line.len()) {
                body.push_str(&line);
            } else {
                left_out = 1;
            }
        }
    }
    let first = case.sources[0].first_row;
    Table { title: clean(&case.name), points, first, head, body: Value::from_safe_string(body), left_out }
}
