//! The devices of this machine as they are listed without being opened, and which of them a selector means.

use plimsoll_core::Fault;

use crate::OpenError;
use crate::open::backends::{cpu, cuda};
use crate::select::{DeviceSelector, shorten};

/// The fewest hexadecimal digits of a UUID that name a device.
const FEWEST_DIGITS: usize = 4;

/// A device that a selector can mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The selector of this device alone.
    pub selector: DeviceSelector,
    /// The vendor's product name.
    pub name: String,
    /// Its UUID, where it has one.
    pub id: String,
    /// The Vulkan driver's name and version; empty for other backends.
    pub driver: String,
    /// Whether it is a GPU and hardware.
    pub is_gpu: bool,
}

impl std::fmt::Display for Candidate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let id = if self.id.is_empty() { String::new() } else { format!(", {}", self.id) };
        write!(f, "{} ({}{id})", self.selector, self.name)
    }
}

/// A text that names no device of this machine, or more than one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SelectError {
    /// No device has this name or UUID.
    #[error("no device is called '{given}'")]
    Unknown {
        /// The given text, shortened to 40 characters.
        given: String,
        /// The devices of this machine.
        here: Vec<Candidate>,
    },
    /// Several devices have it.
    #[error("'{given}' could be any of {} devices", .matches.len())]
    Ambiguous {
        /// The given text, shortened to 40 characters.
        given: String,
        /// These devices.
        matches: Vec<Candidate>,
    },
}

/// Lists the devices of this machine without opening them: CUDA devices, then those of `vulkan` that CUDA doesn't drive, then the
/// CPU. `vulkan` is passed in because a driver can crash the process that lists its devices: see [`crate::vulkan_devices`].
#[must_use]
pub fn candidates(vulkan: Vec<Candidate>) -> Vec<Candidate> {
    merge(cuda::candidates(), vulkan, cpu::candidate())
}

fn merge(mut cuda: Vec<Candidate>, vulkan: Vec<Candidate>, cpu: Option<Candidate>) -> Vec<Candidate> {
    // A GPU that CUDA_VISIBLE_DEVICES hides must not come back through NVIDIA's Vulkan driver.
    let has_cuda = !cuda.is_empty();
    let is_new = |device: &Candidate, cuda: &[Candidate]| {
        let is_same = |other: &Candidate| !device.id.is_empty() && digits(&other.id) == digits(&device.id);
        let is_hidden = has_cuda && device.driver.starts_with("NVIDIA");
        !is_hidden && !cuda.iter().any(is_same)
    };
    let others: Vec<Candidate> = vulkan.into_iter().filter(|device| is_new(device, &cuda)).collect();
    cuda.extend(others);
    cuda.extend(cpu);
    cuda
}

/// A UUID's digits without prefix and dashes, in lower case.
fn digits(id: &str) -> String {
    let lower = id.to_ascii_lowercase();
    let bare = ["gpu-", "mig-"].iter().find_map(|prefix| lower.strip_prefix(prefix)).unwrap_or(&lower);
    bare.chars().filter(|c| *c != '-').collect()
}

impl DeviceSelector {
    /// The selector with numbers of GPUs, `gpu` and names replaced by the devices they mean.
    ///
    /// # Errors
    /// [`OpenError::Select`] for a name that means no device or several; [`Fault::Unavailable`] if there is no such GPU.
    pub fn resolve(&self, among: &[Candidate]) -> Result<Self, OpenError> {
        let gpus: Vec<&Candidate> = among.iter().filter(|device| device.is_gpu).collect();
        match self {
            Self::Gpu(number) => match gpus.get(*number as usize) {
                Some(gpu) => Ok(gpu.selector.clone()),
                None => Err(missing_gpu(&format!("there is no GPU {number}"), &gpus, among).into()),
            },
            Self::AllGpus if gpus.is_empty() => Err(missing_gpu("there is none", &gpus, among).into()),
            Self::AllGpus => Ok(Self::Available(gpus.iter().map(|gpu| gpu.selector.clone()).collect())),
            Self::Named(name) => match find_named(name, among).as_slice() {
                [one] => Ok(one.selector.clone()),
                [] => Err(SelectError::Unknown { given: shorten(name), here: among.to_vec() }.into()),
                several => {
                    let matches = several.iter().copied().cloned().collect();
                    Err(SelectError::Ambiguous { given: shorten(name), matches }.into())
                }
            },
            other => Ok(other.clone()),
        }
    }
}

/// The devices that a text names: as the whole name or UUID, else as whole words of the name, else as any part of the name or the
/// beginning of the UUID. Case doesn't matter.
fn find_named<'c>(text: &str, among: &'c [Candidate]) -> Vec<&'c Candidate> {
    let text = text.to_lowercase();
    let find = |matches: &dyn Fn(&str, &str) -> bool| -> Vec<&'c Candidate> {
        among.iter().filter(|device| matches(&device.name.to_lowercase(), &device.id.to_lowercase())).collect()
    };
    let beginning = digits(&text);
    let is_uuid = beginning.len() >= FEWEST_DIGITS && beginning.bytes().all(|byte| byte.is_ascii_hexdigit());
    let whole = find(&|name, id| name == text || (!id.is_empty() && digits(id) == beginning));
    if !whole.is_empty() {
        return whole;
    }
    let words = find(&|name, _| has_words(name, &text));
    if !words.is_empty() {
        return words;
    }
    find(&|name, id| name.contains(&text) || (is_uuid && digits(id).starts_with(&beginning)))
}

/// Whether `text` is in `name` without a letter or digit right before or after it.
fn has_words(name: &str, text: &str) -> bool {
    let is_edge = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric());
    name.match_indices(text).any(|(place, part)| {
        is_edge(name[..place].chars().next_back()) && is_edge(name[place + part.len()..].chars().next())
    })
}

/// The error for a GPU that isn't there. It names those that are, and why there is no CUDA device.
fn missing_gpu(why: &str, gpus: &[&Candidate], among: &[Candidate]) -> Fault {
    let list = |devices: &[&Candidate]| devices.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    if !gpus.is_empty() {
        let hint = format!("GPUs here, from 0: {}", list(gpus));
        return Fault::Unavailable { what: "GPU", why: why.to_owned(), hint };
    }
    let cuda = match cuda::count() {
        Err(Fault::Unavailable { why, .. }) => format!("; CUDA: {why}"),
        _ => String::new(),
    };
    let hint = format!("devices here: {}", list(&among.iter().collect::<Vec<_>>()));
    Fault::Unavailable { what: "GPU", why: format!("{why}{cuda}, and Vulkan lists no hardware GPU"), hint }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(selector: DeviceSelector, name: &str, id: &str) -> Candidate {
        let is_gpu = !matches!(selector, DeviceSelector::Cpu);
        Candidate { selector, name: name.to_owned(), id: id.to_owned(), driver: String::new(), is_gpu }
    }

    fn cards() -> Vec<Candidate> {
        vec![
            device(DeviceSelector::Cuda(0), "NVIDIA H200", "GPU-0803a1b2-0000-0000-0000-000000000001"),
            device(DeviceSelector::Cuda(1), "NVIDIA H200", "GPU-0803ffff-0000-0000-0000-000000000002"),
            device(DeviceSelector::Cuda(2), "NVIDIA A10", "GPU-77777777-0000-0000-0000-000000000003"),
            device(DeviceSelector::Cuda(3), "NVIDIA A100 80GB", "GPU-88888888-0000-0000-0000-000000000004"),
            device(DeviceSelector::Cpu, "AMD EPYC 9654 €", "cpu-0123456789abcdef"),
        ]
    }

    fn resolve(text: &str, among: &[Candidate]) -> Result<String, OpenError> {
        text.parse::<DeviceSelector>().unwrap().resolve(among).map(|selector| selector.to_string())
    }

    #[test]
    fn names_uuids_and_their_parts_mean_the_one_device_that_has_them() {
        for (text, expected) in [
            ("0", "cuda:0"),
            ("3", "cuda:3"),
            ("gpu", "cuda:0,1,2,3"),
            ("A10", "cuda:2"),
            ("a100", "cuda:3"),
            ("80G", "cuda:3"),
            ("EPYC", "cpu"),
            ("€", "cpu"),
            ("GPU-0803A", "cuda:0"),
            ("0803f", "cuda:1"),
            ("77777777", "cuda:2"),
            ("gpu-88888888-0000-0000-0000-000000000004", "cuda:3"),
            ("cpu-0123456789abcdef", "cpu"),
        ] {
            assert_eq!(resolve(text, &cards()).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn ambiguous_and_unknown_names_list_the_devices() {
        for (text, count) in [("H200", 2), ("NVIDIA", 4), ("GPU-0803", 2)] {
            let Err(OpenError::Select(SelectError::Ambiguous { matches, .. })) = resolve(text, &cards()) else {
                panic!("{text}")
            };
            assert_eq!(matches.len(), count, "{text}");
        }
        let long = "x".repeat(5000);
        assert!(matches!(resolve("080", &cards()), Err(OpenError::Device(_))));
        for text in ["H300", "GPU-", "GPU-99", "\u{fffd}", &long] {
            let Err(OpenError::Select(SelectError::Unknown { given, here })) = resolve(text, &cards()) else {
                panic!("{text}")
            };
            assert!(given.chars().count() <= 40 && here.len() == 5);
        }
    }

    #[test]
    fn software_is_never_a_gpu_and_no_card_is_listed_twice() {
        let mut software = device(DeviceSelector::Vulkan(1), "llvmpipe", "6d657361");
        software.is_gpu = false;
        let same = device(DeviceSelector::Vulkan(0), "NVIDIA A10", "77777777-0000-0000-0000-000000000003");
        let other = device(DeviceSelector::Vulkan(2), "Radeon", "11111111-0000-0000-0000-000000000003");
        let hidden = Candidate { driver: "NVIDIA 580".to_owned(), ..other.clone() };
        let cuda = cards()[..4].to_vec();
        let all = merge(cuda, vec![same, software.clone(), other, hidden.clone()], None);
        assert_eq!(resolve("gpu", &all).unwrap(), "cuda:0,1,2,3,vulkan:2");
        assert_eq!(resolve("4", &all).unwrap(), "vulkan:2");
        let without_cuda = merge(vec![], vec![hidden], None);
        assert_eq!(resolve("gpu", &without_cuda).unwrap(), "vulkan:2");
        for text in ["gpu", "0"] {
            let error = resolve(text, &[software.clone()]).unwrap_err().to_string();
            assert!(error.contains("no hardware GPU"), "{error}");
        }
    }
}
