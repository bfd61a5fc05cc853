//! Published figures for terms that no profile has: those of the machine itself, else of the most similar machine with a wider
//! interval. The source says which, and every term is marked as published.

use plimsoll_core::model::{Key, LaunchForm, Level, Machine, Mix, Pipe, Term};
use plimsoll_core::stats::Interval;

/// A published figure. Its interval is wider where its source is about a similar machine.
struct Figure {
    machine: &'static str,
    key: Key,
    value: f64,
    interval: [f64; 2],
    source: &'static str,
}

const STREAM: Key = Key::Launch(LaunchForm::Stream);
const L2_COPY: Key = Key::Bandwidth(Level::L2, Mix { read: 1, written: 1 });
const L2_READ: Key = Key::Bandwidth(Level::L2, Mix { read: 1, written: 0 });
const COPY: Key = Key::Bandwidth(Level::Memory, Mix { read: 1, written: 1 });
const TRIAD: Key = Key::Bandwidth(Level::Memory, Mix { read: 2, written: 1 });

const SEED: &str = "Elementwise Operations on GPUs, 2024";
const A100_FIT: &str = "launch scale, fit: gpu-benches results of a100_80, the board with faster memory";
const GH200_FIT: &str = "launch scale, fit: gpu-benches results of the GH200, a board with the same chip";
const L40_FIT: &str = "launch scale, fit: gpu-benches results of l40, a larger board";
const A100_FAMILY: [&str; 2] = ["A100 40GB", "A100 SXM4 80GB"];

const fn figure(machine: &'static str, key: Key, value: f64, interval: [f64; 2], source: &'static str) -> Figure {
    Figure { machine, key, value, interval, source }
}

const FIGURES: &[Figure] = &[
    figure(
        "A100 40GB",
        COPY,
        1.322e12,
        [1.24e12, 1.40e12],
        "85 % of 1555 GB/s at 2 GiB: Elementwise Operations on GPUs, 2024",
    ),
    figure("A100 40GB", TRIAD, 1.38e12, [1.31e12, 1.45e12], "saxpy in plain memory: GTC 2020 talk on the A100"),
    figure("A10", COPY, 4.5e11, [4.2e11, 4.9e11], "about 75 % of 600 GB/s: Elementwise Operations on GPUs, 2024"),
    figure("A10", STREAM, 1.6e-6, [1.1e-6, 4.0e-6], L40_FIT),
    figure("L4", COPY, 2.35e11, [2.25e11, 2.6e11], SEED),
    figure(
        "L4",
        L2_COPY,
        1.58e12,
        [1.5e12, 2.2e12],
        "copy of 16 MiB, hot, its launch included: Elementwise Operations on GPUs, 2024",
    ),
    figure("L4", STREAM, 1.6e-6, [1.1e-6, 4.0e-6], L40_FIT),
    figure("H100 PCIe", STREAM, 2.433e-6, [1.7e-6, 3.5e-6], GH200_FIT),
    figure(
        "H100 PCIe",
        L2_COPY,
        5.0e12,
        [3.8e12, 6.1e12],
        "GH200's 6.08 TB/s (gpu-benches) by multiprocessors and clock",
    ),
    figure("H100 SXM", STREAM, 2.433e-6, [1.7e-6, 3.5e-6], GH200_FIT),
    figure("H100 SXM", L2_COPY, 6.084e12, [5.0e12, 7.5e12], GH200_FIT),
    figure(
        "V100 PCIe",
        STREAM,
        2.555e-6,
        [1.5e-6, 5.0e-6],
        "launch scale, fit: gpu-benches results of a100_80, a later machine",
    ),
    figure(
        "V100 SXM2",
        STREAM,
        2.555e-6,
        [1.5e-6, 5.0e-6],
        "launch scale, fit: gpu-benches results of a100_80, a later machine",
    ),
];

/// Figures of the A100 80GB, for boards with the same chip.
const A100: [(Key, f64, [f64; 2], &str); 5] = [
    (STREAM, 2.555e-6, [2.0e-6, 3.5e-6], A100_FIT),
    (L2_COPY, 3.817e12, [3.3e12, 4.6e12], A100_FIT),
    (L2_READ, 5.4e12, [4.9e12, 5.9e12], "l2 read: gpu-benches results of a100_80, the board with faster memory"),
    (
        Key::Latency(Level::L2),
        335.0 / 1.41e9,
        [300.0 / 1.41e9, 370.0 / 1.41e9],
        "latency L2 and far L2: gpu-benches results of a100_80",
    ),
    (
        Key::Latency(Level::Memory),
        544.0 / 1.41e9,
        [490.0 / 1.41e9, 600.0 / 1.41e9],
        "latency DRAM: gpu-benches results of a100_80, the board with faster memory",
    ),
];

/// Adds the published figures of a machine of the catalogue; terms that it has already stay.
pub(super) fn add_terms(machine: &mut Machine, name: &str) {
    for figure in FIGURES.iter().filter(|figure| figure.machine == name) {
        machine.insert(figure.key, term(figure.value, figure.interval, figure.source));
    }
    if A100_FAMILY.contains(&name) {
        for (key, value, interval, source) in A100 {
            machine.insert(key, term(value, interval, source));
        }
    }
    if let Ok(known) = crate::machines::machine(name)
        && let Some(bytes) = known.l2_bytes
    {
        let bytes = bytes as f64;
        // The part of a repeated sweep that stays cached is as large as the cache, minus other data in it.
        machine.insert(Key::L2Capacity, term(bytes, [0.9 * bytes, bytes], known.source));
    }
}

fn term(value: f64, [lo, hi]: [f64; 2], source: &str) -> Term {
    Term { value, interval: Interval { lo, hi }, source: source.to_owned(), published: true }
}

/// Results per clock and multiprocessor, by compute capability 7.0, 7.5, 8.0, 8.6, 8.9 and 9.0: 'Throughput of Native
/// Arithmetic Instructions' of the CUDA C++ Programming Guide; schedulers and load/store units from the white papers.
const LANES: [(Pipe, [f64; 6]); 7] = [
    (Pipe::Issue, [128.0, 128.0, 128.0, 128.0, 128.0, 128.0]),
    (Pipe::Fma, [64.0, 64.0, 64.0, 128.0, 128.0, 128.0]),
    (Pipe::Alu, [64.0, 64.0, 64.0, 64.0, 64.0, 64.0]),
    (Pipe::Mufu, [16.0, 16.0, 16.0, 16.0, 16.0, 16.0]),
    (Pipe::Fp64, [32.0, 2.0, 32.0, 2.0, 2.0, 64.0]),
    (Pipe::Lsu, [32.0, 16.0, 32.0, 32.0, 32.0, 32.0]),
    (Pipe::Conversion, [16.0, 16.0, 16.0, 16.0, 16.0, 16.0]),
];
const CAPABILITIES: [u32; 6] = [70, 75, 80, 86, 89, 90];
/// The share of a published rate that kernels reach; `incore` measures 94 to 100 %.
const REACHED: [f64; 2] = [0.92, 1.0];

/// Adds the instruction rates published for a compute capability (times ten); terms that the machine has already stay.
pub(super) fn add_rates(machine: &mut Machine, capability: u32) {
    let Some(column) = CAPABILITIES.iter().position(|known| *known == capability) else { return };
    for (pipe, lanes) in LANES {
        let rate = lanes[column] / 32.0;
        let interval = REACHED.map(|share| share * rate);
        machine.insert(Key::Rate(pipe), term(rate, interval, "CUDA C++ Programming Guide"));
    }
}
