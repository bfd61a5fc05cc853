//! What CUPTI's answers mean for a user: the reason and the way out.

use super::WHAT;
use super::types::Code;
use plimsoll_gpu::Unavailable;

/// `CUPTI_SUCCESS`.
pub(super) const SUCCESS: Code = 0;

/// `CUPTI_ERROR_INSUFFICIENT_PRIVILEGES`.
const FORBIDDEN: Code = 35;

/// An answer other than success.
pub(super) fn refusal(call: &str, code: Code) -> Unavailable {
    let why = match meaning(code) {
        "" => format!("{call} answered {code}"),
        meaning => format!("{meaning} ({call} answered {code})"),
    };
    Unavailable::new(WHAT, why, hint(code))
}

/// The same as the driver's own settings tell it, before anything is asked of CUPTI.
pub(super) fn restricted() -> Unavailable {
    Unavailable::new(WHAT, format!("{} (its RmProfilingAdminOnly is 1)", meaning(FORBIDDEN)), hint(FORBIDDEN))
}

/// What no working CUPTI answers.
pub(super) fn broken(why: String) -> Unavailable {
    Unavailable::new(WHAT, why, "Install a CUPTI of the driver's CUDA version")
}

/// In words; empty where the code says nothing to a user.
fn meaning(code: Code) -> &'static str {
    match code {
        2 => "the device is not one that it knows",
        8 => "there is not enough memory",
        12 => "there is no room for what was counted",
        14 | 15 | 999 => "it does not get on with the driver",
        26 => "the hardware's counters are in use",
        27 | 38 => "the device's counters can't be read through it",
        33 => "a virtual GPU does not let its counters be read",
        FORBIDDEN => "the driver lets administrators alone read hardware counters",
        39 | 36 => "another profiler is at work in this process",
        40 => "this virtual GPU does not let its counters be read",
        41 => "counters can't be read while confidential computing is on",
        42 => "the counters of a mining processor can't be read",
        43 => "the counters of an instance of a divided GPU can't be read",
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
        43 => "Measure a whole GPU, or an instance that owns all of its GPU",
        46 => "Install a newer one: pip install nvidia-cuda-cupti",
        _ => "Update the NVIDIA driver, or install a CUPTI of the driver's CUDA version",
    }
}
