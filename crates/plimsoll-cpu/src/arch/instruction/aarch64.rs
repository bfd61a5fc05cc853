//! The loops in assembly for 64-bit Arm, which always has floating point and NEON.
//!
//! As on x86-64, the assembler repeats the links, and registers are fixed: 0 to 11 hold the chains, 14 the constant, 15 the
//! addend.

use std::arch::asm;

use super::{Instruction, Links, Loops, MAX_ILP, Number, Operands, Operation, Width, each_chain, links, loops};

/// The registers of the chains, as `.irp` lists them.
#[rustfmt::skip]
macro_rules! registers {
    ("d") => { "d0,d1,d2,d3,d4,d5,d6,d7,d8,d9,d10,d11" };
    ("s") => { "s0,s1,s2,s3,s4,s5,s6,s7,s8,s9,s10,s11" };
    ("2d") => { "v0.2d,v1.2d,v2.2d,v3.2d,v4.2d,v5.2d,v6.2d,v7.2d,v8.2d,v9.2d,v10.2d,v11.2d" };
    ("4s") => { "v0.4s,v1.4s,v2.4s,v3.4s,v4.4s,v5.4s,v6.4s,v7.4s,v8.4s,v9.4s,v10.4s,v11.4s" };
}

/// A function over the number of chains: `$link` in registers of the kind `$kind`, where `\r` is the chain's register.
macro_rules! vector_chains {
    ($kind:tt, $link:expr) => {{
        unsafe fn iterations<const CHAINS: usize>(iterations: u64, operands: &Operands) -> Links {
            let mut last: Links = [0; MAX_ILP];
            // SAFETY: the caller promises iterations ≥ 1. The stores write 8 bytes per chain of `last`, which has MAX_ILP = 12
            // entries. Every register that is written is declared; no stack is used.
            unsafe {
                asm!(
                    "dup v14.2d, {constant}",
                    "dup v15.2d, {addend}",
                    ".irp r,0,1,2,3,4,5,6,7,8,9,10,11",
                    "dup v\\r\\().2d, {seed}",
                    ".endr",
                    each_chain!(registers!($kind), $link),
                    "subs {iterations}, {iterations}, #1",
                    "b.ne 2b",
                    ".irp r,0,1,2,3,4,5,6,7,8,9,10,11",
                    ".if \\r < {chains}",
                    "str d\\r, [{last}, #8*\\r]",
                    ".endif",
                    ".endr",
                    seed = in(reg) operands.seed,
                    constant = in(reg) operands.constant,
                    addend = in(reg) operands.addend,
                    last = in(reg) last.as_mut_ptr(),
                    iterations = inout(reg) iterations => _,
                    chains = const CHAINS,
                    links = const links(CHAINS),
                    out("v0") _, out("v1") _, out("v2") _, out("v3") _,
                    out("v4") _, out("v5") _, out("v6") _, out("v7") _,
                    out("v8") _, out("v9") _, out("v10") _, out("v11") _,
                    out("v14") _, out("v15") _,
                    options(nostack),
                );
            }
            last
        }
        loops!(iterations)
    }};
}

/// A function over the number of chains in the general registers x0 to x11, which all start at the seed. `\r` is the
/// chain; x13 holds the constant, x14 counts the iterations down.
macro_rules! general_chains {
    ($link:literal) => {
        general_chains!(
            ["x0" 0, "x1" 1, "x2" 2, "x3" 3, "x4" 4, "x5" 5, "x6" 6, "x7" 7, "x8" 8, "x9" 9, "x10" 10, "x11" 11] $link
        )
    };
    ([$($register:tt $chain:literal),+] $link:literal) => {{
        unsafe fn iterations<const CHAINS: usize>(iterations: u64, operands: &Operands) -> Links {
            let mut last: Links = [operands.seed; MAX_ILP];
            // SAFETY: the caller promises iterations ≥ 1; only the declared registers and the flags are changed.
            unsafe {
                asm!(
                    each_chain!("0,1,2,3,4,5,6,7,8,9,10,11", $link),
                    "subs x14, x14, #1",
                    "b.ne 2b",
                    $(inout($register) last[$chain],)+
                    in("x13") operands.constant,
                    inout("x14") iterations => _,
                    chains = const CHAINS,
                    links = const links(CHAINS),
                    options(nomem, nostack),
                );
            }
            last[CHAINS..].fill(0);
            last
        }
        loops!(iterations)
    }};
}

/// One row of the table.
const fn row(
    (operation, number, width): (Operation, Number, Width),
    mnemonic: &'static str,
    loops: Loops,
) -> Instruction {
    let operands = Operands::for_operation(operation, number);
    Instruction { operation, number, width, mnemonic, operands, is_available: || true, loops }
}

/// One row of the table, in vector registers: the instruction's name and its operands.
#[rustfmt::skip]
macro_rules! vector {
    ($operation:ident $number:ident $width:ident, $name:expr, $kind:tt, $operands:expr) => {
        row((Operation::$operation, Number::$number, Width::$width), concat!($name, " ", $kind),
            vector_chains!($kind, concat!($name, " ", $operands)))
    };
}

/// ADD, MUL, FMA, DIV and SQRT of one number and width, in registers of the kind `$kind`. `$fma` is separate, because only the
/// scalar form has a third operand. In the vector form both the addend and a factor are the chain, `x + x · ε`; otherwise the
/// chain would only go through the addend, which some cores forward early. It grows as MUL does.
macro_rules! floats {
    ($number:ident, $width:ident, $kind:tt, $constant:literal, $fma:expr) => {
        [
            vector!(Add $number $width, "fadd", $kind, concat!("\\r, \\r, ", $constant)),
            vector!(Mul $number $width, "fmul", $kind, concat!("\\r, \\r, ", $constant)),
            $fma,
            vector!(Div $number $width, "fdiv", $kind, concat!("\\r, ", $constant, ", \\r")),
            vector!(Sqrt $number $width, "fsqrt", $kind, "\\r, \\r"),
        ]
    };
}

/// Floating point, by number and width.
#[rustfmt::skip]
pub(super) static FLOATS: [[Instruction; 5]; 4] = [
    floats!(F64, Scalar, "d", "d14", vector!(Fma F64 Scalar, "fmadd", "d", "\\r, \\r, d14, d15")),
    floats!(F64, V128, "2d", "v14.2d", Instruction {
        operands: Operands::f64(1.37, f64::EPSILON, 0.0), ..vector!(Fma F64 V128, "fmla", "2d", "\\r, \\r, v14.2d")
    }),
    floats!(F32, Scalar, "s", "s14", vector!(Fma F32 Scalar, "fmadd", "s", "\\r, \\r, s14, s15")),
    floats!(F32, V128, "4s", "v14.4s", Instruction {
        operands: Operands::f32(1.37, f32::EPSILON, 0.0), ..vector!(Fma F32 V128, "fmla", "4s", "\\r, \\r, v14.4s")
    }),
];

/// Integers: scalars of 64 bits, vectors of 32. The scalar addend is the number of iterations left, as on x86-64, because a core
/// may fold a constant.
#[rustfmt::skip]
pub(super) static INTEGERS: [Instruction; 5] = [
    row((Operation::Add, Number::I64, Width::Scalar), "add x", general_chains!("add x\\r, x\\r, x14")),
    row((Operation::Mul, Number::I64, Width::Scalar), "mul x", general_chains!("mul x\\r, x\\r, x13")),
    row((Operation::Div, Number::I64, Width::Scalar), "udiv x", general_chains!("udiv x\\r, x13, x\\r")),
    vector!(Add I32 V128, "add", "4s", "\\r, \\r, v14.4s"),
    vector!(Mul I32 V128, "mul", "4s", "\\r, \\r, v14.4s"),
];
