//! `plimsoll doctor`: what this machine lacks for a full measurement, why, and how to get it.

use plimsoll::Part;
use plimsoll::core::device::Capability;
use plimsoll::prelude::{DeviceSelector, Fault, OpenError};
use plimsoll_report::json;
use plimsoll_report::text::clean;
use serde_json::json;

use super::args::{DoctorArgs, Format};
use super::exit::{Exit, Failure};
use super::sheet::{ALWAYS, Sheet};
use super::{output, vulkan};

pub(crate) fn run(args: &DoctorArgs) -> Result<Exit, Failure> {
    let (capabilities, parts) = (capabilities(), parts());
    let text = match args.format {
        Format::Table => {
            let devices = sheet("capability", &capabilities, |capability| !is_part(&capability.name, &parts));
            format!("{}\n{}", devices.render(Format::Table), parts_table(&parts).render(Format::Table))
        }
        Format::Json => {
            let capabilities: Vec<_> = capabilities.iter().map(capability_json).collect();
            let parts: Vec<_> = parts.iter().map(part_json).collect();
            json::to_text(&json!({ "capabilities": capabilities, "parts": parts }))
        }
        Format::Csv | Format::Markdown => parts_sheet(&parts).render(args.format),
    };
    output::print(&text)?;
    let known: Vec<Capability> = capabilities.into_iter().chain(parts.iter().map(as_capability)).collect();
    for required in &args.require {
        require(required, &known)?;
    }
    Ok(Exit::Success)
}

/// Capabilities with the reason and a hint where they are missing.
fn sheet(heading: &'static str, capabilities: &[Capability], is_shown: impl Fn(&Capability) -> bool) -> Sheet<3> {
    let mut sheet = Sheet::new([(heading, ALWAYS), ("here", ALWAYS), ("what to do", ALWAYS)]);
    for capability in capabilities.iter().filter(|capability| is_shown(capability)) {
        sheet.row([capability.name.clone(), capability.to_string(), advise(capability)]);
    }
    sheet
}

/// What to do about a missing capability, with the command that helps.
pub(super) fn advise(capability: &Capability) -> String {
    match capability.name.as_str() {
        "theoretical memory bandwidth" if !capability.hint.is_empty() => {
            let command = "plimsoll peak --memory DDR5 --bus-width 512 --clock 2.4GHz";
            format!("{}, as `{command}` does", capability.hint)
        }
        _ => capability.hint.clone(),
    }
}

/// For people: a missing part with its reason, what it would add and how to get it.
fn parts_table(parts: &[Part]) -> Sheet<3> {
    let mut sheet = Sheet::new([("part", ALWAYS), ("here", ALWAYS), ("what it would add, what to do", ALWAYS)]);
    for part in parts {
        let cells = match &part.missing {
            Some((why, hint)) => [part.name.to_owned(), format!("no: {why}"), format!("Adds {}. {hint}", part.adds)],
            None => [part.name.to_owned(), describe(part), String::new()],
        };
        sheet.row(cells.map(|cell| clean(&cell)));
    }
    sheet
}

/// For programs: one row per part.
fn parts_sheet(parts: &[Part]) -> Sheet<7> {
    let headings = ["part", "present", "version", "path", "why not", "adds", "what to do"];
    let mut sheet = Sheet::new(headings.map(|heading| (heading, ALWAYS)));
    for part in parts {
        let (why, hint) = part.missing.clone().unwrap_or_default();
        let present = if part.missing.is_none() { "yes" } else { "no" };
        let path = part.path.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
        let version = part.version.clone().unwrap_or_default();
        sheet.row([part.name, present, &version, &path, &why, part.adds, &hint].map(clean));
    }
    sheet
}

/// `yes, 12.4, /usr/lib/…`: the version and the path as far as they are known.
fn describe(part: &Part) -> String {
    let path = part.path.as_ref().map(|path| path.display().to_string());
    ["yes".to_owned()].into_iter().chain(part.version.clone()).chain(path).collect::<Vec<_>>().join(", ")
}

fn part_json(part: &Part) -> serde_json::Value {
    let missing = part.missing.as_ref();
    json!({
        "name": part.name,
        "present": missing.is_none(),
        "version": part.version,
        "path": part.path.as_ref().map(|path| path.display().to_string()),
        "why_not": missing.map(|(why, _)| why),
        "hint": missing.map(|(_, hint)| hint),
        "adds": part.adds,
    })
}

fn capability_json(capability: &Capability) -> serde_json::Value {
    let text = |text: &str| if text.is_empty() { None } else { Some(text.to_owned()) };
    json!({
        "name": capability.name,
        "present": capability.is_available(),
        "why_not": text(&capability.why_not),
        "hint": text(&capability.hint),
    })
}

fn as_capability(part: &Part) -> Capability {
    match &part.missing {
        None => Capability::available(part.name),
        Some((why, hint)) => Capability::missing(part.name, why, hint),
    }
}

fn is_part(name: &str, parts: &[Part]) -> bool {
    parts.iter().any(|part| part.name == name)
}

/// The optional parts of this machine. Vulkan's drivers are listed in another process, which may crash.
fn parts() -> Vec<Part> {
    let drivers = vulkan::list().map_err(|[_, why, hint]| (why, hint)).map(|found| {
        let mut drivers: Vec<String> =
            found.iter().filter_map(|device| device["driver"].as_str()).map(str::to_owned).collect();
        drivers.dedup();
        (Some(drivers.join("; ")), None)
    });
    let mut parts = plimsoll::parts();
    parts.push(Part::new("Vulkan drivers", "the devices that `devices --vulkan` lists", drivers));
    parts
}

/// Each backend with the capabilities of its devices, then the tools for kernels.
fn capabilities() -> Vec<Capability> {
    let mut capabilities = Vec::new();
    match plimsoll::open(&DeviceSelector::Cpu) {
        Ok(opened) => {
            capabilities.push(Capability::available("cpu"));
            capabilities.extend(opened.devices.iter().flat_map(|device| device.info().capabilities.clone()));
        }
        Err(error) => {
            let hint = "Report this with the output of `plimsoll doctor`";
            capabilities.push(Capability::missing("cpu", error.to_string(), hint));
        }
    }
    let cuda = plimsoll::cuda_devices().map_err(Into::into).and_then(|_| plimsoll::open(&DeviceSelector::Cuda(0)));
    capabilities.push(match &cuda {
        Ok(_) => Capability::available("cuda"),
        Err(OpenError::Device(Fault::Unavailable { why, hint, .. })) => Capability::missing("cuda", why, hint),
        Err(other) => Capability::missing("cuda", other.to_string(), "Check the device with nvidia-smi"),
    });
    capabilities
        .extend(cuda.iter().flat_map(|opened| &opened.devices).flat_map(|device| device.info().capabilities.clone()));
    // Kernels can be compiled and disassembled without a device. If a device has already listed a tool, its entry stands.
    let tools = plimsoll::cuda_tools().into_iter();
    let unlisted: Vec<Capability> =
        tools.filter(|tool| capabilities.iter().all(|known| known.name != tool.name)).collect();
    capabilities.extend(unlisted);
    capabilities
}

fn require(required: &str, capabilities: &[Capability]) -> Result<(), Failure> {
    let Some(found) = capabilities.iter().find(|capability| capability.name == required) else {
        let names: Vec<&str> = capabilities.iter().map(|capability| capability.name.as_str()).collect();
        let shown: String = required.chars().take(40).collect();
        return Err(
            Failure::usage(format!("unknown capability '{shown}'")).hint(format!("known: {}", names.join(", ")))
        );
    };
    if found.is_available() {
        return Ok(());
    }
    let error = format!("{required} is required: {}", found.why_not);
    let hints = if found.hint.is_empty() { vec![] } else { vec![found.hint.clone()] };
    Err(Failure { exit: Exit::Unavailable, error, hints })
}
