//! Kernels as pipelines: one module, and one pipeline for each number of threads per block in use.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use ash::vk;
use plimsoll_core::Fault;
use plimsoll_gen::kernel::KernelDesc;
use plimsoll_gen::kernel::spirv::{STEP, Spirv, code, offsets};
use plimsoll_gpu::Unavailable;

use crate::core::{Core, lock};
use crate::spirv;

/// A pipeline of a function. Launches keep the function alive.
pub(crate) type Pipeline = vk::Pipeline;

/// A kernel's code, loaded on a device.
#[derive(Clone)]
pub struct Function(Arc<Inner>);

struct Inner {
    core: Arc<Core>,
    name: String,
    module: vk::ShaderModule,
    layout: vk::PipelineLayout,
    /// Number and value of each specialisation constant except the number of threads.
    constants: Vec<(u32, u32)>,
    /// Offset and bytes of each parameter, followed by those of the number of blocks.
    offsets: Vec<(u64, u64)>,
    /// Bytes of the push constants; 0 for a kernel without any.
    bytes: u32,
    /// Threads per block, if the description fixes them.
    threads: Option<u32>,
    pipelines: Mutex<BTreeMap<u32, Pipeline>>,
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Function").field(&self.0.name).finish()
    }
}

/// Finds a kernel's code for a device.
///
/// # Errors
/// The reason if there is none.
pub(crate) fn find_code(core: &Core, kernel: &KernelDesc) -> Result<Spirv, Unavailable> {
    let found = code(kernel, core.physical.facts.features);
    #[cfg(test)]
    let found = found.and_then(|spirv| crate::mutants::replace_code(kernel, spirv));
    found.map_err(|why| {
        let hint = "Use the CUDA backend on an NVIDIA GPU; the other kernels still work";
        Unavailable::new("kernel for Vulkan", format!("{}: {why}", kernel.name), hint)
    })
}

impl Function {
    /// Loads a kernel's code, and checks that it takes the parameters that its description states.
    ///
    /// # Errors
    /// [`Fault::Unavailable`] if there is no code for this device; [`Fault::Invalid`] if the code takes other parameters.
    pub(crate) fn new(core: &Arc<Core>, kernel: &KernelDesc) -> Result<Self, Fault> {
        core.check("vkCreateShaderModule")?;
        let spirv = find_code(core, kernel)?;
        let wrong = |why: &str| Fault::Invalid(format!("{}: {why}: this is a bug in plimsoll", kernel.name));
        let words = spirv::words(spirv.words).map_err(wrong)?;
        let interface = spirv::read_interface(&words).map_err(wrong)?;
        let (places, end) = offsets(kernel);
        let sizes = kernel.parameters.iter().map(|parameter| parameter.bytes(kernel)).chain([4]);
        let offsets: Vec<(u64, u64)> = places.into_iter().zip(sizes).collect();
        let takes_nothing = kernel.parameters.is_empty() && interface.parameters.is_empty();
        if !takes_nothing && interface.parameters != offsets {
            return Err(wrong("its code takes other parameters than it states"));
        }
        let mut constants = spirv.constants;
        if spirv.clock {
            constants.push((STEP, core.step()));
        }
        if interface.threads != Some(0) || constants.iter().any(|(number, _)| !interface.constants.contains(number)) {
            return Err(wrong("its code lacks a specialisation constant"));
        }
        let most = core.physical.facts.limits.max_push_constants_size;
        let bytes = if takes_nothing { 0 } else { u32::try_from(end).unwrap_or(u32::MAX).next_multiple_of(4) };
        if bytes > most {
            let why = format!("{} takes {bytes} bytes of arguments, and this device allows {most}", kernel.name);
            return Err(Unavailable::new("kernel for Vulkan", why, "Use another device").into());
        }
        let (module, layout) = (vk::ShaderModule::null(), vk::PipelineLayout::null());
        let (core, name, pipelines) = (Arc::clone(core), kernel.name.clone(), Mutex::default());
        let threads = kernel.threads_fixed.then_some(kernel.threads);
        let mut inner = Inner { core, name, module, layout, constants, offsets, bytes, threads, pipelines };
        inner.load(&words)?;
        Ok(Self(Arc::new(inner)))
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.0.core
    }

    pub(crate) fn name(&self) -> &str {
        &self.0.name
    }

    pub(crate) fn offsets(&self) -> &[(u64, u64)] {
        &self.0.offsets
    }

    pub(crate) fn constant_bytes(&self) -> usize {
        self.0.bytes as usize
    }

    /// Threads per block, if they are fixed: extents of the outputs of folds depend on them.
    pub(crate) fn threads(&self) -> Option<u32> {
        self.0.threads
    }

    pub(crate) fn layout(&self) -> vk::PipelineLayout {
        self.0.layout
    }

    /// The pipeline for blocks of `threads` threads. Builds it on first use.
    pub(crate) fn pipeline(&self, threads: u32) -> Result<Pipeline, Fault> {
        let mut pipelines = lock(&self.0.pipelines);
        if let Some(pipeline) = pipelines.get(&threads) {
            return Ok(*pipeline);
        }
        let pipeline = self.0.build(threads)?;
        pipelines.insert(threads, pipeline);
        Ok(pipeline)
    }
}

impl Inner {
    fn load(&mut self, words: &[u32]) -> Result<(), Fault> {
        let device = self.core.raw();
        let info = vk::ShaderModuleCreateInfo::default().code(words);
        // SAFETY: the module is part of this program and passed the reader.
        let module = unsafe { device.create_shader_module(&info, None) };
        self.module = module.map_err(|result| self.core.fault("vkCreateShaderModule", result))?;
        let range = [vk::PushConstantRange::default().stage_flags(vk::ShaderStageFlags::COMPUTE).size(self.bytes)];
        let mut info = vk::PipelineLayoutCreateInfo::default();
        if self.bytes > 0 {
            info = info.push_constant_ranges(&range);
        }
        // SAFETY: whole words below the device's limit; the info lives until the call returns.
        let layout = unsafe { device.create_pipeline_layout(&info, None) };
        self.layout = layout.map_err(|result| self.core.fault("vkCreatePipelineLayout", result))?;
        Ok(())
    }

    fn build(&self, threads: u32) -> Result<Pipeline, Fault> {
        let constants = || [(0, threads)].into_iter().chain(self.constants.iter().copied());
        let entries: Vec<_> = constants()
            .zip(0..)
            .map(|((number, _), place)| vk::SpecializationMapEntry { constant_id: number, offset: 4 * place, size: 4 })
            .collect();
        let values: Vec<u8> = constants().flat_map(|(_, value)| value.to_ne_bytes()).collect();
        let special = vk::SpecializationInfo::default().map_entries(&entries).data(&values);
        let stage = vk::PipelineShaderStageCreateInfo::default()
            .stage(vk::ShaderStageFlags::COMPUTE)
            .module(self.module)
            .name(c"main")
            .specialization_info(&special);
        let info = [vk::ComputePipelineCreateInfo::default().stage(stage).layout(self.layout)];
        // SAFETY: the module's entry point and constants were found by the reader; all that the info points to lives until the call
        // returns.
        let made = unsafe { self.core.raw().create_compute_pipelines(vk::PipelineCache::null(), &info, None) };
        let made = made.map_err(|(_, result)| self.core.fault("vkCreateComputePipelines", result))?;
        made.first().copied().ok_or_else(|| Fault::Invalid(format!("{}: no pipeline was made", self.name)))
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if self.core.is_given_up() {
            return;
        }
        let device = self.core.raw();
        // SAFETY: no pending work uses them, because launches keep the function alive. Objects that weren't created are null, which
        // is allowed.
        unsafe {
            for pipeline in lock(&self.pipelines).values() {
                device.destroy_pipeline(*pipeline, None);
            }
            device.destroy_pipeline_layout(self.layout, None);
            device.destroy_shader_module(self.module, None);
        }
    }
}
