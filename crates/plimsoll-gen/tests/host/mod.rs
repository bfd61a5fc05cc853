//! Compiles and runs generated kernels with a host compiler, for tests without a GPU.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Compiles `text` as the program of the test `name`, with the address and undefined-behaviour sanitizers; `level` is `-O0` or
/// `-O1`.
pub fn compile(name: &str, text: &str, level: &str) -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).unwrap();
    let (main, program) = (folder.join("main.cpp"), folder.join("main"));
    std::fs::write(&main, text).unwrap();
    let compiled = Command::new("g++")
        .args(["-std=c++17", level, "-g0", "-fno-strict-aliasing", "-ffp-contract=off", "-Wno-psabi"])
        .args(["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-sanitize=float-divide-by-zero"])
        .args([Path::new("-iquote"), &here.join("kernels/elementwise"), Path::new("-iquote"), &here.join("kernels")])
        .args([Path::new("-iquote"), &here.join("tests/shim"), Path::new("-o")])
        .args([&program, &main])
        .output()
        .unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    program
}

/// Runs a program and returns its output; panics if it fails.
pub fn execute(program: &Path, input: &[u8]) -> Vec<u8> {
    let mut child =
        Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let output = std::thread::scope(|scope| {
        scope.spawn(move || stdin.write_all(input));
        child.wait_with_output().unwrap()
    });
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}
