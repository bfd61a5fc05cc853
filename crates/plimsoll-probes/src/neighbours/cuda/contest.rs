//! One device's work between two events, while other devices do theirs for longer.

use plimsoll_core::sample::{Batch, Workload};
use plimsoll_cuda::driver::{Event, Stream};
use plimsoll_cuda::{Action, wait};

use crate::prelude::gpu::{Arc, Check, Fault, Work};

/// Attempts at a sample during which other work ended too early.
const ATTEMPTS: u32 = 8;
/// Most actions of the timed work in a sample.
const MOST_TIMED: u32 = 8;
/// Most actions of the other work in a sample: a stream accepts about a thousand.
const MOST_OTHERS: u32 = 512;
/// Actions of the other work beyond the timed ones: one runs before, the rest until after the host has seen the end.
const SPARE: u32 = 4;
/// Share of samples that may lack full overlap: the same as may be outliers.
const UNCOVERED: f64 = 0.01;
/// The first samples, in which the amount of other work is adjusted.
pub(super) const WARM_UPS: u32 = 2;

/// Actions that run at the same time, each on a stream of its own.
pub(super) struct Lane {
    parts: Vec<Part>,
    /// Actions of each part per sample, where this is other work.
    actions: u32,
}

/// An action on a stream, with marks in it.
struct Part {
    stream: Arc<Stream>,
    action: Action,
    /// As other work: its first action is done, so that the next one runs.
    running: Event,
    /// All its actions are done.
    done: Event,
}

impl Lane {
    pub(super) fn new(parts: impl IntoIterator<Item = (Arc<Stream>, Action)>) -> Result<Self, Fault> {
        let part = |(stream, action): (Arc<Stream>, Action)| {
            let mark = || Event::untimed(stream.context());
            Ok::<_, Fault>(Part { running: mark()?, done: mark()?, stream, action })
        };
        let parts: Vec<Part> = parts.into_iter().map(part).collect::<Result<_, _>>()?;
        if parts.is_empty() {
            return Err(Fault::Invalid("a lane needs an action".to_owned()));
        }
        Ok(Self { parts, actions: 0 })
    }

    fn first(&self) -> &Arc<Stream> {
        &self.parts[0].stream
    }

    /// Queues the actions `k` times, from `begin` to `end`, which lie on the first stream.
    fn enqueue_timed(&self, k: u32, begin: &Event, end: &Event) -> Result<(), Fault> {
        let first = self.first();
        begin.record(first)?;
        for (index, part) in self.parts.iter().enumerate() {
            part.stream.context().bind()?;
            if index > 0 {
                part.stream.wait_for(begin)?;
            }
            (0..k).try_for_each(|_| part.action.enqueue(&part.stream))?;
            if index > 0 {
                part.done.record(&part.stream)?;
            }
        }
        self.parts[1..].iter().try_for_each(|part| first.wait_for(&part.done))?;
        first.context().bind()?;
        Ok(end.record(first)?)
    }

    /// Queues the actions as other work, so that they outlast `k` timed ones.
    fn enqueue_others(&mut self, k: u32) -> Result<(), Fault> {
        self.actions = self.actions.max(k + SPARE);
        for part in &self.parts {
            part.stream.context().bind()?;
            part.action.enqueue(&part.stream)?;
            part.running.record(&part.stream)?;
            (1..self.actions).try_for_each(|_| part.action.enqueue(&part.stream))?;
            part.done.record(&part.stream)?;
        }
        Ok(())
    }

    /// Whether all parts still run.
    fn still_runs(&self) -> Result<bool, Fault> {
        for part in &self.parts {
            if part.done.is_done()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Doubles the actions of the next sample; false where there are as many as possible.
    fn lengthen(&mut self) -> bool {
        let before = self.actions;
        self.actions = (2 * before).min(MOST_OTHERS);
        self.actions > before
    }

    fn wait(&self) -> Result<(), Fault> {
        self.parts.iter().try_for_each(|part| wait::stream(&part.stream))
    }
}

type Prepare = Box<dyn FnMut() -> Result<(), Fault>>;
type CheckResults = Box<dyn FnMut() -> Result<Check, Fault>>;

/// A lane's time, while the other lanes run. The host queues the timed work only once it has seen that all others run, and looks
/// at the others as soon as it has seen the end of the timed work: if all still run, they ran all the time.
pub(super) struct Contest {
    timed: Lane,
    others: Vec<Lane>,
    work: Work,
    begin: Event,
    end: Event,
    /// Samples so far, and those after the warm-up during which other work ended too early in every attempt.
    taken: u32,
    uncovered: u32,
    prepare: Prepare,
    check: CheckResults,
}

impl Contest {
    /// `prepare` runs before every slice of samples, `check` after the last one.
    pub(super) fn new(
        (timed, others): (Lane, Vec<Lane>),
        work: Work,
        prepare: impl FnMut() -> Result<(), Fault> + 'static,
        check: impl FnMut() -> Result<Check, Fault> + 'static,
    ) -> Result<Self, Fault> {
        let context = timed.first().context();
        let (begin, end) = (Event::new(context)?, Event::new(context)?);
        let (prepare, check) = (Box::new(prepare), Box::new(check));
        Ok(Self { timed, others, work, begin, end, taken: 0, uncovered: 0, prepare, check })
    }

    /// One sample: its length, and which other lanes ended before it did.
    fn once(&mut self, k: u32) -> Result<(u64, Vec<usize>), Fault> {
        self.others.iter_mut().try_for_each(|lane| lane.enqueue_others(k))?;
        for part in self.others.iter().flat_map(|lane| &lane.parts) {
            wait::event(&part.running)?;
        }
        self.timed.first().context().bind()?;
        self.timed.enqueue_timed(k, &self.begin, &self.end)?;
        wait::event(&self.end)?;
        let mut ended = Vec::new();
        for (index, lane) in self.others.iter().enumerate() {
            if !lane.still_runs()? {
                ended.push(index);
            }
        }
        self.others.iter().try_for_each(Lane::wait)?;
        self.timed.first().context().bind()?;
        Ok((self.end.nanoseconds_since(&self.begin)?, ended))
    }

    /// One sample during which all other work ran, if that can be had; whether it could.
    fn covered(&mut self, k: u32, sample: &mut u64) -> Result<bool, Fault> {
        for _ in 0..ATTEMPTS {
            let (length, ended) = self.once(k)?;
            *sample = length;
            if ended.is_empty() {
                return Ok(true);
            }
            let more = ended.into_iter().map(|lane| self.others[lane].lengthen()).filter(|more| *more).count();
            if more == 0 {
                break;
            }
        }
        Ok(false)
    }
}

impl Workload for Contest {
    fn work(&self) -> Work {
        self.work
    }

    fn batch(&self) -> Batch {
        Batch { cycle: 1, max: MOST_TIMED }
    }

    fn prepare(&mut self, _: u32) -> Result<(), Fault> {
        (self.prepare)()?;
        Ok(self.timed.first().context().bind()?)
    }

    fn sample(&mut self, k: u32, out: &mut [u64]) -> Result<(), Fault> {
        for sample in out {
            let covered = self.covered(k, sample)?;
            self.taken += 1;
            self.uncovered += u32::from(!covered && self.taken > WARM_UPS);
        }
        Ok(())
    }

    fn check(&mut self) -> Result<Check, Fault> {
        self.timed.wait()?;
        let overlap = overlap(self.uncovered, self.taken);
        if overlap != Check::Passed {
            return Ok(overlap);
        }
        (self.check)()
    }
}

/// Whether nearly all samples had full overlap: others would understate the loss.
pub(super) fn overlap(uncovered: u32, taken: u32) -> Check {
    if f64::from(uncovered) <= UNCOVERED * f64::from(taken) {
        return Check::Passed;
    }
    Check::Failed(format!("other devices ended first in {uncovered} of {taken} samples, however much work they had"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_a_few_samples_without_full_overlap_fail_the_point() {
        assert_eq!([overlap(0, 0), overlap(1, 100)], [Check::Passed, Check::Passed]);
        assert!(matches!(overlap(2, 100), Check::Failed(why) if why.contains("2 of 100")));
        assert!(matches!(overlap(1, 30), Check::Failed(_)));
    }
}
