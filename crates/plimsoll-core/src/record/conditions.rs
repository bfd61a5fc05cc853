//! The conditions under which a run was made. Which of them make its figures unfit for what is the reader's to say.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::unit::ByteSize;

/// What was asked of a run beside its probes and its effort.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Conditions {
    /// A size instead of the probes' own, bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Every launch from the first one was recorded, without warming up.
    pub trace: bool,
    /// Several devices were measured at once.
    pub concurrent: bool,
    /// Hardware counters were read beside the times.
    pub counters: bool,
}

impl Conditions {
    /// The conditions of a run whose header doesn't tell them, by its command line: the one place where that is guessed from.
    /// A size that can't be read is 0. `devices` is how many the run has.
    pub(super) fn of_command(argv: &[String], devices: usize) -> Self {
        let says = |option: &str| argv.iter().any(|word| word == option);
        let value = |option: &str| {
            let joined = |word: &str| Some(word.strip_prefix(option)?.strip_prefix('=')?.to_owned());
            let (place, word) = argv.iter().enumerate().find(|(_, word)| *word == option || joined(word).is_some())?;
            Some(joined(word).or_else(|| argv.get(place + 1).cloned()).unwrap_or_default())
        };
        let bytes = value("--bytes").map(|size| size.parse().map_or(0, |ByteSize(bytes)| bytes));
        let concurrent = says("--concurrent") && devices > 1;
        Self { bytes, trace: says("--trace"), concurrent, counters: says("--counters") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_of_an_older_record_tells_its_conditions() {
        let of = |line: &str, devices| {
            Conditions::of_command(&line.split(' ').map(str::to_owned).collect::<Vec<_>>(), devices)
        };
        assert_eq!(of("measure stream --effort standard --out trace", 2), Conditions::default());
        let all = Conditions { bytes: Some(1 << 20), trace: true, concurrent: true, counters: true };
        assert_eq!(of("measure --trace --bytes 1MiB --concurrent --counters", 2), all);
        assert_eq!(
            of("measure --trace --bytes=1MiB --concurrent --counters", 1),
            Conditions { concurrent: false, ..all }
        );
        for unreadable in ["--bytes", "--bytes=", "--bytes --trace"] {
            assert_eq!(of(unreadable, 1).bytes, Some(0), "{unreadable}");
        }
    }
}
