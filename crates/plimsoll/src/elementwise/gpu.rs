//! Expressions on CUDA devices.

#[cfg(feature = "cudarc")]
pub use plimsoll_cuda::elementwise::cudarc;
pub use plimsoll_cuda::elementwise::{
    Argument, BoundExpression, Buffer, Engine, Error, Expression, Gpu, Kernel, Operand, Outputs, Recorded, Returned,
    View, ViewMut,
};
pub use plimsoll_cuda::memory::Plain;
pub use plimsoll_gen::elementwise::{Choose, Dependent, Plan, Tier};

/// Opens `cuda:index` with its kernel cache in the folder `cache`, or the user's cache folder if `None`.
///
/// # Errors
/// As for [`plimsoll_cuda::Cuda::device`].
pub fn open(index: u32, cache: Option<std::path::PathBuf>) -> Result<Gpu, Error> {
    let driver = plimsoll_cuda::driver::Driver::system().map_err(plimsoll_core::Fault::from)?;
    Gpu::open(&driver, index, &plimsoll_cuda::Options { cache, ..Default::default() })
}
