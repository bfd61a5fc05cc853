//! How long an element's arithmetic takes compared with moving its bytes: counted in its program, without a compiler.

use plimsoll_expr::op::{Binary, Domain, Unary};
use plimsoll_expr::{Cost, DType, Graph};
use plimsoll_ir::{Block, Op};

use super::accuracy::meaning;
use super::count::{Slots, count, latency};
use super::spec::element_bytes;
use super::{Tier, body};

/// Instructions of a warp's lanes per clock and SM, by pipe: compute capability 9.0 (CUDA C++ Programming Guide, table of arithmetic
/// throughput). Other devices of data centers differ little.
pub const ISSUE: f64 = 128.0;
const FMA: f64 = 128.0;
const ALU: f64 = 64.0;
pub const MUFU: f64 = 16.0;
const FP64: f64 = 64.0;
const CONVERSION: f64 = 64.0;
/// Bytes per clock and SM that memory moves on an H200: 4.26 TB/s at 1.7 GHz with 132 SMs. On other devices only the balance between memory and
/// arithmetic differs.
pub const BYTES: f64 = 19.0;

/// An element's arithmetic.
#[derive(Clone, Copy, Debug)]
pub struct Weight {
    /// The time of the busiest pipe as a share of memory's time, for large tensors in whole vectors.
    pub share: f64,
    /// Clocks from operands to results; for elements of 8 bytes half of them, because each moves twice as much meanwhile.
    pub latency: f64,
    /// Registers that a thread takes in a flat kernel, roughly.
    pub registers: u32,
}

/// Registers of most kernels, and how many more each of a device's f64 functions takes: `exp` of f64 takes 24, `silu` with its three functions
/// behind a guard 48 (compute capability 9.0).
const USUAL_REGISTERS: u32 = 24;
const OF_FUNCTION: u32 = 8;
const MOST_REGISTERS: u32 = 56;
const LEAST_REGISTERS: u32 = 32;

fn registers(block: &Block) -> u32 {
    let is_function = |op| match op {
        Op::Unary(op) => {
            op.domain() == Domain::Float && !matches!(op, Unary::Floor | Unary::Ceil | Unary::Round | Unary::Trunc)
        }
        Op::Binary(op) => matches!(op, Binary::Div | Binary::Pow | Binary::Atan2),
        _ => false,
    };
    let functions = block.instructions.iter().filter(|at| at.dtype == DType::F64 && is_function(at.op)).count();
    (USUAL_REGISTERS + OF_FUNCTION * functions as u32).clamp(LEAST_REGISTERS, MOST_REGISTERS)
}

/// Clocks of the pipe that instructions keep busy for longest.
#[must_use]
pub fn busiest(counted: &Slots) -> f64 {
    let pipes = [
        counted.issued() / ISSUE,
        counted.fma / FMA,
        counted.alu / ALU,
        counted.mufu / MUFU,
        counted.fp64 / FP64,
        counted.conversion / CONVERSION,
    ];
    pipes.into_iter().fold(0.0, f64::max)
}

/// Counts an element's arithmetic.
#[must_use]
pub fn weight(graph: &Graph, tier: Tier) -> Weight {
    let program = body::program(&meaning(graph, tier), tier);
    let bytes = Cost::from_graph(graph).traffic.total().max(1) as f64;
    let words = element_bytes(graph).into_iter().max().unwrap_or(1).div_ceil(4);
    Weight {
        share: busiest(&count(&program).element) * BYTES / bytes,
        latency: latency(&program) / f64::from(words),
        registers: registers(program.total()),
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_expr::{DType, Names, parse};

    use super::*;

    #[test]
    fn weight_grows_with_the_work_and_shrinks_with_the_bytes() {
        let weigh = |text: &str, dtype, tier| weight(&parse(text, &Names::with_default(dtype)).unwrap(), tier);
        let share = |text: &str, dtype| weigh(text, dtype, Tier::Accurate).share;
        let growing = ["x + 1", "exp(x)", "erf(x)", "mish(mish(x))"].map(|text| share(text, DType::Bf16));
        assert!(growing.is_sorted_by(|a, b| 1.3 * a < *b), "{growing:?}");
        assert!(share("gelu(x) + y + z", DType::Bf16) < share("gelu(x)", DType::Bf16));
        assert!(weigh("gelu(x)", DType::Bf16, Tier::Full).share > share("gelu(x)", DType::Bf16));
        // One special function per four bytes.
        assert_eq!(share("exp2(x)", DType::F16), 19.0 / 64.0);
        let latency = |text: &str, dtype| weigh(text, dtype, Tier::Accurate).latency;
        let growing = ["x + 1", "exp(x)", "sigmoid(x)", "gelu(x)"].map(|text| latency(text, DType::F32));
        assert!(growing.is_sorted_by(|a, b| 1.1 * a < *b), "{growing:?}");
        assert_eq!(latency("x + 1", DType::F64), 2.0);
        // One that doesn't wait for the other.
        assert_eq!(latency("max(exp(x), exp(y))", DType::F32), latency("exp(x)", DType::F32) + 4.0);
    }
}
