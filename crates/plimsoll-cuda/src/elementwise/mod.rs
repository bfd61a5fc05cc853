//! Elementwise expressions on CUDA devices. `plimsoll_gpu::elementwise` checks tensors, keeps plans and launches kernels.
//!
//! [`Engine`], [`Expression`] and [`BoundExpression`] are the untyped interface: any number of tensors, each an [`Operand`].
//! [`Gpu`] and [`Kernel`] are the typed interface for traced closures.
//!
//! ```no_run
//! use plimsoll_cuda::Cuda;
//! use plimsoll_expr::{DType, Names, Value, parse};
//! use plimsoll_gen::elementwise::Choose;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let gpu = Cuda::device(0)?;
//! let graph = parse("scalar a: f32; y = a * x", &Names::with_default(DType::F32))?;
//! let scale = gpu.engine().expression(&graph)?;
//! let (x, y) = (gpu.upload(&[1.0_f32; 1000])?, gpu.zeros::<f32>(1000)?);
//! let (inputs, outputs) = ([x.operand()?], [y.operand()?]);
//! for a in 0..10 {
//!     // Allocates nothing from the second call on.
//!     scale.run(&inputs, &outputs, &[Value::Float(a.into())], &Choose::default(), gpu.stream())?;
//! }
//! # Ok(())
//! # }
//! ```

#[allow(unsafe_code)]
mod backend;
mod buffer;
#[allow(unsafe_code)]
mod call;
#[cfg(feature = "cudarc")]
pub mod cudarc;
mod gpu;
mod lane;
mod tuning;

pub use buffer::{Buffer, View, ViewMut};
pub use call::{Argument, Kernel, Outputs, Returned};
#[doc(hidden)]
pub use call::{Call, HeldArgument, HeldOutputs, Word};
pub use gpu::Gpu;
pub use lane::Recorded;
pub use plimsoll_gpu::elementwise::{Error, Store, Subject, Tuned};
pub use tuning::tuner;

use crate::Cuda;

/// Compiles expressions for one CUDA device and keeps their kernels. Clones share the kernels.
pub type Engine = plimsoll_gpu::elementwise::Engine<Cuda>;
/// An expression on a CUDA device, with the plans made for it so far.
pub type Expression = plimsoll_gpu::elementwise::Expression<Cuda>;
/// Times plans for expressions on a CUDA device, in one of its streams.
pub type Tuner = plimsoll_gpu::elementwise::Tuner<Cuda>;
/// An expression bound to tensors and scalars, which can be launched any number of times. It holds the tensors' memory.
pub type BoundExpression = plimsoll_gpu::elementwise::BoundExpression<Cuda>;
/// An expression bound to many sets of tensors, which one launch computes.
pub type Batch = plimsoll_gpu::elementwise::Batch<Cuda>;
/// One set of tensors of a [`Batch`].
pub type BatchSet = plimsoll_gpu::elementwise::BatchSet<Cuda>;
/// What all sets of a [`Batch`] have in common.
pub type BatchOptions<'o> = plimsoll_gpu::elementwise::BatchOptions<'o, Cuda>;
/// A tensor in the memory of a CUDA device, which it holds.
pub type Operand = plimsoll_gpu::elementwise::Operand<Cuda>;
/// A borrowed tensor for the duration of one call.
type TensorRef<'a> = plimsoll_gpu::elementwise::TensorRef<'a, Cuda>;
