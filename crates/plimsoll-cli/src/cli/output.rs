//! Standard output: what kind of reader it has, and writing to it. A closed pipe ends quietly: the reader has seen what
//! it wanted.

use std::io::{self, IsTerminal, Write};

use plimsoll_report::terminal::Style;

use super::exit::Failure;

/// Columns where nothing says how many there are.
const WIDTH: usize = Style::PLAIN.width;
/// A single line should not fill an ultra-wide screen; below the least, tables can't be drawn.
const WIDTHS: std::ops::RangeInclusive<usize> = 40..=200;

/// Prints to stdout.
///
/// # Errors
/// Where stdout can't be written, other than that its reader has gone.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::usage(format!("can't write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// What stdout's reader can show: width from COLUMNS, else the terminal; colour and more than ASCII where they are
/// understood (NO_COLOR, TERM=dumb and the locale are respected).
pub(crate) fn style() -> Style {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let terminal = io::stdout().is_terminal();
    let dumb = variable("TERM").as_deref() == Some("dumb");
    let width = variable("COLUMNS").and_then(|columns| columns.parse().ok()).or_else(terminal_width).unwrap_or(WIDTH);
    Style {
        width: width.clamp(*WIDTHS.start(), *WIDTHS.end()),
        colour: terminal && !dumb && variable("NO_COLOR").is_none(),
        unicode: !dumb && is_unicode(["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(variable).as_deref()),
    }
}

/// The first locale variable that is set decides (locale(7)). Where none is, as in most containers, the terminal at the
/// other end knows UTF-8 all the same.
fn is_unicode(locale: Option<&str>) -> bool {
    let Some(locale) = locale else { return true };
    let locale = locale.to_ascii_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

fn terminal_width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    (size.ws_col > 0).then_some(usize::from(size.ws_col))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_locale_decides_on_unicode_only_where_it_is_set() {
        assert!(is_unicode(None));
        assert!(is_unicode(Some("de_DE.UTF-8")) && is_unicode(Some("C.utf8")));
        assert!(!is_unicode(Some("C")) && !is_unicode(Some("de_DE.ISO-8859-1")));
    }
}
