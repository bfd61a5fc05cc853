//! Messages where Vulkan is missing or broken. The loader reads its environment once per process, so each case runs this program in
//! a separate process.
#![allow(clippy::print_stdout, reason = "it is its own harness")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use libtest_mimic::{Arguments, Failed, Trial};
use plimsoll_core::Fault;
use plimsoll_vulkan::{Options, devices, open};

/// Set for the child process, which lists the devices and exits.
const CHILD: &str = "PLIMSOLL_TEST_CHILD";
/// A driver that the loader accepts and that aborts at the first call.
const CRASHING: &str = "
#include <stdlib.h>
int vk_icdNegotiateLoaderICDInterfaceVersion(unsigned *version) { (void)version; return 0; }
void *vk_icdGetInstanceProcAddr(void *instance, const char *name) { (void)instance; (void)name; abort(); }
";

fn main() {
    if std::env::var_os(CHILD).is_some() {
        match devices(&Options::default()) {
            Ok(found) => println!("{} device(s)", found.len()),
            Err(fault) => println!("{fault}"),
        }
        return;
    }
    let without =
        matches!(devices(&Options::default()), Err(Fault::Unavailable { hint, .. }) if hint.contains("libvulkan1"));
    let test = |name: &str, run: fn() -> Result<(), Failed>| Trial::test(name, run);
    let with_loader = |name: &str, run: fn() -> Result<(), Failed>| {
        if without {
            test(name, run).with_ignored_flag(true).with_kind("there is no Vulkan loader")
        } else {
            test(name, run)
        }
    };
    let crashing = with_loader("crashing_driver_ends_only_its_process", crashing_driver_ends_only_its_process);
    let compiler = Command::new("cc").arg("--version").output().is_ok_and(|output| output.status.success());
    let crashing =
        if compiler { crashing } else { crashing.with_ignored_flag(true).with_kind("there is no C compiler") };
    let trials = vec![
        test("library_that_is_not_a_loader_is_named", library_that_is_not_a_loader_is_named),
        with_loader("loader_without_drivers_is_reported", loader_without_drivers_is_reported),
        with_loader("unloadable_driver_is_skipped", unloadable_driver_is_skipped),
        with_loader("missing_device_is_refused", missing_device_is_refused),
        crashing,
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

/// Lists the devices in a process that sees only these drivers.
fn list_in_child(drivers: &Path) -> Result<Output, Failed> {
    let mut child = Command::new(std::env::current_exe()?);
    child.env(CHILD, "1").env("VK_DRIVER_FILES", drivers).env("VK_ICD_FILENAMES", drivers);
    Ok(child.env_remove("VK_ADD_DRIVER_FILES").output()?)
}

fn write_manifest(folder: &Path, library: &str) -> Result<PathBuf, Failed> {
    let path = folder.join("icd.json");
    let text = format!(
        r#"{{"file_format_version": "1.0.0", "ICD": {{"library_path": "{library}", "api_version": "1.3.0"}}}}"#
    );
    std::fs::write(&path, text)?;
    Ok(path)
}

fn library_that_is_not_a_loader_is_named() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let text = folder.path().join("text.so");
    std::fs::write(&text, "no library")?;
    let libraries = [PathBuf::from("/nonexistent/libvulkan.so.1"), text, PathBuf::from("libm.so.6")];
    for loader in libraries {
        let options = Options { loader: Some(loader.clone()), ..Options::default() };
        for fault in [devices(&options).map(drop), open(0, &options, &[]).map(drop)] {
            let Err(Fault::Unavailable { what, why, hint }) = fault else { return Err("no reason was given".into()) };
            assert!(what == "Vulkan" && why.contains(&*loader.to_string_lossy()), "{what}: {why}");
            assert!(hint.contains("libvulkan1"), "{hint}");
        }
    }
    Ok(())
}

fn loader_without_drivers_is_reported() -> Result<(), Failed> {
    let output = list_in_child(Path::new("/nonexistent"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && text.contains("found no driver") && text.contains("VK_DRIVER_FILES"), "{text}");
    Ok(())
}

fn unloadable_driver_is_skipped() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let missing = write_manifest(folder.path(), "/nonexistent/libdriver.so")?;
    let output = list_in_child(&missing)?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && text.contains("found no driver"), "{text}");
    std::fs::write(&missing, "{ no manifest")?;
    let output = list_in_child(&missing)?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && text.starts_with("Vulkan: "), "{text}");
    Ok(())
}

fn missing_device_is_refused() -> Result<(), Failed> {
    // If there is no driver at all, the message says that instead.
    let Err(Fault::Unavailable { what, why, .. }) = open(1000, &Options::default(), &[]) else {
        return Err("a thousandth device was opened".into());
    };
    assert!(what.starts_with("Vulkan") && (why.contains("no vulkan:1000") || why.contains("no driver")), "{why}");
    Ok(())
}

/// The process whose loader calls the driver is lost; its parent continues.
fn crashing_driver_ends_only_its_process() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let (source, library) = (folder.path().join("driver.c"), folder.path().join("libdriver.so"));
    std::fs::write(&source, CRASHING)?;
    let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).status()?;
    assert!(built.success());
    let output = list_in_child(&write_manifest(folder.path(), &library.to_string_lossy())?)?;
    assert!(!output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    Ok(())
}
