//! CUPTI's result codes as reasons and hints for the user.

use super::WHAT;
use super::types::Code;
use plimsoll_gpu::Unavailable;

/// `CUPTI_SUCCESS`.
pub(super) const SUCCESS: Code = 0;

/// `CUPTI_ERROR_INSUFFICIENT_PRIVILEGES`.
const FORBIDDEN: Code = 35;

/// The reason for a result other than success.
pub(super) fn refusal(call: &str, code: Code) -> Unavailable {
    let why = match meaning(code) {
        "" => format!("{call} returned {code}"),
        meaning => format!("{meaning} ({call} returned {code})"),
    };
    Unavailable::new(WHAT, why, hint(code))
}

/// The reason if the driver's settings restrict counters, known without calling CUPTI.
pub(super) fn restricted() -> Unavailable {
    Unavailable::new(WHAT, format!("{} (its RmProfilingAdminOnly is 1)", meaning(FORBIDDEN)), hint(FORBIDDEN))
}

/// The reason for a result that no working CUPTI returns.
pub(super) fn broken(why: String) -> Unavailable {
    Unavailable::new(WHAT, why, "Install a CUPTI of the driver's CUDA version")
}

/// A code in words; empty if it means nothing to a user.
fn meaning(code: Code) -> &'static str {
    match code {
        2 => "it doesn't know the device",
        8 => "there is not enough memory",
        12 => "there is no room for the counted data",
        14 | 15 | 999 => "it doesn't work with this driver",
        26 => "the hardware's counters are in use",
        27 | 38 => "the device's counters can't be read through it",
        33 => "counters of a virtual GPU can't be read",
        FORBIDDEN => "the driver lets only administrators read hardware counters",
        39 | 36 => "another profiler is active in this process",
        40 => "counters of this virtual GPU can't be read",
        41 => "counters can't be read while confidential computing is on",
        42 => "the counters of a mining processor can't be read",
        43 => "the counters of a MIG instance can't be read",
        45 => "counters can't be read under WSL with this driver",
        46 => "it is older than the device",
        _ => "",
    }
}

fn hint(code: Code) -> &'static str {
    match code {
        FORBIDDEN => {
            "Run as root (in a container with CAP_SYS_ADMIN), or let every user read them: put 'options nvidia \
             NVreg_RestrictProfilingToAdminUsers=0' into a file in /etc/modprobe.d and reload the driver"
        }
        33 | 40 => "Have the host's administrator enable profiling for this virtual GPU",
        26 | 36 | 39 => "End the other profiler (ncu, nsys, DCGM: dcgmi profile --pause) and try again",
        43 => "Measure a whole GPU, or a MIG instance that owns its whole GPU",
        46 => "Install a newer one: pip install nvidia-cuda-cupti",
        _ => "Update the NVIDIA driver, or install a CUPTI of the driver's CUDA version",
    }
}
