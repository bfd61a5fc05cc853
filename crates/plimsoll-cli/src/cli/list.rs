//! `plimsoll list`, and the choice of probes by name and group for the verbs that run them.

use plimsoll::Opened;
use plimsoll::core::probe::ProbeSpec;
use plimsoll::core::sample::Effort;
use plimsoll::prelude::{Instrument, Request};
use plimsoll::probes;
use plimsoll::suite::findings::LAB;
use plimsoll::suite::spelling;

use super::args::{ListArgs, ProbeChoice};
use super::exit::{Exit, Failure};
use super::sheet::{ALWAYS, Sheet};
use super::{devices, output};

const MAX_SUGGESTIONS: usize = 3;

pub(crate) fn run(args: &ListArgs) -> Result<Exit, Failure> {
    let Opened { devices, missing } = devices::open_selected(&args.device)?;
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
    ])
    .with_numbers(&["points", seconds]);
    for spec in probes::ALL {
        let mut selectors = Vec::new();
        let mut points = 0;
        for (selector, listing) in &listings {
            if let Some(found) = listing.iter().find(|listing| listing.spec.name == spec.name) {
                selectors.push(match &found.supported {
                    Ok(()) => (*selector).clone(),
                    Err(why) => format!("not {selector}: {why}"),
                });
                points = points.max(found.points);
            }
        }
        sheet.row([
            spec.name.to_owned(),
            spec.group.to_owned(),
            if selectors.is_empty() { "none here".to_owned() } else { selectors.join(", ") },
            points.to_string(),
            format!("{:.0}", spec.budget(args.effort)),
            spec.sentence.to_owned(),
        ]);
    }
    output::print(&sheet.render(args.format))?;
    Ok(devices::exit_for(&missing, Exit::Success))
}

/// Which probes to choose if neither a probe nor a group is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DefaultProbes {
    /// Every probe.
    All,
    /// Every probe except the lab's experiments, which take minutes.
    AllButLab,
}

/// The chosen probes, in the order in which they run; `default` if nothing was chosen. Fails with exit code 2 if a probe or
/// group doesn't exist, suggesting the nearest names, or if no device offers any of them.
pub(crate) fn choose(
    choice: &ProbeChoice,
    default: DefaultProbes,
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
    let chosen: Vec<_> = specs.into_iter().filter(|spec| is_chosen(choice, default, spec) && offered(spec)).collect();
    if chosen.is_empty() {
        let names = choice.probes.iter().chain(&choice.group).cloned().collect::<Vec<_>>().join(", ");
        return Err(Failure::usage(format!("no device here runs {names}"))
            .hint("`plimsoll list` shows every probe with its devices"));
    }
    Ok(chosen)
}

fn is_chosen(choice: &ProbeChoice, default: DefaultProbes, spec: &ProbeSpec) -> bool {
    if choice.probes.is_empty() && choice.group.is_empty() {
        return default == DefaultProbes::All || spec.group != LAB;
    }
    choice.probes.iter().any(|name| name == spec.name) || choice.group.iter().any(|group| group == spec.group)
}

fn check(kind: &str, given: &str, known: impl Iterator<Item = &'static str>) -> Result<(), Failure> {
    let mut known: Vec<&str> = known.collect();
    if known.contains(&given) {
        return Ok(());
    }
    let shown: String = given.chars().take(40).collect();
    let failure = Failure::usage(format!("unknown {kind} '{shown}'"));
    let question = spelling::did_you_mean(&spelling::nearest(given, known.iter().copied(), MAX_SUGGESTIONS));
    known.sort_unstable();
    known.dedup();
    Err(failure.hint(question.unwrap_or_else(|| format!("{kind}s: {}", known.join(", ")))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lab_experiments_run_only_if_named_or_if_the_default_is_all() {
        let lab = ProbeSpec { name: "residency", group: LAB, ..*probes::ALL[0] };
        let choice = |probes: &[&str], group: &[&str]| ProbeChoice {
            probes: probes.iter().map(|name| (*name).to_owned()).collect(),
            group: group.iter().map(|name| (*name).to_owned()).collect(),
        };
        assert!(!is_chosen(&choice(&[], &[]), DefaultProbes::AllButLab, &lab));
        assert!(is_chosen(&choice(&[], &[]), DefaultProbes::AllButLab, probes::ALL[0]));
        assert!(is_chosen(&choice(&[], &[]), DefaultProbes::All, &lab));
        assert!(is_chosen(&choice(&[], &["lab"]), DefaultProbes::AllButLab, &lab));
        assert!(is_chosen(&choice(&["residency"], &[]), DefaultProbes::AllButLab, &lab));
        assert!(!is_chosen(&choice(&[], &["bandwidth"]), DefaultProbes::All, &lab));
    }

    #[test]
    fn a_typo_is_answered_with_the_nearest_names_and_nonsense_with_all() {
        let known = || ["stream", "latency", "loaded-latency", "stream"].into_iter();
        assert!(check("probe", "stream", known()).is_ok());
        assert_eq!(check("probe", "steram", known()).unwrap_err().hints, ["did you mean stream?"]);
        let hint = check("probe", "qqqq", known()).unwrap_err().hints;
        assert!(hint[0].contains("stream") && hint[0].contains("loaded-latency"), "{hint:?}");
    }
}
