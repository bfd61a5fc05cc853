//! Slips of the keyboard: which of the known names a wrong one was probably meant to be. What is said about it is the
//! asker's.

/// Below this Jaro-Winkler similarity a name is no likely slip of another.
const ALIKE: f64 = 0.7;
/// More letters than any name has.
const LONGEST: usize = 60;

/// The most alike of `known` to `given`, best first, at most `count` and each but once; none where none is much alike.
/// Letters count as typed: lower both where their case means nothing.
pub fn nearest<'k>(given: &str, known: impl IntoIterator<Item = &'k str>, count: usize) -> Vec<&'k str> {
    let given: String = given.chars().take(LONGEST).collect();
    let mut scored: Vec<(f64, &str)> = Vec::new();
    for name in known {
        let alike = strsim::jaro_winkler(name, &given);
        if alike >= ALIKE && scored.iter().all(|(_, other)| *other != name) {
            scored.push((alike, name));
        }
    }
    // Stable: of two equally alike the first listed stays first.
    scored.sort_by(|a, b| b.0.total_cmp(&a.0));
    scored.truncate(count);
    scored.into_iter().map(|(_, name)| name).collect()
}

/// `did you mean a, b or c?`; nothing where there is none.
#[must_use]
pub fn did_you_mean(names: &[&str]) -> Option<String> {
    let (last, others) = names.split_last()?;
    let others = if others.is_empty() { String::new() } else { format!("{} or ", others.join(", ")) };
    Some(format!("did you mean {others}{last}?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [&str; 4] = ["stream", "latency", "loaded-latency", "stream"];

    #[test]
    fn a_slip_finds_its_name_once_and_nonsense_finds_none() {
        assert_eq!(nearest("steram", KNOWN, 3), ["stream"]);
        assert_eq!(nearest("latencies", KNOWN, 1), ["latency"]);
        for nonsense in ["", "qqqq", "x", "\u{1b}[31m", &"9".repeat(100_000)] {
            assert!(nearest(nonsense, KNOWN, 3).is_empty(), "{nonsense}");
        }
    }

    #[test]
    fn the_question_names_all_and_is_not_asked_of_nothing() {
        assert_eq!(did_you_mean(&[]), None);
        assert_eq!(did_you_mean(&["a"]).unwrap(), "did you mean a?");
        assert_eq!(did_you_mean(&["a", "b", "c"]).unwrap(), "did you mean a, b or c?");
    }
}
