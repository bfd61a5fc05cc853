//! A GPU that isn't there: the stand-in driver, and a compiler for it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use plimsoll::bench::Device;
use plimsoll_cuda::compile::{Compiler, Program};
use plimsoll_cuda::driver::Driver;
use plimsoll_cuda::{Options, Unavailable, open_with};

/// A compiler whose kernels take whatever they are given.
struct Anything;

impl Compiler for Anything {
    fn identity(&self) -> String {
        "anything for the stand-in 1.0".to_owned()
    }

    fn compile(&self, program: &Program<'_>) -> Result<Vec<u8>, Unavailable> {
        let takes_anything = matches!(program.name, "elementwise.cu" | "check.cu");
        Ok(if takes_anything {
            fakecuda::any_image()
        } else {
            fakecuda::image("plimsoll_spin(8,8);plimsoll_empty();scale(8,8,4)")
        })
    }
}

/// A device whose kernels do nothing, with its driver in `folder`.
pub fn device(folder: &Path) -> Device {
    let library = fakecuda::without(folder, &[]).unwrap();
    let deadline = Some(Duration::from_millis(500));
    let options = Options { no_cache: true, compiler: Some(Arc::new(Anything)), deadline, ..Options::default() };
    Device::Cuda(open_with(&Driver::open(&library).unwrap(), 0, &options).unwrap())
}
