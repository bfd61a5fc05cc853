//! From kernels to what the compiler made of them: compiled, disassembled and read, on a machine with or without a GPU.

use plimsoll_gen::Target;
use plimsoll_gen::kernel::{KernelDesc, OPTIONS, Source, unit};
use plimsoll_gen::sass::{Listing, Report, SassError, elf};

use crate::compile::Program;
use crate::disassembler::Disassembler;
use crate::nvrtc::Nvrtc;
use plimsoll_gpu::Unavailable;

/// A compiled unit, as bytes, as text, and as what was read from it.
#[derive(Clone, Debug)]
pub struct MachineCode {
    /// The machine code, an ELF file.
    pub cubin: Vec<u8>,
    /// The disassembler's text.
    pub listing: String,
    /// What was read.
    pub report: Report,
    /// The compiler's warnings; empty where there are none.
    pub warnings: String,
}

/// Why there is no machine code to look at.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MachineCodeError {
    /// A tool is missing, or refuses.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// What a tool gave can't be read.
    #[error(transparent)]
    Unreadable(#[from] SassError),
}

/// Compiles these kernels of one source as one unit and reads the code.
///
/// # Errors
/// The compiler's or the disassembler's refusal, or that its text can't be read.
pub fn of_kernels(
    nvrtc: &Nvrtc,
    disassembler: &Disassembler,
    (source, kernels): (&Source, &[KernelDesc]),
    target: Target,
) -> Result<MachineCode, MachineCodeError> {
    let (name, text, target) = (format!("{}.cu", source.name()), unit(source, kernels), target.to_string());
    let options = OPTIONS.map(str::to_owned);
    let program =
        Program { name: &name, source: &text, headers: &source.headers(), options: &options, target: &target };
    let compiled = nvrtc.compile(&program)?;
    of_cubin(disassembler, compiled.cubin).map(|code| MachineCode { warnings: compiled.log, ..code })
}

/// Reads a cubin, which may be anybody's.
///
/// # Errors
/// That it is none, the disassembler's refusal, or that its text can't be read.
pub fn of_cubin(disassembler: &Disassembler, cubin: Vec<u8>) -> Result<MachineCode, MachineCodeError> {
    let resources = elf::resources(&cubin)?;
    let listing = disassembler.run(&cubin)?;
    let report = Report::new(&Listing::parse(&listing)?, &resources);
    Ok(MachineCode { cubin, listing, report, warnings: String::new() })
}
