use super::*;

fn name_of(text: &str) -> &'static str {
    machine(text).unwrap_or_else(|error| panic!("{error}")).name
}

#[test]
fn the_articles_four_machines_have_their_published_bandwidth() {
    for (name, published) in [("A100 80GB", 1935e9), ("A100 40GB", 1555e9), ("A10", 600e9), ("L4", 300e9)] {
        let peak = machine(name).unwrap().peak_bandwidth();
        assert!((peak - published).abs() < 0.5e9, "{name}: {peak}");
    }
}

#[test]
fn derived_bandwidths_agree_with_data_sheets() {
    for (name, published) in [
        ("V100 PCIe", 900e9),
        ("T4", 320e9),
        ("A100 SXM4 80GB", 2039e9),
        ("A30", 933e9),
        ("A40", 696e9),
        ("RTX 3090", 936e9),
        ("L40", 864e9),
        ("RTX 4090", 1008e9),
        ("H100 PCIe", 2039e9),
        ("H100 SXM", 3352e9),
        ("H200", 4814e9),
        ("GH200", 4000e9),
        ("RTX 5090", 1792e9),
        ("MI210", 1638e9),
        ("MI250X", 3277e9),
        ("MI300X", 5325e9),
    ] {
        let peak = machine(name).unwrap().peak_bandwidth();
        assert!((peak / published - 1.0).abs() < 0.006, "{name}: {peak}");
    }
}

#[test]
fn published_peaks_agree_with_multiprocessors_and_clocks() {
    for known in MACHINES {
        let (Some(count), Some(clock), Some(f32_peak)) =
            (known.multiprocessors, known.boost_clock_hz, known.peak(Arithmetic::F32))
        else {
            continue;
        };
        // Operations per clock per multiprocessor: 64, 128 or (MI300X) 256 multiply-adds.
        let per_clock = f32_peak / (f64::from(count) * clock);
        assert!([128.0, 256.0].iter().any(|n| (per_clock / n - 1.0).abs() < 0.01), "{}: {per_clock}", known.name);
    }
}

#[test]
fn driver_names_find_their_machine() {
    assert_eq!(name_of("NVIDIA A100-SXM4-80GB"), "A100 SXM4 80GB");
    assert_eq!(name_of("NVIDIA A100 80GB PCIe"), "A100 80GB");
    assert_eq!(name_of("NVIDIA A100-PCIE-40GB"), "A100 40GB");
    assert_eq!(name_of("NVIDIA H100 80GB HBM3"), "H100 SXM");
    assert_eq!(name_of("NVIDIA H100 PCIe"), "H100 PCIe");
    assert_eq!(name_of("NVIDIA H200"), "H200");
    assert_eq!(name_of("NVIDIA GH200 480GB"), "GH200 96GB");
    assert_eq!(name_of("Tesla V100-SXM2-32GB"), "V100 SXM2");
    assert_eq!(name_of("Tesla T4"), "T4");
    assert_eq!(name_of("NVIDIA GeForce RTX 4090"), "RTX 4090");
    assert_eq!(name_of("AMD Instinct MI300X"), "MI300X");
    assert_eq!(name_of("NVIDIA L40S"), "L40S");
}

#[test]
fn informal_names_find_their_machine() {
    assert_eq!(name_of("a100 80gb"), "A100 80GB");
    assert_eq!(name_of("A100-80GB"), "A100 80GB");
    assert_eq!(name_of("l4"), "L4");
    assert_eq!(name_of("h100sxm"), "H100 SXM");
    assert_eq!(name_of("rtx4090"), "RTX 4090");
    assert_eq!(name_of("4090"), "RTX 4090");
    assert_eq!(name_of("V100 PCIe 16GB"), "V100 PCIe");
}

#[test]
fn ambiguous_name_lists_its_machines() {
    let error = machine("H100").unwrap_err();
    assert!(matches!(
        error,
        LookupError::Ambiguous { ref candidates, .. } if candidates == &["H100 PCIe", "H100 SXM"]
    ));
    assert!(machine("A100").is_err() && machine("V100").is_err());
}

#[test]
fn unknown_name_lists_similar_ones() {
    let Err(LookupError::Unknown { nearest, .. }) = machine("H20") else {
        panic!("an H20 is not in the catalogue");
    };
    assert!(nearest.contains(&"H200"), "{nearest:?}");
    assert!(nearest.len() <= 4 && nearest.iter().collect::<std::collections::HashSet<_>>().len() == nearest.len());
    let nonsense = machine("nosuch").unwrap_err().to_string();
    assert!(!nonsense.contains("mean"), "{nonsense}");
    for odd in ["", "NVIDIA", "GB", "\u{1b}[31m", &"A".repeat(100_000)] {
        let error = machine(odd).unwrap_err().to_string();
        assert!(error.len() < 600 && !error.contains('\u{1b}'), "{error}");
    }
}

#[test]
fn no_two_machines_share_a_name() {
    let mut seen = std::collections::BTreeMap::new();
    for known in MACHINES {
        for name in std::iter::once(&known.name).chain(known.aliases) {
            let other = seen.insert(words(name).concat(), known.name);
            assert!(other.is_none_or(|o| o == known.name), "{name}: {other:?}");
        }
        assert!(!known.source.is_empty() && known.bus_width_bits > 0 && known.memory_clock_hz > 0.0);
    }
}
