//! A fake `libcuda.so.1` with fault injection. Device memory is the heap, time is a counter, and kernels do nothing except the few
//! in `kernels`. Calls return what a driver returns, also for invalid handles, so that tests can check how callers handle every
//! result. It doesn't test the results of kernels.
//!
//! Settings come from the variable `FAKECUDA` when the library is first called, or from `fakecuda_configure`, separated by
//! spaces or semicolons:
//!
//! | setting | effect |
//! | --- | --- |
//! | `fail=cuMemAlloc_v2:2` | the call always returns 2; with `@3` from the third call on, with `@3-4` only in calls 3 and 4 |
//! | `lost-after=40` | after 40 calls, every call returns 719 |
//! | `hang-after=2` | after 2 launches, work never finishes |
//! | `version=11080` | the driver's version |
//! | `devices=0` | the number of devices |
//! | `memory=1000000` | the device's memory in bytes |
//! | `mode=2` | its compute mode |
//! | `capability=80` | its compute capability times ten |
//! | `cache=1048576` | its L2 in bytes |
//! | `compression=0` | memory is never compressed |
//! | `persisting=0` | bytes of L2 that may be set aside for persisting accesses; with 0 the limit is unsupported |
//! | `kernel=100000` | nanoseconds that a kernel takes |
//!
//! Work is finished as soon as it is submitted, except between `fakecuda_hold` and `fakecuda_finish`. In between, the library
//! counts the threads that wait and the frees of memory that unfinished work uses.
//!
//! The library also has NVRTC's calls, as a fake compiler for generated expressions.
//!
//! An older driver is a copy of the library in which the names of some calls are overwritten: see [`driver_without`].
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
mod thread;

use std::path::{Path, PathBuf};

/// Follows the ELF header in every image that this driver loads. After it come the kernels as `name(size,size);name()`, with the
/// sizes of their parameters, and a zero byte.
pub const MAGIC: &str = "FAKECUDA:";

pub use elf::{image, image_from_text};

/// Finds this library next to the running test; the error names the test.
pub fn library() -> Result<PathBuf, String> {
    find_library("libfakecuda.so")
}

/// Finds a library of this name next to the running test; the error names the test.
pub fn find_library(name: &str) -> Result<PathBuf, String> {
    let test = std::env::current_exe().map_err(|error| error.to_string())?;
    let folders = test.ancestors().skip(1).take(2);
    let found = folders.map(|folder| folder.join(name)).find(|path| path.is_file());
    found.ok_or_else(|| format!("no {name} next to {}", test.display()))
}

/// Writes a copy of the library to `folder` that lacks the calls `missing`. The copy is a separate driver with separate state.
///
/// # Errors
/// The library isn't found, a call isn't in it, or the copy can't be written.
pub fn driver_without(folder: &Path, missing: &[&str]) -> Result<PathBuf, String> {
    let path = folder.join("libcuda.so.1");
    copy_without(&library()?, &path, missing)?;
    Ok(path)
}

/// Copies a library to `path` without the calls `missing`.
///
/// # Errors
/// A call isn't in the library, or the copy can't be written.
pub fn copy_without(library: &Path, path: &Path, missing: &[&str]) -> Result<(), String> {
    let mut bytes = std::fs::read(library).map_err(|error| error.to_string())?;
    for symbol in missing {
        let name = format!("\0{symbol}\0");
        let places: Vec<usize> = (0..bytes.len().saturating_sub(name.len()))
            .filter(|&start| bytes[start..].starts_with(name.as_bytes()))
            .collect();
        if places.is_empty() {
            return Err(format!("{symbol} is not in the library"));
        }
        // The hash table still leads to the name, which then doesn't match.
        for start in places {
            bytes[start + 1] = b'x';
        }
    }
    std::fs::write(path, bytes).map_err(|error| error.to_string())
}
