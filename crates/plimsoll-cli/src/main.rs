//! The plimsoll command.

use std::process::ExitCode;

/// NCCL's variable that switches off NVLink multicast.
const MULTICAST: &str = "NCCL_NVLS_ENABLE";

fn main() -> ExitCode {
    leave_multicast_off();
    plimsoll_cli::run(std::env::args_os().collect()).into()
}

/// Switches NVLink multicast off in NCCL, unless the user has decided: NCCL reads the variable when it is first used. The probe
/// `nccl` refuses to run in a process where nobody has decided.
fn leave_multicast_off() {
    if std::env::var_os(MULTICAST).is_none_or(|setting| setting.is_empty()) {
        // SAFETY: nothing else runs yet, so no other thread reads or writes the environment.
        unsafe { std::env::set_var(MULTICAST, "0") };
    }
}
