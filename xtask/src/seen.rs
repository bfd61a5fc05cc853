//! Units that were compiled and checked before. A unit is identified by a digest of everything that its machine code and its
//! facts depend on: its text, headers, options and target, the descriptions of its kernels, both tools, the code that parses
//! listings, and the facts themselves. Known units aren't compiled again, unless `--all` is given.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};
use plimsoll_cuda::compile::Program;
use plimsoll_gen::sass::expect::Facts;

use crate::test::root;
use crate::tools::Tools;

/// Files and folders, below the repository's root, of the code that parses and checks machine code.
const CHECKERS: [&str; 5] = [
    "crates/plimsoll-gen/src/sass",
    "crates/plimsoll-gen/src/elementwise/representative.rs",
    "xtask/src/sass.rs",
    "xtask/src/forms.rs",
    "xtask/src/bodies.rs",
];

/// Registers and instructions of kernels of one unit, by name.
pub type Counts = BTreeMap<String, (u32, u32)>;

/// The digests of earlier runs and of this one.
pub struct Seen {
    before: BTreeMap<String, String>,
    now: Mutex<BTreeMap<String, String>>,
    committed: BTreeMap<String, Facts>,
    tools: blake3::Hash,
    all: bool,
}

/// A unit: its name, and the digest of everything it is made from.
pub struct Unit {
    name: String,
    digest: blake3::Hash,
}

fn folder() -> PathBuf {
    root().join("crates/plimsoll-gen/facts")
}

fn file() -> PathBuf {
    folder().join("seen.txt")
}

/// Hashes a file, or all files of a folder in the order of their names.
fn hash(path: &Path, hasher: &mut blake3::Hasher) -> Result<()> {
    if path.is_dir() {
        let entries = std::fs::read_dir(path).with_context(|| format!("can't read {}", path.display()))?;
        let mut paths: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
        paths.sort();
        return paths.iter().try_for_each(|path| hash(path, hasher));
    }
    let text = std::fs::read(path).with_context(|| format!("can't read {}", path.display()))?;
    hasher.update(&(text.len() as u64).to_le_bytes()).update(&text);
    Ok(())
}

impl Seen {
    /// Loads the digests of earlier runs and the committed facts. With `all`, no unit counts as known.
    pub fn open(tools: &Tools, all: bool) -> Result<Self> {
        let mut hasher = blake3::Hasher::new();
        hasher.update(tools.versions.as_bytes());
        CHECKERS.iter().try_for_each(|path| hash(&root().join(path), &mut hasher))?;
        let text = std::fs::read_to_string(file()).unwrap_or_default();
        let before = text.lines().filter_map(|line| line.split_once(' ')).map(|(digest, name)| (name, digest));
        let before = before.map(|(name, digest)| (name.to_owned(), digest.to_owned())).collect();
        let entries = std::fs::read_dir(folder()).context("can't read the folder of facts")?;
        let mut committed = BTreeMap::new();
        for path in entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<PathBuf>>>()? {
            let (Some(name), Some("json")) = (path.file_stem(), path.extension().and_then(|end| end.to_str())) else {
                continue;
            };
            let facts = serde_json::from_str(&std::fs::read_to_string(&path)?);
            let facts = facts.with_context(|| format!("{} is damaged", path.display()))?;
            committed.insert(name.to_string_lossy().into_owned(), facts);
        }
        Ok(Self { before, now: Mutex::default(), committed, tools: hasher.finalize(), all })
    }

    /// A unit with its unique name, its program, and the descriptions that it is checked against.
    pub fn unit(&self, name: String, program: &Program<'_>, stated: &str) -> Unit {
        let mut hasher = blake3::Hasher::new();
        let headers = program.headers.iter().flat_map(|(name, text)| [*name, *text]);
        let options = program.options.iter().map(String::as_str);
        for part in [program.source, program.target, stated].into_iter().chain(headers).chain(options) {
            hasher.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
        }
        hasher.update(self.tools.as_bytes());
        Unit { name, digest: hasher.finalize() }
    }

    /// The committed facts of a unit's kernels, from the file `facts`, if the unit was checked before with exactly these.
    pub fn known<'k>(
        &self,
        unit: &Unit,
        facts: &str,
        kernels: impl Iterator<Item = &'k str>,
        target: &str,
    ) -> Option<Counts> {
        let committed = self.committed.get(facts).filter(|_| !self.all)?;
        let counts = |kernel: &str| Some((kernel.to_owned(), *committed.get(kernel)?.get(target)?));
        let counts: Counts = kernels.filter_map(counts).collect();
        (self.before.get(&unit.name)? == &digest(unit, &counts)).then(|| {
            self.note(unit, &counts);
            counts
        })
    }

    /// Notes that a unit was checked, with its facts.
    pub fn note(&self, unit: &Unit, counts: &Counts) {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        now.insert(unit.name.clone(), digest(unit, counts));
    }

    /// Prints how many units were compiled because they changed, so that somebody blesses them.
    pub fn report(&self) {
        let now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = now.iter().filter(|(name, digest)| self.before.get(*name) != Some(*digest)).count();
        if changed > 0 && !self.all {
            eprintln!("{changed} of {} units changed and were compiled; --bless notes them as checked", now.len());
        }
    }

    /// Writes the digests; unless `whole`, those of units that weren't checked in this run are kept.
    pub fn write(&self, whole: bool) -> Result<()> {
        let mut kept = if whole { BTreeMap::new() } else { self.before.clone() };
        kept.extend(self.now.lock().unwrap_or_else(PoisonError::into_inner).clone());
        let mut text = String::new();
        for (name, digest) in &kept {
            writeln!(text, "{digest} {name}")?;
        }
        std::fs::write(file(), text).with_context(|| format!("can't write {}", file().display()))
    }
}

/// The first 16 digits of the digest of a unit with its facts.
fn digest(unit: &Unit, counts: &Counts) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(unit.digest.as_bytes());
    for (name, (registers, instructions)) in counts {
        hasher.update(name.as_bytes()).update(&registers.to_le_bytes()).update(&instructions.to_le_bytes());
    }
    hasher.finalize().to_hex()[..16].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KERNELS: [&str; 2] = ["a", "b"];

    fn seen(registers: u32) -> Seen {
        let facts = KERNELS.map(|name| (name.to_owned(), [("sm_90".to_owned(), (registers, 20))].into()));
        let committed = [("some".to_owned(), Facts::from(facts))].into();
        Seen { before: BTreeMap::new(), now: Mutex::default(), committed, tools: blake3::hash(b"tools"), all: false }
    }

    fn unit(seen: &Seen, source: &str, stated: &str) -> Unit {
        let program = Program { name: "some.cu", source, headers: &[("h.h", "text")], options: &[], target: "sm_90" };
        seen.unit("some sm_90".to_owned(), &program, stated)
    }

    fn known(seen: &Seen, unit: &Unit) -> bool {
        seen.known(unit, "some", KERNELS.into_iter(), "sm_90").is_some()
    }

    #[test]
    fn a_unit_is_known_only_with_the_same_text_description_tools_and_facts() {
        let mut first = seen(10);
        let noted = unit(&first, "text", "stated");
        assert!(!known(&first, &noted));
        first.note(&noted, &KERNELS.map(|name| (name.to_owned(), (10, 20))).into());
        first.before = first.now.lock().unwrap().clone();
        assert!(known(&first, &unit(&first, "text", "stated")));
        assert!(!known(&first, &unit(&first, "text2", "stated")));
        assert!(!known(&first, &unit(&first, "text", "stated2")));
        let before = first.before.clone();
        assert!(!known(&Seen { all: true, before: before.clone(), ..seen(10) }, &noted));
        assert!(!known(&Seen { before: before.clone(), ..seen(11) }, &noted), "the facts were changed by hand");
        let tools = Seen { before, tools: blake3::hash(b"others"), ..seen(10) };
        assert!(!known(&tools, &unit(&tools, "text", "stated")));
    }
}
