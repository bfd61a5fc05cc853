//! Compilation targets, by the names that compilers and disassemblers use.

use std::fmt;
use std::str::FromStr;

/// A compute capability, with the suffix of its architecture-specific form: `sm_80`, `sm_90a`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Target {
    /// Compute capability times ten: 80, 90, 120.
    pub capability: u32,
    /// True for the architecture-specific form, which later devices can't run (`sm_90a`).
    pub specific: bool,
}

impl Target {
    /// Every target that the kernels are compiled and checked for without a GPU.
    pub const ALL: [Self; 7] = [
        Self::plain(80),
        Self::plain(86),
        Self::plain(89),
        Self::plain(90),
        Self { capability: 90, specific: true },
        Self::plain(100),
        Self::plain(120),
    ];

    /// The portable target, which later minor versions can run too.
    #[must_use]
    pub const fn plain(capability: u32) -> Self {
        Self { capability, specific: false }
    }

    /// Bytes of the widest load: 32 from compute capability 10.0 on, 16 before (PTX ISA, `ld`: `.v8.b32` needs sm_100).
    #[must_use]
    pub fn widest_access(self) -> u32 {
        if self.capability >= 100 { 32 } else { 16 }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sm_{}{}", self.capability, if self.specific { "a" } else { "" })
    }
}

/// The text is not a target's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a target: write one like sm_80 or sm_90a")]
pub struct UnknownTarget(String);

impl FromStr for Target {
    type Err = UnknownTarget;

    fn from_str(text: &str) -> Result<Self, UnknownTarget> {
        let unknown = || UnknownTarget(text.chars().take(40).collect());
        let number = text.strip_prefix("sm_").ok_or_else(unknown)?;
        let (number, specific) = number.strip_suffix('a').map_or((number, false), |number| (number, true));
        let digits = number.len() == 2 || number.len() == 3;
        if !digits || !number.bytes().all(|b| b.is_ascii_digit()) {
            return Err(unknown());
        }
        Ok(Self { capability: number.parse().map_err(|_| unknown())?, specific })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn target_parses_from_its_own_name() {
        for target in Target::ALL {
            assert_eq!(target.to_string().parse(), Ok(target));
        }
    }

    #[test]
    fn malformed_target_names_are_rejected() {
        for text in ["", "sm_", "sm_9", "sm_90b", "90", "compute_90", "sm_9000", "sm_90 ", "sm_+90"] {
            assert!(text.parse::<Target>().is_err(), "{text}");
        }
    }
}
