//! Memory and streams of the cudarc crate in typed calls, so that expressions run within candle, burn and others. Slices are
//! arguments like buffers, and [`laid`] gives them shapes and strides.
//!
//! If a slice belongs to another stream than the call's, the two streams wait for each other before and after the call, as for
//! buffers. Recordings can't use slices, since nothing would keep them alive.

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, CudaView, CudaViewMut, DevicePtr, DevicePtrMut, DeviceSlice};
use plimsoll_core::Fault;
use plimsoll_expr::trace::{Element as _, Expr, Role};
use plimsoll_expr::{In, InOut, Layout};
use plimsoll_gpu::elementwise::Extent;

use super::buffer::CallTensor;
use super::call::{Argument, Call, HeldArgument, HeldOutputs, Outputs};
use super::gpu::Gpu;
use super::{Error, TensorRef};
use crate::Cuda;
use crate::driver::{EnteredOwned, Event, Stream};
use crate::memory::Plain;

impl Gpu {
    /// The device of a cudarc stream, with that stream. Takes some tenths of a second; reuse it for other streams of the device
    /// with [`Gpu::on_cudarc`].
    ///
    /// # Errors
    /// Those of [`Cuda::device`]; the stream isn't in the device's primary context.
    pub fn from_cudarc(stream: &Arc<CudaStream>) -> Result<Self, Error> {
        let index = u32::try_from(stream.context().ordinal()).unwrap_or(u32::MAX);
        Cuda::device(index)?.on_cudarc(stream)
    }

    /// The same device and kernels with a stream of cudarc.
    ///
    /// # Errors
    /// The stream belongs to another device, or not to its primary context.
    pub fn on_cudarc(&self, stream: &Arc<CudaStream>) -> Result<Self, Error> {
        let stream = Stream::from_cudarc(self.stream().context(), stream).map_err(Fault::from)?;
        Self::new(self.engine.clone(), Arc::new(stream))
    }
}

/// A slice, or a reference to one, with a layout: see [`laid`].
#[derive(Debug)]
pub struct Laid<S> {
    slice: S,
    layout: Layout,
}

/// The elements of a slice as a tensor of any layout, which must lie inside the slice (checked when it is used).
#[must_use]
pub fn laid<S>(slice: S, layout: Layout) -> Laid<S> {
    Laid { slice, layout }
}

/// Any cudarc slice, by reference.
#[doc(hidden)]
pub trait Slice {
    /// The element type.
    type Item: Plain;
    /// Its address. cudarc then makes the slice's stream wait for other uses and records this one, so it is called before the
    /// launch and again after it.
    fn touch(&mut self) -> u64;
    fn length(&self) -> usize;
    fn home(&self) -> &Arc<CudaStream>;
}

/// A slice for the duration of a call. It is dropped after the launch: then the slice's stream waits for it, and cudarc records the
/// use.
#[doc(hidden)]
pub struct Foreign<S: Slice> {
    slice: S,
    pointer: u64,
    layout: Option<Layout>,
    crossing: Option<Crossing>,
    /// Prevents a recording of our stream during the call.
    _entered: EnteredOwned,
}

/// Two streams that wait for each other.
struct Crossing {
    home: Stream,
    here: Arc<Stream>,
    event: Event,
}

impl Crossing {
    /// Makes our stream wait for the slice's stream; `None` if they are the same.
    fn new(gpu: &Gpu, home: &Arc<CudaStream>) -> Result<Option<Self>, Error> {
        let here = gpu.stream();
        if here.is_same_stream(home) {
            return Ok(None);
        }
        let home = Stream::from_cudarc(here.context(), home).map_err(Fault::from)?;
        let event = Event::untimed(here.context())?;
        event.record(&home)?;
        here.wait_for(&event)?;
        Ok(Some(Self { home, here: Arc::clone(here), event }))
    }
}

impl Drop for Crossing {
    fn drop(&mut self) {
        let ordered = self.event.record(&self.here).and_then(|()| self.home.wait_for(&self.event));
        // This fails, for example, if the library that owns the stream has started to record it.
        if ordered.is_err() && crate::wait::stream(&self.here).is_err() {
            self.here.context().give_up();
        }
    }
}

impl<S: Slice> Drop for Foreign<S> {
    fn drop(&mut self) {
        self.crossing = None;
        self.slice.touch();
    }
}

impl<S: Slice> Foreign<S> {
    fn new(mut slice: S, layout: Option<Layout>, gpu: &Gpu) -> Result<Self, Error> {
        let (own, theirs) = (gpu.stream().context(), slice.home().context());
        if !own.is_same_context(theirs) {
            let (expected, given) = (format!("cuda:{}", own.device().number()), format!("cuda:{}", theirs.ordinal()));
            return Err(Error::Device { name: "cudarc slice".to_owned(), expected, given });
        }
        let why = "memory of cudarc can't be used while a graph is being recorded: nothing would keep it alive";
        let entered = gpu.stream().enter_owned().map_err(Fault::from)?.ok_or_else(|| Fault::Invalid(why.to_owned()))?;
        // First cudarc makes the slice's stream wait for other uses, then ours waits for the slice's.
        let pointer = slice.touch();
        let crossing = Crossing::new(gpu, slice.home())?;
        Ok(Self { slice, pointer, layout, crossing, _entered: entered })
    }

    fn tensor(&self) -> CallTensor<'_> {
        let (length, dtype) = (self.slice.length() as u64, S::Item::DTYPE);
        let extent = self.layout.as_ref().map_or(Extent::Flat(length), Extent::Laid);
        let bytes = length.saturating_mul(dtype.bytes());
        CallTensor { tensor: TensorRef { pointer: self.pointer, bytes, dtype, extent, held: None }, home: None }
    }
}

impl<S: Slice> HeldArgument for Foreign<S> {
    // It may be written too.
    const PLACES: usize = 2;

    fn add_to<'s, const N: usize>(&'s self, call: &mut Call<'s, N>) {
        call.push_input(self.tensor());
    }
}

impl<S: Slice> HeldOutputs for Foreign<S> {
    const PLACES: usize = 1;

    fn add_to<'s, const N: usize>(&'s self, call: &mut Call<'s, N>) {
        call.push_result(self.tensor());
    }
}

macro_rules! slices {
    ($($of:ty: $pointer:ident;)*) => {
        $(impl<'b, T: Plain> Slice for $of {
            type Item = T;

            fn touch(&mut self) -> u64 {
                let home = Arc::clone(self.home());
                // Dropping the second half, here immediately, records the use.
                (**self).$pointer(&home).0
            }

            fn length(&self) -> usize {
                (**self).len()
            }

            fn home(&self) -> &Arc<CudaStream> {
                DeviceSlice::<T>::stream(&**self)
            }
        })*
    };
}

slices! {
    &'b CudaSlice<T>: device_ptr;
    &'b CudaView<'_, T>: device_ptr;
    &'b mut CudaSlice<T>: device_ptr_mut;
    &'b mut CudaViewMut<'_, T>: device_ptr_mut;
}

macro_rules! arguments {
    ($([$($generics:tt)*] $trait:ident<$parameter:ty>: $of:ty;)*) => {
        $(
            impl<$($generics)*> $trait<$parameter> for $of {
                type Held = Foreign<Self>;

                fn hold(self, gpu: &Gpu) -> Result<Foreign<Self>, Error> {
                    Foreign::new(self, None, gpu)
                }
            }

            impl<$($generics)*> $trait<$parameter> for Laid<$of> {
                type Held = Foreign<$of>;

                fn hold(self, gpu: &Gpu) -> Result<Foreign<$of>, Error> {
                    Foreign::new(self.slice, Some(self.layout), gpu)
                }
            }
        )*
    };
}

arguments! {
    ['b, T: Plain] Argument<In<T>>: &'b CudaSlice<T>;
    ['b, 'v, T: Plain] Argument<In<T>>: &'b CudaView<'v, T>;
    ['b, T: Plain] Argument<InOut<T>>: &'b mut CudaSlice<T>;
    ['b, 'v, T: Plain] Argument<InOut<T>>: &'b mut CudaViewMut<'v, T>;
    ['b, T: Plain, K: Role] Outputs<Expr<T, K>>: &'b mut CudaSlice<T>;
    ['b, 'v, T: Plain, K: Role] Outputs<Expr<T, K>>: &'b mut CudaViewMut<'v, T>;
}
