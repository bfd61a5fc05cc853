//! Splits text into tokens. Line ends count only outside parentheses; `#` starts a comment.

use std::ops::Range;

use super::{Fault, Parsed};

/// The most characters of a name or a number: enough for any printed f64, and short enough for messages.
const MAX_WORD: usize = 400;

/// A token of the language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// A name or a keyword.
    Name(&'a str),
    /// The text of a number with its suffix.
    Number(&'a str),
    Symbol(Symbol),
    /// The end of a line that isn't inside parentheses.
    Line,
    /// The end of the text.
    End,
}

macro_rules! symbols {
    ($($symbol:ident $text:literal)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Symbol { $($symbol),* }

        impl Symbol {
            /// Longer symbols first, so that `<<` isn't read as two `<`.
            const ALL: &[Self] = &[$(Self::$symbol),*];

            pub(super) const fn text(self) -> &'static str {
                match self { $(Self::$symbol => $text),* }
            }
        }
    };
}

symbols! {
    AndAnd "&&" OrOr "||" ShiftLeft "<<" ShiftRight ">>" LessEqual "<=" GreaterEqual ">=" EqualEqual "==" NotEqual "!="
    SlashSlash "//" StarStar "**" Plus "+" Minus "-" Star "*" Slash "/" Percent "%" And "&" Or "|" Caret "^" Less "<"
    Greater ">" Equal "=" Not "!" Tilde "~" Open "(" Close ")" Comma "," Colon ":" Semicolon ";"
}

/// All tokens with their byte ranges.
pub(super) fn tokenize(text: &str) -> Parsed<Vec<(Token<'_>, Range<usize>)>> {
    let mut tokens = Vec::new();
    let mut at = 0;
    let mut open = 0_usize;
    while let Some(c) = text[at..].chars().next() {
        let rest = &text[at..];
        let length = match c {
            '\n' => 1,
            _ if c.is_whitespace() => {
                at += c.len_utf8();
                continue;
            }
            '#' => {
                at += rest.find('\n').unwrap_or(rest.len());
                continue;
            }
            'a'..='z' | 'A'..='Z' | '_' => name_length(rest),
            '0'..='9' | '.' => number_length(rest),
            _ => Symbol::ALL.iter().map(|s| s.text()).find(|s| rest.starts_with(s)).map_or(0, str::len),
        };
        let place = at..at + length;
        if length > MAX_WORD {
            let message = format!("{length} characters in one word: at most {MAX_WORD} are allowed");
            return Err(Fault { place: at..at + length, message });
        }
        let token = match c {
            _ if length == 0 => {
                let place = at..at + c.len_utf8();
                return Err(Fault { place, message: format!("'{}' has no meaning here", c.escape_debug()) });
            }
            '\n' => Token::Line,
            'a'..='z' | 'A'..='Z' | '_' => Token::Name(&rest[..length]),
            '0'..='9' | '.' => Token::Number(&rest[..length]),
            _ => match Symbol::ALL.iter().find(|symbol| rest.starts_with(symbol.text())) {
                Some(&symbol) => Token::Symbol(symbol),
                None => Token::End,
            },
        };
        match token {
            Token::Symbol(Symbol::Open) => open += 1,
            Token::Symbol(Symbol::Close) => open = open.saturating_sub(1),
            _ => {}
        }
        if token != Token::Line || open == 0 {
            tokens.push((token, place));
        }
        at += length;
    }
    Ok(tokens)
}

/// The length in bytes of the name at the start.
fn name_length(text: &str) -> usize {
    text.bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_').count()
}

/// The length in bytes of the number and its suffix at the start; 0 for a lone point.
fn number_length(text: &str) -> usize {
    if text.starts_with("0x") || text.starts_with("0X") {
        return name_length(text);
    }
    let digits = |from: usize| text[from..].bytes().take_while(u8::is_ascii_digit).count();
    let mut length = digits(0);
    let mut any = length;
    if text[length..].starts_with('.') {
        let fraction = digits(length + 1);
        any += fraction;
        length += 1 + fraction;
    }
    if any == 0 {
        return 0;
    }
    if text[length..].starts_with(['e', 'E']) {
        let sign = usize::from(text[length + 1..].starts_with(['+', '-']));
        let exponent = digits(length + 1 + sign);
        if exponent > 0 {
            length += 1 + sign + exponent;
        }
    }
    length + name_length(&text[length..])
}
