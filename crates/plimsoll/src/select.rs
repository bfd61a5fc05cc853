//! Which device is meant: the words of `--device`. Whether there is such a device is found out by `open`.

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
    /// A Vulkan device by its number, hardware first. It never belongs to `All`, since CUDA devices are Vulkan devices too.
    Vulkan(u32),
    /// The first Vulkan device that is hardware.
    VulkanHardware,
    /// Every real device, each in turn.
    All,
    /// A simulated device with its scenario (empty for a clean one): for tests and for trying the tool. It never
    /// belongs to `All`.
    Sim(String),
}

/// Text that names no kind of device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown device '{given}': use cpu, cuda:N, vulkan:N or all")]
pub struct ParseSelectorError {
    /// What was given, shortened to 40 characters.
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
        // `parse` takes a sign, a device number has none.
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
    fn every_selector_reads_back_what_it_prints() {
        for text in ["default", "cpu", "cuda:0", "cuda:17", "vulkan", "vulkan:1", "all", "sim", "sim:seed=7,noise=0.01"]
        {
            assert_eq!(text.parse::<DeviceSelector>().unwrap().to_string(), text);
        }
        assert_eq!("cuda".parse(), Ok(DeviceSelector::Cuda(0)));
    }

    #[test]
    fn what_names_no_device_is_refused_with_the_choices() {
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
