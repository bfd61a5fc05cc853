//! What is said where Vulkan is missing or broken. The loader reads its environment once a process, so each case asks in a process of
//! its own: this program again.
#![allow(clippy::print_stdout, reason = "it is its own harness")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use libtest_mimic::{Arguments, Failed, Trial};
use plimsoll_core::Fault;
use plimsoll_vulkan::{Options, devices, open};

/// Set for the process that asks: it lists the devices and ends.
const CHILD: &str = "PLIMSOLL_TEST_CHILD";
/// A driver that the loader accepts and that dies when it is asked anything.
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
    let crashing = with_loader("a_driver_that_crashes_takes_its_process_alone", a_driver_that_crashes);
    let compiler = Command::new("cc").arg("--version").output().is_ok_and(|output| output.status.success());
    let crashing =
        if compiler { crashing } else { crashing.with_ignored_flag(true).with_kind("there is no C compiler") };
    let trials = vec![
        test("a_library_that_is_no_loader_is_named", a_library_that_is_no_loader),
        with_loader("a_loader_without_drivers_says_so", a_loader_without_drivers),
        with_loader("a_driver_that_can_not_be_loaded_is_passed_over", a_driver_that_can_not_be_loaded),
        with_loader("a_device_that_is_not_there_is_an_error", a_device_that_is_not_there),
        crashing,
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

/// Asks in a process that sees these drivers alone.
fn ask(drivers: &Path) -> Result<Output, Failed> {
    let mut child = Command::new(std::env::current_exe()?);
    child.env(CHILD, "1").env("VK_DRIVER_FILES", drivers).env("VK_ICD_FILENAMES", drivers);
    Ok(child.env_remove("VK_ADD_DRIVER_FILES").output()?)
}

fn manifest(folder: &Path, library: &str) -> Result<PathBuf, Failed> {
    let path = folder.join("icd.json");
    let text = format!(
        r#"{{"file_format_version": "1.0.0", "ICD": {{"library_path": "{library}", "api_version": "1.3.0"}}}}"#
    );
    std::fs::write(&path, text)?;
    Ok(path)
}

fn a_library_that_is_no_loader() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let text = folder.path().join("text.so");
    std::fs::write(&text, "no library")?;
    let libraries = [PathBuf::from("/nonexistent/libvulkan.so.1"), text, PathBuf::from("libm.so.6")];
    for loader in libraries {
        let options = Options { loader: Some(loader.clone()), ..Options::default() };
        for fault in [devices(&options).map(drop), open(0, &options, &[]).map(drop)] {
            let Err(Fault::Unavailable { what, why, hint }) = fault else { return Err("no reason was told".into()) };
            assert!(what == "Vulkan" && why.contains(&*loader.to_string_lossy()), "{what}: {why}");
            assert!(hint.contains("libvulkan1"), "{hint}");
        }
    }
    Ok(())
}

fn a_loader_without_drivers() -> Result<(), Failed> {
    let said = ask(Path::new("/nonexistent"))?;
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(said.status.success() && text.contains("found no driver") && text.contains("VK_DRIVER_FILES"), "{text}");
    Ok(())
}

fn a_driver_that_can_not_be_loaded() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let missing = manifest(folder.path(), "/nonexistent/libdriver.so")?;
    let said = ask(&missing)?;
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(said.status.success() && text.contains("found no driver"), "{text}");
    std::fs::write(&missing, "{ no manifest")?;
    let said = ask(&missing)?;
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(said.status.success() && text.starts_with("Vulkan: "), "{text}");
    Ok(())
}

fn a_device_that_is_not_there() -> Result<(), Failed> {
    // Where there is no driver either, that is what is told.
    let Err(Fault::Unavailable { what, why, .. }) = open(1000, &Options::default(), &[]) else {
        return Err("a thousandth device was opened".into());
    };
    assert!(what.starts_with("Vulkan") && (why.contains("no vulkan:1000") || why.contains("no driver")), "{why}");
    Ok(())
}

/// Nothing can be done for that process, whose loader calls the driver; the one that started it goes on.
fn a_driver_that_crashes() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let (source, library) = (folder.path().join("driver.c"), folder.path().join("libdriver.so"));
    std::fs::write(&source, CRASHING)?;
    let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).status()?;
    assert!(built.success());
    let said = ask(&manifest(folder.path(), &library.to_string_lossy())?)?;
    assert!(!said.status.success(), "{}", String::from_utf8_lossy(&said.stdout));
    Ok(())
}
