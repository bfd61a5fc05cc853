//! The command with a fake CUDA driver: its messages and exit codes when the driver fails.

#[allow(dead_code, reason = "each test file uses a part")]
mod support;

use support::{Place, Ran};

/// Runs the command with the fake driver and these settings.
fn run_with(place: &Place, settings: &str, args: &str) -> Ran {
    let library = fakecuda::driver_without(&place.path("."), &[]).unwrap();
    let mut command = place.command(args);
    command.env("PLIMSOLL_LIBCUDA", library).env("FAKECUDA", settings).env("PLIMSOLL_LIBNVML", "/nonexistent");
    command.env("VK_DRIVER_FILES", "/nonexistent");
    Ran::from_output(command.output().unwrap())
}

#[test]
fn an_unusable_device_exits_with_3_and_the_reason() {
    let place = Place::new();
    for (settings, why) in [
        ("fail=cuInit:34", "stub"),
        ("fail=cuInit:100", "CUDA_VISIBLE_DEVICES"),
        ("devices=0", "CUDA_ERROR_NO_DEVICE"),
        ("version=10020", "CUDA 10.2"),
        ("mode=2", "prohibits"),
        ("lost-after=100", "device lost"),
    ] {
        run_with(&place, settings, "measure --device cuda:0").ends(3).says(why);
    }
    run_with(&place, "", "measure --device cuda:5").ends(3).says("no cuda:5");
}

#[test]
fn explain_without_a_device_points_to_predict() {
    let place = Place::new();
    for settings in ["devices=0", "mode=2"] {
        run_with(&place, settings, "explain x --device cuda:0").ends(3).says("plimsoll predict 'x' --machine h200");
    }
}

#[test]
fn with_device_all_one_that_can_not_be_opened_costs_only_a_warning() {
    let place = Place::new();
    let settings = "devices=2 fail=cuDevicePrimaryCtxRetain:46@2";
    let ran = run_with(&place, settings, "list --device all").ends(3).says("warning: cuda:1 is left out");
    assert!(ran.stdout.contains("cuda:0") && ran.stdout.contains("cpu"), "{}", ran.stdout);
    let ran = run_with(&place, settings, "peak all").ends(3);
    assert!(ran.stdout.contains("cuda:0: ") && ran.stdout.contains("cpu: "), "{}", ran.stdout);
    run_with(&place, "devices=2", "list --device all").ends(0);
    // A device selected by name must open.
    run_with(&place, "mode=2", "list --device cuda:0").ends(3).says("error: ");
}

#[test]
fn doctor_and_devices_report_what_the_gpu_lacks_and_still_succeed() {
    let place = Place::new();
    let ran = run_with(&place, "", "doctor").ends(0);
    assert!(ran.stdout.contains("cuda") && ran.stdout.contains("NVML"), "{}", ran.stdout);
    run_with(&place, "", "doctor --require cuda").ends(0);
    let ran = run_with(&place, "version=12040", "doctor --format csv --require cuda").ends(0);
    let driver = ran.stdout.lines().find(|line| line.starts_with("CUDA driver,")).unwrap();
    assert!(driver.starts_with("CUDA driver,yes,CUDA 12.4,/"), "{driver}");
    run_with(&place, "", "doctor --require NVML").ends(3).says("NVML is required");
    run_with(&place, "devices=0", "doctor --require cuda").ends(3);
    let ran = run_with(&place, "", "devices").ends(0);
    assert!(ran.stdout.contains("Imaginary GPU"), "{}", ran.stdout);
    let json = run_with(&place, "version=11080", "devices --format json").ends(0).stdout;
    assert!(json.contains("\"why_not\"") && json.contains("\"hint\"") && !json.contains("mend"), "{json}");
    let ran = run_with(&place, "mode=2", "devices").ends(0);
    assert!(ran.stdout.contains("prohibits"), "{}", ran.stdout);
}

#[test]
fn devices_are_found_by_number_list_name_and_uuid() {
    let place = Place::new();
    for (device, expected) in [
        ("0", "cuda:0"),
        ("1", "cuda:1"),
        ("cuda", "cuda:0"),
        ("cuda:1,0", "cuda:1, cuda:0"),
        ("gpu", "cuda:0, cuda:1"),
        ("GPU-0101", "cuda:1"),
        ("01010101", "cuda:1"),
    ] {
        let list = run_with(&place, "devices=2", &format!("list --format csv --device {device}")).ends(0).stdout;
        let stream = list.lines().find(|line| line.starts_with("stream,")).unwrap();
        let named: Vec<&str> = expected.split(", ").collect();
        assert!(named.iter().all(|name| stream.contains(name)), "{device}: {stream}");
        assert_eq!(stream.matches("cuda:").count(), named.len(), "{device}: {stream}");
    }
    let ran = run_with(&place, "devices=1", "list --format csv --device imaginary").ends(0);
    assert!(ran.stdout.contains("cuda:0"), "{}", ran.stdout);
    run_with(&place, "devices=1", "peak Imaginary").ends(0);
    run_with(&place, "devices=1", "peak L4").ends(0);
}

#[test]
fn ambiguous_and_unknown_devices_are_listed() {
    let place = Place::new();
    let ran = run_with(&place, "devices=2", "list --device Imaginary").ends(2).says("could be any of 2 devices");
    ran.says("  cuda:0 (Imaginary GPU, GPU-00000000-").says("  cuda:1 (").says("hint: ");
    run_with(&place, "devices=2", "peak Imaginary").ends(2).says("could be any of 2 devices");
    run_with(&place, "devices=2", "list --device H300").ends(2).says("no device is called 'H300'").says("  cuda:1 (");
    run_with(&place, "devices=2", "list --device 2").ends(3).says("there is no GPU 2").says("cuda:1 (");
    run_with(&place, "devices=2", "list --device cuda:0,7").ends(3).says("no cuda:7");
    run_with(&place, "devices=2", "bench x --device gpu").ends(2).says("one device at a time");
    run_with(&place, "devices=0", "list --device gpu").ends(3).says("GPU: there is none").says("cpu (");
    // One of several that can't be opened costs a warning, like with `all`.
    let settings = "devices=2 fail=cuDevicePrimaryCtxRetain:46@2";
    run_with(&place, settings, "list --device gpu").ends(3).says("warning: cuda:1 is left out");
    run_with(&place, settings, "list --device cuda:0,1").ends(3).says("error: ");
}

#[cfg(unix)]
#[test]
fn a_device_name_that_is_not_utf8_is_wrong_usage() {
    use std::os::unix::ffi::OsStrExt;
    let place = Place::new();
    let mut command = place.command("list --device");
    command.arg(std::ffi::OsStr::from_bytes(b"H\xff200"));
    Ran::from_output(command.output().unwrap()).ends(2).says("UTF-8");
}

#[test]
fn a_process_of_a_fleet_measures_all_gpus_or_under_a_launcher_its_own() {
    let files = |variables: &[(&str, &str)]| {
        let place = Place::new();
        let library = fakecuda::driver_without(&place.path("."), &[]).unwrap();
        let mut command = place.command("check --fleet fleet --host n1 --budget 5s --quiet");
        command.env("PLIMSOLL_LIBCUDA", library).env("FAKECUDA", "devices=2").env("PLIMSOLL_LIBNVML", "/nonexistent");
        command.env("VK_DRIVER_FILES", "/nonexistent").envs(variables.iter().copied());
        let ran = Ran::from_output(command.output().unwrap());
        let listed = std::fs::read_dir(place.path("fleet")).unwrap().flatten();
        let mut names: Vec<String> = listed.map(|file| file.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        (ran, names)
    };
    let (ran, both) = files(&[]);
    ran.ends(0);
    assert_eq!(both.len(), 2, "{both:?}");
    let second = [("SLURM_PROCID", "1"), ("SLURM_LOCALID", "1"), ("SLURM_STEP_TASKS_PER_NODE", "2")];
    let (ran, own) = files(&second);
    ran.ends(0);
    assert_eq!(own, both[1..]);
    let third = [("SLURM_PROCID", "2"), ("SLURM_LOCALID", "2"), ("SLURM_STEP_TASKS_PER_NODE", "3")];
    let (ran, none) = files(&third);
    ran.ends(2).says("process 2 of this host (counted from 0) has no GPU: it sees 2");
    assert!(none.is_empty(), "{none:?}");
}
