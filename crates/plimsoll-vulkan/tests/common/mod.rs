//! Runs tests on the first Vulkan device that can be opened. If there is none, the tests are ignored and show the reason.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::sync::Arc;

use libtest_mimic::{Arguments, Failed, Trial};
use plimsoll_core::Fault;
use plimsoll_core::probe::Bench;
use plimsoll_gpu::{Gpu, Memory as _, Span, Trust};
use plimsoll_vulkan::{Buffer, Options, Stream, Vulkan, VulkanDevice, devices, open};

/// A test on an opened device.
pub type Test = fn(&mut Bench<Vulkan>) -> Result<(), Fault>;

// SAFETY: tests only launch kernels of this workspace, which keep to their descriptions.
#[allow(unsafe_code)]
pub const TRUST: Trust = unsafe { Trust::new() };

/// The index of the first device that can be opened.
pub fn first_usable() -> Result<u32, Fault> {
    let mut why = None;
    for adapter in devices(&Options::default())? {
        match adapter.usable {
            Ok(()) => return Ok(adapter.index),
            Err(reason) => why = Some(reason),
        }
    }
    let nothing = || Fault::Invalid("the list of devices is empty".to_owned());
    Err(why.map_or_else(nothing, Fault::from))
}

/// Runs the tests. Each opens the device anew.
pub fn run(tests: &[(&'static str, Test)]) {
    let ready = first_usable();
    let trial = |&(name, test): &(&'static str, Test)| match &ready {
        Ok(index) => {
            let index = *index;
            let run = move || test(&mut open(index, &Options::default(), plimsoll_probes::gpu_probes().leak())?);
            Trial::test(name, move || run().map_err(|fault| Failed::from(fault.to_string())))
        }
        Err(fault) => Trial::test(name, || Ok(())).with_ignored_flag(true).with_kind(fault.to_string()),
    };
    libtest_mimic::run(&Arguments::from_args(), tests.iter().map(trial).collect()).exit();
}

/// The device's stream.
pub fn stream(device: &VulkanDevice) -> Arc<Stream> {
    Arc::clone(Vulkan::stream(device))
}

/// Allocates memory with this content.
pub fn upload(stream: &Arc<Stream>, bytes: &[u8]) -> Result<Buffer, Fault> {
    let buffer = Vulkan::allocate(stream, bytes.len() as u64)?;
    Vulkan::upload(stream, buffer.whole(), bytes)?;
    Ok(buffer)
}

/// Reads the content of a span.
pub fn download(stream: &Arc<Stream>, span: Span) -> Result<Vec<u8>, Fault> {
    let mut bytes = vec![0; span.bytes() as usize];
    Vulkan::download(stream, span, &mut bytes)?;
    Ok(bytes)
}

/// Converts bytes to 4-byte words.
pub fn to_words(bytes: &[u8]) -> Vec<u32> {
    bytes.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect()
}

/// Converts bytes to 8-byte words.
pub fn to_longs(bytes: &[u8]) -> Vec<u64> {
    bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect()
}

/// Converts words to bytes.
pub fn to_bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Asserts that the answer is a fault of this class, and returns its message.
#[track_caller]
pub fn assert_refused<T>(answer: Result<T, Fault>, class: plimsoll_core::FaultClass) -> String {
    match answer {
        Ok(_) => panic!("the call succeeded, and should have been refused"),
        Err(fault) => {
            assert_eq!(fault.class(), class, "{fault}");
            fault.to_string()
        }
    }
}
