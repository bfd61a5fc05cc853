//! SVG elements as text: escaping, elements that all pictures share, and the approximate width of a text.

use super::{HUES, WIDTH};
use crate::chart::Mark;
use crate::text::clean;

/// Average width of a character at 13 px in the widest font of the style, because a picture can't know which one is used.
const CHARACTER: f64 = 7.8;

/// Most points of one picture that can be reached by keyboard.
pub(super) const MOST_FOCUSABLE: usize = 2_000;

/// Escapes text for element contents and quoted attributes.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in clean(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            _ => out.push(c),
        }
    }
    out
}

/// A number with one decimal: a tenth of a pixel is fine enough.
pub(crate) fn number(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or_else(|| text.clone(), str::to_owned)
}

/// Approximate width of `text`, pixels.
pub(crate) fn width(text: &str) -> f64 {
    CHARACTER * unicode_width::UnicodeWidthStr::width(text) as f64
}

/// `text`, shortened to about `room` pixels.
pub(crate) fn fit(text: &str, room: f64) -> String {
    crate::terminal::fit(text, (room / CHARACTER) as usize)
}

/// A picture's elements.
pub(crate) struct Markup {
    out: String,
    points: usize,
    page: bool,
}

impl Markup {
    /// For a page, where a point names its row of the tables, or for a file, where it has its text as title.
    pub fn new(page: bool) -> Self {
        Self { out: String::new(), points: 0, page }
    }

    pub fn is_page(&self) -> bool {
        self.page
    }

    pub fn into_string(self) -> String {
        self.out
    }

    pub fn raw(&mut self, markup: &str) {
        self.out.push_str(markup);
    }

    pub fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let ((x1, y1), (x2, y2)) = (from, to);
        let [x1, y1, x2, y2] = [x1, y1, x2, y2].map(number);
        self.raw(&format!("<line class=\"{class}\" x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\"/>"));
    }

    pub fn rect(&mut self, class: &str, at: (f64, f64), size: (f64, f64), more: &str) {
        let [x, y, width, height] = [at.0, at.1, size.0, size.1].map(number);
        self.raw(&format!("<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"{more}/>"));
    }

    /// `anchor` is `start`, `middle` or `end`.
    pub fn text(&mut self, class: &str, at: (f64, f64), anchor: &str, text: &str) {
        let (x, y) = (number(at.0), number(at.1));
        let text = escape(text);
        let anchor = if anchor == "start" { String::new() } else { format!(" text-anchor=\"{anchor}\"") };
        let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
        self.raw(&format!("<text{class} x=\"{x}\" y=\"{y}\"{anchor}>{text}</text>"));
    }

    /// An invisible area that makes a point of a file easy to point at.
    pub fn hit_rect(&mut self, at: (f64, f64), size: (f64, f64)) {
        if !self.page {
            self.rect("hit", at, size, "");
        }
    }

    /// A point. In a file it can be pointed at and focused, and its title is its accessible name. Beyond [`MOST_FOCUSABLE`] points
    /// nobody tabs through them: further points only have a title, which keeps the picture small. In a page it has the number of
    /// its row, and `key`, the number of its entry in the legend; it has a title only where it isn't one row.
    pub fn point(&mut self, class: &str, key: Option<usize>, mark: &Mark, draw: impl FnOnce(&mut Self)) {
        if self.page {
            let class = [class, if mark.doubtful { "doubt" } else { "" }].join(" ");
            let class = if class == " " { String::new() } else { format!(" class=\"{}\"", class.trim()) };
            let key = key.map_or_else(String::new, |key| format!(" data-k=\"{key}\""));
            match mark.row {
                Some(row) => self.raw(&format!("<g{class}{key} data-r=\"{row}\">")),
                None => {
                    let title = escape(&format!("{}: {}", mark.place, mark.figure));
                    self.raw(&format!("<g{class}{key} data-r=\"\"><title>{title}</title>"));
                }
            }
            draw(self);
            self.raw("</g>");
            return;
        }
        let doubt = if mark.doubtful { " doubt" } else { "" };
        let title = escape(&format!("{}: {}", mark.place, mark.figure));
        self.points += 1;
        if self.points > MOST_FOCUSABLE {
            self.raw(&format!("<g class=\"pt {class}{doubt}\"><title>{title}</title>"));
            draw(self);
            self.raw("</g>");
            return;
        }
        self.raw(&format!("<g class=\"pt {class}{doubt}\" tabindex=\"0\" role=\"img\"><title>{title}</title>"));
        draw(self);
        self.raw("</g>");
    }

    /// Draws labels with their symbols, in as many rows as they need from `top`, and returns the position of the next row. `symbol`
    /// draws the symbol with this index at this position.
    pub fn legend<'l>(
        &mut self,
        top: f64,
        labels: impl Iterator<Item = (usize, &'l str)>,
        symbol: impl Fn(&mut Self, usize, (f64, f64)),
    ) -> f64 {
        let (mut x, mut y, mut any) = (8.0, top, false);
        for (place, label) in labels.filter(|(_, label)| !label.is_empty()) {
            let label = fit(label, WIDTH - 60.0);
            let needed = 34.0 + width(&label) + 14.0;
            if any && x + needed > WIDTH {
                (x, y) = (8.0, y + 20.0);
            }
            if self.page {
                self.raw(&format!("<g class=\"key\" data-k=\"{place}\">"));
            }
            symbol(self, place, (x, y - 4.0));
            self.text("", (x + 32.0, y), "start", &label);
            if self.page {
                self.raw("</g>");
            }
            x += needed;
            any = true;
        }
        if any { y + 20.0 } else { top }
    }
}

/// The CSS class of a hue.
pub(super) fn hue(place: usize) -> String {
    format!("h{}", place % HUES)
}
