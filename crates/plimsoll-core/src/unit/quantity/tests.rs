use proptest::prelude::*;

use super::*;

fn size(text: &str) -> u64 {
    text.parse::<ByteSize>().unwrap().0
}

fn why<T: FromStr<Err = ParseQuantityError> + fmt::Debug>(text: &str) -> Why {
    text.parse::<T>().unwrap_err().why
}

#[test]
fn sizes_are_binary_or_decimal_as_written() {
    assert_eq!(size("8MiB"), 8 << 20);
    assert_eq!(size("8 MiB"), 8 << 20);
    assert_eq!(size(" 8mib "), 8 << 20);
    assert_eq!(size("1GB"), 1_000_000_000);
    assert_eq!(size("512"), 512);
    assert_eq!(size("512B"), 512);
    assert_eq!(size("1.5GiB"), 3 << 29);
    assert_eq!(size("64kB"), 64_000);
    assert_eq!(size("1e3 kB"), 1_000_000);
    assert_eq!(size("1EiB"), 1 << 60);
    assert_eq!(size("2 EB"), 2_000_000_000_000_000_000);
    assert_eq!(size("0"), 0);
    assert_eq!(size("0.1 GiB"), 107_374_182);
    assert_eq!(size("18446744073709551615"), u64::MAX);
}

#[test]
fn ambiguous_sizes_are_refused_with_both_meanings() {
    let error = "64k".parse::<ByteSize>().unwrap_err().to_string();
    assert_eq!(
        error,
        "can't read \"64k\" as a size: \"k\" could mean KiB (powers of 1024) or kB (powers of 1000); write it like 8MiB"
    );
    for text in ["64K", "64KB", "1M", "1g", "3T"] {
        assert!(matches!(why::<ByteSize>(text), Why::Ambiguous { .. }), "{text}");
    }
    assert!(matches!(
        why::<Bandwidth>("3 G/s"),
        Why::Ambiguous { decimal, .. } if decimal == "GB/s"
    ));
}

#[test]
fn units_of_bits_are_refused() {
    assert!(matches!(why::<ByteSize>("1Gb"), Why::UnknownUnit { .. }));
    assert!(matches!(why::<Bandwidth>("10 Gb/s"), Why::UnknownUnit { .. }));
}

#[test]
fn wrong_sizes_give_specific_errors() {
    assert_eq!(why::<ByteSize>(""), Why::Empty);
    assert_eq!(why::<ByteSize>("  "), Why::Empty);
    assert_eq!(why::<ByteSize>("MiB"), Why::NoNumber);
    assert_eq!(why::<ByteSize>("."), Why::NoNumber);
    assert_eq!(why::<ByteSize>("-1"), Why::Negative);
    assert_eq!(why::<ByteSize>("16EiB"), Why::TooLarge);
    assert_eq!(why::<ByteSize>("18446744073709551616"), Why::TooLarge);
    assert_eq!(why::<ByteSize>("1e400"), Why::TooLarge);
    assert_eq!(why::<ByteSize>(&"9".repeat(500)), Why::TooLarge);
    assert!(matches!(why::<ByteSize>("1,5GiB"), Why::UnknownUnit { .. }));
}

#[test]
fn long_and_hostile_texts_are_shortened_and_escaped_in_errors() {
    let text = format!("1\u{1b}[31m{}", "x".repeat(10_000));
    let error = text.parse::<ByteSize>().unwrap_err().to_string();
    assert!(error.len() < 400 && !error.contains('\u{1b}'), "{error}");
}

#[test]
fn ranges_include_both_ends_and_backwards_ones_are_refused() {
    let range: ByteRange = "1MiB..2GiB".parse().unwrap();
    assert!(range.contains(ByteSize(1 << 20)) && range.contains(ByteSize(2 << 30)));
    assert!(!range.contains(ByteSize((2 << 30) + 1)));
    assert_eq!("8MiB".parse::<ByteRange>().unwrap().lo(), ByteSize(8 << 20));
    assert!(matches!(why::<ByteRange>("2GiB..1MiB"), Why::Backwards { .. }));
    assert_eq!(why::<ByteRange>("1MiB.."), Why::Empty);
    assert!(matches!(why::<ByteRange>("1MiB..2GiB..3GiB"), Why::UnknownUnit { .. } | Why::NoNumber));
}

#[test]
fn clocks_and_bandwidths_need_a_unit() {
    assert_eq!("1.512GHz".parse(), Ok(Frequency(1.512e9)));
    assert_eq!("2400 mhz".parse(), Ok(Frequency(2.4e9)));
    assert_eq!("4.26 TB/s".parse(), Ok(Bandwidth(4.26e12)));
    assert_eq!("1935GB/s".parse(), Ok(Bandwidth(1.935e12)));
    assert_eq!("1 GiB/s".parse(), Ok(Bandwidth(1_073_741_824.0)));
    assert_eq!(why::<Frequency>("1512"), Why::NoUnit);
    assert_eq!(why::<Bandwidth>("1935"), Why::NoUnit);
    assert_eq!(why::<Bandwidth>("1e999 B/s"), Why::TooLarge);
    assert_eq!(why::<Bandwidth>("1e308 GiB/s"), Why::TooLarge);
}

#[test]
fn times_have_units_and_bare_numbers_are_seconds() {
    assert_eq!("36 µs".parse(), Ok(Seconds(36e-6)));
    assert_eq!("36 \u{3bc}s".parse(), Ok(Seconds(36e-6)));
    assert_eq!("36us".parse(), Ok(Seconds(36e-6)));
    assert_eq!("2.5".parse(), Ok(Seconds(2.5)));
    assert_eq!("2 min".parse(), Ok(Seconds(120.0)));
    assert!(matches!(why::<Seconds>("3 days"), Why::UnknownUnit { .. }));
}

#[test]
fn quantities_print_in_the_customary_unit() {
    assert_eq!(ByteSize(8 << 20).to_string(), "8 MiB");
    assert_eq!(ByteSize(3 << 29).to_string(), "1536 MiB");
    assert_eq!(ByteSize(1000).to_string(), "1000 B");
    assert_eq!(Frequency(1.512e9).to_string(), "1.512 GHz");
    assert_eq!(Bandwidth(1.935e12).to_string(), "1.935 TB/s");
    assert_eq!(Bandwidth(0.0).to_string(), "0 B/s");
    assert_eq!(Seconds(36e-6).to_string(), "36 µs");
    assert_eq!(Seconds(0.25).to_string(), "250 ms");
}

/// Any finite, non-negative double, uniform over the bit patterns.
fn magnitudes() -> impl Strategy<Value = f64> {
    any::<u64>().prop_map(|bits| f64::from_bits(bits & (u64::MAX >> 1))).prop_filter("finite", |x| x.is_finite())
}

proptest! {
    #[test]
    fn sizes_and_ranges_round_trip_through_text(a: u64, b: u64) {
        let range = ByteRange::new(ByteSize(a.min(b)), ByteSize(a.max(b))).unwrap();
        prop_assert_eq!(ByteSize(a).to_string().parse(), Ok(ByteSize(a)));
        prop_assert_eq!(range.to_string().parse(), Ok(range));
    }

    #[test]
    fn clocks_bandwidths_and_times_round_trip_bit_for_bit(x in magnitudes()) {
        prop_assert_eq!(Frequency(x).to_string().parse(), Ok(Frequency(x)));
        prop_assert_eq!(Bandwidth(x).to_string().parse(), Ok(Bandwidth(x)));
        prop_assert_eq!(Seconds(x).to_string().parse(), Ok(Seconds(x)));
    }

    #[test]
    fn parsing_any_text_does_not_panic(text in ".*") {
        let _ = text.parse::<ByteRange>();
        let _ = text.parse::<Frequency>();
        let _ = text.parse::<Bandwidth>();
        let _ = text.parse::<Seconds>();
    }

    #[test]
    fn parsing_text_like_a_quantity_does_not_panic(text in r"[-+]?[0-9]{0,30}\.{0,2}[0-9]{0,30}[eE]?[-+]?[0-9]{0,12} ?[kKMGTPEi]{0,2}[Bbs]?(/s)?") {
        let _ = text.parse::<ByteRange>();
        let _ = text.parse::<Frequency>();
        let _ = text.parse::<Bandwidth>();
        let _ = text.parse::<Seconds>();
    }
}
