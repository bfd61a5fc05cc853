//! The CPU or a GPU as one type.

use std::fmt;
use std::str::FromStr;

use plimsoll_core::text::shorten;
#[cfg(feature = "cpu")]
use plimsoll_cpu::elementwise::Cpu;
#[cfg(feature = "cuda")]
use plimsoll_cuda::elementwise::Gpu;
use plimsoll_expr::{DType, Graph, Traced};

use super::any::AnyBuffer;
use super::buffer::Buffer;
use super::element::Element;
use super::error::Error;
use super::expression::{Expression, ExpressionBuilder};
use super::kernel::Kernel;

/// A device that runs expressions: the CPU, or a GPU with a stream. Clones are the same device and stream.
#[derive(Clone)]
pub struct Device {
    pub(super) backend: Backend,
}

#[derive(Clone)]
pub(super) enum Backend {
    #[cfg(feature = "cpu")]
    Cpu(Cpu),
    #[cfg(feature = "cuda")]
    Gpu(Gpu),
}

#[cfg(feature = "cpu")]
impl From<Cpu> for Device {
    fn from(cpu: Cpu) -> Self {
        Self { backend: Backend::Cpu(cpu) }
    }
}

#[cfg(feature = "cuda")]
impl From<Gpu> for Device {
    fn from(gpu: Gpu) -> Self {
        Self { backend: Backend::Gpu(gpu) }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({self})")
    }
}

impl FromStr for Device {
    type Err = Error;

    /// As [`Device::open`].
    fn from_str(text: &str) -> Result<Self, Error> {
        Self::open(text)
    }
}

impl Device {
    /// The CPU, with a thread on each core. One per program is enough: two would compete for the same cores.
    ///
    /// # Errors
    /// Threads can't be started.
    #[cfg(feature = "cpu")]
    pub fn cpu() -> Result<Self, Error> {
        Ok(Cpu::new()?.into())
    }

    /// The CUDA device with this number, with a stream of its own.
    ///
    /// # Errors
    /// No driver, no such device, or an unusable one.
    #[cfg(feature = "cuda")]
    pub fn cuda(number: u32) -> Result<Self, Error> {
        crate::cuda_devices()?;
        Ok(plimsoll_cuda::Cuda::device(number)?.into())
    }

    /// Opens a device by its name: `cpu`, `cuda:0`, `cuda` (the same) or `auto` ([`Device::best`]).
    ///
    /// # Errors
    /// [`Error::Selector`] for another text; those of opening the device; [`plimsoll_core::Fault::Unavailable`] if this build
    /// lacks the device's feature.
    pub fn open(name: &str) -> Result<Self, Error> {
        let unknown = || Error::Selector(shorten(name, 40));
        let lower = name.trim().to_ascii_lowercase();
        match lower.split_once(':') {
            None if lower == "auto" => Self::best(),
            None if lower == "cpu" => open_cpu(),
            None if lower == "cuda" => open_cuda(0),
            Some(("cuda", number)) if number.bytes().all(|byte| byte.is_ascii_digit()) => {
                open_cuda(number.parse().map_err(|_| unknown())?)
            }
            _ => Err(unknown()),
        }
    }

    /// The first CUDA device if there is one, else the CPU.
    ///
    /// # Errors
    /// Those of opening the device: a GPU that is there but can't be used is an error.
    pub fn best() -> Result<Self, Error> {
        #[cfg(all(feature = "cpu", feature = "cuda"))]
        return if crate::cuda_devices().is_ok() { Self::cuda(0) } else { Self::cpu() };
        #[cfg(not(feature = "cpu"))]
        return Self::cuda(0);
        #[cfg(not(feature = "cuda"))]
        return Self::cpu();
    }

    /// Its name, as [`Device::open`] takes it: `cpu` or `cuda:0`.
    #[must_use]
    pub fn name(&self) -> String {
        match &self.backend {
            #[cfg(feature = "cpu")]
            Backend::Cpu(_) => "cpu".to_owned(),
            #[cfg(feature = "cuda")]
            Backend::Gpu(gpu) => format!("cuda:{}", gpu.stream().context().device().number()),
        }
    }

    /// The vendor's product name; empty if the system doesn't report it.
    #[must_use]
    pub fn model(&self) -> String {
        match &self.backend {
            #[cfg(feature = "cpu")]
            Backend::Cpu(_) => plimsoll_cpu::topology::Topology::read().model.brand,
            #[cfg(feature = "cuda")]
            Backend::Gpu(gpu) => gpu.stream().context().device().name().unwrap_or_default(),
        }
    }

    /// Whether it is a GPU, whose memory is separate and whose calls are asynchronous.
    #[must_use]
    pub fn is_gpu(&self) -> bool {
        match &self.backend {
            #[cfg(feature = "cpu")]
            Backend::Cpu(_) => false,
            #[cfg(feature = "cuda")]
            Backend::Gpu(_) => true,
        }
    }

    /// The CPU's own interface, if it is the CPU.
    #[cfg(feature = "cpu")]
    #[must_use]
    pub fn as_cpu(&self) -> Option<&Cpu> {
        match &self.backend {
            Backend::Cpu(cpu) => Some(cpu),
            #[cfg(feature = "cuda")]
            Backend::Gpu(_) => None,
        }
    }

    /// The GPU's own interface, with streams, recordings and choices of plans, if it is a GPU.
    #[cfg(feature = "cuda")]
    #[must_use]
    pub fn as_gpu(&self) -> Option<&Gpu> {
        match &self.backend {
            #[cfg(feature = "cpu")]
            Backend::Cpu(_) => None,
            Backend::Gpu(gpu) => Some(gpu),
        }
    }

    /// A kernel of a traced closure, or of a text with types. A GPU compiles it in its first call and caches it on disk.
    ///
    /// # Errors
    /// Kernels can't be compiled on this machine.
    pub fn compile<Args, R>(&self, traced: &Traced<Args, R>) -> Result<Kernel<Args, R>, Error> {
        Kernel::new(traced, self)
    }

    /// Begins an expression from a text whose types are known only at run time.
    ///
    /// ```
    /// use plimsoll::elementwise::Device;
    /// use plimsoll::expr::DType;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let device = Device::open("cpu")?;
    /// let axpy = device.expression("a*x + y").scalar("a", DType::F32).tensors(DType::F32).compile()?;
    /// let x = device.upload(&[1.0_f32, 2.0])?.into_any();
    /// let y = device.upload(&[10.0_f32, 20.0])?.into_any();
    ///
    /// let mut call = axpy.new_call();
    /// call.set("a", 0.5)?.set("x", &x)?.set("y", &y)?.allocate_outputs()?;
    /// call.run()?;
    /// call.set("a", 3.0)?.run()?; // the rest stays
    /// assert_eq!(call.get("out")?.to_vec::<f32>()?, [13.0, 26.0]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn expression(&self, text: &str) -> ExpressionBuilder {
        ExpressionBuilder::new(self, text)
    }

    /// An expression from its graph, such as [`Traced::graph`] or the result of [`plimsoll_expr::parse()`].
    ///
    /// # Errors
    /// Kernels can't be compiled on this machine.
    pub fn compile_graph(&self, graph: &Graph) -> Result<Expression, Error> {
        Expression::new(graph, self)
    }

    /// Copies elements to the device, and waits for the copy.
    ///
    /// # Errors
    /// Out of memory, with the sizes.
    pub fn upload<T: Element>(&self, values: &[T]) -> Result<Buffer<T>, Error> {
        Buffer::from_values(self, values)
    }

    /// A buffer of `length` zeros.
    ///
    /// # Errors
    /// Out of memory, with the sizes.
    pub fn zeros<T: Element>(&self, length: usize) -> Result<Buffer<T>, Error> {
        Buffer::zeros(self, length)
    }

    /// Waits for all work on a buffer and copies its elements to the host.
    ///
    /// # Errors
    /// Includes faults of kernels launched earlier.
    pub fn download<T: Element>(&self, buffer: &Buffer<T>) -> Result<Vec<T>, Error> {
        buffer.to_vec()
    }

    /// A buffer of zeros whose type is known only at run time.
    ///
    /// # Errors
    /// An invalid shape, or out of memory.
    pub fn any_zeros(&self, dtype: DType, shape: &[u64]) -> Result<AnyBuffer, Error> {
        AnyBuffer::zeros(self, dtype, shape)
    }

    /// Copies little-endian bytes of elements to the device, as a row-major tensor.
    ///
    /// # Errors
    /// [`Error::Length`] if the shape needs another number of bytes; an invalid shape; out of memory.
    pub fn any_from_bytes(&self, dtype: DType, shape: &[u64], bytes: &[u8]) -> Result<AnyBuffer, Error> {
        AnyBuffer::from_bytes(self, dtype, shape, bytes)
    }

    /// Waits until all work of the device's stream is done. The CPU's calls return when they are done.
    ///
    /// # Errors
    /// Includes faults of kernels launched earlier.
    pub fn wait(&self) -> Result<(), Error> {
        match &self.backend {
            #[cfg(feature = "cpu")]
            Backend::Cpu(_) => Ok(()),
            #[cfg(feature = "cuda")]
            Backend::Gpu(gpu) => Ok(gpu.wait()?),
        }
    }

    /// Refuses memory of another device for the tensor `name` of this device's expression.
    pub(super) fn check_same(&self, name: &str, other: &Self) -> Result<(), Error> {
        let is_same = match (&self.backend, &other.backend) {
            #[cfg(feature = "cpu")]
            (Backend::Cpu(_), Backend::Cpu(_)) => true,
            // The driver's own check tells one driver's GPUs from another's.
            #[cfg(feature = "cuda")]
            (Backend::Gpu(a), Backend::Gpu(b)) => {
                a.stream().context().device().number() == b.stream().context().device().number()
            }
            #[cfg(all(feature = "cpu", feature = "cuda"))]
            _ => false,
        };
        if is_same { Ok(()) } else { Err(self.misplaced(name, other)) }
    }

    pub(super) fn misplaced(&self, name: &str, other: &Self) -> Error {
        Error::Device { name: name.to_owned(), expected: self.name(), given: other.name() }
    }
}

#[cfg(feature = "cpu")]
fn open_cpu() -> Result<Device, Error> {
    Device::cpu()
}

#[cfg(not(feature = "cpu"))]
fn open_cpu() -> Result<Device, Error> {
    Err(crate::missing::feature("the CPU", "cpu").into())
}

#[cfg(feature = "cuda")]
fn open_cuda(number: u32) -> Result<Device, Error> {
    Device::cuda(number)
}

#[cfg(not(feature = "cuda"))]
fn open_cuda(_: u32) -> Result<Device, Error> {
    Err(crate::missing::feature("CUDA", "cuda").into())
}
