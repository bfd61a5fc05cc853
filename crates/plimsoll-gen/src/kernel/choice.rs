//! Choosing among a probe's kernels by what they state: `index=32,64 vector=1,2,4`.

use std::collections::BTreeSet;
use std::str::FromStr;

use super::{Index, KernelDesc};

/// A property by which kernels are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Axis {
    /// What it does: `copy`, `triad`; `naive`, `vector`.
    Op,
    /// Width of the indices in bits.
    Index,
    /// Elements per access.
    Vector,
    /// Bytes per access.
    Bytes,
    /// Vectors of each array in hand at once.
    Unroll,
    /// Threads per block.
    Threads,
    /// `one` or `loop`.
    Form,
    /// What the arrays hold: `u32`, `f32`, `f64`.
    Element,
    /// Cache hints as bits: 1 loads past the first level, or bulk copies that keep what they read in the second, 2 streaming stores.
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

    /// Where a kernel stands on it.
    #[must_use]
    pub fn of(self, kernel: &KernelDesc) -> String {
        match self {
            Self::Op => op(kernel),
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

/// What a kernel says that it does, else the word after the probe's in its name.
fn op(kernel: &KernelDesc) -> String {
    let word = || kernel.name.split('_').nth(1).unwrap_or_default();
    if kernel.does.is_empty() { word() } else { kernel.does }.to_owned()
}

/// Some values of one axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Which.
    pub axis: Axis,
    /// As users write them, in their order.
    pub values: Vec<String>,
}

/// Why kernels can't be chosen so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChoiceError {
    /// The text has another form.
    #[error("'{0}' is no choice: write one like index=32,64")]
    Form(String),
    /// No such axis.
    #[error("no axis '{name}': there are {}", known.join(", "))]
    Axis {
        /// As written.
        name: String,
        /// Those that there are.
        known: Vec<&'static str>,
    },
    /// No kernel has the value.
    #[error("no kernel with {axis}={value}: there are {}", known.join(", "))]
    Value {
        /// As written.
        axis: &'static str,
        /// As written.
        value: String,
        /// Those that there are.
        known: Vec<String>,
    },
    /// Every value is there, but no kernel has them all.
    #[error("no kernel has all of these together")]
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

/// The kernels that all choices let through, ordered by the first choice's values, then the second's.
///
/// # Errors
/// A value that no kernel has, with those that there are; values that never meet.
pub fn choose(kernels: Vec<KernelDesc>, choices: &[Choice]) -> Result<Vec<KernelDesc>, ChoiceError> {
    for Choice { axis, values } in choices {
        let known: BTreeSet<String> = kernels.iter().map(|kernel| axis.of(kernel)).collect();
        if let Some(value) = values.iter().find(|value| !known.contains(*value)) {
            let mut known: Vec<String> = known.into_iter().collect();
            known.sort_by_key(|value| (value.parse::<u32>().unwrap_or(0), value.clone()));
            let name = Axis::ALL.iter().find(|(_, of)| of == axis).map_or("", |(name, _)| *name);
            return Err(ChoiceError::Value { axis: name, value: value.chars().take(40).collect(), known });
        }
    }
    let place = |choice: &Choice, kernel: &KernelDesc| {
        let value = choice.axis.of(kernel);
        choice.values.iter().position(|chosen| *chosen == value)
    };
    let places =
        |kernel: &KernelDesc| choices.iter().map(|choice| place(choice, kernel)).collect::<Option<Vec<usize>>>();
    let mut chosen: Vec<(Vec<usize>, KernelDesc)> =
        kernels.into_iter().filter_map(|kernel| places(&kernel).map(|places| (places, kernel))).collect();
    if chosen.is_empty() {
        return Err(ChoiceError::None);
    }
    chosen.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(chosen.into_iter().map(|(_, kernel)| kernel).collect())
}
