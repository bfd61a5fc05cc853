//! Intel's Arc and Apple's chips, whose CPU and GPU share one memory.

use super::super::Arithmetic::{F32, I8Matrix};
use super::super::{Class, Machine, MemoryType, Vendor};
use super::{BLANK, MIB};

/// LPDDR5 at 6400 MT/s. Apple publishes bandwidths; clocks, caches and arithmetic rates it doesn't.
const M3: Machine = Machine {
    vendor: Vendor::Apple,
    class: Class::Shared,
    memory: MemoryType::Lpddr5,
    memory_clock_hz: 3.2e9,
    ..BLANK
};

/// LPDDR5X at 8533 MT/s.
const M4: Machine = Machine { memory: MemoryType::Lpddr5x, memory_clock_hz: 4.2665e9, ..M3 };

pub(super) const MACHINES: &[Machine] = &[
    Machine {
        name: "Arc B580",
        aliases: &["B580", "Arc B580 (BMG G21)"],
        vendor: Vendor::Intel,
        memory: MemoryType::Gddr6,
        bus_width_bits: 192,
        memory_clock_hz: 2.375e9,
        multiprocessors: Some(20),
        l2_bytes: Some(18 * MIB),
        boost_clock_hz: Some(2.67e9),
        power_w: Some(190.0),
        peaks: tera!(F32 13.67, I8Matrix 233.0),
        source: "Intel Arc B580 specifications (456 GB/s); the f32 peak follows from 20 Xe cores of 128 lanes at the graphics \
                 clock",
        ..BLANK
    },
    Machine { name: "Apple M3", bus_width_bits: 128, source: "Apple's announcement of the M3 (100 GB/s)", ..M3 },
    Machine {
        name: "Apple M3 Pro",
        bus_width_bits: 192,
        source: "Apple's announcement of the M3 Pro (150 GB/s)",
        ..M3
    },
    Machine {
        name: "Apple M3 Max, 30-core GPU",
        aliases: &["Apple M3 Max 30-core", "Apple M3 Max 14-core CPU"],
        bus_width_bits: 384,
        source: "Apple's MacBook Pro specifications (300 GB/s)",
        ..M3
    },
    Machine {
        name: "Apple M3 Max, 40-core GPU",
        aliases: &["Apple M3 Max 40-core", "Apple M3 Max 16-core CPU"],
        bus_width_bits: 512,
        source: "Apple's MacBook Pro specifications (400 GB/s)",
        ..M3
    },
    Machine {
        name: "Apple M3 Ultra",
        bus_width_bits: 1024,
        source: "Apple's Mac Studio specifications (819 GB/s)",
        ..M3
    },
    Machine {
        name: "Apple M4",
        bus_width_bits: 128,
        memory_clock_hz: 3.75e9,
        source: "Apple's announcement of the M4 (120 GB/s)",
        ..M4
    },
    Machine {
        name: "Apple M4 Pro",
        bus_width_bits: 256,
        source: "Apple's announcement of the M4 Pro (273 GB/s)",
        ..M4
    },
    Machine {
        name: "Apple M4 Max, 32-core GPU",
        aliases: &["Apple M4 Max 32-core", "Apple M4 Max 14-core CPU"],
        bus_width_bits: 384,
        source: "Apple's MacBook Pro specifications (410 GB/s)",
        ..M4
    },
    Machine {
        name: "Apple M4 Max, 40-core GPU",
        aliases: &["Apple M4 Max 40-core", "Apple M4 Max 16-core CPU"],
        bus_width_bits: 512,
        source: "Apple's MacBook Pro specifications (546 GB/s)",
        ..M4
    },
];
