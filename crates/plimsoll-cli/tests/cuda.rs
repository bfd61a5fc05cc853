//! The command with a fake CUDA driver: its messages and exit codes when the driver fails.

#[allow(dead_code, reason = "each test file uses a part")]
mod support;

use support::{Place, Ran};

/// Runs the command with the fake driver and these settings.
fn run_with(place: &Place, settings: &str, args: &str) -> Ran {
    let library = fakecuda::driver_without(&place.path("."), &[]).unwrap();
    let mut command = place.command(args);
    command.env("PLIMSOLL_LIBCUDA", library).env("FAKECUDA", settings).env("PLIMSOLL_LIBNVML", "/nonexistent");
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
    run_with(&place, "devices=0", "doctor --require cuda").ends(3);
    let ran = run_with(&place, "", "devices").ends(0);
    assert!(ran.stdout.contains("Imaginary GPU"), "{}", ran.stdout);
    let ran = run_with(&place, "mode=2", "devices").ends(0);
    assert!(ran.stdout.contains("prohibits"), "{}", ran.stdout);
}
