//! `plimsoll bench --all-inputs`: writes an expression's results for every bit pattern of its one input, as raw bytes, so that
//! another program can check them against a reference.

use std::path::{Path, PathBuf};

use plimsoll::bench::{BenchRequest, apply};
use plimsoll::expr::{DType, Graph};

use super::args::BenchArgs;
use super::exit::{Exit, Failure};
use super::outputs::{Existing, Outputs};
use super::{bench, expression, profile};

/// Maximum patterns of one call: 1 GiB of f32.
const MAX_PATTERNS: u64 = 1 << 28;

pub(crate) fn write(path: &Path, request: &BenchRequest, args: &BenchArgs) -> Result<Exit, Failure> {
    let graph = request.graph().map_err(|error| expression::failure(&error))?;
    let dtype = only_input_type(&graph)?;
    let all = 1_u64 << (8 * dtype.bytes()).min(32);
    let left = all.saturating_sub(args.first);
    let count = args.count.unwrap_or_else(|| left.min(MAX_PATTERNS));
    if count == 0 || count > left || count > MAX_PATTERNS {
        let why = format!("{dtype} has {all} bit patterns; one call takes 1 to {MAX_PATTERNS} of them");
        return Err(Failure::usage(why).hint("choose them with --first N --count N"));
    }
    let existing = Existing::ReplacedIfForced(args.force);
    Outputs::new([], existing).check(path)?;
    let mut device = bench::open(&args.device)?;
    let inputs = profile::input_files(&args.run.profile, &args.device, device.info());
    let output = Outputs::new(inputs.iter().map(PathBuf::as_path), existing);
    output.check(path)?;
    let table = profile::plans(&args.run.profile, device.info());
    let patterns = encode_patterns(dtype, args.first, count);
    let outputs = apply(&mut device, &graph, (count, &[patterns]), &[], table.as_ref())?;
    let bytes = outputs.first().map(Vec::as_slice).unwrap_or_default();
    output.write(path, bytes)?;
    Ok(Exit::Success)
}

/// The type of the one input of an expression without scalars and with one output.
fn only_input_type(graph: &Graph) -> Result<DType, Failure> {
    match (graph.inputs(), graph.scalars(), graph.outputs()) {
        ([input], [], [_]) if input.dtype.bytes() <= 4 => Ok(input.dtype),
        _ => Err(Failure::usage(
            "--all-inputs takes an expression with one input tensor of at most 32 bits per element, and one output",
        )
        .hint("write numbers in place of scalars")),
    }
}

fn encode_patterns(dtype: DType, first: u64, count: u64) -> Vec<u8> {
    let width = dtype.bytes() as usize;
    let mut bytes = Vec::with_capacity(width * usize::try_from(count).unwrap_or(0));
    for pattern in first..first + count {
        bytes.extend_from_slice(&pattern.to_le_bytes()[..width]);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_packed_at_the_width_of_the_type() {
        assert_eq!(encode_patterns(DType::Bf16, 0xfffe, 2), [0xfe, 0xff, 0xff, 0xff]);
        assert_eq!(encode_patterns(DType::F32, 1 << 31, 1), [0, 0, 0, 0x80]);
    }
}
