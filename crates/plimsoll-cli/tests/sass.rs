//! `plimsoll sass`: the known counts of the copy kernels, and the errors for bad arguments, bad files and missing tools.
//! Counting needs NVIDIA's compiler and disassembler, which `cargo xtask sass` installs below `target/`; without them those
//! tests print that they were skipped.

#[allow(dead_code, reason = "each test file uses a part")]
mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

use support::{Place, Ran};

/// Two kernels for sm_80: `spills` indexes a local array, `shares` has shared memory.
const CUBIN: &[u8] = include_bytes!("../../plimsoll-gen/tests/data/resources.sm_80.cubin");

/// Paths of the compiler's library and the disassembler.
struct Tools {
    nvrtc: PathBuf,
    nvdisasm: PathBuf,
}

/// Finds the tools in the private Python environment; prints a note and returns `None` if they are missing.
fn find_tools() -> Option<Tools> {
    let home = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/cuda-tools");
    let pythons = std::fs::read_dir(home.join("lib")).into_iter().flatten().flatten();
    let packages = pythons.map(|python| python.path().join("site-packages/nvidia/cu13"));
    let found = packages.filter_map(|packages| packages.canonicalize().ok()).next();
    if found.is_none() || !home.join("installed").exists() {
        eprintln!("SKIPPED: no NVRTC and nvdisasm in target/cuda-tools; `cargo xtask sass` installs them");
        return None;
    }
    found.map(|packages| Tools { nvrtc: packages.join("lib"), nvdisasm: packages.join("bin/nvdisasm") })
}

impl Tools {
    /// The command with these tools and no driver.
    fn command(&self, place: &Place, args: &str) -> Command {
        let mut command = place.command(args);
        command.env("PLIMSOLL_NVRTC", &self.nvrtc).env("PLIMSOLL_NVDISASM", &self.nvdisasm);
        command.env("PLIMSOLL_LIBCUDA", "/nowhere/libcuda.so.1");
        command
    }

    fn run(&self, place: &Place, args: &str) -> Ran {
        Ran::from_output(self.command(place, args).output().unwrap())
    }
}

/// The kernel, instructions, bytes and their "per" column of each row.
fn counts(csv: &str) -> Vec<(String, u32, u32, String)> {
    let row = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        (cells[0].to_owned(), cells[2].parse().unwrap(), cells[3].parse().unwrap(), cells[4].to_owned())
    };
    csv.lines().skip(1).map(row).collect()
}

#[test]
fn the_copy_loops_have_the_known_instructions_and_bytes_per_iteration() {
    let Some(tools) = find_tools() else { return };
    let place = Place::new();
    for (arch, narrow, wide) in [("sm_80", 9, 14), ("sm_90", 7, 13)] {
        let args =
            format!("sass --kernel copy --arch {arch} --compare index=32,64 op=vector vector=1,2,4 --format csv");
        let ran = tools.run(&place, &args).ends(0);
        let expected: Vec<_> = [("u32", narrow), ("u64", wide)]
            .into_iter()
            .flat_map(|(index, instructions)| {
                [1, 2, 4].map(|width| {
                    (format!("copy_vector{width}_{index}"), instructions, 8 * width, "iteration".to_owned())
                })
            })
            .collect();
        assert_eq!(counts(&ran.stdout), expected, "{arch}");
    }
}

#[test]
fn without_a_device_the_target_is_sm_90_and_a_single_kernel_is_listed_by_class() {
    let Some(tools) = find_tools() else { return };
    let ran = tools.run(&Place::new(), "sass --kernel copy_vector4_u32").ends(0);
    assert!(ran.stdout.contains("7 instructions per iteration") && ran.stdout.contains("branch 1"), "{}", ran.stdout);
    assert!(ran.stdout.starts_with("target sm_90\n"), "{}", ran.stdout);
    assert!(ran.stdout.lines().take(5).all(|line| line.chars().count() <= 80), "{}", ran.stdout);
    let ran = tools.run(&Place::new(), "sass --kernel copy_vector4_u32 --format json").ends(0);
    let json: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(json["target"], "sm_90");
    assert_eq!(json["kernels"][0]["hot"]["read"], 16);
}

#[test]
fn the_target_is_that_of_the_first_device() {
    let Some(tools) = find_tools() else { return };
    let place = Place::new();
    let library = fakecuda::driver_without(&place.path("."), &[]).unwrap();
    let mut command = tools.command(&place, "sass --kernel launch --format json");
    command.env("PLIMSOLL_LIBCUDA", library).env("FAKECUDA", "capability=80");
    let ran = Ran::from_output(command.output().unwrap()).ends(0);
    let json: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(json["target"], "sm_80");
}

#[test]
fn any_cubin_is_read_and_its_control_characters_are_not_printed() {
    let Some(tools) = find_tools() else { return };
    let place = Place::new();
    place.write("mine.cubin", CUBIN);
    let ran = tools.run(&place, "sass --cubin mine.cubin --format csv").ends(0);
    assert_eq!(counts(&ran.stdout).len(), 2, "{}", ran.stdout);
    let ran = tools.run(&place, "sass --cubin mine.cubin").ends(0);
    assert!(ran.stdout.contains("local bytes"), "no column of local bytes at 80 columns: {}", ran.stdout);
    let mut evil = CUBIN.to_vec();
    for start in 0..evil.len() - 6 {
        if &evil[start..start + 6] == b"shares" {
            evil[start..start + 6].copy_from_slice(b"sh\x1b[2J");
        }
    }
    place.write("evil.cubin", evil);
    let ran = tools.run(&place, "sass --cubin evil.cubin");
    assert!(!ran.stdout.contains('\x1b') && !ran.stderr.contains('\x1b'), "{ran:?}");
}

#[test]
fn an_unsupported_target_is_answered_with_the_supported_ones() {
    let Some(tools) = find_tools() else { return };
    for arch in ["sm_10", "sm_130"] {
        let args = format!("sass --kernel copy --arch {arch}");
        tools.run(&Place::new(), &args).ends(3).says(arch).says("sm_80").says("pip install nvidia-cuda-nvrtc");
    }
}

#[test]
fn bad_arguments_are_reported_before_any_tool_is_looked_for() {
    let place = Place::new();
    for (args, answer) in [
        ("", "--kernel copy"),
        ("x+", "a value was expected"),
        ("x+y --kernel copy", "cannot be used with"),
        ("--kernel nope", "probes with kernels: stream, mix, copy"),
        ("--kernel copy --compare index=16", "the values are 32, 64"),
        ("--kernel copy --compare index", "write one like index=32,64"),
        ("--kernel copy --compare width=4", "the axes are op, index, vector"),
        ("--kernel copy --compare op=naive vector=4", "all of these"),
        ("--kernel copy --arch 80", "sm_80"),
        ("--kernel copy --cubin x", "cannot be used with"),
        ("--cubin x --arch sm_80", "cannot be used with"),
    ] {
        place.run(&format!("sass {args} --nvdisasm /nowhere/nvdisasm")).ends(2).says(answer);
    }
}

#[test]
fn a_file_that_is_not_a_cubin_is_rejected_even_without_a_disassembler() {
    let place = Place::new();
    place.write("text", "no cubin");
    place.write("empty", "");
    place.write("half", &CUBIN[..CUBIN.len() / 2]);
    let mut program = CUBIN.to_vec();
    program[0x12] = 62;
    place.write("program", program);
    for file in ["text", "empty", "half", "program"] {
        place.run(&format!("sass --cubin {file} --nvdisasm /nowhere/nvdisasm")).ends(2).says("not a cubin");
    }
    for file in ["missing", "."] {
        place.run(&format!("sass --cubin {file}")).ends(2).says("can't read");
    }
    let large = std::fs::File::create(place.path("large")).unwrap();
    large.set_len((256 << 20) + 1).unwrap();
    place.run("sass --cubin large").ends(2).says("larger than 256 MiB");
}

#[test]
fn a_missing_tool_exits_with_3_and_the_command_that_installs_it() {
    let place = Place::new();
    // A compiler library without its builtins can't compile.
    place.write("libnvrtc.so.13", "");
    let nvrtc = place.path("libnvrtc.so.13").display().to_string();
    let args = format!("sass --kernel copy --nvrtc {nvrtc} --nvdisasm /nowhere/nvdisasm");
    place.run(&args).ends(3).says("pip install nvidia-cuda-nvrtc").says("pip install nvidia-cuda-nvdisasm");
    place.write("mine.cubin", CUBIN);
    let args = "sass --cubin mine.cubin --nvdisasm /nowhere/nvdisasm";
    place.run(args).ends(3).says("pip install nvidia-cuda-nvdisasm");
    // A program that is not a disassembler has no readable output.
    place.run("sass --cubin mine.cubin --nvdisasm /bin/false").ends(3).says("nvdisasm: it wrote nothing");
}

#[test]
fn one_function_is_listed_by_instruction_class_and_an_unknown_one_is_answered_with_the_known_ones() {
    let place = Place::new();
    place.run("sass --kernel copy --function x").ends(2).says("cannot be used with");
    place.run("sass --function x").ends(2).says("--cubin");
    let Some(tools) = find_tools() else { return };
    place.write("mine.cubin", CUBIN);
    let ran = tools.run(&place, "sass --cubin mine.cubin --format csv").ends(0);
    let names: Vec<String> = counts(&ran.stdout).into_iter().map(|row| row.0).collect();
    let ran = tools.run(&place, &format!("sass --cubin mine.cubin --function {}", names[0])).ends(0);
    for part in ["for memory", "slots: issue", "stalls of", "per 16 bytes moved"] {
        assert!(ran.stdout.contains(part), "{part}: {}", ran.stdout);
    }
    let ran = tools.run(&place, "sass --cubin mine.cubin --function nope").ends(2).says("no function 'nope'");
    assert!(names.iter().all(|name| ran.stderr.contains(name.as_str())), "{}", ran.stderr);
}
