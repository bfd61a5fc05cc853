//! A simulated GPU: the stand-in driver, and a compiler for it.
#![allow(dead_code, reason = "each test binary uses its part")]

#[path = "../../../plimsoll-cuda/tests/common/probe_image.rs"]
mod probe_image;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use plimsoll::bench::Device;
use plimsoll_cuda::compile::{Compiler, Program};
use plimsoll_cuda::driver::Driver;
use plimsoll_cuda::elementwise::Gpu;
use plimsoll_cuda::{Options, Unavailable, open_with};
use probe_image::probe_image;

/// A compiler that accepts any source and makes kernels that do nothing.
struct AcceptAnything;

// SAFETY: kernels of the stand-in driver do nothing.
unsafe impl Compiler for AcceptAnything {
    fn identity(&self) -> String {
        "anything for the stand-in 1.0".to_owned()
    }

    fn compile(&self, program: &Program<'_>) -> Result<Vec<u8>, Unavailable> {
        Ok(probe_image(program).unwrap_or_else(|| fakecuda::image_from_text(program.source).unwrap()))
    }
}

fn options() -> Options {
    let deadline = Some(Duration::from_millis(500));
    Options { no_cache: true, compiler: Some(Arc::new(AcceptAnything)), deadline, ..Options::default() }
}

fn driver(folder: &Path) -> Arc<Driver> {
    Driver::open(&fakecuda::driver_without(folder, &[]).unwrap()).unwrap()
}

/// A device whose kernels do nothing, with its driver in `folder`.
pub fn device(folder: &Path) -> Device {
    Device::Cuda(open_with(&driver(folder), 0, &options(), plimsoll_probes::cuda_probes()).unwrap())
}

/// The same for expressions.
pub fn gpu(folder: &Path) -> Gpu {
    Gpu::open(&driver(folder), 0, &options()).unwrap()
}
