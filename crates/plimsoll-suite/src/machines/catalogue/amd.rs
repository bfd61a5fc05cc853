//! AMD's GPUs for data centres.

use super::super::Arithmetic::{F8Matrix, F16Matrix, F32, F64, F64Matrix, I8Matrix, Tf32Matrix};
use super::super::{Machine, MemoryType, Vendor};
use super::{BLANK, KIB, MIB};

const CDNA2: Machine = Machine {
    vendor: Vendor::Amd,
    memory: MemoryType::Hbm2e,
    memory_clock_hz: 1.6e9,
    l1_bytes_per_multiprocessor: Some(16 * KIB),
    boost_clock_hz: Some(1.7e9),
    ..BLANK
};

/// Eight dies with 4 MiB of L2 each, then 256 MiB of Infinity Cache.
const CDNA3: Machine = Machine {
    vendor: Vendor::Amd,
    bus_width_bits: 8192,
    multiprocessors: Some(304),
    caches_bytes: Some(8 * 4 * MIB + 256 * MIB),
    l1_bytes_per_multiprocessor: Some(32 * KIB),
    boost_clock_hz: Some(2.1e9),
    peaks: tera!(
        F64 81.7, F32 163.4, F64Matrix 163.4, Tf32Matrix 653.7, F16Matrix 1307.4, F8Matrix 2614.9, I8Matrix 2614.9
    ),
    ..BLANK
};

const CDNA4: Machine =
    Machine { memory: MemoryType::Hbm3e, memory_clock_hz: 4.0e9, multiprocessors: Some(256), ..CDNA3 };

/// By generation.
pub(super) const MACHINES: &[Machine] = &[
    Machine {
        name: "MI210",
        bus_width_bits: 4096,
        multiprocessors: Some(104),
        l2_bytes: Some(8 * MIB),
        power_w: Some(300.0),
        peaks: tera!(F64 22.6, F32 22.6, F64Matrix 45.3, F16Matrix 181.0),
        source: "AMD Instinct MI210 data sheet (1.6 TB/s); L2: CDNA 2 white paper",
        ..CDNA2
    },
    Machine {
        name: "MI250X",
        bus_width_bits: 8192,
        multiprocessors: Some(220),
        l2_bytes: Some(16 * MIB),
        peaks: tera!(F64 47.9, F32 47.9, F64Matrix 95.7, F16Matrix 383.0),
        source: "AMD Instinct MI250X data sheet (3.2 TB/s, both dies together); L2: CDNA 2 white paper",
        ..CDNA2
    },
    Machine {
        name: "MI300X",
        aliases: &["MI300X OAM"],
        memory: MemoryType::Hbm3,
        memory_clock_hz: 2.6e9,
        power_w: Some(750.0),
        source: "AMD Instinct MI300X data sheet (5.3 TB/s); caches: CDNA 3 white paper",
        ..CDNA3
    },
    Machine {
        name: "MI325X",
        aliases: &["MI325X OAM"],
        memory: MemoryType::Hbm3e,
        memory_clock_hz: 3.0e9,
        power_w: Some(1000.0),
        source: "AMD Instinct MI325X data sheet (6 TB/s); caches: CDNA 3 white paper",
        ..CDNA3
    },
    Machine {
        name: "MI350X",
        aliases: &["MI350X OAM"],
        boost_clock_hz: Some(2.2e9),
        power_w: Some(1000.0),
        peaks: tera!(F64 72.1, F32 144.2, F64Matrix 72.1, F16Matrix 2306.9, F8Matrix 4613.7, I8Matrix 4613.7),
        source: "AMD Instinct MI350X data sheet (8 TB/s); caches: CDNA 4 white paper",
        ..CDNA4
    },
    Machine {
        name: "MI355X",
        aliases: &["MI355X OAM"],
        boost_clock_hz: Some(2.4e9),
        power_w: Some(1400.0),
        peaks: tera!(F64 78.6, F32 157.3, F64Matrix 78.6, F16Matrix 2516.6, F8Matrix 5033.2, I8Matrix 5033.2),
        source: "AMD Instinct MI355X data sheet (8 TB/s); caches: CDNA 4 white paper",
        ..CDNA4
    },
];
