//! `plimsoll devices`, and opening the devices that the other verbs name.

use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;

use plimsoll::core::Fault;
use plimsoll::core::device::{DeviceInfo, Peak};
use plimsoll::core::unit::Unit;
use plimsoll::prelude::{DeviceSelector, OpenError};
use plimsoll::suite::profile::Profile;
use plimsoll::{CudaOptions, Opened};

use super::args::{DeviceArg, DevicesArgs, Format};
use super::exit::{Exit, Failure, say};
use super::sheet::{ALWAYS, Sheet};
use super::{output, profile, vulkan};

/// Opens the devices that `arg` means, and warns of those of all that can't be opened: see [`exit`].
///
/// # Errors
/// Those of [`open`].
pub(crate) fn chosen(arg: &DeviceArg) -> Result<Opened, Failure> {
    chosen_with(arg, None)
}

/// The same with another deadline for a GPU's answers than the usual one.
///
/// # Errors
/// As [`chosen`].
pub(crate) fn chosen_with(arg: &DeviceArg, deadline: Option<Duration>) -> Result<Opened, Failure> {
    let cuda = CudaOptions { no_cache: arg.no_cache, nvrtc: arg.nvrtc.clone(), deadline, ..CudaOptions::default() };
    open_with(&arg.device, &cuda)
}

/// The same with the usual kernels.
///
/// # Errors
/// 2 for what names no device, with those that there are; 3 for a device that isn't there, with the reason.
pub(crate) fn open(selector: &str) -> Result<Opened, Failure> {
    open_with(selector, &CudaOptions::default())
}

fn open_with(selector: &str, cuda: &CudaOptions) -> Result<Opened, Failure> {
    let selector: DeviceSelector = selector.parse().map_err(|error| Failure::usage(error).hint(here()))?;
    let opened = plimsoll::open_with(&selector, cuda).map_err(|error| match error {
        OpenError::Device(fault) => Failure::from(fault),
        scenario => Failure::usage(scenario).hint("`plimsoll measure --help` shows a scenario"),
    })?;
    opened.missing.iter().for_each(|(name, fault)| say("warning", &format!("{name} is left out: {fault}")));
    Ok(opened)
}

/// How a verb ends that would end with `otherwise` had all its devices been opened.
pub(crate) fn exit(missing: &[(String, Fault)], otherwise: Exit) -> Exit {
    if otherwise == Exit::Success && !missing.is_empty() { Exit::Unavailable } else { otherwise }
}

/// The devices of this machine in one line.
fn here() -> String {
    let devices = plimsoll::survey().devices;
    let infos = devices.iter().map(|device| device.info());
    let names: Vec<String> = infos.map(|info| format!("{} ({})", info.selector, info.name)).collect();
    format!("devices here: {}", names.join(", "))
}

pub(crate) fn run(args: &DevicesArgs) -> Result<Exit, Failure> {
    if args.vulkan {
        return vulkan::run(args.format);
    }
    let Opened { devices, missing } = plimsoll::survey();
    let mut absent: Vec<[String; 3]> = missing.into_iter().map(absent).collect();
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
            let row = |[name, why_not, hint]: &[String; 3]| serde_json::json!({ "name": name, "why_not": why_not, "mend": hint });
            let absent: Vec<_> = absent.iter().map(row).collect();
            let profiles: Vec<_> =
                infos.iter().zip(&known).filter_map(|(info, known)| Some(row_of(info, known.as_ref()?))).collect();
            let all = serde_json::json!({ "devices": devices, "profiles": profiles, "vulkan": by_vulkan, "not_here": absent });
            plimsoll_report::json::text(&all)
        }
        Format::Csv | Format::Markdown => facts(&infos, &known).render(args.format),
    };
    output::print(&text)?;
    Ok(Exit::Success)
}

/// What is not here, why, and the way out.
pub(crate) fn absent((name, fault): (String, Fault)) -> [String; 3] {
    match fault {
        Fault::Unavailable { why, hint, .. } => [name, why, hint],
        other => [name, other.to_string(), String::new()],
    }
}

/// Where a device's profile lies and how much it holds.
fn row_of(info: &DeviceInfo, (path, profile): &(PathBuf, Profile)) -> serde_json::Value {
    let newest = profile.findings.iter().map(|stored| stored.when.as_str()).max();
    serde_json::json!({ "device": info.selector, "path": path.display().to_string(), "findings": profile.findings.len(), "newest": newest })
}

/// For people: a block per device, devices by Vulkan, and what is not here.
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

/// Device, what, value and source of everything worth a line.
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
    fact("cores", info.multiprocessors.to_string(), "that take part in a measurement");
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
        fact(&capability.name, capability.to_string(), &capability.hint);
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
