//! Chains of one instruction: the list of instructions, their machine code, and the kernels that run 1 to 8 chains per thread.

use plimsoll_gen::kernel::Data;

use crate::prelude::kernels::*;

/// The source of these kernels.
pub static SOURCE: Source = Source::new("incore", include_str!("kernel.cu"), kernels).with_data(Data::Tables);

/// Chains per thread that kernels exist for.
pub const CHAINS: [u32; 4] = [1, 2, 4, 8];

/// One instruction, or what stands for one in CUDA C++ (a division, a function in double precision).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// Its name on the axis.
    pub name: &'static str,
    /// The struct in `kernel.cu`.
    pub link: &'static str,
    /// The type of a chain's value.
    pub element: Element,
    /// The mnemonics that one link becomes, any of them, by how they begin; none where it is a function of a library.
    pub mnemonics: &'static [&'static str],
    /// Instructions of the kind that is counted in one link: 2 where it goes there and back.
    pub per_link: u32,
    /// Links of all chains in one iteration of the loop.
    links: u32,
    /// Most chains: fewer where registers run out.
    most_chains: u32,
    /// The lowest compute capability that has it, times ten.
    capability: u32,
}

/// Links at full rate: the loop's own instructions must be below a per cent.
const FULL: u32 = 256;
/// Links at half of the full rate or less, where the loop's own instructions use free issue slots.
const HALF: u32 = 64;
/// Links that are a sequence of many instructions.
const SEQUENCE: u32 = 8;

const fn row(name: &'static str, link: &'static str, element: Element, links: u32) -> Instruction {
    Instruction { name, link, element, mnemonics: &[], per_link: 1, links, most_chains: 8, capability: 80 }
}

const fn f32(name: &'static str, link: &'static str, links: u32, mnemonics: &'static [&'static str]) -> Instruction {
    Instruction { mnemonics, ..row(name, link, Element::F32, links) }
}

const fn f64(name: &'static str, link: &'static str, links: u32, mnemonics: &'static [&'static str]) -> Instruction {
    Instruction { mnemonics, ..row(name, link, Element::F64, links) }
}

const fn word(name: &'static str, link: &'static str, links: u32, mnemonics: &'static [&'static str]) -> Instruction {
    Instruction { mnemonics, ..row(name, link, Element::Word, links) }
}

/// One number of 16 bits, in one chain only: the assembler would merge two chains into one of pairs.
const fn single(name: &'static str, link: &'static str, mnemonics: &'static [&'static str]) -> Instruction {
    Instruction { most_chains: 1, ..word(name, link, FULL, mnemonics) }
}

/// A function of the compiler's library: long, and with one or two chains.
const fn function(name: &'static str, link: &'static str) -> Instruction {
    Instruction { most_chains: 2, ..row(name, link, Element::F64, 4) }
}

/// All of them. In pairs of 16 bits the assembler may take the multiply-add for sums and products, because two pipes
/// can do it.
pub const INSTRUCTIONS: [Instruction; 39] = [
    f32("FMA f32", "fma_f32", FULL, &["FFMA"]),
    f32("ADD f32", "add_f32", FULL, &["FADD"]),
    f32("MUL f32", "mul_f32", FULL, &["FMUL"]),
    f32("DIV f32", "div_f32", SEQUENCE, &["MUFU.RCP"]),
    f32("SQRT f32", "sqrt_f32", SEQUENCE, &["MUFU.RSQ"]),
    f32("RCP f32", "rcp_f32", HALF, &["MUFU.RCP"]),
    f32("RSQRT f32", "rsqrt_f32", HALF, &["MUFU.RSQ"]),
    f32("EX2 f32", "ex2_f32", HALF, &["MUFU.EX2"]),
    f32("LG2 f32", "lg2_f32", HALF, &["MUFU.LG2"]),
    f32("SIN f32", "sin_f32", HALF, &["MUFU.SIN"]),
    f32("TANH f32", "tanh_f32", HALF, &["MUFU.TANH"]),
    f64("FMA f64", "fma_f64", HALF, &["DFMA"]),
    f64("ADD f64", "add_f64", HALF, &["DADD"]),
    f64("MUL f64", "mul_f64", HALF, &["DMUL"]),
    f64("DIV f64", "div_f64", SEQUENCE, &["MUFU.RCP64H"]),
    f64("SQRT f64", "sqrt_f64", SEQUENCE, &["MUFU.RSQ64H"]),
    f64("RCP f64", "rcp_f64", SEQUENCE, &["MUFU.RCP64H"]),
    f64("RSQRT f64", "rsqrt_f64", SEQUENCE, &["MUFU.RSQ64H"]),
    function("EX2 f64", "ex2_f64"),
    function("LG2 f64", "lg2_f64"),
    function("SIN f64", "sin_f64"),
    function("TANH f64", "tanh_f64"),
    single("FMA f16", "fma_f16", &["HFMA2"]),
    single("FMA bf16", "fma_bf16", &["HFMA2"]),
    word("FMA f16x2", "fma_f16x2", FULL, &["HFMA2"]),
    word("ADD f16x2", "add_f16x2", FULL, &["HADD2", "HFMA2"]),
    word("MUL f16x2", "mul_f16x2", FULL, &["HMUL2", "HFMA2"]),
    word("FMA bf16x2", "fma_bf16x2", FULL, &["HFMA2"]),
    Instruction { capability: 90, ..word("ADD bf16x2", "add_bf16x2", FULL, &["HADD2", "HFMA2"]) },
    Instruction { capability: 90, ..word("MUL bf16x2", "mul_bf16x2", FULL, &["HMUL2", "HFMA2"]) },
    word("MAD i32", "imad_i32", HALF, &["IMAD"]),
    word("ADD3 i32", "iadd3_i32", HALF, &["IADD3"]),
    word("SHF i32", "shf_i32", HALF, &["SHF"]),
    word("LOP3 i32", "lop3_i32", HALF, &["LOP3"]),
    word("POPC i32", "popc_i32", HALF, &["POPC"]),
    word("SHFL b32", "shfl_b32", HALF, &["SHFL"]),
    Instruction { per_link: 2, ..word("CVT i32-f32", "cvt_i32_f32", HALF, &["F2I"]) },
    Instruction { per_link: 2, ..f32("CVT f32-f64", "cvt_f32_f64", HALF, &["F2F.F64.F32"]) },
    Instruction { per_link: 2, ..f32("CVT f32-f16", "cvt_f32_f16", HALF, &["HADD2.F32"]) },
];

impl Instruction {
    /// The instructions that a target has.
    pub fn for_target(target: Target) -> impl Iterator<Item = &'static Self> {
        INSTRUCTIONS.iter().filter(move |one| one.capability <= target.capability)
    }

    /// Whether there is a kernel of so many chains.
    #[must_use]
    pub fn has(&self, chains: u32) -> bool {
        CHAINS.contains(&chains) && chains <= self.most_chains
    }

    /// Links of one chain in one iteration of the loop.
    #[must_use]
    pub fn links(&self, chains: u32) -> u32 {
        (self.links / chains).max(1)
    }

    /// So many chains of it per thread, timed by the SM's clock. Any block of whole warps, and any grid.
    #[must_use]
    pub fn kernel(&self, chains: u32) -> KernelDesc {
        let (link, links) = (self.link, self.links(chains));
        let name = format!("incore_{link}_x{chains}");
        // In a sequence the counted instruction writes an intermediate value, not the chain's register.
        let registers = if self.links == SEQUENCE { 1 } else { chains };
        let issue = Issue { mnemonics: self.mnemonics, count: chains * links, chains: registers };
        KernelDesc {
            entry: format!("INCORE({name}, {link}, {chains}, {links})"),
            parameters: takes!(
                out: [fill ELEMENT; Bytes(Product(&[Blocks, Threads, Unroll, Element]))], cycles: [fill 8; PerBlock(8, &[])],
                iterations: U32,
            ),
            unroll: chains,
            issues: if self.mnemonics.is_empty() { vec![] } else { vec![issue] },
            ..self.base(name)
        }
    }

    /// The same links one chain after the other, untimed: the reference for the check.
    #[must_use]
    pub fn reference(&self) -> KernelDesc {
        let name = format!("incore_{}_reference", self.link);
        let entry = format!("INCORE_REFERENCE({name}, {})", self.link);
        let parameters = takes!(
            out: [fill ELEMENT; Bytes(Product(&[Blocks, Threads, Of("count"), Element]))], count: U32, links: U32,
        );
        KernelDesc { entry, parameters, ..self.base(name) }
    }

    fn base(&self, name: String) -> KernelDesc {
        KernelDesc {
            element: self.element,
            vector_bytes: self.element.bytes(),
            threads_fixed: false,
            // What is a sequence or a function in double precision keeps registers and tables there in its rare cases.
            local_memory: name.contains("_f64"),
            ..resident(1, &SOURCE, name, 1024)
        }
    }
}

/// Every kernel.
#[must_use]
pub fn kernels(target: Target) -> Vec<KernelDesc> {
    let with_reference = |one: &'static Instruction| {
        let chains = CHAINS.into_iter().filter(|&chains| one.has(chains)).map(|chains| one.kernel(chains));
        chains.chain([one.reference()])
    };
    Instruction::for_target(target).flat_map(with_reference).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_of_chains_runs_the_same_links_per_iteration() {
        for one in &INSTRUCTIONS {
            let counts: Vec<u32> = CHAINS.into_iter().filter(|&n| one.has(n)).map(|n| n * one.links(n)).collect();
            assert!(counts.iter().all(|count| *count == counts[0]), "{}: {counts:?}", one.name);
        }
    }
}
