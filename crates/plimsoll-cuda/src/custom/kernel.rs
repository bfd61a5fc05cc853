//! A kernel of a user's cubin on a device, and requests to time one.

use std::sync::Arc;

use plimsoll_core::{Fault, Traffic};
use plimsoll_gen::custom::{Argument, Arguments, Cubin, Occupied, Signature, check, check_sizes};

use super::geometry::{check_loaded, check_stated};
use crate::driver::{Attribute, Context, DriverError, Function, Module};
use crate::launch::{Geometry, Launch};
use crate::memory::Span;

/// The value of a parameter.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A pointer to memory of the device.
    Memory(Span),
    /// The bytes of anything else: a number or a struct, in the layout of CUDA C++.
    Bytes(Vec<u8>),
}

impl From<Span> for Value {
    fn from(span: Span) -> Self {
        Self::Memory(span)
    }
}

macro_rules! numbers {
    ($($number:ty),+) => {$(
        impl From<$number> for Value {
            fn from(number: $number) -> Self {
                Self::Bytes(number.to_le_bytes().to_vec())
            }
        }
    )+};
}

numbers!(u8, i8, u16, i16, u32, i32, u64, i64, f32, f64);

impl Value {
    /// Its size as a parameter, bytes.
    fn bytes(&self) -> u64 {
        match self {
            Self::Memory(_) => 8,
            Self::Bytes(bytes) => bytes.len() as u64,
        }
    }

    /// Its name in messages, with its size.
    fn describe(&self) -> (String, u64) {
        let name = match self {
            Self::Memory(span) => format!("memory of {} bytes", span.bytes()),
            Self::Bytes(bytes) => format!("{bytes:02x?}"),
        };
        (name, self.bytes())
    }
}

/// A kernel of a user's cubin, loaded on a device.
#[derive(Clone, Debug)]
pub struct Kernel {
    function: Function,
    signature: Signature,
}

impl Kernel {
    /// Loads the kernel of this name, or the only one.
    ///
    /// # Safety
    /// The cubin must come from a compiler or assembler for NVIDIA GPUs: the driver follows structures in it that are not checked
    /// here.
    ///
    /// # Errors
    /// [`Fault::Invalid`] if there is no such kernel, or the cubin is for another architecture than the device's.
    pub unsafe fn load(context: &Arc<Context>, cubin: &Cubin, name: Option<&str>) -> Result<Self, Fault> {
        let signature = cubin.kernel(name).map_err(|error| Fault::Invalid(error.to_string()))?.clone();
        check_architecture(context, cubin)?;
        // The structures that a driver follows were checked as far as they are known; the caller guarantees the rest.
        let module = Module::load_checked(context, cubin.image().clone()).map_err(refuse_load)?;
        let function = module.function(&signature.name)?;
        Ok(Self { function, signature })
    }

    /// What the cubin states about it.
    #[must_use]
    pub fn signature(&self) -> &Signature {
        &self.signature
    }

    /// Checks a grid and block against the device and the kernel, and returns what a launch occupies.
    ///
    /// # Errors
    /// [`Fault::Invalid`] with the limit.
    pub fn occupy(&self, geometry: Geometry) -> Result<Occupied, Fault> {
        check_loaded(&self.function, &self.signature, geometry)
    }

    /// Prepares a launch, which [`Stream::launch`](crate::driver::Stream::launch) enqueues. It keeps the memory among its values
    /// alive.
    ///
    /// # Safety
    /// Whenever a stream or graph runs the launch:
    /// - each parameter must be meant as the value given for it, since the machine code states sizes but no types;
    /// - the kernel must access only memory inside the spans among `values`, the shared and local memory of this launch, and
    ///   variables of its own module, at addresses aligned for the access;
    /// - nothing else may access that memory at the same time, unless both only read it;
    /// - the kernel must end.
    ///
    /// # Errors
    /// [`Fault::Invalid`] for values of another number or size than the kernel's parameters, for a grid or block beyond the
    /// limits of the device or of the kernel, and for freed memory.
    pub unsafe fn launch(&self, geometry: Geometry, values: &[Value]) -> Result<Launch, Fault> {
        let sizes: Vec<(String, u64)> = values.iter().map(Value::describe).collect();
        check_sizes(&self.signature, &sizes).map_err(|misfit| Fault::Invalid(misfit.to_string()))?;
        self.occupy(geometry)?;
        let offsets: Vec<usize> = self.signature.parameters.iter().map(|parameter| parameter.offset as usize).collect();
        let mut block = vec![0_u8; self.signature.parameter_bytes().next_multiple_of(8) as usize];
        let mut spans = Vec::new();
        for (value, offset) in values.iter().zip(&offsets) {
            let pointer = match value {
                Value::Memory(span) => {
                    spans.push(*span);
                    span.pointer().to_le_bytes()
                }
                Value::Bytes(_) => [0; 8],
            };
            let bytes = if let Value::Bytes(bytes) = value { bytes } else { &pointer[..] };
            block[*offset..][..bytes.len()].copy_from_slice(bytes);
        }
        let words = block.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word)).collect();
        // SAFETY: the parameters are those of the machine code; the caller guarantees what the kernel does with them.
        unsafe { Launch::packed(&self.function, geometry, (words, offsets), &spans) }
    }
}

/// A cubin runs on devices of its major compute capability and at least its minor one (CUDA C++ Programming Guide, 'Binary
/// Compatibility').
fn check_architecture(context: &Context, cubin: &Cubin) -> Result<(), Fault> {
    let Some(stated) = cubin.capability() else { return Ok(()) };
    let number = |attribute| context.device().attribute(attribute).map(|value| u32::try_from(value).unwrap_or(0));
    let own = 10 * number(Attribute::CapabilityMajor)? + number(Attribute::CapabilityMinor)?;
    if stated / 10 == own / 10 && stated <= own {
        return Ok(());
    }
    Err(Fault::Invalid(format!(
        "the cubin is for sm_{stated}, which this device can't run: compile it with -arch=sm_{own}"
    )))
}

fn refuse_load(error: DriverError) -> Fault {
    match error.code() {
        // CUDA_ERROR_INVALID_IMAGE, CUDA_ERROR_NO_BINARY_FOR_GPU and symbols that can't be resolved.
        Some(200 | 209 | 218 | 302 | 303) => Fault::Invalid(format!(
            "the driver can't load the cubin ({error}): compile it for this device, without separate compilation (-rdc=false)"
        )),
        _ => error.into(),
    }
}

/// A kernel to time, with its arguments, grid and block.
#[derive(Clone, Debug)]
pub struct Request {
    cubin: Arc<Cubin>,
    name: String,
    arguments: Arguments,
    geometry: Geometry,
    traffic: Traffic,
}

impl Request {
    /// Checks what can be checked without a device. Buffers are allocated where it is timed.
    ///
    /// # Safety
    /// - The cubin must come from a compiler or assembler for NVIDIA GPUs ([`Kernel::load`]).
    /// - Launched with these arguments, on buffers of the stated sizes that begin at multiples of 256 bytes, one launch after
    ///   the other and any number of times, the kernel must keep to the contract of [`Kernel::launch`]. Buffers that it reads
    ///   hold the stated content, or what earlier launches left in them.
    ///
    /// # Errors
    /// [`Fault::Invalid`] if there is no such kernel, for arguments of another number or size than its parameters, and for a grid
    /// or block beyond its limits or those of every device.
    pub unsafe fn new(
        cubin: Arc<Cubin>,
        name: Option<&str>,
        arguments: Arguments,
        geometry: Geometry,
    ) -> Result<Self, Fault> {
        let signature = cubin.kernel(name).map_err(|error| Fault::Invalid(error.to_string()))?;
        check(signature, &arguments).map_err(|misfit| Fault::Invalid(misfit.to_string()))?;
        check_stated(signature, geometry)?;
        let (name, traffic) = (signature.name.clone(), arguments.traffic());
        Ok(Self { cubin, name, arguments, geometry, traffic })
    }

    /// States the bytes that a launch reads and writes, where they differ from what the buffers' roles say.
    #[must_use]
    pub fn with_traffic(mut self, read: Option<u64>, written: Option<u64>) -> Self {
        self.traffic = Traffic::new(read.unwrap_or(self.traffic.read), written.unwrap_or(self.traffic.written));
        self
    }

    /// The cubin.
    #[must_use]
    pub fn cubin(&self) -> &Cubin {
        &self.cubin
    }

    /// What the cubin states about the kernel.
    #[must_use]
    pub fn signature(&self) -> &Signature {
        self.cubin.kernel(Some(&self.name)).unwrap_or_else(|_| unreachable!("checked when the request was made"))
    }

    /// The arguments.
    #[must_use]
    pub fn arguments(&self) -> &Arguments {
        &self.arguments
    }

    /// Blocks, threads and dynamic shared memory.
    #[must_use]
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// The bytes that a launch reads and writes.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        self.traffic
    }

    /// Distinct bytes that a launch touches, at most.
    #[must_use]
    pub fn footprint(&self) -> u64 {
        self.arguments.bytes().min(self.traffic.total())
    }

    /// Loads the kernel.
    ///
    /// # Errors
    /// Those of [`Kernel::load`], except that there is such a kernel.
    pub fn load(&self, context: &Arc<Context>) -> Result<Kernel, Fault> {
        // SAFETY: promised when the request was made.
        unsafe { Kernel::load(context, &self.cubin, Some(&self.name)) }
    }

    /// Prepares a launch on these buffers, which are as large as the request says.
    pub(super) fn launch(&self, kernel: &Kernel, buffers: &[Span]) -> Result<Launch, Fault> {
        let mut buffers = buffers.iter();
        let value = |argument: &Argument| match argument {
            Argument::Buffer(buffer) => {
                let span = buffers.next().filter(|span| span.bytes() >= buffer.bytes());
                span.map(|span| Value::Memory(*span)).ok_or_else(|| Fault::Invalid("a buffer is missing".to_owned()))
            }
            Argument::Number(dtype, value) => {
                let mut bytes = Vec::new();
                dtype.write(*value, &mut bytes);
                Ok(Value::Bytes(bytes))
            }
            Argument::Bytes(bytes) => Ok(Value::Bytes(bytes.clone())),
        };
        let values = self.arguments.0.iter().map(value).collect::<Result<Vec<_>, Fault>>()?;
        // SAFETY: the buffers have the stated sizes and begin at allocations of 4096-byte granularity; the rest was promised when the
        // request was made.
        unsafe { kernel.launch(self.geometry, &values) }
    }
}
