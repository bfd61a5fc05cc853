//! Tells the tests whether there is a g++, so that those which need it are reported as ignored where there is none.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=PATH");
    println!("cargo::rustc-check-cfg=cfg(gxx)");
    if Command::new("g++").arg("--version").output().is_ok_and(|output| output.status.success()) {
        println!("cargo::rustc-cfg=gxx");
    }
}
