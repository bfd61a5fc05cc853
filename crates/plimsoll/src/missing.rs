//! The error for what a build lacks.

use plimsoll_core::Fault;

/// A backend that is not in this build.
pub(crate) fn feature(what: &'static str, feature: &str) -> Fault {
    let why = format!("this build has no feature `{feature}`");
    Fault::Unavailable { what, why, hint: format!("Build with the feature `{feature}`") }
}
