//! Compiles kernels, disassembles them and parses the machine code, on a machine with or without a GPU.

use plimsoll_gen::Target;
use plimsoll_gen::kernel::{KernelDesc, OPTIONS, Source, unit};
use plimsoll_gen::sass::{Listing, Report, SassError, elf};

use crate::compile::Program;
use crate::disassembler::Disassembler;
use crate::nvrtc::Nvrtc;
use plimsoll_gpu::Unavailable;

/// A compiled unit: its bytes, its listing, and the report parsed from both.
#[derive(Clone, Debug)]
pub struct MachineCode {
    /// The machine code, an ELF file.
    pub cubin: Vec<u8>,
    /// The disassembler's text.
    pub listing: String,
    /// The parsed resources and instructions.
    pub report: Report,
    /// The compiler's warnings; empty if there are none.
    pub warnings: String,
}

/// Why there is no machine code to look at.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MachineCodeError {
    /// A tool is missing or fails.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// A tool's output can't be parsed.
    #[error(transparent)]
    Unreadable(#[from] SassError),
}

/// Compiles these kernels of one source as one unit and parses the code.
///
/// # Errors
/// The compiler or the disassembler fails, or its text can't be parsed.
pub fn from_kernels(
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
    from_cubin(disassembler, compiled.cubin).map(|code| MachineCode { warnings: compiled.log, ..code })
}

/// Disassembles and parses a cubin of any origin.
///
/// # Errors
/// It is not a cubin, the disassembler fails, or its text can't be parsed.
pub fn from_cubin(disassembler: &Disassembler, cubin: Vec<u8>) -> Result<MachineCode, MachineCodeError> {
    let resources = elf::resources(&cubin)?;
    let listing = disassembler.run(&cubin)?;
    let report = Report::new(&Listing::parse(&listing)?, &resources);
    Ok(MachineCode { cubin, listing, report, warnings: String::new() })
}
