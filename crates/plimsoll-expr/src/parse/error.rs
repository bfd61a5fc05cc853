//! A parse error, shown with its line and a caret.

use std::fmt;
use std::ops::Range;

/// The most characters of the line shown on either side of the error.
const AROUND: usize = 60;

/// A parse error and its position.
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
        let boundary = |byte: usize| (0..=byte.min(text.len())).rev().find(|&i| text.is_char_boundary(i)).unwrap_or(0);
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

    /// What is wrong and how to fix it, in one line.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The byte range of the text that is wrong; empty at the end of the text.
    #[must_use]
    pub fn place(&self) -> Range<usize> {
        self.place.clone()
    }

    /// Line and column, the latter in characters; both count from 1.
    #[must_use]
    pub fn line_and_column(&self) -> (usize, usize) {
        (self.line, self.column)
    }
}

/// Replaces control characters, which terminals obey, and bidirectional marks, which reorder the line.
fn printable(c: char) -> char {
    let bidirectional = matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    if c.is_control() || bidirectional { '\u{fffd}' } else { c }
}

impl ParseError {
    /// The same in the text without its first lines, which declare parameters.
    pub(crate) fn without(self, first: &str) -> Self {
        let lines = first.matches('\n').count();
        let shifted = |byte: usize| byte.saturating_sub(first.len());
        let place = shifted(self.place.start)..shifted(self.place.end);
        Self { line: self.line.saturating_sub(lines).max(1), place, ..self }
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { message, line, column, shown, caret, .. } = self;
        write!(f, "{line}:{column}: {message}\n  {shown}\n  {caret}")
    }
}

impl std::error::Error for ParseError {}
