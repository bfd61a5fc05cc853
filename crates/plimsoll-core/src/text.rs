//! Text of users and names from files in messages: short, and without characters that a terminal acts on.

/// Most names that a message lists.
const MOST_LISTED: usize = 8;
/// Most characters of a name in such a list.
const LONGEST_NAME: usize = 60;

/// The first `most` characters, with `…` if there are more. Control characters and other invisible ones are escaped as in Rust.
#[must_use]
pub fn shorten(text: &str, most: usize) -> String {
    let mut characters = text.chars();
    let mut short = String::new();
    for c in characters.by_ref().take(most) {
        match c {
            '\'' | '"' | '\\' => short.push(c),
            c => short.extend(c.escape_debug()),
        }
    }
    if characters.next().is_some() {
        short.push('…');
    }
    short
}

/// The first eight names, shortened, and how many more there are: `a, b and 3 more`.
#[must_use]
pub fn list_names<N: AsRef<str>>(names: impl IntoIterator<Item = N>) -> String {
    join_first(names.into_iter().map(|name| shorten(name.as_ref(), LONGEST_NAME)), ", ", " ")
}

/// The first eight texts, with `separator` between them, and how many more there are, after `before_more`.
#[must_use]
pub fn join_first(texts: impl IntoIterator<Item = String>, separator: &str, before_more: &str) -> String {
    let mut texts = texts.into_iter();
    let first: Vec<String> = texts.by_ref().take(MOST_LISTED).collect();
    match texts.count() {
        0 => first.join(separator),
        more => format!("{}{before_more}and {more} more", first.join(separator)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_shortened_and_control_characters_are_escaped() {
        assert_eq!(shorten("scale", 5), "scale");
        assert_eq!(shorten("scales", 5), "scale…");
        assert_eq!(shorten("a\u{1b}[31m\n\u{202e}", 20), r"a\u{1b}[31m\n\u{202e}");
        assert_eq!(shorten(r"'C:\x' é", 20), r"'C:\x' é");
    }

    #[test]
    fn long_lists_end_with_the_number_that_is_left_out() {
        assert_eq!(list_names(["a", "b"]), "a, b");
        assert_eq!(list_names(["x"; 11]), "x, x, x, x, x, x, x, x and 3 more");
        assert_eq!(join_first(vec!["x".to_owned(); 9], "\n", "\n"), "x\n".repeat(8) + "and 1 more");
    }
}
