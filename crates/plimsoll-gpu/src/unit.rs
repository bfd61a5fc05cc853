//! A probe's kernels: one source with the entry points wanted of it, compiled as one unit, and launches made of them as
//! their descriptions say. What the kernels are is `plimsoll-gen`'s; arguments are each probe's.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_core::Fault;
use plimsoll_gen::kernel::{KernelDesc, Machine, Source};

use crate::launch::{Arguments, Form, Geometry, Kernel};
use crate::{Gpu, Touched, Trust, Unavailable};

/// Loaded kernels of one source.
#[derive(Debug)]
pub struct Unit<G: Gpu> {
    functions: BTreeMap<String, Kernel<G>>,
    /// Kernels that this device has no code for, and why.
    missing: BTreeMap<String, Unavailable>,
    machine: Machine,
}

impl<G: Gpu> Unit<G> {
    /// Compiles these kernels of `source` as one unit, or finds them compiled, and loads them. Those that the device has no code for
    /// are missed when they are launched.
    ///
    /// # Errors
    /// [`Fault::Unavailable`] where there is no compiler, or no code for any of them; the driver's.
    pub fn new(device: &G::Device, source: &'static Source, kernels: &[KernelDesc], _: Trust) -> Result<Self, Fault> {
        // SAFETY: whoever holds the trust promised that kernels keep to their descriptions.
        #[allow(unsafe_code)]
        let compile = |wanted: &[KernelDesc]| unsafe { G::compile(device, source, wanted) };
        Self::compiled(device, source, kernels, compile)
    }

    /// The same for [`Gpu::specific_target`].
    ///
    /// # Errors
    /// Those of [`Unit::new`]; [`Fault::Unavailable`] where the device has no such target.
    pub fn specific(
        device: &G::Device,
        source: &'static Source,
        kernels: &[KernelDesc],
        _: Trust,
    ) -> Result<Self, Fault> {
        // SAFETY: that of `new`.
        #[allow(unsafe_code)]
        let compile = |wanted: &[KernelDesc]| unsafe { G::compile_specific(device, source, wanted) };
        Self::compiled(device, source, kernels, compile)
    }

    fn compiled(
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

    /// Kernels by name, of a device whose grids depend on `machine`.
    #[must_use]
    pub fn from_kernels(kernels: impl IntoIterator<Item = (String, Kernel<G>)>, machine: Machine) -> Self {
        Self { functions: kernels.into_iter().collect(), missing: BTreeMap::new(), machine }
    }

    /// What grids depend on.
    pub fn machine(&self) -> Machine {
        self.machine
    }

    /// A loaded kernel.
    ///
    /// # Errors
    /// [`Fault::Unavailable`] where the device has no code for it; [`Fault::Invalid`] where it was not among those compiled.
    pub fn function(&self, kernel: &KernelDesc) -> Result<&Kernel<G>, Fault> {
        if let Some(reason) = self.missing.get(&kernel.name) {
            return Err(reason.clone().into());
        }
        let missing = || Fault::Invalid(format!("{} was not compiled: this is an error of plimsoll", kernel.name));
        self.functions.get(&kernel.name).ok_or_else(missing)
    }

    /// A launch of `kernel` over n elements, on the grid and in the form that its description states.
    ///
    /// # Errors
    /// Those of [`KernelDesc::geometry`] and [`Kernel::launch`].
    pub fn launch(&self, kernel: &KernelDesc, n: u64, arguments: Arguments) -> Result<G::Launch, Fault> {
        self.launch_with_shared(kernel, n, arguments, 0)
    }

    /// The same with so many bytes of dynamic shared memory per block, which nobody touches: fewer blocks are resident.
    ///
    /// # Errors
    /// Those of [`Unit::launch`]; the driver's where no block may have so much.
    pub fn launch_with_shared(
        &self,
        kernel: &KernelDesc,
        n: u64,
        arguments: Arguments,
        shared: u32,
    ) -> Result<G::Launch, Fault> {
        let function = self.function(kernel)?;
        // More than 48 KiB must be asked for (CUDA C++ Programming Guide, compute capabilities), and a kernel's own shared memory
        // counts.
        if shared > 0 {
            G::allow_shared(function.function(), shared)?;
        }
        let (geometry, form) = self.shape(kernel, n, shared)?;
        function.launch(geometry, form, &arguments)
    }

    /// What a launch of `kernel` over n elements does with each of its arrays, as its description states.
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
