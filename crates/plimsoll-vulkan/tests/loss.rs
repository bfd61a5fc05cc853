//! What is told of a lost device, and how much memory is taken beside other processes: with a layer between the loader and the driver that
//! has the extensions for it and loses the device to order. The loader reads its environment once a process, so each case is a process of its
//! own: this program again.
#![allow(clippy::print_stdout, reason = "it is its own harness")]

mod common;

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments as Asked, Failed, Trial};
use plimsoll_core::{Fault, FaultClass};
use plimsoll_gen::kernel::check;
use plimsoll_gpu::unit::Unit;
use plimsoll_gpu::{Arguments, Gpu, Memory as _};
use plimsoll_vulkan::{Options, Vulkan, open};

use common::{TRUST, first, refused, stream};

/// Set for the process with the layer, to the case.
const CHILD: &str = "PLIMSOLL_TEST_CHILD";
/// Names the file whose being there loses the device.
const LOSE: &str = "PLIMSOLL_TEST_LOSE";
const LAYER: &str = include_str!("common/layer.c");

fn main() {
    match std::env::var(CHILD).as_deref() {
        Ok("loss") => return loss().expect("the device is opened before it is lost"),
        Ok("budget") => return budget().expect("the device is opened"),
        _ => {}
    }
    let compiler = Command::new("cc").arg("--version").output().is_ok_and(|output| output.status.success());
    let missing = match first() {
        Err(fault) => Some(fault.to_string()),
        Ok(_) if !compiler => Some("there is no C compiler".to_owned()),
        Ok(_) => None,
    };
    let trial = |name: &str, case: &'static str| match &missing {
        None => Trial::test(name, move || with_layer(case)),
        Some(why) => Trial::test(name, || Ok(())).with_ignored_flag(true).with_kind(why.clone()),
    };
    let trials = vec![
        trial("a_lost_device_tells_its_work_and_what_the_driver_says", "loss"),
        trial("no_more_is_allocated_than_the_driver_has_for_this_process", "budget"),
    ];
    libtest_mimic::run(&Asked::from_args(), trials).exit();
}

/// Runs a case in a process that has the layer.
fn with_layer(case: &str) -> Result<(), Failed> {
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
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.success() { Ok(()) } else { Err(Failed::from(said)) }
}

fn loss() -> Result<(), Fault> {
    let mut bench = open(first()?, &Options::default(), &[])?;
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
    let file = std::env::var_os(LOSE).ok_or_else(|| Fault::Invalid("no file to lose by".to_owned()))?;
    std::fs::write(Path::new(&file), "").map_err(|error| Fault::Invalid(error.to_string()))?;

    let why = refused(Vulkan::wait(&stream), FaultClass::DeviceLost);
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
    // Whoever asks later is told the cause, and nobody waits.
    let start = Instant::now();
    let lost = |answer: Result<(), Fault>| {
        let why = refused(answer, FaultClass::DeviceLost);
        assert!(why.contains("earlier fault") && why.contains("fill_words"), "{why}");
    };
    lost(Vulkan::launch(&stream, &good));
    lost(Vulkan::launch_graph(&stream, &graph));
    lost(Vulkan::submit(&stream));
    lost(Vulkan::wait(&stream));
    lost(Vulkan::wait_event(&mark));
    lost(Vulkan::upload(&stream, buffer.whole(), &[0; 4]));
    lost(Vulkan::download(&stream, buffer.whole(), &mut [0; 4]));
    lost(Vulkan::fill(&stream, buffer.whole(), 0));
    lost(Vulkan::allocate(&stream, 4096).map(drop));
    lost(launch().map(drop));
    lost(Vulkan::graph(&stream, std::slice::from_ref(&good), 2, false).map(drop));
    drop((graph, good, mark, unit, buffer, stream, bench));
    assert!(start.elapsed() < Duration::from_secs(1), "something was waited for");
    Ok(())
}

fn budget() -> Result<(), Fault> {
    let mut bench = open(first()?, &Options::default(), &[])?;
    let stream = stream(bench.device());
    let free = Vulkan::free_memory(bench.device())?;
    assert_eq!(free, (1 << 30) - (1 << 28));
    let fault = Vulkan::allocate(&stream, free + 4).err();
    assert!(matches!(fault, Some(Fault::OutOfMemory { asked, free: told }) if asked == free + 4 && told == free));
    Vulkan::allocate(&stream, 1 << 20).map(drop)
}
