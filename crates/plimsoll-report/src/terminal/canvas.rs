//! A grid of characters to draw lines on: with Unicode, braille characters of two by four dots; otherwise points.

use super::Style;

/// The content of a character cell.
#[derive(Clone, Copy, Default)]
struct Dot {
    braille: u8,
    symbol: Option<char>,
    hue: Option<usize>,
}

/// The grid.
pub(super) struct Canvas {
    width: usize,
    height: usize,
    unicode: bool,
    dots: Vec<Dot>,
}

impl Canvas {
    pub fn new(width: usize, height: usize, unicode: bool) -> Self {
        Self { width, height, unicode, dots: vec![Dot::default(); width * height] }
    }

    /// Number of dots across and up: a braille character has eight, a point is one.
    fn resolution(&self) -> (usize, usize) {
        if self.unicode { (2 * self.width, 4 * self.height) } else { (self.width, self.height) }
    }

    /// The index at a share, 0 to 1, of `count` dots.
    fn index(share: f64, count: usize) -> usize {
        (share * (count - 1) as f64).round() as usize
    }

    /// A line between two points, given as shares of width and height; height counts from the bottom.
    pub fn line(&mut self, from: (f64, f64), to: (f64, f64), hue: Option<usize>) {
        let (across, up) = self.resolution();
        let (x0, y0) = (Self::index(from.0, across) as f64, Self::index(from.1, up) as f64);
        let (x1, y1) = (Self::index(to.0, across) as f64, Self::index(to.1, up) as f64);
        let steps = (x1 - x0).abs().max((y1 - y0).abs()).max(1.0);
        for step in 0..=steps as usize {
            let share = step as f64 / steps;
            self.dot((x0 + share * (x1 - x0)).round() as usize, (y0 + share * (y1 - y0)).round() as usize, hue);
        }
    }

    /// Faint dots across the whole width.
    pub fn horizontal_line(&mut self, height: f64) {
        let (across, up) = self.resolution();
        for x in (0..across).step_by(4) {
            self.dot(x, Self::index(height, up), None);
        }
    }

    /// Faint dots from the bottom to the top.
    pub fn vertical_line(&mut self, x_share: f64) {
        let (across, up) = self.resolution();
        for y in (0..up).step_by(2) {
            self.dot(Self::index(x_share, across), y, None);
        }
    }

    fn dot(&mut self, x: usize, y: usize, hue: Option<usize>) {
        // Braille bits, from the bottom row up: Unicode numbers dots 1 2 3 down the left, 4 5 6 the right, then 7 8.
        const BITS: [[u8; 2]; 4] = [[0x40, 0x80], [0x04, 0x20], [0x02, 0x10], [0x01, 0x08]];
        let (column, row, bit) = if self.unicode { (x / 2, y / 4, BITS[y % 4][x % 2]) } else { (x, y, 1) };
        if let Some(dot) = self.dots.get_mut(row * self.width + column) {
            dot.braille |= bit;
            dot.hue = hue;
        }
    }

    /// A symbol that covers the dots in its cell.
    pub fn symbol(&mut self, at: (f64, f64), symbol: char, hue: Option<usize>) {
        let (column, row) = (Self::index(at.0, self.width), Self::index(at.1, self.height));
        if let Some(dot) = self.dots.get_mut(row * self.width + column) {
            *dot = Dot { symbol: Some(symbol), hue, ..*dot };
        }
    }

    /// One row of characters, 0 at the bottom.
    pub fn row(&self, row: usize, style: &Style) -> String {
        let dots = &self.dots[row * self.width..(row + 1) * self.width];
        let shown = |dot: &Dot| match (dot.symbol, dot.braille) {
            (Some(symbol), _) => symbol,
            (None, 0) => ' ',
            (None, bits) if self.unicode => char::from_u32(0x2800 + u32::from(bits)).unwrap_or('.'),
            (None, _) => '.',
        };
        if !style.colour {
            return dots.iter().map(shown).collect::<String>().trim_end().to_owned();
        }
        let painted = dots.iter().map(|dot| match dot.hue {
            Some(hue) => style.hue(&shown(dot).to_string(), hue),
            None => style.faint(&shown(dot).to_string()).replace("\x1b[2m \x1b[0m", " "),
        });
        painted.collect::<String>().trim_end().to_owned()
    }
}
