//! The processor's model: from CPUID on x86-64, from `/proc/cpuinfo` elsewhere.

use std::path::Path;

use super::text;
use crate::arch::cpuid::Leaf;

/// The processor's name and version. Text is as the machine reports it, without control characters; empty if unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuModel {
    /// `GenuineIntel`, `AuthenticAMD`, or an Arm implementer's code such as `0x41`.
    pub vendor: String,
    /// The family (x86), or the architecture's version (Arm).
    pub family: u32,
    /// The model (x86), or the part number (Arm).
    pub model: u32,
    /// The stepping (x86), or the revision (Arm).
    pub stepping: u32,
    /// The name on the box, such as `Intel(R) Xeon(R) Processor`.
    pub brand: String,
    /// The microcode's version, if the kernel reports it.
    pub microcode: Option<String>,
    /// Whether a hypervisor runs below this system. It then decides what the system sees of clock, caches and CPUs.
    pub hypervisor: bool,
}

impl CpuModel {
    /// The first processor of `/proc/cpuinfo` under `root`.
    pub(super) fn from_cpuinfo(root: &Path) -> Self {
        let info = text::read(&root.join("proc/cpuinfo")).unwrap_or_default();
        let field = |name: &str| -> Option<String> {
            let values = info.lines().filter_map(|line| line.split_once(':'));
            values.into_iter().find(|(key, _)| key.trim() == name).map(|(_, value)| printable(value))
        };
        let first = |names: &[&str]| names.iter().find_map(|name| field(name)).unwrap_or_default();
        Self {
            vendor: first(&["vendor_id", "CPU implementer"]),
            family: number(&first(&["cpu family", "CPU architecture"])),
            model: number(&first(&["model", "CPU part"])),
            stepping: number(&first(&["stepping", "CPU revision"])),
            brand: first(&["model name", "Processor", "Hardware"]),
            microcode: field("microcode"),
            hypervisor: first(&["flags"]).split(' ').any(|flag| flag == "hypervisor"),
        }
    }

    /// From CPUID (Intel SDM vol. 2A, CPUID, leaves 0, 1 and 8000_0002H to 8000_0004H); `None` off x86-64.
    pub(super) fn from_cpuid(leaf: impl Fn(u32, u32) -> Option<Leaf>) -> Option<Self> {
        let (zero, one) = (leaf(0, 0)?, leaf(1, 0)?);
        let base_family = one.eax >> 8 & 0xF;
        let base_model = one.eax >> 4 & 0xF;
        let extended = matches!(base_family, 0x6 | 0xF);
        let brand: Vec<u8> = (0x8000_0002..=0x8000_0004_u32)
            .filter_map(|number| leaf(number, 0))
            .flat_map(|l| [l.eax, l.ebx, l.ecx, l.edx])
            .flat_map(u32::to_le_bytes)
            .take_while(|&byte| byte != 0)
            .collect();
        let vendor: Vec<u8> = [zero.ebx, zero.edx, zero.ecx].into_iter().flat_map(u32::to_le_bytes).collect();
        Some(Self {
            vendor: printable(&String::from_utf8_lossy(&vendor)),
            family: base_family + if base_family == 0xF { one.eax >> 20 & 0xFF } else { 0 },
            model: base_model + if extended { (one.eax >> 16 & 0xF) << 4 } else { 0 },
            stepping: one.eax & 0xF,
            brand: printable(&String::from_utf8_lossy(&brand)),
            microcode: None,
            hypervisor: one.ecx & (1 << 31) != 0,
        })
    }
}

/// A decimal or `0x…` number; 0 if it is neither.
fn number(text: &str) -> u32 {
    text.strip_prefix("0x").map_or_else(|| text.parse(), |hex| u32::from_str_radix(hex, 16)).unwrap_or(0)
}

/// Names come from the hypervisor and reach terminals: no control characters, single spaces, a bounded length.
fn printable(text: &str) -> String {
    let clean: String = text.chars().take(4096).map(|c| if c.is_control() { ' ' } else { c }).collect();
    clean.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &[u8; 12]) -> [u32; 3] {
        [0, 4, 8].map(|i| u32::from_le_bytes([text[i], text[i + 1], text[i + 2], text[i + 3]]))
    }

    #[test]
    fn cpuid_gives_the_extended_family_and_model() {
        let [b, d, c] = words(b"GenuineIntel");
        let leaf = |number, _| {
            let leaf = |eax, ebx, ecx, edx| Leaf { eax, ebx, ecx, edx };
            match number {
                0 => Some(leaf(0x20, b, c, d)),
                // Emerald Rapids: family 6, model 207, stepping 2; a hypervisor.
                1 => Some(leaf(0x000C_06F2, 0, 1 << 31, 0)),
                0x8000_0002 => Some(leaf(0x6F65_5820, 0x1B6E, 0, 0)),
                _ => None,
            }
        };
        let model = CpuModel::from_cpuid(leaf).unwrap();
        assert_eq!((model.family, model.model, model.stepping), (6, 207, 2));
        assert_eq!((model.vendor.as_str(), model.brand.as_str(), model.hypervisor), ("GenuineIntel", "Xeon", true));
        // Zen 4: base family F and extended family A make 25.
        let zen = CpuModel::from_cpuid(|_, _| Some(Leaf { eax: 0x00A6_0F12, ebx: 0, ecx: 0, edx: 0 })).unwrap();
        assert_eq!((zen.family, zen.model, zen.stepping), (25, 0x61, 2));
        assert_eq!(CpuModel::from_cpuid(|_, _| None), None);
    }
}
