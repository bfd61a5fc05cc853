use super::*;

fn name_of(text: &str) -> &'static str {
    machine(text).unwrap_or_else(|error| panic!("{error}")).name
}

/// Published bandwidths of machines with the rounding of the publication: half of the last digit printed.
const PUBLISHED: &[(&str, f64, f64)] = &[
    ("V100 PCIe", 900e9, 5e9),
    ("V100 SXM2", 900e9, 5e9),
    ("T4", 320e9, 0.5e9),
    ("A100 80GB", 1935e9, 0.5e9),
    ("A100 SXM4 80GB", 2039e9, 0.5e9),
    ("A100 40GB", 1555e9, 0.5e9),
    ("A30", 933e9, 0.5e9),
    ("A10", 600e9, 0.5e9),
    ("A40", 696e9, 0.5e9),
    ("RTX 3090", 936e9, 0.5e9),
    ("L4", 300e9, 0.5e9),
    ("L40", 864e9, 0.5e9),
    ("L40S", 864e9, 0.5e9),
    ("RTX 4090", 1008e9, 0.5e9),
    ("H100 PCIe", 2039e9, 0.5e9),
    ("H100 SXM", 3352e9, 0.5e9),
    ("H100 NVL", 3.9e12, 0.05e12),
    ("H200", 4.8e12, 0.05e12),
    ("H20", 4.0e12, 0.05e12),
    ("GH200 96GB", 4e12, 0.5e12),
    ("B200", 7.7e12, 0.05e12),
    ("B300", 7.7e12, 0.05e12),
    ("GB200", 8e12, 0.5e12),
    ("GB300", 8e12, 0.5e12),
    ("RTX PRO 6000 Blackwell Workstation Edition", 1792e9, 0.5e9),
    ("RTX PRO 6000 Blackwell Max-Q Workstation Edition", 1792e9, 0.5e9),
    ("RTX PRO 6000 Blackwell Server Edition", 1597e9, 0.5e9),
    ("RTX 5090", 1792e9, 0.5e9),
    ("RTX 5080", 960e9, 0.5e9),
    ("RTX 5070 Ti", 896e9, 0.5e9),
    ("RTX 5070", 672e9, 0.5e9),
    ("RTX 5060 Ti", 448e9, 0.5e9),
    ("RTX 5060", 448e9, 0.5e9),
    // 1638.4, which AMD cuts to 1.6 TB/s; the MI250X is twice that, cut to 3.2.
    ("MI210", 1.6e12, 0.05e12),
    ("MI250X", 3.2e12, 0.1e12),
    ("MI300X", 5.3e12, 0.05e12),
    ("MI325X", 6e12, 0.5e12),
    ("MI350X", 8e12, 0.5e12),
    ("MI355X", 8e12, 0.5e12),
    ("Arc B580", 456e9, 0.5e9),
    // Apple cuts the M3 family's bandwidths to whole tens or hundreds.
    ("Apple M3", 100e9, 2.5e9),
    ("Apple M3 Pro", 150e9, 5e9),
    ("Apple M3 Max, 30-core GPU", 300e9, 10e9),
    ("Apple M3 Max, 40-core GPU", 400e9, 10e9),
    ("Apple M3 Ultra", 819e9, 0.5e9),
    ("Apple M4", 120e9, 0.5e9),
    ("Apple M4 Pro", 273e9, 0.5e9),
    ("Apple M4 Max, 32-core GPU", 410e9, 0.5e9),
    ("Apple M4 Max, 40-core GPU", 546e9, 0.5e9),
    ("EPYC 9554", 460.8e9, 0.05e9),
    ("EPYC 9654", 460.8e9, 0.05e9),
    ("EPYC 9684X", 460.8e9, 0.05e9),
    ("EPYC 9754", 460.8e9, 0.05e9),
    ("EPYC 9575F", 614e9, 0.5e9),
    ("EPYC 9755", 614e9, 0.5e9),
    ("EPYC 9965", 614e9, 0.5e9),
    // Intel publishes channels and transfer rates: 64 bits each.
    ("Xeon Platinum 8480+", 8.0 * 8.0 * 4.8e9, 0.0),
    ("Xeon Platinum 8592+", 8.0 * 8.0 * 5.6e9, 0.0),
    ("Xeon 6972P", 12.0 * 8.0 * 8.8e9, 0.0),
    ("Xeon 6980P", 12.0 * 8.0 * 8.8e9, 0.0),
    ("Xeon 6766E", 8.0 * 8.0 * 6.4e9, 0.0),
    ("Xeon 6780E", 8.0 * 8.0 * 6.4e9, 0.0),
];

#[test]
fn bandwidths_of_all_machines_agree_with_the_published_ones() {
    for known in MACHINES {
        let found = PUBLISHED.iter().find(|(name, ..)| *name == known.name);
        let (_, published, rounding) = found.unwrap_or_else(|| panic!("{}: no published bandwidth here", known.name));
        let peak = known.peak_bandwidth();
        assert!((peak - published).abs() <= rounding + 1e-3 * published, "{}: {peak} and {published}", known.name);
    }
    assert_eq!(PUBLISHED.len(), MACHINES.len());
}

#[test]
fn published_peaks_agree_with_multiprocessors_and_clocks() {
    for known in MACHINES {
        let (Some(count), Some(clock), Some(f32_peak)) =
            (known.multiprocessors, known.boost_clock_hz, known.peak(Arithmetic::F32))
        else {
            continue;
        };
        // Operations per clock: 64, 128 or (MI300X) 256 multiply-adds of a multiprocessor, 16 or 32 of a core.
        let per_clock = f32_peak / (f64::from(count) * clock);
        let expected: &[f64] = if known.class == Class::Cpu { &[32.0, 64.0] } else { &[128.0, 256.0] };
        // The largest clock of drivers can be above that of the data sheet: 2.6 % on a B300.
        assert!(expected.iter().any(|n| (per_clock / n - 1.0).abs() < 0.03), "{}: {per_clock}", known.name);
    }
}

#[test]
fn cores_of_the_catalogue_have_the_rates_of_their_design() {
    for (name, vendor, family, model) in [
        ("EPYC 9654", "AuthenticAMD", 0x19, 0x11),
        ("EPYC 9754", "AuthenticAMD", 0x19, 0xa0),
        ("EPYC 9755", "AuthenticAMD", 0x1a, 0x02),
        ("EPYC 9965", "AuthenticAMD", 0x1a, 0x11),
        ("Xeon Platinum 8480+", "GenuineIntel", 6, 143),
        ("Xeon Platinum 8592+", "GenuineIntel", 6, 207),
        ("Xeon 6980P", "GenuineIntel", 6, 173),
    ] {
        let (known, core) = (machine(name).unwrap(), cpus::microarchitecture(vendor, family, model).unwrap());
        let cores = f64::from(known.multiprocessors.unwrap()) * known.boost_clock_hz.unwrap();
        let (double, single) = (known.peak(Arithmetic::F64).unwrap(), known.peak(Arithmetic::F32).unwrap());
        assert_eq!((double / cores).round() as u32, core.f64_flop_per_cycle, "{name}");
        assert_eq!((single / cores).round() as u32, 2 * core.f64_flop_per_cycle, "{name}");
    }
}

#[test]
fn driver_names_find_their_machine() {
    for (given, name) in [
        ("NVIDIA A100-SXM4-80GB", "A100 SXM4 80GB"),
        ("NVIDIA A100 80GB PCIe", "A100 80GB"),
        ("NVIDIA A100-PCIE-40GB", "A100 40GB"),
        ("NVIDIA H100 80GB HBM3", "H100 SXM"),
        ("NVIDIA H100 PCIe", "H100 PCIe"),
        ("NVIDIA H200", "H200"),
        ("NVIDIA GH200 480GB", "GH200 96GB"),
        ("Tesla V100-SXM2-32GB", "V100 SXM2"),
        ("Tesla T4", "T4"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("AMD Instinct MI300X", "MI300X"),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA B200", "B200"),
        ("NVIDIA B300 SXM6 AC", "B300"),
        ("NVIDIA GB200", "GB200"),
        ("NVIDIA GB300", "GB300"),
        ("NVIDIA H100 NVL", "H100 NVL"),
        ("NVIDIA H20", "H20"),
        ("NVIDIA GeForce RTX 5090", "RTX 5090"),
        ("NVIDIA GeForce RTX 5070 Ti", "RTX 5070 Ti"),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "RTX PRO 6000 Blackwell Workstation Edition"),
        ("AMD Instinct MI355X", "MI355X"),
        ("AMD Instinct MI325X OAM", "MI325X"),
        ("Intel(R) Arc(TM) B580 Graphics", "Arc B580"),
        ("Intel(R) Arc(tm) B580 Graphics (BMG G21)", "Arc B580"),
        ("AMD EPYC 9654 96-Core Processor", "EPYC 9654"),
        ("Intel(R) Xeon(R) Platinum 8480+", "Xeon Platinum 8480+"),
        ("INTEL(R) XEON(R) PLATINUM 8592+", "Xeon Platinum 8592+"),
        ("Intel(R) Xeon(R) 6980P", "Xeon 6980P"),
        ("Apple M4 Pro", "Apple M4 Pro"),
    ] {
        assert_eq!(name_of(given), name, "{given}");
    }
}

#[test]
fn informal_names_find_their_machine() {
    for (given, name) in [
        ("a100 80gb", "A100 80GB"),
        ("A100-80GB", "A100 80GB"),
        ("l4", "L4"),
        ("h100sxm", "H100 SXM"),
        ("rtx4090", "RTX 4090"),
        ("4090", "RTX 4090"),
        ("V100 PCIe 16GB", "V100 PCIe"),
        ("5070", "RTX 5070"),
        ("rtx 5060ti", "RTX 5060 Ti"),
        ("mi355x", "MI355X"),
        ("B580", "Arc B580"),
        ("m3", "Apple M3"),
        ("M4 Max 40-core", "Apple M4 Max, 40-core GPU"),
        ("Genoa", "EPYC 9654"),
        ("Turin", "EPYC 9755"),
        ("granite rapids", "Xeon 6980P"),
    ] {
        assert_eq!(name_of(given), name, "{given}");
    }
}

#[test]
fn ambiguous_name_lists_its_machines() {
    let error = machine("H100").unwrap_err();
    assert!(matches!(
        error,
        LookupError::Ambiguous { ref candidates, .. } if candidates == &["H100 PCIe", "H100 SXM", "H100 NVL"]
    ));
    assert!(machine("A100").is_err() && machine("V100").is_err());
    for several in ["RTX PRO 6000", "Apple M3 Max", "M4 Max"] {
        assert!(matches!(machine(several), Err(LookupError::Ambiguous { .. })), "{several}");
    }
}

#[test]
fn name_with_another_vendor_finds_no_machine() {
    for wrong in ["Tesla M4", "NVIDIA MI300X", "AMD H200", "Intel EPYC 9654"] {
        assert!(matches!(machine(wrong), Err(LookupError::Unknown { .. })), "{wrong}");
    }
}

#[test]
fn unknown_name_lists_similar_ones() {
    let Err(LookupError::Unknown { nearest, .. }) = machine("H201") else {
        panic!("an H201 is not in the catalogue");
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
