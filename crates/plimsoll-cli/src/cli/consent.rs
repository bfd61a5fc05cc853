//! The user's consent to run the code in a file.

use std::sync::Arc;

use plimsoll::core::Fault;
use plimsoll::custom::{Arguments, Cubin, Geometry, Request};

/// Makes a request from the files and arguments on the command line.
///
/// # Errors
/// Those of [`Request::new`].
pub(crate) fn build_request(
    cubin: Cubin,
    function: Option<&str>,
    arguments: Arguments,
    geometry: Geometry,
) -> Result<Request, Fault> {
    // SAFETY: nothing can check what a kernel does. The user asks for this file to be run with these arguments, as with any program
    // that they start, and `explain --help` says so. The device confines the kernel to memory of this process, where a wrong kernel
    // can damage this measurement only.
    unsafe { Request::new(Arc::new(cubin), function, arguments, geometry) }
}
