//! The expected results of the loops, link by link in plain Rust: the oracle of their tests and of `verify`.

#[cfg(target_arch = "x86_64")]
use super::x86_64;
use super::{ITERATIONS_PER_SEED, Instruction, Kernel, Links, Number, Operands, Operation, links};

/// The expected result of [`Kernel::run`]: one lane of every chain's last link, in the bits of [`Instruction::lane_mask`].
pub fn naive(kernel: Kernel, iterations: u64) -> Links {
    // Chains are seeded again after every full `ITERATIONS_PER_SEED`, so earlier iterations don't matter.
    let iterations = match iterations % ITERATIONS_PER_SEED {
        0 => iterations.min(ITERATIONS_PER_SEED),
        rest => rest,
    };
    let instruction = kernel.instruction();
    let expected =
        if iterations == 0 { 0 } else { chain(instruction, iterations, links(kernel.ilp())) & instruction.lane_mask() };
    std::array::from_fn(|chain| if chain < kernel.ilp() { expected } else { 0 })
}

/// A chain's last link after `iterations` of `links` links each.
fn chain(instruction: &Instruction, iterations: u64, links: usize) -> u64 {
    let Operands { seed, constant, addend } = instruction.operands;
    let mut link = seed;
    for left in (1..=iterations).rev() {
        for _ in 0..links {
            link = match instruction.number {
                Number::F64 => {
                    let [x, c, a] = [link, constant, addend].map(f64::from_bits);
                    float(instruction, x, c, a, |x, c, a| x.mul_add(c, a), f64::sqrt).to_bits()
                }
                Number::F32 => {
                    let [x, c, a] = [link, constant, addend].map(|bits| f32::from_bits(bits as u32));
                    u64::from(float(instruction, x, c, a, |x, c, a| x.mul_add(c, a), f32::sqrt).to_bits())
                }
                Number::I64 => scalar(instruction, link, constant, left),
                Number::I32 => u64::from(packed(instruction, link as u32, constant as u32)),
            };
        }
    }
    link
}

fn float<T: Copy + std::ops::Add<Output = T> + std::ops::Mul<Output = T> + std::ops::Div<Output = T>>(
    instruction: &Instruction,
    x: T,
    c: T,
    a: T,
    fma: impl Fn(T, T, T) -> T,
    sqrt: impl Fn(T) -> T,
) -> T {
    match instruction.operation {
        Operation::Add => x + c,
        Operation::Mul => x * c,
        // 64-bit Arm's vector form has no third operand: its addend is the chain itself
        Operation::Fma if instruction.mnemonic.starts_with("fmla") => fma(x, c, x),
        Operation::Fma => fma(x, c, a),
        Operation::Div => c / x,
        Operation::Sqrt => sqrt(x),
    }
}

fn scalar(instruction: &Instruction, x: u64, c: u64, iterations_left: u64) -> u64 {
    match instruction.operation {
        Operation::Add => x.wrapping_add(iterations_left),
        #[cfg(target_arch = "x86_64")]
        Operation::Mul => x.wrapping_mul(x86_64::FACTOR as u64),
        #[cfg(not(target_arch = "x86_64"))]
        Operation::Mul => x.wrapping_mul(c),
        Operation::Div => c / x,
        other => panic!("no integer {other:?}"),
    }
}

fn packed(instruction: &Instruction, x: u32, c: u32) -> u32 {
    match instruction.operation {
        Operation::Add => x.wrapping_add(c),
        Operation::Mul => x.wrapping_mul(c),
        other => panic!("no packed integer {other:?}"),
    }
}
