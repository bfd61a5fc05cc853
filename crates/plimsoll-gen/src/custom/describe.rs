//! Describes a launch of a user's kernel for the cost model: the stated bytes, and the instructions that its machine code has for
//! each thread times the grid. Each assumption is listed.

use std::collections::BTreeMap;

use plimsoll_core::Traffic;
use plimsoll_core::model::{Cache, Description, LaunchForm};
use plimsoll_core::unit::{ByteSize, Unit};

use crate::sass::{Hot, HotKind, KernelReport};

/// Threads of a warp.
const WARP: u64 = 32;
/// Bytes of a register.
const REGISTER: u32 = 4;
/// Registers of a kernel whose number is unknown.
const USUAL_REGISTERS: u32 = 32;
/// The bytes that the threads move by the machine code may differ from the stated ones by this share: the last threads may have
/// nothing to do.
const USUAL_DIFFERENCE: f64 = 0.1;

/// What a launch occupies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Occupied {
    /// Blocks of the grid.
    pub blocks: u64,
    /// Threads per block.
    pub threads: u32,
    /// Blocks resident on one SM at once.
    pub resident: u32,
    /// Static shared memory per block, bytes.
    pub static_shared: u32,
}

impl Occupied {
    fn threads(self) -> u64 {
        self.blocks.saturating_mul(self.threads.into())
    }

    fn warps(self) -> f64 {
        self.blocks as f64 * u64::from(self.threads).div_ceil(WARP) as f64
    }
}

/// A launch as the model sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Described {
    /// The launch.
    pub description: Description,
    /// What was assumed, one sentence each.
    pub assumptions: Vec<String>,
    /// Why no instructions were counted; empty if they were.
    pub uncounted: String,
}

/// Describes a launch that moves `traffic` and touches `footprint` distinct bytes. `report` is the kernel's machine code, or the
/// reason why it can't be read: then the terms for instructions and for loads in flight are left out.
#[must_use]
pub fn describe(
    report: Result<&KernelReport, &str>,
    occupied: Occupied,
    (traffic, footprint): (Traffic, u64),
    (cache, launch): (Cache, LaunchForm),
) -> Described {
    let mut description = Description {
        traffic,
        footprint,
        cache,
        launch,
        prefetched: false,
        signals: 0,
        blocks: occupied.blocks,
        threads: occupied.threads,
        resident: occupied.resident,
        in_flight: 0,
        instructions: BTreeMap::new(),
        serial_cycles: 0.0,
    };
    let mut assumptions = Vec::new();
    let uncounted = match report.map_err(str::to_owned).and_then(|report| passes(report, occupied, traffic)) {
        Ok(Passes { hot, times, assumption }) => {
            let registers = report.ok().and_then(|report| report.registers).unwrap_or(USUAL_REGISTERS);
            let per_launch = |count: u32| f64::from(count) * times * occupied.warps();
            description.instructions = hot.pipes.iter().map(|(pipe, count)| (*pipe, per_launch(*count))).collect();
            description.in_flight = hot.read.min(registers.saturating_mul(REGISTER));
            description.serial_cycles = hot.stalls.map_or(0.0, |stalls| f64::from(stalls.cycles));
            assumptions.push(assumption);
            assumptions.extend(note_other_paths(hot));
            assumptions.push(format!(
                "A thread has the {} that one pass reads in flight at once",
                ByteSize(description.in_flight.into())
            ));
            String::new()
        }
        Err(why) => why,
    };
    Described { description, assumptions, uncounted }
}

/// How often each thread passes the hot part.
struct Passes<'r> {
    hot: &'r Hot,
    times: f64,
    assumption: String,
}

fn passes(report: &KernelReport, occupied: Occupied, traffic: Traffic) -> Result<Passes<'_>, String> {
    let hot = report.hot.as_ref().ok_or("the kernel has no instructions that do work")?;
    let (count, bytes) = (hot.instructions, ByteSize(hot.moved().into()));
    let moved = f64::from(hot.moved()) * occupied.threads() as f64;
    let stated = traffic.total() as f64;
    match hot.kind {
        HotKind::Straight => {
            let mut assumption = format!("Each thread runs {count} instructions once, in which it moves {bytes}");
            if (moved - stated).abs() > USUAL_DIFFERENCE * stated {
                let all = ByteSize(moved as u64);
                assumption +=
                    &format!("; by that the launch moves {all}, not the {} that are stated", ByteSize(stated as u64));
            }
            Ok(Passes { hot, times: 1.0, assumption })
        }
        HotKind::Loop if hot.moved() == 0 => {
            Err("its loop moves no bytes of global memory, so the machine code doesn't show how often it runs"
                .to_owned())
        }
        HotKind::Loop if stated == 0.0 => {
            Err("no bytes are stated, so it isn't known how often its loop runs".to_owned())
        }
        HotKind::Loop => {
            let times = stated / moved;
            let rounds = Unit::One.format(times);
            let assumption = format!(
                "Each thread runs the {count} instructions of its loop {rounds} times on average: each iteration moves {bytes}, and \
                 the launch the stated bytes"
            );
            Ok(Passes { hot, times, assumption })
        }
    }
}

fn note_other_paths(hot: &Hot) -> Option<String> {
    let uncounted = hot.beside;
    (uncounted > 0)
        .then(|| format!("{uncounted} instructions on other paths, such as inner loops and slow paths, aren't counted"))
}

#[cfg(test)]
mod tests {
    use plimsoll_core::model::Pipe;

    use super::*;
    use crate::sass::{Listing, Report};

    const LISTING: &str = include_str!("../../tests/data/custom.sm_90.sass");
    const FORM: (Cache, LaunchForm) = (Cache::Cold, LaunchForm::Graph);

    fn described(kernel: &str, occupied: Occupied, traffic: Traffic) -> Described {
        let report = Report::new(&Listing::parse(LISTING).unwrap(), &[]);
        describe(Ok(report.kernel(kernel).unwrap()), occupied, (traffic, traffic.total()), FORM)
    }

    #[test]
    fn straight_code_runs_once_per_thread() {
        let occupied = Occupied { blocks: 65_536, threads: 256, resident: 8, static_shared: 0 };
        let found = described("scale", occupied, Traffic::new(64 << 20, 64 << 20));
        let Description { in_flight, instructions, traffic, blocks, .. } = found.description;
        assert_eq!((in_flight, traffic.total(), blocks), (4, 128 << 20, 65_536));
        // A load and a store of each of 524,288 warps.
        assert_eq!(instructions[&Pipe::Lsu], 2.0 * 524_288.0);
        assert!(instructions[&Pipe::Issue] > 10.0 * 524_288.0 && found.uncounted.is_empty());
        assert!(!found.assumptions[0].contains("not the"), "{:?}", found.assumptions);
        let found = described("scale", occupied, Traffic::new(1 << 30, 0));
        assert!(
            found.assumptions[0].contains("moves 128 MiB, not the 1 GiB that are stated"),
            "{:?}",
            found.assumptions
        );
    }

    #[test]
    fn a_loop_runs_as_often_as_the_stated_bytes_need() {
        let occupied = Occupied { blocks: 132, threads: 128, resident: 2, static_shared: 256 };
        // 16 iterations of 32 bytes for each of 16,896 threads.
        let bytes = 16 * 16 * 132 * 128;
        let found = described("strided", occupied, Traffic::new(bytes, bytes));
        assert!(found.assumptions[0].contains("loop 16.0 times"), "{:?}", found.assumptions);
        assert_eq!(found.description.in_flight, 16);
        let accesses = found.description.instructions[&Pipe::Lsu] / (16.0 * 132.0 * 4.0);
        assert!((2.0..=4.0).contains(&accesses), "{accesses}");
        let none = described("strided", occupied, Traffic::NONE);
        assert!(none.uncounted.contains("no bytes are stated") && none.description.instructions.is_empty());
    }

    #[test]
    fn without_machine_code_the_terms_for_instructions_are_left_out() {
        let occupied = Occupied { blocks: 8, threads: 100, resident: 1, static_shared: 0 };
        let found = describe(Err("nvdisasm is missing"), occupied, (Traffic::new(8, 8), 8), FORM);
        assert_eq!((found.uncounted.as_str(), found.description.in_flight), ("nvdisasm is missing", 0));
        assert!(found.description.instructions.is_empty() && found.assumptions.is_empty());
        assert_eq!(found.description.footprint, 8);
        assert_eq!(occupied.warps(), 32.0);
    }
}
