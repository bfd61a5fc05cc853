//! Spelling suggestions: the known names that are most similar to a wrong one.

/// Names with a lower Jaro-Winkler similarity are not suggested.
const LEAST_SIMILARITY: f64 = 0.7;
/// Longest prefix of a name that is compared, in characters; all known names are shorter.
const LONGEST: usize = 60;

/// At most `count` of the names in `known` that are most similar to `given`, best first and without duplicates; empty where none
/// is similar enough. The comparison is case-sensitive.
pub fn nearest<'k>(given: &str, known: impl IntoIterator<Item = &'k str>, count: usize) -> Vec<&'k str> {
    let given: String = given.chars().take(LONGEST).collect();
    let mut scored: Vec<(f64, &str)> = Vec::new();
    for name in known {
        let similarity = strsim::jaro_winkler(name, &given);
        if similarity >= LEAST_SIMILARITY && scored.iter().all(|(_, other)| *other != name) {
            scored.push((similarity, name));
        }
    }
    // The sort is stable: equally similar names keep their order.
    scored.sort_by(|a, b| b.0.total_cmp(&a.0));
    scored.truncate(count);
    scored.into_iter().map(|(_, name)| name).collect()
}

/// `did you mean a, b or c?`; `None` without names.
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
    fn nearest_finds_a_misspelt_name_once_and_nothing_for_nonsense() {
        assert_eq!(nearest("steram", KNOWN, 3), ["stream"]);
        assert_eq!(nearest("latencies", KNOWN, 1), ["latency"]);
        for nonsense in ["", "qqqq", "x", "\u{1b}[31m", &"9".repeat(100_000)] {
            assert!(nearest(nonsense, KNOWN, 3).is_empty(), "{nonsense}");
        }
    }

    #[test]
    fn did_you_mean_lists_all_names_and_is_none_without_names() {
        assert_eq!(did_you_mean(&[]), None);
        assert_eq!(did_you_mean(&["a"]).unwrap(), "did you mean a?");
        assert_eq!(did_you_mean(&["a", "b", "c"]).unwrap(), "did you mean a, b or c?");
    }
}
