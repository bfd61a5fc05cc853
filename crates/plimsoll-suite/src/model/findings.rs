//! Which finding gives which term.

use plimsoll_core::model::{Key, LaunchForm, Level, Machine, Mix, Pipe, Term};
use plimsoll_core::stats::Interval;
use plimsoll_core::unit::Unit;

use crate::profile::{Profile, StoredFinding};

/// Findings that are a term as they stand: probe, name, term. Names that follow another for the same term are those that
/// published figures go by. Times in cycles and rates per cycle are turned as their units say.
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

/// Bytes that a multiprocessor's load/store units move in a clock at most: one instruction of a warp, 4 bytes a thread.
const WAVEFRONT: f64 = 128.0;
/// The `mix` probe's largest number of streams each way.
const STREAMS: u32 = 4;

/// The probe that finds a term; `None` of what the device says itself.
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

/// Takes over what the profile has; what the machine knows already stays, except that of a mix of reads and writes the best kernel's figure is
/// taken. `clock` in Hz turns cycles into seconds.
pub(super) fn know(machine: &mut Machine, profile: &Profile, clock: f64) {
    for streams in 1..=2 * STREAMS {
        for read in streams.saturating_sub(STREAMS)..=streams.min(STREAMS) {
            let written = streams - read;
            let divisor = (1..=STREAMS).rev().find(|by| read % by == 0 && written % by == 0).unwrap_or(1);
            let mix = Mix { read: read / divisor, written: written / divisor };
            let key = Key::Bandwidth(Level::Memory, mix);
            take(machine, key, profile.finding("mix", &format!("{read}:{written}")), clock);
        }
    }
    for (probe, name, key) in PLAIN {
        take(machine, *key, profile.finding(probe, name), clock);
    }
    second_level(machine, profile, clock);
    dependent(machine, profile);
    if let Some(term) = profile.finding("l1", "load 4 B").and_then(|stored| term(stored, clock)) {
        machine.know(Key::Rate(Pipe::Lsu), scaled(term, 1.0 / WAVEFRONT));
    }
    let throughputs = profile.findings.iter().filter(|stored| {
        let finding = &stored.finding;
        finding.probe == "incore" && finding.name.starts_with("throughput ") && !stored.is_published()
    });
    // No instruction goes faster than the schedulers, and the fastest goes as fast.
    let fastest = throughputs.max_by(|a, b| a.finding.value.total_cmp(&b.finding.value));
    take(machine, Key::Rate(Pipe::Issue), fastest, clock);
}

fn take(machine: &mut Machine, key: Key, stored: Option<&StoredFinding>, clock: f64) {
    let Some(term) = stored.and_then(|stored| term(stored, clock)) else { return };
    match key {
        Key::Bandwidth(Level::Memory, _) => machine.know_best(key, term),
        _ => machine.know(key, term),
    }
}

/// A finding as a term, in seconds where it is in cycles; `None` of cycles where no clock is known.
fn term(stored: &StoredFinding, clock: f64) -> Option<Term> {
    let finding = &stored.finding;
    let source = match stored.is_published() {
        true => format!("{} {}: {}", finding.probe, finding.name, stored.source),
        false => format!("{} {}", finding.probe, finding.name),
    };
    let term = Term { value: finding.value, interval: finding.interval, source, published: stored.is_published() };
    match finding.unit == Unit::Cycle {
        true => (clock > 0.0).then(|| scaled(term, 1.0 / clock)),
        false => Some(term),
    }
}

fn scaled(term: Term, by: f64) -> Term {
    let Interval { lo, hi } = term.interval;
    Term { value: term.value * by, interval: Interval { lo: lo * by, hi: hi * by }, ..term }
}

/// Addresses are spread over both halves of the second level: its latency is the mean of near and far.
fn second_level(machine: &mut Machine, profile: &Profile, clock: f64) {
    let of = |name| profile.finding("latency", name).and_then(|stored| term(stored, clock));
    let near = of("latency L2 near").or_else(|| of("latency L2"));
    let far = of("latency L2 far").or_else(|| of("latency far L2"));
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
        (Some(one), None) | (None, Some(one)) => one,
        (None, None) => return,
    };
    machine.know(Key::Latency(Level::L2), both);
}

/// A kernel that begins before the one before it has ended hides at least what empty kernels hide, and at most what kernels
/// hide that all fit on the device side by side: the middle, and as its interval both ends.
fn dependent(machine: &mut Machine, profile: &Profile) {
    let of = |name| profile.finding("launch", name).and_then(|stored| term(stored, 0.0));
    let (Some(empty), Some(empty_dependent)) = (of("empty, graph"), of("empty, graph, dependent")) else { return };
    let (Some(launch), Some(launch_dependent)) = (of("launch, graph"), of("launch, graph, dependent")) else { return };
    let most = launch.value - (empty.value - empty_dependent.value);
    let [lo, hi] = [launch_dependent.value.min(most), launch_dependent.value.max(most)];
    let source = "between 'launch, graph, dependent' and 'launch, graph' less what dependent empty kernels save";
    let term = Term {
        value: (lo + hi) / 2.0,
        interval: Interval { lo: lo.min(launch_dependent.interval.lo), hi: hi.max(launch_dependent.interval.hi) },
        source: source.to_owned(),
        published: launch.published,
    };
    machine.know(Key::Launch(LaunchForm::GraphDependent), term);
}
