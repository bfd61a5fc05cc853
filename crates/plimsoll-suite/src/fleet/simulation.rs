//! Simulated fleets with known faults: what the rule and other rules find, and what they accuse falsely. The test is a small slice;
//! `cargo test --release -p plimsoll-suite --lib -- --ignored --nocapture table_of_rules` prints the table of `docs/fleet.md`.

use plimsoll_core::stats::{Rng, median};

use super::rule::{LEAST, Place, judge};

const HOST: usize = 8;

/// A figure of the simulated model: relative standard deviations in per cent, and the part that a fault slows down.
struct Simulated {
    card: f64,
    host: f64,
    run: f64,
    part: u64,
}

const fn simulated(card: f64, host: f64, run: f64, part: u64) -> Simulated {
    Simulated { card, host, run, part }
}

/// Write, read and copy; FMA, L2 and matrix products; both directions of the link; a peer. Spreads as in `docs/fleet.md`.
const FIGURES: [Simulated; 9] = [
    simulated(0.15, 0.05, 0.05, 0),
    simulated(0.9, 0.1, 0.05, 0),
    simulated(0.4, 0.1, 0.05, 0),
    simulated(0.5, 0.2, 0.15, 1),
    simulated(1.0, 0.3, 0.3, 1),
    simulated(2.0, 1.0, 0.4, 1),
    simulated(0.3, 0.7, 0.15, 2),
    simulated(0.3, 0.7, 0.15, 2),
    simulated(0.2, 0.1, 0.1, 3),
];
const PARTS: u64 = 4;
/// Share of faulty cards, and of runs in which another program disturbs one part.
const FAULTY: f64 = 0.01;
const DISTURBED: f64 = 0.02;
/// Mean slowdown of a disturbed run, per cent, exponential.
const DISTURBANCE: f64 = 3.0;

/// Per cent above the model's typical card, by figure and device.
type Matrix = Vec<Vec<f64>>;

struct Fleet {
    truth: Matrix,
    /// The faulty part of each device.
    fault: Vec<Option<u64>>,
}

/// Student's t with 5 degrees of freedom, scaled to variance 1: cards have heavier tails than a normal distribution.
fn heavy(rng: &mut Rng) -> f64 {
    let squares: f64 = (0..5).map(|_| rng.normal().powi(2)).sum();
    rng.normal() / (squares / 5.0).sqrt() / (5.0_f64 / 3.0).sqrt()
}

impl Fleet {
    fn new(devices: usize, slow: f64, rng: &mut Rng) -> Self {
        let mut fault = vec![None; devices];
        let faulty = ((FAULTY * devices as f64).round() as usize).max(1);
        let mut order: Vec<usize> = (0..devices).collect();
        rng.shuffle(&mut order);
        order[..faulty].iter().for_each(|device| fault[*device] = Some(rng.below(PARTS)));
        let truth = FIGURES.iter().map(|figure| {
            let hosts: Vec<f64> = (0..devices.div_ceil(HOST)).map(|_| figure.host * rng.normal()).collect();
            let device = |device: usize| {
                let fault = if fault[device] == Some(figure.part) { slow } else { 0.0 };
                figure.card * heavy(rng) + hosts[device / HOST] - fault
            };
            (0..devices).map(device).collect()
        });
        let truth = truth.collect();
        Self { truth, fault }
    }

    fn devices(&self) -> usize {
        self.fault.len()
    }

    /// One run of one device.
    fn run(&self, device: usize, rng: &mut Rng) -> Vec<f64> {
        let disturbed = (rng.uniform() < DISTURBED).then(|| rng.below(PARTS));
        let loss = -DISTURBANCE * (1.0 - rng.uniform()).ln();
        let figure = |(figure, truth): (&Simulated, &Vec<f64>)| {
            let lost = if disturbed == Some(figure.part) { loss } else { 0.0 };
            truth[device] + figure.run * rng.normal() - lost
        };
        FIGURES.iter().zip(&self.truth).map(figure).collect()
    }

    /// Whether a device is truly within the least difference of the median, figure by figure.
    fn is_typical(&self, figure: usize, device: usize) -> bool {
        median(self.truth[figure].clone()) - self.truth[figure][device] < 100.0 * LEAST
    }
}

/// A rule: the devices that it flags, from one figure.
type Rule = fn(&[f64], &Simulated) -> Vec<bool>;

fn ours(values: &[f64], figure: &Simulated) -> Vec<bool> {
    let goodness: Vec<Option<f64>> = values.iter().map(|value| Some(value / 100.0)).collect();
    let places: Vec<Place> =
        (0..values.len()).map(|device| Place { host: device / HOST, slot: device % HOST, rack: 0 }).collect();
    let judged = judge(&goodness, &places, figure.card / 100.0);
    judged.devices.into_iter().map(|deviation| deviation.is_some_and(|deviation| deviation.is_flagged())).collect()
}

fn three_sigma(values: &[f64], _: &Simulated) -> Vec<bool> {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let sd = (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt();
    values.iter().map(|value| *value < mean - 3.0 * sd).collect()
}

fn interquartile(values: &[f64], _: &Simulated) -> Vec<bool> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let quantile = |share: f64| {
        let place = share * (sorted.len() - 1) as f64;
        let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
        below + (above - below) * place.fract()
    };
    let (q1, q3) = (quantile(0.25), quantile(0.75));
    values.iter().map(|value| *value < q1 - 1.5 * (q3 - q1)).collect()
}

fn modified_z(values: &[f64], _: &Simulated) -> Vec<bool> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let median = sorted[sorted.len() / 2];
    let mut distances: Vec<f64> = sorted.iter().map(|value| (value - median).abs()).collect();
    distances.sort_by(f64::total_cmp);
    let sd = 1.4826 * distances[distances.len() / 2];
    values.iter().map(|value| median - value > 3.5 * sd && median - value > 100.0 * LEAST).collect()
}

#[derive(Clone, Copy, Default)]
struct Tally {
    found: usize,
    faulty: usize,
    accused: usize,
    /// Accused, but truly more than 2 % below the median by nature.
    tail: usize,
    healthy: usize,
}

impl Tally {
    fn recall(self) -> f64 {
        self.found as f64 / self.faulty as f64
    }

    fn false_flags_per_thousand(self) -> f64 {
        1000.0 * self.accused as f64 / self.healthy as f64
    }
}

/// Measures a fleet, flags, and with `confirm` measures the flagged twice more and judges the median of three.
fn try_rule(fleet: &Fleet, first: &Matrix, rule: Rule, confirm: bool, rng: &mut Rng, tally: &mut Tally) {
    let flag = |values: &Matrix| -> Vec<Vec<bool>> {
        values.iter().zip(&FIGURES).map(|(values, figure)| rule(values, figure)).collect()
    };
    let mut flags = flag(first);
    if confirm {
        let mut values = first.clone();
        for device in (0..fleet.devices()).filter(|device| flags.iter().any(|figure| figure[*device])) {
            let [second, third] = [fleet.run(device, rng), fleet.run(device, rng)];
            for (figure, values) in values.iter_mut().enumerate() {
                let mut runs = [values[device], second[figure], third[figure]];
                runs.sort_by(f64::total_cmp);
                values[device] = runs[1];
            }
        }
        for (before, after) in flags.iter_mut().zip(flag(&values)) {
            before.iter_mut().zip(after).for_each(|(before, after)| *before &= after);
        }
    }
    for (device, fault) in fleet.fault.iter().enumerate() {
        let flagged = |faulty: bool| {
            let is_of = move |figure: &usize| (*fault == Some(FIGURES[*figure].part)) == faulty;
            (0..FIGURES.len()).filter(is_of).filter(|figure| flags[*figure][device])
        };
        if fault.is_some() {
            tally.faulty += 1;
            tally.found += usize::from(flagged(true).next().is_some());
            continue;
        }
        tally.healthy += 1;
        let wrongly: Vec<usize> = flagged(false).collect();
        let is_accused = wrongly.iter().any(|figure| fleet.is_typical(*figure, device));
        tally.accused += usize::from(is_accused);
        tally.tail += usize::from(!wrongly.is_empty() && !is_accused);
    }
}

fn study(devices: usize, slow: f64, trials: u64, rules: &[(Rule, bool)]) -> Vec<Tally> {
    let mut tallies = vec![Tally::default(); rules.len()];
    for trial in 0..trials {
        let mut rng = Rng::new(1000 * devices as u64 + trial);
        let fleet = Fleet::new(devices, slow, &mut rng);
        let runs: Vec<Vec<f64>> = (0..devices).map(|device| fleet.run(device, &mut rng)).collect();
        let first = (0..FIGURES.len()).map(|figure| runs.iter().map(|run| run[figure]).collect()).collect();
        for ((rule, confirm), tally) in rules.iter().zip(&mut tallies) {
            try_rule(&fleet, &first, *rule, *confirm, &mut rng, tally);
        }
    }
    tallies
}

#[test]
fn the_rule_finds_cards_slow_by_three_per_cent_and_accuses_hardly_any_other() {
    let fleets = [(8, 60), (64, 16), (512, 3), (4096, 1)];
    let recall = |slow: f64| {
        let tallies = fleets.map(|(devices, trials)| study(devices, slow, trials, &[(ours, true)])[0]);
        let sum = |count: fn(&Tally) -> usize| tallies.iter().map(count).sum::<usize>();
        Tally {
            found: sum(|tally| tally.found),
            faulty: sum(|tally| tally.faulty),
            accused: sum(|tally| tally.accused),
            tail: 0,
            healthy: sum(|tally| tally.healthy),
        }
    };
    let [three, five] = [3.0, 5.0].map(recall);
    assert!(three.recall() >= 0.95, "{} of {}", three.found, three.faulty);
    assert!(five.recall() >= 1.0, "{} of {}", five.found, five.faulty);
    for tally in [three, five] {
        assert!(tally.false_flags_per_thousand() <= 0.5, "{} of {}", tally.accused, tally.healthy);
    }
}

#[test]
fn common_rules_miss_slow_cards_or_accuse_many_healthy_ones() {
    let find = |devices, trials, rule: Rule| study(devices, 5.0, trials, &[(rule, false)])[0];
    // Of 8 figures none can be 3 standard deviations from the mean: |z| ≤ (n − 1)/√n = 2.47.
    assert_eq!(find(8, 30, three_sigma).found, 0);
    assert!(find(8, 30, interquartile).false_flags_per_thousand() > 50.0);
    assert!(find(512, 1, modified_z).false_flags_per_thousand() > 5.0);
}

#[test]
#[ignore = "prints the table of docs/fleet.md; takes minutes"]
#[allow(clippy::print_stdout, reason = "the table is what it is for")]
fn table_of_rules() {
    let rules: [(&str, Rule, bool); 5] = [
        ("3 σ", three_sigma, false),
        ("IQR", interquartile, false),
        ("modified z > 3.5 and > 2 %", modified_z, false),
        ("this rule, one run", ours, false),
        ("this rule", ours, true),
    ];
    let columns = rules.map(|(_, rule, confirm)| (rule, confirm));
    for (devices, trials) in [(8, 1000), (64, 250), (512, 60), (4096, 10)] {
        let studies = [2.0, 3.0, 5.0, 10.0].map(|slow| study(devices, slow, trials, &columns));
        for (place, (name, ..)) in rules.iter().enumerate() {
            let recall = studies.iter().map(|tallies| format!("{:.1}", 100.0 * tallies[place].recall()));
            let sum =
                |count: fn(&Tally) -> usize| studies.iter().map(|tallies| count(&tallies[place])).sum::<usize>() as f64;
            let per_thousand = |count: f64| 1000.0 * count / sum(|tally| tally.healthy);
            println!(
                "{devices:5} {name:28} {:24} {:6.2} {:6.2}",
                recall.collect::<Vec<_>>().join("/"),
                per_thousand(sum(|tally| tally.accused)),
                per_thousand(sum(|tally| tally.tail))
            );
        }
    }
}
