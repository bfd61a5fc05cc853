//! `plimsoll verify`: every kernel against its oracle; one line per probe, and one per wrong result.

use std::fmt::Write;
use std::sync::atomic::Ordering;

use plimsoll::Opened;
use plimsoll::prelude::{Case, Depth, Fault, Request};
use plimsoll_report::text::clean;

use super::args::VerifyArgs;
use super::exit::{Exit, Failure, say};
use super::{devices, list, output, signals};

pub(crate) fn run(args: &VerifyArgs) -> Result<Exit, Failure> {
    let depth = match (args.small, args.exhaustive) {
        (true, _) => Depth::Small,
        (_, true) => Depth::Exhaustive,
        _ => Depth::Usual,
    };
    let request = Request::default();
    let Opened { devices: mut instruments, missing } = devices::chosen(&args.device)?;
    let specs = list::choose(&args.choice, &instruments, &request)?;
    let stop = signals::install()?;
    let (mut wrong, mut lost, mut checked) = (0, false, 0);
    for instrument in &mut instruments {
        let selector = instrument.info().selector.clone();
        for spec in &specs {
            if stop.load(Ordering::Relaxed) {
                return Ok(signals::exit());
            }
            let mut tally = Tally::default();
            let ended = instrument.verify(spec.name, depth, &mut |case| tally.take(&case));
            output::print(&format!("{selector} {}: {}\n{}", spec.name, tally.words(&ended), tally.failures))?;
            wrong += tally.wrong;
            checked += tally.right + tally.wrong;
            if let Err(fault) = ended {
                lost |= !matches!(fault, Fault::Unavailable { .. });
                if fault.ends_the_device() {
                    say("note", &format!("{selector} was lost; its other probes are not checked"));
                    break;
                }
            }
        }
    }
    Ok(match (wrong, lost || checked == 0) {
        (1.., _) => Exit::Failed,
        (_, true) => Exit::Unavailable,
        _ => devices::exit(&missing, Exit::Success),
    })
}

#[derive(Default)]
struct Tally {
    right: usize,
    wrong: usize,
    failures: String,
}

impl Tally {
    fn take(&mut self, case: &Case) {
        if case.wrong.is_empty() {
            self.right += 1;
            return;
        }
        self.wrong += 1;
        // Writing to a String can't fail.
        let _ =
            writeln!(self.failures, "  wrong: {} on {}: {}", clean(&case.kernel), clean(&case.on), clean(&case.wrong));
    }

    fn words(&self, ended: &Result<(), Fault>) -> String {
        let mut words = format!("{} ok", self.right);
        if self.wrong > 0 {
            words += &format!(", {} wrong", self.wrong);
        }
        if let Err(fault) = ended {
            words += &format!(", ended early: {}", clean(&fault.to_string()));
        }
        words
    }
}
