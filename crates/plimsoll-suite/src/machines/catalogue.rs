//! The machines as plain data, by vendor. Every figure is published by the vendor or in the source given with it; figures that
//! aren't known for certain are left out. The parent module looks up names.

/// Peaks in 10¹² operations per second.
macro_rules! tera {
    ($($arithmetic:ident $peak:literal),+) => {
        &[$(($arithmetic, $peak * 1e12)),+]
    };
}

mod amd;
mod blackwell;
mod client;
mod nvidia;
mod servers;

use super::{Class, Machine, MemoryType, Vendor};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// A GPU about which nothing is known; families and machines override what is.
const BLANK: Machine = Machine {
    name: "",
    aliases: &[],
    vendor: Vendor::Nvidia,
    class: Class::Gpu,
    memory: MemoryType::Hbm2,
    bus_width_bits: 0,
    memory_clock_hz: 0.0,
    multiprocessors: None,
    l2_bytes: None,
    caches_bytes: None,
    l1_bytes_per_multiprocessor: None,
    compute_capability: None,
    boost_clock_hz: None,
    power_w: None,
    peaks: &[],
    source: "",
};

const GROUPS: [&[Machine]; 5] =
    [nvidia::MACHINES, blackwell::MACHINES, amd::MACHINES, client::MACHINES, servers::MACHINES];

const COUNT: usize = {
    let (mut count, mut group) = (0, 0);
    while group < GROUPS.len() {
        count += GROUPS[group].len();
        group += 1;
    }
    count
};

static ALL: [Machine; COUNT] = {
    let (mut all, mut at, mut group) = ([BLANK; COUNT], 0, 0);
    while group < GROUPS.len() {
        let mut row = 0;
        while row < GROUPS[group].len() {
            all[at] = GROUPS[group][row];
            (at, row) = (at + 1, row + 1);
        }
        group += 1;
    }
    all
};

/// Every machine of the catalogue: GPUs by vendor and generation, then chips and CPUs.
pub static MACHINES: &[Machine] = &ALL;
