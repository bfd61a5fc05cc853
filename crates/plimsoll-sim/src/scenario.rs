//! Scenarios: what befalls the simulated device, as words on the command line (`seed=7,noise=0.01,lost-after=40`).

use std::str::FromStr;

use plimsoll_core::unit::{ByteSize, Seconds};
use plimsoll_suite::slip;

/// What befalls the simulated device. The default is an idle machine of good manners.
///
/// Shares are fractions of 1, sizes and times are read as people type them (`1GiB`, `0.5us`), and switches need no
/// value: `above-peak`, `link-degraded`, `smt`, `real-time`.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// `seed=N`: seed of all noise.
    pub seed: u64,
    /// `noise=SHARE`: standard deviation of a sample, relative.
    pub noise: f64,
    /// `tick=TIME`: the timer's step, seconds.
    pub tick: f64,
    /// `launch=TIME`: an empty launch, seconds.
    pub launch: f64,
    /// `memory=SIZE`: memory of the device, bytes; one sixteenth of it is taken already.
    pub memory: u64,
    /// `throttle-after=TIME`: from then on the clock is at 80 %, seconds of simulated time.
    pub throttle_after: Option<f64>,
    /// `throttle=power|thermal|hw`: the reason that is given for it.
    pub brake: Brake,
    /// `clock-low=SHARE`: the clock runs at this share of the calibrated one, 0…1.
    pub clock_low: f64,
    /// `drift=SHARE`: samples of a point slow down towards 1 + SHARE, by a factor e nearer every 30 samples.
    pub drift: f64,
    /// `bimodal=SHARE`: one sample in four is slower by this share.
    pub bimodal: f64,
    /// `correlated=R`: correlation of each sample's noise with the one before, 0…0.999.
    pub correlated: f64,
    /// `outliers=SHARE`: share of samples that take 1.5 to 3 times as long.
    pub outliers: f64,
    /// `steal=SHARE`: of the processors' time, the hypervisor's.
    pub steal: f64,
    /// `cotenant=SHARE`: of the processors' time, other processes'.
    pub cotenant: f64,
    /// `quota=SHARE`: of the time, stopped by the container's quota.
    pub quota: f64,
    /// `preempt=SHARE`: of the samples, interrupted.
    pub preempt: f64,
    /// `ecc=N`: memory errors corrected in every slice of samples.
    pub ecc: u64,
    /// `link-degraded`: the link runs narrower than it can.
    pub link_degraded: bool,
    /// `smt`: measuring threads share cores.
    pub smt: bool,
    /// `above-peak`: memory moves half as much again as it should.
    pub above_peak: bool,
    /// `oom-above=SIZE`: allocations of more bytes fail, though there seems to be room.
    pub oom_above: Option<u64>,
    /// `lost-after=N`: the device is lost at the N-th request for samples, warm-up included.
    pub lost_after: Option<u64>,
    /// `hang-after=N`: it stops answering at the N-th request for samples.
    pub hang_after: Option<u64>,
    /// `panic=PROBE`: this probe panics at its third point.
    pub panic: Option<&'static str>,
    /// `wrong=PROBE`: this probe's kernels give wrong results.
    pub wrong: Option<&'static str>,
    /// `without=PROBE`: the device can't run this probe.
    pub without: Option<&'static str>,
    /// `real-time`: simulated time passes as slowly as the real one.
    pub real_time: bool,
}

/// Which brake the device reports when it throttles.
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
            smt: false,
            above_peak: false,
            oom_above: None,
            lost_after: None,
            hang_after: None,
            panic: None,
            wrong: None,
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
    "smt",
    "above-peak",
    "oom-above",
    "lost-after",
    "hang-after",
    "panic",
    "wrong",
    "without",
    "real-time",
];

/// A scenario that can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScenarioError {
    /// No such key.
    #[error("a scenario has no '{key}'{} (known: {})", question(*nearest), KEYS.join(", "))]
    UnknownKey {
        /// As typed, shortened.
        key: String,
        /// The nearest key that there is, where one is much alike.
        nearest: Option<&'static str>,
    },
    /// The value doesn't fit the key.
    #[error("'{key}' can't be '{value}': {why}")]
    BadValue {
        /// The key.
        key: String,
        /// As typed, shortened.
        value: String,
        /// What is wrong and what would do.
        why: String,
    },
    /// The key stands there twice.
    #[error("'{key}' is given twice; leave one out")]
    Twice {
        /// The key.
        key: String,
    },
}

fn question(nearest: Option<&'static str>) -> String {
    slip::did_you_mean(nearest.as_slice()).map_or_else(String::new, |question| format!("; {question}"))
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
        let given = Given { key, value };
        match key {
            "seed" => self.seed = given.count()?,
            "noise" => self.noise = given.number(0.0, 10.0)?,
            "tick" => self.tick = given.seconds(1e-12)?,
            "launch" => self.launch = given.seconds(0.0)?,
            "memory" => self.memory = given.bytes()?,
            "throttle-after" => self.throttle_after = Some(given.seconds(0.0)?),
            "throttle" => self.brake = given.brake()?,
            "clock-low" => self.clock_low = given.number(0.01, 1.0)?,
            "drift" => self.drift = given.number(-0.9, 10.0)?,
            "bimodal" => self.bimodal = given.number(0.0, 10.0)?,
            "correlated" => self.correlated = given.number(0.0, 0.999)?,
            "outliers" => self.outliers = given.number(0.0, 1.0)?,
            "steal" => self.steal = given.number(0.0, 1.0)?,
            "cotenant" => self.cotenant = given.number(0.0, 1.0)?,
            "quota" => self.quota = given.number(0.0, 1.0)?,
            "preempt" => self.preempt = given.number(0.0, 1.0)?,
            "ecc" => self.ecc = given.count()?.min(1 << 32),
            "link-degraded" => self.link_degraded = given.switch()?,
            "smt" => self.smt = given.switch()?,
            "above-peak" => self.above_peak = given.switch()?,
            "oom-above" => self.oom_above = Some(given.bytes()?),
            "lost-after" => self.lost_after = Some(given.count()?),
            "hang-after" => self.hang_after = Some(given.count()?),
            "panic" => self.panic = Some(given.probe()?),
            "wrong" => self.wrong = Some(given.probe()?),
            "without" => self.without = Some(given.probe()?),
            "real-time" => self.real_time = given.switch()?,
            _ => {
                let nearest = slip::nearest(key, KEYS.iter().copied(), 1).first().copied();
                return Err(ScenarioError::UnknownKey { key: shortened(key), nearest });
            }
        }
        Ok(())
    }
}

/// One `key=value` as typed.
struct Given<'t> {
    key: &'t str,
    value: &'t str,
}

impl Given<'_> {
    fn bad(&self, why: impl Into<String>) -> ScenarioError {
        ScenarioError::BadValue { key: self.key.to_owned(), value: shortened(self.value), why: why.into() }
    }

    fn number(&self, least: f64, most: f64) -> Result<f64, ScenarioError> {
        let number = self.value.parse::<f64>().ok().filter(|number| (least..=most).contains(number));
        number.ok_or_else(|| self.bad(format!("give a number from {least} to {most}")))
    }

    fn count(&self) -> Result<u64, ScenarioError> {
        self.value.parse().map_err(|_| self.bad("give a whole number"))
    }

    fn seconds(&self, least: f64) -> Result<f64, ScenarioError> {
        let Seconds(seconds) = self.value.parse().map_err(|error| self.bad(format!("{error}")))?;
        if (least..=1e6).contains(&seconds) { Ok(seconds) } else { Err(self.bad("give a time from 1 ps to 10⁶ s")) }
    }

    fn bytes(&self) -> Result<u64, ScenarioError> {
        let ByteSize(bytes) = self.value.parse().map_err(|error| self.bad(format!("{error}")))?;
        Ok(bytes)
    }

    fn switch(&self) -> Result<bool, ScenarioError> {
        match self.value {
            "" | "1" | "yes" => Ok(true),
            "0" | "no" => Ok(false),
            _ => Err(self.bad("it is a switch: give 1 or 0, or no value for 1")),
        }
    }

    fn brake(&self) -> Result<Brake, ScenarioError> {
        match self.value {
            "power" => Ok(Brake::Power),
            "thermal" => Ok(Brake::Thermal),
            "hw" => Ok(Brake::Hardware),
            _ => Err(self.bad("give power, thermal or hw")),
        }
    }

    fn probe(&self) -> Result<&'static str, ScenarioError> {
        match plimsoll_probes::find(self.value) {
            Some(spec) => Ok(spec.name),
            None => {
                let nearest =
                    slip::nearest(self.value, plimsoll_probes::ALL.iter().map(|spec| spec.name), 1).first().copied();
                Err(self.bad(format!("no probe has this name{}", question(nearest))))
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
    fn every_key_is_read() {
        let text = "seed=7,noise=0.01,tick=0.5us,launch=2us,memory=8GiB,throttle-after=2s,throttle=power,clock-low=0.9,\
                    drift=0.02,bimodal=0.1,correlated=0.8,outliers=0.03,steal=0.02,cotenant=0.1,quota=0.1,preempt=0.2,\
                    ecc=1,link-degraded,smt=1,above-peak,oom-above=1GiB,lost-after=40,hang-after=41,panic=latency,\
                    wrong=stream,without=sync,real-time=1";
        let scenario: Scenario = text.parse().unwrap();
        assert_eq!(text.split(',').count(), KEYS.len());
        assert_eq!((scenario.seed, scenario.memory, scenario.oom_above), (7, 8 << 30, Some(1 << 30)));
        assert!((scenario.tick - 0.5e-6).abs() < 1e-12 && scenario.real_time && scenario.link_degraded);
        assert_eq!((scenario.panic, scenario.wrong, scenario.without), (Some("latency"), Some("stream"), Some("sync")));
        let Scenario { brake, lost_after, hang_after, .. } = scenario;
        assert_eq!((brake, lost_after, hang_after), (Brake::Power, Some(40), Some(41)));
    }

    #[test]
    fn an_empty_text_is_the_clean_scenario() {
        assert_eq!("".parse(), Ok(Scenario::default()));
        assert_eq!(" , ".parse(), Ok(Scenario::default()));
    }

    #[test]
    fn an_unknown_key_is_told_the_nearest() {
        let error = "lost-afer=3".parse::<Scenario>().unwrap_err();
        assert!(matches!(&error, ScenarioError::UnknownKey { nearest: Some("lost-after"), .. }), "{error}");
        let error = "panic=latencies".parse::<Scenario>().unwrap_err();
        assert!(error.to_string().contains("did you mean latency?"), "{error}");
        let error = "qqqq=3".parse::<Scenario>().unwrap_err();
        assert!(matches!(&error, ScenarioError::UnknownKey { nearest: None, .. }), "{error}");
    }

    #[test]
    fn values_that_make_no_sense_are_refused() {
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
        ] {
            assert!(matches!(text.parse::<Scenario>(), Err(ScenarioError::BadValue { .. })), "{text}");
        }
        assert!(matches!("seed=1,seed=2".parse::<Scenario>(), Err(ScenarioError::Twice { .. })));
    }
}
