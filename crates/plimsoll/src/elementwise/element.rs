//! The element types that every device of this build supports.

use half::{bf16, f16};
use plimsoll_expr::DType;
use plimsoll_expr::trace::{F8E4M3, F8E5M2};

/// Declares [`Element`] with what the backends of this build ask of a type.
macro_rules! element {
    ($($bound:path),+) => {
        /// A Rust type of elements that every device supports: `f64`, `f32`, [`f16`](struct@f16), [`bf16`](struct@bf16),
        /// [`F8E4M3`], [`F8E5M2`], the integers of 8 to 64 bits, and `bool`. No other type can be added.
        pub trait Element: $($bound +)+ {
            /// The value of its little-endian bytes. Any byte except 0 is true.
            #[doc(hidden)]
            fn from_le(bytes: &[u8]) -> Self;
            /// Appends its little-endian bytes.
            #[doc(hidden)]
            fn push_le(self, bytes: &mut Vec<u8>);
        }
    };
}

#[cfg(all(feature = "cpu", feature = "cuda"))]
element!(plimsoll_cpu::memory::Lendable, plimsoll_cuda::memory::Plain);
#[cfg(all(feature = "cpu", not(feature = "cuda")))]
element!(plimsoll_cpu::memory::Lendable);
#[cfg(all(feature = "cuda", not(feature = "cpu")))]
element!(plimsoll_cuda::memory::Plain);

macro_rules! elements {
    ($($type:ty)*) => {
        $(impl Element for $type {
            fn from_le(bytes: &[u8]) -> Self {
                let mut own = [0; size_of::<Self>()];
                own.copy_from_slice(&bytes[..size_of::<Self>()]);
                Self::from_le_bytes(own)
            }

            fn push_le(self, bytes: &mut Vec<u8>) {
                bytes.extend_from_slice(&self.to_le_bytes());
            }
        })*
    };
}

elements!(f64 f32 f16 bf16 i8 i16 i32 i64 u8 u16 u32 u64);

macro_rules! one_byte {
    ($($type:ty: $from:expr, $to:expr;)*) => {
        $(impl Element for $type {
            fn from_le(bytes: &[u8]) -> Self {
                let from: fn(u8) -> Self = $from;
                from(bytes[0])
            }

            fn push_le(self, bytes: &mut Vec<u8>) {
                let to: fn(Self) -> u8 = $to;
                bytes.push(to(self));
            }
        })*
    };
}

one_byte! {
    F8E4M3: F8E4M3::from_bits, F8E4M3::to_bits;
    F8E5M2: F8E5M2::from_bits, F8E5M2::to_bits;
    bool: |byte| byte != 0, u8::from;
}

/// Something to do with a type that is known only at run time.
pub(super) trait ForType {
    type Out;
    fn run<T: Element>(self) -> Self::Out;
}

/// Does `task` with the Rust type of `dtype`.
pub(super) fn with_type<F: ForType>(dtype: DType, task: F) -> F::Out {
    match dtype {
        DType::F64 => task.run::<f64>(),
        DType::F32 => task.run::<f32>(),
        DType::F16 => task.run::<f16>(),
        DType::Bf16 => task.run::<bf16>(),
        DType::F8E4M3 => task.run::<F8E4M3>(),
        DType::F8E5M2 => task.run::<F8E5M2>(),
        DType::I8 => task.run::<i8>(),
        DType::I16 => task.run::<i16>(),
        DType::I32 => task.run::<i32>(),
        DType::I64 => task.run::<i64>(),
        DType::U8 => task.run::<u8>(),
        DType::U16 => task.run::<u16>(),
        DType::U32 => task.run::<u32>(),
        DType::U64 => task.run::<u64>(),
        DType::Bool => task.run::<bool>(),
    }
}
