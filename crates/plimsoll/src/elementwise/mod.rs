//! Elementwise expressions: a function of elements, written once as a closure or as text, that runs at memory speed on the CPU or on
//! a GPU.
//!
//! ```
//! use plimsoll::prelude::*;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let device = Device::open("cpu")?; // or "cuda:0", or "auto": the first GPU, else the CPU
//! let axpy = device.compile(&trace(|a: Scalar<f32>, x: In<bf16>, y: In<bf16>| (a * x + y).tanh())?)?;
//! let x = device.upload(&[bf16::ONE; 1000])?;
//! let y = device.zeros::<bf16>(x.len())?;
//! let mut out = device.zeros::<bf16>(x.len())?;
//! axpy.run(0.5, &x, &y, &mut out)?; // asynchronous on a GPU, in the order of its stream
//! assert_eq!(device.download(&out)?[999], bf16::from_f32(0.5_f32.tanh())); // waits for the result
//! let other = axpy.call(0.25, &x, &y)?; // the same in a new buffer
//! assert_eq!(other.shape(), [1000]);
//!
//! // From text, with the names of the parameters in the order of the types.
//! type Axpy = Traced<(Scalar<f32>, In<bf16>, In<bf16>), In<bf16>>;
//! let same = device.compile(&Axpy::from_text(&["a", "x", "y"], "tanh(a*x + y)")?)?;
//! same.run(0.5, &x, &y, &mut out)?;
//!
//! // Two tensors updated in place.
//! let step = trace(|rate: Scalar<f32>, g: In<bf16>, m: InOut<f32>, p: InOut<f32>| {
//!     let next = m.get() * 0.9 + 0.1 * g;
//!     m.set(next);
//!     p.set(p.get() - rate * next);
//! })?;
//! let step = device.compile(&step)?;
//! let (mut m, mut p) = (device.zeros::<f32>(x.len())?, device.zeros::<f32>(x.len())?);
//! step.run(1e-3, &x, &mut m, &mut p, ())?;
//!
//! // A text whose types are known only at run time, with operands by name.
//! use plimsoll::expr::DType;
//! let scaled = device.expression("s = a*x").scalar("a", DType::F32).tensors(DType::F32).compile()?;
//! let mut call = scaled.new_call();
//! call.set("x", &m.into_any())?.set("a", 10.0)?.allocate_outputs()?;
//! call.run()?;
//! assert!((call.get("s")?.to_vec::<f32>()?[0] - 1.0).abs() < 1e-6);
//! # Ok(())
//! # }
//! ```
//!
//! Backends also have their own types: [`cpu`] takes slices and vectors without a copy, [`gpu`] has streams, recordings and choices of
//! plans.
//!
//! # Guarantees
//!
//! - **Order.** A [`Buffer`] belongs to the device, and on a GPU to the stream, of the [`Device`] that made it; all its uses happen in
//!   the order of that stream, also if another stream's kernel uses it. [`Device::upload`], [`Device::download`] and [`Device::wait`]
//!   block; on a GPU [`Kernel::run`] doesn't. [`Call::run`] doesn't either, unless a buffer belongs to another stream: then the host waits
//!   for both streams, and no other thread may use that buffer meanwhile. Memory of another device is refused with an error that names both.
//! - **Shapes.** A buffer is a row-major tensor, after [`Device::upload`] of one dimension; [`Buffer::reshaped`] gives it others.
//!   [`Buffer::shaped`] and [`Buffer::view`] read it with other dimensions, strides and an offset. All outputs have the same shape, to
//!   which inputs are broadcast. Calls with zero elements do nothing.
//! - **Memory.** An output is either exactly an input, in place ([`plimsoll_expr::InOut`]), or a buffer of its own.
//! - **Scalars** are weak: they don't promote a tensor. A new value doesn't recompile the kernel.
//! - **Precision.** f16 and bf16 are computed in f32 and rounded once, at the store; `cast` also rounds.
//! - **Allocation.** A call with the layouts of an earlier call allocates nothing.
//! - **Errors** are values of [`Error`] with the tensor's name and sizes; nothing panics. After a GPU's error every later call
//!   reports that the device is lost.

#[cfg(any(feature = "cpu", feature = "cuda"))]
mod any;
#[cfg(any(feature = "cpu", feature = "cuda"))]
mod arguments;
#[cfg(any(feature = "cpu", feature = "cuda"))]
mod buffer;
#[cfg(any(feature = "cpu", feature = "cuda"))]
mod call;
#[cfg(feature = "cpu")]
pub mod cpu;
#[cfg(any(feature = "cpu", feature = "cuda"))]
mod device;
#[cfg(any(feature = "cpu", feature = "cuda"))]
mod element;
#[cfg(any(feature = "cpu", feature = "cuda"))]
mod error;
#[cfg(any(feature = "cpu", feature = "cuda"))]
mod expression;
#[cfg(any(feature = "cpu", feature = "cuda"))]
#[allow(unsafe_code)]
mod foreign;
#[cfg(feature = "cuda")]
pub mod gpu;
#[cfg(any(feature = "cpu", feature = "cuda"))]
mod kernel;

#[cfg(any(feature = "cpu", feature = "cuda"))]
mod exports {
    pub use super::any::{AnyBuffer, IntoTypedError};
    #[doc(hidden)]
    pub use super::arguments::Misplaced;
    pub use super::arguments::{Argument, Outputs, Returned};
    pub use super::buffer::{Buffer, View, ViewMut};
    pub use super::call::{Call, Key, Setting};
    pub use super::device::Device;
    pub use super::element::Element;
    pub use super::error::Error;
    pub use super::expression::{Expression, ExpressionBuilder, Parameter, ParameterRole};
    pub use super::foreign::{Many, Queue};
    pub use super::kernel::Kernel;
}
#[cfg(any(feature = "cpu", feature = "cuda"))]
pub use exports::*;
