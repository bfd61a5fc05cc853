use proptest::prelude::*;

use super::*;

#[test]
fn rates_and_times_are_printed_in_si_steps() {
    assert_eq!(Unit::BytePerSecond.format(4.26e12), "4.26 TB/s");
    assert_eq!(Unit::BytePerSecond.format(2.35e11), "235 GB/s");
    assert_eq!(Unit::Second.format(2.37e-6), "2.37 µs");
    assert_eq!(Unit::Second.format(36e-6), "36.0 µs");
    assert_eq!(Unit::Second.format(4321.0), "4321 s");
    assert_eq!(Unit::Hertz.format(1.512e9), "1.512 GHz");
    assert_eq!(Unit::FlopPerSecond.format(64.1e12), "64.1 TFLOP/s");
    assert_eq!(Unit::JoulePerByte.format(31e-12), "31.0 pJ/B");
    assert_eq!(Unit::Watt.format(700.0), "700 W");
}

#[test]
fn sizes_are_printed_in_iec_steps() {
    assert_eq!(Unit::Byte.format(8_388_608.0), "8 MiB");
    assert_eq!(Unit::Byte.format(1000.0), "1000 B");
    assert_eq!(Unit::Byte.format(1e9), "954 MiB");
    assert_eq!(Unit::Byte.format(1.5 * 1_073_741_824.0), "1.50 GiB");
    assert_eq!(Unit::Byte.format(1023.0 * 1024.0), "1023 KiB");
}

#[test]
fn cycles_counts_and_numbers_without_unit_are_not_scaled() {
    assert_eq!(Unit::Cycle.format(4.02), "4.02 cycles");
    assert_eq!(Unit::CyclePerOp.format(12.5), "12.5 cycle/op");
    assert_eq!(Unit::One.format(0.5), "0.500");
    assert_eq!(Unit::Percent.format(85.0), "85.0 %");
    assert_eq!(Unit::Thread.format(1.0), "1 thread");
    assert_eq!(Unit::Element.format(16_777_216.0), "16777216 elements");
    assert_eq!(Unit::from("furlong").format(3.0), "3.00 furlong");
}

#[test]
fn digests_are_printed_in_hexadecimal_and_what_is_none_as_a_number() {
    assert_eq!(Unit::Digest.format(f64::from(0x00c0_ffee_u32)), "0x00c0ffee");
    assert_eq!(Unit::Digest.format(f64::from(u32::MAX)), "0xffffffff");
    assert_eq!(Unit::Digest.format_with_interval(17.0, [17.0, 17.0]), "0x00000011");
    for (number, text) in [(0.5, "0.500 digest"), (-1.0, "-1.00 digest"), (4_294_967_296.0, "4.29e9 digest")] {
        assert_eq!(Unit::Digest.format(number), text);
    }
    assert_eq!(Unit::from("digest"), Unit::Digest);
}

#[test]
fn values_that_round_up_to_1000_move_to_the_next_step() {
    assert_eq!(Unit::BytePerSecond.format(999.96e9), "1.00 TB/s");
    assert_eq!(Unit::BytePerSecond.format(999.4e9), "999 GB/s");
    assert_eq!(Unit::Second.format(9.999e-6), "10.0 µs");
}

#[test]
fn extreme_and_non_finite_values_stay_readable() {
    assert_eq!(Unit::BytePerSecond.format(0.0), "0 B/s");
    assert_eq!(Unit::BytePerSecond.format(-4.26e12), "-4.26 TB/s");
    assert_eq!(Unit::Byte.format(-8_388_608.0), "-8 MiB");
    assert_eq!(Unit::Second.format(1e-20), "1.00e-8 ps");
    assert_eq!(Unit::BytePerSecond.format(1e30), "1.00e12 EB/s");
    assert_eq!(Unit::Cycle.format(1.5e9), "1.50e9 cycles");
    assert_eq!(Unit::Second.format(f64::NAN), "NaN s");
    assert_eq!(Unit::BytePerSecond.format(f64::INFINITY), "inf EB/s");
}

#[test]
fn intervals_share_the_unit_and_show_their_width() {
    let unit = Unit::Byte;
    assert_eq!(unit.format_with_interval(232.0 * 1024.0, [220.0 * 1024.0, 244.0 * 1024.0]), "232 KiB ± 12");
    assert_eq!(Unit::Second.format_with_interval(2.37e-6, [2.35e-6, 2.41e-6]), "2.37 µs [2.35, 2.41]");
    assert_eq!(Unit::BytePerSecond.format_with_interval(4.2637e12, [4.2630e12, 4.2644e12]), "4.2637 TB/s ± 0.0007");
    assert_eq!(Unit::Cycle.format_with_interval(0.0, [0.0, 0.0]), "0 cycles ± 0");
    assert_eq!(Unit::Second.format_with_interval(1.0, [f64::NEG_INFINITY, 2.0]), "1.00 s [-inf, 2]");
}

#[test]
fn scale_for_returns_factor_and_label() {
    assert_eq!(Unit::BytePerSecond.scale_for(4.2e12), (1e12, "TB/s".to_owned()));
    assert_eq!(Unit::Second.scale_for(2e-5), (1e-6, "µs".to_owned()));
    assert_eq!(Unit::Byte.scale_for(8_388_608.0), (1_048_576.0, "MiB".to_owned()));
    assert_eq!(Unit::One.scale_for(7.0), (1.0, String::new()));
    assert_eq!(Unit::Second.scale_for(0.0), (1.0, "s".to_owned()));
}

#[test]
fn every_symbol_parses_back_and_unknown_ones_are_kept() {
    for unit in Unit::KNOWN {
        assert_eq!(&Unit::from(unit.symbol()), unit);
        assert!(unit.is_known());
    }
    let json = serde_json::to_string(&Unit::BytePerSecond).unwrap();
    assert_eq!(json, r#""B/s""#);
    let later: Unit = serde_json::from_str(r#""qubit/s""#).unwrap();
    assert_eq!(later, Unit::Other("qubit/s".to_owned()));
    assert_eq!(serde_json::to_string(&later).unwrap(), r#""qubit/s""#);
}

proptest! {
    #[test]
    fn any_value_in_any_unit_is_short(bits: u64, index in 0..Unit::KNOWN.len()) {
        let text = Unit::KNOWN[index].format(f64::from_bits(bits));
        prop_assert!(text.chars().count() <= 28, "{}", text);
    }

    #[test]
    fn printed_values_are_accurate_to_their_digits(x in 1e-11f64..1e17, index in 0..Unit::KNOWN.len()) {
        let unit = &Unit::KNOWN[index];
        let (factor, _) = unit.scale_for(x);
        let text = unit.format(x);
        let number: f64 = text.split(' ').next().unwrap().parse().unwrap();
        prop_assert!((number * factor / x - 1.0).abs() <= 0.0051, "{} for {}", text, x);
    }

    #[test]
    fn formatting_an_interval_never_panics(value: f64, lo: f64, hi: f64, index in 0..Unit::KNOWN.len()) {
        let _ = Unit::KNOWN[index].format_with_interval(value, [lo, hi]);
    }
}
