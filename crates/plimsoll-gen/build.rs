//! Sets `cfg(gxx)` where g++ is installed; without it, the tests that need g++ are reported as ignored.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=PATH");
    println!("cargo::rustc-check-cfg=cfg(gxx)");
    if Command::new("g++").arg("--version").output().is_ok_and(|output| output.status.success()) {
        println!("cargo::rustc-cfg=gxx");
    }
}
