//! `plimsoll verify`: checks every kernel against its oracle; prints one line per probe, and one per wrong result.

use std::fmt::Write;
use std::sync::atomic::Ordering;
use std::time::Duration;

use plimsoll::Opened;
use plimsoll::core::probe::{ACCURACY, EXPRESSIONS};
use plimsoll::prelude::{Case, Depth, Fault, Instrument, Request};
use plimsoll_report::text::clean;

use super::args::{ProbeChoice, VerifyArgs};
use super::exit::{Exit, Failure, say};
use super::list::DefaultProbes;
use super::{devices, list, output, signals};

pub(crate) fn run(args: &VerifyArgs) -> Result<Exit, Failure> {
    let depth = match (args.small, args.exhaustive) {
        (true, _) => Depth::Small,
        (_, true) => Depth::Exhaustive,
        _ => Depth::Usual,
    };
    let request = Request::default();
    let deadline = Duration::from_secs(args.deadline.into());
    let Opened { devices: mut instruments, missing } = devices::open_with_deadline(&args.device, Some(deadline))?;
    let (names, expressions_named) = choose_checks(args, &instruments, &request)?;
    let stop = signals::install()?;
    let (mut wrong, mut lost, mut checked) = (0, false, 0);
    for instrument in &mut instruments {
        let selector = instrument.info().selector.clone();
        for name in &names {
            if stop.load(Ordering::Relaxed) {
                return Ok(signals::exit());
            }
            let mut tally = Tally { lists_accuracy: args.exhaustive, ..Tally::default() };
            let ended = instrument.verify(name, depth, &mut |case| {
                tally.add(&case);
                if stop.load(Ordering::Relaxed) {
                    tally.report_once(&format!("{selector} {name}"));
                }
            });
            // A device that can't run expressions is an error only if they were named.
            if name.starts_with(EXPRESSIONS) && !expressions_named && matches!(ended, Err(Fault::Unavailable { .. })) {
                continue;
            }
            output::print(&format!(
                "{selector} {name}: {}\n{}",
                tally.summarize(&ended),
                tally.accuracies + &tally.failures
            ))?;
            wrong += tally.wrong;
            checked += tally.right + tally.wrong;
            if let Err(fault) = ended {
                // If a device lacks something, that is reported before anything is checked.
                lost |= !matches!(fault, Fault::Unavailable { .. }) || tally.right + tally.wrong > 0;
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
        _ => devices::exit_for(&missing, Exit::Success),
    })
}

/// The names to check, probes before expressions, and whether expressions were named.
fn choose_checks(
    args: &VerifyArgs,
    instruments: &[Box<dyn Instrument>],
    request: &Request,
) -> Result<(Vec<String>, bool), Failure> {
    let of_expressions = |name: &String| name.split(':').next() == Some(EXPRESSIONS);
    let (mut expressions, probes): (Vec<String>, Vec<String>) =
        args.choice.probes.iter().cloned().partition(of_expressions);
    let named = !expressions.is_empty();
    let choice = ProbeChoice { probes, group: args.choice.group.clone() };
    let others = !choice.probes.is_empty() || !choice.group.is_empty();
    let specs =
        if named && !others { Vec::new() } else { list::choose(&choice, DefaultProbes::All, instruments, request)? };
    if !named && !others {
        expressions.push(EXPRESSIONS.to_owned());
    }
    let probes = specs.into_iter().map(|spec| spec.name.to_owned());
    Ok((probes.chain(expressions).collect(), named))
}

#[derive(Default)]
struct Tally {
    right: usize,
    wrong: usize,
    failures: String,
    /// The last case that the device answered.
    last: String,
    /// Also list correct cases that give the accuracy of a function.
    lists_accuracy: bool,
    accuracies: String,
    /// An interim report was printed.
    was_reported: bool,
}

impl Tally {
    fn add(&mut self, case: &Case) {
        self.last = format!("{} on {}", clean(&case.kernel), clean(&case.on));
        if case.wrong.is_empty() {
            self.right += 1;
            if let Some(function) = case.kernel.strip_prefix(ACCURACY).filter(|_| self.lists_accuracy) {
                let _ = writeln!(self.accuracies, "  {}: {}", clean(function), clean(&case.on));
            }
            return;
        }
        self.wrong += 1;
        // Writing to a String can't fail.
        let _ =
            writeln!(self.failures, "  wrong: {} on {}: {}", clean(&case.kernel), clean(&case.on), clean(&case.wrong));
    }

    /// Prints the results so far after a first signal, once: the probe is checked to its end unless a second signal comes.
    fn report_once(&mut self, subject: &str) {
        use std::io::Write;
        if !std::mem::replace(&mut self.was_reported, true) {
            let so_far = self.summarize(&Ok(()));
            say("note", &format!("{subject}: {so_far} so far"));
            let _ = write!(std::io::stderr().lock(), "{}{}", self.accuracies, self.failures);
        }
    }

    fn summarize(&self, ended: &Result<(), Fault>) -> String {
        let mut words = format!("{} ok", self.right);
        if self.wrong > 0 {
            words += &format!(", {} wrong", self.wrong);
        }
        if let Err(fault) = ended {
            if fault.ends_the_device() && !self.last.is_empty() {
                words += &format!(", the last was {}", self.last);
            }
            words += &format!(", ended early: {}", clean(&fault.to_string()));
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_device_is_reported_with_the_last_case_that_it_answered() {
        let mut tally = Tally::default();
        let lost = || Err(Fault::DeviceLost { call: "wait", why: "gone".to_owned() });
        assert!(!tally.summarize(&lost()).contains("the last"));
        for n in ["7", "9"] {
            tally.add(&Case { kernel: "dot".to_owned(), on: format!("n = {n}"), wrong: String::new() });
        }
        let words = tally.summarize(&lost());
        assert!(
            words.starts_with("2 ok, the last was dot on n = 9, ended early: ") && words.contains("gone"),
            "{words}"
        );
        let invalid = tally.summarize(&Err(Fault::Invalid("no".to_owned())));
        assert!(!invalid.contains("the last"), "{invalid}");
    }
}
