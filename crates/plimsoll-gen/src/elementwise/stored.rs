//! Tuned plans as text, for files: what a plan was tuned for, and the choices that lead to it. A file is untrusted: whatever it holds, its
//! choices are only those that a user could make, and the planner checks them again.

use plimsoll_expr::Graph;
use serde::{Deserialize, Serialize};

use super::accuracy::meaning;
use super::{Choose, Dependent, Form, Indexing, KernelSpec, Tier, generate};
use crate::kernel::Hints;

/// The version of this text.
const FORMAT: u32 = 1;

/// What a plan was tuned for. A plan is used only for an equal key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TunedFor {
    /// The version of the text.
    format: u32,
    /// The device's model, with the versions of its driver and compiler.
    pub device: String,
    /// A hash of the text of the untuned plan's kernel and of all headers: another version of the planner or of the kernels tunes again.
    pub kernels: String,
    /// The expression with plain names and its types.
    pub expression: String,
    tier: Tier,
    extents: Vec<u64>,
    strides: Vec<Vec<i64>>,
    phases: Vec<u32>,
    dependent: bool,
    cached: bool,
}

impl TunedFor {
    /// The key of an expression on given tensors. `untuned` is the kernel of the planner's own plan; of `base` only the tier, the kind of
    /// launch and the state of the cache count.
    #[must_use]
    pub fn new(device: &str, graph: &Graph, indexing: &Indexing, untuned: &KernelSpec, base: &Choose) -> Self {
        let generated = generate(untuned);
        let headers = generated.headers.iter().flat_map(|(name, text)| [name.as_bytes(), text.as_bytes()]);
        let kernels = [env!("CARGO_PKG_VERSION").as_bytes(), generated.text.as_bytes()];
        Self {
            format: FORMAT,
            device: device.to_owned(),
            kernels: format!("{:016x}", fnv(kernels.into_iter().chain(headers))),
            expression: meaning(graph, base.tier).with_plain_names().to_string(),
            tier: base.tier,
            extents: indexing.extents.clone(),
            strides: indexing.accesses.iter().map(|access| access.strides.clone()).collect(),
            phases: indexing.accesses.iter().map(|access| access.phase).collect(),
            dependent: base.dependent,
            cached: base.cached,
        }
    }

    /// A name for the key's file: 16 hexadecimal digits. Keys with the same name are told apart by the file's content.
    #[must_use]
    pub fn file_stem(&self) -> String {
        format!("{:016x}", fnv([serde_json::to_string(self).unwrap_or_default().as_bytes()]))
    }
}

/// The 64-bit hash FNV-1a of the parts with their lengths.
fn fnv<'p>(parts: impl IntoIterator<Item = &'p [u8]>) -> u64 {
    let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    parts.into_iter().fold(0xcbf2_9ce4_8422_2325, |hash, part| {
        let hash = (part.len() as u64).to_le_bytes().iter().fold(hash, mix);
        part.iter().fold(hash, mix)
    })
}

/// A plan that was the fastest, or the planner's own if no other was faster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TunedEntry {
    /// What it was tuned for.
    pub tuned_for: TunedFor,
    /// Seconds of a launch with the planner's own plan.
    pub untuned_seconds: f64,
    /// Seconds of a launch with this plan.
    pub seconds: f64,
    choices: Choices,
}

/// The stored part of [`Choose`]; the key has the rest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Choices {
    #[serde(skip_serializing_if = "Option::is_none")]
    form: Option<Form>,
    #[serde(skip_serializing_if = "Option::is_none")]
    vector: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unroll: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    threads: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hints: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    release: Option<Dependent>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prefetch: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resident: Option<u32>,
}

/// A text that holds no tuned plan of this version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a tuned plan of this version: {0}")]
pub struct TunedEntryError(String);

impl TunedEntry {
    /// The choices of a plan, with the seconds of a launch by the planner's own plan and by this one.
    #[must_use]
    pub fn new(tuned_for: TunedFor, choose: &Choose, (untuned_seconds, seconds): (f64, f64)) -> Self {
        let choices = Choices {
            form: choose.form,
            vector: choose.vector,
            unroll: choose.unroll,
            threads: choose.threads,
            hints: choose.hints.map(Hints::bits),
            release: choose.release,
            prefetch: choose.prefetch,
            resident: choose.resident,
        };
        Self { tuned_for, untuned_seconds, seconds, choices }
    }

    /// Reads what [`TunedEntry::to_json`] writes.
    ///
    /// # Errors
    /// For any other text, choices that tuning never makes, or times that aren't positive.
    pub fn from_json(text: &str) -> Result<Self, TunedEntryError> {
        let entry: Self = serde_json::from_str(text).map_err(|error| TunedEntryError(error.to_string()))?;
        let fault = |why: &str| Err(TunedEntryError(why.to_owned()));
        if entry.tuned_for.format != FORMAT {
            return fault("it has another format");
        }
        let is_time = |seconds: f64| seconds.is_finite() && seconds > 0.0;
        if !is_time(entry.seconds) || !is_time(entry.untuned_seconds) {
            return fault("a time isn't positive");
        }
        // After such a launch, kernels of others may not access memory early; nobody asked for that here.
        if entry.choices.release == Some(Dependent::Start) {
            return fault("tuning never chooses release=start");
        }
        if entry.choices.form == Some(Form::Batch) || entry.choices.hints.is_some_and(|hints| hints > 3) {
            return fault("a choice is impossible");
        }
        Ok(entry)
    }

    /// The entry as JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// The choices, with the tier, the kind of launch and the state of the cache of `base`.
    #[must_use]
    pub fn choose(&self, base: &Choose) -> Choose {
        let Choices { form, vector, unroll, threads, hints, release, prefetch, resident } = self.choices;
        let hints = hints.map(|bits| Hints { load_no_allocate: bits & 1 != 0, store_streaming: bits & 2 != 0 });
        Choose { form, vector, unroll, threads, hints, release, prefetch, resident, ..*base }
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_expr::{DType, Names, parse};

    use super::super::{Access, Device, Table, plan};
    use super::*;
    use crate::Target;

    fn key(text: &str, elements: u64, base: &Choose) -> TunedFor {
        let graph = parse(text, &Names::with_default(DType::F32)).unwrap();
        let access = Access { strides: vec![1], phase: 0 };
        let tensors = graph.inputs().len() + graph.outputs().len();
        let indexing = Indexing { extents: vec![elements], accesses: vec![access; tensors] };
        let target = Target::plain(90);
        let device = Device { target, multiprocessors: 132, threads_per_multiprocessor: 2048, l2_bytes: 60 << 20 };
        let untuned = plan(&graph, &indexing, &device, &Table::default(), base).unwrap().spec;
        TunedFor::new("GPU", &graph, &indexing, &untuned, base)
    }

    #[test]
    fn an_entry_survives_a_round_trip() {
        let base = Choose { dependent: true, ..Choose::default() };
        let hints = Hints { load_no_allocate: true, store_streaming: false };
        let choose = Choose {
            form: Some(Form::Bulk),
            vector: Some(8),
            unroll: Some(3),
            threads: Some(96),
            hints: Some(hints),
            release: Some(Dependent::Exit),
            prefetch: Some(false),
            resident: Some(0),
            ..base
        };
        for choose in [choose, base] {
            let entry = TunedEntry::new(key("x + y", 1 << 20, &base), &choose, (2e-6, 1.5e-6));
            let again = TunedEntry::from_json(&entry.to_json()).unwrap();
            assert_eq!((again.choose(&base), &again), (choose, &entry));
        }
    }

    #[test]
    fn keys_differ_by_expression_size_and_launch_but_not_by_names() {
        let base = Choose::default();
        let own = key("x + y", 1 << 20, &base);
        assert_eq!(own, key("first + second", 1 << 20, &base));
        let others = [
            key("x * y", 1 << 20, &base),
            key("x + y", 1 << 21, &base),
            key("x + y", 1 << 20, &Choose { dependent: true, ..base }),
            key("x + y", 1 << 20, &Choose { cached: true, ..base }),
            key("x + y", 1 << 20, &Choose { tier: Tier::Fast, ..base }),
        ];
        for other in others {
            assert!(other != own && other.file_stem() != own.file_stem(), "{other:?}");
        }
    }

    #[test]
    fn damaged_entries_and_impossible_choices_are_refused() {
        let base = Choose { dependent: true, ..Choose::default() };
        let start = Choose { release: Some(Dependent::Start), ..base };
        let text = |choose: &Choose, times| TunedEntry::new(key("x", 1 << 20, &base), choose, times).to_json();
        let whole = text(&Choose { threads: Some(64), ..base }, (1.0, 1.0));
        TunedEntry::from_json(&whole).unwrap();
        let newer = whole.replace("\"format\": 1", "\"format\": 2");
        let more = whole.replace("\"threads\": 64", "\"threads\": 64, \"other\": 1");
        for wrong in
            [&whole[..whole.len() / 2], "", "[]", &newer, &more, &text(&start, (1.0, 1.0)), &text(&base, (0.0, 1.0))]
        {
            assert!(TunedEntry::from_json(wrong).is_err(), "{wrong}");
        }
    }
}
