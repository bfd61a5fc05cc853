//! `plimsoll collect`: judges the files that the processes of `check --fleet` wrote.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use plimsoll::probes;
use plimsoll::suite::fleet::collect::{Fleet, Options, RUNS, collect};
use plimsoll::suite::fleet::complete::Expected;
use plimsoll::suite::fleet::read::read_folder;
use plimsoll_report::fleet::{
    render_html, render_json, render_kubernetes, render_openmetrics, render_slurm, render_table,
};

use super::args::{CollectArgs, CollectFormat};
use super::exit::{Exit, Failure, say};
use super::output;
use super::outputs::{Existing, Outputs};

/// Most hosts that the hint names.
const MOST_HOSTS: usize = 32;

pub(crate) fn run(args: &CollectArgs) -> Result<Exit, Failure> {
    let format = choose_format(args)?;
    let inputs = if args.out.is_some() { list_inputs(&args.dir) } else { Vec::new() };
    let outputs = Outputs::new(inputs.iter().map(PathBuf::as_path), Existing::ReplacedIfForced(args.force));
    args.out.as_deref().map_or(Ok(()), |path| outputs.check(path))?;
    let folder = read_folder(&args.dir, probes::ALL).map_err(|error| Failure::file("read", &args.dir, error))?;
    if folder.devices.is_empty() && folder.partial.is_empty() && folder.unusable.is_empty() {
        let text = format!("{} holds no file of a device", args.dir.display());
        return Err(Failure::usage(text).hint("`plimsoll check --fleet DIR` writes one per device"));
    }
    let expected = Expected { devices: args.expect, per_host: args.per_host, since: args.since.clone() };
    let fleet = collect(folder, &Options { expected, confirm: args.confirm });
    let text = match format {
        CollectFormat::Table if args.out.is_some() => {
            render_table(&fleet, args.all, &plimsoll_report::terminal::Style::PLAIN)
        }
        CollectFormat::Table => render_table(&fleet, args.all, &output::style()),
        CollectFormat::Json => render_json(&fleet),
        CollectFormat::OpenMetrics => render_openmetrics(&fleet),
        CollectFormat::Html => render_html(&fleet),
        CollectFormat::Slurm => render_slurm(&fleet),
        CollectFormat::Kubernetes => render_kubernetes(&fleet),
    };
    match &args.out {
        Some(path) => outputs.write(path, text.as_bytes())?,
        None => output::print(&text)?,
    }
    name_repeats(&fleet, &args.dir);
    Ok(match fleet.verdict().exit_code() {
        0 => Exit::Success,
        1 => Exit::Failed,
        _ => Exit::Inconclusive,
    })
}

/// The files that are read, which a report must not replace.
fn list_inputs(dir: &Path) -> Vec<PathBuf> {
    let paths = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_input = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "jsonl" || ending == "part");
    paths.filter(is_input).collect()
}

fn choose_format(args: &CollectArgs) -> Result<CollectFormat, Failure> {
    let Some(path) = args.out.as_deref().filter(|_| args.format.is_none()) else {
        return Ok(args.format.unwrap_or(CollectFormat::Table));
    };
    match path.extension().and_then(|ending| ending.to_str()).map(str::to_ascii_lowercase).as_deref() {
        Some("html" | "htm") => Ok(CollectFormat::Html),
        Some("json") => Ok(CollectFormat::Json),
        Some("prom") => Ok(CollectFormat::OpenMetrics),
        Some("sh") => Ok(CollectFormat::Slurm),
        Some("txt") => Ok(CollectFormat::Table),
        _ => Err(Failure::usage(format!("{}: no format has this ending", path.display()))
            .hint("endings: .html, .json, .prom, .txt, .sh (Slurm); or use --format")),
    }
}

/// Says which hosts to measure again, and how.
fn name_repeats(fleet: &Fleet, dir: &Path) {
    let to_confirm = || fleet.devices.iter().filter(|judged| judged.to_confirm);
    let mut seen = HashSet::new();
    let mut hosts: Vec<&str> = to_confirm().map(|judged| judged.device.host.as_str()).collect();
    hosts.retain(|host| seen.insert(*host));
    let runs = to_confirm().map(|judged| judged.runs).min().unwrap_or(0);
    if hosts.is_empty() {
        return;
    }
    let more = hosts.len().saturating_sub(MOST_HOSTS);
    hosts.truncate(MOST_HOSTS);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    // A round without the figure confirms nothing: it takes another.
    let rounds: Vec<String> = (runs + 1..=RUNS.max(runs + 1)).map(|round| format!("--round {round}")).collect();
    let command = format!("plimsoll check --fleet {}", dir.display());
    say("hint", &format!("to confirm, run `{command}` with {} on {}{more}", rounds.join(" and "), hosts.join(",")));
}
