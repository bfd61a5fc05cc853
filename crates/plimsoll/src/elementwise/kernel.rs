//! A traced closure on a device: typed calls.

use std::fmt;

#[cfg(feature = "cpu")]
use plimsoll_cpu::elementwise as cpu;
#[cfg(feature = "cuda")]
use plimsoll_cuda::elementwise as cuda;
use plimsoll_expr::layout::broadcast;
use plimsoll_expr::{Graph, Layout, Traced};

use super::arguments::{Argument, Misplaced, Outputs, Returned};
use super::device::{Backend, Device};
use super::error::Error;

/// A traced closure on a [`Device`]: [`Kernel::run`] writes its results to buffers, [`Kernel::call`] returns new ones.
pub struct Kernel<Args, R> {
    form: Form<Args, R>,
    device: Device,
}

enum Form<Args, R> {
    #[cfg(feature = "cpu")]
    Cpu(Box<cpu::Kernel<Args, R>>),
    #[cfg(feature = "cuda")]
    Gpu(cuda::Kernel<Args, R>),
}

impl<Args, R> Clone for Kernel<Args, R> {
    fn clone(&self) -> Self {
        let form = match &self.form {
            #[cfg(feature = "cpu")]
            Form::Cpu(kernel) => Form::Cpu(kernel.clone()),
            #[cfg(feature = "cuda")]
            Form::Gpu(kernel) => Form::Gpu(kernel.clone()),
        };
        Self { form, device: self.device.clone() }
    }
}

impl<Args, R> fmt::Debug for Kernel<Args, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kernel").field("device", &self.device).field("graph", self.graph()).finish()
    }
}

impl<Args, R> Kernel<Args, R> {
    pub(super) fn new(traced: &Traced<Args, R>, device: &Device) -> Result<Self, Error> {
        let form = match &device.backend {
            #[cfg(feature = "cpu")]
            Backend::Cpu(cpu) => Form::Cpu(Box::new(cpu.compile(traced)?)),
            #[cfg(feature = "cuda")]
            Backend::Gpu(gpu) => Form::Gpu(gpu.compile(traced)?),
        };
        Ok(Self { form, device: device.clone() })
    }

    /// The expression.
    #[must_use]
    pub fn graph(&self) -> &Graph {
        match &self.form {
            #[cfg(feature = "cpu")]
            Form::Cpu(kernel) => kernel.graph(),
            #[cfg(feature = "cuda")]
            Form::Gpu(kernel) => kernel.expression().graph(),
        }
    }

    /// Its device.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The GPU's own kernel, with choices of its plan, if it is a GPU's.
    #[cfg(feature = "cuda")]
    #[must_use]
    pub fn as_gpu(&self) -> Option<&cuda::Kernel<Args, R>> {
        match &self.form {
            #[cfg(feature = "cpu")]
            Form::Cpu(_) => None,
            Form::Gpu(kernel) => Some(kernel),
        }
    }

    /// The same kernel with choices for GPUs, such as `|kernel| kernel.dependent(true)`. The CPU has none of them.
    #[cfg(feature = "cuda")]
    #[must_use]
    pub fn with_gpu(&self, choose: impl FnOnce(&cuda::Kernel<Args, R>) -> cuda::Kernel<Args, R>) -> Self {
        match &self.form {
            #[cfg(feature = "cpu")]
            Form::Cpu(_) => self.clone(),
            Form::Gpu(kernel) => Self { form: Form::Gpu(choose(kernel)), device: self.device.clone() },
        }
    }

    /// Names the tensor that is on another device.
    fn misplaced(&self, tensor: Misplaced) -> Error {
        let graph = self.graph();
        let inputs = graph.inputs().iter().map(|input| &input.name);
        let results = graph.outputs().iter().filter(|output| output.in_place.is_none()).map(|output| &output.name);
        let name = inputs.chain(results).nth(tensor.place);
        self.device.misplaced(name.map_or("tensor", String::as_str), &tensor.device)
    }
}

/// Converts the arguments of a call, each with its place among the tensors, and returns the place after them.
macro_rules! convert {
    ($this:ident $method:ident $($a:ident $x:ident)*) => {{
        let place = 0;
        $(
            let (tensors, argument) = (<$x as Argument<$a>>::TENSORS, $x);
            let $x = argument.$method(place).map_err(|tensor| $this.misplaced(tensor))?;
            let place = place + tensors;
        )*
        (place, ($($x,)*))
    }};
}

macro_rules! runs {
    ($($a:ident $x:ident)*) => {
        impl<R, $($a),*> Kernel<($($a,)*), R> {
            /// Runs it: pass the closure's parameters in order, then its outputs. On the CPU it returns when all outputs are
            /// written; on a GPU it returns at once, and the work is done in the stream's order. Allocates nothing if the layouts
            /// are those of an earlier call.
            ///
            /// # Errors
            /// [`Error::Device`] for a tensor of another device; invalid tensors, with their sizes; compiler errors.
            #[allow(non_snake_case, clippy::too_many_arguments)]
            pub fn run<$($x: Argument<$a>,)* Out: Outputs<R>>(&self, $($x: $x,)* out: Out) -> Result<(), Error> {
                match &self.form {
                    #[cfg(feature = "cpu")]
                    Form::Cpu(kernel) => {
                        let (place, ($($x,)*)) = convert!(self for_cpu $($a $x)*);
                        let out = out.for_cpu(place).map_err(|tensor| self.misplaced(tensor))?;
                        Ok(kernel.run($($x,)* out)?)
                    }
                    #[cfg(feature = "cuda")]
                    Form::Gpu(kernel) => {
                        let (place, ($($x,)*)) = convert!(self for_gpu $($a $x)*);
                        let out = out.for_gpu(place).map_err(|tensor| self.misplaced(tensor))?;
                        Ok(kernel.run($($x,)* out)?)
                    }
                }
            }

            /// The same kernel with the fastest plan for calls with tensors of these layouts, found by timing up to twelve plans in about
            /// three seconds, or earlier on this device. The tensors are not touched. On the CPU, which has no plans, it is the same
            /// kernel. `as_gpu()` leads to what was found.
            ///
            /// # Errors
            /// Those of `run`.
            #[allow(non_snake_case, clippy::too_many_arguments)]
            pub fn tuned<$($x: Argument<$a>,)* Out: Outputs<R>>(&self, $($x: $x,)* out: Out) -> Result<Self, Error> {
                match &self.form {
                    #[cfg(feature = "cpu")]
                    Form::Cpu(_) => {
                        let (place, _) = convert!(self for_cpu $($a $x)*);
                        out.for_cpu(place).map_err(|tensor| self.misplaced(tensor))?;
                        Ok(self.clone())
                    }
                    #[cfg(feature = "cuda")]
                    Form::Gpu(kernel) => {
                        let (place, ($($x,)*)) = convert!(self for_gpu $($a $x)*);
                        let out = out.for_gpu(place).map_err(|tensor| self.misplaced(tensor))?;
                        Ok(Self { form: Form::Gpu(kernel.tuned($($x,)* out)?), device: self.device.clone() })
                    }
                }
            }

            /// Runs it and returns its results in new buffers, row-major in the shape to which the tensors are broadcast.
            ///
            /// # Errors
            /// Those of `run`; shapes that can't be broadcast, or too little memory for the results.
            #[allow(non_snake_case, clippy::too_many_arguments)]
            pub fn call<$($x: Argument<$a>),*>(&self, $($x: $x),*) -> Result<R::Buffers, Error>
            where
                R: Returned,
            {
                let shapes: [Option<&[u64]>; _] = [$(Argument::<$a>::shape(&$x)),*];
                let shapes: Vec<&[u64]> = shapes.into_iter().flatten().collect();
                let layout = Layout::contiguous(&broadcast(&shapes)?)?;
                match &self.form {
                    #[cfg(feature = "cpu")]
                    Form::Cpu(kernel) => {
                        let (_, ($($x,)*)) = convert!(self for_cpu $($a $x)*);
                        Ok(R::from_cpu(kernel.call($($x),*)?, &layout, &self.device))
                    }
                    #[cfg(feature = "cuda")]
                    Form::Gpu(kernel) => {
                        let (_, ($($x,)*)) = convert!(self for_gpu $($a $x)*);
                        Ok(R::from_gpu(kernel.call($($x),*)?, &layout, &self.device))
                    }
                }
            }
        }
    };
}

plimsoll_expr::for_each_signature!(parameters: runs);
