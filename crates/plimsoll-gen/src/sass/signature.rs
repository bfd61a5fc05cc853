//! What a cubin states about a kernel: its parameters, and the block sizes and clusters that it is compiled for.
//!
//! The attributes of a kernel are in `.nv.info.NAME`. NVIDIA doesn't document them; the names are those that nvdisasm prints, and the
//! tests compare the values with what was compiled.

use std::collections::BTreeMap;

use super::SassError;
use super::elf::{half, word};
use super::image::{damaged, ensure};

/// A parameter of a kernel: 12 bytes with index, offset and size; V2 is for parameter blocks beyond 4 KiB.
const EIATTR_KPARAM_INFO: u8 = 0x17;
const EIATTR_KPARAM_INFO_V2: u8 = 0x45;
/// Bytes of all parameters, as the attribute's value.
const EIATTR_CBANK_PARAM_SIZE: u8 = 0x19;
/// The largest block, and the only block (`__launch_bounds__` and `__block_size__`; `.maxntid` and `.reqntid` of PTX): x, y and z.
const EIATTR_MAX_THREADS: u8 = 0x05;
const EIATTR_REQNTID: u8 = 0x10;
/// Blocks of a cluster, x, y and z (`__cluster_dims__`).
const EIATTR_CTA_PER_CLUSTER: u8 = 0x3d;
/// Value formats: two bytes of value, and two bytes of length before the value.
const EIFMT_HVAL: u8 = 3;
const EIFMT_SVAL: u8 = 4;

/// A parameter of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Where it begins in the block of parameters, bytes.
    pub offset: u64,
    /// Its size, bytes.
    pub bytes: u64,
}

/// What a cubin states about one kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Signature {
    /// The symbol; C++ names are mangled.
    pub name: String,
    /// Its parameters, in order.
    pub parameters: Vec<Parameter>,
    /// Registers per thread, where the cubin states them.
    pub registers: Option<u32>,
    /// Local memory per thread, bytes.
    pub local_bytes: u32,
    /// Static shared memory per block, bytes; from compute capability 9.0 on with the 1 KiB that the system reserves.
    pub shared_bytes: u64,
    /// The largest block that it is compiled for, where it states one: as many threads as the product.
    pub most_threads: Option<[u32; 3]>,
    /// The only block that it may be launched with, where it states one.
    pub block: Option<[u32; 3]>,
    /// Blocks of a cluster, where it is compiled for clusters.
    pub cluster: Option<[u32; 3]>,
}

impl Signature {
    /// Bytes of each parameter, in order.
    #[must_use]
    pub fn sizes(&self) -> Vec<u64> {
        self.parameters.iter().map(|parameter| parameter.bytes).collect()
    }

    /// Bytes of the whole block of parameters.
    #[must_use]
    pub fn parameter_bytes(&self) -> u64 {
        self.parameters.last().map_or(0, |last| last.offset + last.bytes)
    }

    /// Reads the attributes of the kernel `name`.
    pub(super) fn read(name: &str, mut data: &[u8]) -> Result<Self, SassError> {
        let mut signature = Self { name: name.to_owned(), ..Self::default() };
        let (mut found, mut total) = (BTreeMap::new(), None);
        while !data.is_empty() {
            let (Some([format, attribute, ..]), Some(value)) = (data.get(..4), half(data, 2)) else {
                return Err(damaged("a kernel's attributes are truncated"));
            };
            let length = if *format == EIFMT_SVAL { usize::from(value) } else { 0 };
            let content = data.get(4..4 + length).ok_or(damaged("a kernel's attributes are truncated"))?;
            match (*format, *attribute) {
                (EIFMT_HVAL, EIATTR_CBANK_PARAM_SIZE) => total = Some(u64::from(value)),
                (EIFMT_SVAL, EIATTR_KPARAM_INFO | EIATTR_KPARAM_INFO_V2) => {
                    let (place, parameter) = parameter(*attribute, content)?;
                    ensure(found.insert(place, parameter).is_none(), "a kernel has a parameter twice")?;
                }
                (EIFMT_SVAL, EIATTR_MAX_THREADS) => signature.most_threads = sides(content),
                (EIFMT_SVAL, EIATTR_REQNTID) => signature.block = sides(content),
                (EIFMT_SVAL, EIATTR_CTA_PER_CLUSTER) => signature.cluster = sides(content),
                _ => {}
            }
            data = &data[4 + length..];
        }
        let in_order = found.keys().copied().eq(0..found.len() as u16);
        ensure(in_order, "a kernel's parameter is missing")?;
        signature.parameters = found.into_values().collect();
        let apart = |pair: &[Parameter]| pair[0].offset + pair[0].bytes <= pair[1].offset;
        ensure(signature.parameters.windows(2).all(apart), "a kernel's parameters overlap")?;
        let matches = total.unwrap_or(0) == signature.parameter_bytes();
        ensure(matches, "the sizes of a kernel's parameters contradict their total")?;
        Ok(signature)
    }
}

fn parameter(attribute: u8, content: &[u8]) -> Result<(u16, Parameter), SassError> {
    let (Some(place), Some(offset), Some(size)) = (half(content, 4), half(content, 6), word(content, 8)) else {
        return Err(damaged("a parameter is truncated"));
    };
    // The older attribute has other fields in the lower bits.
    let size = if attribute == EIATTR_KPARAM_INFO { size >> 18 } else { size };
    Ok((place, Parameter { offset: offset.into(), bytes: size.into() }))
}

/// Three extents; `None` if one is missing or 0.
fn sides(content: &[u8]) -> Option<[u32; 3]> {
    let sides = [word(content, 0)?, word(content, 4)?, word(content, 8)?];
    (!sides.contains(&0)).then_some(sides)
}
