//! `plimsoll devices`, and opening the devices that the other verbs name.

use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;

use plimsoll::core::Fault;
use plimsoll::core::device::{DeviceInfo, Peak};
use plimsoll::core::unit::Unit;
use plimsoll::prelude::{DeviceSelector, OpenError};
use plimsoll::suite::profile::Profile;
use plimsoll::{Candidate, CudaOptions, Opened, ParseSelectorError, SelectError};

use super::args::{DeviceArg, DevicesArgs, Format};
use super::exit::{Exit, Failure, say};
use super::sheet::{ALWAYS, Sheet};
use super::{doctor, output, profile, vulkan};

const HOW_TO_NAME: &str = "a device is cpu, gpu (every GPU), a GPU's number, cuda:N, vulkan:N, all, or a name or UUID";

/// Opens the devices that `arg` selects. Where it selects all, those that can't be opened cost a warning: see [`exit_for`].
pub(crate) fn open_selected(arg: &DeviceArg) -> Result<Opened, Failure> {
    open_with_deadline(arg, None)
}

/// Like [`open_selected`], with a limit on how long a GPU may take to answer; `None` is the default limit.
pub(crate) fn open_with_deadline(arg: &DeviceArg, deadline: Option<Duration>) -> Result<Opened, Failure> {
    let cuda = CudaOptions { no_cache: arg.no_cache, nvrtc: arg.nvrtc.clone(), deadline, ..CudaOptions::default() };
    open_with(&arg.device, &cuda)
}

/// Opens these CUDA devices. Those that can't be opened cost a warning; fails where none can.
pub(crate) fn open_cuda(arg: &DeviceArg, numbers: impl IntoIterator<Item = u32>) -> Result<Opened, Failure> {
    let cuda = CudaOptions { no_cache: arg.no_cache, nvrtc: arg.nvrtc.clone(), ..CudaOptions::default() };
    open_found(&DeviceSelector::Available(numbers.into_iter().map(DeviceSelector::Cuda).collect()), &cuda)
}

/// Opens the devices that `selector` means, with default options. Fails as [`find`] does, and with exit code 3 and the reason if the
/// device isn't available.
pub(crate) fn open(selector: &DeviceSelector) -> Result<Opened, Failure> {
    open_found(selector, &CudaOptions::default())
}

fn open_with(selector: &str, cuda: &CudaOptions) -> Result<Opened, Failure> {
    open_found(&find(selector)?, cuda)
}

fn open_found(selector: &DeviceSelector, cuda: &CudaOptions) -> Result<Opened, Failure> {
    let opened = plimsoll::open_with(selector, cuda).map_err(explain)?;
    opened.missing.iter().for_each(|(name, fault)| say("warning", &format!("{name} is left out: {fault}")));
    Ok(opened)
}

/// The devices that the user means. Fails with exit code 2 and the list of devices if a name means none or several, and with 3 if
/// there is no GPU of a number.
pub(crate) fn find(text: &str) -> Result<DeviceSelector, Failure> {
    let selector: DeviceSelector = text
        .parse()
        .map_err(|error: ParseSelectorError| list_devices(&format!("{error}\ndevices here:"), &candidates()))?;
    if selector.needs_candidates() { selector.resolve(&candidates()).map_err(explain) } else { Ok(selector) }
}

/// The device with this name or UUID, where there is one. Fails with exit code 2 if it could be several.
pub(crate) fn find_named(name: &str) -> Result<Option<DeviceSelector>, Failure> {
    match DeviceSelector::Named(name.to_owned()).resolve(&candidates()) {
        Ok(selector) => Ok(Some(selector)),
        Err(OpenError::Select(SelectError::Unknown { .. })) => Ok(None),
        Err(other) => Err(explain(other)),
    }
}

/// The devices of this machine, not opened. Vulkan's are listed in another process, which may crash.
fn candidates() -> Vec<Candidate> {
    plimsoll::candidates(vulkan::candidates())
}

/// Why devices can't be found or opened.
pub(crate) fn explain(error: OpenError) -> Failure {
    match error {
        OpenError::Device(fault) => Failure::from(fault),
        OpenError::Select(SelectError::Unknown { given, here }) => {
            list_devices(&format!("no device is called '{given}'; devices here:"), &here).hint(HOW_TO_NAME)
        }
        OpenError::Select(SelectError::Ambiguous { given, matches }) => {
            let several = format!("'{given}' could be any of {} devices:", matches.len());
            list_devices(&several, &matches).hint("give a number, or more of the name or UUID")
        }
        scenario => Failure::usage(scenario).hint("`plimsoll measure --help` shows a scenario"),
    }
}

/// Wrong usage that concerns these devices, one per line.
fn list_devices(error: &str, devices: &[Candidate]) -> Failure {
    Failure::usage(devices.iter().fold(error.to_owned(), |list, device| format!("{list}\n{device}")))
}

/// The exit code of a verb that ended with `exit`, except that success becomes [`Exit::Unavailable`] if devices are `missing`.
pub(crate) fn exit_for(missing: &[(String, Fault)], exit: Exit) -> Exit {
    if exit == Exit::Success && !missing.is_empty() { Exit::Unavailable } else { exit }
}

pub(crate) fn run(args: &DevicesArgs) -> Result<Exit, Failure> {
    if args.vulkan {
        return vulkan::run(args.format);
    }
    let Opened { devices, missing } = plimsoll::survey();
    let mut absent: Vec<[String; 3]> = missing.into_iter().map(absent_row).collect();
    let by_vulkan = vulkan::list().unwrap_or_else(|row| {
        absent.push(row);
        Vec::new()
    });
    let infos: Vec<&DeviceInfo> = devices.iter().map(|device| device.info()).collect();
    let known: Vec<Option<(PathBuf, Profile)>> = infos.iter().map(|info| profile::known(&args.profile, info)).collect();
    let text = match args.format {
        Format::Table => tables(&infos, &known, &by_vulkan, &absent),
        Format::Json => {
            let devices = serde_json::to_value(&infos).map_err(Failure::usage)?;
            let row = |[name, why_not, hint]: &[String; 3]| serde_json::json!({ "name": name, "why_not": why_not, "hint": hint });
            let absent: Vec<_> = absent.iter().map(row).collect();
            let profiles: Vec<_> = infos
                .iter()
                .zip(&known)
                .filter_map(|(info, known)| Some(profile_json(info, known.as_ref()?)))
                .collect();
            let all = serde_json::json!({ "devices": devices, "profiles": profiles, "vulkan": by_vulkan, "not_here": absent });
            plimsoll_report::json::to_text(&all)
        }
        Format::Csv | Format::Markdown => facts(&infos, &known).render(args.format),
    };
    output::print(&text)?;
    Ok(Exit::Success)
}

/// The name of an absent device, why it is absent, and a hint.
pub(crate) fn absent_row((name, fault): (String, Fault)) -> [String; 3] {
    match fault {
        Fault::Unavailable { why, hint, .. } => [name, why, hint],
        other => [name, other.to_string(), String::new()],
    }
}

/// The location and size of a device's profile.
fn profile_json(info: &DeviceInfo, (path, profile): &(PathBuf, Profile)) -> serde_json::Value {
    let newest = profile.findings.iter().map(|stored| stored.when.as_str()).max();
    serde_json::json!({
        "device": info.selector,
        "path": path.display().to_string(),
        "findings": profile.findings.len(),
        "newest": newest,
    })
}

/// For people: a block per device, then Vulkan's devices, then absent ones.
fn tables(
    infos: &[&DeviceInfo],
    known: &[Option<(PathBuf, Profile)>],
    by_vulkan: &[serde_json::Value],
    absent: &[[String; 3]],
) -> String {
    let mut text = String::new();
    for (info, known) in infos.iter().zip(known) {
        // Writing to a String can't fail.
        let _ = writeln!(text, "{}: {}\n", info.selector, plimsoll_report::text::clean(&info.name));
        let mut sheet = Sheet::new([("what", ALWAYS), ("value", ALWAYS), ("from", 1)]);
        for [_, what, value, from] in device_facts(info, known.as_ref()) {
            sheet.row([what, value, from]);
        }
        let _ = writeln!(text, "{}", sheet.render(Format::Table));
    }
    if !by_vulkan.is_empty() {
        let _ = writeln!(text, "by Vulkan\n\n{}", vulkan::sheet(by_vulkan).render(Format::Table));
    }
    if absent.is_empty() {
        return text;
    }
    let mut sheet = Sheet::new([("not here", ALWAYS), ("why", ALWAYS), ("what to do", 1)]);
    absent.iter().cloned().for_each(|row| sheet.row(row));
    text + &sheet.render(Format::Table)
}

/// For programs: one row per fact.
fn facts(infos: &[&DeviceInfo], known: &[Option<(PathBuf, Profile)>]) -> Sheet<4> {
    let mut sheet = Sheet::new([("device", ALWAYS), ("what", ALWAYS), ("value", ALWAYS), ("from", ALWAYS)]);
    let all = infos.iter().zip(known).flat_map(|(info, known)| device_facts(info, known.as_ref()));
    all.for_each(|row| sheet.row(row));
    sheet
}

/// Rows of device, fact, value and source.
fn device_facts(info: &DeviceInfo, known: Option<&(PathBuf, Profile)>) -> Vec<[String; 4]> {
    let mut facts = Vec::new();
    let mut fact = |what: &str, value: String, from: &str| {
        facts.push([info.selector.clone(), what.to_owned(), value, from.to_owned()]);
    };
    fact("name", info.name.clone(), "");
    if let Some(architecture) = &info.architecture {
        fact("architecture", architecture.clone(), "");
    }
    if let Some(driver) = &info.driver {
        fact("driver", driver.clone(), "");
    }
    fact("cores", info.multiprocessors.to_string(), "used in measurements");
    fact("memory", Unit::Byte.format(info.memory_total as f64), "");
    fact("memory free", Unit::Byte.format(info.memory_free as f64), "");
    for cache in &info.caches {
        let from = format!("{} B lines, shared by {}", cache.line, cache.shared_by);
        fact(&format!("{} cache", cache.level), Unit::Byte.format(cache.bytes as f64), &from);
    }
    for Peak { metric, value, unit, source } in &info.peaks {
        fact(&format!("peak {metric}"), unit.format(*value), source);
    }
    for capability in &info.capabilities {
        fact(&capability.name, capability.to_string(), &doctor::advise(capability));
    }
    for (name, note) in &info.notes {
        fact(name, note.clone(), "");
    }
    match known {
        Some((path, profile)) => fact("profile", profile::summary(profile), &path.display().to_string()),
        None => fact("profile", "none yet".to_owned(), "`plimsoll measure` makes one"),
    }
    facts
}
