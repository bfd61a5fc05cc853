//! Flags: reasons not to take a figure at face value. `sample::judge` raises them. A flagged figure is never discarded.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

macro_rules! flags {
    ($($variant:ident $name:literal $casts_doubt:literal $meaning:literal;)*) => {
        /// A reason to doubt or to qualify a figure.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Flag { $(#[doc = $meaning] $variant),* }

        impl Flag {
            /// Every flag, in display order.
            pub const ALL: &[Flag] = &[$(Flag::$variant),*];

            /// The name used in records and on screen.
            #[must_use]
            pub const fn name(self) -> &'static str { match self { $(Flag::$variant => $name),* } }

            /// One sentence for the user.
            #[must_use]
            pub const fn meaning(self) -> &'static str { match self { $(Flag::$variant => $meaning),* } }

            /// True where something else may have changed the figure, so that a difference between two runs need not come
            /// from the thing measured. The other flags only qualify the figure.
            #[must_use]
            pub const fn casts_doubt(self) -> bool { match self { $(Flag::$variant => $casts_doubt),* } }

            /// True where the flag explains a wide interval of the figure.
            #[must_use]
            pub const fn widens(self) -> bool {
                use Flag::{Bimodal, Budget, Correlated, Drift, Outliers, Quantized};
                matches!(self, Outliers | Correlated | Budget | Bimodal | Drift | Quantized)
            }
        }
    };
}

flags! {
    LaunchBound "LAUNCH_BOUND" false "Shorter than three empty launches: the launch is part of the figure.";
    ThrottlePower "THROTTLE_POWER" true "The device lowered its clock to stay within its power limit.";
    ThrottleThermal "THROTTLE_THERMAL" true "The device lowered its clock because it was hot.";
    ThrottleHw "THROTTLE_HW" true "A hardware brake (power supply or board) lowered the clock.";
    ClockLow "CLOCK_LOW" true "The clock ran more than 3 % below the one calibrated for this device.";
    Drift "DRIFT" true "The last third of the samples differs from the first by more than 0.5 %.";
    Bimodal "BIMODAL" true "The samples fall into two separate groups; the median stands for one of them.";
    Outliers "OUTLIERS" false "More than 1 % of the samples lie far outside the others (modified z > 3.5), and move the mean away from the median by over 0.5 %.";
    Correlated "CORRELATED" false "Neighbouring samples are correlated; the interval, widened for that, is wider than requested.";
    Quantized "QUANTIZED" false "The timer's step is more than 0.5 % of a sample.";
    CacheResident "CACHE_RESIDENT" false "A cold figure was requested, but its data fits in a cache.";
    AbovePeak "ABOVE_PEAK" true "A cold memory figure above 100.5 % of the theoretical peak: something is wrong.";
    Cotenant "COTENANT" true "Another process used the device during the measurement.";
    Steal "STEAL" true "The hypervisor gave this machine's processors to someone else during the measurement.";
    CpuQuota "CPU_QUOTA" true "The container's CPU quota stopped the measurement for a while.";
    Preempted "PREEMPTED" true "The operating system interrupted more than one sample in ten.";
    SmtShared "SMT_SHARED" false "Two measuring threads share one core.";
    Ecc "ECC" true "Memory errors were corrected during the measurement.";
    LinkDegraded "LINK_DEGRADED" true "The link runs narrower or slower than it can.";
    Budget "BUDGET" false "Time or samples ran out before the interval was narrow enough; the interval says how wide it is.";
    VerifyFail "VERIFY_FAIL" true "The kernel's result was wrong; the figure is worthless.";
    Unchecked "UNCHECKED" true "A fault ended the measurement before its results were checked.";
    Shrunk "SHRUNK" false "The requested size did not fit in memory; a smaller one was measured.";
    Counted "COUNTED" false "By the hardware counters, memory moved over 5 % more or less than the algorithm must.";
    SizeDiffers "SIZE_DIFFERS" false "The system reports a size that is over 5 % larger or smaller.";
    Unknown "UNKNOWN" true "A flag from a later version of plimsoll.";
}

/// A set of flags; an array of names in records.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Flags(u32);

impl Flags {
    /// The empty set.
    pub const NONE: Flags = Flags(0);

    /// Adds a flag.
    pub fn insert(&mut self, flag: Flag) {
        self.0 |= 1 << flag as u32;
    }

    /// Adds a flag if `condition` holds.
    pub fn insert_if(&mut self, flag: Flag, condition: bool) {
        if condition {
            self.insert(flag);
        }
    }

    /// True where `flag` is set.
    #[must_use]
    pub fn contains(self, flag: Flag) -> bool {
        self.0 & (1 << flag as u32) != 0
    }

    /// True where the results were wrong or weren't checked: the figure can't serve as a reference.
    #[must_use]
    pub fn is_unverified(self) -> bool {
        self.contains(Flag::VerifyFail) || self.contains(Flag::Unchecked)
    }

    /// True where no flag is set.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The flags in either set.
    #[must_use]
    pub fn union(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// The flags that aren't in the other set.
    #[must_use]
    pub fn without(self, other: Flags) -> Flags {
        Flags(self.0 & !other.0)
    }

    /// The flags that [cast doubt](Flag::casts_doubt) on the figure.
    #[must_use]
    pub fn doubtful(self) -> Flags {
        self.iter().filter(|flag| flag.casts_doubt()).collect()
    }

    /// The flags that [explain a wide interval](Flag::widens).
    #[must_use]
    pub fn widening(self) -> Flags {
        self.iter().filter(|flag| flag.widens()).collect()
    }

    /// The flags in display order.
    pub fn iter(self) -> impl Iterator<Item = Flag> {
        Flag::ALL.iter().copied().filter(move |flag| self.contains(*flag))
    }
}

/// [`Flags::is_empty`] for records, which leave empty sets out.
pub(crate) fn is_none(flags: &Flags) -> bool {
    flags.is_empty()
}

impl FromIterator<Flag> for Flags {
    fn from_iter<I: IntoIterator<Item = Flag>>(flags: I) -> Self {
        let mut set = Flags::NONE;
        flags.into_iter().for_each(|flag| set.insert(flag));
        set
    }
}

impl std::fmt::Debug for Flags {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// The names separated by spaces.
impl std::fmt::Display for Flags {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (i, flag) in self.iter().enumerate() {
            write!(f, "{}{}", if i == 0 { "" } else { " " }, flag.name())?;
        }
        Ok(())
    }
}

impl Serialize for Flags {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter().map(Flag::name))
    }
}

impl<'de> Deserialize<'de> for Flags {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Names;
        impl<'de> de::Visitor<'de> for Names {
            type Value = Flags;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an array of flag names")
            }
            fn visit_seq<A: de::SeqAccess<'de>>(self, mut seq: A) -> Result<Flags, A::Error> {
                let mut flags = Flags::NONE;
                while let Some(name) = seq.next_element::<Cow<'de, str>>()? {
                    let known = Flag::ALL.iter().copied().find(|flag| flag.name() == name);
                    flags.insert(known.unwrap_or(Flag::Unknown));
                }
                Ok(flags)
            }
        }
        deserializer.deserialize_seq(Names)
    }
}

impl JsonSchema for Flags {
    fn schema_name() -> Cow<'static, str> {
        "Flags".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let known: Vec<&str> = Flag::ALL.iter().map(|flag| flag.name()).collect();
        json_schema!({ "type": "array", "items": { "type": "string", "examples": known } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_round_trip_through_json_and_an_unknown_name_reads_as_unknown() {
        let all: Flags = Flag::ALL.iter().copied().collect();
        let json = serde_json::to_string(&all).unwrap();
        assert_eq!(serde_json::from_str::<Flags>(&json).unwrap(), all);
        let later: Flags = serde_json::from_str(r#"["DRIFT","FROM_2031"]"#).unwrap();
        assert_eq!(later.to_string(), "DRIFT UNKNOWN");
    }

    #[test]
    fn every_flag_fits_in_the_bit_set() {
        assert!(Flag::ALL.len() <= 32);
    }
}
