//! Whether the kernels that use no PTX are HIP too: each is read by clang for two families of AMD devices. Nothing is compiled
//! to machine code and no ROCm is needed, so this is a first step to such devices and no more.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Result, bail};
use plimsoll_gen::Target;
use plimsoll_gen::kernel::unit;

use crate::test::{root, skipped};

/// A compute card (CDNA 2) and a graphics card (RDNA 2): wavefronts of 64 and of 32 threads.
const ARCHITECTURES: [&str; 2] = ["gfx90a", "gfx1030"];
/// The first clang that is here; 14 is the oldest that was tried.
const COMPILERS: [&str; 6] = ["clang++", "clang++-19", "clang++-18", "clang++-16", "clang++-15", "clang++-14"];
/// What clang says of a wrong kernel, at most so many lines.
const MOST: usize = 20;

/// Checks every kernel source, and tells of each whether it is covered or which file has PTX.
///
/// # Errors
/// A kernel without PTX that is no HIP. Where there is no clang, that is told and no error.
pub fn run() -> Result<()> {
    let Some(clang) = compiler() else {
        skipped("no kernel was checked as HIP: there is no clang++ (Debian's package clang has one)".to_owned());
        return Ok(());
    };
    let folder = root().join("target/hip");
    let sources = write(&folder)?;
    refuses_what_is_wrong(clang, &folder)?;
    let (mut covered, mut with_ptx, mut beside, mut wrong) = (vec![], vec![], vec![], vec![]);
    for (name, path) in &sources {
        let files = files_with_ptx(clang, path)?;
        if !files.is_empty() {
            with_ptx.push(format!("{name} ({})", files.join(", ")));
            beside.extend(faults_beside_ptx(clang, path)?.map(|words| format!("{name}: {words}")));
            continue;
        }
        for architecture in ARCHITECTURES {
            wrong
                .extend(faults(clang, path, architecture)?.map(|words| format!("{name} for {architecture}:\n{words}")));
        }
        covered.push(name.as_str());
    }
    eprintln!("HIP syntax for {}, by {clang}:", ARCHITECTURES.join(" and "));
    eprintln!("  checked: {}", covered.join(", "));
    eprintln!("  not HIP as they are, for the PTX in: {}", with_ptx.join(", "));
    // Told and not held against them: such kernels need work for HIP anyway.
    match beside.as_slice() {
        [] => eprintln!("  and for nothing else in them"),
        some => eprintln!("  and for these things beside it:\n    {}", some.join("\n    ")),
    }
    if covered.is_empty() {
        bail!("no kernel is without PTX: the check covers nothing");
    }
    if !wrong.is_empty() {
        bail!("{} kernels that use no PTX are no HIP:\n{}", wrong.len(), wrong.join("\n"));
    }
    Ok(())
}

fn compiler() -> Option<&'static str> {
    COMPILERS.into_iter().find(|name| runs(Command::new(name).arg("--version")))
}

fn runs(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Headers and sources, each with the entry points of all its kernels.
fn write(folder: &Path) -> Result<Vec<(String, PathBuf)>> {
    std::fs::create_dir_all(folder)?;
    let mut sources = Vec::new();
    for source in plimsoll_probes::sources() {
        for (name, text) in source.headers() {
            std::fs::write(folder.join(name), text)?;
        }
        let path = folder.join(format!("{}.cu", source.name()));
        // The newest target has all the kernels.
        let kernels = source.kernels(Target::plain(100));
        std::fs::write(&path, unit(source, &kernels))?;
        sources.push((source.name().to_owned(), path));
    }
    Ok(sources)
}

fn hip(clang: &str, path: &Path) -> Command {
    let mut command = Command::new(clang);
    command.args(["-x", "hip", "--cuda-device-only", "-nogpulib", "-nogpuinc", "-std=c++17", "-ferror-limit=5"]);
    command.arg("-include").arg(root().join("crates/plimsoll-gen/kernels/hip.h"));
    command.arg(path).stdin(Stdio::null());
    command
}

/// The files of ours that a source takes inline assembly from, where a HIP compiler reads it.
fn files_with_ptx(clang: &str, path: &Path) -> Result<Vec<String>> {
    let mut command = hip(clang, path);
    let output = command.args(["-E", &format!("--offload-arch={}", ARCHITECTURES[0])]).output()?;
    if !output.status.success() {
        bail!("{}: clang can't preprocess it:\n{}", path.display(), String::from_utf8_lossy(&output.stderr));
    }
    let (mut file, mut found) = (String::new(), Vec::new());
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        if line.starts_with("# ") {
            let name = line.split('"').nth(1).unwrap_or_default();
            file = name.rsplit('/').next().unwrap_or_default().to_owned();
        } else if line.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == "asm")
            && !found.contains(&file)
        {
            found.push(file.clone());
        }
    }
    Ok(found)
}

/// What clang has against a source; `None` where nothing.
fn faults(clang: &str, path: &Path, architecture: &str) -> Result<Option<String>> {
    let mut command = hip(clang, path);
    let output = command.args(["-fsyntax-only", &format!("--offload-arch={architecture}")]).output()?;
    let words = String::from_utf8_lossy(&output.stderr);
    let words = || words.lines().take(MOST).collect::<Vec<_>>().join("\n");
    Ok((!output.status.success()).then(words))
}

/// What clang has against a source with PTX besides the PTX, whose constraints mean nothing to it: the first thing of each
/// kind. `None` where nothing.
fn faults_beside_ptx(clang: &str, path: &Path) -> Result<Option<String>> {
    let mut command = hip(clang, path);
    let architecture = format!("--offload-arch={}", ARCHITECTURES[0]);
    let output = command.args(["-ferror-limit=0", "-fsyntax-only", &architecture]).output()?;
    let text = String::from_utf8_lossy(&output.stderr);
    let mut words: Vec<&str> = text.lines().filter_map(|line| Some(line.split_once(" error: ")?.1)).collect();
    words.retain(|words| !words.contains("constraint"));
    words.sort_unstable();
    words.dedup();
    words.truncate(MOST);
    Ok((!words.is_empty()).then(|| words.join("; ")))
}

/// A check that accepts everything would be green too.
fn refuses_what_is_wrong(clang: &str, folder: &Path) -> Result<()> {
    let path = folder.join("wrong.cu");
    std::fs::write(&path, "extern \"C\" __global__ void wrong() { undeclared(); }\n")?;
    for architecture in ARCHITECTURES {
        match faults(clang, &path, architecture)? {
            Some(words) if words.contains("undeclared") => {}
            Some(words) => bail!("{clang} can't read HIP for {architecture}:\n{words}"),
            None => bail!("{clang} accepted a wrong kernel for {architecture}"),
        }
    }
    Ok(())
}
