//! Loaded cubins and their kernels.

use std::ffi::CString;
use std::sync::Arc;

use super::Context;
use super::error::DriverError;
use super::types::{ATTRIBUTE_CLUSTER, Handle, LaunchAttribute, LaunchConfig};
use crate::launch::{Geometry, SLOT_BYTES};
use crate::unavailable::Unavailable;

/// Smallest image that may be handed to the driver: an ELF header.
const SMALLEST_IMAGE: usize = 64;

/// A cubin loaded into a context.
#[derive(Debug)]
pub struct Module {
    context: Arc<Context>,
    handle: Handle,
}

impl Module {
    /// Loads a cubin, which must be an ELF file that is whole: the driver reads as far as the headers in it say.
    ///
    /// # Errors
    /// The driver's: `CUDA_ERROR_NO_BINARY_FOR_GPU` where it was compiled for another device.
    pub fn load(context: &Arc<Context>, cubin: &[u8]) -> Result<Arc<Self>, DriverError> {
        if cubin.len() < SMALLEST_IMAGE || !cubin.starts_with(b"\x7fELF") {
            let why = format!("{} bytes that are no ELF file", cubin.len());
            return Err(Unavailable::new("kernel image", why, "Empty the kernel cache or run with --no-cache").into());
        }
        context.bind()?;
        let mut handle = Handle::NULL;
        // SAFETY: the image is an ELF file from our own compiler or from the cache, where a hash of its whole content
        // was verified, so its headers point inside it; the driver copies what it keeps. The handle is written to a
        // live variable and the context is current.
        context.watch(unsafe { context.call().module_load(&raw mut handle, cubin.as_ptr().cast()) })?;
        Ok(Arc::new(Self { context: Arc::clone(context), handle }))
    }

    /// A kernel by its `extern "C"` name, loaded at once: lazy loading would stall the first launch.
    ///
    /// # Errors
    /// The driver's: `CUDA_ERROR_NOT_FOUND` where the module has none of this name.
    pub fn function(self: &Arc<Self>, name: &str) -> Result<Function, DriverError> {
        let name = CString::new(name)
            .map_err(|_| Unavailable::new("kernel", "its name holds a zero byte", "This is an error of plimsoll"))?;
        let context = &self.context;
        context.bind()?;
        let mut handle = Handle::NULL;
        // SAFETY: the name is terminated and outlives the call; the handle is written to a live variable.
        context.watch(unsafe { context.call().module_function(&raw mut handle, self.handle, name.as_ptr()) })?;
        let function = Function { module: Arc::clone(self), handle };
        function.registers()?;
        Ok(function)
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        // SAFETY: loaded once, unloaded once, and no function of it is left: each holds an `Arc` of this.
        self.context.destroy(|call| unsafe { call.module_unload(self.handle) });
    }
}

/// A kernel of a loaded module.
#[derive(Clone, Debug)]
pub struct Function {
    module: Arc<Module>,
    handle: Handle,
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

    /// Whether it takes at least `count` parameters, none of which is larger than a slot of `launch::Arguments`. A
    /// driver before 12.4 can't tell, and says yes. That it takes more isn't asked, since the driver's answer would be an
    /// error, which tools that watch for errors report; those that are missing are zeros.
    ///
    /// # Errors
    /// [`DriverError::Unavailable`] with the parameter that doesn't fit; the driver's.
    pub(crate) fn takes(&self, count: usize) -> Result<(), DriverError> {
        let misfit =
            |why: String| Err(Unavailable::new("kernel", why, "This is an error of plimsoll: please report it").into());
        for index in 0..count {
            let (mut offset, mut size) = (0, 0);
            let call = self.context().call();
            // SAFETY: the function lives; offset and size are written to live integers.
            match unsafe { call.function_parameter(self.handle, index, &raw mut offset, &raw mut size) } {
                Ok(()) if size <= SLOT_BYTES => {}
                Ok(()) => return misfit(format!("parameter {index} has {size} bytes, more than {SLOT_BYTES}")),
                // 801: CUDA_ERROR_NOT_SUPPORTED.
                Err(DriverError::Unavailable(_) | DriverError::Call { code: 801, .. }) => return Ok(()),
                // 1: CUDA_ERROR_INVALID_VALUE, there is no such parameter.
                Err(DriverError::Call { code: 1, .. }) => {
                    return misfit(format!("it takes {index} arguments and was given {count} (cuFuncGetParamInfo)"));
                }
                Err(error) => return self.context().watch(Err(error)),
            }
        }
        Ok(())
    }

    /// Bytes of a parameter; `None` where a driver before 12.4 can't tell.
    ///
    /// # Errors
    /// The driver's: there is no such parameter.
    pub(crate) fn parameter_bytes(&self, index: usize) -> Result<Option<usize>, DriverError> {
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
