//! A stand-in for `libcuda.so.1` with faults to order: device memory is the heap, time is a counter, kernels do nothing
//! but the few that `kernels` knows. It answers as a driver answers, wrong handles included, so that a test can see what
//! the code above makes of every answer; whether kernels are right is not its business.
//!
//! Orders come from the variable `FAKECUDA` when the library is first called, or from `fakecuda_configure`, as words
//! between spaces or semicolons:
//!
//! | word | what it does |
//! | --- | --- |
//! | `fail=cuMemAlloc_v2:2` | the call answers 2, always; with `@3` from its third time on, with `@3-4` at these alone |
//! | `lost-after=40` | after 40 calls every call answers 719 |
//! | `hang-after=2` | after 2 launches nothing that is waited for gets done |
//! | `version=11080` | the driver's version |
//! | `devices=0` | how many devices there are |
//! | `memory=1000000` | the device's memory in bytes |
//! | `mode=2` | its compute mode |
//! | `capability=80` | its compute capability times ten |
//! | `cache=1048576` | its second-level cache in bytes |
//! | `compression=0` | memory is not compressed, whoever asks |
//! | `persisting=0` | how much of the cache may be set aside, bytes; with 0 there is no such limit |
//! | `kernel=100000` | nanoseconds that a kernel takes |
//!
//! Work is done as soon as it is asked, but not between `fakecuda_hold` and `fakecuda_finish`: then it is seen which thread waits
//! and whether memory is freed that unfinished work uses.
//!
//! It is its own compiler as well, by NVRTC's calls, for the texts of expressions.
//!
//! An older driver is a copy of the library in which names of calls were made unreadable: see [`without`].
#![allow(unsafe_code, clippy::missing_safety_doc, clippy::too_many_arguments)]

mod call;
mod calls;
mod control;
mod elf;
mod flight;
mod kernels;
mod launches;
mod limits;
mod mapped;
mod memory;
mod nvrtc;
mod state;

use std::path::{Path, PathBuf};

/// Begins every image that this driver loads after an ELF header: then kernels as `name(size,size);name()`, with the
/// sizes of their parameters, ended by a zero byte.
pub const MAGIC: &str = "FAKECUDA:";

pub use elf::{image, of_text};

/// The library beside the running test, if it was built.
///
/// # Errors
/// Where it was looked for.
pub fn library() -> Result<PathBuf, String> {
    built("libfakecuda.so")
}

/// A library of this name beside the running test, if it was built.
///
/// # Errors
/// Where it was looked for.
pub fn built(name: &str) -> Result<PathBuf, String> {
    let test = std::env::current_exe().map_err(|error| error.to_string())?;
    let folders = test.ancestors().skip(1).take(2);
    let found = folders.map(|folder| folder.join(name)).find(|path| path.is_file());
    found.ok_or_else(|| format!("no {name} beside {}", test.display()))
}

/// A copy of the library in `folder`: a driver of its own, with state of its own, that lacks the calls `missing`.
///
/// # Errors
/// The library isn't there, or the copy can't be written.
pub fn without(folder: &Path, missing: &[&str]) -> Result<PathBuf, String> {
    let path = folder.join("libcuda.so.1");
    copy_without(&library()?, &path, missing)?;
    Ok(path)
}

/// A copy of a library, at `path`, that lacks some of its calls.
///
/// # Errors
/// A call isn't in it, or the copy can't be written.
pub fn copy_without(library: &Path, path: &Path, missing: &[&str]) -> Result<(), String> {
    let mut bytes = std::fs::read(library).map_err(|error| error.to_string())?;
    for symbol in missing {
        let name = format!("\0{symbol}\0");
        let places: Vec<usize> = (0..bytes.len().saturating_sub(name.len()))
            .filter(|&at| bytes[at..].starts_with(name.as_bytes()))
            .collect();
        if places.is_empty() {
            return Err(format!("{symbol} is not in the library"));
        }
        // The hash table still leads to the name, which then differs.
        for at in places {
            bytes[at + 1] = b'x';
        }
    }
    std::fs::write(path, bytes).map_err(|error| error.to_string())
}
