//! Users' own kernels: loads them, launches them, and times them. `plimsoll_gen::custom` reads cubins and arguments.
//!
//! A cubin may do anything with the device's memory, so loading one and launching it is `unsafe`. What can be checked is: the
//! file's structures, the number and sizes of arguments, and the grid and block against the device and the kernel. A fault of the
//! device names what the kernel did.

mod fault;
mod geometry;
#[allow(unsafe_code)]
mod kernel;
mod time;
mod windows;

use std::path::Path;

use plimsoll_core::Fault;
use plimsoll_core::file::{self, Accept};
use plimsoll_gen::sass::elf::MAX_CUBIN;

use crate::CudaDevice;
use crate::compile::Program;

pub use fault::explain_fault;
pub use kernel::{Kernel, Request, Value};
pub use plimsoll_gen::custom::{
    Argument, Arguments, Buffer, Cubin, CubinError, Described, Fill, GRAMMAR, Misfit, Occupied, Parameter,
    ParseArgumentError, Role, Signature, describe,
};
pub use time::{Custom, memory_needed};

/// Most bytes of a source that is compiled.
const MOST_SOURCE: u64 = 16 << 20;

/// Reads a cubin from a file or a pipe.
///
/// # Errors
/// [`Fault::Invalid`] with the path if it can't be read, is larger than 256 MiB or isn't an intact cubin.
pub fn read_cubin(path: &Path) -> Result<Cubin, Fault> {
    let bytes = file::read(path, MAX_CUBIN as u64, Accept::Streams).map_err(|error| unreadable(path, &error))?;
    Cubin::new(bytes).map_err(|error| match error {
        CubinError::Damaged(_) => Fault::Invalid(format!(
            "{}: {error}; nvcc -cubin makes a cubin, and cuobjdump -xelf all takes those out of a program or library",
            path.display()
        )),
        error => Fault::Invalid(format!("{}: {error}", path.display())),
    })
}

/// Compiles a file with CUDA C++ for a device, with NVRTC and without any header of a toolkit.
///
/// # Errors
/// [`Fault::Invalid`] with the compiler's message or why the file can't be read; [`Fault::Unavailable`] without a compiler.
pub fn compile_source(device: &CudaDevice, path: &Path) -> Result<Cubin, Fault> {
    let source = file::read_text(path, MOST_SOURCE, Accept::Streams).map_err(|error| unreadable(path, &error))?;
    let compiler = device.kernels.compiler()?;
    let name = path.file_name().map_or("source.cu".into(), |name| name.to_string_lossy());
    let target = device.kernels.target();
    let program = Program { name: &name, source: &source, headers: &[], options: &[], target };
    let cubin = compiler.compile(&program).map_err(|why| Fault::Invalid(why.why))?;
    Cubin::new(cubin).map_err(|error| Fault::Invalid(format!("{}: {error}", path.display())))
}

fn unreadable(path: &Path, error: &file::FileError) -> Fault {
    Fault::Invalid(format!("can't read {}: {error}", path.display()))
}
