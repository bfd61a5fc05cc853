//! `plimsoll doctor`: what this machine lacks for a full measurement, why, and how to get it.

use plimsoll::core::device::Capability;
use plimsoll::prelude::{DeviceSelector, Fault, OpenError};

use super::args::{DoctorArgs, Format};
use super::exit::{Exit, Failure};
use super::output;
use super::sheet::{ALWAYS, Sheet};

pub(crate) fn run(args: &DoctorArgs) -> Result<Exit, Failure> {
    let capabilities = capabilities();
    let mut sheet = Sheet::new([("capability", ALWAYS), ("here", ALWAYS), ("what to do", ALWAYS)]);
    for capability in &capabilities {
        sheet.row([capability.name.clone(), capability.to_string(), capability.hint.clone()]);
    }
    output::print(&sheet.render(Format::Table))?;
    for required in &args.require {
        require(required, &capabilities)?;
    }
    Ok(Exit::Success)
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
