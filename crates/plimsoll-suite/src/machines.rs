//! Machines by name: published data of GPUs, chips and CPUs ([`catalogue`]), of memory types ([`memory`]) and of CPU cores ([`cpus`]). Measured
//! figures are in the references and in profiles.

pub mod catalogue;
pub mod cpus;
pub mod memory;
pub mod rates;

use std::cell::RefCell;

use crate::spelling;

pub use catalogue::MACHINES;
pub use memory::{MemoryType, bandwidth_formula, peak_bandwidth, peak_bandwidth_from_driver};

/// The kind of arithmetic that a published peak is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Arithmetic {
    /// 64-bit floating point outside the matrix units.
    F64,
    /// 32-bit floating point outside the matrix units.
    F32,
    /// Packed 16-bit floating point outside the matrix units.
    F16,
    /// Packed bfloat16 outside the matrix units.
    Bf16,
    /// Dense 64-bit matrix products.
    F64Matrix,
    /// Dense matrix products of 32-bit numbers rounded to TF32.
    Tf32Matrix,
    /// Dense matrix products of f16 or bf16, accumulated in f32.
    F16Matrix,
    /// Dense matrix products of 8-bit floating point.
    F8Matrix,
    /// Dense matrix products of 8-bit integers.
    I8Matrix,
}

impl Arithmetic {
    /// Its name in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::F64 => "f64",
            Self::F32 => "f32",
            Self::F16 => "packed f16",
            Self::Bf16 => "packed bf16",
            Self::F64Matrix => "f64 matrix",
            Self::Tf32Matrix => "tf32 matrix",
            Self::F16Matrix => "f16 matrix",
            Self::F8Matrix => "f8 matrix",
            Self::I8Matrix => "i8 matrix",
        }
    }
}

/// Who makes a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Vendor {
    /// NVIDIA.
    Nvidia,
    /// AMD.
    Amd,
    /// Intel.
    Intel,
    /// Apple.
    Apple,
}

/// What a machine is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Class {
    /// A GPU with its own memory.
    Gpu,
    /// A CPU: one socket, with all its memory channels populated.
    Cpu,
    /// A chip whose CPU and GPU share one memory.
    Shared,
}

/// A machine as its vendor publishes it. `None` means 'not published, or not known for certain'.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Machine {
    /// The catalogue's name.
    pub name: &'static str,
    /// Other names, including those that drivers report.
    pub aliases: &'static [&'static str],
    /// Its maker.
    pub vendor: Vendor,
    /// What it is.
    pub class: Class,
    /// Type of the device memory.
    pub memory: MemoryType,
    /// Width of the memory bus in bits.
    pub bus_width_bits: u32,
    /// Memory clock in hertz, in the convention of [`MemoryType::transfers_per_clock`].
    pub memory_clock_hz: f64,
    /// Streaming multiprocessors, compute units, Xe cores, or CPU cores.
    pub multiprocessors: Option<u32>,
    /// L2 in bytes, all partitions together, where it is the last cache before memory.
    pub l2_bytes: Option<u64>,
    /// All caches that keep data from one launch to the next in bytes, where L2 isn't the last.
    pub caches_bytes: Option<u64>,
    /// L1 data cache of one multiprocessor or core in bytes, with shared memory where they are one.
    pub l1_bytes_per_multiprocessor: Option<u64>,
    /// CUDA compute capability, major and minor.
    pub compute_capability: Option<(u8, u8)>,
    /// Largest clock of the multiprocessors or cores in hertz.
    pub boost_clock_hz: Option<f64>,
    /// Power limit of the board in watts.
    pub power_w: Option<f64>,
    /// Published peaks in operations per second at the boost clock, without sparsity; a multiply-add counts as two.
    pub peaks: &'static [(Arithmetic, f64)],
    /// The source of the figures, and any correction.
    pub source: &'static str,
}

impl Machine {
    /// Theoretical memory bandwidth in bytes per second: bus width × transfers per clock × clock.
    #[must_use]
    pub fn peak_bandwidth(&self) -> f64 {
        peak_bandwidth(self.memory, self.bus_width_bits, self.memory_clock_hz)
    }

    /// Theoretical memory bandwidth as a formula: `5120 bit / 8 × 2 per clock (HBM2E) × 1.512 GHz`.
    #[must_use]
    pub fn bandwidth_formula(&self) -> String {
        memory::bandwidth_formula(self.memory, self.bus_width_bits, self.memory_clock_hz)
    }

    /// The most bytes that caches keep from one launch to the next; `None` where a size isn't published. The L1 caches of GPUs
    /// are emptied between launches.
    #[must_use]
    pub fn cached_bytes(&self) -> Option<u64> {
        self.caches_bytes.or(self.l2_bytes)
    }

    /// The published peak for one kind of arithmetic, in operations per second.
    #[must_use]
    pub fn peak(&self, arithmetic: Arithmetic) -> Option<f64> {
        self.peaks.iter().find(|(kind, _)| *kind == arithmetic).map(|(_, peak)| *peak)
    }
}

/// A machine name that doesn't identify one machine of the catalogue.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LookupError {
    /// No machine has this name.
    #[error(
        "no machine called {name:?} in the catalogue{}",
        spelling::did_you_mean(nearest).map_or_else(String::new, |question| format!("; {question}"))
    )]
    Unknown {
        /// The given name, shortened to 60 characters.
        name: String,
        /// The most similar names of the catalogue, best first; empty where none is similar enough.
        nearest: Vec<&'static str>,
    },
    /// Several machines have this name.
    #[error("{name:?} could be any of: {}; say which", candidates.join(", "))]
    Ambiguous {
        /// The given name, shortened to 60 characters.
        name: String,
        /// The machines that it could be.
        candidates: Vec<&'static str>,
    },
}

/// Words of vendor and brand, which don't identify the model, with the vendor that they name.
const BRANDS: &[(&str, Option<Vendor>)] = &[
    ("nvidia", Some(Vendor::Nvidia)),
    ("tesla", Some(Vendor::Nvidia)),
    ("geforce", Some(Vendor::Nvidia)),
    ("amd", Some(Vendor::Amd)),
    ("instinct", Some(Vendor::Amd)),
    ("intel", Some(Vendor::Intel)),
    ("apple", Some(Vendor::Apple)),
    ("corporation", None),
    ("graphics", None),
    ("processor", None),
    ("r", None),
    ("tm", None),
];
const NEAREST_SHOWN: usize = 4;
const LONGEST_NAME: usize = 60;

/// The machine called `name`, in upper or lower case, with or without the vendor, spaces and hyphens, as people or drivers write it
/// (`a100 80gb`, `NVIDIA A100-SXM4-80GB`, `NVIDIA H100 80GB HBM3`).
///
/// # Errors
/// [`LookupError::Ambiguous`] where the words fit several machines (`H100`), [`LookupError::Unknown`] where they fit none.
pub fn machine(name: &str) -> Result<&'static Machine, LookupError> {
    let shown: String = name.chars().take(LONGEST_NAME).collect();
    let words = words(&shown);
    let joined = words.concat();
    let vendors = vendors(&shown);
    let of_vendor = |machine: &&Machine| vendors.iter().all(|vendor| *vendor == machine.vendor);
    let names = |machine: &'static Machine| std::iter::once(machine.name).chain(machine.aliases.iter().copied());
    let exact = MACHINES
        .iter()
        .filter(of_vendor)
        .find(|machine| names(machine).any(|known| self::words(known).concat() == joined));
    if let Some(machine) = exact {
        return Ok(machine);
    }
    // Fewer words than a machine's name has match every machine that has them all.
    let fitting: Vec<&'static Machine> = MACHINES
        .iter()
        .filter(of_vendor)
        .filter(|machine| !words.is_empty() && names(machine).any(|known| has_all(known, &words)))
        .collect();
    match fitting.as_slice() {
        [machine] => Ok(machine),
        [] => Err(LookupError::Unknown { name: shown, nearest: nearest(&joined) }),
        several => Err(LookupError::Ambiguous {
            name: shown,
            candidates: several.iter().map(|machine| machine.name).collect(),
        }),
    }
}

/// Names that a thread remembers.
const REMEMBERED: usize = 8;

/// The machine that [`machine`] finds; `None` where it finds none or several. Each thread remembers the last names, because the files
/// of a fleet name the same machines again and again.
#[must_use]
pub fn find(name: &str) -> Option<&'static Machine> {
    thread_local! {
        static KNOWN: RefCell<Vec<(String, Option<&'static Machine>)>> = const { RefCell::new(Vec::new()) };
    }
    KNOWN.with_borrow_mut(|known| {
        if let Some((_, found)) = known.iter().find(|(remembered, _)| remembered == name) {
            return *found;
        }
        let found = machine(name).ok();
        known.insert(0, (name.to_owned(), found));
        known.truncate(REMEMBERED);
        found
    })
}

/// The words of a name without vendor and brand: lower case, split at anything but letters and digits.
fn words(name: &str) -> Vec<String> {
    name.to_lowercase()
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty() && BRANDS.iter().all(|(brand, _)| brand != word))
        .map(str::to_owned)
        .collect()
}

/// The vendors that a name mentions: a Tesla M4 isn't an Apple M4.
fn vendors(name: &str) -> Vec<Vendor> {
    let name = name.to_lowercase();
    let vendor = |word: &str| BRANDS.iter().find(|(brand, _)| *brand == word).and_then(|(_, vendor)| *vendor);
    name.split(|c: char| !c.is_alphanumeric()).filter_map(vendor).collect()
}

fn has_all(known: &str, words: &[String]) -> bool {
    let known = self::words(known);
    words.iter().all(|word| {
        // `SXM` matches `SXM4`; a model number matches only itself, so that `L4` doesn't find the L40.
        let is_prefix = word == "sxm";
        known.iter().any(|k| k == word || (is_prefix && k.starts_with(word.as_str())))
    })
}

/// Machines whose name or alias is similar to `joined`, best first.
fn nearest(joined: &str) -> Vec<&'static str> {
    let known: Vec<(String, &'static str)> = MACHINES
        .iter()
        .flat_map(|machine| std::iter::once(&machine.name).chain(machine.aliases).map(|known| (*known, machine.name)))
        .map(|(known, name)| (words(known).concat(), name))
        .collect();
    let mut names: Vec<&'static str> = Vec::new();
    for similar in spelling::nearest(joined, known.iter().map(|(joined, _)| joined.as_str()), known.len()) {
        names.extend(known.iter().filter(|(joined, _)| joined == similar).map(|(_, name)| *name));
    }
    // A machine with several similar aliases is listed once, at the best of them.
    let mut seen = std::collections::HashSet::new();
    names.retain(|name| seen.insert(*name));
    names.truncate(NEAREST_SHOWN);
    names
}

#[cfg(test)]
mod tests;
