//! The compiler, disassembler, telemetry and counter libraries, as far as they can be found without a device.

use plimsoll_core::device::Capability;

use crate::cupti::Cupti;
use crate::disassembler::Disassembler;
use crate::driver::nvml::Nvml;
use crate::nvrtc::Nvrtc;
use plimsoll_gpu::capability;

/// Each tool: available, or the reason why not.
#[must_use]
pub fn tools() -> Vec<Capability> {
    vec![
        capability("NVRTC", &Nvrtc::find(None, None)),
        capability("nvdisasm", &Disassembler::find(None)),
        capability("NVML", &Nvml::system()),
        capability("CUPTI", &Cupti::find(None, None)),
    ]
}
