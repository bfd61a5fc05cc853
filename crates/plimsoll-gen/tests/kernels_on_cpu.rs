//! Tests kernels without PTX on the CPU: compiled by g++, with the address and undefined-behaviour sanitizers, and compared with
//! naive oracles on awkward sizes.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use plimsoll_gen::kernel::Op;
use plimsoll_gen::kernel::check::{self, Data};
use plimsoll_gen::kernel::{Element, Index, KernelDesc, Source, unit};
use plimsoll_gen::pattern;
use plimsoll_probes::copy::kernels as copy;
use plimsoll_probes::footprint::kernels as footprint;
use plimsoll_probes::lab::block_order::kernels as block_order;
use plimsoll_probes::lab::compression::kernels as compression;
use plimsoll_probes::lab::gemm::kernels as gemm;
use plimsoll_probes::lab::pic::kernels as pic;
use plimsoll_probes::lab::residency::kernels as residency;
use plimsoll_probes::lab::rtm::kernels as rtm;
use plimsoll_probes::lab::tti::kernels as tti;
use plimsoll_probes::mix::kernels as mix;
use plimsoll_probes::stream::kernels::Parameters;
use plimsoll_suite::formats;

/// Compiles these kernels with `checks` as the body of `main` and returns what it prints.
fn run(source: &Source, kernels: &[KernelDesc], checks: &str) -> String {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(source.name());
    std::fs::create_dir_all(&folder).unwrap();
    let text = format!(
        "#include \"shim.hpp\"\n{}\n#include \"{}.hpp\"\nint main() {{\n  int failed = 0;\n{checks}  return failed;\n}}\n",
        unit(source, kernels),
        source.name(),
    );
    let (main, program) = (folder.join("main.cpp"), folder.join("main"));
    std::fs::write(&main, text).unwrap();
    for (name, header) in source.headers() {
        std::fs::write(folder.join(name), header).unwrap();
    }
    let compiled = Command::new("g++")
        .args(["-std=c++17", "-O1", "-g0", "-fno-strict-aliasing", "-ffp-contract=off", "-Wno-psabi"])
        .args(["-fsanitize=address,undefined", "-fno-sanitize-recover=all"])
        .args([Path::new("-I"), &folder, Path::new("-I"), &here.join("tests/shim"), Path::new("-pthread")])
        .args([Path::new("-o"), &program, &main])
        .output()
        .unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let output = Command::new(&program).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    printed
}

/// Runs `check` on each of these kernels, with its name, what `describe` says of it, and the kernel.
fn check_each(source: &Source, kernels: &[KernelDesc], describe: impl Fn(&KernelDesc) -> String) {
    let check = |kernel: &KernelDesc| format!("  failed |= check(\"{0}\", {1}, {0});\n", kernel.name, describe(kernel));
    run(source, kernels, &kernels.iter().map(check).collect::<String>());
}

#[test]
#[cfg_attr(not(gxx), ignore = "g++ is not installed")]
fn stream_kernels_are_correct_on_awkward_sizes() {
    let mut checks = String::new();
    let mut kernels = Vec::new();
    for op in Op::ALL {
        let base = Parameters { threads: 32, ..Parameters::new(op) };
        let forms = [
            Parameters { unroll: 2, ..base },
            Parameters { vector_bytes: 8, unroll: 3, looping: true, ..base },
            Parameters { element: Element::F64, looping: true, ..base },
            Parameters { element: Element::F64, vector_bytes: 32, ..base },
        ];
        for form in forms {
            let kernel = form.kernel();
            let in_source = kernel.entry.split(", ").nth(1).unwrap();
            let (name, tile) = (&kernel.name, kernel.elements_per_block());
            writeln!(checks, "  failed |= check(\"{name}\", {in_source}, {tile}, {}, 32, {name});", form.looping)
                .unwrap();
            kernels.push(kernel);
        }
    }
    run(&plimsoll_probes::stream::kernels::SOURCE, &kernels, &checks);
}

#[test]
#[cfg_attr(not(gxx), ignore = "g++ is not installed")]
fn copy_kernels_are_correct_on_awkward_sizes() {
    let kernels = copy::kernels();
    assert!(kernels.iter().any(|kernel| kernel.index == Index::U32));
    check_each(&plimsoll_probes::copy::kernels::SOURCE, &kernels, |kernel| {
        format!("{}, {}", kernel.lanes(), kernel.looping)
    });
}

#[test]
#[cfg_attr(not(gxx), ignore = "g++ is not installed")]
fn mixes_are_correct_on_awkward_sizes() {
    let kernels = [(1, 1, 2), (4, 3, 1), (0, 4, 4), (3, 0, 2), (2, 1, 3)].map(|(r, w, burst)| mix::mix(r, w, burst));
    check_each(&plimsoll_probes::mix::kernels::SOURCE, &kernels, |kernel| {
        format!("{}, {}, {}, {}", kernel.inputs, kernel.outputs, kernel.elements_per_block(), kernel.threads)
    });
}

#[test]
#[cfg_attr(not(gxx), ignore = "g++ is not installed")]
fn footprint_kernels_process_every_piece() {
    check_each(&plimsoll_probes::footprint::kernels::SOURCE, &footprint::kernels(), |kernel| {
        format!("{}, {}, {}", kernel.inputs, kernel.outputs, kernel.threads)
    });
}

#[test]
#[cfg_attr(not(gxx), ignore = "g++ is not installed")]
fn tiles_are_read_once_in_every_order() {
    let (kernel, iteration) = (block_order::product(1), block_order::ITERATION / 16);
    let name = &kernel.name;
    let checks = format!("  failed |= check(\"{name}\", {}, {iteration}, {name});\n", kernel.threads);
    run(&plimsoll_probes::lab::block_order::kernels::SOURCE, &[kernel], &checks);
}

#[test]
#[cfg_attr(not(gxx), ignore = "g++ is not installed")]
fn limiting_exponents_keeps_sign_and_fraction() {
    let (mut checks, kernels) = (String::new(), gemm::kernels());
    for (kernel, name) in kernels.iter().zip(gemm::TAMED) {
        let format = formats::format(name).unwrap();
        let (numbers, scale) = (gemm::numbers(format), 1_u64 << (format.fraction + format.unused));
        let (exponents, unused) = (1_u64 << format.exponent, format.unused);
        let name = &kernel.name;
        writeln!(checks, "  failed |= check(\"{name}\", {numbers}, {scale}, {exponents}, {unused}, {name});").unwrap();
    }
    run(&plimsoll_probes::lab::gemm::kernels::SOURCE, &kernels, &checks);
}

#[test]
#[cfg_attr(not(gxx), ignore = "g++ is not installed")]
fn checks_find_one_wrong_element_and_fills_match_the_host() {
    let kernels = check::kernels();
    let mut checks = String::new();
    let right = [(Op::Copy, "a"), (Op::Scale, "s * a"), (Op::Triad, "fma(s, b, a)"), (Op::Schoenauer, "fma(b, c, a)")];
    for element in [Element::F32, Element::F64] {
        for (op, value) in right {
            let (name, t) = (check::map(op, element).unwrap().name, element.c_name());
            let right =
                format!("[]({t} a, {t} b, {t} c, {t} s) -> {t} {{ (void)b; (void)c; (void)s; return {value}; }}");
            writeln!(checks, "  failed |= finds<{t}>(\"{name}\", {name}, {right});").unwrap();
        }
    }
    let fills = [
        (Data::Bits, Element::Word),
        (Data::Unit, Element::F32),
        (Data::Unit, Element::F64),
        (Data::Small, Element::F32),
    ];
    let names = fills.map(|(data, element)| check::fill(data, element).name);
    for name in &names {
        writeln!(checks, "  print(\"{name}\", {name});").unwrap();
    }
    let printed = run(&plimsoll_gen::kernel::check::SOURCE, &kernels, &checks);
    let values: [fn(u64) -> u64; 4] = [
        |i| pattern::bits(7, i).into(),
        |i| pattern::unit_f32(7, i).to_bits().into(),
        |i| pattern::unit_f64(7, i).to_bits(),
        |i| (pattern::small(7, i) as f32).to_bits().into(),
    ];
    let lines =
        names.iter().zip(values).flat_map(|(name, value)| (0..5).map(move |i| format!("{name} {i} {:x}", value(i))));
    assert_eq!(printed.lines().collect::<Vec<_>>(), lines.collect::<Vec<_>>());
}

#[test]
#[cfg_attr(not(gxx), ignore = "g++ is not installed")]
fn compression_computes_z_and_its_data_match_the_host() {
    let (looped, once, fill) = (compression::looped().name, compression::once().name, compression::fill().name);
    let checks = format!(
        "  failed |= check(\"{looped}\", true, {looped});\n  failed |= check(\"{once}\", false, {once});\n  print({fill});\n"
    );
    let printed = run(&plimsoll_probes::lab::compression::kernels::SOURCE, &compression::kernels(), &checks);
    let mut kinds = compression::Kind::ALL;
    kinds.sort_by_key(|kind| *kind as u32);
    let lines = kinds
        .iter()
        .flat_map(|kind| (0..200).map(|i| format!("{} {i} {:x}", *kind as u32, compression::datum(*kind, 7, i))));
    assert_eq!(printed.lines().collect::<Vec<_>>(), lines.collect::<Vec<_>>());
}

#[test]
#[cfg_attr(not(gxx), ignore = "g++ is not installed")]
fn histograms_and_sliding_windows_are_correct_and_their_checks_find_errors() {
    let (histogram, sliding) = (residency::histogram().name, residency::sliding().name);
    let checks = format!(
        "  failed |= check_histogram({histogram});\n  failed |= check_sliding({sliding});\n  failed |= check_checks();\n"
    );
    run(&plimsoll_probes::lab::residency::kernels::SOURCE, &residency::kernels(), &checks);
}

#[test]
#[cfg_attr(not(gxx), ignore = "g++ is not installed")]
fn wave_equation_steps_are_correct_in_blocks_of_any_shape() {
    // The blocks are smaller than on a GPU, because each of their threads is a host thread.
    let mut kernels = vec![rtm::begin(), rtm::check()];
    let mut checks = "  failed |= begins(rtm_begin);\n".to_owned();
    for (x, y) in [(8, 16), (32, 8)] {
        let name = format!("rtm_step_{x}x{y}");
        writeln!(checks, "  failed |= check(\"{name}\", {x}, {y}, {name}, rtm_check);").unwrap();
        kernels.push(KernelDesc { entry: format!("RTM_STEP({name}, {x}, {y})"), name, ..rtm::begin() });
    }
    run(&plimsoll_probes::lab::rtm::kernels::SOURCE, &kernels, &checks);
}

#[test]
#[cfg_attr(not(gxx), ignore = "g++ is not installed")]
fn anisotropic_wave_steps_are_correct_with_any_axis() {
    let mut kernels = vec![tti::begin(), tti::check()];
    let mut checks = String::new();
    for (loads, check) in [("DIRECT", "check"), ("NONE", "negates")] {
        for (x, y) in [(16, 4), (8, 16)] {
            let (name, rest) = (format!("tti_{x}x{y}_{loads}"), if check == "check" { ", tti_check" } else { "" });
            writeln!(checks, "  failed |= {check}(\"{name}\", {x}, {y}, {name}{rest});").unwrap();
            kernels.push(KernelDesc { entry: format!("TTI_STEP({name}, {loads}, {x}, {y})"), name, ..tti::begin() });
        }
    }
    run(&plimsoll_probes::lab::tti::kernels::SOURCE, &kernels, &checks);
}

#[test]
#[cfg_attr(not(gxx), ignore = "g++ is not installed")]
fn particle_pushes_are_correct_by_threads_and_by_matrix_products() {
    let kernels = pic::kernels();
    let mut checks = String::new();
    // Threads use single precision; blocks use half precision for directions and weights.
    for (way, within) in [(pic::Way::Fused, "3e-6"), (pic::Way::Matrix, "3e-3")] {
        let name = pic::push(way).name;
        writeln!(checks, "  failed |= check(\"{name}\", {within}, {name}, pic_begin);").unwrap();
    }
    run(&plimsoll_probes::lab::pic::kernels::SOURCE, &kernels, &checks);
}
