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

/// A model whose cores do `$flop` operations on f64 per cycle, and twice as many on f32: family, name and other names, then as
/// [`model`].
macro_rules! server {
    ($family:ident, $name:literal $aliases:expr, $cores:literal at $hz:literal, $caches:expr, $flop:literal per cycle) => {
        Machine {
            aliases: &$aliases,
            peaks: &[(F64, $flop * $cores as f64 * $hz), (F32, 2.0 * $flop * $cores as f64 * $hz)],
            ..model($name, $family, ($cores, $hz), $caches)
        }
    };
}

/// By vendor and generation.
#[rustfmt::skip]
pub(super) const MACHINES: &[Machine] = &[
    server!(ZEN4, "EPYC 9554" ["EPYC 9554 64-Core"], 64 at 3.75e9, [1, 256], 16.0 per cycle),
    server!(ZEN4, "EPYC 9654" ["EPYC 9654 96-Core", "EPYC Genoa", "Genoa"], 96 at 3.7e9, [1, 384], 16.0 per cycle),
    Machine {
        power_w: Some(400.0),
        ..server!(ZEN4, "EPYC 9684X" ["EPYC 9684X 96-Core", "EPYC Genoa-X", "Genoa-X"], 96 at 3.7e9, [1, 1152], 16.0 per cycle)
    },
    server!(ZEN4, "EPYC 9754" ["EPYC 9754 128-Core", "EPYC Bergamo", "Bergamo"], 128 at 3.1e9, [1, 256], 16.0 per cycle),
    Machine {
        power_w: Some(400.0),
        ..server!(ZEN5, "EPYC 9575F" ["EPYC 9575F 64-Core"], 64 at 5.0e9, [1, 256], 32.0 per cycle)
    },
    server!(ZEN5, "EPYC 9755" ["EPYC 9755 128-Core", "EPYC Turin", "Turin"], 128 at 4.1e9, [1, 512], 32.0 per cycle),
    server!(ZEN5, "EPYC 9965" ["EPYC 9965 192-Core", "EPYC Turin Dense", "Turin Dense"], 192 at 3.7e9, [1, 384], 32.0 per cycle),
    server!(SAPPHIRE_RAPIDS, "Xeon Platinum 8480+" ["Xeon 8480+", "Xeon Sapphire Rapids", "Sapphire Rapids"], 56 at 3.8e9,
        [2, 105], 32.0 per cycle),
    server!(EMERALD_RAPIDS, "Xeon Platinum 8592+" ["Xeon 8592+", "Xeon Emerald Rapids", "Emerald Rapids"], 64 at 3.9e9,
        [2, 320], 32.0 per cycle),
    server!(GRANITE_RAPIDS, "Xeon 6972P" [], 96 at 3.9e9, [2, 480], 32.0 per cycle),
    server!(GRANITE_RAPIDS, "Xeon 6980P" ["Xeon Granite Rapids", "Granite Rapids"], 128 at 3.9e9, [2, 504], 32.0 per cycle),
    Machine { power_w: Some(250.0), ..model("Xeon 6766E", SIERRA_FOREST, (144, 2.7e9), [1, 108]) },
    Machine {
        aliases: &["Xeon Sierra Forest", "Sierra Forest"],
        power_w: Some(330.0),
        ..model("Xeon 6780E", SIERRA_FOREST, (144, 3.0e9), [1, 108])
    },
];
