//! Choosing among a probe's kernels by their properties: `index=32,64 vector=1,2,4`.

use std::collections::BTreeSet;
use std::str::FromStr;

use super::{Index, KernelDesc};

/// A property that distinguishes kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Axis {
    /// The operation: `copy`, `triad`; `naive`, `vector`.
    Op,
    /// Width of the indices in bits.
    Index,
    /// Elements per access.
    Vector,
    /// Bytes per access.
    Bytes,
    /// Vectors of each array that a thread holds at once.
    Unroll,
    /// Threads per block.
    Threads,
    /// `one` or `loop`.
    Form,
    /// Element type: `u32`, `f32`, `f64`.
    Element,
    /// Cache hints as bits: 1 for loads that bypass L1 or evict-last bulk copies, 2 for streaming stores.
    Hints,
    /// Arrays read.
    Reads,
    /// Arrays written.
    Writes,
}

impl Axis {
    /// Every axis with the name that users write.
    pub const ALL: [(&'static str, Self); 11] = [
        ("op", Self::Op),
        ("index", Self::Index),
        ("vector", Self::Vector),
        ("bytes", Self::Bytes),
        ("unroll", Self::Unroll),
        ("threads", Self::Threads),
        ("form", Self::Form),
        ("element", Self::Element),
        ("hints", Self::Hints),
        ("reads", Self::Reads),
        ("writes", Self::Writes),
    ];

    /// A kernel's value on this axis.
    #[must_use]
    pub fn value_of(self, kernel: &KernelDesc) -> String {
        match self {
            Self::Op => operation_name(kernel),
            Self::Index => if kernel.index == Index::U32 { "32" } else { "64" }.to_owned(),
            Self::Vector => kernel.lanes().to_string(),
            Self::Bytes => kernel.vector_bytes.to_string(),
            Self::Unroll => kernel.unroll.to_string(),
            Self::Threads => kernel.threads.to_string(),
            Self::Form => if kernel.looping { "loop" } else { "one" }.to_owned(),
            Self::Element => kernel.element.name().to_owned(),
            Self::Hints => kernel.hints.bits().to_string(),
            Self::Reads => kernel.inputs.to_string(),
            Self::Writes => kernel.outputs.to_string(),
        }
    }
}

/// The operation that a kernel states, else the word after the probe's in its name.
fn operation_name(kernel: &KernelDesc) -> String {
    let word = || kernel.name.split('_').nth(1).unwrap_or_default();
    if kernel.does.is_empty() { word() } else { kernel.does }.to_owned()
}

/// Some values of one axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The axis.
    pub axis: Axis,
    /// Its values as the user wrote them, in that order.
    pub values: Vec<String>,
}

/// A choice that can't be applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChoiceError {
    /// Malformed text.
    #[error("'{0}' is not a choice: write one like index=32,64")]
    Form(String),
    /// Unknown axis.
    #[error("no axis '{name}': the axes are {}", known.join(", "))]
    Axis {
        /// The name as written.
        name: String,
        /// The known axes.
        known: Vec<&'static str>,
    },
    /// No kernel has the value.
    #[error("no kernel with {axis}={value}: the values are {}", known.join(", "))]
    Value {
        /// The axis.
        axis: &'static str,
        /// The value as written.
        value: String,
        /// The values that kernels have.
        known: Vec<String>,
    },
    /// Each value exists, but no kernel has all of them.
    #[error("no kernel has all of these values")]
    None,
}

impl FromStr for Choice {
    type Err = ChoiceError;

    fn from_str(text: &str) -> Result<Self, ChoiceError> {
        let brief = |text: &str| text.chars().take(40).collect::<String>();
        let (name, values) = text.split_once('=').ok_or_else(|| ChoiceError::Form(brief(text)))?;
        let values: Vec<String> = values.split(',').map(|value| value.trim().to_owned()).collect();
        if values.iter().any(String::is_empty) {
            return Err(ChoiceError::Form(brief(text)));
        }
        let axis = Axis::ALL.iter().find(|(known, _)| *known == name.trim());
        let known = || Axis::ALL.map(|(known, _)| known).to_vec();
        let axis = axis.ok_or_else(|| ChoiceError::Axis { name: brief(name), known: known() })?.1;
        Ok(Self { axis, values })
    }
}

/// The kernels that match all choices, ordered by the first choice's values, then the second's, and so on.
///
/// # Errors
/// A value that no kernel has, or a combination of values that no kernel has.
pub fn choose(kernels: Vec<KernelDesc>, choices: &[Choice]) -> Result<Vec<KernelDesc>, ChoiceError> {
    for Choice { axis, values } in choices {
        let known: BTreeSet<String> = kernels.iter().map(|kernel| axis.value_of(kernel)).collect();
        if let Some(value) = values.iter().find(|value| !known.contains(*value)) {
            let mut known: Vec<String> = known.into_iter().collect();
            known.sort_by_key(|value| (value.parse::<u32>().unwrap_or(0), value.clone()));
            let name = Axis::ALL.iter().find(|(_, known)| known == axis).map_or("", |(name, _)| *name);
            return Err(ChoiceError::Value { axis: name, value: value.chars().take(40).collect(), known });
        }
    }
    let rank = |choice: &Choice, kernel: &KernelDesc| {
        let value = choice.axis.value_of(kernel);
        choice.values.iter().position(|chosen| *chosen == value)
    };
    let ranks = |kernel: &KernelDesc| choices.iter().map(|choice| rank(choice, kernel)).collect::<Option<Vec<usize>>>();
    let mut chosen: Vec<(Vec<usize>, KernelDesc)> =
        kernels.into_iter().filter_map(|kernel| ranks(&kernel).map(|ranks| (ranks, kernel))).collect();
    if chosen.is_empty() {
        return Err(ChoiceError::None);
    }
    chosen.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(chosen.into_iter().map(|(_, kernel)| kernel).collect())
}
