//! Loaded cubins and their kernels.

use std::ffi::CString;
use std::sync::Arc;

use plimsoll_gen::sass::Image;

use super::Context;
use super::error::DriverError;
use super::types::{ATTRIBUTE_CLUSTER, Handle, LaunchAttribute, LaunchConfig};
use crate::launch::Geometry;
use plimsoll_gpu::Unavailable;

/// A cubin loaded into a context.
#[derive(Debug)]
pub struct Module {
    context: Arc<Context>,
    handle: Handle,
    /// What was read of it; nothing of a file that our reader doesn't understand.
    image: Option<Image>,
}

impl Module {
    /// Loads a cubin of unknown origin.
    ///
    /// # Safety
    /// It must be what a driver takes: a whole cubin, fatbinary or PTX text. The driver reads as far as the headers in it say.
    ///
    /// # Errors
    /// The driver's: `CUDA_ERROR_NO_BINARY_FOR_GPU` where it was compiled for another device.
    pub unsafe fn load(context: &Arc<Context>, cubin: &[u8]) -> Result<Arc<Self>, DriverError> {
        // SAFETY: this function's own obligation.
        let handle = unsafe { load(context, cubin) }?;
        Ok(Arc::new(Self { context: Arc::clone(context), handle, image: Image::new(cubin.to_vec()).ok() }))
    }

    /// Loads a cubin of a compiler, all of whose headers and tables were found inside of it.
    ///
    /// # Errors
    /// Those of [`Module::load`].
    pub(crate) fn load_checked(context: &Arc<Context>, image: Image) -> Result<Arc<Self>, DriverError> {
        // SAFETY: what leads anywhere in the file was found to lead to some place in it, and the rest is what a compiler made
        // ([`crate::compile::Compiler`]), and a hash of all of it was verified where it comes from the disk.
        let handle = unsafe { load(context, image.bytes()) }?;
        Ok(Arc::new(Self { context: Arc::clone(context), handle, image: Some(image) }))
    }

    /// A kernel by its `extern "C"` name, loaded at once: lazy loading would stall the first launch.
    ///
    /// # Errors
    /// The driver's: `CUDA_ERROR_NOT_FOUND` where the module has none of this name.
    pub fn function(self: &Arc<Self>, name: &str) -> Result<Function, DriverError> {
        let text = name;
        let name = CString::new(text)
            .map_err(|_| Unavailable::new("kernel", "its name holds a zero byte", "This is an error of plimsoll"))?;
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

/// Hands a cubin to the driver, which copies what it keeps.
///
/// # Safety
/// As [`Module::load`].
unsafe fn load(context: &Context, cubin: &[u8]) -> Result<Handle, DriverError> {
    context.bind()?;
    let mut handle = Handle::NULL;
    // SAFETY: this function's own obligation. The handle is written to a live variable and the context is current.
    context.watch(unsafe { context.call().module_load(&raw mut handle, cubin.as_ptr().cast()) })?;
    Ok(handle)
}

impl Drop for Module {
    fn drop(&mut self) {
        // Its code may still run.
        if self.context.settle().is_err() {
            return;
        }
        // SAFETY: loaded once, unloaded once, and no function of it is left: each holds an `Arc` of this.
        self.context.destroy(|call| unsafe { call.module_unload(self.handle) });
    }
}

/// A kernel of a loaded module.
#[derive(Clone, Debug)]
pub struct Function {
    module: Arc<Module>,
    handle: Handle,
    /// Bytes of each parameter, as the cubin says.
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

    /// Whether it takes parameters of just these sizes, as the cubin itself says. Where a driver since 12.4 can tell, it must say the
    /// same; that there are no more isn't asked of it, since its answer would be an error, which tools that watch for errors report.
    ///
    /// # Errors
    /// [`DriverError::Unavailable`] with what differs; the driver's.
    pub(crate) fn takes(&self, sizes: &[u64]) -> Result<(), DriverError> {
        let misfit =
            |why: String| Err(Unavailable::new("kernel", why, "This is an error of plimsoll: please report it").into());
        if let Some(own) = &self.sizes
            && own[..] != *sizes
        {
            return misfit(match (own.len(), sizes.len()) {
                (takes, given) if takes != given => format!("it takes {takes} arguments and was given {given}"),
                _ => format!("its parameters have {own:?} bytes, and the arguments {sizes:?}"),
            });
        }
        for (index, size) in sizes.iter().enumerate() {
            match self.parameter_bytes(index) {
                Ok(None) => return Ok(()),
                Ok(Some(told)) if told as u64 == *size => {}
                Ok(Some(told)) => return misfit(format!("parameter {index} has {told} bytes, not {size}")),
                // 1: CUDA_ERROR_INVALID_VALUE, there is no such parameter.
                Err(DriverError::Call { code: 1, .. }) => {
                    let given = sizes.len();
                    return misfit(format!("it takes {index} arguments and was given {given} (cuFuncGetParamInfo)"));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Bytes of a parameter; `None` where a driver before 12.4 can't tell.
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
    ///
    /// # Errors
    /// The driver's.
    pub fn registers(&self) -> Result<u32, DriverError> {
        self.attribute(4)
    }

    /// Local memory per thread, bytes; more than 0 means that registers were spilled or arrays indexed.
    ///
    /// # Errors
    /// The driver's.
    pub fn local_bytes(&self) -> Result<u32, DriverError> {
        self.attribute(3)
    }

    /// Most threads of a block.
    ///
    /// # Errors
    /// The driver's.
    pub fn max_threads(&self) -> Result<u32, DriverError> {
        self.attribute(0)
    }

    /// Lets a block have up to `bytes` of dynamic shared memory, which is needed above 48 KiB, its static memory included. What was
    /// allowed before stays so: launches that are ready need it.
    ///
    /// # Errors
    /// The driver's: more than the device gives.
    pub fn allow_shared(&self, bytes: u32) -> Result<(), DriverError> {
        if self.attribute(8)? >= bytes {
            return Ok(());
        }
        let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
        // SAFETY: the function lives; 8 is CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES.
        self.context().watch(unsafe { self.context().call().function_set(self.handle, 8, bytes) })
    }

    /// Asks for as much of the memory that cache and shared memory divide as the cache can have: a preference.
    ///
    /// # Errors
    /// The driver's.
    pub fn prefer_cache(&self) -> Result<(), DriverError> {
        // SAFETY: the function lives; 9 is CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, in per cent of the most that
        // shared memory can have.
        self.context().watch(unsafe { self.context().call().function_set(self.handle, 9, 0) })
    }

    /// Lets clusters have more than the 8 blocks that every device with clusters allows.
    ///
    /// # Errors
    /// The driver's.
    pub fn allow_large_clusters(&self) -> Result<(), DriverError> {
        // SAFETY: the function lives; 14 is CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED.
        self.context().watch(unsafe { self.context().call().function_set(self.handle, 14, 1) })
    }

    /// How many clusters of so many blocks of this geometry run at once; 0 where none fits.
    ///
    /// # Errors
    /// The driver's; a driver before 11.8 knows no clusters.
    pub fn clusters_at_once(&self, geometry: Geometry, blocks: u32) -> Result<u32, DriverError> {
        let mut attribute = LaunchAttribute::new(ATTRIBUTE_CLUSTER, &[blocks, 1, 1]);
        let Geometry { grid, block, shared } = geometry;
        let attributes = &raw mut attribute;
        let config = LaunchConfig { grid, block, shared, stream: Handle::NULL, attributes, attribute_count: 1 };
        let mut count = 0;
        let call = self.context().call();
        // SAFETY: the function lives; the configuration and its attribute do until the call returns; the number is written to
        // a live integer.
        self.context().watch(unsafe { call.clusters(&raw mut count, self.handle, &raw const config) })?;
        Ok(u32::try_from(count).unwrap_or(0))
    }

    /// How many blocks of `threads` with `shared` bytes of dynamic shared memory fit on a multiprocessor.
    ///
    /// # Errors
    /// The driver's.
    pub fn blocks_per_multiprocessor(&self, threads: u32, shared: u32) -> Result<u32, DriverError> {
        let mut blocks = 0;
        let threads = i32::try_from(threads).unwrap_or(i32::MAX);
        // SAFETY: the function lives; the number is written to a live integer.
        let answer = unsafe { self.context().call().occupancy(&raw mut blocks, self.handle, threads, shared as usize) };
        self.context().watch(answer)?;
        Ok(u32::try_from(blocks).unwrap_or(0))
    }
}
