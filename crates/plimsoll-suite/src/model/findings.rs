//! Model terms from findings.

use plimsoll_core::model::{Key, LaunchForm, Level, Machine, Mix, Pipe, Term};
use plimsoll_core::stats::Interval;
use plimsoll_core::unit::Unit;

use crate::profile::{Profile, StoredFinding};

/// Findings that give a term directly: probe, name, term. Where several give the same term, the first one found counts; the later
/// names are mostly those of published figures. Times in cycles are converted to seconds.
const PLAIN: &[(&str, &str, Key)] = &[
    ("launch", "launch, graph", Key::Launch(LaunchForm::Graph)),
    ("launch", "launch, stream", Key::Launch(LaunchForm::Stream)),
    ("launch", "overhead scale, fit", Key::Launch(LaunchForm::Stream)),
    ("launch", "launch, stream, dependent", Key::Launch(LaunchForm::StreamDependent)),
    ("launch", "launch, graph, cold", Key::ColdLaunch(LaunchForm::Graph)),
    ("launch", "launch, graph, dependent, cold", Key::ColdLaunch(LaunchForm::GraphDependent)),
    ("launch", "launch, graph, exit", Key::Launch(LaunchForm::GraphExit)),
    ("launch", "launch, graph, exit, cold", Key::ColdLaunch(LaunchForm::GraphExit)),
    ("launch", "cached to", Key::L2Full),
    ("launch", "from memory from", Key::L2Capacity),
    ("latency", "latency memory", Key::Latency(Level::Memory)),
    ("latency", "latency DRAM", Key::Latency(Level::Memory)),
    ("loaded-latency", "latency half read", Key::LatencyHalf),
    ("loaded-latency", "latency full read", Key::LatencyFull),
    ("l2", "read, unique L2", Key::Bandwidth(Level::L2, Mix { read: 1, written: 0 })),
    ("l2", "copy, unique L2", Key::Bandwidth(Level::L2, Mix { read: 1, written: 1 })),
    ("l2", "write, unique L2", Key::Bandwidth(Level::L2, Mix { read: 0, written: 1 })),
    ("l2", "read, within 25 MB", Key::Bandwidth(Level::L2, Mix { read: 1, written: 0 })),
    ("l2", "read, within 28 MB", Key::Bandwidth(Level::L2, Mix { read: 1, written: 0 })),
    ("launch", "bandwidth scale, fit", Key::Bandwidth(Level::L2, Mix { read: 1, written: 1 })),
    ("launch", "scale, fit", Key::Bandwidth(Level::L2, Mix { read: 1, written: 1 })),
    ("stream", "read", Key::Bandwidth(Level::Memory, Mix { read: 1, written: 0 })),
    ("stream", "dot (BabelStream)", Key::Bandwidth(Level::Memory, Mix { read: 1, written: 0 })),
    ("stream", "init", Key::Bandwidth(Level::Memory, Mix { read: 0, written: 1 })),
    ("stream", "copy", Key::Bandwidth(Level::Memory, Mix { read: 1, written: 1 })),
    ("stream", "triad", Key::Bandwidth(Level::Memory, Mix { read: 2, written: 1 })),
    ("stream", "add", Key::Bandwidth(Level::Memory, Mix { read: 2, written: 1 })),
    ("stream", "schoenauer", Key::Bandwidth(Level::Memory, Mix { read: 3, written: 1 })),
    ("stream", "scale", Key::Bandwidth(Level::Memory, Mix { read: 1, written: 1 })),
    ("stream", "copy (BabelStream)", Key::Bandwidth(Level::Memory, Mix { read: 1, written: 1 })),
    ("stream", "triad (BabelStream)", Key::Bandwidth(Level::Memory, Mix { read: 2, written: 1 })),
    ("uniformity", "one multiprocessor", Key::OneMultiprocessor),
    ("dispatch", "blocks per clock", Key::BlocksPerClock),
    ("l2", "full rate to", Key::L2Full),
    ("latency", "capacity L2", Key::L2Capacity),
    ("incore", "throughput FMA f32", Key::Rate(Pipe::Fma)),
    ("incore", "throughput LOP3 i32", Key::Rate(Pipe::Alu)),
    ("incore", "throughput EX2 f32", Key::Rate(Pipe::Mufu)),
    ("incore", "throughput FMA f64", Key::Rate(Pipe::Fp64)),
    ("incore", "throughput CVT i32-f32", Key::Rate(Pipe::Conversion)),
];

/// Most bytes that a multiprocessor's load/store units move per clock: one instruction of a warp with 4 bytes per thread.
const WAVEFRONT: f64 = 128.0;
/// The `mix` probe's largest number of streams in each direction.
const STREAMS: u32 = 4;

/// The probe that finds a term; `None` for what the device reports itself.
pub(super) fn probe_of(key: Key) -> Option<&'static str> {
    let plain = PLAIN.iter().find(|(_, _, known)| *known == key).map(|(probe, ..)| *probe);
    plain.or(match key {
        Key::Launch(_) | Key::ColdLaunch(_) => Some("launch"),
        Key::Latency(_) => Some("latency"),
        Key::Bandwidth(Level::Memory, _) => Some("mix"),
        Key::Bandwidth(Level::L2, _) => Some("l2"),
        Key::Rate(Pipe::Lsu) => Some("l1"),
        Key::Rate(_) => Some("incore"),
        _ => None,
    })
}

/// Adds the terms from a profile. A term that the machine has already stays, except that the best kernel's bandwidth is taken for
/// each mix of reads and writes. `clock` in Hz converts cycles to seconds.
pub(super) fn add_terms(machine: &mut Machine, profile: &Profile, clock: f64) {
    for streams in 1..=2 * STREAMS {
        for read in streams.saturating_sub(STREAMS)..=streams.min(STREAMS) {
            let written = streams - read;
            let divisor = (1..=STREAMS).rev().find(|by| read % by == 0 && written % by == 0).unwrap_or(1);
            let mix = Mix { read: read / divisor, written: written / divisor };
            let key = Key::Bandwidth(Level::Memory, mix);
            add_finding(machine, key, profile.finding("mix", &format!("{read}:{written}")), clock);
        }
    }
    for (probe, name, key) in PLAIN {
        add_finding(machine, *key, profile.finding(probe, name), clock);
    }
    add_l2_latency(machine, profile, clock);
    add_dependent_launch(machine, profile);
    if let Some(term) = profile.finding("l1", "load 4 B").and_then(|stored| to_term(stored, clock)) {
        machine.insert(Key::Rate(Pipe::Lsu), scale(term, 1.0 / WAVEFRONT));
    }
    let throughputs = profile.findings.iter().filter(|stored| {
        let finding = &stored.finding;
        finding.probe == "incore" && finding.name.starts_with("throughput ") && !stored.is_published()
    });
    // The schedulers limit every instruction, and the fastest instruction reaches that limit.
    let fastest = throughputs.max_by(|a, b| a.finding.value.total_cmp(&b.finding.value));
    add_finding(machine, Key::Rate(Pipe::Issue), fastest, clock);
}

fn add_finding(machine: &mut Machine, key: Key, stored: Option<&StoredFinding>, clock: f64) {
    let Some(term) = stored.and_then(|stored| to_term(stored, clock)) else { return };
    match key {
        Key::Bandwidth(Level::Memory, _) => machine.insert_best(key, term),
        _ => machine.insert(key, term),
    }
}

/// A finding as a term, converted from cycles to seconds; `None` for cycles where no clock is known.
fn to_term(stored: &StoredFinding, clock: f64) -> Option<Term> {
    let finding = &stored.finding;
    let source = match stored.is_published() {
        true => format!("{} {}: {}", finding.probe, finding.name, stored.source),
        false => format!("{} {}", finding.probe, finding.name),
    };
    let term = Term { value: finding.value, interval: finding.interval, source, published: stored.is_published() };
    match finding.unit == Unit::Cycle {
        true => (clock > 0.0).then(|| scale(term, 1.0 / clock)),
        false => Some(term),
    }
}

fn scale(term: Term, factor: f64) -> Term {
    let Interval { lo, hi } = term.interval;
    Term { value: term.value * factor, interval: Interval { lo: lo * factor, hi: hi * factor }, ..term }
}

/// Adds the latency of the L2. Addresses are spread over both of its halves, so it is the mean of near and far.
fn add_l2_latency(machine: &mut Machine, profile: &Profile, clock: f64) {
    let find = |name| profile.finding("latency", name).and_then(|stored| to_term(stored, clock));
    let near = find("latency L2 near").or_else(|| find("latency L2"));
    let far = find("latency L2 far").or_else(|| find("latency far L2"));
    let both = match (near, far) {
        (Some(near), Some(far)) => {
            let mean = |a: f64, b: f64| (a + b) / 2.0;
            Term {
                value: mean(near.value, far.value),
                interval: Interval {
                    lo: mean(near.interval.lo, far.interval.lo),
                    hi: mean(near.interval.hi, far.interval.hi),
                },
                source: format!("mean of {} and {}", near.source, far.source),
                published: near.published,
            }
        }
        (Some(single), None) | (None, Some(single)) => single,
        (None, None) => return,
    };
    machine.insert(Key::Latency(Level::L2), both);
}

/// Adds the cost of a graph launch that begins before the previous kernel has ended. Such a launch saves at least what empty
/// kernels save, and at most what small kernels save that fit on the device at the same time. The term is the middle, and its
/// interval spans both ends.
fn add_dependent_launch(machine: &mut Machine, profile: &Profile) {
    let find = |name| profile.finding("launch", name).and_then(|stored| to_term(stored, 0.0));
    let (Some(empty), Some(empty_dependent)) = (find("empty, graph"), find("empty, graph, dependent")) else { return };
    let (Some(launch), Some(launch_dependent)) = (find("launch, graph"), find("launch, graph, dependent")) else {
        return;
    };
    let most = launch.value - (empty.value - empty_dependent.value);
    let [lo, hi] = [launch_dependent.value.min(most), launch_dependent.value.max(most)];
    let source = "between 'launch, graph, dependent' and 'launch, graph' less what dependent empty kernels save";
    let term = Term {
        value: (lo + hi) / 2.0,
        interval: Interval { lo: lo.min(launch_dependent.interval.lo), hi: hi.max(launch_dependent.interval.hi) },
        source: source.to_owned(),
        published: launch.published,
    };
    machine.insert(Key::Launch(LaunchForm::GraphDependent), term);
}
