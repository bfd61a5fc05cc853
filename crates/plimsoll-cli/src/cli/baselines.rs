//! Baselines: runs that are stored under a name in the user's data folder, next to the profiles.

use std::path::{Path, PathBuf};

use plimsoll::core::file::{self, Accept};
use plimsoll::core::record::path_in;

use super::exit::{Failure, say};
use super::outputs::{Existing, Outputs};
use super::profile::{NO_DATA_FOLDER, data_folder};
use super::runs;

/// Largest record that is stored.
const MAX_BYTES: u64 = 512 << 20;
/// Most characters of a name.
const LONGEST: usize = 64;

/// The folder of the baseline with this name, which holds its record.
fn folder(name: &str) -> Result<PathBuf, Failure> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || name.len() > LONGEST || !name.chars().all(is_plain) || name.starts_with('.') {
        return Err(Failure::usage(format!("'{name}' can't be a baseline's name"))
            .hint("a name has up to 64 letters, digits, hyphens, underscores and dots, and begins with no dot"));
    }
    let data =
        data_folder().ok_or_else(|| Failure::usage(format!("there is no place for baselines: {NO_DATA_FOLDER}")))?;
    Ok(data.join("plimsoll/baselines").join(name))
}

/// The folder of a stored baseline. Fails with exit code 2 if there is none of this name.
pub(crate) fn find(name: &str) -> Result<PathBuf, Failure> {
    let folder = folder(name)?;
    if path_in(&folder).is_file() {
        return Ok(folder);
    }
    Err(Failure::usage(format!("no baseline is called '{name}'"))
        .hint(format!("`plimsoll runs --baseline {name} RUN` stores one")))
}

/// Stores a run's record under a name. An existing baseline is replaced only with `force`.
pub(crate) fn store(name: &str, run: &Path, force: bool) -> Result<(), Failure> {
    let folder = folder(name)?;
    // Checks that it is a run.
    runs::load(run)?;
    let source = if run.is_dir() { path_in(run) } else { run.to_owned() };
    let known = path_in(&folder);
    if known.is_file() && !force {
        return Err(Failure::usage(format!("a baseline '{name}' already exists: {}", known.display()))
            .hint("--force replaces it"));
    }
    let bytes =
        file::read(&source, MAX_BYTES, Accept::Regular).map_err(|error| Failure::file("read", &source, error))?;
    std::fs::create_dir_all(&folder).map_err(|error| Failure::file("create the folder", &folder, error))?;
    // Records are recognized by their content, so a compressed one may have this name too.
    let target = folder.join(runs::RECORD);
    Outputs::new([source.as_path()], Existing::ReplacedIfForced(force)).write(&target, &bytes)?;
    say("baseline", &target.display().to_string());
    Ok(())
}
