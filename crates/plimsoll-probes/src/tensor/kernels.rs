//! Matrix products by a single instruction: the warp's `mma.sync` and the warp group's `wgmma`.

use crate::prelude::kernels::*;

/// The source of these kernels.
pub static SOURCE: Source =
    Source::new("tensor", include_str!("kernel.cu"), kernels).with_headers(&[("wgmma.h", include_str!("wgmma.h"))]);

/// Chains of accumulators per warp for which `mma` kernels exist.
pub const CHAINS: [u32; 3] = [1, 2, 4];
/// 32-bit words of a row of A or of a column of B.
pub const ROW_WORDS: u32 = 8;
/// Rows of A in the input, followed by the columns of B.
pub const A_ROWS: u32 = 64;
/// Columns of B in the input, followed by a word with the positions of A's nonzeros in sparse products: the same four bits
/// repeated, each for four elements of A (for two with tf32).
pub const B_ROWS: u32 = 128;
/// Bytes of the input: rows, columns and the word after them.
const INPUT_BYTES: u64 = 4 * ((A_ROWS + B_ROWS) * ROW_WORDS + 1) as u64;
/// `mma` instructions of one warp in a loop iteration, of all chains together.
const STEPS: u32 = 16;
/// `wgmma` instructions in a loop iteration.
const GROUP_STEPS: u32 = 8;
/// The same for sparse ones: a longer loop than the one that lays out B.
const SPARSE_GROUP_STEPS: u32 = 16;

/// The number format of A and B.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// IEEE 754 binary16.
    F16,
    /// The upper half of a single.
    Bf16,
    /// A single whose last 13 bits don't count.
    Tf32,
    /// Double precision.
    F64,
    /// Eight bits: four of exponent, three of fraction.
    F8,
    /// Eight bits: five of exponent, two of fraction.
    F8E5m2,
    /// Signed bytes.
    I8,
}

impl Number {
    /// Size in bytes.
    #[must_use]
    pub fn bytes(self) -> u32 {
        match self {
            Self::F16 | Self::Bf16 => 2,
            Self::Tf32 => 4,
            Self::F64 => 8,
            Self::F8 | Self::F8E5m2 | Self::I8 => 1,
        }
    }
}

/// One instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// Name on the instruction axis.
    pub name: &'static str,
    /// The kind of arithmetic, as in the names of devices' peaks.
    pub kind: &'static str,
    /// The struct in `kernel.cu` or `wgmma.h`.
    product: &'static str,
    /// Number format of A and B.
    pub number: Number,
    /// Rows, columns and depth.
    pub shape: [u32; 3],
    /// Whether a group of four warps executes it together.
    pub group: bool,
    /// Whether half of A is zeros, at positions given in the input; the shape's depth includes them.
    pub sparse: bool,
    /// Prefixes of its SASS mnemonics.
    mnemonics: &'static [&'static str],
    /// First and last compute capability, times ten, that have it as one instruction.
    capability: (u32, u32),
}

const ANY: (u32, u32) = (80, u32::MAX);
const HOPPER: (u32, u32) = (90, 90);

const fn mma(
    (name, kind): (&'static str, &'static str),
    product: &'static str,
    number: Number,
    shape: [u32; 3],
    mnemonics: &'static [&'static str],
) -> Instruction {
    Instruction { name, kind, product, number, shape, group: false, sparse: false, mnemonics, capability: ANY }
}

const fn wgmma(
    (name, kind): (&'static str, &'static str),
    product: &'static str,
    number: Number,
    depth: u32,
    mnemonics: &'static [&'static str],
) -> Instruction {
    let shape = [64, 128, depth];
    Instruction { group: true, capability: HOPPER, ..mma((name, kind), product, number, shape, mnemonics) }
}

/// On devices of these compute capabilities (times ten) only.
const fn only(capability: (u32, u32), instruction: Instruction) -> Instruction {
    Instruction { capability, ..instruction }
}

/// The sparse form: twice as deep, with half of A zeros.
const fn sparse(dense: Instruction) -> Instruction {
    let [rows, columns, depth] = dense.shape;
    Instruction { sparse: true, shape: [rows, columns, 2 * depth], ..dense }
}

/// All instructions. If a target has none for a type (8-bit floats by `mma` on 9.0), the compiler's replacement isn't
/// measured.
pub const INSTRUCTIONS: [Instruction; 26] = [
    mma(("mma f16", "f16 matrix"), "mma_f16", Number::F16, [16, 8, 16], &["HMMA.16816.F32"]),
    mma(("mma bf16", "bf16 matrix"), "mma_bf16", Number::Bf16, [16, 8, 16], &["HMMA.16816.F32.BF16"]),
    mma(("mma tf32", "tf32 matrix"), "mma_tf32", Number::Tf32, [16, 8, 8], &["HMMA.1688.F32.TF32"]),
    mma(("mma f64 8x8x4", "f64 matrix"), "mma_f64_k4", Number::F64, [8, 8, 4], &["DMMA"]),
    only(HOPPER, mma(("mma f64 16x8x16", "f64 matrix"), "mma_f64_k16", Number::F64, [16, 8, 16], &["DMMA"])),
    mma(("mma i8", "i8 matrix"), "mma_i8", Number::I8, [16, 8, 32], &["IMMA.16832"]),
    only((89, 89), mma(("mma f8", "f8 matrix"), "mma_f8", Number::F8, [16, 8, 32], &["QMMA.16832"])),
    only((120, u32::MAX), mma(("mma f8", "f8 matrix"), "mma_f8", Number::F8, [16, 8, 32], &["QMMA.16832"])),
    only((89, 89), mma(("mma f8e5m2", "f8 matrix"), "mma_f8e5m2", Number::F8E5m2, [16, 8, 32], &["QMMA.16832"])),
    only((120, u32::MAX), mma(("mma f8e5m2", "f8 matrix"), "mma_f8e5m2", Number::F8E5m2, [16, 8, 32], &["QMMA.16832"])),
    wgmma(("wgmma f16", "f16 matrix"), "wgmma_f16", Number::F16, 16, &["HGMMA.64x128x16.F32"]),
    wgmma(("wgmma f16 of registers", "f16 matrix"), "wgmma_f16_registers", Number::F16, 16, &["HGMMA.64x128x16.F32"]),
    wgmma(("wgmma bf16", "bf16 matrix"), "wgmma_bf16", Number::Bf16, 16, &["HGMMA.64x128x16.F32.BF16"]),
    wgmma(("wgmma tf32", "tf32 matrix"), "wgmma_tf32", Number::Tf32, 8, &["HGMMA.64x128x8.F32.TF32"]),
    wgmma(("wgmma f8", "f8 matrix"), "wgmma_f8", Number::F8, 32, &["QGMMA.64x128x32.F32.E4M3.E4M3"]),
    wgmma(("wgmma f8e5m2", "f8 matrix"), "wgmma_f8e5m2", Number::F8E5m2, 32, &["QGMMA.64x128x32.F32.E5M2.E5M2"]),
    wgmma(("wgmma i8", "i8 matrix"), "wgmma_i8", Number::I8, 32, &["IGMMA.64x128x32.S8.S8"]),
    sparse(mma(("mma.sp f16", "f16 matrix"), "mma_sp_f16", Number::F16, [16, 8, 16], &["HMMA.SP.16832.F32"])),
    sparse(mma(("mma.sp bf16", "bf16 matrix"), "mma_sp_bf16", Number::Bf16, [16, 8, 16], &["HMMA.SP.16832.F32.BF16"])),
    sparse(mma(("mma.sp tf32", "tf32 matrix"), "mma_sp_tf32", Number::Tf32, [16, 8, 8], &["HMMA.SP.16816.F32.TF32"])),
    sparse(mma(("mma.sp i8", "i8 matrix"), "mma_sp_i8", Number::I8, [16, 8, 32], &["IMMA.SP.16864"])),
    sparse(wgmma(("wgmma.sp f16", "f16 matrix"), "wgmma_sp_f16", Number::F16, 16, &["HGMMA.SP.64x128x32.F32"])),
    sparse(wgmma(
        ("wgmma.sp bf16", "bf16 matrix"),
        "wgmma_sp_bf16",
        Number::Bf16,
        16,
        &["HGMMA.SP.64x128x32.F32.BF16"],
    )),
    sparse(wgmma(("wgmma.sp tf32", "tf32 matrix"), "wgmma_sp_tf32", Number::Tf32, 8, &["HGMMA.SP.64x128x16.F32.TF32"])),
    sparse(wgmma(("wgmma.sp f8", "f8 matrix"), "wgmma_sp_f8", Number::F8, 32, &["QGMMA.SP.64x128x64.F32.E4M3.E4M3"])),
    sparse(wgmma(("wgmma.sp i8", "i8 matrix"), "wgmma_sp_i8", Number::I8, 32, &["IGMMA.SP.64x128x64.S8.S8"])),
];

impl Instruction {
    /// The instructions that a target supports; warp-group instructions need its architecture-specific form.
    pub fn supported_by(target: Target) -> impl Iterator<Item = &'static Self> {
        let is_supported = move |one: &&Self| {
            (one.capability.0..=one.capability.1).contains(&target.capability) && (!one.group || target.specific)
        };
        INSTRUCTIONS.iter().filter(is_supported)
    }

    /// Threads that work on one product together.
    #[must_use]
    pub fn threads(&self) -> u32 {
        if self.group { 128 } else { 32 }
    }

    /// Whether there is a kernel with `chains` chains.
    #[must_use]
    pub fn has(&self, chains: u32) -> bool {
        if self.group { chains == 1 } else { CHAINS.contains(&chains) }
    }

    /// Accumulators of one chain in one thread.
    #[must_use]
    pub fn accumulators(&self) -> u32 {
        self.shape[0] * self.shape[1] / self.threads()
    }

    /// How often each 32-byte row of A goes into a product: more than once if the product is deeper than a row.
    #[must_use]
    pub fn repeats(&self) -> u32 {
        self.shape[2] / if self.sparse { 2 } else { 1 } * self.number.bytes() / (4 * ROW_WORDS)
    }

    /// Operations of one instruction, a multiply-add being two; those with zeros are counted, as vendors do.
    #[must_use]
    pub fn operations(&self) -> u64 {
        2 * self.shape.iter().map(|&extent| u64::from(extent)).product::<u64>()
    }

    /// Instructions of one chain in one iteration of the loop.
    #[must_use]
    pub fn steps(&self, chains: u32) -> u32 {
        match (self.group, self.sparse) {
            (true, true) => SPARSE_GROUP_STEPS,
            (true, false) => GROUP_STEPS,
            (false, _) => STEPS / chains,
        }
    }

    /// The kernel with `chains` chains per warp (or one per warp group), in blocks of whole warps (or groups).
    #[must_use]
    pub fn kernel(&self, chains: u32) -> KernelDesc {
        let (product, steps) = (self.product, self.steps(chains));
        let (name, entry, threads) = if self.group {
            let name = format!("tensor_{product}");
            let entry = format!("TENSOR_WGMMA({name}, {product}, {steps})");
            (name, entry, 256)
        } else {
            let name = format!("tensor_{product}_x{chains}");
            let entry = format!("TENSOR_MMA({name}, {product}, {chains}, {steps})");
            (name, entry, 512)
        };
        let element = if self.number == Number::F64 { Element::F64 } else { Element::Word };
        KernelDesc {
            entry,
            parameters: takes!(
                out: [fill ELEMENT; Bytes(Product(&[Blocks, Threads, Unroll, Element]))],
                in: [read ELEMENT; Times(INPUT_BYTES, &[])], cycles: [fill 8; PerBlock(8, &[])], iterations: U32,
            ),
            element,
            vector_bytes: element.bytes(),
            unroll: chains * self.accumulators(),
            // Two chains of large f64 products don't quite fit into 128 registers; at 97 % of the published rate it doesn't
            // matter.
            local_memory: name == "tensor_mma_f64_k16_x2",
            issues: vec![Issue { mnemonics: self.mnemonics, count: chains * steps, chains }],
            threads_fixed: false,
            ..resident(1, &SOURCE, name, threads)
        }
    }
}

/// All kernels.
#[must_use]
pub fn kernels(target: Target) -> Vec<KernelDesc> {
    let chains = |one: &'static Instruction| CHAINS.into_iter().filter(|&n| one.has(n)).map(|n| one.kernel(n));
    Instruction::supported_by(target).flat_map(chains).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_product_fits_the_input_rows_and_its_threads() {
        for one in &INSTRUCTIONS {
            let [rows, columns, depth] = one.shape;
            assert!(rows <= A_ROWS && columns <= B_ROWS, "{}", one.name);
            let zeros = if one.sparse { 2 } else { 1 };
            assert_eq!(zeros * one.repeats() * 4 * ROW_WORDS, depth * one.number.bytes(), "{}", one.name);
            assert_eq!(one.accumulators() * one.threads(), rows * columns, "{}", one.name);
        }
    }

    #[test]
    fn warp_groups_need_the_specific_target_and_types_need_an_instruction() {
        let names = |target: Target| Instruction::supported_by(target).map(|one| one.name).collect::<Vec<_>>();
        let specific = Target { capability: 90, specific: true };
        assert!(names(specific).contains(&"wgmma f8") && !names(specific).contains(&"mma f8"));
        assert!(!names(Target::plain(90)).iter().any(|name| name.starts_with("wgmma")));
        assert!(names(Target::plain(89)).contains(&"mma f8") && names(Target::plain(120)).contains(&"mma f8"));
        assert_eq!(names(Target::plain(80)).len(), 9);
    }
}
