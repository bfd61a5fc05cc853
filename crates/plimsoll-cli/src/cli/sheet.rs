//! Small tables of text in every format, for verbs such as `devices`, `list`, `peak` and `doctor`. Tables of measurements are
//! in `plimsoll-report`.

use plimsoll_report::terminal::{Column, Table};
use plimsoll_report::{csv, json, markdown};
use serde_json::{Map, Value};

use super::args::Format;
use super::output;

/// A column that even the narrowest terminal shows.
pub(crate) const ALWAYS: u8 = u8::MAX;
/// Terminals with fewer columns are narrow: there, sheet columns below [`ALWAYS`] are dropped, the lowest number first. On wider
/// ones, text wraps.
const NARROW: usize = 72;

/// A table of `N` columns with headings.
pub(crate) struct Sheet<const N: usize> {
    columns: [(&'static str, u8); N],
    rows: Vec<[String; N]>,
    /// Headings of the columns that are numbers in JSON.
    numbers: Vec<&'static str>,
}

impl<const N: usize> Sheet<N> {
    /// An empty sheet; each column has a heading and a priority ([`ALWAYS`] or less).
    pub fn new(columns: [(&'static str, u8); N]) -> Self {
        Self { columns, rows: vec![], numbers: vec![] }
    }

    /// Makes the columns with these headings numbers in JSON, or null where a cell holds none.
    pub fn with_numbers(mut self, headings: &[&'static str]) -> Self {
        self.numbers = headings.to_vec();
        self
    }

    pub fn row(&mut self, cells: [String; N]) {
        self.rows.push(cells);
    }

    /// The sheet as text that ends in a newline.
    pub fn render(&self, format: Format) -> String {
        match format {
            Format::Table => self.table(),
            Format::Csv => self.lines(|cells| format!("{}\r\n", cells.map(csv::escape).join(","))),
            Format::Markdown => {
                let rows = self.lines(|cells| format!("| {} |\n", cells.map(markdown::escape).join(" | ")));
                // The first line is the headings; the rule goes below it.
                rows.replacen('\n', &format!("\n|{}\n", " --- |".repeat(N)), 1)
            }
            Format::Json => json::to_text(&self.rows.iter().map(|row| self.object(row)).collect::<Vec<_>>().into()),
        }
    }

    fn table(&self) -> String {
        let style = output::style();
        let column = |index: usize| {
            let (heading, keep) = self.columns[index];
            let is_number = self.rows.iter().all(|row| row[index].parse::<f64>().is_ok());
            let column = if is_number { Column::number(heading) } else { Column::text(heading) };
            column.keep(if style.width < NARROW { keep } else { ALWAYS })
        };
        let mut table = Table::new((0..N).map(column).collect());
        self.rows.iter().for_each(|row| table.row(row.iter().cloned()));
        table.render(&style)
    }

    /// Headings and rows, each as a line.
    fn lines(&self, line: impl Fn([&str; N]) -> String) -> String {
        let headings = self.columns.map(|(heading, _)| heading);
        let rows = self.rows.iter().map(|row| row.each_ref().map(String::as_str));
        std::iter::once(headings).chain(rows).map(line).collect()
    }

    fn object(&self, row: &[String; N]) -> Value {
        let value = |heading: &str, cell: &String| match self.numbers.contains(&heading) {
            true => serde_json::from_str::<serde_json::Number>(cell).map_or(Value::Null, Value::Number),
            false => cell.clone().into(),
        };
        let cells = self.columns.iter().zip(row);
        cells.map(|((heading, _), cell)| ((*heading).to_owned(), value(heading, cell))).collect::<Map<_, _>>().into()
    }
}
