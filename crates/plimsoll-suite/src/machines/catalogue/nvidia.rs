//! NVIDIA's GPUs from Volta to Hopper.

use super::super::Arithmetic::{Bf16, F8Matrix, F16, F16Matrix, F32, F64, F64Matrix, I8Matrix, Tf32Matrix};
use super::super::{Machine, MemoryType};
use super::{BLANK, KIB, MIB};

const VOLTA: Machine = Machine {
    memory: MemoryType::Hbm2,
    bus_width_bits: 4096,
    memory_clock_hz: 877e6,
    multiprocessors: Some(80),
    l2_bytes: Some(6 * MIB),
    l1_bytes_per_multiprocessor: Some(128 * KIB),
    compute_capability: Some((7, 0)),
    source: "NVIDIA V100 data sheet and Volta white paper (900 GB/s)",
    ..BLANK
};

const A100: Machine = Machine {
    bus_width_bits: 5120,
    multiprocessors: Some(108),
    l2_bytes: Some(40 * MIB),
    l1_bytes_per_multiprocessor: Some(192 * KIB),
    compute_capability: Some((8, 0)),
    boost_clock_hz: Some(1.410e9),
    peaks: tera!(
        F64 9.7, F32 19.5, F16 78.0, Bf16 39.0, F64Matrix 19.5, Tf32Matrix 156.0, F16Matrix 312.0, I8Matrix 624.0
    ),
    ..BLANK
};

const AMPERE_86: Machine = Machine {
    memory: MemoryType::Gddr6,
    bus_width_bits: 384,
    l2_bytes: Some(6 * MIB),
    l1_bytes_per_multiprocessor: Some(128 * KIB),
    compute_capability: Some((8, 6)),
    ..BLANK
};

const ADA: Machine = Machine {
    memory: MemoryType::Gddr6,
    bus_width_bits: 384,
    l1_bytes_per_multiprocessor: Some(128 * KIB),
    compute_capability: Some((8, 9)),
    ..BLANK
};

const HOPPER: Machine = Machine {
    memory: MemoryType::Hbm3,
    multiprocessors: Some(132),
    l1_bytes_per_multiprocessor: Some(256 * KIB),
    compute_capability: Some((9, 0)),
    boost_clock_hz: Some(1.980e9),
    peaks: tera!(
        F64 33.5, F32 66.9, F64Matrix 66.9, Tf32Matrix 494.7, F16Matrix 989.4, F8Matrix 1978.9, I8Matrix 1978.9
    ),
    ..BLANK
};

/// By generation.
pub(super) const MACHINES: &[Machine] = &[
    Machine {
        name: "V100 PCIe",
        aliases: &["V100 PCIe 16GB", "V100 PCIe 32GB"],
        boost_clock_hz: Some(1.380e9),
        power_w: Some(250.0),
        peaks: tera!(F64 7.0, F32 14.0, F16Matrix 112.0),
        ..VOLTA
    },
    Machine {
        name: "V100 SXM2",
        aliases: &["V100 SXM2 16GB", "V100 SXM2 32GB"],
        boost_clock_hz: Some(1.530e9),
        power_w: Some(300.0),
        peaks: tera!(F64 7.8, F32 15.7, F16Matrix 125.0),
        ..VOLTA
    },
    Machine {
        name: "T4",
        memory: MemoryType::Gddr6,
        bus_width_bits: 256,
        memory_clock_hz: 1.25e9,
        multiprocessors: Some(40),
        l2_bytes: Some(4 * MIB),
        l1_bytes_per_multiprocessor: Some(96 * KIB),
        compute_capability: Some((7, 5)),
        boost_clock_hz: Some(1.590e9),
        power_w: Some(70.0),
        peaks: tera!(F32 8.1, F16Matrix 65.0, I8Matrix 130.0),
        source: "NVIDIA T4 data sheet and Turing white paper (320 GB/s)",
        ..BLANK
    },
    Machine {
        name: "A100 80GB",
        aliases: &["A100 80GB PCIe", "A100 PCIe 80GB"],
        memory: MemoryType::Hbm2e,
        memory_clock_hz: 1.512e9,
        power_w: Some(300.0),
        source: "Elementwise Operations on GPUs, 2024 (1935 GB/s); NVIDIA A100 data sheet",
        ..A100
    },
    Machine {
        name: "A100 SXM4 80GB",
        aliases: &["A100 SXM 80GB", "A100 80GB SXM", "A100 80GB SXM4"],
        memory: MemoryType::Hbm2e,
        memory_clock_hz: 1.593e9,
        power_w: Some(400.0),
        source: "NVIDIA A100 data sheet (2039 GB/s)",
        ..A100
    },
    Machine {
        name: "A100 40GB",
        aliases: &["A100 PCIe 40GB", "A100 40GB PCIe", "A100 SXM4 40GB", "A100 SXM 40GB", "A100 40GB SXM4"],
        memory: MemoryType::Hbm2,
        memory_clock_hz: 1.215e9,
        source: "Elementwise Operations on GPUs, 2024 (1555 GB/s); NVIDIA A100 data sheet (250 W PCIe, 400 W SXM4)",
        ..A100
    },
    Machine {
        name: "A30",
        aliases: &["A30 24GB"],
        memory: MemoryType::Hbm2,
        bus_width_bits: 3072,
        memory_clock_hz: 1.215e9,
        multiprocessors: Some(56),
        l2_bytes: Some(24 * MIB),
        boost_clock_hz: Some(1.440e9),
        power_w: Some(165.0),
        peaks: tera!(F64 5.2, F32 10.3, F64Matrix 10.3, Tf32Matrix 82.0, F16Matrix 165.0, I8Matrix 330.0),
        source: "NVIDIA A30 data sheet (933 GB/s)",
        ..A100
    },
    Machine {
        name: "A10",
        memory_clock_hz: 1.5625e9,
        multiprocessors: Some(72),
        boost_clock_hz: Some(1.695e9),
        power_w: Some(150.0),
        peaks: tera!(F32 31.2, Tf32Matrix 62.5, F16Matrix 125.0, I8Matrix 250.0),
        source: "Elementwise Operations on GPUs, 2024 (600 GB/s); NVIDIA A10 data sheet, whose 31.2 TFLOP/s at 1.695 GHz \
                 are those of 72 multiprocessors, where the article counts 80",
        ..AMPERE_86
    },
    Machine {
        name: "A40",
        memory_clock_hz: 1.8125e9,
        multiprocessors: Some(84),
        boost_clock_hz: Some(1.740e9),
        power_w: Some(300.0),
        peaks: tera!(F32 37.4, Tf32Matrix 74.8, F16Matrix 149.7, I8Matrix 299.3),
        source: "NVIDIA A40 data sheet (696 GB/s)",
        ..AMPERE_86
    },
    Machine {
        name: "RTX 3090",
        memory: MemoryType::Gddr6x,
        memory_clock_hz: 1.21875e9,
        multiprocessors: Some(82),
        boost_clock_hz: Some(1.695e9),
        power_w: Some(350.0),
        peaks: tera!(F32 35.6),
        source: "NVIDIA GA102 white paper (936 GB/s)",
        ..AMPERE_86
    },
    Machine {
        name: "L4",
        bus_width_bits: 192,
        memory_clock_hz: 1.5625e9,
        multiprocessors: Some(58),
        l2_bytes: Some(48 * MIB),
        boost_clock_hz: Some(2.040e9),
        power_w: Some(72.0),
        peaks: tera!(F32 30.3, Tf32Matrix 60.0, F16Matrix 121.0, F8Matrix 242.5, I8Matrix 242.5),
        source: "Elementwise Operations on GPUs, 2024 (300 GB/s); NVIDIA L4 data sheet, whose 30.3 TFLOP/s at 2.04 GHz \
                 are those of 58 multiprocessors, where the article counts 56",
        ..ADA
    },
    Machine {
        name: "L40",
        memory_clock_hz: 2.25e9,
        multiprocessors: Some(142),
        l2_bytes: Some(96 * MIB),
        boost_clock_hz: Some(2.490e9),
        power_w: Some(300.0),
        peaks: tera!(F32 90.5, Tf32Matrix 90.5, F16Matrix 181.0, F8Matrix 362.0, I8Matrix 362.0),
        source: "NVIDIA L40 data sheet (864 GB/s)",
        ..ADA
    },
    Machine {
        name: "L40S",
        memory_clock_hz: 2.25e9,
        multiprocessors: Some(142),
        boost_clock_hz: Some(2.520e9),
        power_w: Some(350.0),
        peaks: tera!(F32 91.6, Tf32Matrix 183.0, F16Matrix 362.0, F8Matrix 733.0, I8Matrix 733.0),
        source: "NVIDIA L40S data sheet (864 GB/s)",
        ..ADA
    },
    Machine {
        name: "RTX 4090",
        memory: MemoryType::Gddr6x,
        memory_clock_hz: 1.3125e9,
        multiprocessors: Some(128),
        l2_bytes: Some(72 * MIB),
        boost_clock_hz: Some(2.520e9),
        power_w: Some(450.0),
        peaks: tera!(F32 82.6),
        source: "NVIDIA Ada white paper (1008 GB/s)",
        ..ADA
    },
    Machine {
        name: "H100 PCIe",
        aliases: &["H100 80GB PCIe", "H100 PCIe 80GB"],
        memory: MemoryType::Hbm2e,
        bus_width_bits: 5120,
        memory_clock_hz: 1.593e9,
        multiprocessors: Some(114),
        l2_bytes: Some(50 * MIB),
        boost_clock_hz: Some(1.755e9),
        power_w: Some(350.0),
        peaks: tera!(
            F64 25.6, F32 51.2, F64Matrix 51.2, Tf32Matrix 378.0, F16Matrix 756.0, F8Matrix 1513.0, I8Matrix 1513.0
        ),
        source: "NVIDIA H100 data sheet and Hopper white paper (2039 GB/s)",
        ..HOPPER
    },
    Machine {
        name: "H100 SXM",
        aliases: &["H100 SXM5", "H100 80GB HBM3", "H100 SXM 80GB", "H100 SXM5 80GB"],
        bus_width_bits: 5120,
        memory_clock_hz: 2.619e9,
        l2_bytes: Some(50 * MIB),
        power_w: Some(700.0),
        source: "NVIDIA H100 data sheet and Hopper white paper (3352 GB/s)",
        ..HOPPER
    },
    Machine {
        name: "H100 NVL",
        aliases: &["H100 NVL 94GB"],
        bus_width_bits: 6016,
        memory_clock_hz: 2.619e9,
        boost_clock_hz: Some(1.785e9),
        power_w: Some(400.0),
        peaks: tera!(
            F64 30.0, F32 60.0, F64Matrix 60.0, Tf32Matrix 417.5, F16Matrix 835.5, F8Matrix 1670.5, I8Matrix 1670.5
        ),
        source: "NVIDIA H100 data sheet (3.9 TB/s) and H100 NVL product brief (bus, memory clock, boost clock)",
        ..HOPPER
    },
    Machine {
        name: "H200",
        aliases: &["H200 SXM", "H200 141GB", "H200 SXM 141GB"],
        memory: MemoryType::Hbm3e,
        bus_width_bits: 6016,
        memory_clock_hz: 3.201e9,
        l2_bytes: Some(60 * MIB),
        power_w: Some(700.0),
        source: "Bus, memory clock and L2 as the driver reports them (4814 GB/s; the data sheet prints 4.8 TB/s); NVIDIA \
                 H200 data sheet",
        ..HOPPER
    },
    Machine {
        name: "H20",
        aliases: &["H20 96GB", "H20 SXM"],
        bus_width_bits: 6144,
        memory_clock_hz: 2.619e9,
        multiprocessors: Some(78),
        l2_bytes: Some(60 * MIB),
        boost_clock_hz: None,
        power_w: Some(400.0),
        peaks: tera!(F64 1.0, F32 44.0, Tf32Matrix 74.0, F16Matrix 148.0, F8Matrix 296.0, I8Matrix 296.0),
        source: "NVIDIA H20 specifications as sellers reprint them (96 GB, 4.0 TB/s); bus and memory clock are those of the \
                 GH200 96GB, whose memory is the same",
        ..HOPPER
    },
    Machine {
        name: "GH200 96GB",
        aliases: &["GH200 480GB", "GH200"],
        bus_width_bits: 6144,
        memory_clock_hz: 2.619e9,
        l2_bytes: Some(60 * MIB),
        source: "NVIDIA GH200 data sheet (4 TB/s); bus, memory clock and L2 as the driver reports them",
        ..HOPPER
    },
];
