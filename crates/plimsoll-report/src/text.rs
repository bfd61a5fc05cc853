//! Text from records, made safe to show: no control characters, no direction overrides, no invisible characters, a limited
//! length. Each format does its own escaping.

/// Longest text that is shown in full, in characters. Names and reasons are far shorter.
const LONGEST: usize = 440;

/// The text without control, direction and invisible characters; line breaks and tabs become spaces.
#[must_use]
pub fn clean(text: &str) -> String {
    let mut shown: String = text
        .chars()
        .map(|c| if matches!(c, '\n' | '\r' | '\t') { ' ' } else { c })
        .filter(|&c| !is_hidden(c))
        .take(LONGEST + 1)
        .collect();
    if shown.chars().count() > LONGEST {
        shown.pop();
        shown.push('…');
    }
    shown
}

/// True for characters that a terminal would act on, or not show.
pub(crate) fn is_hidden(c: char) -> bool {
    c.is_control() || is_invisible(c)
}

/// Directional controls (Unicode annex 9), zero-width characters, line and paragraph separators, interlinear and tag
/// characters.
fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clean_removes_terminal_escapes_and_direction_overrides() {
        assert_eq!(clean("a\x1b[31mb\u{202e}c\u{7}\u{9b}d\ne"), "a[31mbcd e");
        assert_eq!(clean("Größe µ 三"), "Größe µ 三");
    }

    #[test]
    fn clean_shortens_long_names() {
        assert_eq!(clean(&"x".repeat(10_000)).chars().count(), LONGEST + 1);
        assert_eq!(clean(&"x".repeat(LONGEST)).chars().count(), LONGEST);
    }
}
