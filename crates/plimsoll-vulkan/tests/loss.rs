//! Messages for a lost device, and the limit of allocations by the budget of this process. A layer between loader and driver adds
//! the extensions for both, and loses the device on request. The loader reads its environment once per process, so each case runs
//! this program in a separate process.
#![allow(clippy::print_stdout, reason = "it is its own harness")]

mod common;

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments as TestArguments, Failed, Trial};
use plimsoll_core::{Fault, FaultClass};
use plimsoll_gen::kernel::check;
use plimsoll_gpu::unit::Unit;
use plimsoll_gpu::{Arguments, Gpu, Memory as _};
use plimsoll_vulkan::{Options, Vulkan, open};

use common::{TRUST, assert_refused, first_usable, stream};

/// Set to the name of the case for the child process with the layer.
const CHILD: &str = "PLIMSOLL_TEST_CHILD";
/// Names a file: once it exists, the layer loses the device.
const LOSE: &str = "PLIMSOLL_TEST_LOSE";
const LAYER: &str = include_str!("common/layer.c");

fn main() {
    match std::env::var(CHILD).as_deref() {
        Ok("loss") => return check_loss().expect("the device is opened before it is lost"),
        Ok("budget") => return check_budget().expect("the device is opened"),
        _ => {}
    }
    let compiler = Command::new("cc").arg("--version").output().is_ok_and(|output| output.status.success());
    let missing = match first_usable() {
        Err(fault) => Some(fault.to_string()),
        Ok(_) if !compiler => Some("there is no C compiler".to_owned()),
        Ok(_) => None,
    };
    let trial = |name: &str, case: &'static str| match &missing {
        None => Trial::test(name, move || run_with_layer(case)),
        Some(why) => Trial::test(name, || Ok(())).with_ignored_flag(true).with_kind(why.clone()),
    };
    let trials = vec![
        trial("lost_device_reports_its_work_and_the_drivers_report", "loss"),
        trial("allocations_stay_within_the_budget_of_this_process", "budget"),
    ];
    libtest_mimic::run(&TestArguments::from_args(), trials).exit();
}

/// Runs a case in a process that has the layer.
fn run_with_layer(case: &str) -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let (source, library) = (folder.path().join("layer.c"), folder.path().join("liblayer.so"));
    std::fs::write(&source, LAYER)?;
    let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).status()?;
    assert!(built.success());
    let layer = format!(
        r#"{{"file_format_version": "1.1.2", "layer": {{"name": "VK_LAYER_plimsoll_test", "type": "GLOBAL",
            "library_path": "{}", "api_version": "1.3.0", "implementation_version": "1", "description": "for tests"}}}}"#,
        library.display()
    );
    std::fs::write(folder.path().join("layer.json"), layer)?;
    let mut child = Command::new(std::env::current_exe()?);
    child.env(CHILD, case).env(LOSE, folder.path().join("lose"));
    child.env("VK_LAYER_PATH", folder.path()).env("VK_INSTANCE_LAYERS", "VK_LAYER_plimsoll_test");
    let output = child.output()?;
    let [stdout, stderr] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    if output.status.success() { Ok(()) } else { Err(Failed::from(format!("{}\n{stdout}{stderr}", output.status))) }
}

fn check_loss() -> Result<(), Fault> {
    let mut bench = open(first_usable()?, &Options::default(), &[])?;
    let stream = stream(bench.device());
    let words = check::words();
    let unit =
        Unit::<Vulkan>::new(bench.device(), &plimsoll_gen::kernel::check::SOURCE, std::slice::from_ref(&words), TRUST)?;
    let buffer = Vulkan::allocate(&stream, 1 << 20)?;
    let launch = || unit.launch(&words, 1 << 18, Arguments::new().span(buffer.whole()).u32(7).u64(1 << 18));
    let (good, mark) = (launch()?, Vulkan::event(&stream)?);
    let graph = Vulkan::graph(&stream, std::slice::from_ref(&good), 2, false)?;
    for _ in 0..3 {
        Vulkan::launch(&stream, &good)?;
    }
    Vulkan::record(&mark, &stream)?;
    let file = std::env::var_os(LOSE)
        .ok_or_else(|| Fault::Invalid("the variable with the file's name is not set".to_owned()))?;
    std::fs::write(Path::new(&file), "").map_err(|error| Fault::Invalid(error.to_string()))?;

    let why = assert_refused(Vulkan::wait(&stream), FaultClass::DeviceLost);
    let blocks = words.geometry(1 << 18, unit.machine())?.blocks;
    let parts = [
        "vkWaitForFences".to_owned(),
        "VK_ERROR_DEVICE_LOST".to_owned(),
        format!("not seen to end: 3 times fill_words of {blocks} blocks;"),
        "a fault for tests; a read of 0x10 to 0x1f, before all arrays; unit 3 (code 0x1f, data 0x7)".to_owned(),
        "arrays, ".to_owned(),
        "bytes allocated".to_owned(),
    ];
    for part in parts {
        assert!(why.contains(&part), "{part} is missing from: {why}");
    }
    // Later calls report the cause, and nothing waits.
    let start = Instant::now();
    let assert_lost = |answer: Result<(), Fault>| {
        let why = assert_refused(answer, FaultClass::DeviceLost);
        assert!(why.contains("earlier fault") && why.contains("fill_words"), "{why}");
    };
    assert_lost(Vulkan::launch(&stream, &good));
    assert_lost(Vulkan::launch_graph(&stream, &graph));
    assert_lost(Vulkan::submit(&stream));
    assert_lost(Vulkan::wait(&stream));
    assert_lost(Vulkan::wait_event(&mark));
    assert_lost(Vulkan::upload(&stream, buffer.whole(), &[0; 4]));
    assert_lost(Vulkan::download(&stream, buffer.whole(), &mut [0; 4]));
    assert_lost(Vulkan::fill(&stream, buffer.whole(), 0));
    assert_lost(Vulkan::allocate(&stream, 4096).map(drop));
    assert_lost(launch().map(drop));
    assert_lost(Vulkan::graph(&stream, std::slice::from_ref(&good), 2, false).map(drop));
    drop((graph, good, mark, unit, buffer, stream, bench));
    assert!(start.elapsed() < Duration::from_secs(1), "something was waited for");
    Ok(())
}

fn check_budget() -> Result<(), Fault> {
    let mut bench = open(first_usable()?, &Options::default(), &[])?;
    let stream = stream(bench.device());
    let free = Vulkan::free_memory(bench.device())?;
    assert_eq!(free, (1 << 30) - (1 << 28));
    let fault = Vulkan::allocate(&stream, free + 4).err();
    assert!(
        matches!(fault, Some(Fault::OutOfMemory { asked, free: reported }) if asked == free + 4 && reported == Some(free))
    );
    Vulkan::allocate(&stream, 1 << 20).map(drop)
}
