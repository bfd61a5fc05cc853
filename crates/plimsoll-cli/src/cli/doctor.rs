//! `plimsoll doctor`: what this machine lacks for a full measurement, why, and what would bring it.

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

/// Every backend with what its devices may do, then the tools for kernels.
fn capabilities() -> Vec<Capability> {
    let mut capabilities = Vec::new();
    match plimsoll::open(&DeviceSelector::Cpu) {
        Ok(opened) => {
            capabilities.push(Capability::there("cpu"));
            capabilities.extend(opened.devices.iter().flat_map(|device| device.info().capabilities.clone()));
        }
        Err(error) => {
            let hint = "Report this with the output of `plimsoll doctor`";
            capabilities.push(Capability::missing("cpu", error.to_string(), hint));
        }
    }
    let cuda = plimsoll::cuda_devices().map_err(Into::into).and_then(|_| plimsoll::open(&DeviceSelector::Cuda(0)));
    capabilities.push(match &cuda {
        Ok(_) => Capability::there("cuda"),
        Err(OpenError::Device(Fault::Unavailable { why, hint, .. })) => Capability::missing("cuda", why, hint),
        Err(other) => Capability::missing("cuda", other.to_string(), "See what nvidia-smi says of the device"),
    });
    capabilities
        .extend(cuda.iter().flat_map(|opened| &opened.devices).flat_map(|device| device.info().capabilities.clone()));
    // Kernels are compiled and read without a device too; what a device has said of a tool counts.
    let tools = plimsoll::cuda_tools().into_iter();
    let untold: Vec<Capability> =
        tools.filter(|tool| capabilities.iter().all(|known| known.name != tool.name)).collect();
    capabilities.extend(untold);
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
    if found.is_there() {
        return Ok(());
    }
    let error = format!("{required} is required: {}", found.why_not);
    let hints = if found.hint.is_empty() { vec![] } else { vec![found.hint.clone()] };
    Err(Failure { exit: Exit::Unavailable, error, hints })
}
