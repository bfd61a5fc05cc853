//! NVIDIA's GPUs of the Blackwell generation.

use super::super::Arithmetic::{F8Matrix, F16Matrix, F32, F64, F64Matrix, I8Matrix, Tf32Matrix};
use super::super::{Machine, MemoryType};
use super::{BLANK, KIB, MIB};

/// Both dies together.
const DATA_CENTER: Machine = Machine {
    memory: MemoryType::Hbm3e,
    memory_clock_hz: 3.996e9,
    l2_bytes: Some(129_536 * KIB),
    l1_bytes_per_multiprocessor: Some(256 * KIB),
    ..BLANK
};

const RTX: Machine = Machine {
    memory: MemoryType::Gddr7,
    memory_clock_hz: 1.75e9,
    l1_bytes_per_multiprocessor: Some(128 * KIB),
    compute_capability: Some((12, 0)),
    ..BLANK
};

const RTX_PRO_6000: Machine =
    Machine { bus_width_bits: 512, multiprocessors: Some(188), l2_bytes: Some(128 * MIB), ..RTX };

/// Data centre first, then workstations, then GeForce.
pub(super) const MACHINES: &[Machine] = &[
    Machine {
        name: "B200",
        aliases: &["B200 180GB", "B200 SXM", "B200 SXM6", "HGX B200"],
        bus_width_bits: 7680,
        multiprocessors: Some(148),
        compute_capability: Some((10, 0)),
        boost_clock_hz: Some(1.965e9),
        power_w: Some(1000.0),
        peaks: tera!(
            F64 37.0, F32 75.0, F64Matrix 37.0, Tf32Matrix 1125.0, F16Matrix 2250.0, F8Matrix 4500.0, I8Matrix 4500.0
        ),
        source: "NVIDIA HGX B200 specifications (7.7 TB/s, peaks); bus, clocks, multiprocessors and L2 as the driver reports \
                 them (pytorch/ao, pull request 4002)",
        ..DATA_CENTER
    },
    Machine {
        name: "B300",
        aliases: &["B300 SXM6 AC", "B300 SXM6", "B300 SXM", "HGX B300"],
        bus_width_bits: 7680,
        multiprocessors: Some(148),
        compute_capability: Some((10, 3)),
        boost_clock_hz: Some(2.032e9),
        power_w: Some(1100.0),
        peaks: tera!(F64 1.25, F32 75.0, F64Matrix 1.25, Tf32Matrix 1125.0, F16Matrix 2250.0, F8Matrix 4500.0),
        source: "NVIDIA HGX B300 specifications (7.7 TB/s, peaks); bus, clocks, multiprocessors and L2 as the driver of a B300 \
                 SXM6 AC reports them",
        ..DATA_CENTER
    },
    Machine {
        name: "GB200",
        aliases: &["GB200 NVL72", "GB200 NVL", "GB200 186GB"],
        // Drivers report 7936 or 8064 bit; the wider one is listed.
        bus_width_bits: 8064,
        multiprocessors: Some(152),
        compute_capability: Some((10, 0)),
        power_w: Some(1200.0),
        peaks: tera!(
            F64 40.0, F32 80.0, F64Matrix 40.0, Tf32Matrix 1250.0, F16Matrix 2500.0, F8Matrix 5000.0, I8Matrix 5000.0
        ),
        source: "NVIDIA GB200 NVL72 specifications, one of 72 GPUs (8 TB/s, peaks); bus, memory clock and multiprocessors as \
                 the driver reports them; L2 of the B200",
        ..DATA_CENTER
    },
    Machine {
        name: "GB300",
        aliases: &["GB300 NVL72", "GB300 NVL", "GB300 279GB"],
        bus_width_bits: 8192,
        multiprocessors: Some(152),
        compute_capability: Some((10, 3)),
        power_w: Some(1400.0),
        peaks: tera!(F32 80.0, Tf32Matrix 1250.0, F16Matrix 2500.0, F8Matrix 5000.0),
        source: "NVIDIA GB300 NVL72 specifications, one of 72 GPUs (8 TB/s, peaks); bus of the full chip: NVIDIA's blog on \
                 Blackwell Ultra; multiprocessors as the driver reports them; memory clock and L2 of the B300",
        ..DATA_CENTER
    },
    Machine {
        name: "RTX PRO 6000 Blackwell Workstation Edition",
        power_w: Some(600.0),
        peaks: tera!(F32 125.0),
        source: "NVIDIA RTX PRO 6000 Blackwell Workstation Edition data sheet (1792 GB/s); L2 of the full GB202",
        ..RTX_PRO_6000
    },
    Machine {
        name: "RTX PRO 6000 Blackwell Max-Q Workstation Edition",
        aliases: &["RTX PRO 6000 Blackwell Max-Q"],
        power_w: Some(300.0),
        peaks: tera!(F32 110.0),
        source: "NVIDIA RTX PRO 6000 Blackwell Max-Q data sheet (1792 GB/s); L2 of the full GB202",
        ..RTX_PRO_6000
    },
    Machine {
        name: "RTX PRO 6000 Blackwell Server Edition",
        memory_clock_hz: 1.56e9,
        power_w: Some(600.0),
        peaks: tera!(F32 120.0),
        source: "NVIDIA RTX PRO 6000 Blackwell Server Edition data sheet (1597 GB/s, from which the memory clock follows); L2 \
                 of the full GB202",
        ..RTX_PRO_6000
    },
    Machine {
        name: "RTX 5090",
        bus_width_bits: 512,
        multiprocessors: Some(170),
        l2_bytes: Some(96 * MIB),
        boost_clock_hz: Some(2.407e9),
        power_w: Some(575.0),
        peaks: tera!(F32 104.8),
        source: "NVIDIA RTX Blackwell white paper (1792 GB/s)",
        ..RTX
    },
    Machine {
        name: "RTX 5080",
        bus_width_bits: 256,
        memory_clock_hz: 1.875e9,
        multiprocessors: Some(84),
        l2_bytes: Some(64 * MIB),
        boost_clock_hz: Some(2.617e9),
        power_w: Some(360.0),
        peaks: tera!(F32 56.3),
        source: "NVIDIA RTX Blackwell white paper (960 GB/s)",
        ..RTX
    },
    Machine {
        name: "RTX 5070 Ti",
        bus_width_bits: 256,
        multiprocessors: Some(70),
        l2_bytes: Some(48 * MIB),
        boost_clock_hz: Some(2.452e9),
        power_w: Some(300.0),
        peaks: tera!(F32 43.9),
        source: "NVIDIA RTX Blackwell white paper (896 GB/s)",
        ..RTX
    },
    Machine {
        name: "RTX 5070",
        aliases: &["5070"],
        bus_width_bits: 192,
        multiprocessors: Some(48),
        l2_bytes: Some(48 * MIB),
        boost_clock_hz: Some(2.512e9),
        power_w: Some(250.0),
        peaks: tera!(F32 30.9),
        source: "NVIDIA RTX Blackwell white paper (672 GB/s)",
        ..RTX
    },
    Machine {
        name: "RTX 5060 Ti",
        aliases: &["RTX 5060 Ti 8GB", "RTX 5060 Ti 16GB"],
        bus_width_bits: 128,
        multiprocessors: Some(36),
        boost_clock_hz: Some(2.572e9),
        power_w: Some(180.0),
        peaks: tera!(F32 23.7),
        source: "NVIDIA GeForce RTX 5060 family specifications (448 GB/s); the peak follows from 4608 cores at the boost clock",
        ..RTX
    },
    Machine {
        name: "RTX 5060",
        aliases: &["5060"],
        bus_width_bits: 128,
        multiprocessors: Some(30),
        boost_clock_hz: Some(2.497e9),
        power_w: Some(145.0),
        peaks: tera!(F32 19.2),
        source: "NVIDIA GeForce RTX 5060 family specifications (448 GB/s); the peak follows from 3840 cores at the boost clock",
        ..RTX
    },
];
