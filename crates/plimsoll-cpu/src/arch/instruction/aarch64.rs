//! The loops in assembly for 64-bit Arm, which always has floating point and NEON.
//!
//! As on x86-64, the assembler repeats the links, and registers are fixed: 0 to 11 hold the chains, 14 the constant, 15 the
//! addend.

use std::arch::asm;

use super::{Instruction, Links, Loops, MAX_ILP, Number, Operands, Operation, Width, links, loops};

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
                    ".p2align 6",
                    "2:",
                    ".rept {links}",
                    ".set .Lchain, 0",
                    concat!(".irp r,", registers!($kind)),
                    ".if .Lchain < {chains}",
                    $link,
                    ".endif",
                    ".set .Lchain, .Lchain + 1",
                    ".endr",
                    ".endr",
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
    ($link:literal) => {{
        unsafe fn iterations<const CHAINS: usize>(iterations: u64, operands: &Operands) -> Links {
            let mut last: Links = [operands.seed; MAX_ILP];
            // SAFETY: the caller promises iterations ≥ 1; only the declared registers and the flags are changed.
            unsafe {
                asm!(
                    ".p2align 6",
                    "2:",
                    ".rept {links}",
                    ".irp r,0,1,2,3,4,5,6,7,8,9,10,11",
                    ".if \\r < {chains}",
                    $link,
                    ".endif",
                    ".endr",
                    ".endr",
                    "subs x14, x14, #1",
                    "b.ne 2b",
                    inout("x0") last[0],
                    inout("x1") last[1],
                    inout("x2") last[2],
                    inout("x3") last[3],
                    inout("x4") last[4],
                    inout("x5") last[5],
                    inout("x6") last[6],
                    inout("x7") last[7],
                    inout("x8") last[8],
                    inout("x9") last[9],
                    inout("x10") last[10],
                    inout("x11") last[11],
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
    operation: Operation,
    number: Number,
    width: Width,
    mnemonic: &'static str,
    loops: Loops,
) -> Instruction {
    let operands = Operands::for_operation(operation, number);
    Instruction { operation, number, width, mnemonic, operands, is_available: || true, loops }
}

/// The vector FMA, which needs separate operands.
const fn vector_fma(number: Number, mnemonic: &'static str, loops: Loops, operands: Operands) -> Instruction {
    Instruction { operands, ..row(Operation::Fma, number, Width::V128, mnemonic, loops) }
}

/// ADD, MUL, FMA, DIV and SQRT of one number and width, in registers of the kind `$kind`. `$fma` is separate, because only the
/// scalar form has a third operand. In the vector form both the addend and a factor are the chain, `x + x · ε`; otherwise the
/// chain would only go through the addend, which some cores forward early. It grows as MUL does.
macro_rules! floats {
    ($number:ident, $width:ident, $kind:tt, $constant:literal, $fma:expr) => {
        [
            row(
                Operation::Add,
                Number::$number,
                Width::$width,
                concat!("fadd ", $kind),
                vector_chains!($kind, concat!("fadd \\r, \\r, ", $constant)),
            ),
            row(
                Operation::Mul,
                Number::$number,
                Width::$width,
                concat!("fmul ", $kind),
                vector_chains!($kind, concat!("fmul \\r, \\r, ", $constant)),
            ),
            $fma,
            row(
                Operation::Div,
                Number::$number,
                Width::$width,
                concat!("fdiv ", $kind),
                vector_chains!($kind, concat!("fdiv \\r, ", $constant, ", \\r")),
            ),
            row(
                Operation::Sqrt,
                Number::$number,
                Width::$width,
                concat!("fsqrt ", $kind),
                vector_chains!($kind, "fsqrt \\r, \\r"),
            ),
        ]
    };
}

/// Floating point, by number and width.
#[rustfmt::skip]
pub(super) static FLOATS: [[Instruction; 5]; 4] = [
    floats!(F64, Scalar, "d", "d14", row(Operation::Fma, Number::F64, Width::Scalar, "fmadd d",
        vector_chains!("d", "fmadd \\r, \\r, d14, d15"))),
    floats!(F64, V128, "2d", "v14.2d", vector_fma(Number::F64, "fmla 2d",
        vector_chains!("2d", "fmla \\r, \\r, v14.2d"), Operands::f64(1.37, f64::EPSILON, 0.0))),
    floats!(F32, Scalar, "s", "s14", row(Operation::Fma, Number::F32, Width::Scalar, "fmadd s",
        vector_chains!("s", "fmadd \\r, \\r, s14, s15"))),
    floats!(F32, V128, "4s", "v14.4s", vector_fma(Number::F32, "fmla 4s",
        vector_chains!("4s", "fmla \\r, \\r, v14.4s"), Operands::f32(1.37, f32::EPSILON, 0.0))),
];

/// Integers: scalars of 64 bits, vectors of 32. The scalar addend is the number of iterations left, as on x86-64, because a core
/// may fold a constant.
#[rustfmt::skip]
pub(super) static INTEGERS: [Instruction; 5] = [
    row(Operation::Add, Number::I64, Width::Scalar, "add x", general_chains!("add x\\r, x\\r, x14")),
    row(Operation::Mul, Number::I64, Width::Scalar, "mul x", general_chains!("mul x\\r, x\\r, x13")),
    row(Operation::Div, Number::I64, Width::Scalar, "udiv x", general_chains!("udiv x\\r, x13, x\\r")),
    row(Operation::Add, Number::I32, Width::V128, "add 4s", vector_chains!("4s", "add \\r, \\r, v14.4s")),
    row(Operation::Mul, Number::I32, Width::V128, "mul 4s", vector_chains!("4s", "mul \\r, \\r, v14.4s")),
];
