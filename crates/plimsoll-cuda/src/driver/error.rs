//! Errors of driver calls, with the call and the code, and their effect on a run.

use plimsoll_core::Fault;

use super::types::Code;
use plimsoll_gpu::Unavailable;

/// `CUDA_SUCCESS`.
pub const SUCCESS: Code = 0;
/// `CUDA_ERROR_OUT_OF_MEMORY`.
pub const OUT_OF_MEMORY: Code = 2;
/// `CUDA_ERROR_STUB_LIBRARY`.
pub const STUB_LIBRARY: Code = 34;
/// `CUDA_ERROR_DEVICE_UNAVAILABLE`.
pub const DEVICE_UNAVAILABLE: Code = 46;
/// `CUDA_ERROR_NO_DEVICE`.
pub const NO_DEVICE: Code = 100;
/// `CUDA_ERROR_NOT_READY`: work is still running.
pub const NOT_READY: Code = 600;

/// Why a driver call failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DriverError {
    /// This driver has no such call, or there is no driver.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// The call returned an error.
    #[error("{call} returned {} ({code})", name(*code))]
    Call {
        /// The call's symbol.
        call: &'static str,
        /// Its result, a `CUresult`.
        code: Code,
    },
}

impl DriverError {
    /// The result code; `None` if the call doesn't exist.
    #[must_use]
    pub fn code(&self) -> Option<Code> {
        match self {
            Self::Unavailable(_) => None,
            Self::Call { code, .. } => Some(*code),
        }
    }

    /// Whether the context, and often the device, is unusable from now on.
    #[must_use]
    pub fn is_device_lost(&self) -> bool {
        self.code().is_some_and(is_loss)
    }
}

/// Converts the result of a query: true if the work is done, false if it is not ready.
pub(super) fn is_done(result: Result<(), DriverError>) -> Result<bool, DriverError> {
    match result {
        Ok(()) => Ok(true),
        Err(DriverError::Call { code: NOT_READY, .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Codes after which every later call on the context fails, according to cuda.h, and codes that mean that the device itself is
/// gone. Unknown codes don't count as a loss.
const LOSSES: &[Code] =
    &[4, 46, 201, 214, 219, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721, 810, 911, 916, 999];

fn is_loss(code: Code) -> bool {
    LOSSES.contains(&code)
}

impl From<DriverError> for Fault {
    /// A loss ends all work on the device; any other error ends only the task that made the call. The sizes of a failed allocation
    /// are unknown here: `memory` makes its own fault with them.
    fn from(error: DriverError) -> Self {
        let why = error.to_string();
        match error {
            DriverError::Unavailable(reason) => reason.into(),
            DriverError::Call { call, code } if is_loss(code) => {
                Fault::DeviceLost { call, why: format!("{} ({code})", name(code)) }
            }
            DriverError::Call { code: OUT_OF_MEMORY, .. } => Fault::OutOfMemory { asked: 0, free: None },
            DriverError::Call { code, .. } => Fault::Unavailable { what: "CUDA", why, hint: hint(code).to_owned() },
        }
    }
}

/// What the user can do about an error code.
#[must_use]
pub fn hint(code: Code) -> &'static str {
    match code {
        3 => "Start plimsoll again; if the error persists, reload the driver's kernel module",
        STUB_LIBRARY => {
            "Remove the folder of the toolkit's stub library from LD_LIBRARY_PATH so that the driver's own libcuda.so.1 \
             is found"
        }
        36 | 222 | 803 | 804 => {
            "Update the NVIDIA driver, or use an NVRTC whose major version is not above the driver's"
        }
        DEVICE_UNAVAILABLE => {
            "Another process holds the device in exclusive mode, or computing is prohibited: see nvidia-smi -q -d COMPUTE"
        }
        NO_DEVICE | 101 => "See what nvidia-smi lists and what CUDA_VISIBLE_DEVICES allows, or use the CPU",
        200 | 209 | 218 => "Compile for this device: empty the kernel cache, or switch it off",
        800 => "Ask the administrator for access to the device",
        215 | 801 => "This device or driver doesn't support it; the other probes continue",
        802 => "Wait until the machine's fabric manager has started: systemctl status nvidia-fabricmanager",
        805..=809 => "Check the MPS server (nvidia-cuda-mps-control) that this process connects to",
        _ => "Check the driver with nvidia-smi; if it works, this is a bug in plimsoll: please report it",
    }
}

/// The name of a code in cuda.h, without calling the driver, which may itself be at fault.
#[must_use]
pub fn name(code: Code) -> &'static str {
    match code {
        0 => "CUDA_SUCCESS",
        1 => "CUDA_ERROR_INVALID_VALUE",
        2 => "CUDA_ERROR_OUT_OF_MEMORY",
        3 => "CUDA_ERROR_NOT_INITIALIZED",
        4 => "CUDA_ERROR_DEINITIALIZED",
        34 => "CUDA_ERROR_STUB_LIBRARY",
        36 => "CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER",
        46 => "CUDA_ERROR_DEVICE_UNAVAILABLE",
        100 => "CUDA_ERROR_NO_DEVICE",
        101 => "CUDA_ERROR_INVALID_DEVICE",
        102 => "CUDA_ERROR_DEVICE_NOT_LICENSED",
        200 => "CUDA_ERROR_INVALID_IMAGE",
        201 => "CUDA_ERROR_INVALID_CONTEXT",
        209 => "CUDA_ERROR_NO_BINARY_FOR_GPU",
        214 => "CUDA_ERROR_ECC_UNCORRECTABLE",
        215 => "CUDA_ERROR_UNSUPPORTED_LIMIT",
        218 => "CUDA_ERROR_INVALID_PTX",
        219 => "CUDA_ERROR_INVALID_GRAPHICS_CONTEXT",
        220 => "CUDA_ERROR_NVLINK_UNCORRECTABLE",
        222 => "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
        226 => "CUDA_ERROR_CONTAINED",
        300 => "CUDA_ERROR_INVALID_SOURCE",
        302 => "CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND",
        304 => "CUDA_ERROR_OPERATING_SYSTEM",
        400 => "CUDA_ERROR_INVALID_HANDLE",
        401 => "CUDA_ERROR_ILLEGAL_STATE",
        500 => "CUDA_ERROR_NOT_FOUND",
        600 => "CUDA_ERROR_NOT_READY",
        700 => "CUDA_ERROR_ILLEGAL_ADDRESS",
        701 => "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
        702 => "CUDA_ERROR_LAUNCH_TIMEOUT",
        709 => "CUDA_ERROR_CONTEXT_IS_DESTROYED",
        710 => "CUDA_ERROR_ASSERT",
        714 => "CUDA_ERROR_HARDWARE_STACK_ERROR",
        715 => "CUDA_ERROR_ILLEGAL_INSTRUCTION",
        716 => "CUDA_ERROR_MISALIGNED_ADDRESS",
        717 => "CUDA_ERROR_INVALID_ADDRESS_SPACE",
        718 => "CUDA_ERROR_INVALID_PC",
        719 => "CUDA_ERROR_LAUNCH_FAILED",
        720 => "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE",
        721 => "CUDA_ERROR_TENSOR_MEMORY_LEAK",
        800 => "CUDA_ERROR_NOT_PERMITTED",
        801 => "CUDA_ERROR_NOT_SUPPORTED",
        802 => "CUDA_ERROR_SYSTEM_NOT_READY",
        803 => "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
        804 => "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE",
        805 => "CUDA_ERROR_MPS_CONNECTION_FAILED",
        807 => "CUDA_ERROR_MPS_SERVER_NOT_READY",
        810 => "CUDA_ERROR_MPS_CLIENT_TERMINATED",
        910 => "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE",
        911 => "CUDA_ERROR_EXTERNAL_DEVICE",
        912 => "CUDA_ERROR_INVALID_CLUSTER_SIZE",
        916 => "CUDA_ERROR_KEY_ROTATION",
        999 => "CUDA_ERROR_UNKNOWN",
        _ => "an unknown error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_losses_end_the_device() {
        for code in [214, 46, 700, 719, 999] {
            let fault = Fault::from(DriverError::Call { call: "cuEventQuery", code });
            assert!(fault.ends_the_device() && fault.to_string().contains("cuEventQuery"), "{fault}");
        }
        for code in [1, 2, 209, 500, 801, 12345] {
            let fault = Fault::from(DriverError::Call { call: "cuModuleLoadData", code });
            assert!(!fault.ends_the_device(), "{fault}");
        }
    }
}
