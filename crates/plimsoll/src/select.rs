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
    /// A GPU by its number: CUDA devices first, then the hardware that only Vulkan drives.
    Gpu(u32),
    /// Every GPU that is hardware. Those that can't be opened are left out.
    AllGpus,
    /// A device by its name or UUID, or by a part of them that no other device has.
    Named(String),
    /// Several devices. All must open.
    Several(Vec<DeviceSelector>),
    /// Several devices. Those that can't be opened are left out.
    Available(Vec<DeviceSelector>),
}

/// The most digits of a GPU's number. A longer word of digits is the beginning of a UUID.
const NUMBER_DIGITS: usize = 3;

/// The most characters of a wrong text that an error shows.
const SHOWN: usize = 40;

/// A text that isn't a device selector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown device '{given}': use {FORMS}")]
pub struct ParseSelectorError {
    /// The given text, shortened to 40 characters.
    pub given: String,
}

/// The forms of a selector, for errors.
const FORMS: &str = "cpu, gpu, cuda:N, cuda:N,M, vulkan:N, all, a GPU's number, a name or a UUID";

/// The beginning of a text, as errors show it.
pub(crate) fn shorten(text: &str) -> String {
    text.chars().take(SHOWN).collect()
}

impl DeviceSelector {
    /// Whether only the list of this machine's devices says which are meant (see [`Self::resolve`]).
    #[must_use]
    pub fn needs_candidates(&self) -> bool {
        matches!(self, Self::Gpu(_) | Self::AllGpus | Self::Named(_))
    }

    /// The device of a selector of one device; `None` if it names several.
    #[must_use]
    pub fn single(&self) -> Option<&Self> {
        match self {
            Self::Several(devices) | Self::Available(devices) => match devices.as_slice() {
                [one] => Some(one),
                _ => None,
            },
            Self::All | Self::AllGpus => None,
            one => Some(one),
        }
    }
}

/// Numbers separated by commas, none twice, as a selector of one or several devices.
fn parse_numbers(text: &str, device: fn(u32) -> DeviceSelector) -> Option<DeviceSelector> {
    let mut devices = Vec::new();
    for word in text.split(',') {
        // `parse` would accept a sign, which a device number doesn't have.
        let is_number = word.bytes().all(|byte| byte.is_ascii_digit());
        let device = device(word.parse().ok().filter(|_| is_number)?);
        if devices.contains(&device) {
            return None;
        }
        devices.push(device);
    }
    if devices.len() == 1 { devices.pop() } else { Some(DeviceSelector::Several(devices)) }
}

impl FromStr for DeviceSelector {
    type Err = ParseSelectorError;

    fn from_str(text: &str) -> Result<Self, ParseSelectorError> {
        let unknown = || ParseSelectorError { given: shorten(text) };
        let (kind, rest) = match text.split_once(':') {
            Some((kind, rest)) => (kind, Some(rest)),
            None => (text, None),
        };
        match (kind.to_ascii_lowercase().as_str(), rest) {
            ("default", None) => Ok(Self::Default),
            ("cpu", None) => Ok(Self::Cpu),
            ("gpu", None) => Ok(Self::AllGpus),
            ("all", None) => Ok(Self::All),
            ("cuda", None) => Ok(Self::Cuda(0)),
            ("cuda", Some(numbers)) => parse_numbers(numbers, Self::Cuda).ok_or_else(unknown),
            ("vulkan", None) => Ok(Self::VulkanHardware),
            ("vulkan", Some(numbers)) => parse_numbers(numbers, Self::Vulkan).ok_or_else(unknown),
            ("sim", scenario) => Ok(Self::Sim(scenario.unwrap_or_default().to_owned())),
            ("gpu", Some(numbers)) => parse_numbers(numbers, Self::Gpu).and_then(single_gpu).ok_or_else(unknown),
            ("default" | "cpu" | "all", Some(_)) => Err(unknown()),
            _ if text.trim().is_empty() => Err(unknown()),
            _ if text.len() <= NUMBER_DIGITS && text.bytes().all(|byte| byte.is_ascii_digit()) => {
                text.parse().map(Self::Gpu).map_err(|_| unknown())
            }
            _ => Ok(Self::Named(text.trim().to_owned())),
        }
    }
}

/// `gpu:N` is the same as `N`; lists exist only of devices of one backend.
fn single_gpu(selector: DeviceSelector) -> Option<DeviceSelector> {
    matches!(selector, DeviceSelector::Gpu(_)).then_some(selector)
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
            Self::Gpu(number) => write!(f, "{number}"),
            Self::AllGpus => f.write_str("gpu"),
            Self::Named(name) => f.write_str(name),
            Self::Several(devices) | Self::Available(devices) => write_list(devices, f),
        }
    }
}

/// `cuda:0,2`: the kind is written where it changes.
fn write_list(devices: &[DeviceSelector], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut previous = String::new();
    for (place, device) in devices.iter().enumerate() {
        let text = device.to_string();
        let (kind, number) = text.split_once(':').unwrap_or((&text, ""));
        let shown = if kind == previous { number } else { &text };
        write!(f, "{}{shown}", if place == 0 { "" } else { "," })?;
        previous = kind.to_owned();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_selectors_parse_to_the_same_selector() {
        for text in [
            "default",
            "cpu",
            "cuda:0",
            "cuda:17",
            "cuda:0,2",
            "vulkan",
            "vulkan:1",
            "vulkan:1,0",
            "all",
            "gpu",
            "0",
            "12",
            "H200",
            "GPU-0803",
            "sim",
            "sim:seed=7,noise=0.01",
        ] {
            assert_eq!(text.parse::<DeviceSelector>().unwrap().to_string(), text);
        }
        assert_eq!("cuda".parse(), Ok(DeviceSelector::Cuda(0)));
        assert_eq!("GPU".parse(), Ok(DeviceSelector::AllGpus));
        assert_eq!("gpu:1".parse(), Ok(DeviceSelector::Gpu(1)));
        let several = DeviceSelector::Several(vec![DeviceSelector::Cuda(2), DeviceSelector::Cuda(0)]);
        assert_eq!("CUDA:2,0".parse(), Ok(several));
        assert_eq!("08031234".parse(), Ok(DeviceSelector::Named("08031234".to_owned())));
    }

    #[test]
    fn invalid_selectors_are_refused_with_the_valid_forms() {
        let long = format!("cuda:{}", "x".repeat(5000));
        let texts =
            ["", " ", "cpu:0", "cuda:", "cuda:-1", "cuda:+1", "cuda:99999999999", "cuda:0,", "cuda:,0", "cuda:0,0"];
        for text in texts.into_iter().chain(["cuda:0, 1", "cuda:0,cuda:1", "vulkan:-1", "all:", "gpu:0,1", &long]) {
            let error = text.parse::<DeviceSelector>().unwrap_err();
            assert!(error.to_string().contains("use cpu, gpu, cuda:N"), "{error}");
            assert!(error.given.len() <= 40);
        }
    }
}
