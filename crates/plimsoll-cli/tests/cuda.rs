//! The command on a CUDA driver that is a stand-in: what it says and how it ends when the driver fails.

#[allow(dead_code, reason = "each test file uses a part")]
mod support;

use support::{Place, Ran};

/// Runs the command on the stand-in under orders.
fn on(place: &Place, orders: &str, args: &str) -> Ran {
    let library = fakecuda::without(&place.path("."), &[]).unwrap();
    let mut command = place.command(args);
    command.env("PLIMSOLL_LIBCUDA", library).env("FAKECUDA", orders).env("PLIMSOLL_LIBNVML", "/nonexistent");
    Ran::of(command.output().unwrap())
}

#[test]
fn a_device_that_can_not_be_used_ends_with_3_and_the_way_out() {
    let place = Place::new();
    for (orders, why) in [
        ("fail=cuInit:34", "stub"),
        ("fail=cuInit:100", "CUDA_VISIBLE_DEVICES"),
        ("devices=0", "CUDA_ERROR_NO_DEVICE"),
        ("version=10020", "CUDA 10.2"),
        ("mode=2", "prohibits"),
        ("lost-after=100", "device lost"),
    ] {
        on(&place, orders, "measure --device cuda:0").ends(3).says(why);
    }
    on(&place, "", "measure --device cuda:5").ends(3).says("no cuda:5");
}

#[test]
fn an_explanation_without_its_device_points_to_predictions() {
    let place = Place::new();
    for orders in ["devices=0", "mode=2"] {
        on(&place, orders, "explain x --device cuda:0").ends(3).says("plimsoll predict 'x' --machine h200");
    }
}

#[test]
fn of_all_devices_one_that_can_not_be_opened_is_told_and_spares_the_others() {
    let place = Place::new();
    let orders = "devices=2 fail=cuDevicePrimaryCtxRetain:46@2";
    let ran = on(&place, orders, "list --device all").ends(3).says("warning: cuda:1 is left out");
    assert!(ran.stdout.contains("cuda:0") && ran.stdout.contains("cpu"), "{}", ran.stdout);
    let ran = on(&place, orders, "peak all").ends(3);
    assert!(ran.stdout.contains("cuda:0: ") && ran.stdout.contains("cpu: "), "{}", ran.stdout);
    on(&place, "devices=2", "list --device all").ends(0);
    // By name there is no other to spare.
    on(&place, "mode=2", "list --device cuda:0").ends(3).says("error: ");
}

#[test]
fn doctor_and_devices_name_what_the_gpu_lacks_and_still_succeed() {
    let place = Place::new();
    let ran = on(&place, "", "doctor").ends(0);
    assert!(ran.stdout.contains("cuda") && ran.stdout.contains("NVML"), "{}", ran.stdout);
    on(&place, "", "doctor --require cuda").ends(0);
    on(&place, "devices=0", "doctor --require cuda").ends(3);
    let ran = on(&place, "", "devices").ends(0);
    assert!(ran.stdout.contains("Imaginary GPU"), "{}", ran.stdout);
    let ran = on(&place, "mode=2", "devices").ends(0);
    assert!(ran.stdout.contains("prohibits"), "{}", ran.stdout);
}
