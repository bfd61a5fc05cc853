//! One machine instruction: its parts, its class, and its memory access.

use std::fmt;

use plimsoll_core::model::Pipe;
use serde::{Deserialize, Serialize};

use super::control::Control;

/// One instruction of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// Address within its function, bytes.
    pub address: u32,
    /// Guard: `P0`, `!P0`, `UP1`; `None` if it always runs.
    pub predicate: Option<String>,
    /// Operation with all modifiers: `LDG.E.128.CONSTANT`.
    pub mnemonic: String,
    /// Operands as written, without the commas between them.
    pub operands: Vec<String>,
    /// Index of the instruction that it may jump to, if known.
    pub target: Option<usize>,
    /// Scheduling information, if the listing has the encoding.
    pub control: Option<Control>,
}

impl Instruction {
    /// Operation without modifiers: `LDG`.
    #[must_use]
    pub fn opcode(&self) -> &str {
        self.mnemonic.split('.').next().unwrap_or_default()
    }

    /// Modifiers in order: `E`, `128`, `CONSTANT`.
    pub fn modifiers(&self) -> impl Iterator<Item = &str> {
        self.mnemonic.split('.').skip(1)
    }

    /// Its class.
    #[must_use]
    pub fn class(&self) -> Class {
        class(self.opcode())
    }

    /// The pipe that it occupies in addition to an issue slot; `None` if its pipe is rarely a limit (uniform
    /// instructions, branches, barriers, constants) or unknown.
    #[must_use]
    pub fn pipe(&self) -> Option<Pipe> {
        pipe(self.opcode(), self.class())
    }

    /// Its memory access; `None` if it has none, or none whose width follows from the mnemonic.
    #[must_use]
    pub fn access(&self) -> Option<Access> {
        if !self.class().is_memory() {
            return None;
        }
        let mut bytes = 4;
        let mut hints = Vec::new();
        for modifier in self.modifiers() {
            match modifier {
                "U8" | "S8" => bytes = 1,
                "U16" | "S16" => bytes = 2,
                "64" => bytes = 8,
                "128" => bytes = 16,
                "256" => bytes = 32,
                // E: a 64-bit address. ENL2: the encoding of 32-byte accesses.
                "E" | "ENL2" | "U" | "32" => {}
                hint => hints.push(hint),
            }
        }
        Some(Access { class: self.class(), bytes, hints: hints.join(".") })
    }
}

impl fmt::Display for Instruction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(predicate) = &self.predicate {
            write!(f, "@{predicate} ")?;
        }
        write!(f, "{} {}", self.mnemonic, self.operands.join(", "))
    }
}

/// An access to memory by one thread.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Access {
    /// Kind of memory and direction.
    pub class: Class,
    /// Bytes per thread.
    pub bytes: u32,
    /// Cache hints and other modifiers as the disassembler writes them: `NA.CONSTANT`, `EF`; empty if there are none.
    pub hints: String,
}

impl Access {
    /// Whether it reads global memory through the read-only path: data that nothing writes while the kernel runs.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.class == Class::GlobalLoad && self.hints.split('.').any(|hint| hint == "CONSTANT")
    }
}

/// Class of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Class {
    /// Load from global memory (or through a generic address).
    GlobalLoad,
    /// Store to global memory (or through a generic address).
    GlobalStore,
    /// Atomic operation or reduction on global memory.
    GlobalAtomic,
    /// Load from shared memory.
    SharedLoad,
    /// Store to shared memory.
    SharedStore,
    /// Atomic operation on shared memory.
    SharedAtomic,
    /// Load from local memory: a spill or an indexed array.
    LocalLoad,
    /// Store to local memory.
    LocalStore,
    /// Load from constant memory.
    ConstantLoad,
    /// Copy between global and shared memory that bypasses registers.
    AsyncCopy,
    /// Prefetch, cache control.
    CacheControl,
    /// Integer and logic.
    Integer,
    /// Single precision.
    Fp32,
    /// Double precision.
    Fp64,
    /// Packed half precision.
    Fp16,
    /// Special functions: reciprocals, roots, exponentials.
    Mufu,
    /// Conversion between types.
    Conversion,
    /// Matrix operations.
    Tensor,
    /// The uniform datapath, one for a whole warp.
    Uniform,
    /// Moves, shuffles, special registers.
    Move,
    /// Branches, calls, exits.
    Branch,
    /// Barriers, fences, convergence.
    Sync,
    /// No operation.
    Nop,
    /// Unknown to this reader.
    Other,
}

impl Class {
    /// True for classes for which [`Instruction::access`] returns an access.
    #[must_use]
    pub fn is_memory(self) -> bool {
        use Class::{
            GlobalAtomic, GlobalLoad, GlobalStore, LocalLoad, LocalStore, SharedAtomic, SharedLoad, SharedStore,
        };
        matches!(
            self,
            GlobalLoad | GlobalStore | GlobalAtomic | SharedLoad | SharedStore | SharedAtomic | LocalLoad | LocalStore
        )
    }
}

/// Opcodes as in the 'Instruction Set Reference' of NVIDIA's 'CUDA Binary Utilities', Ampere to Blackwell.
fn class(opcode: &str) -> Class {
    match opcode {
        "LDG" | "LD" => Class::GlobalLoad,
        "STG" | "ST" => Class::GlobalStore,
        "ATOM" | "ATOMG" | "RED" | "REDG" | "REDAS" => Class::GlobalAtomic,
        "LDS" | "LDSM" => Class::SharedLoad,
        "STS" | "STSM" | "STAS" => Class::SharedStore,
        "ATOMS" => Class::SharedAtomic,
        "LDL" => Class::LocalLoad,
        "STL" => Class::LocalStore,
        "LDC" | "LDCU" | "ULDC" => Class::ConstantLoad,
        "LDGSTS" | "UBLKCP" | "UBLKRED" | "UTMALDG" | "UTMASTG" | "UTMAREDG" => Class::AsyncCopy,
        "CCTL" | "CCTLL" | "CCTLT" | "UBLKPF" | "UTMAPF" | "UTMACCTL" => Class::CacheControl,
        "BRA" | "BRX" | "BRXU" | "JMP" | "JMX" | "JMXU" | "CALL" | "RET" | "EXIT" | "KILL" | "BPT" | "RTT" => {
            Class::Branch
        }
        "BAR" | "BSSY" | "BSYNC" | "BREAK" | "BMOV" | "WARPSYNC" | "YIELD" | "NANOSLEEP" | "DEPBAR" | "LDGDEPBAR"
        | "ARRIVES" | "SYNCS" | "MEMBAR" | "ERRBAR" | "FENCE" | "CGAERRBAR" | "UCGABAR_ARV" | "UCGABAR_WAIT"
        | "ENDCOLLECTIVE" | "ACQBULK" | "PREEXIT" | "WARPGROUP" | "ELECT" => Class::Sync,
        "NOP" => Class::Nop,
        "MUFU" => Class::Mufu,
        "F2F" | "F2I" | "I2F" | "I2I" | "I2IP" | "F2IP" | "I2FP" | "F2FP" | "FRND" => Class::Conversion,
        "FADD" | "FMUL" | "FFMA" | "FSETP" | "FSET" | "FMNMX" | "FMNMX3" | "FSEL" | "FCHK" | "FSWZADD" | "FADD2"
        | "FMUL2" | "FFMA2" | "FADD32I" | "FMUL32I" | "FFMA32I" | "FCMP" => Class::Fp32,
        "DADD" | "DMUL" | "DFMA" | "DSETP" | "DMNMX" => Class::Fp64,
        "HADD2" | "HMUL2" | "HFMA2" | "HSETP2" | "HSET2" | "HMNMX2" | "HADD2_32I" | "HMUL2_32I" | "HFMA2_32I" => {
            Class::Fp16
        }
        "HMMA" | "IMMA" | "DMMA" | "BMMA" | "QMMA" | "OMMA" | "HGMMA" | "IGMMA" | "BGMMA" | "QGMMA" | "UTCHMMA"
        | "UTCIMMA" | "UTCQMMA" | "UTCOMMA" => Class::Tensor,
        "MOV" | "MOV32I" | "MOVM" | "SEL" | "PRMT" | "SHFL" | "S2R" | "CS2R" | "R2UR" | "S2UR" | "P2R" | "R2P"
        | "B2R" | "R2B" | "VOTE" | "MATCH" | "PLOP3" | "PSETP" | "P2UR" | "LEPC" | "GETLMEMBASE" | "PCNT"
        | "CREDUX" => Class::Move,
        "IMAD" | "IADD" | "IADD3" | "IADD2" | "VIADD" | "VIADDMNMX" | "ISETP" | "IMNMX" | "VIMNMX" | "VIMNMX3"
        | "LEA" | "LOP3" | "LOP" | "SHF" | "SHL" | "SHR" | "POPC" | "FLO" | "BREV" | "IABS" | "IDP" | "IDP4A"
        | "BMSK" | "SGXT" | "XMAD" | "ISCADD" | "VABSDIFF" | "VABSDIFF4" | "REDUX" | "IADD64" | "IADD_64" => {
            Class::Integer
        }
        uniform if uniform.starts_with('U') => Class::Uniform,
        _ => Class::Other,
    }
}

/// Pipes by opcode: 'Instruction Statistics' and 'Pipelines' of NVIDIA's Nsight Compute documentation.
fn pipe(opcode: &str, class: Class) -> Option<Pipe> {
    Some(match opcode {
        "IMAD" | "XMAD" | "IDP" | "IDP4A" | "FADD" | "FMUL" | "FFMA" | "FADD2" | "FMUL2" | "FFMA2" | "FADD32I"
        | "FMUL32I" | "FFMA32I" | "FSWZADD" => Pipe::Fma,
        "POPC" | "FLO" | "BREV" => Pipe::Mufu,
        "F2FP" | "I2FP" | "F2IP" | "I2IP" | "PRMT" | "SEL" | "MOV" | "MOV32I" | "PLOP3" | "PSETP" | "P2R" | "R2P" => {
            Pipe::Alu
        }
        "SHFL" => Pipe::Lsu,
        "HSETP2" | "HSET2" | "HMNMX2" => Pipe::Alu,
        _ => match class {
            Class::Fp16 => Pipe::Fma,
            // Comparisons, selections, minima; arithmetic is handled above.
            Class::Fp32 | Class::Integer => Pipe::Alu,
            Class::Fp64 => Pipe::Fp64,
            Class::Mufu => Pipe::Mufu,
            Class::Conversion => Pipe::Conversion,
            class if class.is_memory() => Pipe::Lsu,
            _ => return None,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instruction(mnemonic: &str) -> Instruction {
        let mnemonic = mnemonic.to_owned();
        Instruction { address: 0, predicate: None, mnemonic, operands: Vec::new(), target: None, control: None }
    }

    #[test]
    fn widths_and_hints_of_accesses_are_read_from_modifiers() {
        let access = |text| instruction(text).access().map(|access| (access.class, access.bytes, access.hints));
        assert_eq!(access("LDG.E"), Some((Class::GlobalLoad, 4, String::new())));
        assert_eq!(access("LDG.E.NA.128.CONSTANT"), Some((Class::GlobalLoad, 16, "NA.CONSTANT".into())));
        assert_eq!(access("STG.E.EF.64"), Some((Class::GlobalStore, 8, "EF".into())));
        assert_eq!(access("STG.E.ENL2.256"), Some((Class::GlobalStore, 32, String::new())));
        assert_eq!(access("LDG.E.U16"), Some((Class::GlobalLoad, 2, String::new())));
        assert_eq!(access("IMAD.WIDE.U32"), None);
    }

    #[test]
    fn classes_follow_the_opcode_and_unknown_opcodes_are_other() {
        let class = |text| instruction(text).class();
        assert_eq!(class("ULDC.64"), Class::ConstantLoad);
        assert_eq!(class("UIADD3"), Class::Uniform);
        assert_eq!(class("HFMA2.MMA"), Class::Fp16);
        assert_eq!(class("STL.128"), Class::LocalStore);
        assert_eq!(class("QUUX.E"), Class::Other);
        assert_eq!(class(""), Class::Other);
    }

    #[test]
    fn pipes_distinguish_arithmetic_from_selection_and_comparison() {
        let pipe = |text| instruction(text).pipe();
        assert_eq!([pipe("FFMA"), pipe("HFMA2.BF16_V2"), pipe("IMAD.WIDE")], [Some(Pipe::Fma); 3]);
        assert_eq!(
            [pipe("FSEL"), pipe("FSETP.GE.AND"), pipe("LOP3.LUT"), pipe("F2FP.BF16.PACK_AB")],
            [Some(Pipe::Alu); 4]
        );
        assert_eq!([pipe("MUFU.EX2"), pipe("POPC")], [Some(Pipe::Mufu); 2]);
        assert_eq!(
            [pipe("I2F.F64"), pipe("DFMA"), pipe("LDG.E.128")],
            [Some(Pipe::Conversion), Some(Pipe::Fp64), Some(Pipe::Lsu)]
        );
        assert_eq!([pipe("UIADD3"), pipe("BRA"), pipe("ULDC.64")], [None; 3]);
    }
}
