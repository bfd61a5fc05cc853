//! Calls on tensors of other libraries: NumPy's, PyTorch's, JAX's, by address.

mod many;

use plimsoll_core::Fault;
use plimsoll_expr::{Foreign, Value};
#[cfg(feature = "cuda")]
use plimsoll_gen::elementwise::Choose;

#[cfg(feature = "cuda")]
use super::device::Device;
use super::error::Error;
use super::expression::{Expression, Form};
#[cfg(feature = "cpu")]
use super::expression::{Parameter, ParameterRole};

pub use many::Many;

/// In whose order a call runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Queue {
    /// The device's own: on the CPU a call returns when it is done, on a GPU it is queued in the device's stream.
    #[default]
    Own,
    /// A stream of CUDA by the driver's handle, a `CUstream` or `cudaStream_t` as a number: 0 is the legacy default stream, 1 the same
    /// and 2 the thread's default stream. The call returns when it is queued.
    Cuda(u64),
}

#[cfg(feature = "cuda")]
impl Device {
    /// As [`Device::cuda`], for programs in which other libraries use CUDA: the context that is current on this thread stays current.
    ///
    /// # Errors
    /// Those of [`Device::cuda`].
    pub fn cuda_unnoticed(number: u32) -> Result<Self, Error> {
        let driver = plimsoll_cuda::driver::Driver::system().map_err(Fault::from)?;
        driver.keep_current(|| Self::cuda(number)).map_err(Fault::from)?
    }

    /// The driver's handle of a queue's stream; 0 for the CPU, which has none.
    fn cuda_stream(&self, queue: Queue) -> u64 {
        match queue {
            Queue::Cuda(stream) => stream,
            Queue::Own => self.as_gpu().map_or(0, |gpu| gpu.stream().raw()),
        }
    }
}

impl Expression {
    /// Runs the expression on tensors of other libraries. `tensors` are the inputs in order, then the outputs that aren't written in
    /// place; scalars follow their order in the expression. Two inputs may share memory. Allocates nothing if the layouts, and the
    /// alignment of the addresses within 32 bytes, are those of an earlier call.
    ///
    /// On a GPU other libraries notice nothing but the kernel: the current context stays, and a call in a stream that its library is
    /// recording becomes part of the recording, even if it compiles first ([`Expression::warm`] does that beforehand).
    ///
    /// # Safety
    /// - Every element of a tensor is memory that the device can access: initialised for inputs, writable for outputs and inputs that
    ///   are written in place. On the CPU its address comes from a pointer with exposed provenance, or from another language.
    /// - Until the work is done nobody writes what it reads, or accesses what it writes, except in work that the queue orders with it.
    ///   On the CPU it is done when the call returns.
    /// - Nothing is held. On a GPU the memory and the stream live until the work in the stream is done, and the memory as long as a
    ///   recording of it.
    /// - A stream is one of the primary context of the expression's device.
    ///
    /// # Errors
    /// A wrong number, type, shape or address of a tensor, or an output that overlaps itself or another tensor, each with the tensor's
    /// name. For one tensor as input and output use an expression that writes it in place
    /// ([`Graph::with_output_in_place`](plimsoll_expr::Graph::with_output_in_place)). A queue that the device doesn't have.
    pub unsafe fn run_foreign(&self, tensors: &[Foreign<'_>], scalars: &[Value], queue: Queue) -> Result<(), Error> {
        match &self.form {
            #[cfg(feature = "cpu")]
            Form::Cpu(expression) => {
                check_cpu(queue)?;
                // SAFETY: the caller promises it.
                Ok(unsafe { expression.run_foreign(tensors, scalars) }?)
            }
            #[cfg(feature = "cuda")]
            Form::Gpu(expression) => {
                let stream = self.device.cuda_stream(queue);
                // SAFETY: the caller promises it; the device's stream lives as long as the device, and its drop waits for its work.
                Ok(unsafe { expression.run_foreign(tensors, scalars, &Choose::default(), stream) }?)
            }
        }
    }

    /// Plans, compiles and loads what [`Expression::run_foreign`] needs for such tensors, without accessing them. On the CPU it only
    /// counts them: there the first call costs little more than others.
    ///
    /// # Errors
    /// On a GPU those of [`Expression::run_foreign`]; on the CPU a wrong number of tensors.
    pub fn warm(&self, tensors: &[Foreign<'_>]) -> Result<(), Error> {
        match &self.form {
            #[cfg(feature = "cpu")]
            Form::Cpu(_) => {
                let is_tensor = |parameter: &&Parameter| parameter.role != ParameterRole::Scalar;
                let expected = self.parameters().iter().filter(is_tensor).count() as u64;
                let given = tensors.len() as u64;
                if given == expected { Ok(()) } else { Err(Error::Length { what: "tensors", expected, given }) }
            }
            #[cfg(feature = "cuda")]
            Form::Gpu(expression) => Ok(expression.prepare_foreign(tensors, &Choose::default())?),
        }
    }
}

/// Refuses a queue that the CPU doesn't have.
#[cfg(feature = "cpu")]
fn check_cpu(queue: Queue) -> Result<(), Error> {
    match queue {
        Queue::Own => Ok(()),
        Queue::Cuda(_) => {
            let why = "the expression runs on the CPU, which has no CUDA stream: use Queue::Own";
            Err(Fault::Invalid(why.to_owned()).into())
        }
    }
}
