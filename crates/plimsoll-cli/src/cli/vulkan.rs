//! Vulkan devices for `plimsoll devices`. A separate process (`plimsoll devices --vulkan`) lists them, because the loader runs the
//! code of every driver that it finds, and a driver that crashes takes its process with it.

use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use plimsoll::core::Fault;
use plimsoll::{Candidate, VulkanAdapter};

use super::args::Format;
use super::exit::{Exit, Failure};
use super::sheet::{ALWAYS, Sheet};
use super::{devices, output};

/// How long a listing may take.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Maximum bytes read of a listing.
const MAX_BYTES: u64 = 1 << 20;
/// Time between two checks whether the process has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
const HINT: &str = "Set VK_DRIVER_FILES to the drivers to use, without the faulty one";

/// The devices as JSON objects, or a row with the absent name, the reason and a hint.
pub(crate) type Listed = Result<Vec<serde_json::Value>, [String; 3]>;

/// Runs `plimsoll devices --vulkan`, which lists the devices in this process.
pub(crate) fn run(format: Format) -> Result<Exit, Failure> {
    let listed: Listed = match plimsoll::vulkan_devices() {
        Ok(found) => Ok(found.iter().map(to_json).collect()),
        Err(fault) => Err(devices::absent_row(("Vulkan".to_owned(), fault))),
    };
    let text = match (format, &listed) {
        (Format::Json, Ok(found)) => plimsoll_report::json::to_text(&serde_json::json!({ "vulkan": found })),
        (Format::Json, Err(row)) => plimsoll_report::json::to_text(&serde_json::json!({ "not_here": row })),
        (_, Ok(found)) => sheet(found).render(format),
        (_, Err([_, why, hint])) => {
            let fault = Fault::Unavailable { what: "Vulkan", why: why.clone(), hint: hint.clone() };
            return Err(Failure::from(fault));
        }
    };
    output::print(&text)?;
    Ok(Exit::Success)
}

fn to_json(adapter: &VulkanAdapter) -> serde_json::Value {
    let why = adapter.usable.as_ref().err().map(ToString::to_string).unwrap_or_default();
    serde_json::json!({
        "device": format!("vulkan:{}", adapter.index),
        "name": adapter.name,
        "kind": adapter.kind.to_string(),
        "is_gpu": Candidate::from(adapter).is_gpu,
        "driver": adapter.driver,
        "uuid": adapter.uuid,
        "why_not": why,
    })
}

/// A row per device.
pub(crate) fn sheet(found: &[serde_json::Value]) -> Sheet<5> {
    let heads = [("device", ALWAYS), ("name", ALWAYS), ("kind", ALWAYS), ("driver", 1), ("why not", 1)];
    let mut sheet = Sheet::new(heads);
    for device in found {
        let text = |key: &str| plimsoll_report::text::clean(device[key].as_str().unwrap_or_default()).to_string();
        sheet.row(["device", "name", "kind", "driver", "why_not"].map(text));
    }
    sheet
}

/// The devices as `--device` can name them; none if they can't be listed.
pub(crate) fn candidates() -> Vec<Candidate> {
    let candidate = |device: &serde_json::Value| {
        let text = |key: &str| device[key].as_str().unwrap_or_default();
        Some(Candidate {
            selector: text("device").parse().ok()?,
            name: text("name").to_owned(),
            id: text("uuid").to_owned(),
            driver: text("driver").to_owned(),
            is_gpu: device["is_gpu"].as_bool().unwrap_or(false),
        })
    };
    list().unwrap_or_default().iter().filter_map(candidate).collect()
}

/// Lists the devices in another process, which may crash or hang.
pub(crate) fn list() -> Listed {
    let row = |why: String| ["Vulkan".to_owned(), why, HINT.to_owned()];
    let program = std::env::current_exe().map_err(|error| row(error.to_string()))?;
    let mut command = Command::new(program);
    command.args(["devices", "--vulkan", "--format", "json"]).stdin(Stdio::null());
    let text = read_listing(command, TIMEOUT).map_err(row)?;
    let listed: serde_json::Value =
        serde_json::from_str(&text).map_err(|error| row(format!("the list can't be parsed: {error}")))?;
    if let Some(found) = listed["vulkan"].as_array() {
        return Ok(found.clone());
    }
    Err(serde_json::from_value(listed["not_here"].clone()).unwrap_or_else(|_| row("the list is missing".to_owned())))
}

/// The output of a process, or an error that says how it ended.
fn read_listing(mut command: Command, timeout: Duration) -> Result<String, String> {
    let began = Instant::now();
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().map_err(|error| error.to_string())?;
    let pipe = child.stdout.take();
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        let _ = pipe.map(|pipe| pipe.take(MAX_BYTES).read_to_string(&mut text));
        text
    });
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if began.elapsed() < timeout => std::thread::sleep(POLL_INTERVAL),
            Ok(None) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("no list of devices after {} s: a driver hangs", timeout.as_secs()));
            }
            Err(error) => return Err(error.to_string()),
        }
    };
    if status.success() {
        return Ok(reader.join().unwrap_or_default());
    }
    Err(format!("the process that lists devices ended with {status}: a driver crashed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_crashing_or_hanging_driver_becomes_an_error_message() {
        let crash = read_listing(shell("kill -SEGV $$"), TIMEOUT).unwrap_err();
        assert!(crash.contains("signal: 11") && crash.contains("crashed"), "{crash}");
        let hang = read_listing(shell("exec sleep 60"), Duration::from_millis(50)).unwrap_err();
        assert!(hang.contains("hangs"), "{hang}");
        assert_eq!(read_listing(shell("echo list"), TIMEOUT).unwrap(), "list\n");
    }
}
