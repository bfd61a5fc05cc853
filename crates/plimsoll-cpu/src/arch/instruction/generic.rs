//! Scalar arithmetic in Rust, for machines without assembly loops here.
//!
//! One chain only, so latency only: a compiler may pack several chains into one vector instruction, which is then not the
//! instruction that is counted. No FMA: without the instruction it is a library call.

use std::hint::black_box;

use super::{Instruction, Links, Loop, Loops, MAX_ILP, Number, Operands, Operation, Width, links};

/// The single loop of an operation, first in the order of `ILP`.
const fn single_chain(iterations: Loop) -> Loops {
    let mut loops = [None; super::ILP.len()];
    loops[0] = Some(iterations);
    loops
}

/// One row of the table: `$link` computes the next link from the last and the constant.
macro_rules! scalar {
    ($operation:ident, $number:ident, $float:ty, $bits:ty, |$x:ident, $c:ident| $link:expr) => {{
        unsafe fn iterations(iterations: u64, operands: &Operands) -> Links {
            // opaque, so that the compiler can't compute the chain beforehand
            let $c = black_box(<$float>::from_bits(operands.constant as $bits));
            let mut $x = black_box(<$float>::from_bits(operands.seed as $bits));
            for _ in 0..iterations {
                for _ in 0..links(1) {
                    $x = $link;
                }
                $x = black_box($x);
            }
            let mut last = [0; MAX_ILP];
            last[0] = u64::from($x.to_bits());
            last
        }
        Instruction {
            operation: Operation::$operation,
            number: Number::$number,
            width: Width::Scalar,
            mnemonic: "compiled",
            operands: Operands::for_operation(Operation::$operation, Number::$number),
            is_available: || true,
            loops: single_chain(iterations),
        }
    }};
}

/// Every operation of this fallback.
pub(super) static TABLE: [Instruction; 8] = [
    scalar!(Add, F64, f64, u64, |x, c| x + c),
    scalar!(Mul, F64, f64, u64, |x, c| x * c),
    scalar!(Div, F64, f64, u64, |x, c| c / x),
    scalar!(Sqrt, F64, f64, u64, |x, _c| x.sqrt()),
    scalar!(Add, F32, f32, u32, |x, c| x + c),
    scalar!(Mul, F32, f32, u32, |x, c| x * c),
    scalar!(Div, F32, f32, u32, |x, c| c / x),
    scalar!(Sqrt, F32, f32, u32, |x, _c| x.sqrt()),
];
