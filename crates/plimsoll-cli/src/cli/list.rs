//! `plimsoll list`, and choosing probes by name and group for the verbs that run them.

use plimsoll::Opened;
use plimsoll::core::probe::ProbeSpec;
use plimsoll::core::sample::Effort;
use plimsoll::prelude::{Instrument, Request};
use plimsoll::probes;
use plimsoll::suite::findings::LAB;
use plimsoll::suite::slip;

use super::args::{ListArgs, ProbeChoice};
use super::exit::{Exit, Failure};
use super::sheet::{ALWAYS, Sheet};
use super::{devices, output};

const SUGGESTIONS: usize = 3;

pub(crate) fn run(args: &ListArgs) -> Result<Exit, Failure> {
    let Opened { devices, missing } = devices::chosen(&args.device)?;
    let request = Request { effort: args.effort, ..Request::default() };
    let seconds = match args.effort {
        Effort::Standard => "standard s",
        Effort::Thorough => "thorough s",
        Effort::Quick | Effort::Unknown => "quick s",
    };
    let listings: Vec<_> = devices.iter().map(|device| (&device.info().selector, device.probes(&request))).collect();
    let mut sheet = Sheet::new([
        ("probe", ALWAYS),
        ("group", 3),
        ("devices", 4),
        ("points", 1),
        (seconds, 2),
        ("what it shows", ALWAYS),
    ]);
    for spec in probes::ALL {
        let mut on = Vec::new();
        let mut points = 0;
        for (selector, listing) in &listings {
            if let Some(found) = listing.iter().find(|listing| listing.spec.name == spec.name) {
                on.push(match &found.supported {
                    Ok(()) => (*selector).clone(),
                    Err(why) => format!("not {selector}: {why}"),
                });
                points = points.max(found.points);
            }
        }
        sheet.row([
            spec.name.to_owned(),
            spec.group.to_owned(),
            if on.is_empty() { "none here".to_owned() } else { on.join(", ") },
            points.to_string(),
            format!("{:.0}", spec.budget(args.effort)),
            spec.sentence.to_owned(),
        ]);
    }
    output::print(&sheet.render(args.format))?;
    Ok(devices::exit(&missing, Exit::Success))
}

/// What is meant where neither a probe nor a group was named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unnamed {
    /// Every probe.
    All,
    /// Every probe but the lab's, which answer questions and take minutes.
    AllButLab,
}

/// The probes that were asked for, in the order in which they run; what `unnamed` says where none was.
///
/// # Errors
/// 2 for a probe or group that doesn't exist, with the nearest that do; for a choice that is empty.
pub(crate) fn choose(
    choice: &ProbeChoice,
    unnamed: Unnamed,
    devices: &[Box<dyn Instrument>],
    request: &Request,
) -> Result<Vec<&'static ProbeSpec>, Failure> {
    let specs: Vec<&'static ProbeSpec> = probes::ALL.to_vec();
    for name in &choice.probes {
        check("probe", name, specs.iter().map(|spec| spec.name))?;
    }
    for group in &choice.group {
        check("group", group, specs.iter().map(|spec| spec.group))?;
    }
    let offered = |spec: &ProbeSpec| {
        devices.iter().flat_map(|device| device.probes(request)).any(|listing| listing.spec.name == spec.name)
    };
    let chosen: Vec<_> = specs.into_iter().filter(|spec| wanted(choice, unnamed, spec) && offered(spec)).collect();
    if chosen.is_empty() {
        let asked = choice.probes.iter().chain(&choice.group).cloned().collect::<Vec<_>>().join(", ");
        return Err(Failure::usage(format!("no device here runs {asked}"))
            .hint("`plimsoll list` shows every probe with its devices"));
    }
    Ok(chosen)
}

fn wanted(choice: &ProbeChoice, unnamed: Unnamed, spec: &ProbeSpec) -> bool {
    if choice.probes.is_empty() && choice.group.is_empty() {
        return unnamed == Unnamed::All || spec.group != LAB;
    }
    choice.probes.iter().any(|name| name == spec.name) || choice.group.iter().any(|group| group == spec.group)
}

/// Of the chosen probes, the names of those to which a size means nothing on any device.
pub(crate) fn without_size(
    chosen: &[&'static ProbeSpec],
    devices: &[Box<dyn Instrument>],
    request: &Request,
) -> Vec<&'static str> {
    let listings: Vec<_> = devices.iter().flat_map(|device| device.probes(request)).collect();
    let sized = |name: &str| listings.iter().any(|listing| listing.spec.name == name && listing.sized);
    chosen.iter().map(|spec| spec.name).filter(|name| !sized(name)).collect()
}

fn check(kind: &str, given: &str, known: impl Iterator<Item = &'static str>) -> Result<(), Failure> {
    let mut known: Vec<&str> = known.collect();
    if known.contains(&given) {
        return Ok(());
    }
    let shown: String = given.chars().take(40).collect();
    let failure = Failure::usage(format!("unknown {kind} '{shown}'"));
    let question = slip::did_you_mean(&slip::nearest(given, known.iter().copied(), SUGGESTIONS));
    known.sort_unstable();
    known.dedup();
    Err(failure.hint(question.unwrap_or_else(|| format!("{kind}s: {}", known.join(", ")))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn experiments_are_run_where_they_are_named_or_all_is_meant() {
        let lab = ProbeSpec { name: "residency", group: LAB, ..*probes::ALL[0] };
        let choice = |probes: &[&str], group: &[&str]| ProbeChoice {
            probes: probes.iter().map(|name| (*name).to_owned()).collect(),
            group: group.iter().map(|name| (*name).to_owned()).collect(),
        };
        assert!(!wanted(&choice(&[], &[]), Unnamed::AllButLab, &lab));
        assert!(wanted(&choice(&[], &[]), Unnamed::AllButLab, probes::ALL[0]));
        assert!(wanted(&choice(&[], &[]), Unnamed::All, &lab));
        assert!(wanted(&choice(&[], &["lab"]), Unnamed::AllButLab, &lab));
        assert!(wanted(&choice(&["residency"], &[]), Unnamed::AllButLab, &lab));
        assert!(!wanted(&choice(&[], &["bandwidth"]), Unnamed::All, &lab));
    }

    #[test]
    fn a_slip_is_answered_with_the_nearest_names_and_nonsense_with_all() {
        let known = || ["stream", "latency", "loaded-latency", "stream"].into_iter();
        assert!(check("probe", "stream", known()).is_ok());
        assert_eq!(check("probe", "steram", known()).unwrap_err().hints, ["did you mean stream?"]);
        let hint = check("probe", "qqqq", known()).unwrap_err().hints;
        assert!(hint[0].contains("stream") && hint[0].contains("loaded-latency"), "{hint:?}");
    }
}
