//! What a fault of the device says about the kernel that caused it.

use plimsoll_core::Fault;

/// Names of results (cuda.h), with what a kernel did.
const MEANINGS: [(&str, &str); 8] = [
    ("ILLEGAL_ADDRESS", "the kernel accessed memory outside its arguments; run it under compute-sanitizer"),
    (
        "MISALIGNED_ADDRESS",
        "the kernel accessed memory at an address that isn't a multiple of the access's size; run it under compute-sanitizer",
    ),
    ("INVALID_ADDRESS_SPACE", "the kernel used an address in the wrong kind of memory; run it under compute-sanitizer"),
    ("HARDWARE_STACK_ERROR", "the kernel's stack overflowed"),
    ("ILLEGAL_INSTRUCTION", "the kernel ran an invalid instruction, or trapped"),
    ("ASSERT", "an assert() of the kernel failed"),
    ("INVALID_PC", "the kernel jumped outside its code"),
    (
        "LAUNCH_FAILED",
        "the kernel failed, for example by an access outside its shared memory; run it under compute-sanitizer",
    ),
];

/// Adds to a lost device what the kernel that ran on it did. Other faults stay as they are.
#[must_use]
pub fn explain_fault(fault: Fault) -> Fault {
    let Fault::DeviceLost { call, why } = fault else { return fault };
    let meaning = MEANINGS.iter().find(|(name, _)| why.contains(&format!("CUDA_ERROR_{name}")));
    let known = meaning.filter(|(_, meaning)| !why.contains(meaning));
    Fault::DeviceLost { call, why: known.map_or_else(|| why.clone(), |(_, meaning)| format!("{why}: {meaning}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_device_names_what_the_kernel_did_once() {
        let lost = |why: &str| Fault::DeviceLost { call: "cuStreamQuery", why: why.to_owned() };
        let explained = explain_fault(explain_fault(lost("CUDA_ERROR_ILLEGAL_ADDRESS (700)"))).to_string();
        let expected = "device lost in cuStreamQuery: CUDA_ERROR_ILLEGAL_ADDRESS (700): the kernel accessed memory outside its \
                        arguments; run it under compute-sanitizer";
        assert_eq!(explained, expected);
        let other = explain_fault(lost("CUDA_ERROR_ECC_UNCORRECTABLE (214)")).to_string();
        assert!(other.ends_with("(214)"), "{other}");
        assert!(matches!(explain_fault(Fault::Stopped), Fault::Stopped));
    }
}
