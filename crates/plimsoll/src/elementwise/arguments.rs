//! What a typed call takes and returns: numbers, buffers and views, as the backends take them.

#[cfg(feature = "cpu")]
use plimsoll_cpu::elementwise as cpu;
#[cfg(feature = "cuda")]
use plimsoll_cuda::elementwise as cuda;
use plimsoll_expr::trace::{Expr, Role};
use plimsoll_expr::{In, InOut, Layout, Scalar};

use super::buffer::{Buffer, Memory, View, ViewMut};
use super::device::Device;
use super::element::Element;

/// A tensor on another device than the kernel's.
#[doc(hidden)]
#[derive(Debug)]
pub struct Misplaced {
    /// Its place among the call's tensors: inputs, then outputs.
    pub(super) place: usize,
    pub(super) device: Device,
}

/// A valid argument for a parameter of type `A`: a number for [`Scalar`], a reference to a [`Buffer`] or [`View`] for [`In`], an
/// exclusive reference to a [`Buffer`] or [`ViewMut`] for [`InOut`].
pub trait Argument<A>: Sized {
    /// How many tensors it is.
    #[doc(hidden)]
    const TENSORS: usize;
    /// As the CPU takes it.
    #[cfg(feature = "cpu")]
    #[doc(hidden)]
    type Cpu: cpu::Argument<A>;
    /// As a GPU takes it.
    #[cfg(feature = "cuda")]
    #[doc(hidden)]
    type Gpu: cuda::Argument<A>;
    /// Its shape, if it is a tensor.
    #[doc(hidden)]
    fn shape(&self) -> Option<&[u64]>;
    #[cfg(feature = "cpu")]
    #[doc(hidden)]
    fn for_cpu(self, place: usize) -> Result<Self::Cpu, Misplaced>;
    #[cfg(feature = "cuda")]
    #[doc(hidden)]
    fn for_gpu(self, place: usize) -> Result<Self::Gpu, Misplaced>;
}

/// Valid outputs for results of type `R`: an exclusive reference to a [`Buffer`] or [`ViewMut`], a tuple of them, or `()` if
/// nothing is returned.
pub trait Outputs<R>: Sized {
    /// How many tensors they are.
    #[doc(hidden)]
    const TENSORS: usize;
    /// As the CPU takes them.
    #[cfg(feature = "cpu")]
    #[doc(hidden)]
    type Cpu: cpu::Outputs<R>;
    /// As a GPU takes them.
    #[cfg(feature = "cuda")]
    #[doc(hidden)]
    type Gpu: cuda::Outputs<R>;
    #[cfg(feature = "cpu")]
    #[doc(hidden)]
    fn for_cpu(self, place: usize) -> Result<Self::Cpu, Misplaced>;
    #[cfg(feature = "cuda")]
    #[doc(hidden)]
    fn for_gpu(self, place: usize) -> Result<Self::Gpu, Misplaced>;
}

impl<T: Element> Argument<Scalar<T>> for T {
    const TENSORS: usize = 0;
    #[cfg(feature = "cpu")]
    type Cpu = T;
    #[cfg(feature = "cuda")]
    type Gpu = T;

    fn shape(&self) -> Option<&[u64]> {
        None
    }

    #[cfg(feature = "cpu")]
    fn for_cpu(self, _: usize) -> Result<T, Misplaced> {
        Ok(self)
    }

    #[cfg(feature = "cuda")]
    fn for_gpu(self, _: usize) -> Result<T, Misplaced> {
        Ok(self)
    }
}

/// The memory of a tensor, if it is on the kernel's device.
fn require<M>(memory: Option<M>, place: usize, device: &Device) -> Result<M, Misplaced> {
    memory.ok_or_else(|| Misplaced { place, device: device.clone() })
}

impl<T: Element> Buffer<T> {
    #[cfg(feature = "cpu")]
    fn read_on_cpu<'b>(&'b self, layout: &'b Layout, place: usize) -> Result<(&'b [T], &'b Layout), Misplaced> {
        Ok((require(self.as_slice(), place, self.device())?, layout))
    }

    /// Written with a layout, or with its own.
    #[cfg(feature = "cpu")]
    fn written_on_cpu<'b>(
        &'b mut self,
        layout: Option<&'b Layout>,
        place: usize,
    ) -> Result<(&'b mut [T], &'b Layout), Misplaced> {
        let (memory, own, device) = self.parts_mut();
        Ok((require(memory.as_cpu_mut(), place, device)?, layout.unwrap_or(own)))
    }

    #[cfg(feature = "cuda")]
    fn read_on_gpu<'b>(
        &'b self,
        layout: &'b Layout,
        place: usize,
    ) -> Result<(&'b cuda::Buffer<T>, &'b Layout), Misplaced> {
        Ok((require(self.as_gpu(), place, self.device())?, layout))
    }

    /// Written with a layout, or with its own.
    #[cfg(feature = "cuda")]
    fn written_on_gpu<'b>(
        &'b mut self,
        layout: Option<&'b Layout>,
        place: usize,
    ) -> Result<(&'b mut cuda::Buffer<T>, &'b Layout), Misplaced> {
        let (memory, own, device) = self.parts_mut();
        Ok((require(memory.as_gpu_mut(), place, device)?, layout.unwrap_or(own)))
    }
}

/// Implements the conversions of one tensor: as `$cpu` and `$gpu`, with these methods of its buffer.
macro_rules! conversions {
    ($this:ident $place:ident: $cpu:ty = $on_cpu:expr; $gpu:ty = $on_gpu:expr) => {
        const TENSORS: usize = 1;
        #[cfg(feature = "cpu")]
        type Cpu = $cpu;
        #[cfg(feature = "cuda")]
        type Gpu = $gpu;

        #[cfg(feature = "cpu")]
        fn for_cpu(self, $place: usize) -> Result<Self::Cpu, Misplaced> {
            let $this = self;
            $on_cpu
        }

        #[cfg(feature = "cuda")]
        fn for_gpu(self, $place: usize) -> Result<Self::Gpu, Misplaced> {
            let $this = self;
            $on_gpu
        }
    };
}

macro_rules! read {
    ($($of:ty: $this:ident $buffer:expr, $layout:expr;)*) => {
        $(impl<'b, T: Element> Argument<In<T>> for $of {
            conversions! {
                $this place: (&'b [T], &'b Layout) = $buffer.read_on_cpu($layout, place);
                (&'b cuda::Buffer<T>, &'b Layout) = $buffer.read_on_gpu($layout, place)
            }

            fn shape(&self) -> Option<&[u64]> {
                Some(self.layout().shape())
            }
        })*
    };
}

macro_rules! written {
    ($($of:ty: $this:ident $buffer:expr, $layout:expr;)*) => {
        $(impl<'b, T: Element> Argument<InOut<T>> for $of {
            conversions! {
                $this place: (&'b mut [T], &'b Layout) = $buffer.written_on_cpu($layout, place);
                (&'b mut cuda::Buffer<T>, &'b Layout) = $buffer.written_on_gpu($layout, place)
            }

            fn shape(&self) -> Option<&[u64]> {
                Some(self.layout().shape())
            }
        }

        impl<'b, T: Element, K: Role> Outputs<Expr<T, K>> for $of {
            conversions! {
                $this place: (&'b mut [T], &'b Layout) = $buffer.written_on_cpu($layout, place);
                (&'b mut cuda::Buffer<T>, &'b Layout) = $buffer.written_on_gpu($layout, place)
            }
        })*
    };
}

read! {
    &'b Buffer<T>: buffer buffer, buffer.layout();
    &'b View<'_, T>: view view.buffer, &view.layout;
}

written! {
    &'b mut Buffer<T>: buffer buffer, None;
    &'b mut ViewMut<'_, T>: view view.buffer, Some(&view.layout);
}

impl Outputs<()> for () {
    const TENSORS: usize = 0;
    #[cfg(feature = "cpu")]
    type Cpu = ();
    #[cfg(feature = "cuda")]
    type Gpu = ();

    #[cfg(feature = "cpu")]
    fn for_cpu(self, _: usize) -> Result<(), Misplaced> {
        Ok(())
    }

    #[cfg(feature = "cuda")]
    fn for_gpu(self, _: usize) -> Result<(), Misplaced> {
        Ok(())
    }
}

/// Declares [`Returned`], whose types are also what the backends of this build return.
macro_rules! returned {
    ($($bound:path),+) => {
        /// Results of type `R` that a call returns: a [`Buffer`] for each value, a tuple of buffers, or `()`.
        pub trait Returned: $($bound +)+ {
            /// The buffers.
            type Buffers;
            /// The CPU's results in this layout.
            #[cfg(feature = "cpu")]
            #[doc(hidden)]
            fn from_cpu(values: <Self as cpu::Returned>::Values, layout: &Layout, device: &Device) -> Self::Buffers;
            /// A GPU's results in this layout.
            #[cfg(feature = "cuda")]
            #[doc(hidden)]
            fn from_gpu(values: <Self as cuda::Returned>::Values, layout: &Layout, device: &Device) -> Self::Buffers;
        }
    };
}

#[cfg(all(feature = "cpu", feature = "cuda"))]
returned!(cpu::Returned, cuda::Returned);
#[cfg(all(feature = "cpu", not(feature = "cuda")))]
returned!(cpu::Returned);
#[cfg(all(feature = "cuda", not(feature = "cpu")))]
returned!(cuda::Returned);

impl Returned for () {
    type Buffers = ();

    #[cfg(feature = "cpu")]
    fn from_cpu((): (), _: &Layout, _: &Device) {}

    #[cfg(feature = "cuda")]
    fn from_gpu((): (), _: &Layout, _: &Device) {}
}

impl<T: Element, K: Role> Returned for Expr<T, K> {
    type Buffers = Buffer<T>;

    #[cfg(feature = "cpu")]
    fn from_cpu(values: Vec<T>, layout: &Layout, device: &Device) -> Buffer<T> {
        Buffer::from_parts(Memory::Cpu(values), layout.clone(), device)
    }

    #[cfg(feature = "cuda")]
    fn from_gpu(values: cuda::Buffer<T>, layout: &Layout, device: &Device) -> Buffer<T> {
        Buffer::from_parts(Memory::Gpu(values), layout.clone(), device)
    }
}

/// Converts the outputs of a tuple, each with its place among the tensors.
macro_rules! convert_outputs {
    ($this:ident $place:ident $method:ident $($r:ident $o:ident)+) => {{
        let ($($o,)+) = $this;
        $(
            let (tensors, output) = (<$o as Outputs<$r>>::TENSORS, $o);
            let $o = output.$method($place)?;
            let $place = $place + tensors;
        )+
        let _ = $place;
        Ok(($($o,)+))
    }};
}

macro_rules! tuples {
    ($($r:ident $o:ident)+) => {
        #[allow(non_snake_case)]
        impl<$($r, $o: Outputs<$r>),+> Outputs<($($r,)+)> for ($($o,)+) {
            const TENSORS: usize = 0 $(+ $o::TENSORS)+;
            #[cfg(feature = "cpu")]
            type Cpu = ($($o::Cpu,)+);
            #[cfg(feature = "cuda")]
            type Gpu = ($($o::Gpu,)+);

            #[cfg(feature = "cpu")]
            fn for_cpu(self, place: usize) -> Result<Self::Cpu, Misplaced> {
                convert_outputs!(self place for_cpu $($r $o)+)
            }

            #[cfg(feature = "cuda")]
            fn for_gpu(self, place: usize) -> Result<Self::Gpu, Misplaced> {
                convert_outputs!(self place for_gpu $($r $o)+)
            }
        }

        #[allow(non_snake_case)]
        impl<$($r: Returned),+> Returned for ($($r,)+) {
            type Buffers = ($($r::Buffers,)+);

            #[cfg(feature = "cpu")]
            fn from_cpu(values: <Self as cpu::Returned>::Values, layout: &Layout, device: &Device) -> Self::Buffers {
                let ($($o,)+) = values;
                ($($r::from_cpu($o, layout, device),)+)
            }

            #[cfg(feature = "cuda")]
            fn from_gpu(values: <Self as cuda::Returned>::Values, layout: &Layout, device: &Device) -> Self::Buffers {
                let ($($o,)+) = values;
                ($($r::from_gpu($o, layout, device),)+)
            }
        }
    };
}

plimsoll_expr::for_each_signature!(results: tuples);
