//! A probe's kernels: the needed entry points of one source, compiled together, and launches made from them according to their
//! descriptions. `plimsoll-gen` defines the kernels; each probe chooses the arguments.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_core::Fault;
use plimsoll_gen::kernel::{KernelDesc, Machine, Source};

use crate::launch::{Arguments, Form, Geometry, Kernel};
use crate::{Gpu, Touched, Trust, Unavailable};

/// Loaded kernels of one source.
#[derive(Debug)]
pub struct Unit<G: Gpu> {
    functions: BTreeMap<String, Kernel<G>>,
    /// Kernels without code for this device, and why.
    missing: BTreeMap<String, Unavailable>,
    machine: Machine,
}

impl<G: Gpu> Unit<G> {
    /// Compiles these kernels of `source` together, or takes them from the cache, and loads them. A kernel without code for this
    /// device is an error only when it is launched.
    ///
    /// # Errors
    /// [`Fault::Unavailable`] where there is no compiler, or no code for any of the kernels.
    pub fn new(device: &G::Device, source: &'static Source, kernels: &[KernelDesc], _: Trust) -> Result<Self, Fault> {
        // SAFETY: `Trust` proves the promise that kernels keep to their descriptions.
        #[allow(unsafe_code)]
        let compile = |wanted: &[KernelDesc]| unsafe { G::compile(device, source, wanted) };
        Self::compile_with(device, source, kernels, compile)
    }

    /// As [`Unit::new`], for [`Gpu::specific_target`].
    ///
    /// # Errors
    /// Those of [`Unit::new`]; [`Fault::Unavailable`] where the device has no such target.
    pub fn new_specific(
        device: &G::Device,
        source: &'static Source,
        kernels: &[KernelDesc],
        _: Trust,
    ) -> Result<Self, Fault> {
        // SAFETY: as in `new`.
        #[allow(unsafe_code)]
        let compile = |wanted: &[KernelDesc]| unsafe { G::compile_specific(device, source, wanted) };
        Self::compile_with(device, source, kernels, compile)
    }

    fn compile_with(
        device: &G::Device,
        source: &'static Source,
        kernels: &[KernelDesc],
        compile: impl FnOnce(&[KernelDesc]) -> Result<Vec<Kernel<G>>, Fault>,
    ) -> Result<Self, Fault> {
        let mut seen = BTreeSet::new();
        let wanted: Vec<KernelDesc> =
            kernels.iter().filter(|kernel| *kernel.source == *source && seen.insert(&kernel.name)).cloned().collect();
        let mut missing = BTreeMap::new();
        let (wanted, without): (Vec<_>, Vec<_>) = wanted.into_iter().partition(|kernel| {
            let runs = G::runs(device, kernel);
            runs.map_err(|reason| missing.insert(kernel.name.clone(), reason)).is_ok()
        });
        if let Some(reason) = without.first().filter(|_| wanted.is_empty()).and_then(|kernel| missing.get(&kernel.name))
        {
            return Err(reason.clone().into());
        }
        let loaded = compile(&wanted)?;
        let kernels = wanted.into_iter().map(|kernel| kernel.name).zip(loaded);
        Ok(Self { missing, ..Self::from_kernels(kernels, G::machine(device)?) })
    }

    /// A unit of loaded kernels, by name. `machine` has the properties that grid sizes depend on.
    #[must_use]
    pub fn from_kernels(kernels: impl IntoIterator<Item = (String, Kernel<G>)>, machine: Machine) -> Self {
        Self { functions: kernels.into_iter().collect(), missing: BTreeMap::new(), machine }
    }

    /// The properties that grid sizes depend on.
    pub fn machine(&self) -> Machine {
        self.machine
    }

    /// A loaded kernel.
    ///
    /// # Errors
    /// [`Fault::Unavailable`] if there is no code for this device; [`Fault::Invalid`] if it was not among the compiled kernels.
    pub fn function(&self, kernel: &KernelDesc) -> Result<&Kernel<G>, Fault> {
        if let Some(reason) = self.missing.get(&kernel.name) {
            return Err(reason.clone().into());
        }
        let missing = || Fault::Invalid(format!("{} was not compiled: this is a bug in plimsoll", kernel.name));
        self.functions.get(&kernel.name).ok_or_else(missing)
    }

    /// Prepares a launch of `kernel` over n elements, with the grid and form that its description states.
    ///
    /// # Errors
    /// Those of [`KernelDesc::geometry`] and [`Kernel::launch`].
    pub fn launch(&self, kernel: &KernelDesc, n: u64, arguments: Arguments) -> Result<G::Launch, Fault> {
        self.launch_with_shared(kernel, n, arguments, 0)
    }

    /// As [`Unit::launch`], with `shared` bytes of unused dynamic shared memory per block, so that fewer blocks are resident.
    ///
    /// # Errors
    /// Those of [`Unit::launch`].
    pub fn launch_with_shared(
        &self,
        kernel: &KernelDesc,
        n: u64,
        arguments: Arguments,
        shared: u32,
    ) -> Result<G::Launch, Fault> {
        let function = self.function(kernel)?;
        // More than 48 KiB must be requested (CUDA C++ Programming Guide, compute capabilities), and the kernel's static shared
        // memory counts too.
        if shared > 0 {
            G::allow_shared(function.function(), shared)?;
        }
        let (geometry, form) = self.shape(kernel, n, shared)?;
        function.launch(geometry, form, &arguments)
    }

    /// Checks the arguments and returns what a launch of `kernel` over n elements does with each array.
    ///
    /// # Errors
    /// Those of [`KernelDesc::geometry`] and [`Kernel::touched`].
    pub fn touched(&self, kernel: &KernelDesc, n: u64, arguments: &Arguments) -> Result<Vec<Touched>, Fault> {
        let (geometry, form) = self.shape(kernel, n, 0)?;
        self.function(kernel)?.touched(geometry, form, arguments)
    }

    fn shape(&self, kernel: &KernelDesc, n: u64, shared: u32) -> Result<(Geometry, Form), Fault> {
        let grid = kernel.geometry(n, self.machine)?;
        let geometry = Geometry { shared, ..Geometry::linear(grid.blocks, grid.threads) };
        Ok((geometry, Form { dependent: kernel.dependent, cooperative: kernel.cooperative, cluster: 0 }))
    }
}
