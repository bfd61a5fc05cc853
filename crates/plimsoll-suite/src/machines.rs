//! Machines by name: what their vendors publish about GPUs ([`catalogue`]), how memory moves data ([`memory`]), and what
//! is published about CPU cores ([`cpus`]). What a machine was measured to do is in the references and in its profile.

pub mod catalogue;
pub mod cpus;
pub mod memory;
pub mod rates;

use crate::slip;

pub use catalogue::MACHINES;
pub use memory::{MemoryType, peak_bandwidth, peak_bandwidth_from_driver};

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

/// A GPU model as its vendor publishes it. `None` stands for 'not published, or not surely known'.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Machine {
    /// The name that the catalogue prints.
    pub name: &'static str,
    /// Other names, among them those that drivers report.
    pub aliases: &'static [&'static str],
    /// Type of the device memory.
    pub memory: MemoryType,
    /// Width of the memory bus in bits.
    pub bus_width_bits: u32,
    /// Memory clock in hertz, in the convention of [`MemoryType::transfers_per_clock`].
    pub memory_clock_hz: f64,
    /// Streaming multiprocessors, or compute units.
    pub multiprocessors: Option<u32>,
    /// Level-2 cache in bytes, all partitions together.
    pub l2_bytes: Option<u64>,
    /// Level-1 data cache and shared memory of one multiprocessor in bytes.
    pub l1_bytes_per_multiprocessor: Option<u64>,
    /// CUDA compute capability, major and minor.
    pub compute_capability: Option<(u8, u8)>,
    /// Largest clock of the multiprocessors in hertz.
    pub boost_clock_hz: Option<f64>,
    /// Power limit of the board in watts.
    pub power_w: Option<f64>,
    /// Published peaks in operations per second at the boost clock, without sparsity; a multiply-add counts as two.
    pub peaks: &'static [(Arithmetic, f64)],
    /// Where the figures come from, and any correction.
    pub source: &'static str,
}

impl Machine {
    /// Theoretical memory bandwidth in bytes per second: bus width × transfers per clock × clock.
    #[must_use]
    pub fn peak_bandwidth(&self) -> f64 {
        peak_bandwidth(self.memory, self.bus_width_bits, self.memory_clock_hz)
    }

    /// The published peak for one kind of arithmetic, in operations per second.
    #[must_use]
    pub fn peak(&self, arithmetic: Arithmetic) -> Option<f64> {
        self.peaks.iter().find(|(kind, _)| *kind == arithmetic).map(|(_, peak)| *peak)
    }
}

/// A machine name that the catalogue can't settle.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LookupError {
    /// No machine has this name.
    #[error("no machine called {name:?} in the catalogue{}", slip::did_you_mean(nearest).map_or_else(String::new, |question| format!("; {question}")))]
    Unknown {
        /// What was asked for, shortened to 60 characters.
        name: String,
        /// The catalogue's nearest names, best first; none where none is much alike.
        nearest: Vec<&'static str>,
    },
    /// Several machines have this name.
    #[error("{name:?} could be any of: {}; say which", candidates.join(", "))]
    Ambiguous {
        /// What was asked for, shortened to 60 characters.
        name: String,
        /// The machines that it could be.
        candidates: Vec<&'static str>,
    },
}

/// Words of vendor and brand that say nothing about the model.
const BRANDS: &[&str] = &["nvidia", "amd", "tesla", "geforce", "instinct", "corporation"];
const NEAREST_SHOWN: usize = 4;
const LONGEST_NAME: usize = 60;

/// The machine called `name`: in any case, with or without the vendor, spaces and hyphens, as people or drivers write it
/// (`a100 80gb`, `NVIDIA A100-SXM4-80GB`, `NVIDIA H100 80GB HBM3`).
///
/// # Errors
/// [`LookupError::Ambiguous`] where the words fit several machines (`H100`), [`LookupError::Unknown`] where they fit none.
pub fn machine(name: &str) -> Result<&'static Machine, LookupError> {
    let shown: String = name.chars().take(LONGEST_NAME).collect();
    let words = words(&shown);
    let joined = words.concat();
    let names = |machine: &'static Machine| std::iter::once(machine.name).chain(machine.aliases.iter().copied());
    let exact = MACHINES.iter().find(|machine| names(machine).any(|known| self::words(known).concat() == joined));
    if let Some(machine) = exact {
        return Ok(machine);
    }
    // Fewer words than a machine's own fit every machine that has them all.
    let fitting: Vec<&'static Machine> = MACHINES
        .iter()
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

/// The words of a name without vendor and brand: lower case, split at anything but letters and digits.
fn words(name: &str) -> Vec<String> {
    name.to_lowercase()
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty() && !BRANDS.contains(word))
        .map(str::to_owned)
        .collect()
}

fn has_all(known: &str, words: &[String]) -> bool {
    let known = self::words(known);
    words.iter().all(|word| {
        // `SXM` fits `SXM4`; a model number fits itself alone, so that `L4` doesn't find the L40.
        let starts = word == "sxm";
        known.iter().any(|k| k == word || (starts && k.starts_with(word.as_str())))
    })
}

/// Machines whose name or other name is much like `joined`, best first.
fn nearest(joined: &str) -> Vec<&'static str> {
    let known: Vec<(String, &'static str)> = MACHINES
        .iter()
        .flat_map(|machine| std::iter::once(&machine.name).chain(machine.aliases).map(|known| (*known, machine.name)))
        .map(|(known, name)| (words(known).concat(), name))
        .collect();
    let mut names: Vec<&'static str> = Vec::new();
    for alike in slip::nearest(joined, known.iter().map(|(joined, _)| joined.as_str()), known.len()) {
        let of = known.iter().filter(|(joined, _)| joined == alike).map(|(_, name)| *name);
        names.extend(of);
    }
    // By name, not by how it is written: the first, most alike writing counts.
    let mut seen = std::collections::HashSet::new();
    names.retain(|name| seen.insert(*name));
    names.truncate(NEAREST_SHOWN);
    names
}

#[cfg(test)]
mod tests;
