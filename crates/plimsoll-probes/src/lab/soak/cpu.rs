//! soak on the CPU: the form of `roofline` with the most arithmetic per byte, in f64 on all cores. After each window the sums of the last
//! chunks are compared with the oracle.

use plimsoll_core::forward_workload;
use plimsoll_core::sample::{Clock as _, Workload};

use crate::lab::soak::{Window, over_time, sample_length, windows};
use crate::pace::Pace;
use crate::prelude::cpu::*;
use crate::roofline::cpu::Heaviest;

/// A load with samples of a chosen length.
struct Paced {
    load: TeamLoad,
    pace: Pace,
}

impl Workload for Paced {
    forward_workload!(load: work, check);

    fn batch(&self) -> Batch {
        Batch { cycle: 1, max: 1 }
    }

    fn sample(&mut self, _: u32, out: &mut [u64]) -> Result<(), Fault> {
        for sample in out {
            *sample = self.pace.sample(u32::MAX, |launches| {
                let mut part = [0];
                self.load.sample(launches, &mut part)?;
                Ok(part[0])
            })?;
        }
        Ok(())
    }
}

impl Run<Cpu> for super::CpuRunner {
    fn points(&self, _: &CpuDevice, request: &Request) -> usize {
        super::count(request)
    }

    fn run(&self, session: &mut Session<'_, Cpu>) -> Result<(), Fault> {
        let heaviest = Heaviest::new(session)?;
        let windows = windows(session.budget());
        let (length, tick) = (sample_length(session.budget(), session.request.effort), session.clock().tick());
        let sweep = Sweep { series: over_time(), points: &windows, share: 1.0, flags: Flags::NONE };
        session
            .sweep(sweep, Window::clone, |_, _| Ok(Paced { load: heaviest.load(), pace: Pace::new(length, tick) }))?;
        Ok(())
    }

    fn verify(&self, _: &mut CpuDevice, depth: Depth, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
        Heaviest::verify(depth, report)
    }
}
