//! Parses `--device`. [`open`](crate::open()) finds out whether the device exists.

use std::fmt;
use std::str::FromStr;

/// A choice of devices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DeviceSelector {
    /// The first CUDA device, else the CPU.
    #[default]
    Default,
    /// The CPU that this process runs on.
    Cpu,
    /// A CUDA device by its number.
    Cuda(u32),
    /// A Vulkan device by its number, hardware first. `All` doesn't include it, since CUDA devices are also Vulkan devices.
    Vulkan(u32),
    /// The first hardware Vulkan device.
    VulkanHardware,
    /// Every real device except Vulkan devices, one after the other.
    All,
    /// A simulated device with its scenario (empty for one without disturbances), for tests and for trying the tool. `All`
    /// doesn't include it.
    Sim(String),
}

/// A text that isn't a device selector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown device '{given}': use cpu, cuda:N, vulkan:N or all")]
pub struct ParseSelectorError {
    /// The given text, shortened to 40 characters.
    pub given: String,
}

impl FromStr for DeviceSelector {
    type Err = ParseSelectorError;

    fn from_str(text: &str) -> Result<Self, ParseSelectorError> {
        let unknown = || ParseSelectorError { given: text.chars().take(40).collect() };
        let (kind, rest) = match text.split_once(':') {
            Some((kind, rest)) => (kind, Some(rest)),
            None => (text, None),
        };
        // `parse` would accept a sign, which a device number doesn't have.
        let number = |text: &str| match text.bytes().all(|byte| byte.is_ascii_digit()) {
            true => text.parse().map_err(|_| unknown()),
            false => Err(unknown()),
        };
        match (kind, rest) {
            ("default", None) => Ok(Self::Default),
            ("cpu", None) => Ok(Self::Cpu),
            ("all", None) => Ok(Self::All),
            ("cuda", None) => Ok(Self::Cuda(0)),
            ("cuda", Some(text)) => number(text).map(Self::Cuda),
            ("vulkan", None) => Ok(Self::VulkanHardware),
            ("vulkan", Some(text)) => number(text).map(Self::Vulkan),
            ("sim", scenario) => Ok(Self::Sim(scenario.unwrap_or_default().to_owned())),
            _ => Err(unknown()),
        }
    }
}

impl fmt::Display for DeviceSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(number) => write!(f, "cuda:{number}"),
            Self::Vulkan(number) => write!(f, "vulkan:{number}"),
            Self::VulkanHardware => f.write_str("vulkan"),
            Self::All => f.write_str("all"),
            Self::Sim(scenario) if scenario.is_empty() => f.write_str("sim"),
            Self::Sim(scenario) => write!(f, "sim:{scenario}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_selectors_parse_to_the_same_selector() {
        for text in ["default", "cpu", "cuda:0", "cuda:17", "vulkan", "vulkan:1", "all", "sim", "sim:seed=7,noise=0.01"]
        {
            assert_eq!(text.parse::<DeviceSelector>().unwrap().to_string(), text);
        }
        assert_eq!("cuda".parse(), Ok(DeviceSelector::Cuda(0)));
    }

    #[test]
    fn invalid_selectors_are_refused_with_the_valid_forms() {
        let long = "x".repeat(5000);
        for text in
            ["", "gpu", "cpu:0", "cuda:", "cuda:-1", "cuda:+1", "cuda:99999999999", "vulkan:-1", "all:", "CPU", &long]
        {
            let error = text.parse::<DeviceSelector>().unwrap_err();
            assert!(error.to_string().contains("use cpu, cuda:N, vulkan:N or all"), "{error}");
            assert!(error.given.len() <= 40);
        }
    }
}
