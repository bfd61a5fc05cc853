//! `plimsoll verify`: every kernel against its oracle; one line per probe, and one per wrong result.

use std::fmt::Write;
use std::sync::atomic::Ordering;
use std::time::Duration;

use plimsoll::Opened;
use plimsoll::core::probe::{ACCURACY, EXPRESSIONS};
use plimsoll::prelude::{Case, Depth, Fault, Instrument, Request};
use plimsoll_report::text::clean;

use super::args::{ProbeChoice, VerifyArgs};
use super::exit::{Exit, Failure, say};
use super::list::Unnamed;
use super::{devices, list, output, signals};

pub(crate) fn run(args: &VerifyArgs) -> Result<Exit, Failure> {
    let depth = match (args.small, args.exhaustive) {
        (true, _) => Depth::Small,
        (_, true) => Depth::Exhaustive,
        _ => Depth::Usual,
    };
    let request = Request::default();
    let deadline = Duration::from_secs(args.deadline.into());
    let Opened { devices: mut instruments, missing } = devices::chosen_with(&args.device, Some(deadline))?;
    let (names, expressions) = chosen(args, &instruments, &request)?;
    let stop = signals::install()?;
    let (mut wrong, mut lost, mut checked) = (0, false, 0);
    for instrument in &mut instruments {
        let selector = instrument.info().selector.clone();
        for name in &names {
            if stop.load(Ordering::Relaxed) {
                return Ok(signals::exit());
            }
            let mut tally = Tally { figures: args.exhaustive, ..Tally::default() };
            let ended = instrument.verify(name, depth, &mut |case| {
                tally.take(&case);
                if stop.load(Ordering::Relaxed) {
                    tally.tell_once(&format!("{selector} {name}"));
                }
            });
            // A device without expressions is no fault unless they were asked for.
            if name.starts_with(EXPRESSIONS) && !expressions && matches!(ended, Err(Fault::Unavailable { .. })) {
                continue;
            }
            output::print(&format!("{selector} {name}: {}\n{}", tally.words(&ended), tally.told + &tally.failures))?;
            wrong += tally.wrong;
            checked += tally.right + tally.wrong;
            if let Err(fault) = ended {
                // What a device lacks is told before anything was checked.
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
        _ => devices::exit(&missing, Exit::Success),
    })
}

/// What to check, probes before expressions, and whether these were asked for by name.
fn chosen(
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
    let specs = if named && !others { Vec::new() } else { list::choose(&choice, Unnamed::All, instruments, request)? };
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
    /// The last case, which a device answered before it was lost.
    last: String,
    /// Whether right cases that say how exact a function is are told too.
    figures: bool,
    told: String,
    /// Whether it was said before its end.
    said: bool,
}

impl Tally {
    fn take(&mut self, case: &Case) {
        self.last = format!("{} on {}", clean(&case.kernel), clean(&case.on));
        if case.wrong.is_empty() {
            self.right += 1;
            if let Some(function) = case.kernel.strip_prefix(ACCURACY).filter(|_| self.figures) {
                let _ = writeln!(self.told, "  {}: {}", clean(function), clean(&case.on));
            }
            return;
        }
        self.wrong += 1;
        // Writing to a String can't fail.
        let _ =
            writeln!(self.failures, "  wrong: {} on {}: {}", clean(&case.kernel), clean(&case.on), clean(&case.wrong));
    }

    /// What was found so far, for one who wants to stop: a probe is checked to its end, unless a second signal comes.
    fn tell_once(&mut self, of: &str) {
        use std::io::Write;
        if !std::mem::replace(&mut self.said, true) {
            let so_far = self.words(&Ok(()));
            say("note", &format!("{of}: {so_far} so far"));
            let _ = write!(std::io::stderr().lock(), "{}{}", self.told, self.failures);
        }
    }

    fn words(&self, ended: &Result<(), Fault>) -> String {
        let mut words = format!("{} ok", self.right);
        if self.wrong > 0 {
            words += &format!(", {} wrong", self.wrong);
        }
        if let Err(fault) = ended {
            if fault.ends_the_device() && !self.last.is_empty() {
                words += &format!(", the last {}", self.last);
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
    fn a_lost_device_is_told_with_the_last_case_that_it_answered() {
        let mut tally = Tally::default();
        let lost = || Err(Fault::DeviceLost { call: "wait", why: "gone".to_owned() });
        assert!(!tally.words(&lost()).contains("the last"));
        for n in ["7", "9"] {
            tally.take(&Case { kernel: "dot".to_owned(), on: format!("n = {n}"), wrong: String::new() });
        }
        let words = tally.words(&lost());
        assert!(words.starts_with("2 ok, the last dot on n = 9, ended early: ") && words.contains("gone"), "{words}");
        let invalid = tally.words(&Err(Fault::Invalid("no".to_owned())));
        assert!(!invalid.contains("the last"), "{invalid}");
    }
}
