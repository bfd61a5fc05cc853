//! Standard output: writing to it, and what its reader can display. A closed pipe is not an error.

use std::io::{self, IsTerminal, Write};

use plimsoll_report::terminal::Style;

use super::exit::Failure;

/// Columns if neither COLUMNS nor a terminal gives a width.
const DEFAULT_WIDTH: usize = Style::PLAIN.width;
/// Permitted widths: a line should not fill an ultra-wide screen, and tables can't be drawn below the minimum.
const WIDTHS: std::ops::RangeInclusive<usize> = 40..=200;

/// Prints to stdout. Fails if stdout can't be written, except for a closed pipe.
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

/// The style for stdout: width from COLUMNS, else from the terminal; colour and Unicode where supported (NO_COLOR, TERM=dumb
/// and the locale are respected).
pub(crate) fn style() -> Style {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let terminal = io::stdout().is_terminal();
    let dumb = variable("TERM").as_deref() == Some("dumb");
    let width =
        variable("COLUMNS").and_then(|columns| columns.parse().ok()).or_else(terminal_width).unwrap_or(DEFAULT_WIDTH);
    Style {
        width: width.clamp(*WIDTHS.start(), *WIDTHS.end()),
        colour: terminal && !dumb && variable("NO_COLOR").is_none(),
        unicode: !dumb && is_unicode(["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(variable).as_deref()),
    }
}

/// The first locale variable that is set decides (locale(7)). If none is set, as in most containers, UTF-8 is assumed.
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
    fn a_locale_without_utf8_disables_unicode() {
        assert!(is_unicode(None));
        assert!(is_unicode(Some("de_DE.UTF-8")) && is_unicode(Some("C.utf8")));
        assert!(!is_unicode(Some("C")) && !is_unicode(Some("de_DE.ISO-8859-1")));
    }
}
