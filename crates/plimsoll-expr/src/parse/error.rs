//! A fault in a text, shown with its line and a caret.

use std::fmt;
use std::ops::Range;

/// Most characters of a line that are shown on either side of a fault.
const AROUND: usize = 60;

/// What is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    message: String,
    place: Range<usize>,
    line: usize,
    column: usize,
    shown: String,
    caret: String,
}

impl ParseError {
    pub(super) fn new(text: &str, place: Range<usize>, message: String) -> Self {
        let boundary = |at: usize| (0..=at.min(text.len())).rev().find(|&i| text.is_char_boundary(i)).unwrap_or(0);
        let (start, end) = (boundary(place.start), boundary(place.end.max(place.start)));
        let line_start = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
        let line_end = text[start..].find('\n').map_or(text.len(), |length| start + length);
        let before: Vec<char> = text[line_start..start].chars().collect();
        let skipped = before.len().saturating_sub(AROUND);
        let within = text[start..end.min(line_end)].chars().count();
        let after = text[start..line_end].chars().take(within.clamp(1, AROUND) + AROUND).map(printable);
        let shown: String = before[skipped..].iter().copied().map(printable).chain(after).collect();
        let caret = " ".repeat(before.len() - skipped) + &"^".repeat(within.clamp(1, AROUND));
        let line = text[..start].matches('\n').count() + 1;
        Self { message, place: start..end, line, column: before.len() + 1, shown, caret }
    }

    /// What is wrong and the way out, in one line.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The bytes of the text that it is about; empty at the text's end.
    #[must_use]
    pub fn place(&self) -> Range<usize> {
        self.place.clone()
    }

    /// Line and column in characters, both from 1.
    #[must_use]
    pub fn line_and_column(&self) -> (usize, usize) {
        (self.line, self.column)
    }
}

/// Terminals obey control characters and reorder around bidirectional ones, so neither is shown.
fn printable(c: char) -> char {
    let bidirectional = matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    if c.is_control() || bidirectional { '\u{fffd}' } else { c }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { message, line, column, shown, caret, .. } = self;
        write!(f, "{line}:{column}: {message}\n  {shown}\n  {caret}")
    }
}

impl std::error::Error for ParseError {}
