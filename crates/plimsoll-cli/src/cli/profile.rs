//! The machine profile on the command line: where it lies, what `measure` adds to it, and how it is shown. What is kept of a
//! run, and how it is stored, is the suite's business. A profile that can't be kept costs a warning and never the run.

use std::path::{Path, PathBuf};

use plimsoll::bench::Table;
use plimsoll::core::device::DeviceInfo;
use plimsoll::core::file::{self, Accept};
use plimsoll::core::record::Run;
use plimsoll::suite::operations::unit_of_finding;
use plimsoll::suite::profile::{Kept, Profile, ProfileError, SetAside, StoredFinding};
use plimsoll_report::terminal::margin;

use super::args::{DeviceArg, Format, ProfileArg};
use super::exit::{Failure, say};
use super::sheet::{ALWAYS, Sheet};

/// The environment's word for `--profile`.
const VARIABLE: &str = "PLIMSOLL_PROFILE";
/// Most bytes of a file of plans: a table has some hundred rows of some hundred bytes.
pub(crate) const LARGEST_PLANS: u64 = 4 << 20;

/// Where profiles lie.
#[derive(Debug)]
pub(crate) struct Place {
    path: PathBuf,
    /// One file, which holds the profile of one device; else a folder with a file per device.
    is_file: bool,
    /// Asked for by name: even a simulated device's is kept.
    named: bool,
}

impl Place {
    /// What `--profile` or the environment names, else the user's data folder (XDG Base Directory Specification).
    ///
    /// # Errors
    /// Why there is no such folder, with the way out.
    pub fn find(arg: &ProfileArg) -> Result<Self, String> {
        let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        if let Some(path) = arg.profile.clone().or_else(|| variable(VARIABLE)) {
            let is_file = !names_a_folder(&path);
            return Ok(Self { path, is_file, named: true });
        }
        let absolute = |name: &str| variable(name).filter(|path| path.is_absolute());
        let data = absolute("XDG_DATA_HOME").or_else(|| Some(absolute("HOME")?.join(".local/share")));
        let data = data.ok_or_else(|| {
            format!("neither XDG_DATA_HOME nor HOME is an absolute path: name a file with --profile or {VARIABLE}")
        })?;
        Ok(Self { path: data.join("plimsoll/profiles"), is_file: false, named: false })
    }

    fn of(&self, device: &DeviceInfo) -> Result<PathBuf, ProfileError> {
        if self.is_file { Ok(self.path.clone()) } else { Profile::path(&self.path, &device.id) }
    }

    fn takes(&self, device: &DeviceInfo) -> bool {
        // What is simulated is true of no machine.
        self.named || device.backend != "sim"
    }

    /// What is stored of a device, and where.
    ///
    /// # Errors
    /// The file is there and can't be used, or is another device's.
    pub fn load(&self, device: &DeviceInfo) -> Result<Option<(PathBuf, Profile)>, ProfileError> {
        let path = self.of(device)?;
        let stored = Profile::load(&path, &device.id)?;
        Ok(stored.map(|profile| (path, profile)))
    }

    /// Whether what is found about the devices can be kept here.
    ///
    /// # Errors
    /// The first that can't be.
    fn ready(&self, devices: &[&DeviceInfo]) -> Result<(), ProfileError> {
        let mut kept = devices.iter().filter(|device| self.takes(device));
        kept.try_for_each(|device| Profile::ready(&self.of(device)?, &device.id))
    }
}

/// A folder that is there, or a path that can only be one: it is made when something is kept in it.
fn names_a_folder(path: &Path) -> bool {
    let text = path.as_os_str().as_encoded_bytes();
    path.is_dir() || [&b"/"[..], b"/.", b"/.."].iter().any(|end| text.ends_with(end))
}

/// Files that a verb which runs expressions on a device may read, whether or not they are there.
pub(crate) fn inputs(arg: &ProfileArg, device: &DeviceArg, info: &DeviceInfo) -> Vec<PathBuf> {
    let profile = Place::find(arg).ok().and_then(|place| place.of(info).ok());
    profile.into_iter().chain(plans_path(arg, info)).chain(device.nvrtc.clone()).collect()
}

/// Where the plans of a device lie that `tune` found: beside its profile.
///
/// # Errors
/// Why there is no such place, with the way out.
pub(crate) fn plans_path(arg: &ProfileArg, device: &DeviceInfo) -> Result<PathBuf, String> {
    let path = Place::find(arg)?.of(device).map_err(|error| error.to_string())?;
    Ok(path.with_extension("plans.json"))
}

/// The plans that `tune` found for a device; what can't be used is told on stderr and counts as nothing.
pub(crate) fn plans(arg: &ProfileArg, device: &DeviceInfo) -> Option<Table> {
    plans_in(&plans_path(arg, device).ok()?, device)
}

/// Those in a file.
pub(crate) fn plans_in(path: &Path, device: &DeviceInfo) -> Option<Table> {
    let text = match file::read_text(path, LARGEST_PLANS, Accept::Regular) {
        Ok(text) => text,
        Err(error) if error.is_absent() => return None,
        Err(error) => {
            say("warning", &format!("the plans of {} are not used: {error}", device.selector));
            return None;
        }
    };
    let table = Table::from_json(&text);
    table.map_err(|error| say("warning", &format!("the plans of {} are not used: {error}", device.selector))).ok()
}

/// What is stored of a device; what can't be used is told on stderr and counts as nothing.
pub(crate) fn known(arg: &ProfileArg, device: &DeviceInfo) -> Option<(PathBuf, Profile)> {
    match Place::find(arg).ok()?.load(device) {
        Ok(stored) => stored,
        Err(error) => {
            say("warning", &format!("the profile of {} is not used: {error}", device.selector));
            None
        }
    }
}

/// Where a run's findings will go; `None` where nowhere. Found out before anything is measured: a place that was typed and
/// can't be used is wrong usage, and any other costs a warning.
///
/// # Errors
/// 2 for one file and several devices, and for a place that `--profile` names and can't be used.
pub(crate) fn for_run(arg: &ProfileArg, keep: bool, devices: &[&DeviceInfo]) -> Result<Option<Place>, Failure> {
    if !keep {
        return Ok(None);
    }
    let place = match Place::find(arg) {
        Ok(place) if place.is_file && devices.len() > 1 => {
            let file = place.path.display();
            return Err(Failure::usage(format!(
                "{file} holds the profile of one device, and {} are measured",
                devices.len()
            ))
            .hint("name a folder, with a slash at its end where it isn't there yet, or say --no-profile"));
        }
        Ok(place) => place,
        // A simulated device has none to lose.
        Err(_) if devices.iter().all(|device| device.backend == "sim") => return Ok(None),
        Err(why) => {
            say("warning", &format!("the profile will not be kept: {why}, or say --no-profile"));
            return Ok(None);
        }
    };
    match place.ready(devices) {
        Ok(()) => Ok(devices.iter().any(|device| place.takes(device)).then_some(place)),
        Err(why) if arg.profile.is_some() => {
            Err(Failure::usage(format!("the profile can't be kept: {why}"))
                .hint("say --no-profile to measure without one"))
        }
        Err(why) => {
            say("warning", &format!("the profile will not be kept: {why}; or say --no-profile"));
            Ok(None)
        }
    }
}

/// Merges what a run found into the profiles of its devices; `name` is the run's. The first that can't be written ends it,
/// because the others would fail for the same reason.
pub(crate) fn keep(place: &Place, run: &Run, name: &str) {
    for (number, device) in (0..).zip(&run.header.devices).filter(|(_, device)| place.takes(device)) {
        let found = match Profile::of_run(run, number, name) {
            Ok(found) => found.filter(|profile| !profile.findings.is_empty()),
            Err(why) => return say("note", &format!("the profile stays as it is: {why}")),
        };
        let Some(found) = found else { continue };
        let kept = place.of(device).and_then(|path| Ok((found.keep(&path)?, path)));
        match kept {
            Ok((kept, path)) => tell(&kept, &path),
            Err(why) => return say("warning", &format!("the profile was not kept: {why}; or say --no-profile")),
        }
    }
}

fn tell(kept: &Kept, path: &Path) {
    if let Some(SetAside { path: aside, why }) = &kept.set_aside {
        let aside = aside.display();
        say("warning", &format!("the profile was damaged ({why}): it is now {aside}, and a new one is begun"));
    }
    say("profile", &path.display().to_string());
}

/// `86 findings, the newest of 2026-03-01`.
pub(crate) fn summary(profile: &Profile) -> String {
    let newest = profile.findings.iter().map(|stored| stored.when.as_str()).max().unwrap_or_default();
    let day = newest.split('T').next().filter(|day| !day.is_empty());
    let day = day.map(|day| format!(", the newest of {day}")).unwrap_or_default();
    let count = profile.findings.len();
    format!("{count} {}{day}", if count == 1 { "finding" } else { "findings" })
}

/// Every finding of these profiles, as a table or for programs.
pub(crate) fn listing(profiles: &[Profile], format: Format) -> Result<String, Failure> {
    if format == Format::Json {
        return Ok(plimsoll_report::json::text(&serde_json::to_value(profiles).map_err(Failure::usage)?));
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
            let value = unit_of_finding(finding).format(finding.value) + &margin(finding.value, finding.interval);
            sheet.row([
                profile.device_name.clone(),
                finding.probe.clone(),
                finding.name.clone(),
                value,
                finding.flags.to_string(),
                from(stored),
            ]);
        }
    }
    Ok(sheet.render(format))
}

fn from(stored: &StoredFinding) -> String {
    if stored.is_published() {
        return format!("published: {}", stored.source);
    }
    format!("plimsoll {}, {}, {}", stored.tool, stored.when.split('T').next().unwrap_or_default(), stored.run)
}
