//! The rule that finds slow devices of a fleet, figure by figure, on the logarithms of the figures:
//!
//! 1. A two-way median polish (Tukey, 'Exploratory data analysis', 1977) takes away what all devices of a host and of a slot share.
//!    Each effect is shrunk by how well it is known. Fewer than [`FEWEST_HOSTS`] hosts have no effects.
//! 2. The scale is that of the residuals and of the model's known spread together: `s² = (16·s₀² + N·MAD²) / (16 + N)`.
//! 3. A device is flagged where it is more than [`Z`] scales and more than [`LEAST`] worse than expected, and more than [`LEAST`]
//!    below the fleet's median: on a host that is faster than others a usual device isn't slow.
//! 4. Flagged devices are measured twice more, and the median of the three runs is judged in the same way.
//! 5. Hosts, slots and racks are judged as groups, because what all devices of a host share is taken away from each of them.

use plimsoll_core::stats::{mad, median};

/// The known spread counts as much as this many devices of the fleet.
pub const PRIOR_DEVICES: f64 = 16.0;
/// A flagged device is worse than expected by more than this many scales.
pub const Z: f64 = 4.0;
/// A flagged device is worse than expected by more than this share.
pub const LEAST: f64 = 0.02;
/// Hosts from which on hosts have effects.
pub const FEWEST_HOSTS: usize = 4;
/// Hosts from which on slots have effects.
pub const FEWEST_HOSTS_OF_SLOTS: usize = 8;
/// Devices per host, on average, from which on hosts have effects: the median of two devices is no robust effect.
const FEWEST_PER_HOST: f64 = 3.0;
/// Rounds of the median polish; it hardly changes after the second.
const ROUNDS: usize = 3;
/// Variance of the median of n normal figures, times n, over the variance of one: π/2.
const MEDIAN_VARIANCE: f64 = std::f64::consts::FRAC_PI_2;
/// Normal quantile of 95 %, one side.
const ONE_SIDED_95: f64 = 1.645;

/// Where a device is, as indexes of its fleet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Its host.
    pub host: usize,
    /// Its slot within the host.
    pub slot: usize,
    /// Its rack.
    pub rack: usize,
}

/// How a device compares with what its fleet leads one to expect.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Deviation {
    /// Logarithm of expected over measured goodness: positive where the device is worse.
    pub worse: f64,
    /// The same for the median of the fleet, without what the device's host has to do with it.
    pub below_median: f64,
    /// `worse` in scales.
    pub z: f64,
}

impl Deviation {
    fn of_group(worse: f64, z: f64) -> Self {
        Self { worse, below_median: worse, z }
    }

    /// How much worse the device is, as a share: 0.05 for 5 %; negative where it is better.
    #[must_use]
    pub fn share(self) -> f64 {
        1.0 - (-self.worse).exp()
    }

    /// Whether the rule flags it.
    #[must_use]
    pub fn is_flagged(self) -> bool {
        self.z > Z && 1.0 - (-self.worse.min(self.below_median)).exp() > LEAST
    }
}

/// A group of devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Group {
    /// The devices of a host.
    Host(usize),
    /// The devices of one slot of all hosts.
    Slot(usize),
    /// The devices of a rack.
    Rack(usize),
}

/// One figure of all devices of a fleet, judged.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// The fleet's median, a logarithm of goodness.
    pub median: f64,
    /// Relative standard deviation of healthy devices.
    pub scale: f64,
    /// One per device; `None` where it has no figure.
    pub devices: Vec<Option<Deviation>>,
    /// The groups that are slow as a whole.
    pub groups: Vec<(Group, Deviation)>,
}

impl Judged {
    /// The smallest slowness that the rule finds in this fleet with 95 % probability, as a share.
    #[must_use]
    pub fn detection_limit(&self) -> f64 {
        let least = -(1.0 - LEAST).ln();
        1.0 - (-(Z * self.scale).max(least) - ONE_SIDED_95 * self.scale).exp()
    }
}

/// Judges one figure of a fleet. `goodness` has the logarithm of each device's figure, negated where less is better; `None` where a
/// device has no figure. `prior` is the known spread of healthy devices, relative.
///
/// # Panics
/// Where `goodness` and `places` differ in length.
#[must_use]
pub fn judge(goodness: &[Option<f64>], places: &[Place], prior: f64) -> Judged {
    assert_eq!(goodness.len(), places.len(), "one place per device");
    let effects = polish(goodness, places);
    let residuals: Vec<f64> = effects.residuals.iter().flatten().copied().collect();
    let count = residuals.len() as f64;
    let spread = robust_spread(residuals) * effects.correction;
    let scale = ((PRIOR_DEVICES * prior * prior + count * spread * spread) / (PRIOR_DEVICES + count)).sqrt();
    let hosts = Shrunk::new(&effects.hosts, &effects.per_host, scale);
    let slots = Shrunk::new(&effects.slots, &effects.per_slot, scale);
    let deviation = |(goodness, place): (&Option<f64>, &Place)| {
        let (of_host, doubt_of_host) = hosts.effect_and_doubt(place.host);
        let (of_slot, doubt_of_slot) = slots.effect_and_doubt(place.slot);
        let below_median = effects.median + of_slot - (*goodness)?;
        let worse = below_median + of_host;
        Some(Deviation { worse, below_median, z: worse / (scale * scale + doubt_of_host + doubt_of_slot).sqrt() })
    };
    let devices = goodness.iter().zip(places).map(deviation).collect();
    let groups = find_slow_groups(goodness, places, &effects, [&hosts, &slots], scale);
    Judged { median: effects.median, scale, devices, groups }
}

/// What a median polish takes apart.
struct Effects {
    median: f64,
    /// By host; `None` where no device of it has a figure, and everywhere where hosts have no effects.
    hosts: Vec<Option<f64>>,
    slots: Vec<Option<f64>>,
    residuals: Vec<Option<f64>>,
    /// Devices with a figure, per host and per slot.
    per_host: Vec<f64>,
    per_slot: Vec<f64>,
    /// Factor on the spread of the residuals, which the hosts' effects made smaller.
    correction: f64,
}

fn polish(goodness: &[Option<f64>], places: &[Place]) -> Effects {
    let hosts = places.iter().map(|place| place.host + 1).max().unwrap_or(0);
    let slots = places.iter().map(|place| place.slot + 1).max().unwrap_or(0);
    let (mut per_host, mut per_slot) = (vec![0.0; hosts], vec![0.0; slots]);
    for (_, place) in goodness.iter().zip(places).filter(|(known, _)| known.is_some()) {
        per_host[place.host] += 1.0;
        per_slot[place.slot] += 1.0;
    }
    let used: Vec<f64> = per_host.iter().copied().filter(|count| *count > 0.0).collect();
    let mean = used.iter().sum::<f64>() / used.len().max(1) as f64;
    let has_hosts = used.len() >= FEWEST_HOSTS && mean >= FEWEST_PER_HOST;
    let has_slots = has_hosts && used.len() >= FEWEST_HOSTS_OF_SLOTS;
    let median = median(goodness.iter().flatten().copied().collect());
    let mut effects = Effects {
        median,
        hosts: vec![None; hosts],
        slots: vec![None; slots],
        residuals: goodness.iter().map(|known| known.map(|known| known - median)).collect(),
        per_host,
        per_slot,
        correction: if has_hosts { (mean / (mean - 1.0)).sqrt() } else { 1.0 },
    };
    for _ in 0..ROUNDS {
        if has_hosts {
            sweep(&mut effects.residuals, &mut effects.hosts, |device| places[device].host);
        }
        if has_slots {
            sweep(&mut effects.residuals, &mut effects.slots, |device| places[device].slot);
        }
    }
    effects
}

/// Moves the median of each group's residuals into its effect.
fn sweep(residuals: &mut [Option<f64>], effects: &mut [Option<f64>], group: impl Fn(usize) -> usize) {
    let mut members: Vec<Vec<f64>> = vec![Vec::new(); effects.len()];
    for (device, residual) in residuals.iter().enumerate() {
        members[group(device)].extend(residual);
    }
    let medians: Vec<Option<f64>> =
        members.into_iter().map(|own| if own.is_empty() { None } else { Some(median(own)) }).collect();
    for (effect, median) in effects.iter_mut().zip(&medians) {
        *effect = median.map(|median| effect.unwrap_or(0.0) + median);
    }
    for (device, residual) in residuals.iter_mut().enumerate() {
        let median = medians[group(device)].unwrap_or(0.0);
        *residual = residual.map(|residual| residual - median);
    }
}

/// The effects of hosts or of slots, and how well they are known.
struct Shrunk<'e> {
    effects: &'e [Option<f64>],
    members: &'e [f64],
    middle: f64,
    /// Variance among them.
    among: f64,
    /// Variance of the median of one, times its members.
    within: f64,
    known: usize,
}

impl<'e> Shrunk<'e> {
    fn new(effects: &'e [Option<f64>], members: &'e [f64], scale: f64) -> Self {
        let known: Vec<f64> = effects.iter().flatten().copied().collect();
        let within = MEDIAN_VARIANCE * scale * scale;
        let mean = members.iter().sum::<f64>() / known.len().max(1) as f64;
        let (count, middle) = (known.len(), median(known.clone()));
        let among = (robust_spread(known).powi(2) - within / mean.max(1.0)).max(0.0);
        Self { effects, members, middle, among, within, known: count }
    }

    /// The variance of a median.
    fn doubt_of_median(&self, place: usize) -> f64 {
        self.within / self.members[place].max(1.0)
    }

    /// The effect, shrunk towards none, and the variance that the shrinking leaves to its devices.
    fn effect_and_doubt(&self, place: usize) -> (f64, f64) {
        let Some(effect) = self.effects[place] else { return (0.0, 0.0) };
        let doubt = self.doubt_of_median(place);
        let weight = if self.among + doubt > 0.0 { self.among / (self.among + doubt) } else { 0.0 };
        (weight * effect, (1.0 - weight) * self.among)
    }
}

fn find_slow_groups(
    goodness: &[Option<f64>],
    places: &[Place],
    effects: &Effects,
    [hosts, slots]: [&Shrunk<'_>; 2],
    scale: f64,
) -> Vec<(Group, Deviation)> {
    let host = |(host, effect): (usize, &Option<f64>)| {
        let worse = hosts.middle - (*effect)?;
        let z = worse / (hosts.among + hosts.doubt_of_median(host)).sqrt();
        Some((Group::Host(host), Deviation::of_group(worse, z)))
    };
    // Slots differ by the board's design: their spread says nothing about a slow slot, so each is judged by its own error alone.
    let slot = |(slot, effect): (usize, &Option<f64>)| {
        let worse = slots.middle - (*effect)?;
        Some((Group::Slot(slot), Deviation::of_group(worse, worse / slots.doubt_of_median(slot).sqrt())))
    };
    let hosts_and_slots =
        effects.hosts.iter().enumerate().filter_map(host).chain(effects.slots.iter().enumerate().filter_map(slot));
    let mut groups: Vec<_> = hosts_and_slots.chain(judge_racks(goodness, places, effects, hosts, scale)).collect();
    groups.retain(|(_, deviation)| deviation.is_flagged());
    groups
}

/// The racks, by the medians of their devices against that of the fleet. A single rack can't be judged.
fn judge_racks(
    goodness: &[Option<f64>],
    places: &[Place],
    effects: &Effects,
    hosts: &Shrunk<'_>,
    scale: f64,
) -> Vec<(Group, Deviation)> {
    let racks = places.iter().map(|place| place.rack + 1).max().unwrap_or(0);
    if racks < 2 || hosts.known == 0 {
        return Vec::new();
    }
    let mut members: Vec<Vec<f64>> = vec![Vec::new(); racks];
    let mut own_hosts: Vec<std::collections::BTreeSet<usize>> = vec![Default::default(); racks];
    for (known, place) in goodness.iter().zip(places) {
        let slot = effects.slots.get(place.slot).copied().flatten().unwrap_or(0.0);
        if let Some(known) = known {
            members[place.rack].push(known - slot);
            own_hosts[place.rack].insert(place.host);
        }
    }
    let judge = |(rack, own): (usize, Vec<f64>)| {
        let (devices, hosts_here) = (own.len() as f64, own_hosts[rack].len() as f64);
        let variance = MEDIAN_VARIANCE * (scale * scale / devices + hosts.among / hosts_here);
        let worse = effects.median - median(own);
        (Group::Rack(rack), Deviation::of_group(worse, worse / variance.sqrt()))
    };
    members.into_iter().enumerate().filter(|(_, own)| !own.is_empty()).map(judge).collect()
}

/// The standard deviation of normal figures with this median absolute deviation, corrected for few figures. 0 for fewer than two.
#[must_use]
pub fn robust_spread(mut figures: Vec<f64>) -> f64 {
    /// Factors for 2 to 9 figures: C. Croux and P. Rousseeuw, 'Time-efficient algorithms for two highly robust estimators of scale',
    /// Computational Statistics 1, 1992; from 10 on n / (n − 0.8).
    const FEW: [f64; 8] = [1.196, 1.495, 1.363, 1.206, 1.200, 1.140, 1.129, 1.107];
    figures.sort_unstable_by(f64::total_cmp);
    let n = figures.len();
    let correction = match n {
        0 | 1 => return 0.0,
        2..=9 => FEW[n - 2],
        _ => n as f64 / (n as f64 - 0.8),
    };
    1.4826 * correction * mad(&figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `hosts` hosts of `each` devices with equal figures, racks of four hosts.
    fn fleet(hosts: usize, each: usize) -> (Vec<Option<f64>>, Vec<Place>) {
        let place = |device: usize| Place { host: device / each, slot: device % each, rack: device / each / 4 };
        (vec![Some(0.0); hosts * each], (0..hosts * each).map(place).collect())
    }

    #[test]
    fn one_slow_device_is_flagged_and_no_other() {
        for (hosts, each) in [(1, 8), (8, 8), (64, 1)] {
            let (mut goodness, places) = fleet(hosts, each);
            goodness[5] = Some((0.95_f64).ln());
            let judged = judge(&goodness, &places, 0.002);
            let flagged: Vec<usize> =
                (0..goodness.len()).filter(|device| judged.devices[*device].unwrap().is_flagged()).collect();
            assert_eq!(flagged, [5], "{hosts} {each}");
            assert!((judged.devices[5].unwrap().share() - 0.05).abs() < 1e-9);
            assert!(judged.groups.is_empty(), "{:?}", judged.groups);
        }
    }

    #[test]
    fn a_slow_host_is_one_group() {
        let (mut goodness, places) = fleet(16, 8);
        // Hosts differ by some 1 %, so that an effect of a host is plausible.
        for (value, place) in goodness.iter_mut().zip(&places) {
            *value = Some(0.01 * (place.host % 5) as f64 / 2.0 + 0.001 * (place.slot % 3) as f64);
        }
        goodness[24..32].iter_mut().for_each(|value| *value = Some(-0.10));
        let judged = judge(&goodness, &places, 0.002);
        assert_eq!(judged.groups.iter().map(|(group, _)| *group).collect::<Vec<_>>(), [Group::Host(3)]);
    }

    #[test]
    fn a_slow_slot_and_a_slow_rack_are_named_as_groups() {
        let (mut goodness, places) = fleet(16, 8);
        for (value, place) in goodness.iter_mut().zip(&places) {
            if place.slot == 6 {
                *value = Some(-0.05);
            }
        }
        let judged = judge(&goodness, &places, 0.002);
        assert_eq!(judged.groups.iter().map(|(group, _)| *group).collect::<Vec<_>>(), [Group::Slot(6)]);

        let (mut goodness, places) = fleet(32, 8);
        for (value, place) in goodness.iter_mut().zip(&places) {
            *value = Some(if place.rack == 2 { -0.05 } else { 0.0 } + 0.001 * (place.host % 4) as f64);
        }
        let judged = judge(&goodness, &places, 0.002);
        assert!(judged.groups.iter().any(|(group, _)| *group == Group::Rack(2)), "{:?}", judged.groups);
    }

    #[test]
    fn a_device_without_a_figure_is_not_judged() {
        let (mut goodness, places) = fleet(8, 8);
        goodness[9] = None;
        assert_eq!(judge(&goodness, &places, 0.002).devices[9], None);
        assert_eq!(judge(&[], &[], 0.01).devices, []);
        assert_eq!(judge(&[None], &[Place::default()], 0.01).devices, [None]);
    }

    #[test]
    fn the_detection_limit_grows_with_the_spread() {
        let (goodness, places) = fleet(1, 8);
        let limit = |prior: f64| judge(&goodness, &places, prior).detection_limit();
        // All figures are equal, so the scale is √(16/24) of the prior.
        assert!((limit(0.001) - (1.0 - 0.98 * (-1.645 * 0.001 * (16.0_f64 / 24.0).sqrt()).exp())).abs() < 1e-12);
        assert!(limit(0.02) > 0.08 && limit(0.02) < 0.10, "{}", limit(0.02));
    }

    #[test]
    fn the_spread_of_normal_figures_is_unbiased_for_few_and_many() {
        let mut rng = plimsoll_core::stats::Rng::new(3);
        for n in [5, 9, 30] {
            let trials = 4000;
            let sum: f64 = (0..trials).map(|_| robust_spread((0..n).map(|_| rng.normal()).collect())).sum();
            assert!((sum / f64::from(trials) - 1.0).abs() < 0.04, "{n}: {}", sum / f64::from(trials));
        }
    }
}
