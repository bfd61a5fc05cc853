//! In-core kernels: loops of one named instruction, as `ilp` independent dependency chains.
//!
//! On x86-64 with AVX and on 64-bit Arm the loops are assembly, because a particular instruction is measured, which a
//! compiler could vectorise, merge or hoist. On other machines, `generic` offers scalar loops in Rust. The probe converts time
//! into cycles per instruction.

#[cfg(target_arch = "aarch64")]
mod aarch64;
mod generic;
mod oracle;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
mod x86_64;

pub use oracle::naive;
pub use plimsoll_suite::machines::cpus::{Number, Operation, Width};

/// The numbers of independent chains that kernels exist for.
pub const ILP: [usize; 8] = [1, 2, 3, 4, 6, 8, 10, 12];

/// The most chains that a kernel has.
pub const MAX_ILP: usize = 12;

/// Fewest instructions in one iteration of the loop. The loop's counter and branch, which a processor fuses, then cost about
/// 1 % at five instructions per cycle, and nothing if the chains' latency is the limit.
const UNROLL: usize = 96;

/// Iterations of the loop before the chains are seeded again. The chains of ADD and MUL grow slowly (see [`Operands`]): this
/// keeps every f32 finite and normal, and costs a few tens of cycles in more than a million.
const ITERATIONS_PER_SEED: u64 = 1 << 15;

/// Links of each chain in one iteration of the loop.
const fn links(ilp: usize) -> usize {
    UNROLL.div_ceil(ilp)
}

/// The seed of every chain and the constants of its links, as 64 bits (an f32's 32 bits twice); all lanes are alike.
///
/// They are chosen so that no link is zero, denormal, infinite or NaN, and none is a power of two, for which some dividers
/// finish early:
/// - ADD `x + c`, and MUL `x · (1 + ε)` with the smallest possible ε, grow slowly and are seeded again in time;
/// - FMA `x · 0.75 + 0.4` converges to 1.6, within a rounding;
/// - DIV `c / x` alternates between two values: the chain goes through the divisor;
/// - SQRT has only one operand, so it converges, from below, to 1 − ε/4, whose root rounds to itself: every bit of its
///   mantissa is set. (From above it would converge to 1, which a divider may finish early.)
#[derive(Debug, Clone, Copy)]
struct Operands {
    seed: u64,
    constant: u64,
    addend: u64,
}

impl Operands {
    const fn f64(seed: f64, constant: f64, addend: f64) -> Self {
        Self { seed: seed.to_bits(), constant: constant.to_bits(), addend: addend.to_bits() }
    }

    const fn f32(seed: f32, constant: f32, addend: f32) -> Self {
        const fn twice(value: f32) -> u64 {
            value.to_bits() as u64 * 0x1_0000_0001
        }
        Self { seed: twice(seed), constant: twice(constant), addend: twice(addend) }
    }

    /// The operands of `operation` on `number`.
    const fn for_operation(operation: Operation, number: Number) -> Self {
        match (number, operation) {
            (Number::F64, Operation::Add) => Self::f64(1.37, 0.785, 0.0),
            (Number::F64, Operation::Mul) => Self::f64(1.37, 1.0 + f64::EPSILON, 0.0),
            (Number::F64, Operation::Fma) => Self::f64(1.37, 0.75, 0.4),
            (Number::F64, Operation::Div) => Self::f64(1.37, 3.1, 0.0),
            (Number::F64, Operation::Sqrt) => Self::f64(0.37, 0.0, 0.0),
            (Number::F32, Operation::Add) => Self::f32(1.37, 0.785, 0.0),
            (Number::F32, Operation::Mul) => Self::f32(1.37, 1.0 + f32::EPSILON, 0.0),
            (Number::F32, Operation::Fma) => Self::f32(1.37, 0.75, 0.4),
            (Number::F32, Operation::Div) => Self::f32(1.37, 3.1, 0.0),
            (Number::F32, Operation::Sqrt) => Self::f32(0.37, 0.0, 0.0),
            // c / x in integers: 62 bits over 31, so that the quotient has 31 bits too
            (Number::I64, Operation::Div) => Self { seed: 1_600_000_019, constant: 1 << 61 | 12_345, addend: 0 },
            // odd, so that no product loses its low bits
            (Number::I64 | Number::I32, _) => {
                Self { seed: 0x7F4A_7C15_7F4A_7C15, constant: 0x1E37_79B1_1E37_79B1, addend: 0 }
            }
        }
    }
}

/// The low 64 bits of the last link of each chain, 0 for missing chains, so that a caller can check the work.
pub type Links = [u64; MAX_ILP];

/// Runs `iterations` (at least one) of a loop over its chains. Unsafe, as the machine must have the instruction.
type Loop = unsafe fn(iterations: u64, operands: &Operands) -> Links;

/// The loops of an instruction, in the order of [`ILP`]; none where they would take too many registers.
type Loops = [Option<Loop>; ILP.len()];

/// One instruction of this machine. Callers only get values for instructions that the machine has.
#[derive(Debug)]
pub struct Instruction {
    /// Its operation.
    pub operation: Operation,
    /// The type of its lanes.
    pub number: Number,
    /// How much of a register it works on.
    pub width: Width,
    /// Its assembler name with the kind of register: `vfmadd213pd zmm`.
    pub mnemonic: &'static str,
    /// The seed and constants of its chains.
    operands: Operands,
    /// Whether this machine has it.
    is_available: fn() -> bool,
    loops: Loops,
}

impl Instruction {
    /// `ADD`, `MUL`, `FMA`, `DIV` or `SQRT`.
    pub fn name(&self) -> &'static str {
        self.operation.name()
    }

    /// The bits of a [`Links`] entry that belong to one lane.
    pub fn lane_mask(&self) -> u64 {
        if self.number.bytes() == 4 { u64::from(u32::MAX) } else { u64::MAX }
    }

    /// Lanes of one instruction.
    pub fn lanes(&self) -> usize {
        self.width.lanes(self.number)
    }

    /// Floating-point operations of one instruction, over all lanes: an FMA counts two per lane, integers none.
    pub fn flops_per_op(&self) -> u64 {
        match (self.number, self.operation) {
            (Number::I64 | Number::I32, _) => 0,
            (_, Operation::Fma) => 2 * self.lanes() as u64,
            _ => self.lanes() as u64,
        }
    }
}

/// Every instruction of this machine that kernels exist for.
pub fn instructions() -> Vec<&'static Instruction> {
    #[cfg(target_arch = "x86_64")]
    let native = x86_64::FLOATS.iter().flatten().chain(&x86_64::INTEGERS);
    #[cfg(target_arch = "aarch64")]
    let native = aarch64::FLOATS.iter().flatten().chain(&aarch64::INTEGERS);
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let native = [].iter();

    let native: Vec<_> = native.filter(|instruction| (instruction.is_available)()).collect();
    if native.is_empty() { generic::TABLE.iter().collect() } else { native }
}

/// The kernel of `ilp` chains of `instruction`, or `None` if `ilp` isn't in [`ILP`] or the loop has too few registers.
pub fn kernel(instruction: &'static Instruction, ilp: usize) -> Option<Kernel> {
    let at = ILP.iter().position(|&known| known == ilp)?;
    Some(Kernel { instruction, ilp, iterations: instruction.loops[at]? })
}

/// One instruction in `ilp` chains, ready to run.
#[derive(Debug, Clone, Copy)]
pub struct Kernel {
    instruction: &'static Instruction,
    ilp: usize,
    iterations: Loop,
}

impl Kernel {
    /// The instruction.
    pub fn instruction(&self) -> &'static Instruction {
        self.instruction
    }

    /// Independent chains.
    pub fn ilp(&self) -> usize {
        self.ilp
    }

    /// How often `run(iterations)` executes the instruction; the loop's other instructions don't count.
    pub fn operations(&self, iterations: u64) -> u64 {
        iterations * (links(self.ilp) * self.ilp) as u64
    }

    /// Runs `iterations` iterations of the loop.
    pub fn run(&self, iterations: u64) -> Links {
        let mut last = [0; MAX_ILP];
        let mut left = iterations;
        while left > 0 {
            let iterations = left.min(ITERATIONS_PER_SEED);
            // SAFETY: callers only get an `Instruction` that the machine has, and iterations ≥ 1.
            last = unsafe { (self.iterations)(iterations, &self.instruction.operands) };
            left -= iterations;
        }
        last
    }
}

/// The loops of one generic function over the number of chains, in the order of [`ILP`]; `few` if there are registers for
/// only eight chains.
macro_rules! loops {
    ($function:ident) => {
        loops!(@last $function, Some($function::<10>), Some($function::<12>))
    };
    ($function:ident, few) => {
        loops!(@last $function, None, None)
    };
    (@last $function:ident, $ten:expr, $twelve:expr) => {
        [
            Some($function::<1>),
            Some($function::<2>),
            Some($function::<3>),
            Some($function::<4>),
            Some($function::<6>),
            Some($function::<8>),
            $ten,
            $twelve,
        ]
    };
}
use loops;

/// The assembly of an iteration's links, over and over for the chains whose number is below `{chains}`. `\r` stands for the
/// chain's register, one of a list that is separated by commas.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! each_chain {
    ($registers:expr, $($link:expr),+) => {
        concat!(
            ".p2align 6\n2:\n.rept {links}\n.set .Lchain, 0\n.irp r,",
            $registers,
            "\n.if .Lchain < {chains}\n",
            $($link, "\n",)+
            ".endif\n.set .Lchain, .Lchain + 1\n.endr\n.endr"
        )
    };
}
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use each_chain;
