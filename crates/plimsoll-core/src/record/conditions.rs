//! The conditions of a run. The reader decides which of them make its figures unsuitable for a purpose.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::unit::ByteSize;

/// The options of a run other than its probes and its effort.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Conditions {
    /// A size that replaces the probes' default, bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Every launch was recorded from the first one on, without warm-up.
    pub trace: bool,
    /// Several devices were measured at once.
    pub concurrent: bool,
    /// Hardware counters were read in addition to the times.
    pub counters: bool,
}

impl Conditions {
    /// Guesses the conditions from the command line, for older headers that don't contain them. A size that can't be parsed
    /// becomes 0. `devices` is the run's number of devices.
    pub(super) fn from_command(argv: &[String], devices: usize) -> Self {
        let has = |option: &str| argv.iter().any(|word| word == option);
        let value = |option: &str| {
            let joined = |word: &str| Some(word.strip_prefix(option)?.strip_prefix('=')?.to_owned());
            let (place, word) = argv.iter().enumerate().find(|(_, word)| *word == option || joined(word).is_some())?;
            Some(joined(word).or_else(|| argv.get(place + 1).cloned()).unwrap_or_default())
        };
        let bytes = value("--bytes").map(|size| size.parse().map_or(0, |ByteSize(bytes)| bytes));
        let concurrent = has("--concurrent") && devices > 1;
        Self { bytes, trace: has("--trace"), concurrent, counters: has("--counters") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_of_older_records_come_from_the_command_line() {
        let parse = |line: &str, devices| {
            Conditions::from_command(&line.split(' ').map(str::to_owned).collect::<Vec<_>>(), devices)
        };
        assert_eq!(parse("measure stream --effort standard --out trace", 2), Conditions::default());
        let all = Conditions { bytes: Some(1 << 20), trace: true, concurrent: true, counters: true };
        assert_eq!(parse("measure --trace --bytes 1MiB --concurrent --counters", 2), all);
        assert_eq!(
            parse("measure --trace --bytes=1MiB --concurrent --counters", 1),
            Conditions { concurrent: false, ..all }
        );
        for unreadable in ["--bytes", "--bytes=", "--bytes --trace"] {
            assert_eq!(parse(unreadable, 1).bytes, Some(0), "{unreadable}");
        }
    }
}
