//! Checks that kernels without PTX are also valid HIP: clang parses each for two families of AMD devices. It generates no machine
//! code and needs no ROCm, so this is only a first step to such devices.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Result, bail};
use plimsoll_gen::Target;
use plimsoll_gen::kernel::unit;

use crate::test::{root, skipped};

/// A compute card (CDNA 2) and a graphics card (RDNA 2): wavefronts of 64 and of 32 threads.
const ARCHITECTURES: [&str; 2] = ["gfx90a", "gfx1030"];
/// Names of clang to look for; 14 is the oldest version that was tried.
const COMPILERS: [&str; 6] = ["clang++", "clang++-19", "clang++-18", "clang++-16", "clang++-15", "clang++-14"];
/// Maximum lines of clang's messages for a wrong kernel.
const MAX_LINES: usize = 20;

/// Checks every kernel source, and prints for each whether it is covered or which file has PTX. Fails if a kernel without PTX is
/// not HIP. Without clang, the check is skipped and reported.
pub fn run() -> Result<()> {
    let Some(clang) = find_compiler() else {
        skipped("no kernel was checked as HIP: clang++ is not installed (Debian package clang)".to_owned());
        return Ok(());
    };
    let folder = root().join("target/hip");
    let sources = write_sources(&folder)?;
    check_that_errors_are_found(clang, &folder)?;
    let (mut covered, mut with_ptx, mut other_faults, mut wrong) = (vec![], vec![], vec![], vec![]);
    for (name, path) in &sources {
        let files = files_with_ptx(clang, path)?;
        if !files.is_empty() {
            with_ptx.push(format!("{name} ({})", files.join(", ")));
            other_faults.extend(faults_besides_ptx(clang, path)?.map(|words| format!("{name}: {words}")));
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
    eprintln!("  not HIP because of PTX: {}", with_ptx.join(", "));
    // Reported but not an error: such kernels need work for HIP anyway.
    match other_faults.as_slice() {
        [] => eprintln!("  with no other errors"),
        faults => eprintln!("  with these other errors:\n    {}", faults.join("\n    ")),
    }
    if covered.is_empty() {
        bail!("every kernel has PTX: the check covers nothing");
    }
    if !wrong.is_empty() {
        bail!("{} kernels without PTX are not valid HIP:\n{}", wrong.len(), wrong.join("\n"));
    }
    Ok(())
}

fn find_compiler() -> Option<&'static str> {
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

/// Writes headers and sources, each source with the entry points of all its kernels.
fn write_sources(folder: &Path) -> Result<Vec<(String, PathBuf)>> {
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

/// Our files with inline assembly that a HIP compiler sees in a source.
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

/// clang's errors in a source, if any.
fn faults(clang: &str, path: &Path, architecture: &str) -> Result<Option<String>> {
    let mut command = hip(clang, path);
    let output = command.args(["-fsyntax-only", &format!("--offload-arch={architecture}")]).output()?;
    let words = String::from_utf8_lossy(&output.stderr);
    let words = || words.lines().take(MAX_LINES).collect::<Vec<_>>().join("\n");
    Ok((!output.status.success()).then(words))
}

/// clang's errors in a source with PTX, except those about the constraints of its assembly, without duplicates; `None` if there
/// are no others.
fn faults_besides_ptx(clang: &str, path: &Path) -> Result<Option<String>> {
    let mut command = hip(clang, path);
    let architecture = format!("--offload-arch={}", ARCHITECTURES[0]);
    let output = command.args(["-ferror-limit=0", "-fsyntax-only", &architecture]).output()?;
    let text = String::from_utf8_lossy(&output.stderr);
    let mut words: Vec<&str> = text.lines().filter_map(|line| Some(line.split_once(" error: ")?.1)).collect();
    words.retain(|words| !words.contains("constraint"));
    words.sort_unstable();
    words.dedup();
    words.truncate(MAX_LINES);
    Ok((!words.is_empty()).then(|| words.join("; ")))
}

/// Checks that clang rejects a wrong kernel: a check that accepts everything would pass too.
fn check_that_errors_are_found(clang: &str, folder: &Path) -> Result<()> {
    let path = folder.join("wrong.cu");
    std::fs::write(&path, "extern \"C\" __global__ void wrong() { undeclared(); }\n")?;
    for architecture in ARCHITECTURES {
        match faults(clang, &path, architecture)? {
            Some(words) if words.contains("undeclared") => {}
            Some(words) => bail!("{clang} can't parse HIP for {architecture}:\n{words}"),
            None => bail!("{clang} accepted a wrong kernel for {architecture}"),
        }
    }
    Ok(())
}
