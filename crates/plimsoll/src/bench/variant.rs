//! Parses the choices by hand in a plan: `vector=4,8,16 unroll=1,2` means every combination. The planner decides whether a choice
//! is possible.

use std::collections::BTreeSet;
use std::fmt;

use plimsoll_gen::elementwise::{Choose, Dependent, Form, GridPolicy, Tier};
use plimsoll_gen::kernel::{Hints, Index};
use plimsoll_suite::bench::PLANNED;

/// The names of cache hints, indexed by their bits.
const HINTS: [&str; 4] = ["none", "loads", "stores", "both"];
/// The most combinations.
const MOST: usize = 4096;
/// The sweep behind `--variant all`: grid × vector × unroll × index × hints.
pub const ALL: [&str; 5] =
    ["grid=cover,waves:1,waves:32", "vector=4,8,16", "unroll=1,2,4", "index=32,64", "hints=none,loads,stores,both"];
/// The axes and their values, for messages.
const AXES: &str = "vector=BYTES unroll=N threads=N index=32|64 hints=none|loads|stores|both grid=cover|waves:N form=NAME \
                    tier=exact|accurate|fast|full release=start|early|tail|late|exit|none prefetch=yes|no \
                    resident=BLOCKS";

/// The choices by hand in a plan; the default leaves everything to the planner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Variant(pub Choose);

/// Why a text isn't a valid choice.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VariantError {
    /// An unknown axis or value.
    #[error("'{0}' is not a valid choice: write {AXES}")]
    Unknown(String),
    /// An axis or a value that is named twice.
    #[error("'{0}' is chosen twice: write all values of an axis once, as vector=4,8,16")]
    Twice(String),
    /// Too many combinations.
    #[error("{0} combinations: at most {MOST}")]
    TooMany(usize),
}

/// Every combination of the values; the first axis varies slowest.
///
/// # Errors
/// For an unknown or repeated axis or value, or too many combinations.
pub fn variants(axes: &[impl AsRef<str>]) -> Result<Vec<Variant>, VariantError> {
    let mut all = vec![Variant::default()];
    let mut names = BTreeSet::new();
    for axis in axes {
        let axis = axis.as_ref();
        let unknown = || VariantError::Unknown(axis.chars().take(60).collect());
        let (name, values) = axis.split_once('=').ok_or_else(unknown)?;
        let values: Vec<&str> = values.split(',').collect();
        if !names.insert(name) || values.iter().collect::<BTreeSet<_>>().len() < values.len() {
            return Err(VariantError::Twice(axis.chars().take(60).collect()));
        }
        let count = all.len() * values.len();
        if count > MOST {
            return Err(VariantError::TooMany(count));
        }
        let mut next = Vec::with_capacity(count);
        for variant in &all {
            for value in &values {
                let mut variant = *variant;
                variant.set(name, value).ok_or_else(unknown)?;
                next.push(variant);
            }
        }
        all = next;
    }
    Ok(all)
}

impl Variant {
    /// Sets one axis; `None` if the axis or the value is unknown.
    fn set(&mut self, name: &str, value: &str) -> Option<()> {
        let number = || value.parse::<u32>().ok().filter(|number| *number > 0);
        let choose = &mut self.0;
        match name {
            "vector" => choose.vector = Some(number()?),
            "unroll" => choose.unroll = Some(number()?),
            "threads" => choose.threads = Some(number()?),
            "form" => choose.form = Some(Form::ALL.into_iter().find(|form| form.name() == value)?),
            "hints" => {
                let bits = HINTS.iter().position(|known| *known == value)?;
                choose.hints = Some(Hints { load_no_allocate: bits & 1 != 0, store_streaming: bits & 2 != 0 });
            }
            "index" => {
                choose.index = Some(match value {
                    "32" => Index::U32,
                    "64" => Index::U64,
                    _ => return None,
                });
            }
            "grid" => {
                choose.grid = Some(match value.split_once(':') {
                    None if value == "cover" => GridPolicy::Cover,
                    Some(("waves", waves)) => {
                        GridPolicy::Stride { waves: waves.parse().ok().filter(|waves| *waves > 0)? }
                    }
                    _ => return None,
                });
            }
            "tier" => {
                choose.tier = Tier::ALL.into_iter().find(|tier| tier.name() == value)?;
            }
            "prefetch" => {
                choose.prefetch = Some(match value {
                    "yes" => true,
                    "no" => false,
                    _ => return None,
                });
            }
            "resident" => choose.resident = Some(value.parse().ok()?),
            "release" => {
                choose.release = Some(Dependent::ALL.into_iter().find(|release| release.name() == value)?);
            }
            _ => return None,
        }
        Some(())
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let choose = &self.0;
        let mut words = Vec::new();
        let mut word = |name: &str, value: Option<String>| words.extend(value.map(|value| format!("{name}={value}")));
        word("form", choose.form.map(|form| form.name().to_owned()));
        word("vector", choose.vector.map(|bytes| bytes.to_string()));
        word("unroll", choose.unroll.map(|count| count.to_string()));
        word("threads", choose.threads.map(|count| count.to_string()));
        word("hints", choose.hints.map(|hints| HINTS[hints.bits() as usize & 3].to_owned()));
        word("index", choose.index.map(|index| if index == Index::U32 { "32" } else { "64" }.to_owned()));
        word(
            "grid",
            choose.grid.map(|grid| match grid {
                GridPolicy::Cover => "cover".to_owned(),
                GridPolicy::Stride { waves } => format!("waves:{waves}"),
            }),
        );
        word("tier", (choose.tier != Tier::Accurate).then(|| choose.tier.name().to_owned()));
        word("release", choose.release.map(|release| release.name().to_owned()));
        word("prefetch", choose.prefetch.map(|prefetch| if prefetch { "yes" } else { "no" }.to_owned()));
        word("resident", choose.resident.map(|blocks| blocks.to_string()));
        if words.is_empty() { f.write_str(PLANNED) } else { f.write_str(&words.join(" ")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_several_axes_give_every_combination() {
        let all = variants(&["vector=4,16", "unroll=1,2"]).unwrap();
        let words: Vec<String> = all.iter().map(Variant::to_string).collect();
        assert_eq!(words, ["vector=4 unroll=1", "vector=4 unroll=2", "vector=16 unroll=1", "vector=16 unroll=2"]);
        for twice in [&["vector=4", "vector=8"][..], &["unroll=1,2,1"]] {
            assert!(matches!(variants(twice), Err(VariantError::Twice(_))), "{twice:?}");
        }
        assert_eq!(variants(&[""; 0]).unwrap()[0].to_string(), "planned");
        assert_eq!(variants(&ALL).unwrap().len(), 216);
    }

    #[test]
    fn printed_choices_parse_to_the_same_choices() {
        let text = ["form=bulk", "vector=8", "unroll=4", "threads=128", "hints=both", "index=32", "grid=waves:8"];
        let all = variants(&[&text[..], &["tier=fast", "release=late"]].concat()).unwrap();
        for alone in [
            "tier=full",
            "release=start",
            "release=early",
            "release=exit",
            "release=none",
            "prefetch=yes",
            "prefetch=no",
            "resident=0",
        ] {
            assert_eq!(variants(&[alone]).unwrap()[0].to_string(), alone);
        }
        let words = all[0].to_string();
        assert_eq!(variants(&words.split(' ').collect::<Vec<_>>()).unwrap(), all);
    }

    #[test]
    fn invalid_choices_are_refused_with_a_list_of_valid_ones() {
        for text in [
            "vector",
            "vector=",
            "vector=0",
            "lanes=4",
            "hints=some",
            "grid=waves:0",
            "index=16",
            "prefetch=maybe",
            "=",
            "form=x",
        ] {
            let error = variants(&[text]).unwrap_err().to_string();
            assert!(error.contains("vector=BYTES"), "{text}: {error}");
        }
        let numbers = (1..=100).map(|number| number.to_string()).collect::<Vec<String>>().join(",");
        let many = ["vector", "unroll"].map(|axis| format!("{axis}={numbers}"));
        assert_eq!(variants(&many).unwrap_err(), VariantError::TooMany(10_000));
    }
}
