//! The machine profile on the command line: where it lies, what `measure` adds to it, and how it is shown. The suite decides
//! what a profile keeps and how it is stored. A profile that can't be stored costs a warning, never the run.

use std::path::{Path, PathBuf};

use plimsoll::bench::{Store, Table};
use plimsoll::core::device::DeviceInfo;
use plimsoll::core::file::{self, Accept};
use plimsoll::core::record::Run;
use plimsoll::suite::operations::unit_of_finding;
use plimsoll::suite::profile::{Kept, Profile, ProfileError, SetAside, StoredFinding};
use plimsoll_report::terminal::format_margin;

use super::args::{DeviceArg, Format, ProfileArg};
use super::exit::{Failure, say};
use super::sheet::{ALWAYS, Sheet};

/// The environment variable that stands in for `--profile`.
const VARIABLE: &str = "PLIMSOLL_PROFILE";
/// Maximum bytes of a file of plans: a table has some hundred rows of some hundred bytes.
pub(crate) const MAX_PLANS_BYTES: u64 = 4 << 20;

/// Where profiles lie.
#[derive(Debug)]
pub(crate) struct Place {
    path: PathBuf,
    /// True for one file, which holds the profile of one device; false for a folder with a file per device.
    is_file: bool,
    /// The user named the place, so even a simulated device's profile is kept.
    named: bool,
}

impl Place {
    /// The place that `--profile` or the environment names, else the user's data folder (XDG Base Directory Specification).
    /// An error says why there is no such folder and what to do.
    pub fn find(arg: &ProfileArg) -> Result<Self, String> {
        let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        if let Some(path) = arg.profile.clone().or_else(|| variable(VARIABLE)) {
            let is_file = !is_folder_path(&path);
            return Ok(Self { path, is_file, named: true });
        }
        let data =
            data_folder().ok_or_else(|| format!("{NO_DATA_FOLDER}: name a file with --profile or {VARIABLE}"))?;
        Ok(Self { path: data.join("plimsoll/profiles"), is_file: false, named: false })
    }

    fn path_for(&self, device: &DeviceInfo) -> Result<PathBuf, ProfileError> {
        if self.is_file { Ok(self.path.clone()) } else { Profile::path(&self.path, &device.id) }
    }

    fn accepts(&self, device: &DeviceInfo) -> bool {
        // Simulated figures are true of no machine.
        self.named || device.backend != "sim"
    }

    /// The stored profile of a device and its path. Fails if the file exists but can't be used or is another device's.
    pub fn load(&self, device: &DeviceInfo) -> Result<Option<(PathBuf, Profile)>, ProfileError> {
        let path = self.path_for(device)?;
        let stored = Profile::load(&path, &device.id)?;
        Ok(stored.map(|profile| (path, profile)))
    }

    /// Checks that findings about the devices can be stored here; the error is that of the first that can't be.
    fn check_writable(&self, devices: &[&DeviceInfo]) -> Result<(), ProfileError> {
        let mut kept = devices.iter().filter(|device| self.accepts(device));
        kept.try_for_each(|device| Profile::check_writable(&self.path_for(device)?, &device.id))
    }
}

/// Why there is no data folder.
pub(crate) const NO_DATA_FOLDER: &str = "neither XDG_DATA_HOME nor HOME is an absolute path";

/// The user's data folder (XDG Base Directory Specification).
pub(crate) fn data_folder() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_DATA_HOME").or_else(|| Some(absolute("HOME")?.join(".local/share")))
}

/// True for an existing folder, or a path that can only be one (it ends in `/`, `/.` or `/..`); it is created when needed.
fn is_folder_path(path: &Path) -> bool {
    let text = path.as_os_str().as_encoded_bytes();
    path.is_dir() || [&b"/"[..], b"/.", b"/.."].iter().any(|end| text.ends_with(end))
}

/// The files that a verb which runs expressions on a device may read, whether or not they exist.
pub(crate) fn input_files(arg: &ProfileArg, device: &DeviceArg, info: &DeviceInfo) -> Vec<PathBuf> {
    let profile = Place::find(arg).ok().and_then(|place| place.path_for(info).ok());
    profile.into_iter().chain(plans_path(arg, info)).chain(device.nvrtc.clone()).collect()
}

/// Where `tune` stores the plans of a device: next to its profile. An error says why there is no place and what to do.
pub(crate) fn plans_path(arg: &ProfileArg, device: &DeviceInfo) -> Result<PathBuf, String> {
    let path = Place::find(arg)?.path_for(device).map_err(|error| error.to_string())?;
    Ok(path.with_extension("plans.json"))
}

/// Where `bench --tune` keeps its plans: in the folder `tuned` next to the default folder of profiles or in the named one, or next to the
/// named file. `None` if there is no place.
pub(crate) fn tuned_store(arg: &ProfileArg) -> Option<Store> {
    let place = Place::find(arg).ok()?;
    match (place.named, place.is_file) {
        (false, _) => Store::of_user(),
        (true, false) => Some(Store::new(place.path.join("tuned"))),
        (true, true) => Some(Store::new(place.path.with_extension("tuned"))),
    }
}

/// The plans that `tune` stored for a device; a file that can't be used costs a warning and counts as absent.
pub(crate) fn plans(arg: &ProfileArg, device: &DeviceInfo) -> Option<Table> {
    load_plans(&plans_path(arg, device).ok()?, device)
}

/// The plans in a file.
pub(crate) fn load_plans(path: &Path, device: &DeviceInfo) -> Option<Table> {
    let text = match file::read_text(path, MAX_PLANS_BYTES, Accept::Regular) {
        Ok(text) => text,
        Err(error) if error.is_absent() => return None,
        Err(error) => {
            say("warning", &format!("the plans of {} are not used: {error}", device.selector));
            return None;
        }
    };
    let table = Table::from_json(&text);
    let unused =
        |error| format!("the plans of {} are not used: {error}. `plimsoll tune` writes new ones", device.selector);
    table.map_err(|error| say("warning", &unused(error))).ok()
}

/// The stored profile of a device; one that can't be used costs a warning and counts as absent.
pub(crate) fn known(arg: &ProfileArg, device: &DeviceInfo) -> Option<(PathBuf, Profile)> {
    match Place::find(arg).ok()?.load(device) {
        Ok(stored) => stored,
        Err(error) => {
            say("warning", &format!("the profile of {} is not used: {error}", device.selector));
            None
        }
    }
}

/// Decides, before anything is measured, where a run's findings will be stored; `None` for nowhere. Fails with exit code 2 if
/// `--profile` names a place that can't be used, or if one file would have to hold several devices. An unusable default place
/// costs a warning.
pub(crate) fn choose_place(arg: &ProfileArg, keep: bool, devices: &[&DeviceInfo]) -> Result<Option<Place>, Failure> {
    if !keep {
        return Ok(None);
    }
    let place = match Place::find(arg) {
        Ok(place) if place.is_file && devices.len() > 1 => {
            let file = place.path.display();
            return Err(Failure::usage(format!(
                "{file} holds the profile of one device, but {} are measured",
                devices.len()
            ))
            .hint("name a folder (with a slash at the end if it doesn't exist yet), or use --no-profile"));
        }
        Ok(place) => place,
        // A simulated device's profile is not kept anyway.
        Err(_) if devices.iter().all(|device| device.backend == "sim") => return Ok(None),
        Err(why) => {
            say("warning", &format!("the profile will not be stored: {why}, or use --no-profile"));
            return Ok(None);
        }
    };
    match place.check_writable(devices) {
        Ok(()) => Ok(devices.iter().any(|device| place.accepts(device)).then_some(place)),
        Err(why) if arg.profile.is_some() => Err(Failure::usage(format!("the profile can't be stored: {why}"))
            .hint("use --no-profile to measure without one")),
        Err(why) => {
            say("warning", &format!("the profile will not be stored: {why}; --no-profile measures without one"));
            Ok(None)
        }
    }
}

/// Merges a run's findings into the profiles of its devices; `name` is the run's. Stops at the first profile that can't be
/// written, because the others would fail for the same reason.
pub(crate) fn store_findings(place: &Place, run: &Run, name: &str) {
    for (number, device) in (0..).zip(&run.header.devices).filter(|(_, device)| place.accepts(device)) {
        let profile = match Profile::from_run(run, number, name) {
            Ok(profile) => profile.filter(|profile| !profile.findings.is_empty()),
            Err(why) => return say("note", &format!("the profile is unchanged: {why}")),
        };
        let Some(profile) = profile else { continue };
        let kept = place.path_for(device).and_then(|path| Ok((profile.keep(&path)?, path)));
        match kept {
            Ok((kept, path)) => report_stored(&kept, &path),
            Err(why) => {
                let text = format!("the profile was not stored: {why}; --no-profile measures without one");
                return say("warning", &text);
            }
        }
    }
}

fn report_stored(kept: &Kept, path: &Path) {
    if let Some(SetAside { path: aside, why }) = &kept.set_aside {
        let aside = aside.display();
        say("warning", &format!("the profile was damaged ({why}): it was moved to {aside}, and a new one was started"));
    }
    say("profile", &path.display().to_string());
}

/// `86 findings, the newest from 2026-03-01`.
pub(crate) fn summary(profile: &Profile) -> String {
    let newest = profile.findings.iter().map(|stored| stored.when.as_str()).max().unwrap_or_default();
    let day = newest.split('T').next().filter(|day| !day.is_empty());
    let day = day.map(|day| format!(", the newest from {day}")).unwrap_or_default();
    let count = profile.findings.len();
    format!("{count} {}{day}", if count == 1 { "finding" } else { "findings" })
}

/// Every finding of these profiles in `format`.
pub(crate) fn listing(profiles: &[Profile], format: Format) -> Result<String, Failure> {
    if format == Format::Json {
        return Ok(plimsoll_report::json::to_text(&serde_json::to_value(profiles).map_err(Failure::usage)?));
    }
    let mut sheet = Sheet::new([
        ("machine", 0),
        ("probe", ALWAYS),
        ("finding", ALWAYS),
        ("value", ALWAYS),
        ("flags", 2),
        ("from", 1),
    ]);
    for profile in profiles {
        for stored in &profile.findings {
            let finding = &stored.finding;
            let unit = unit_of_finding(finding);
            let value = unit.format(finding.value) + &format_margin(&unit, finding.value, finding.interval);
            sheet.row([
                profile.device_name.clone(),
                finding.probe.clone(),
                finding.name.clone(),
                value,
                finding.flags.to_string(),
                origin(stored),
            ]);
        }
    }
    Ok(sheet.render(format))
}

fn origin(stored: &StoredFinding) -> String {
    if stored.is_published() {
        return format!("published: {}", stored.source);
    }
    format!("plimsoll {}, {}, {}", stored.tool, stored.when.split('T').next().unwrap_or_default(), stored.run)
}
