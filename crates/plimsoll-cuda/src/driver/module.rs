//! Loaded cubins and their kernels.

use std::ffi::{CStr, CString};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use plimsoll_gen::sass::Image;

use super::Context;
use super::error::DriverError;
use super::types::{ATTRIBUTE_CLUSTER, DevicePointer, Handle, LaunchAttribute, LaunchConfig};
use crate::launch::Geometry;
use plimsoll_gpu::Unavailable;

/// A cubin loaded into a context.
#[derive(Debug)]
pub struct Module {
    context: Arc<Context>,
    handle: Handle,
    /// The parsed cubin; `None` for a file that our parser doesn't understand.
    image: Option<Image>,
    /// Whether it stays loaded until the process ends.
    stays: AtomicBool,
}

impl Module {
    /// Loads a cubin of unknown origin.
    ///
    /// # Safety
    /// It must be a complete cubin, fatbinary or PTX text: the driver reads as far as the headers in it say.
    ///
    /// # Errors
    /// `CUDA_ERROR_NO_BINARY_FOR_GPU` if it was compiled for another device.
    pub unsafe fn load(context: &Arc<Context>, cubin: &[u8]) -> Result<Arc<Self>, DriverError> {
        // SAFETY: the caller guarantees a complete cubin.
        let handle = unsafe { load(context, cubin) }?;
        Ok(Self::new(context, handle, Image::new(cubin.to_vec()).ok()))
    }

    /// Loads a compiled cubin whose headers and tables were checked to lie inside it.
    ///
    /// # Errors
    /// Those of [`Module::load`].
    pub(crate) fn load_checked(context: &Arc<Context>, image: Image) -> Result<Arc<Self>, DriverError> {
        // SAFETY: every offset in the file was checked to lie inside it, the rest is a compiler's output
        // ([`crate::compile::Compiler`]), and a file from the disk had its hash verified.
        let handle = unsafe { load(context, image.bytes()) }?;
        Ok(Self::new(context, handle, Some(image)))
    }

    fn new(context: &Arc<Context>, handle: Handle, image: Option<Image>) -> Arc<Self> {
        Arc::new(Self { context: Arc::clone(context), handle, image, stays: AtomicBool::new(false) })
    }

    /// The cubin that it was loaded from; `None` for a file that our parser doesn't understand.
    pub(crate) fn cubin(&self) -> Option<&[u8]> {
        self.image.as_ref().map(Image::bytes)
    }

    /// A kernel by its `extern "C"` name, loaded immediately: lazy loading would stall the first launch.
    ///
    /// # Errors
    /// `CUDA_ERROR_NOT_FOUND` if the module has none of this name.
    pub fn function(self: &Arc<Self>, name: &str) -> Result<Function, DriverError> {
        let text = name;
        let name = CString::new(text)
            .map_err(|_| Unavailable::new("kernel", "its name contains a zero byte", "This is a bug in plimsoll"))?;
        let context = &self.context;
        context.bind()?;
        let mut handle = Handle::NULL;
        // SAFETY: the name is terminated and outlives the call; the handle is written to a live variable.
        context.watch(unsafe { context.call().module_function(&raw mut handle, self.handle, name.as_ptr()) })?;
        let sizes = self.image.as_ref().and_then(|image| image.parameters(text)).map(Arc::from);
        let function = Function { module: Arc::clone(self), handle, sizes };
        function.registers()?;
        Ok(function)
    }
}

impl Function {
    /// A variable of its module: address and bytes.
    ///
    /// # Errors
    /// `CUDA_ERROR_NOT_FOUND` if the module has none of this name.
    pub(crate) fn global(&self, name: &CStr) -> Result<(DevicePointer, u64), DriverError> {
        let context = self.context();
        context.bind()?;
        let (mut pointer, mut bytes) = (0, 0_usize);
        let (module, name) = (self.module.handle, name.as_ptr());
        // SAFETY: the module lives; the name is terminated and outlives the call; both results are written to live integers.
        context.watch(unsafe { context.call().module_global(&raw mut pointer, &raw mut bytes, module, name) })?;
        Ok((pointer, bytes as u64))
    }

    /// Keeps its machine code loaded until the process ends: for a stream of another library, whose work and recordings we can't wait
    /// for.
    #[inline]
    pub(crate) fn stay_loaded(&self) {
        let stays = &self.module.stays;
        if !stays.load(Ordering::Relaxed) && !stays.swap(true, Ordering::Relaxed) {
            std::mem::forget(Arc::clone(&self.module));
        }
    }

    /// The module that it belongs to.
    pub(crate) fn module(&self) -> &Arc<Module> {
        &self.module
    }
}

/// Passes a cubin to the driver, which copies what it keeps.
///
/// # Safety
/// As [`Module::load`].
unsafe fn load(context: &Context, cubin: &[u8]) -> Result<Handle, DriverError> {
    context.bind()?;
    let mut handle = Handle::NULL;
    // SAFETY: the caller guarantees a complete cubin. The handle is written to a live variable and the context is current.
    context.watch(unsafe { context.call().module_load(&raw mut handle, cubin.as_ptr().cast()) })?;
    Ok(handle)
}

impl Drop for Module {
    fn drop(&mut self) {
        // Its code may still be running.
        if self.context.wait_idle().is_err() {
            return;
        }
        // SAFETY: loaded once, unloaded once, and none of its functions is left: each holds an `Arc` of this.
        self.context.destroy(|call| unsafe { call.module_unload(self.handle) });
    }
}

/// A kernel of a loaded module.
#[derive(Clone, Debug)]
pub struct Function {
    module: Arc<Module>,
    handle: Handle,
    /// Bytes of each parameter according to the cubin.
    sizes: Option<Arc<[u64]>>,
}

impl Function {
    pub(crate) fn handle(&self) -> Handle {
        self.handle
    }

    /// The context it belongs to.
    #[must_use]
    pub fn context(&self) -> &Arc<Context> {
        &self.module.context
    }

    /// Checks that it takes parameters of exactly these sizes according to the cubin and, since driver 12.4, to the driver. The
    /// driver isn't asked whether there are more: it would answer with an error, and tools that watch for errors would report it.
    ///
    /// # Errors
    /// [`DriverError::Unavailable`] with the difference.
    pub(crate) fn check_parameters(&self, sizes: &[u64]) -> Result<(), DriverError> {
        let misfit =
            |why: String| Err(Unavailable::new("kernel", why, "This is a bug in plimsoll: please report it").into());
        if let Some(own) = &self.sizes
            && own[..] != *sizes
        {
            return misfit(match (own.len(), sizes.len()) {
                (takes, passed) if takes != passed => format!("it takes {takes} arguments and was given {passed}"),
                _ => format!("its parameters have {own:?} bytes, and the arguments {sizes:?}"),
            });
        }
        for (index, size) in sizes.iter().enumerate() {
            match self.parameter_bytes(index) {
                Ok(None) => return Ok(()),
                Ok(Some(bytes)) if bytes as u64 == *size => {}
                Ok(Some(bytes)) => return misfit(format!("parameter {index} has {bytes} bytes, not {size}")),
                // 1: CUDA_ERROR_INVALID_VALUE, there is no such parameter.
                Err(DriverError::Call { code: 1, .. }) => {
                    let passed = sizes.len();
                    return misfit(format!("it takes {index} arguments and was given {passed} (cuFuncGetParamInfo)"));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Bytes of a parameter; `None` with a driver before 12.4, which doesn't report it.
    fn parameter_bytes(&self, index: usize) -> Result<Option<usize>, DriverError> {
        let (mut offset, mut size) = (0, 0);
        let call = self.context().call();
        // SAFETY: the function lives; offset and size are written to live integers.
        match unsafe { call.function_parameter(self.handle, index, &raw mut offset, &raw mut size) } {
            Ok(()) => Ok(Some(size)),
            // 801: CUDA_ERROR_NOT_SUPPORTED.
            Err(DriverError::Unavailable(_) | DriverError::Call { code: 801, .. }) => Ok(None),
            Err(error) => self.context().watch(Err(error)),
        }
    }

    fn attribute(&self, attribute: i32) -> Result<u32, DriverError> {
        let mut value = 0;
        // SAFETY: the function lives; the value is written to a live integer.
        let answer = unsafe { self.context().call().function_attribute(&raw mut value, attribute, self.handle) };
        self.context().watch(answer)?;
        Ok(u32::try_from(value).unwrap_or(0))
    }

    /// Registers per thread.
    pub fn registers(&self) -> Result<u32, DriverError> {
        self.attribute(4)
    }

    /// Local memory per thread, bytes; more than 0 means spilled registers or indexed arrays.
    pub fn local_bytes(&self) -> Result<u32, DriverError> {
        self.attribute(3)
    }

    /// Static shared memory per block, bytes, without what the system reserves.
    pub fn shared_bytes(&self) -> Result<u32, DriverError> {
        self.attribute(1)
    }

    /// Most threads per block.
    pub fn max_threads(&self) -> Result<u32, DriverError> {
        self.attribute(0)
    }

    /// Allows a block up to `bytes` of dynamic shared memory, as needed above 48 KiB including static memory. Never lowers an
    /// earlier allowance: existing launches need it.
    ///
    /// # Errors
    /// More than the device allows.
    pub fn allow_shared(&self, bytes: u32) -> Result<(), DriverError> {
        if self.attribute(8)? >= bytes {
            return Ok(());
        }
        let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
        // SAFETY: the function lives; 8 is CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES.
        self.context().watch(unsafe { self.context().call().function_set(self.handle, 8, bytes) })
    }

    /// Asks for the largest L1 in the memory that L1 and shared memory divide. Only a preference.
    pub fn prefer_cache(&self) -> Result<(), DriverError> {
        // SAFETY: the function lives; 9 is CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, in percent of the largest shared
        // memory.
        self.context().watch(unsafe { self.context().call().function_set(self.handle, 9, 0) })
    }

    /// Allows clusters of more than 8 blocks, the number that every device with clusters supports.
    pub fn allow_large_clusters(&self) -> Result<(), DriverError> {
        // SAFETY: the function lives; 14 is CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED.
        self.context().watch(unsafe { self.context().call().function_set(self.handle, 14, 1) })
    }

    /// Number of clusters of `blocks` blocks of this geometry that run at once; 0 if none fits.
    ///
    /// # Errors
    /// Drivers before 11.8 don't know clusters.
    pub fn clusters_at_once(&self, geometry: Geometry, blocks: u32) -> Result<u32, DriverError> {
        let mut attribute = LaunchAttribute::new(ATTRIBUTE_CLUSTER, &[blocks, 1, 1]);
        let Geometry { grid, block, shared } = geometry;
        let attributes = &raw mut attribute;
        let config = LaunchConfig { grid, block, shared, stream: Handle::NULL, attributes, attribute_count: 1 };
        let mut count = 0;
        let call = self.context().call();
        // SAFETY: the function lives; the configuration and its attribute live until the call returns; the number is written to a
        // live integer.
        self.context().watch(unsafe { call.clusters(&raw mut count, self.handle, &raw const config) })?;
        Ok(u32::try_from(count).unwrap_or(0))
    }

    /// Number of blocks of `threads` threads with `shared` bytes of dynamic shared memory that fit on an SM.
    pub fn blocks_per_multiprocessor(&self, threads: u32, shared: u32) -> Result<u32, DriverError> {
        let mut blocks = 0;
        let threads = i32::try_from(threads).unwrap_or(i32::MAX);
        // SAFETY: the function lives; the number is written to a live integer.
        let answer = unsafe { self.context().call().occupancy(&raw mut blocks, self.handle, threads, shared as usize) };
        self.context().watch(answer)?;
        Ok(u32::try_from(blocks).unwrap_or(0))
    }
}
