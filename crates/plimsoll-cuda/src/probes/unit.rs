//! A probe's kernels: one source with the entry points wanted of it, compiled as one unit, and launches made of them as
//! their descriptions say. What the kernels are is `plimsoll-gen`'s; arguments are each probe's.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_core::Fault;
use plimsoll_gen::kernel::{KernelDesc, Machine, Source};

use crate::CudaDevice;
use crate::driver::{Attribute, Context};
use crate::launch::{Arguments, Form, Geometry, Kernel, Launch};

/// What grids depend on of this device.
///
/// # Errors
/// The driver's.
pub(super) fn machine(context: &Context) -> Result<Machine, Fault> {
    let threads = context.device().attribute(Attribute::ThreadsPerMultiprocessor)?;
    let multiprocessors = context.device().attribute(Attribute::Multiprocessors)?;
    let number = |value: i32| u32::try_from(value).unwrap_or(0).max(1);
    Ok(Machine { multiprocessors: number(multiprocessors), threads_per_multiprocessor: number(threads) })
}

/// Loaded kernels of one source.
#[derive(Debug)]
pub(super) struct Unit {
    functions: BTreeMap<String, Kernel>,
    machine: Machine,
}

impl Unit {
    /// Compiles these kernels of `source` as one unit, or finds them compiled, and loads them.
    ///
    /// # Errors
    /// [`Fault::Unavailable`] where there is no compiler; the driver's.
    pub(super) fn new(device: &CudaDevice, source: Source, kernels: &[KernelDesc]) -> Result<Self, Fault> {
        Self::compiled_for(device, device.kernels.target(), source, kernels)
    }

    /// The same for another target that the device runs.
    ///
    /// # Errors
    /// Those of [`Unit::new`].
    pub(super) fn compiled_for(
        device: &CudaDevice,
        target: &str,
        source: Source,
        kernels: &[KernelDesc],
    ) -> Result<Self, Fault> {
        let mut seen = BTreeSet::new();
        let wanted: Vec<KernelDesc> =
            kernels.iter().filter(|kernel| kernel.source == source && seen.insert(&kernel.name)).cloned().collect();
        let loaded = device.kernels.load_stated(target, source, &wanted)?;
        let functions = wanted.into_iter().map(|kernel| kernel.name).zip(loaded).collect();
        Ok(Self { functions, machine: machine(&device.context)? })
    }

    /// What grids depend on.
    pub(super) fn machine(&self) -> Machine {
        self.machine
    }

    /// A loaded kernel.
    ///
    /// # Errors
    /// [`Fault::Invalid`] where it was not among those compiled.
    pub(super) fn function(&self, kernel: &KernelDesc) -> Result<&Kernel, Fault> {
        let missing = || Fault::Invalid(format!("{} was not compiled: this is an error of plimsoll", kernel.name));
        self.functions.get(&kernel.name).ok_or_else(missing)
    }

    /// A launch of `kernel` over n elements, on the grid and in the form that its description states.
    ///
    /// # Errors
    /// Those of [`KernelDesc::geometry`] and [`Launch::new`].
    pub(super) fn launch(&self, kernel: &KernelDesc, n: u64, arguments: Arguments) -> Result<Launch, Fault> {
        self.launch_with_shared(kernel, n, arguments, 0)
    }

    /// The same with so many bytes of dynamic shared memory per block, which nobody touches: fewer blocks are resident.
    ///
    /// # Errors
    /// Those of [`Unit::launch`]; the driver's where no block may have so much.
    pub(super) fn launch_with_shared(
        &self,
        kernel: &KernelDesc,
        n: u64,
        arguments: Arguments,
        shared: u32,
    ) -> Result<Launch, Fault> {
        let function = self.function(kernel)?;
        // More than 48 KiB must be asked for (CUDA C++ Programming Guide, compute capabilities), and a kernel's own shared memory
        // counts.
        if shared > 0 {
            function.function().allow_shared(shared)?;
        }
        let grid = kernel.geometry(n, self.machine)?;
        let geometry = Geometry { shared, ..Geometry::linear(grid.blocks, grid.threads) };
        let form = Form { dependent: kernel.dependent, cooperative: kernel.cooperative, cluster: 0 };
        Ok(Launch::new(function, geometry, arguments)?.with_form(form))
    }
}
