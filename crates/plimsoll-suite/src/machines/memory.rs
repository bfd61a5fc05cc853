//! Transfers per clock of each type of memory, and the peak bandwidth that follows from them.

use std::fmt;
use std::str::FromStr;

use plimsoll_core::unit::Frequency;

use crate::spelling;

/// A type of memory.
///
/// Transfers per clock are those of the table in 'Elementwise Operations on GPUs' (Chad Jarvis, 2024): GDDR6X 16, GDDR6 and GDDR5X
/// 8, SDR 1, everything else 2. For GDDR7, which is newer than the table, the same convention gives 16, from the RTX 5090's
/// published 28 Gbit/s per pin at a memory clock of 1750 MHz.
///
/// There are two conventions for 'clock'. Data sheets and monitoring tools give the command clock of graphics memory (GDDR6 at
/// 12.5 Gbit/s: 1.5625 GHz), and the table refers to that. The exception is GDDR5: it makes 4 transfers per command clock, and the
/// table's 2 are per write clock (JEDEC JESD212: data at twice the write clock, which is twice the command clock). Drivers report
/// half the data rate for every type: see [`peak_bandwidth_from_driver`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MemoryType {
    /// Single data rate.
    Sdr,
    /// DDR.
    Ddr,
    /// DDR2.
    Ddr2,
    /// DDR3.
    Ddr3,
    /// DDR4.
    Ddr4,
    /// DDR5.
    Ddr5,
    /// LPDDR4.
    Lpddr4,
    /// LPDDR4X.
    Lpddr4x,
    /// LPDDR5.
    Lpddr5,
    /// LPDDR5X.
    Lpddr5x,
    /// First-generation high-bandwidth memory.
    Hbm,
    /// HBM2.
    Hbm2,
    /// HBM2E.
    Hbm2e,
    /// HBM3.
    Hbm3,
    /// HBM3E.
    Hbm3e,
    /// GDDR5, counted by its write clock.
    Gddr5,
    /// GDDR5X.
    Gddr5x,
    /// GDDR6.
    Gddr6,
    /// GDDR6X.
    Gddr6x,
    /// GDDR7.
    Gddr7,
}

impl MemoryType {
    /// Every type, in order of declaration.
    pub const ALL: &[Self] = &[
        Self::Sdr,
        Self::Ddr,
        Self::Ddr2,
        Self::Ddr3,
        Self::Ddr4,
        Self::Ddr5,
        Self::Lpddr4,
        Self::Lpddr4x,
        Self::Lpddr5,
        Self::Lpddr5x,
        Self::Hbm,
        Self::Hbm2,
        Self::Hbm2e,
        Self::Hbm3,
        Self::Hbm3e,
        Self::Gddr5,
        Self::Gddr5x,
        Self::Gddr6,
        Self::Gddr6x,
        Self::Gddr7,
    ];

    /// The name as in data sheets.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Sdr => "SDR",
            Self::Ddr => "DDR",
            Self::Ddr2 => "DDR2",
            Self::Ddr3 => "DDR3",
            Self::Ddr4 => "DDR4",
            Self::Ddr5 => "DDR5",
            Self::Lpddr4 => "LPDDR4",
            Self::Lpddr4x => "LPDDR4X",
            Self::Lpddr5 => "LPDDR5",
            Self::Lpddr5x => "LPDDR5X",
            Self::Hbm => "HBM",
            Self::Hbm2 => "HBM2",
            Self::Hbm2e => "HBM2E",
            Self::Hbm3 => "HBM3",
            Self::Hbm3e => "HBM3E",
            Self::Gddr5 => "GDDR5",
            Self::Gddr5x => "GDDR5X",
            Self::Gddr6 => "GDDR6",
            Self::Gddr6x => "GDDR6X",
            Self::Gddr7 => "GDDR7",
        }
    }

    /// Transfers per pin and clock; see the type's documentation for the convention and the source.
    #[must_use]
    pub fn transfers_per_clock(self) -> u32 {
        match self {
            Self::Sdr => 1,
            Self::Gddr5x | Self::Gddr6 => 8,
            Self::Gddr6x | Self::Gddr7 => 16,
            _ => 2,
        }
    }
}

/// Theoretical bandwidth in bytes per second: bus width in bytes × transfers per clock × clock in hertz.
#[must_use]
pub fn peak_bandwidth(memory: MemoryType, bus_width_bits: u32, clock_hz: f64) -> f64 {
    f64::from(bus_width_bits) / 8.0 * f64::from(memory.transfers_per_clock()) * clock_hz
}

/// The formula of [`peak_bandwidth`] with its numbers: `5120 bit / 8 × 2 per clock (HBM2E) × 1.512 GHz`.
#[must_use]
pub fn bandwidth_formula(memory: MemoryType, bus_width_bits: u32, clock_hz: f64) -> String {
    let transfers = memory.transfers_per_clock();
    format!("{bus_width_bits} bit / 8 × {transfers} per clock ({memory}) × {}", Frequency(clock_hz))
}

/// Theoretical bandwidth in bytes per second from the clock that a CUDA driver or NVML reports, which is half the data rate for
/// every type (6251 MHz for an A10's GDDR6 at 12.5 Gbit/s). The formula is that of NVIDIA's `deviceQuery` example:
/// 2 × clock × bus width / 8.
#[must_use]
pub fn peak_bandwidth_from_driver(bus_width_bits: u32, clock_hz: f64) -> f64 {
    2.0 * clock_hz * f64::from(bus_width_bits) / 8.0
}

/// An unknown name of a memory type. The message lists the known names.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no memory type called {name:?}; {}: {}", list_heading(*nearest), known_names())]
pub struct UnknownMemoryType {
    /// The given name, shortened to 40 characters.
    pub name: String,
    /// The most similar known type, where one is similar enough.
    pub nearest: Option<MemoryType>,
}

/// The text before the list of known names.
fn list_heading(nearest: Option<MemoryType>) -> String {
    let question = nearest.and_then(|nearest| spelling::did_you_mean(&[nearest.name()]));
    question.map_or_else(|| "known".to_owned(), |question| format!("{question} Known"))
}

fn known_names() -> String {
    let names: Vec<&str> = MemoryType::ALL.iter().map(|memory| memory.name()).collect();
    names.join(", ")
}

impl FromStr for MemoryType {
    type Err = UnknownMemoryType;

    /// Accepts upper and lower case, with or without hyphens and spaces (`hbm2e`, `GDDR-6X`).
    fn from_str(text: &str) -> Result<Self, UnknownMemoryType> {
        let shown: String = text.chars().take(40).collect();
        let plain: String =
            shown.chars().filter(|c| !matches!(c, ' ' | '-' | '_')).map(|c| c.to_ascii_uppercase()).collect();
        let find = |name: &str| Self::ALL.iter().copied().find(|memory| memory.name() == name);
        match find(&plain).filter(|_| shown.len() == text.len()) {
            Some(memory) => Ok(memory),
            None => {
                let names = spelling::nearest(&plain, Self::ALL.iter().map(|memory| memory.name()), 1);
                Err(UnknownMemoryType { name: shown, nearest: names.first().copied().and_then(find) })
            }
        }
    }
}

impl fmt::Display for MemoryType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_reads_back() {
        for memory in MemoryType::ALL {
            assert_eq!(memory.to_string().parse(), Ok(*memory));
            assert_eq!(memory.name().to_lowercase().parse(), Ok(*memory));
        }
        assert_eq!("gddr-6x".parse(), Ok(MemoryType::Gddr6x));
    }

    #[test]
    fn mistyped_name_suggests_the_nearest() {
        let error = "HBM2F".parse::<MemoryType>().unwrap_err().to_string();
        assert!(error.contains("did you mean HBM2"), "{error}");
        let nonsense = "X".parse::<MemoryType>().unwrap_err();
        assert!(nonsense.nearest.is_none() && !nonsense.to_string().contains("mean"), "{nonsense}");
        assert!("".parse::<MemoryType>().is_err());
        assert!("x".repeat(5000).parse::<MemoryType>().unwrap_err().name.len() <= 40);
    }

    #[test]
    fn transfers_agree_with_the_published_table() {
        let transfers = |memory: MemoryType| memory.transfers_per_clock();
        assert_eq!(transfers(MemoryType::Sdr), 1);
        assert_eq!(transfers(MemoryType::Hbm3e), 2);
        assert_eq!(transfers(MemoryType::Ddr5), 2);
        assert_eq!(transfers(MemoryType::Gddr5x), 8);
        assert_eq!(transfers(MemoryType::Gddr6), 8);
        assert_eq!(transfers(MemoryType::Gddr6x), 16);
    }

    #[test]
    fn data_sheet_and_driver_clocks_give_the_same_bandwidth() {
        let sheet = peak_bandwidth(MemoryType::Gddr6, 384, 1.5625e9);
        let driver = peak_bandwidth_from_driver(384, 6.251e9);
        assert!((sheet / driver - 1.0).abs() < 1e-3);
        let h200 = peak_bandwidth_from_driver(6016, 3.201e9);
        assert!((h200 / 4.814e12 - 1.0).abs() < 1e-3);
    }
}
