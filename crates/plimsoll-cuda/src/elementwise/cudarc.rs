//! Memory and streams of the cudarc crate in typed calls, so that expressions run within candle, burn and others: slices are
//! arguments like buffers are, and [`laid`] gives them shapes and strides.
//!
//! A slice of another stream than the call's is waited for before and after, as buffers are. What is recorded can't use slices,
//! since nothing would keep them.

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, CudaView, CudaViewMut, DevicePtr, DevicePtrMut, DeviceSlice};
use plimsoll_core::Fault;
use plimsoll_expr::trace::{Element as _, Expr, Role};
use plimsoll_expr::{In, InOut, Layout};

use super::buffer::Given;
use super::call::{Argument, Call, Held, HeldOutputs, Outputs};
use super::error::Error;
use super::gpu::Gpu;
use super::operand::{Extent, Raw};
use crate::Cuda;
use crate::driver::{Event, Staying, Stream};
use crate::memory::Plain;

impl Gpu {
    /// The device of a cudarc stream, with that stream. Takes some tenths of a second; keep it, or an engine, for later streams
    /// ([`Gpu::on_cudarc`]).
    ///
    /// # Errors
    /// Those of [`Cuda::device`]; the stream isn't of the device's primary context.
    pub fn of_cudarc(stream: &Arc<CudaStream>) -> Result<Self, Error> {
        let index = u32::try_from(stream.context().ordinal()).unwrap_or(u32::MAX);
        Cuda::device(index)?.on_cudarc(stream)
    }

    /// The same device and kernels with a stream of cudarc.
    ///
    /// # Errors
    /// The stream is of another device, or not of its primary context; the driver's.
    pub fn on_cudarc(&self, stream: &Arc<CudaStream>) -> Result<Self, Error> {
        let stream = Stream::of_cudarc(self.engine.context(), stream).map_err(Fault::from)?;
        Self::on(self.engine.clone(), Arc::new(stream))
    }
}

/// A slice, or a reference to one, with a layout: see [`laid`].
#[derive(Debug)]
pub struct Laid<S> {
    slice: S,
    layout: Layout,
}

/// Elements of a slice as a tensor of any layout, which must be inside of it (checked when it is used).
#[must_use]
pub fn laid<S>(slice: S, layout: Layout) -> Laid<S> {
    Laid { slice, layout }
}

/// Any of cudarc's slices, by reference.
#[doc(hidden)]
pub trait Slice {
    /// What it holds.
    type Item: Plain;
    /// Its address. cudarc makes the slice's stream wait for other uses, and marks this one there: so it is asked before the
    /// launch, and after it once more.
    fn touch(&mut self) -> u64;
    fn length(&self) -> usize;
    fn home(&self) -> &Arc<CudaStream>;
}

/// A slice while a call lasts. Dropped after the launch: then the slice's own stream waits for it, and cudarc is told.
#[doc(hidden)]
pub struct Foreign<S: Slice> {
    slice: S,
    pointer: u64,
    layout: Option<Layout>,
    crossing: Option<Crossing>,
    /// Nobody begins to record our stream meanwhile.
    _staying: Staying,
}

/// Two streams that wait for each other.
struct Crossing {
    home: Stream,
    here: Arc<Stream>,
    event: Event,
}

impl Crossing {
    /// From here on our stream goes on after the slice's; nothing where they are one.
    fn new(gpu: &Gpu, home: &Arc<CudaStream>) -> Result<Option<Self>, Error> {
        let here = gpu.stream();
        if here.is_of(home) {
            return Ok(None);
        }
        let home = Stream::of_cudarc(here.context(), home).map_err(Fault::from)?;
        let event = Event::untimed(here.context())?;
        event.record(&home)?;
        here.wait_for(&event)?;
        Ok(Some(Self { home, here: Arc::clone(here), event }))
    }
}

impl Drop for Crossing {
    fn drop(&mut self) {
        let ordered = self.event.record(&self.here).and_then(|()| self.home.wait_for(&self.event));
        // A stream that can't be made to wait may be one that its own library has begun to record.
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
        let (own, theirs) = (gpu.engine.context(), slice.home().context());
        if !own.is_of(theirs) {
            let (expected, given) = (format!("cuda:{}", own.device().number()), format!("cuda:{}", theirs.ordinal()));
            return Err(Error::Device { name: "cudarc slice".to_owned(), expected, given });
        }
        let why = "memory of cudarc can't be used while a graph is recorded: nothing would keep it";
        let staying = gpu.stream().stay().map_err(Fault::from)?.ok_or_else(|| Fault::Invalid(why.to_owned()))?;
        // First what cudarc makes the slice's stream wait for, then ours for that.
        let pointer = slice.touch();
        let crossing = Crossing::new(gpu, slice.home())?;
        Ok(Self { slice, pointer, layout, crossing, _staying: staying })
    }

    fn given(&self) -> Given<'_> {
        let (length, dtype) = (self.slice.length() as u64, S::Item::DTYPE);
        let extent = self.layout.as_ref().map_or(Extent::Flat(length), Extent::Laid);
        let bytes = length.saturating_mul(dtype.bytes());
        Given { raw: Raw { pointer: self.pointer, bytes, dtype, extent, context: None }, home: None }
    }
}

impl<S: Slice> Held for Foreign<S> {
    // It may be written too.
    const PLACES: usize = 2;

    fn give<'s, const N: usize>(&'s self, call: &mut Call<'s, N>) {
        call.input(self.given());
    }
}

impl<S: Slice> HeldOutputs for Foreign<S> {
    const PLACES: usize = 1;

    fn give<'s, const N: usize>(&'s self, call: &mut Call<'s, N>) {
        call.result(self.given());
    }
}

macro_rules! slices {
    ($($of:ty: $pointer:ident;)*) => {
        $(impl<'b, T: Plain> Slice for $of {
            type Item = T;

            fn touch(&mut self) -> u64 {
                let home = Arc::clone(self.home());
                // The mark is made when the second half is dropped, at once.
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
