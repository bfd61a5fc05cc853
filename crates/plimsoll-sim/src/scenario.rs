//! Scenarios: the simulated device's noise and faults, as text on the command line (`seed=7,noise=0.01,lost-after=40`).

use std::str::FromStr;

use plimsoll_core::unit::{ByteSize, Seconds};
use plimsoll_suite::spelling;

/// Noise and faults of the simulated device. The default is an undisturbed machine.
///
/// Shares are fractions of 1, sizes and times have the usual forms (`1GiB`, `0.5us`), and switches need no value:
/// `above-peak`, `link-degraded`, `smt`, `wrong-digest`, `real-time`.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// `seed=N`: seed of all noise.
    pub seed: u64,
    /// `noise=SHARE`: relative standard deviation of the samples.
    pub noise: f64,
    /// `tick=TIME`: the timer's step, seconds.
    pub tick: f64,
    /// `launch=TIME`: duration of an empty launch, seconds.
    pub launch: f64,
    /// `memory=SIZE`: memory of the device, bytes; one sixteenth of it is already in use.
    pub memory: u64,
    /// `throttle-after=TIME`: simulated time from which on the clock runs at 80 %, seconds.
    pub throttle_after: Option<f64>,
    /// `throttle=power|thermal|hw`: the reason reported for throttling.
    pub brake: Brake,
    /// `clock-low=SHARE`: the clock runs at this share of the calibrated one, 0…1.
    pub clock_low: f64,
    /// `drift=SHARE`: the samples of a point slow down exponentially towards 1 + SHARE, with a time constant of 30 samples.
    pub drift: f64,
    /// `bimodal=SHARE`: one sample in four is slower by this share.
    pub bimodal: f64,
    /// `correlated=R`: correlation of the noise of neighbouring samples, 0…0.999.
    pub correlated: f64,
    /// `outliers=SHARE`: share of the samples that take 1.5 to 3 times as long.
    pub outliers: f64,
    /// `steal=SHARE`: share of the processors' time that the hypervisor gives to others.
    pub steal: f64,
    /// `cotenant=SHARE`: share of the processors' time that other processes use.
    pub cotenant: f64,
    /// `quota=SHARE`: share of the time for which the container's quota stops the process.
    pub quota: f64,
    /// `preempt=SHARE`: share of the samples that are interrupted.
    pub preempt: f64,
    /// `ecc=N`: corrected memory errors per slice of samples.
    pub ecc: u64,
    /// `link-degraded`: the link runs half as wide as it can, and copies to and from the host take twice as long.
    pub link_degraded: bool,
    /// `power-limit=SHARE`: the power limit is lowered to this share of its default, and arithmetic to the same share of its rate.
    pub power_limit: f64,
    /// `uncorrected=N`: memory errors that could not be corrected, before the run.
    pub uncorrected: u64,
    /// `slow=PROBE:PERCENT`, several with `+`: launches of these probes are slower by so much (`slow=stream:5%+launch:20%`).
    pub slow: Vec<(&'static str, f64)>,
    /// `uuid=TEXT`: the device's identity, instead of one that depends on the seed.
    pub uuid: Option<String>,
    /// `slot=N`: the slot of the host, as the bus number of its PCI address.
    pub slot: Option<u64>,
    /// `spread=SHARE`: relative standard deviation of each probe's speed from card to card; the seed is the card.
    pub spread: f64,
    /// `smt`: measuring threads share cores.
    pub smt: bool,
    /// `above-peak`: memory bandwidth is 50 % higher than possible.
    pub above_peak: bool,
    /// `oom-above=SIZE`: larger allocations fail, even where enough memory is reported free.
    pub oom_above: Option<u64>,
    /// `lost-after=N`: the device is lost at the N-th request for samples, including warm-up.
    pub lost_after: Option<u64>,
    /// `hang-after=N`: the device stops responding at the N-th request for samples.
    pub hang_after: Option<u64>,
    /// `panic=PROBE`: this probe panics at its third point.
    pub panic: Option<&'static str>,
    /// `wrong=PROBE`: this probe's kernels give wrong results.
    pub wrong: Option<&'static str>,
    /// `wrong-sm=N`: core N gives a wrong digest of integer arithmetic.
    pub wrong_sm: Option<u64>,
    /// `wrong-digest`: all cores give the same wrong digest of special functions, so that only other devices show it.
    pub wrong_digest: bool,
    /// `crowded=N:PERCENT`: device N of the host loses so much while all devices copy to or from the host.
    pub crowded: Option<(u64, f64)>,
    /// `without=PROBE`: the device can't run this probe.
    pub without: Option<&'static str>,
    /// `real-time`: simulated time passes at the speed of real time.
    pub real_time: bool,
}

/// The reason that the device reports when it throttles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Brake {
    /// The power limit.
    Power,
    /// Temperature.
    #[default]
    Thermal,
    /// A hardware brake.
    Hardware,
}

impl Default for Scenario {
    fn default() -> Self {
        Self {
            seed: 0,
            noise: 0.002,
            tick: 1e-9,
            launch: 200e-9,
            memory: 64 << 30,
            throttle_after: None,
            brake: Brake::default(),
            clock_low: 1.0,
            drift: 0.0,
            bimodal: 0.0,
            correlated: 0.0,
            outliers: 0.0,
            steal: 0.0,
            cotenant: 0.0,
            quota: 0.0,
            preempt: 0.0,
            ecc: 0,
            link_degraded: false,
            power_limit: 1.0,
            uncorrected: 0,
            slow: Vec::new(),
            uuid: None,
            slot: None,
            spread: 0.0,
            smt: false,
            above_peak: false,
            oom_above: None,
            lost_after: None,
            hang_after: None,
            panic: None,
            wrong: None,
            wrong_sm: None,
            wrong_digest: false,
            crowded: None,
            without: None,
            real_time: false,
        }
    }
}

/// Every key, for 'did you mean'.
const KEYS: &[&str] = &[
    "seed",
    "noise",
    "tick",
    "launch",
    "memory",
    "throttle-after",
    "throttle",
    "clock-low",
    "drift",
    "bimodal",
    "correlated",
    "outliers",
    "steal",
    "cotenant",
    "quota",
    "preempt",
    "ecc",
    "link-degraded",
    "power-limit",
    "uncorrected",
    "slow",
    "uuid",
    "slot",
    "spread",
    "smt",
    "above-peak",
    "oom-above",
    "lost-after",
    "hang-after",
    "panic",
    "wrong",
    "wrong-sm",
    "wrong-digest",
    "crowded",
    "without",
    "real-time",
];

/// A scenario that can't be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScenarioError {
    /// Unknown key.
    #[error("a scenario has no '{key}'{} (known: {})", question(*nearest), KEYS.join(", "))]
    UnknownKey {
        /// The text as typed, shortened.
        key: String,
        /// The most similar existing key, if one is similar enough.
        nearest: Option<&'static str>,
    },
    /// The value doesn't fit the key.
    #[error("'{key}' can't be '{value}': {why}")]
    BadValue {
        /// The key.
        key: String,
        /// The text as typed, shortened.
        value: String,
        /// What is wrong, and what is valid.
        why: String,
    },
    /// The key occurs twice.
    #[error("'{key}' is given twice; leave one out")]
    Twice {
        /// The key.
        key: String,
    },
}

fn question(nearest: Option<&'static str>) -> String {
    spelling::did_you_mean(nearest.as_slice()).map_or_else(String::new, |question| format!("; {question}"))
}

impl FromStr for Scenario {
    type Err = ScenarioError;

    fn from_str(text: &str) -> Result<Self, ScenarioError> {
        let mut scenario = Self::default();
        let mut seen: Vec<&str> = Vec::new();
        for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            let (key, value) = item.split_once('=').map_or((item, ""), |(key, value)| (key.trim(), value.trim()));
            if seen.contains(&key) {
                return Err(ScenarioError::Twice { key: key.to_owned() });
            }
            seen.push(key);
            scenario.set(key, value)?;
        }
        Ok(scenario)
    }
}

impl Scenario {
    fn set(&mut self, key: &str, value: &str) -> Result<(), ScenarioError> {
        let setting = Setting { key, value };
        match key {
            "seed" => self.seed = setting.parse_count()?,
            "noise" => self.noise = setting.parse_number(0.0, 10.0)?,
            "tick" => self.tick = setting.parse_seconds(1e-12)?,
            "launch" => self.launch = setting.parse_seconds(0.0)?,
            "memory" => self.memory = setting.parse_bytes()?,
            "throttle-after" => self.throttle_after = Some(setting.parse_seconds(0.0)?),
            "throttle" => self.brake = setting.parse_brake()?,
            "clock-low" => self.clock_low = setting.parse_number(0.01, 1.0)?,
            "drift" => self.drift = setting.parse_number(-0.9, 10.0)?,
            "bimodal" => self.bimodal = setting.parse_number(0.0, 10.0)?,
            "correlated" => self.correlated = setting.parse_number(0.0, 0.999)?,
            "outliers" => self.outliers = setting.parse_number(0.0, 1.0)?,
            "steal" => self.steal = setting.parse_number(0.0, 1.0)?,
            "cotenant" => self.cotenant = setting.parse_number(0.0, 1.0)?,
            "quota" => self.quota = setting.parse_number(0.0, 1.0)?,
            "preempt" => self.preempt = setting.parse_number(0.0, 1.0)?,
            "ecc" => self.ecc = setting.parse_count()?.min(1 << 32),
            "link-degraded" => self.link_degraded = setting.parse_switch()?,
            "power-limit" => self.power_limit = setting.parse_number(0.01, 1.0)?,
            "uncorrected" => self.uncorrected = setting.parse_count()?,
            "slow" => self.slow = setting.parse_slow()?,
            "uuid" => self.uuid = Some(setting.parse_identity()?),
            "slot" => self.slot = Some(setting.parse_count()?.min(255)),
            "spread" => self.spread = setting.parse_number(0.0, 0.1)?,
            "smt" => self.smt = setting.parse_switch()?,
            "above-peak" => self.above_peak = setting.parse_switch()?,
            "oom-above" => self.oom_above = Some(setting.parse_bytes()?),
            "lost-after" => self.lost_after = Some(setting.parse_count()?),
            "hang-after" => self.hang_after = Some(setting.parse_count()?),
            "panic" => self.panic = Some(setting.parse_probe()?),
            "wrong" => self.wrong = Some(setting.parse_probe()?),
            "wrong-sm" => self.wrong_sm = Some(setting.parse_count()?),
            "wrong-digest" => self.wrong_digest = setting.parse_switch()?,
            "crowded" => self.crowded = Some(setting.parse_crowded()?),
            "without" => self.without = Some(setting.parse_probe()?),
            "real-time" => self.real_time = setting.parse_switch()?,
            _ => {
                let nearest = spelling::nearest(key, KEYS.iter().copied(), 1).first().copied();
                return Err(ScenarioError::UnknownKey { key: shortened(key), nearest });
            }
        }
        Ok(())
    }
}

/// One `key=value` as typed.
struct Setting<'t> {
    key: &'t str,
    value: &'t str,
}

impl Setting<'_> {
    fn bad_value(&self, why: impl Into<String>) -> ScenarioError {
        ScenarioError::BadValue { key: self.key.to_owned(), value: shortened(self.value), why: why.into() }
    }

    fn parse_number(&self, least: f64, most: f64) -> Result<f64, ScenarioError> {
        let number = self.value.parse::<f64>().ok().filter(|number| (least..=most).contains(number));
        number.ok_or_else(|| self.bad_value(format!("give a number from {least} to {most}")))
    }

    fn parse_count(&self) -> Result<u64, ScenarioError> {
        self.value.parse().map_err(|_| self.bad_value("give a whole number"))
    }

    fn parse_seconds(&self, least: f64) -> Result<f64, ScenarioError> {
        let Seconds(seconds) = self.value.parse().map_err(|error| self.bad_value(format!("{error}")))?;
        if (least..=1e6).contains(&seconds) {
            Ok(seconds)
        } else {
            Err(self.bad_value("give a time from 1 ps to 10⁶ s"))
        }
    }

    fn parse_bytes(&self) -> Result<u64, ScenarioError> {
        let ByteSize(bytes) = self.value.parse().map_err(|error| self.bad_value(format!("{error}")))?;
        Ok(bytes)
    }

    fn parse_switch(&self) -> Result<bool, ScenarioError> {
        match self.value {
            "" | "1" | "yes" => Ok(true),
            "0" | "no" => Ok(false),
            _ => Err(self.bad_value("it is a switch: give 1 or 0, or no value for 1")),
        }
    }

    /// `PROBE:PERCENT%`, several joined by `+`.
    fn parse_slow(&self) -> Result<Vec<(&'static str, f64)>, ScenarioError> {
        let parse = |item: &str| {
            let (probe, share) = item.split_once(':')?;
            let name = plimsoll_probes::find(probe)?.name;
            let percent = share.trim().trim_end_matches('%').parse::<f64>().ok()?;
            (0.0..=99.0).contains(&percent).then_some((name, percent / 100.0))
        };
        let all: Option<Vec<_>> = self.value.split('+').map(|item| parse(item.trim())).collect();
        all.ok_or_else(|| self.bad_value("give a probe and how much slower it is, 0 to 99 %: stream:5%"))
    }

    /// `N:PERCENT%`.
    fn parse_crowded(&self) -> Result<(u64, f64), ScenarioError> {
        let parse = || {
            let (device, share) = self.value.split_once(':')?;
            let percent = share.trim().trim_end_matches('%').parse::<f64>().ok()?;
            Some((device.trim().parse().ok()?, percent / 100.0)).filter(|_| (0.0..=99.0).contains(&percent))
        };
        parse().ok_or_else(|| self.bad_value("give a device of the host and what it loses, 0 to 99 %: 2:30%"))
    }

    /// Letters, digits and hyphens.
    fn parse_identity(&self) -> Result<String, ScenarioError> {
        let is_valid = |c: char| c.is_ascii_alphanumeric() || c == '-';
        if (1..=64).contains(&self.value.len()) && self.value.chars().all(is_valid) {
            Ok(self.value.to_owned())
        } else {
            Err(self.bad_value("give 1 to 64 letters, digits and hyphens"))
        }
    }

    fn parse_brake(&self) -> Result<Brake, ScenarioError> {
        match self.value {
            "power" => Ok(Brake::Power),
            "thermal" => Ok(Brake::Thermal),
            "hw" => Ok(Brake::Hardware),
            _ => Err(self.bad_value("give power, thermal or hw")),
        }
    }

    fn parse_probe(&self) -> Result<&'static str, ScenarioError> {
        match plimsoll_probes::find(self.value) {
            Some(spec) => Ok(spec.name),
            None => {
                let nearest = spelling::nearest(self.value, plimsoll_probes::ALL.iter().map(|spec| spec.name), 1)
                    .first()
                    .copied();
                Err(self.bad_value(format!("no probe has this name{}", question(nearest))))
            }
        }
    }
}

fn shortened(text: &str) -> String {
    text.chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_parsed() {
        let text = "seed=7,noise=0.01,tick=0.5us,launch=2us,memory=8GiB,throttle-after=2s,throttle=power,clock-low=0.9,\
                    drift=0.02,bimodal=0.1,correlated=0.8,outliers=0.03,steal=0.02,cotenant=0.1,quota=0.1,preempt=0.2,\
                    ecc=1,link-degraded,power-limit=0.6,uncorrected=2,slow=stream:5%+launch:20,uuid=GPU-1,slot=3,spread=0.01,smt=1,above-peak,oom-above=1GiB,lost-after=40,hang-after=41,panic=latency,\
                    wrong=stream,wrong-sm=17,wrong-digest,crowded=2:30%,without=sync,real-time=1";
        let scenario: Scenario = text.parse().unwrap();
        assert_eq!(text.split(',').count(), KEYS.len());
        assert_eq!((scenario.seed, scenario.memory, scenario.oom_above), (7, 8 << 30, Some(1 << 30)));
        assert!((scenario.tick - 0.5e-6).abs() < 1e-12 && scenario.real_time && scenario.link_degraded);
        assert_eq!((scenario.panic, scenario.wrong, scenario.without), (Some("latency"), Some("stream"), Some("sync")));
        assert_eq!((scenario.slot, scenario.spread), (Some(3), 0.01));
        assert_eq!((scenario.wrong_sm, scenario.wrong_digest), (Some(17), true));
        assert_eq!((scenario.slow, scenario.uuid.as_deref()), (vec![("stream", 0.05), ("launch", 0.2)], Some("GPU-1")));
        assert_eq!(scenario.crowded, Some((2, 0.3)));
        assert_eq!((scenario.power_limit, scenario.uncorrected), (0.6, 2));
        let Scenario { brake, lost_after, hang_after, .. } = scenario;
        assert_eq!((brake, lost_after, hang_after), (Brake::Power, Some(40), Some(41)));
    }

    #[test]
    fn an_empty_text_is_the_default_scenario() {
        assert_eq!("".parse(), Ok(Scenario::default()));
        assert_eq!(" , ".parse(), Ok(Scenario::default()));
    }

    #[test]
    fn unknown_keys_and_probes_suggest_the_nearest_name() {
        let error = "lost-afer=3".parse::<Scenario>().unwrap_err();
        assert!(matches!(&error, ScenarioError::UnknownKey { nearest: Some("lost-after"), .. }), "{error}");
        let error = "panic=latencies".parse::<Scenario>().unwrap_err();
        assert!(error.to_string().contains("did you mean latency?"), "{error}");
        let error = "qqqq=3".parse::<Scenario>().unwrap_err();
        assert!(matches!(&error, ScenarioError::UnknownKey { nearest: None, .. }), "{error}");
    }

    #[test]
    fn invalid_values_and_repeated_keys_are_refused() {
        for text in [
            "noise=NaN",
            "noise=-1",
            "noise",
            "tick=0",
            "tick=1e9",
            "memory=64k",
            "seed=1.5",
            "smt=2",
            "correlated=1",
            "throttle=up",
            "clock-low=0",
            "drift=inf",
            "lost-after=-1",
            "slow=stream",
            "slow=none:5%",
            "slow=stream:100%",
            "uuid=",
            "uuid=a/b",
            "power-limit=0",
            "crowded=2",
            "crowded=2:100%",
        ] {
            assert!(matches!(text.parse::<Scenario>(), Err(ScenarioError::BadValue { .. })), "{text}");
        }
        assert!(matches!("seed=1,seed=2".parse::<Scenario>(), Err(ScenarioError::Twice { .. })));
    }
}
