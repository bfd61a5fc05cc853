//! Number formats as the standards define them: the bits of their limits as literals, and the values that bits represent.

/// A limit of a format that a device computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The largest finite number.
    Largest,
    /// The largest finite number added to itself.
    Doubled,
    /// The smallest normal number, which has the full precision.
    Normal,
    /// The smallest number above 0.
    Smallest,
    /// The distance from 1 to the next number.
    Step,
    /// The number after 1.
    After,
    /// Not a number.
    Nan,
}

/// Every limit, in the order in which kernels store them.
pub const LIMITS: [Limit; 7] =
    [Limit::Largest, Limit::Doubled, Limit::Normal, Limit::Smallest, Limit::Step, Limit::After, Limit::Nan];

impl Limit {
    /// The name on the axis.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Largest => "largest",
            Self::Doubled => "largest doubled",
            Self::Normal => "smallest normal",
            Self::Smallest => "smallest",
            Self::Step => "step at 1",
            Self::After => "after 1",
            Self::Nan => "not a number",
        }
    }
}

/// What the largest exponent of a format encodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Specials {
    /// Infinities and NaNs.
    Infinities,
    /// One NaN, all ones; the other patterns with this exponent are numbers.
    OneNan,
}

/// A floating-point format: sign, exponent and fraction, from the highest bit down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// The name on the axis.
    pub name: &'static str,
    /// Bits of storage.
    pub storage: u32,
    /// Bits of the exponent.
    pub exponent: u32,
    /// Bits of the fraction.
    pub fraction: u32,
    /// Lowest bits of the storage that are ignored.
    pub unused: u32,
    /// What the largest exponent encodes.
    pub specials: Specials,
    /// The bits of each of [`LIMITS`] except the last, which is any NaN.
    pub bits: [u64; 6],
    /// The standard or document.
    pub source: &'static str,
}

const IEEE: &str = "IEEE 754-2019, table 3.5 and section 6.2";
const BFLOAT: &str = "the upper half of IEEE 754's binary32 (PTX ISA, 'Alternate Floating-Point Data Formats')";
const TENSOR: &str = "NVIDIA A100 white paper, 'TensorFloat-32': 8 bits of exponent, 10 of fraction";
const OCP: &str = "OCP 8-bit Floating Point Specification 1.0, table 2, saturating conversion (table 3)";

/// The formats, from the widest to the narrowest. A result that is too large becomes infinity, except in 8-bit formats, where it
/// becomes the largest number because the devices' conversions always saturate.
pub const FORMATS: [Format; 7] = [
    Format {
        name: "f64",
        storage: 64,
        exponent: 11,
        fraction: 52,
        unused: 0,
        specials: Specials::Infinities,
        bits: [
            0x7fef_ffff_ffff_ffff,
            0x7ff0_0000_0000_0000,
            0x0010_0000_0000_0000,
            1,
            0x3cb0_0000_0000_0000,
            0x3ff0_0000_0000_0001,
        ],
        source: IEEE,
    },
    Format {
        name: "f32",
        storage: 32,
        exponent: 8,
        fraction: 23,
        unused: 0,
        specials: Specials::Infinities,
        bits: [0x7f7f_ffff, 0x7f80_0000, 0x0080_0000, 1, 0x3400_0000, 0x3f80_0001],
        source: IEEE,
    },
    Format {
        name: "tf32",
        storage: 32,
        exponent: 8,
        fraction: 10,
        unused: 13,
        specials: Specials::Infinities,
        bits: [0x7f7f_e000, 0x7f80_0000, 0x0080_0000, 0x2000, 0x3a80_0000, 0x3f80_2000],
        source: TENSOR,
    },
    Format {
        name: "f16",
        storage: 16,
        exponent: 5,
        fraction: 10,
        unused: 0,
        specials: Specials::Infinities,
        bits: [0x7bff, 0x7c00, 0x0400, 1, 0x1400, 0x3c01],
        source: IEEE,
    },
    Format {
        name: "bf16",
        storage: 16,
        exponent: 8,
        fraction: 7,
        unused: 0,
        specials: Specials::Infinities,
        bits: [0x7f7f, 0x7f80, 0x0080, 1, 0x3c00, 0x3f81],
        source: BFLOAT,
    },
    Format {
        name: "f8e4m3",
        storage: 8,
        exponent: 4,
        fraction: 3,
        unused: 0,
        specials: Specials::OneNan,
        bits: [0x7e, 0x7e, 0x08, 1, 0x20, 0x39],
        source: OCP,
    },
    Format {
        name: "f8e5m2",
        storage: 8,
        exponent: 5,
        fraction: 2,
        unused: 0,
        specials: Specials::Infinities,
        bits: [0x7b, 0x7b, 0x04, 1, 0x34, 0x3d],
        source: OCP,
    },
];

/// The format with this name.
#[must_use]
pub fn format(name: &str) -> Option<&'static Format> {
    FORMATS.iter().find(|format| format.name == name)
}

/// The value that bits represent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Meaning {
    /// A finite number, exactly.
    Number(f64),
    /// An infinity.
    Infinity,
    /// Not a number.
    Nan,
}

impl Format {
    /// The value that these bits represent; unused bits are ignored.
    #[must_use]
    pub fn meaning(&self, bits: u64) -> Meaning {
        let bits = bits >> self.unused;
        let fraction = bits & ((1 << self.fraction) - 1);
        let most = (1 << self.exponent) - 1;
        let exponent = (bits >> self.fraction) & most;
        let sign = if bits >> (self.fraction + self.exponent) & 1 == 1 { -1.0 } else { 1.0 };
        if exponent == most {
            match self.specials {
                Specials::Infinities if fraction == 0 => return Meaning::Infinity,
                Specials::Infinities => return Meaning::Nan,
                Specials::OneNan if fraction + 1 == 1 << self.fraction => return Meaning::Nan,
                Specials::OneNan => {}
            }
        }
        let bias = (most >> 1) as i32;
        let (implicit_one, power) =
            if exponent == 0 { (0, 1 - bias) } else { (1 << self.fraction, exponent as i32 - bias) };
        // In two steps: `powi` may compute 2⁻¹⁰⁷⁴ as 1 / 2¹⁰⁷⁴, which overflows.
        let significand = (implicit_one + fraction) as f64;
        let scale = power - self.fraction as i32;
        Meaning::Number(sign * significand * 2_f64.powi(scale / 2) * 2_f64.powi(scale - scale / 2))
    }

    /// True where `bits` are the standard's bits for a limit.
    #[must_use]
    pub fn has_limit(&self, limit: Limit, bits: u64) -> bool {
        let place = LIMITS.iter().position(|one| *one == limit).unwrap_or(LIMITS.len());
        let stored = self.storage == 64 || bits >> self.storage == 0;
        match self.bits.get(place) {
            Some(known) => *known == bits,
            None => stored && self.meaning(bits) == Meaning::Nan,
        }
    }

    /// The bits as the axis shows them: hexadecimal, with all digits of the storage.
    #[must_use]
    pub fn to_hex(&self, bits: u64) -> String {
        format!("0x{bits:0width$x}", width = self.storage as usize / 4)
    }

    /// Parses bits from an axis.
    #[must_use]
    pub fn parse_hex(text: &str) -> Option<u64> {
        u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bits of a limit from the widths of exponent and fraction alone.
    fn derive_bits(format: &Format, limit: Limit) -> u64 {
        let Format { exponent, fraction, .. } = *format;
        let most = (1_u64 << exponent) - 1;
        let bias = most >> 1;
        let largest = match format.specials {
            Specials::Infinities => ((most - 1) << fraction) | ((1 << fraction) - 1),
            Specials::OneNan => (most << fraction) | ((1 << fraction) - 2),
        };
        let bits = match limit {
            Limit::Largest => largest,
            Limit::Doubled if format.storage == 8 => largest,
            Limit::Doubled => most << fraction,
            Limit::Normal => 1 << fraction,
            Limit::Smallest => 1,
            Limit::Step => (bias - u64::from(fraction)) << fraction,
            Limit::After => (bias << fraction) | 1,
            Limit::Nan => (most << fraction) | ((1 << fraction) - 1),
        };
        bits << format.unused
    }

    #[test]
    fn literals_agree_with_the_widths_of_exponent_and_fraction() {
        for format in &FORMATS {
            assert_eq!(1 + format.exponent + format.fraction + format.unused, format.storage, "{}", format.name);
            for limit in LIMITS {
                let bits = derive_bits(format, limit);
                assert!(format.has_limit(limit, bits), "{} {limit:?}: {}", format.name, format.to_hex(bits));
                assert!(!format.has_limit(limit, bits ^ (1 << (format.storage - 2))), "{} {limit:?}", format.name);
            }
        }
    }

    #[test]
    fn meaning_agrees_with_rusts_floats() {
        let (f64s, f32s) = (&FORMATS[0], &FORMATS[1]);
        for bits in [0, 1, 0x10, 0x3cb0_0000_0000_0000, 0x7fef_ffff_ffff_ffff, 0x8010_0000_0000_0001] {
            assert_eq!(f64s.meaning(bits), Meaning::Number(f64::from_bits(bits)));
        }
        for bits in [0_u32, 1, 0x7f_ffff, 0x0080_0000, 0x3f80_0001, 0xff7f_ffff] {
            assert_eq!(f32s.meaning(bits.into()), Meaning::Number(f32::from_bits(bits).into()));
        }
        assert_eq!(f64s.meaning(f64::NEG_INFINITY.to_bits()), Meaning::Infinity);
        assert_eq!(f32s.meaning(0x7fc0_0000), Meaning::Nan);
    }

    #[test]
    fn limits_agree_with_published_numbers() {
        let number = |name: &str, limit: usize| {
            let format = format(name).unwrap();
            match format.meaning(format.bits[limit]) {
                Meaning::Number(number) => number,
                other => panic!("{name}: {other:?}"),
            }
        };
        // OCP 8-bit Floating Point Specification 1.0, table 2.
        assert_eq!((number("f8e4m3", 0), number("f8e5m2", 0)), (448.0, 57_344.0));
        assert_eq!((number("f8e4m3", 2), number("f8e4m3", 3)), (2_f64.powi(-6), 2_f64.powi(-9)));
        assert_eq!((number("f8e5m2", 2), number("f8e5m2", 3)), (2_f64.powi(-14), 2_f64.powi(-16)));
        // IEEE 754-2019 and the A100's white paper.
        assert_eq!((number("f16", 0), number("f16", 3)), (65_504.0, 2_f64.powi(-24)));
        assert_eq!((number("f64", 0), number("f64", 4)), (f64::MAX, f64::EPSILON));
        assert_eq!((number("f32", 2), number("tf32", 4)), (f64::from(f32::MIN_POSITIVE), 2_f64.powi(-10)));
        assert_eq!(number("tf32", 3), 2_f64.powi(-136));
    }

    #[test]
    fn bits_survive_a_round_trip_through_text() {
        for format in &FORMATS {
            for bits in format.bits {
                assert_eq!(Format::parse_hex(&format.to_hex(bits)), Some(bits));
            }
        }
        assert_eq!(FORMATS[3].to_hex(1), "0x0001");
        assert_eq!((Format::parse_hex("7bff"), Format::parse_hex("0x"), Format::parse_hex("0xg")), (None, None, None));
    }
}
