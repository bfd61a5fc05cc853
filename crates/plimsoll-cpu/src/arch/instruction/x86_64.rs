//! The loops in assembly for x86-64 with AVX, all in the VEX and EVEX encodings, as mixing them with legacy SSE encodings costs
//! transitions.
//!
//! The assembler repeats the links: `.rept` for the links of a chain, `.irp` for the chains. Registers are fixed: 0 to 11 hold
//! the chains, 14 the constant, 15 the addend.

use std::arch::asm;

use super::{Instruction, Links, Loops, MAX_ILP, Number, Operands, Operation, Width, each_chain, links, loops};

/// 64 bytes to load a register of any width from.
#[repr(align(64))]
struct Line([u64; 8]);

/// A function over the number of chains: `$link` in vector registers of the kind `$register`; `\r` is the chain.
macro_rules! vector_chains {
    ($register:literal, $link:expr) => {{
        unsafe fn iterations<const CHAINS: usize>(iterations: u64, operands: &Operands) -> Links {
            let seed = Line([operands.seed; 8]);
            let constant = Line([operands.constant; 8]);
            let addend = Line([operands.addend; 8]);
            let mut last: Links = [0; MAX_ILP];
            // SAFETY: the caller promises the instructions and iterations ≥ 1. The loads read at most 64 bytes of a live
            // `Line`; the stores write 8 bytes per chain of `last`, which has MAX_ILP = 12 entries. Every vector register that
            // is written, or whose upper part is cleared at the end, is declared; no stack is used.
            unsafe {
                asm!(
                    concat!("vmovups ", $register, "14, [{constant}]"),
                    concat!("vmovups ", $register, "15, [{addend}]"),
                    ".irp r,0,1,2,3,4,5,6,7,8,9,10,11",
                    concat!("vmovups ", $register, "\\r, [{seed}]"),
                    ".endr",
                    each_chain!("0,1,2,3,4,5,6,7,8,9,10,11", $link),
                    "dec {iterations}",
                    "jnz 2b",
                    ".irp r,0,1,2,3,4,5,6,7,8,9,10,11",
                    ".if \\r < {chains}",
                    "vmovlps [{last} + 8*\\r], xmm\\r",
                    ".endif",
                    ".endr",
                    "vzeroupper",
                    seed = in(reg) &seed.0,
                    constant = in(reg) &constant.0,
                    addend = in(reg) &addend.0,
                    last = in(reg) last.as_mut_ptr(),
                    iterations = inout(reg) iterations => _,
                    chains = const CHAINS,
                    links = const links(CHAINS),
                    out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
                    out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
                    out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
                    out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
                    options(nostack),
                );
            }
            last
        }
        loops!(iterations)
    }};
}

/// One row of the table, in vector registers: the instruction's name and its operands.
macro_rules! vector {
    ($operation:ident $number:ident $width:ident, $name:expr, $register:literal, $available:expr, $operands:expr) => {
        Instruction {
            operation: Operation::$operation,
            number: Number::$number,
            width: Width::$width,
            mnemonic: concat!($name, " ", $register),
            operands: Operands::for_operation(Operation::$operation, Number::$number),
            is_available: $available,
            loops: vector_chains!($register, concat!($name, " ", $operands)),
        }
    };
}

/// The operands of an operation on the chain and a constant.
macro_rules! and_constant {
    ($r:literal) => {
        concat!($r, "\\r, ", $r, "\\r, ", $r, "14")
    };
}

/// ADD, MUL, FMA, DIV and SQRT of one number and width; `$root` are the operands of the root. A scalar root names its source
/// twice, so that it doesn't depend on the register's old upper lanes.
#[rustfmt::skip]
macro_rules! floats {
    ($number:ident, $width:ident, $suffix:literal, $r:literal, $available:expr, $root:expr) => {
        [
            vector!(Add $number $width, concat!("vadd", $suffix), $r, $available, and_constant!($r)),
            vector!(Mul $number $width, concat!("vmul", $suffix), $r, $available, and_constant!($r)),
            vector!(Fma $number $width, concat!("vfmadd213", $suffix), $r, || $available() && has_fma(),
                concat!($r, "\\r, ", $r, "14, ", $r, "15")),
            vector!(Div $number $width, concat!("vdiv", $suffix), $r, $available,
                concat!($r, "\\r, ", $r, "14, ", $r, "\\r")),
            vector!(Sqrt $number $width, concat!("vsqrt", $suffix), $r, $available, $root),
        ]
    };
}

/// A 32-bit integer operation of one width.
macro_rules! integers {
    ($operation:ident, $width:ident, $name:literal, $r:literal, $available:expr) => {
        vector!($operation I32 $width, $name, $r, $available, and_constant!($r))
    };
}

fn has_avx() -> bool {
    is_x86_feature_detected!("avx")
}

fn has_fma() -> bool {
    is_x86_feature_detected!("fma")
}

fn has_avx2() -> bool {
    has_avx() && is_x86_feature_detected!("avx2")
}

fn has_avx512() -> bool {
    has_avx2() && is_x86_feature_detected!("avx512f")
}

/// Floating point, by number and width.
#[rustfmt::skip]
pub(super) static FLOATS: [[Instruction; 5]; 8] = [
    floats!(F64, Scalar, "sd", "xmm", has_avx, "xmm\\r, xmm\\r, xmm\\r"),
    floats!(F64, V128, "pd", "xmm", has_avx, "xmm\\r, xmm\\r"),
    floats!(F64, V256, "pd", "ymm", has_avx, "ymm\\r, ymm\\r"),
    floats!(F64, V512, "pd", "zmm", has_avx512, "zmm\\r, zmm\\r"),
    floats!(F32, Scalar, "ss", "xmm", has_avx, "xmm\\r, xmm\\r, xmm\\r"),
    floats!(F32, V128, "ps", "xmm", has_avx, "xmm\\r, xmm\\r"),
    floats!(F32, V256, "ps", "ymm", has_avx, "ymm\\r, ymm\\r"),
    floats!(F32, V512, "ps", "zmm", has_avx512, "zmm\\r, zmm\\r"),
];

/// Integers: scalars of 64 bits, vectors of 32.
pub(super) static INTEGERS: [Instruction; 9] = [
    scalar("add r64", Operation::Add, loops!(add)),
    scalar("imul r64", Operation::Mul, loops!(imul)),
    scalar("div r64", Operation::Div, loops!(div, few)),
    integers!(Add, V128, "vpaddd", "xmm", has_avx),
    integers!(Add, V256, "vpaddd", "ymm", has_avx2),
    integers!(Add, V512, "vpaddd", "zmm", has_avx512),
    integers!(Mul, V128, "vpmulld", "xmm", has_avx),
    integers!(Mul, V256, "vpmulld", "ymm", has_avx2),
    integers!(Mul, V512, "vpmulld", "zmm", has_avx512),
];

const fn scalar(mnemonic: &'static str, operation: Operation, loops: Loops) -> Instruction {
    // The same condition as for the vectors: either the whole table is available, or none of it.
    let (number, width) = (Number::I64, Width::Scalar);
    let operands = Operands::for_operation(operation, number);
    Instruction { operation, number, width, mnemonic, operands, is_available: has_avx, loops }
}

/// A function over the number of chains in general registers, which all start at the seed: the instructions of a link, then
/// further operands of the assembly. `\r` is the chain's register; r15 counts the iterations down.
macro_rules! general_chains {
    ([$($register:tt $chain:literal),+] $(#[$meta:meta])* $name:ident($operands:ident) = $($link:literal),+; $($operand:tt)*) => {
        $(#[$meta])*
        unsafe fn $name<const CHAINS: usize>(iterations: u64, $operands: &Operands) -> Links {
            let mut last: Links = [$operands.seed; MAX_ILP];
            // SAFETY: the caller promises iterations ≥ 1; only the declared registers and the flags are changed. Where a link
            // divides, no divisor is zero and no quotient overflows: with rdx = 0 and a seed below the constant, all links
            // are at least one.
            unsafe {
                asm!(
                    each_chain!(concat!($($register, ","),+), $($link),+),
                    "dec r15",
                    "jnz 2b",
                    $(inout($register) last[$chain],)+
                    inout("r15") iterations => _,
                    chains = const CHAINS,
                    links = const links(CHAINS),
                    $($operand)*
                    options(nomem, nostack),
                );
            }
            last[CHAINS..].fill(0);
            last
        }
    };
    ($($function:tt)*) => {
        general_chains! {
            ["rax" 0, "rcx" 1, "rdx" 2, "rsi" 3, "rdi" 4, "r8" 5, "r9" 6, "r10" 7, "r11" 8, "r12" 9, "r13" 10, "r14" 11]
            $($function)*
        }
    };
}

/// The factor of [`imul`]: an immediate, as no register is left. Odd, so that no product loses its low bits.
pub(super) const FACTOR: i32 = 0x1E37_79B1;

general_chains! {
    /// Adds the iterations left. A register, not a constant: Intel cores since Golden Cove add small constants while renaming.
    add(operands) = "add \\r, r15";
}
general_chains! {
    /// Multiplies by [`FACTOR`].
    imul(operands) = "imul \\r, \\r, {FACTOR}"; FACTOR = const FACTOR,
}
general_chains! {
    ["rcx" 0, "rsi" 1, "rdi" 2, "r8" 3, "r9" 4, "r10" 5, "r11" 6, "r12" 7]
    /// Divides the constant by the chain: `div` divides rdx:rax, so each link sets both again, and only the divisor carries the
    /// chain. The moves are done while renaming, so they cost no latency.
    div(operands) = "mov rax, r13", "xor edx, edx", "div \\r", "mov \\r, rax";
    in("r13") operands.constant, out("rax") _, out("rdx") _,
}
