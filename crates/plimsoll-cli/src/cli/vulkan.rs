//! Vulkan devices for `plimsoll devices`. They are listed by a process of its own (`plimsoll devices --vulkan`), because the loader
//! runs the code of every driver that it finds, and a driver that crashes takes its process with it.

use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use plimsoll::VulkanAdapter;
use plimsoll::core::Fault;

use super::args::Format;
use super::exit::{Exit, Failure};
use super::sheet::{ALWAYS, Sheet};
use super::{devices, output};

/// How long a listing may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// Most bytes that are read of it.
const MOST: u64 = 1 << 20;
/// Time between two looks at whether it has ended.
const NAP: Duration = Duration::from_millis(5);
const MEND: &str = "Name the drivers to be used in VK_DRIVER_FILES, or leave the faulty one out";

/// What there is: devices as JSON objects, or a row of what is not here, why and what to do.
pub(crate) type Listed = Result<Vec<serde_json::Value>, [String; 3]>;

/// `plimsoll devices --vulkan`: lists in this process.
pub(crate) fn run(format: Format) -> Result<Exit, Failure> {
    let listed: Listed = match plimsoll::vulkan_devices() {
        Ok(found) => Ok(found.iter().map(object).collect()),
        Err(fault) => Err(devices::absent(("Vulkan".to_owned(), fault))),
    };
    let text = match (format, &listed) {
        (Format::Json, Ok(found)) => plimsoll_report::json::text(&serde_json::json!({ "vulkan": found })),
        (Format::Json, Err(row)) => plimsoll_report::json::text(&serde_json::json!({ "not_here": row })),
        (_, Ok(found)) => sheet(found).render(format),
        (_, Err([_, why, hint])) => {
            let fault = Fault::Unavailable { what: "Vulkan", why: why.clone(), hint: hint.clone() };
            return Err(Failure::from(fault));
        }
    };
    output::print(&text)?;
    Ok(Exit::Success)
}

fn object(adapter: &VulkanAdapter) -> serde_json::Value {
    let why = adapter.usable.as_ref().err().map(ToString::to_string).unwrap_or_default();
    serde_json::json!({
        "device": format!("vulkan:{}", adapter.index),
        "name": adapter.name,
        "kind": adapter.kind.to_string(),
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

/// Lists in another process, which may crash or hang.
pub(crate) fn list() -> Listed {
    let row = |why: String| ["Vulkan".to_owned(), why, MEND.to_owned()];
    let program = std::env::current_exe().map_err(|error| row(error.to_string()))?;
    let mut command = Command::new(program);
    command.args(["devices", "--vulkan", "--format", "json"]).stdin(Stdio::null());
    let text = listing(command, PATIENCE).map_err(row)?;
    let listed: serde_json::Value = serde_json::from_str(&text).map_err(|error| row(format!("its list: {error}")))?;
    if let Some(found) = listed["vulkan"].as_array() {
        return Ok(found.clone());
    }
    Err(serde_json::from_value(listed["not_here"].clone()).unwrap_or_else(|_| row("no list came".to_owned())))
}

/// What a process writes, or how it ended instead.
fn listing(mut command: Command, patience: Duration) -> Result<String, String> {
    let began = Instant::now();
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().map_err(|error| error.to_string())?;
    let pipe = child.stdout.take();
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        let _ = pipe.map(|pipe| pipe.take(MOST).read_to_string(&mut text));
        text
    });
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if began.elapsed() < patience => std::thread::sleep(NAP),
            Ok(None) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("no list of devices after {} s: a driver hangs", patience.as_secs()));
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
    fn a_driver_that_crashes_or_hangs_is_a_reason_and_no_end() {
        let crash = listing(shell("kill -SEGV $$"), PATIENCE).unwrap_err();
        assert!(crash.contains("signal: 11") && crash.contains("crashed"), "{crash}");
        let hang = listing(shell("exec sleep 60"), Duration::from_millis(50)).unwrap_err();
        assert!(hang.contains("hangs"), "{hang}");
        assert_eq!(listing(shell("echo list"), PATIENCE).unwrap(), "list\n");
    }
}
