//! `plimsoll explain --cubin` with a fake CUDA driver, whose kernels do nothing, and real cubins: what is checked before anything
//! runs, what is printed, and what a fault of the kernel says.

#[allow(dead_code, reason = "each test file uses a part")]
mod support;

use plimsoll::core::flag::Flag;
use support::{Place, Ran, points};

/// Kernels for sm_90, see `custom.cu` next to it.
const CUBIN: &[u8] = include_bytes!("../../plimsoll-gen/tests/data/custom.sm_90.cubin");
/// A right launch of `scale`.
const SCALE: &str = "--function scale --args in:f32:64,out:f32:64,u32:64,f32:0.5 --grid 4 --block 256";

/// Runs `explain --cubin` on these kernels.
fn explain(place: &Place, settings: &str, args: &str) -> Ran {
    explain_cubin(place, CUBIN, settings, args)
}

/// Runs `explain --cubin` with the fake driver and these settings, without a compiler and a disassembler.
fn explain_cubin(place: &Place, cubin: &[u8], settings: &str, args: &str) -> Ran {
    place.write("own.cubin", cubin);
    let library = fakecuda::driver_without(&place.path("."), &[]).unwrap();
    let mut command = place.command(&format!("explain --device cuda:0 --cubin own.cubin {args}"));
    command.env("PLIMSOLL_LIBCUDA", library).env("FAKECUDA", settings).env("PLIMSOLL_LIBNVML", "/nonexistent");
    command.env("PLIMSOLL_NVDISASM", "/nonexistent/nvdisasm").env("PLIMSOLL_NVRTC", "/nonexistent");
    Ran::from_output(command.output().unwrap())
}

#[test]
fn a_kernel_is_timed_and_explained_without_compiler_and_disassembler() {
    let place = Place::new();
    let ran = explain(&place, "", &format!("{SCALE} --both --out run")).ends(0);
    let cold = ran.stdout.find("scale, grid 4, block 256, 512 B moved, cold-rotate").unwrap();
    let hot = ran.stdout.find("scale, grid 4, block 256, 512 B moved, hot").unwrap();
    assert!(cold < hot, "{}", ran.stdout);
    for words in
        ["for sm_90, 4 parameters", "4 blocks, 8 resident on each SM", "Its instructions are left out", "measured"]
    {
        assert!(ran.stdout.contains(words), "no {words:?} in {}", ran.stdout);
    }
    // The verdict comes first.
    assert!(ran.stdout.find("The limit is unknown").unwrap() < ran.stdout.find("resident").unwrap());
    let run = place.record("run");
    assert_eq!(points(&run), 2 * run.series[0].rows[0].points.len());
    assert!(
        run.series
            .iter()
            .all(|series| series.spec.probe == "custom" && !series.rows[0].flags.contains(Flag::VerifyFail))
    );
    let names: Vec<&str> = run.findings.iter().map(|finding| &*finding.name).collect();
    assert_eq!(names, ["scale, cold", "scale, hot"]);
}

#[test]
fn every_format_has_the_figures() {
    let place = Place::new();
    let json = explain(&place, "", &format!("{SCALE} --out a --format json --bytes-read 1KiB")).ends(0).stdout;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let one = &json[0];
    assert_eq!((&one["expression"], &one["bytes_moved"]), (&"scale".into(), &(1280_u64).into()));
    assert!(
        one["measured"]["seconds"].as_f64().unwrap() > 0.0 && one["kernel"]["facts"].as_array().unwrap().len() > 5,
        "{one}"
    );
    let csv = explain(&place, "", &format!("{SCALE} --out b --format csv")).ends(0).stdout;
    assert!(csv.lines().nth(1).unwrap().starts_with("scale,"), "{csv}");
    let markdown = explain(&place, "", &format!("{SCALE} --out c --format markdown")).ends(0).stdout;
    assert!(markdown.contains("| grid | 4 |"), "{markdown}");
}

#[test]
fn arguments_that_do_not_fit_show_the_kernels_parameters() {
    let place = Place::new();
    let run = |args: &str| explain(&place, "", &format!("--function scale --grid 1 --block 32 {args}")).ends(2);
    run("")
        .says("scale takes 4 arguments, and 0 were given")
        .says("  parameter 1: 8 bytes at offset 0; given: nothing");
    run("--args in:f32:8,out:f32:8,u64:8,f32:1")
        .says("parameter 3 of scale has 4 bytes, and 'u64:8' has 8")
        .says("  parameter 4: 4 bytes at offset 20; given: f32:1 (4 bytes)");
    run("--args in:f32:8,out:f32:8,u32:8,f32:1,u8:1").says("parameter 5: takes nothing; given: u8:1 (1 bytes)");
    run("--args in:f32:8,out").says("--args: argument 2, 'out': write in:TYPE:COUNT").says("hint: write in:TYPE:COUNT");
    run("--args in:f32:0").says("at least one element");
}

#[test]
fn kernels_and_files_that_are_not_there_are_errors_with_the_way_out() {
    let place = Place::new();
    let launch = "--grid 1 --block 32";
    explain(&place, "", launch)
        .ends(2)
        .says("the cubin has several kernels: choose one of _Z6filledIfEvPT_, clustered");
    explain(&place, "", &format!("--function scal {launch}")).ends(2).says("no kernel 'scal'; it has ");
    explain(&place, "", "--function scale")
        .ends(2)
        .says("--grid and --block")
        .says("  scale: takes arguments of 8, 8, 4, 4 (bytes)");
    explain(&place, "", &format!("--function filled --args out:f32:1 {launch} --out run")).ends(0);
    let run = |file: &str| place.run(&format!("explain --cubin {file} --grid 1 --block 32"));
    run("none.cubin").ends(2).says("can't read none.cubin");
    place.write("text", "hello");
    run("text").ends(2).says("text: not a cubin").says("nvcc -cubin makes a cubin");
    run("/dev/zero").ends(2).says("larger than 256 MiB");
    place.write("cut", &CUBIN[..CUBIN.len() / 2]);
    run("cut").ends(2).says("cut: not a cubin");
    place.run("explain --grid 1").ends(2).says("EXPR");
    place.run("explain x --cubin text").ends(2).says("cannot be used with");
    place.run("explain --cubin text --bytes 1MiB").ends(2).says("cannot be used with");
}

#[test]
fn grids_and_blocks_beyond_the_limits_are_errors() {
    let place = Place::new();
    let run = |args: &str| {
        let arguments = "--function scale --args in:f32:8,out:f32:8,u32:8,f32:1";
        explain(&place, "", &format!("{arguments} {args}")).ends(2)
    };
    run("--grid 0 --block 32").says("the grid has 0 in x");
    run("--grid 1,70000 --block 32").says("the grid has 70000 in y: it takes 1 to 65535");
    run("--grid 1 --block 0").says("the block has 0 in x");
    run("--grid 1 --block 512").says("a block has 512 threads, and scale allows 256 by its __launch_bounds__");
    run("--grid 1 --block 32 --shared 1MiB")
        .says("1048576 bytes of shared memory")
        .says("this device has 232448 per block");
    run("--grid 1,1,1,1 --block 32").says("one to three numbers");
    let fixed = "--function fixed --args out:i32:128 --grid 1 --block 128";
    explain(&place, "", fixed).ends(2).says("fixed is compiled for blocks of 64x2x1, not 128x1x1");
}

#[test]
fn a_device_that_can_not_run_the_cubin_is_an_error() {
    let place = Place::new();
    let run = |settings: &str| explain(&place, settings, SCALE);
    run("capability=80")
        .ends(2)
        .says("the cubin is for sm_90, which this device can't run: compile it with -arch=sm_80");
    run("fail=cuModuleLoadData:209").ends(2).says("the driver can't load the cubin").says("-rdc=false");
    run("devices=0").ends(3).says("CUDA_ERROR_NO_DEVICE");
    place.run(&format!("explain --device cpu --cubin own.cubin {SCALE}")).ends(3).says("machine code of NVIDIA's GPUs");
}

#[test]
fn a_fault_of_the_kernel_says_what_it_did() {
    let place = Place::new();
    let kernel = fakecuda::image("store_byte(8,8)");
    let run = |args: &str| explain_cubin(&place, &kernel, "", &format!("--grid 1 --block 32 --args {args}"));
    run("out:u8:16,u64:15 --out right").ends(0);
    let ran = run("out:u8:16,u64:1Ti --out fault").ends(3);
    let words = "the kernel accessed memory outside its arguments; run it under compute-sanitizer";
    assert!(ran.stderr.contains(words) && ran.stdout.contains("It could not be measured: device lost"), "{ran:?}");
    assert!(place.record("fault").faults.iter().any(|fault| fault.what.contains(words)));
    let ran = run("out:u8:16,u64:16 --out beyond").ends(1);
    assert!(ran.stdout.contains("It wrote beyond the end of a buffer") && ran.stderr.contains("out:u8:16"), "{ran:?}");
}

#[test]
fn a_kernel_that_never_ends_is_given_up() {
    let ran = explain(&Place::new(), "hang-after=0", &format!("{SCALE} --out hang")).ends(3);
    ran.says("no answer from").says("hint: the kernel may never end");
}

#[test]
fn buffers_that_do_not_fit_are_an_error() {
    let place = Place::new();
    let arguments = "--function scale --args in:f32:1Gi,out:f32:1Gi,u32:8,f32:1 --grid 1 --block 32 --out run";
    let ran = explain(&place, "", arguments).ends(3);
    assert!(
        ran.stdout.contains("out of memory: 8.00 GiB requested") || ran.stdout.contains("out of memory: "),
        "{ran:?}"
    );
}
