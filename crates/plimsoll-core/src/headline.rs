//! Headlines: the few findings that summarize a device. Each probe declares its own in its [`ProbeSpec`]; the verdict of `check`,
//! the summary of `measure`, `compare` and the reports all read this declaration.
//!
//! [`ProbeSpec`]: crate::probe::ProbeSpec

use crate::record::Finding;

/// A finding that belongs on the first screen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Headline {
    /// Its name in files and on the command line, unique among all probes; it never changes: `memory-read`.
    pub id: &'static str,
    /// Its name on screen: `memory read`.
    pub name: &'static str,
    /// The names of the findings that it may be, best first: a device has the first one that it can measure.
    pub findings: &'static [&'static str],
    /// Which direction is better.
    pub better: Better,
    /// What it is for.
    pub role: Role,
    /// Usual spread from run to run on one unchanged device, as a relative standard deviation. Where a model's own spread is known
    /// from records, that one is used.
    pub spread: f64,
}

/// The direction in which a figure improves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// Larger is better: a bandwidth.
    More,
    /// Smaller is better: a latency.
    Less,
}

/// What a headline decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It is part of the verdict on a device, and of the exit code of a comparison.
    Gate,
    /// It is shown only.
    Information,
}

impl Headline {
    /// A figure for the verdict that varies by `spread` from run to run (relative standard deviation).
    #[must_use]
    pub const fn gate(
        id: &'static str,
        name: &'static str,
        better: Better,
        findings: &'static [&'static str],
        spread: f64,
    ) -> Self {
        Self { id, name, findings, better, role: Role::Gate, spread }
    }

    /// The same figure, shown only.
    #[must_use]
    pub const fn shown_only(self) -> Self {
        Self { role: Role::Information, ..self }
    }

    /// The finding that this headline stands for, among those of one device and of the probe that declares it.
    #[must_use]
    pub fn find<'f>(&self, findings: impl Iterator<Item = &'f Finding> + Clone) -> Option<&'f Finding> {
        self.findings.iter().find_map(|name| findings.clone().find(|finding| finding.name == *name))
    }
}

impl Better {
    /// How much better `value` is than `than`: above 1 where it is better, below 1 where it is worse.
    #[must_use]
    pub fn ratio(self, value: f64, than: f64) -> f64 {
        match self {
            Self::More => value / than,
            Self::Less => than / value,
        }
    }

    /// The name in JSON: `more` or `less`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::More => "more",
            Self::Less => "less",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Interval;
    use crate::unit::Unit;

    fn finding(name: &str) -> Finding {
        Finding {
            device: 0,
            probe: String::new(),
            name: name.to_owned(),
            value: 1.0,
            interval: Interval { lo: 1.0, hi: 1.0 },
            unit: Unit::FlopPerSecond,
            flags: crate::Flags::NONE,
            metric: String::new(),
            says: String::new(),
            published: None,
        }
    }

    #[test]
    fn the_first_name_that_the_device_has_is_the_headline() {
        let headline = Headline::gate("matrix", "matrix", Better::More, &["new", "old"], 0.01);
        let (old, both) = ([finding("other"), finding("old")], [finding("old"), finding("new")]);
        assert_eq!(headline.find(old.iter()).unwrap().name, "old");
        assert_eq!(headline.find(both.iter()).unwrap().name, "new");
        assert!(headline.find(old[..1].iter()).is_none());
        assert_eq!((headline.role, headline.shown_only().role), (Role::Gate, Role::Information));
    }

    #[test]
    fn ratio_is_above_one_where_the_value_is_better() {
        assert_eq!(Better::More.ratio(3.0, 2.0), 1.5);
        assert_eq!(Better::Less.ratio(2.0, 3.0), 1.5);
    }
}
