//! Server CPUs, one socket with all memory channels populated. Arithmetic peaks are all cores at the largest boost clock, which
//! they don't reach together: upper limits. A family's name means its model with the highest peak.

use super::super::Arithmetic::{F32, F64};
use super::super::{Class, Machine, MemoryType, Vendor};
use super::{BLANK, KIB, MIB};

/// L1 data cache of a core, at most.
const L1_AT_MOST: u64 = 48 * KIB;

/// 12 channels of DDR5-4800.
const ZEN4: Machine = Machine {
    vendor: Vendor::Amd,
    class: Class::Cpu,
    memory: MemoryType::Ddr5,
    bus_width_bits: 768,
    memory_clock_hz: 2.4e9,
    l1_bytes_per_multiprocessor: Some(32 * KIB),
    power_w: Some(360.0),
    source: "AMD EPYC 9004 specifications (460.8 GB/s per socket); operations per cycle: AMD's optimization guide of Zen 4",
    ..BLANK
};

/// 12 channels of DDR5-6400.
const ZEN5: Machine = Machine {
    memory_clock_hz: 3.2e9,
    l1_bytes_per_multiprocessor: Some(48 * KIB),
    power_w: Some(500.0),
    source: "AMD EPYC 9005 specifications (614 GB/s per socket with DDR5-6400; 576 GB/s with the DDR5-6000 of its \
             introduction); operations per cycle: AMD's optimization guide of Zen 5",
    ..ZEN4
};

/// 8 channels of DDR5-4800.
const SAPPHIRE_RAPIDS: Machine = Machine {
    vendor: Vendor::Intel,
    bus_width_bits: 512,
    l1_bytes_per_multiprocessor: Some(48 * KIB),
    power_w: Some(350.0),
    source: "Intel's product specifications (8 channels of DDR5-4800: 307.2 GB/s); operations per cycle: Intel's optimization \
             manual",
    ..ZEN4
};

/// 8 channels of DDR5-5600.
const EMERALD_RAPIDS: Machine = Machine {
    memory_clock_hz: 2.8e9,
    source: "Intel's product specifications (8 channels of DDR5-5600: 358.4 GB/s); operations per cycle: Intel's optimization \
             manual",
    ..SAPPHIRE_RAPIDS
};

/// 12 channels of MRDIMM-8800.
const GRANITE_RAPIDS: Machine = Machine {
    bus_width_bits: 768,
    memory_clock_hz: 4.4e9,
    power_w: Some(500.0),
    source: "Intel's product specifications (12 channels of MRDIMM-8800: 844.8 GB/s; DDR5-6400: 614.4 GB/s); operations per \
             cycle: Intel's optimization manual",
    ..SAPPHIRE_RAPIDS
};

/// 8 channels of DDR5-6400; L2 of 4 MiB for each four cores.
const SIERRA_FOREST: Machine = Machine {
    memory_clock_hz: 3.2e9,
    l1_bytes_per_multiprocessor: Some(32 * KIB),
    source: "Intel's product specifications (8 channels of DDR5-6400: 409.6 GB/s)",
    ..SAPPHIRE_RAPIDS
};

/// A model of `family` with its cores, boost clock in hertz, L2 per core and L3 in MiB.
const fn model(
    name: &'static str,
    family: Machine,
    (cores, boost_clock_hz): (u32, f64),
    [l2_per_core, l3]: [u64; 2],
) -> Machine {
    Machine {
        name,
        multiprocessors: Some(cores),
        boost_clock_hz: Some(boost_clock_hz),
        caches_bytes: Some(cores as u64 * (L1_AT_MOST + l2_per_core * MIB) + l3 * MIB),
        ..family
    }
}

/// By vendor and generation.
pub(super) const MACHINES: &[Machine] = &[
    Machine {
        aliases: &["EPYC 9554 64-Core"],
        peaks: &[(F64, 16.0 * 64.0 * 3.75e9), (F32, 32.0 * 64.0 * 3.75e9)],
        ..model("EPYC 9554", ZEN4, (64, 3.75e9), [1, 256])
    },
    Machine {
        aliases: &["EPYC 9654 96-Core", "EPYC Genoa", "Genoa"],
        peaks: &[(F64, 16.0 * 96.0 * 3.7e9), (F32, 32.0 * 96.0 * 3.7e9)],
        ..model("EPYC 9654", ZEN4, (96, 3.7e9), [1, 384])
    },
    Machine {
        aliases: &["EPYC 9684X 96-Core", "EPYC Genoa-X", "Genoa-X"],
        power_w: Some(400.0),
        peaks: &[(F64, 16.0 * 96.0 * 3.7e9), (F32, 32.0 * 96.0 * 3.7e9)],
        ..model("EPYC 9684X", ZEN4, (96, 3.7e9), [1, 1152])
    },
    Machine {
        aliases: &["EPYC 9754 128-Core", "EPYC Bergamo", "Bergamo"],
        peaks: &[(F64, 16.0 * 128.0 * 3.1e9), (F32, 32.0 * 128.0 * 3.1e9)],
        ..model("EPYC 9754", ZEN4, (128, 3.1e9), [1, 256])
    },
    Machine {
        aliases: &["EPYC 9575F 64-Core"],
        power_w: Some(400.0),
        peaks: &[(F64, 32.0 * 64.0 * 5.0e9), (F32, 64.0 * 64.0 * 5.0e9)],
        ..model("EPYC 9575F", ZEN5, (64, 5.0e9), [1, 256])
    },
    Machine {
        aliases: &["EPYC 9755 128-Core", "EPYC Turin", "Turin"],
        peaks: &[(F64, 32.0 * 128.0 * 4.1e9), (F32, 64.0 * 128.0 * 4.1e9)],
        ..model("EPYC 9755", ZEN5, (128, 4.1e9), [1, 512])
    },
    Machine {
        aliases: &["EPYC 9965 192-Core", "EPYC Turin Dense", "Turin Dense"],
        peaks: &[(F64, 32.0 * 192.0 * 3.7e9), (F32, 64.0 * 192.0 * 3.7e9)],
        ..model("EPYC 9965", ZEN5, (192, 3.7e9), [1, 384])
    },
    Machine {
        aliases: &["Xeon 8480+", "Xeon Sapphire Rapids", "Sapphire Rapids"],
        peaks: &[(F64, 32.0 * 56.0 * 3.8e9), (F32, 64.0 * 56.0 * 3.8e9)],
        ..model("Xeon Platinum 8480+", SAPPHIRE_RAPIDS, (56, 3.8e9), [2, 105])
    },
    Machine {
        aliases: &["Xeon 8592+", "Xeon Emerald Rapids", "Emerald Rapids"],
        peaks: &[(F64, 32.0 * 64.0 * 3.9e9), (F32, 64.0 * 64.0 * 3.9e9)],
        ..model("Xeon Platinum 8592+", EMERALD_RAPIDS, (64, 3.9e9), [2, 320])
    },
    Machine {
        peaks: &[(F64, 32.0 * 96.0 * 3.9e9), (F32, 64.0 * 96.0 * 3.9e9)],
        ..model("Xeon 6972P", GRANITE_RAPIDS, (96, 3.9e9), [2, 480])
    },
    Machine {
        aliases: &["Xeon Granite Rapids", "Granite Rapids"],
        peaks: &[(F64, 32.0 * 128.0 * 3.9e9), (F32, 64.0 * 128.0 * 3.9e9)],
        ..model("Xeon 6980P", GRANITE_RAPIDS, (128, 3.9e9), [2, 504])
    },
    Machine { power_w: Some(250.0), ..model("Xeon 6766E", SIERRA_FOREST, (144, 2.7e9), [1, 108]) },
    Machine {
        aliases: &["Xeon Sierra Forest", "Sierra Forest"],
        power_w: Some(330.0),
        ..model("Xeon 6780E", SIERRA_FOREST, (144, 3.0e9), [1, 108])
    },
];
