//! Tables: columns are as wide as their contents. On narrow terminals columns are left out in a given order, and a last line
//! names them. Numbers never wrap; text wraps at spaces once no more columns can be left out.

use comfy_table::{
    Attribute, Cell, CellAlignment, ColumnConstraint, ContentArrangement, LineStyle, TableStyle, Width, presets,
};
use unicode_width::UnicodeWidthStr;

use super::{Style, wrap};
use crate::text::clean;

/// A column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    title: String,
    right: bool,
    keep: u8,
    wraps: bool,
    below: bool,
}

impl Column {
    /// A column of text that is always shown.
    #[must_use]
    pub fn text(title: &str) -> Self {
        Self { title: title.to_owned(), right: false, keep: u8::MAX, wraps: false, below: false }
    }

    /// A column of numbers that is always shown; its cells never wrap.
    #[must_use]
    pub fn number(title: &str) -> Self {
        Self { right: true, ..Self::text(title) }
    }

    /// The column's heading.
    #[must_use]
    pub fn title(&self) -> &str {
        &self.title
    }

    /// Lets the column be left out where the table is too wide; columns with the lowest `keep` go first.
    #[must_use]
    pub fn keep(self, keep: u8) -> Self {
        Self { keep, ..self }
    }

    /// Lets a column of text wrap at spaces before any other column is left out to make room for it.
    #[must_use]
    pub fn wrapping(self) -> Self {
        Self { wraps: true, ..self }
    }

    /// Shows each cell on a separate line below its row where the column is left out.
    #[must_use]
    pub fn below(self) -> Self {
        Self { below: true, ..self }
    }
}

/// A table of text. All text is cleaned so that it is safe to show.
#[derive(Clone, Debug)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

/// A cell of a row for which a column has nothing to say.
const NOTHING: &str = "–";
/// Spaces between two columns.
const GAP: usize = 2;
/// Smallest width of a column of text that has to wrap.
const NARROWEST: usize = 10;
/// Width at which a wrapping column stops shrinking while other columns can shrink: the longest flag name.
const WRAPPED_WIDTH: usize = 16;

impl Table {
    /// A table without rows.
    #[must_use]
    pub fn new(columns: Vec<Column>) -> Self {
        Self { columns, rows: Vec::new() }
    }

    /// Adds a row; missing cells are empty, surplus ones are dropped.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let mut cells: Vec<String> = cells.into_iter().map(|cell| clean(&cell)).collect();
        cells.resize(self.columns.len(), String::new());
        self.rows.push(cells);
    }

    /// True where it has no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The table within `style.width`.
    #[must_use]
    pub fn render(&self, style: &Style) -> String {
        let room = style.columns();
        let widths: Vec<usize> = (0..self.columns.len()).map(|place| self.width(place)).collect();
        let shown = self.choose_columns(&widths, room);
        let excess = total_width(&shown, |place| widths[place]).saturating_sub(room);
        let widths = self.shrink(&shown, widths, excess);
        let hidden = (0..self.columns.len()).filter(|place| self.has_content(*place) && !shown.contains(place));
        let (below, left_out): (Vec<usize>, Vec<usize>) = hidden.partition(|&place| self.columns[place].below);
        let mut text = match below.is_empty() {
            true => self.draw((true, &self.rows), &shown, &widths, style),
            false => self.draw((true, &[]), &shown, &widths, style),
        };
        for row in self.rows.iter().filter(|_| !below.is_empty()) {
            text += &self.draw((false, std::slice::from_ref(row)), &shown, &widths, style);
            for &place in below.iter().filter(|&&place| !is_blank(&row[place]) && row[place] != NOTHING) {
                let line = format!("{}: {}", self.columns[place].title, row[place]);
                text += &format!("  {}\n", wrap(&line, room - 2, "    "));
            }
        }
        if !left_out.is_empty() {
            let titles: Vec<&str> = left_out.iter().map(|&place| self.columns[place].title.as_str()).collect();
            let line = wrap(&format!("(not shown at {room} columns: {})", titles.join(", ")), room, "  ");
            text += &format!("{}\n", style.faint(&line));
        }
        text
    }

    /// The columns that fit.
    fn choose_columns(&self, widths: &[usize], room: usize) -> Vec<usize> {
        let mut shown: Vec<usize> = (0..self.columns.len()).filter(|&place| self.has_content(place)).collect();
        let least =
            |place: usize| if self.columns[place].wraps { widths[place].min(WRAPPED_WIDTH) } else { widths[place] };
        if total_width(&shown, least) > room {
            let says_nothing =
                |place: usize| self.columns[place].below && self.cells(place).all(|cell| cell == NOTHING);
            shown.retain(|&place| !says_nothing(place));
        }
        while total_width(&shown, least) > room {
            let optional = shown.iter().copied().filter(|&place| self.columns[place].keep < u8::MAX);
            let Some(first) = optional.min_by_key(|&place| self.columns[place].keep) else { break };
            shown.retain(|&place| place != first);
        }
        shown
    }

    /// Takes `excess` from the columns of text: wrapping columns first, then the widest.
    fn shrink(&self, shown: &[usize], mut widths: Vec<usize>, mut excess: usize) -> Vec<usize> {
        while excess > 0 {
            let texts = || shown.iter().copied().filter(|&place| !self.columns[place].right);
            let wrapping = texts().filter(|&place| self.columns[place].wraps && widths[place] > WRAPPED_WIDTH);
            let others = texts().filter(|&place| widths[place] > NARROWEST);
            let widest = wrapping.max_by_key(|&place| widths[place]).or(others.max_by_key(|&place| widths[place]));
            let Some(widest) = widest else { break };
            widths[widest] -= 1;
            excess -= 1;
        }
        widths
    }

    /// Draws rows, with headings if `headed`.
    fn draw(&self, (headed, rows): (bool, &[Vec<String>]), shown: &[usize], widths: &[usize], style: &Style) -> String {
        let mut table = comfy_table::Table::new();
        table.load_style(if style.unicode { rule('─') } else { rule('-') });
        table.set_content_arrangement(ContentArrangement::Dynamic).force_no_tty();
        if style.colour {
            table.enforce_styling();
        }
        if headed {
            table.set_header(shown.iter().map(|&place| {
                let title = Cell::new(&self.columns[place].title).add_attribute(Attribute::Bold);
                title.set_alignment(self.alignment(place))
            }));
        }
        for row in rows {
            let cells = shown.iter().map(|&place| Cell::new(&row[place]).set_alignment(self.alignment(place)));
            table.add_row(cells);
        }
        let last = shown.last().copied();
        let mut total = 0;
        for (column, &place) in table.column_iter_mut().zip(shown) {
            let gap = if Some(place) == last { 0 } else { GAP };
            column.set_padding((0, gap as u16));
            // Terminals are narrower than 65,536 columns.
            let width = u16::try_from(widths[place] + gap).unwrap_or(u16::MAX);
            total += usize::from(width);
            column.set_constraint(ColumnConstraint::Absolute(Width::Fixed(width)));
        }
        table.set_width(u16::try_from(total).unwrap_or(u16::MAX));
        table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
    }

    fn alignment(&self, place: usize) -> CellAlignment {
        if self.columns[place].right { CellAlignment::Right } else { CellAlignment::Left }
    }

    fn cells(&self, place: usize) -> impl Iterator<Item = &str> {
        self.rows.iter().map(move |row| row[place].as_str())
    }

    fn width(&self, place: usize) -> usize {
        let widest = self.cells(place).map(UnicodeWidthStr::width).max().unwrap_or(0);
        widest.max(self.columns[place].title.width())
    }

    /// False for a column with only blank cells; an empty table shows all its columns.
    fn has_content(&self, place: usize) -> bool {
        self.rows.is_empty() || self.cells(place).any(|cell| !is_blank(cell))
    }
}

/// Width of some columns, including the gaps between them.
fn total_width(shown: &[usize], width: impl Fn(usize) -> usize) -> usize {
    shown.iter().map(|&place| width(place)).sum::<usize>() + GAP * shown.len().saturating_sub(1)
}

fn is_blank(cell: &str) -> bool {
    cell.is_empty() || cell == "—"
}

/// A table style without borders and with one rule below the headings.
fn rule(fill: char) -> TableStyle {
    presets::NOTHING.header_separator(LineStyle::none().fill(fill))
}
