//! Pictures of a fleet: a map of hosts and slots, and the distribution of each figure with its outliers named.

use plimsoll_suite::check::Verdict;
use plimsoll_suite::fleet::collect::{Fleet, Judgement};
use plimsoll_suite::fleet::strata::{FigureOfFleet, Population};

use super::reasons;
use crate::svg::{Markup, WIDTH, escape, fit, number, width};

/// The share below the fleet that has the full shade.
const FULL: f64 = 0.05;
/// Largest width of the names of hosts, pixels.
const NAMES: f64 = 110.0;
/// Most hosts of a map; more of them are shown only where a device isn't healthy.
const MOST_HOSTS: usize = 600;
const TOP: f64 = 46.0;

/// The map of a population: one row per host, one column per slot, darker where a device is worse than the fleet.
pub(super) fn draw_map(fleet: &Fleet, number: usize) -> String {
    let population = &fleet.populations[number];
    let hosts = choose_hosts(fleet, population);
    // Many hosts are drawn in columns next to each other.
    let (left, slots) = (names_width(population, &hosts), population.slots.len().max(1) as f64);
    let blocks = (hosts.len().div_ceil(64)).clamp(1, 4);
    let per_block = hosts.len().div_ceil(blocks).max(1);
    let room = WIDTH / blocks as f64;
    let cell = (((room - left - 12.0) / slots).clamp(3.0, 56.0), (620.0 / per_block as f64).clamp(9.0, 20.0));
    let mut out = Markup::new(false);
    let worst = worst_deviations(fleet, number);
    for (place, member) in population.members.iter().enumerate() {
        let at = population.places[place];
        let host = if population.ambiguous_hosts { 0 } else { at.host };
        let Some(row) = hosts.iter().position(|known| *known == host) else { continue };
        let corner =
            ((row / per_block) as f64 * room + left + at.slot as f64 * cell.0, TOP + (row % per_block) as f64 * cell.1);
        draw_cell(&mut out, &fleet.devices[*member], worst[place], corner, cell);
    }
    for (block, (slot, name)) in (0..blocks)
        .flat_map(|block| shorten_slots(&population.slots).into_iter().enumerate().map(move |slot| (block, slot)))
    {
        let x = block as f64 * room + left + (slot as f64 + 0.5) * cell.0;
        if width(&name) < cell.0 {
            out.text("tick", (x, TOP - 7.0), "middle", &name);
        }
    }
    let every = (13.0 / cell.1).ceil() as usize;
    for (row, host) in hosts.iter().enumerate().filter(|(row, _)| (row % per_block).is_multiple_of(every)) {
        let (x, y) =
            ((row / per_block) as f64 * room + left - 6.0, TOP + ((row % per_block) as f64 + 0.5) * cell.1 + 4.0);
        out.text("tick", (x, y), "end", &fit(&population.hosts[*host], NAMES));
    }
    let height = TOP + per_block as f64 * cell.1 + 34.0;
    draw_key(&mut out, height - 10.0);
    let title = format!("Hosts and slots, {} × {}", population.members.len(), fleet.strata[population.stratum].model);
    frame(&title, "darker is worse; blank has no file", height, &out.into_string())
}

fn names_width(population: &Population, hosts: &[usize]) -> f64 {
    hosts.iter().map(|host| width(&population.hosts[*host])).fold(20.0, f64::max).min(NAMES) + 12.0
}

/// The names of the slots without what all have in common: `3` of `0000:03:00.0`.
fn shorten_slots(slots: &[String]) -> Vec<String> {
    let Some(first) = slots.first().filter(|_| slots.len() > 1) else { return slots.to_vec() };
    let common = |same: &dyn Fn(&str, usize) -> bool| {
        (0..first.len()).take_while(|place| slots.iter().all(|slot| same(slot, *place))).count()
    };
    let bytes = first.as_bytes();
    let before = common(&|slot, place| slot.as_bytes().get(place) == Some(&bytes[place]));
    let after = common(&|slot, place| slot.as_bytes().iter().rev().nth(place) == bytes.iter().rev().nth(place));
    let short = |slot: &String| {
        slot.get(before..slot.len().saturating_sub(after)).filter(|rest| !rest.is_empty()).unwrap_or(slot).to_owned()
    };
    slots.iter().map(short).collect()
}

/// All hosts in their natural order; of very many only those with a device that isn't healthy.
fn choose_hosts(fleet: &Fleet, population: &Population) -> Vec<usize> {
    let mut hosts: Vec<usize> = Vec::new();
    // Devices are in the order of hosts already.
    let mut members: Vec<(usize, usize)> = population.members.iter().copied().zip(0..).collect();
    members.sort_unstable();
    let many = population.hosts.len() > MOST_HOSTS;
    let mut seen = vec![false; population.hosts.len()];
    for (member, place) in members {
        let host = population.places[place].host;
        let is_shown = !many || fleet.devices[member].verdict != Verdict::Healthy;
        if is_shown && !seen[host] {
            seen[host] = true;
            hosts.push(host);
        }
    }
    hosts.truncate(MOST_HOSTS);
    hosts
}

/// The largest share by which each member is worse than the fleet.
fn worst_deviations(fleet: &Fleet, number: usize) -> Vec<f64> {
    let mut worst = vec![0.0; fleet.populations[number].members.len()];
    for figure in fleet.figures_of(number) {
        for (worst, known) in worst.iter_mut().zip(&figure.last().devices) {
            // A wide figure is worse by nature: only what is unusual for it counts.
            let unusual = known.map_or(0.0, |known| if known.z > 2.0 { known.share() } else { 0.0 });
            *worst = unusual.max(*worst);
        }
    }
    worst
}

fn draw_cell(out: &mut Markup, judged: &Judgement, worst: f64, at: (f64, f64), cell: (f64, f64)) {
    let title =
        format!("{} {}: {} {}", judged.device.place(), judged.device.id, judged.verdict.name(), reasons(judged));
    let gap = if cell.0.min(cell.1) > 8.0 { 1.0 } else { 0.0 };
    let style = match judged.verdict {
        Verdict::Broken | Verdict::Slow => "fill:var(--warn);fill-opacity:1".to_owned(),
        Verdict::Unknown => "fill:var(--h4);fill-opacity:1".to_owned(),
        Verdict::Healthy | Verdict::NotJudged => format!("--s:{:.2}", 0.08 + 0.92 * (worst / FULL).clamp(0.0, 1.0)),
    };
    let [x, y, width, height] = [at.0, at.1, cell.0 - gap, cell.1 - gap].map(number);
    out.raw(&format!(
        "<g class=\"pt\"><title>{}</title><rect class=\"cell\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" style=\"{style}\"/></g>",
        escape(&title)
    ));
}

fn draw_key(out: &mut Markup, y: f64) {
    let mut x = 8.0;
    let entries = [
        ("as the fleet", "--s:.08"),
        ("5 % worse, unflagged", "--s:1"),
        ("slow or broken", "fill:var(--warn);fill-opacity:1"),
        ("unknown", "fill:var(--h4);fill-opacity:1"),
    ];
    for (label, style) in entries {
        out.rect("cell", (x, y - 11.0), (16.0, 14.0), &format!(" style=\"{style}\""));
        out.text("tick", (x + 22.0, y), "start", label);
        x += 22.0 + width(label) + 14.0;
    }
}

/// Bars of a distribution, and names of outliers.
const BINS: usize = 48;
const MOST_NAMED: usize = 8;
const PLOT: f64 = 90.0;

/// The distribution of a figure over its population, in per cent of the fleet's median, with flagged devices named.
pub(super) fn draw_distribution(fleet: &Fleet, figure: &FigureOfFleet) -> String {
    let members = &fleet.populations[figure.population].members;
    let judged = figure.last();
    let mut shares: Vec<(f64, bool, usize)> = Vec::new();
    for (member, known) in members.iter().zip(&judged.devices) {
        shares.extend(known.map(|known| (-100.0 * known.share(), known.is_flagged(), *member)));
    }
    let limit = 100.0 * judged.detection_limit();
    let reach = shares.iter().map(|(share, ..)| share.abs()).fold(limit * 1.3, f64::max).min(100.0);
    let (left, right) = (12.0, WIDTH - 14.0);
    let place = |share: f64| left + (share.clamp(-reach, reach) / reach + 1.0) / 2.0 * (right - left);
    let mut out = Markup::new(false);
    draw_bars(&mut out, &shares, reach, (left, right));
    for share in [-limit, 0.0] {
        out.line(if share == 0.0 { "axis" } else { "level" }, (place(share), TOP), (place(share), TOP + PLOT));
    }
    out.line("axis", (left, TOP + PLOT), (right, TOP + PLOT));
    out.text("tick", (place(0.0), TOP + PLOT + 16.0), "middle", &figure.unit.format(figure.median));
    out.text("tick", (place(-limit), TOP - 6.0), "middle", &format!("−{limit:.1} %"));
    let mut flagged: Vec<&(f64, bool, usize)> = shares.iter().filter(|(_, is_flagged, _)| *is_flagged).collect();
    flagged.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut y = TOP + PLOT + 34.0;
    for (share, _, member) in flagged.iter().take(MOST_NAMED) {
        let line =
            format!("{:.1} %  {}  {}", share, fleet.devices[*member].device.place(), fleet.devices[*member].device.id);
        let line = line.replacen('-', "−", 1);
        let at = (place(*share), TOP + PLOT - 6.0);
        out.raw(&format!(
            "<circle style=\"--c:var(--warn)\" cx=\"{}\" cy=\"{}\" r=\"4\"/>",
            number(at.0),
            number(at.1)
        ));
        out.text("fig", (left, y), "start", &fit(&line, WIDTH - 30.0));
        y += 16.0;
    }
    if flagged.len() > MOST_NAMED {
        out.text("soft", (left, y), "start", &format!("and {} more", flagged.len() - MOST_NAMED));
        y += 16.0;
    }
    let note = format!("{} devices, spread {:.2} %", figure.count, 100.0 * judged.scale);
    frame(figure.headline.name, &note, y, &out.into_string())
}

fn draw_bars(out: &mut Markup, shares: &[(f64, bool, usize)], reach: f64, (left, right): (f64, f64)) {
    let mut bins = [0usize; BINS];
    for (share, ..) in shares {
        let place = ((share.clamp(-reach, reach) / reach + 1.0) / 2.0 * BINS as f64) as usize;
        bins[place.min(BINS - 1)] += 1;
    }
    let most = bins.iter().copied().max().unwrap_or(1).max(1) as f64;
    let step = (right - left) / BINS as f64;
    for (place, count) in bins.iter().enumerate().filter(|(_, count)| **count > 0) {
        // A single device among thousands must be visible.
        let height = (*count as f64 / most * PLOT).max(2.0);
        let at = (left + place as f64 * step, TOP + PLOT - height);
        out.rect("bar", at, (step - 1.0, height), " style=\"--c:var(--h0)\"");
    }
}

fn frame(title: &str, note: &str, height: f64, body: &str) -> String {
    let label = escape(&format!("{title}, {note}"));
    let (title, note) = (escape(&fit(title, WIDTH - 20.0 - width(note))), escape(note));
    format!(
        "<svg class=\"chart\" viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"group\" aria-label=\"{label}\">\
         <rect class=\"paper\" width=\"{WIDTH}\" height=\"{height:.0}\"/><text class=\"title\" x=\"4\" y=\"18\">{title}</text>\
         <text class=\"soft\" x=\"{:.0}\" y=\"18\" text-anchor=\"end\">{note}</text>{body}</svg>\n",
        WIDTH - 4.0
    )
}

/// Whether a device is flagged in this figure.
pub(super) fn has_flagged(figure: &FigureOfFleet) -> bool {
    figure.last().devices.iter().flatten().any(|known| known.is_flagged())
}
