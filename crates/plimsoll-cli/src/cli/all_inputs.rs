//! `plimsoll bench --all-inputs`: the results of an expression for every bit pattern of its one input, as raw bytes, so that
//! another program can hold ours and others' to the same reference.

use std::path::{Path, PathBuf};

use plimsoll::bench::{Ask, apply};
use plimsoll::expr::{DType, Graph};

use super::args::BenchArgs;
use super::exit::{Exit, Failure};
use super::outputs::{Existing, Outputs};
use super::{bench, expression, profile};

/// Most patterns of one call: 1 GiB of f32.
const MOST: u64 = 1 << 28;

pub(crate) fn write(path: &Path, ask: &Ask, args: &BenchArgs) -> Result<Exit, Failure> {
    let graph = ask.graph().map_err(|error| expression::failure(&error))?;
    let dtype = only_input(&graph)?;
    let all = 1_u64 << (8 * dtype.bytes()).min(32);
    let left = all.saturating_sub(args.first);
    let count = args.count.unwrap_or_else(|| left.min(MOST));
    if count == 0 || count > left || count > MOST {
        let why = format!("{dtype} has {all} patterns, of which at most {MOST} are done in one call");
        return Err(Failure::usage(why).hint("say which with --first N --count N"));
    }
    let existing = Existing::IfForced(args.force);
    Outputs::new([], existing).ready(path)?;
    let mut device = bench::open(&args.device)?;
    let inputs = profile::inputs(&args.profile, &args.device, device.info());
    let output = Outputs::new(inputs.iter().map(PathBuf::as_path), existing);
    output.ready(path)?;
    let table = profile::plans(&args.profile, device.info());
    let patterns = patterns(dtype, args.first, count);
    let outputs = apply(&mut device, &graph, (count, &[patterns]), &[], table.as_ref())?;
    let bytes = outputs.first().map(Vec::as_slice).unwrap_or_default();
    output.write(path, bytes)?;
    Ok(Exit::Success)
}

/// The type of the one input of an expression without scalars and with one output.
fn only_input(graph: &Graph) -> Result<DType, Failure> {
    match (graph.inputs(), graph.scalars(), graph.outputs()) {
        ([input], [], [_]) if input.dtype.bytes() <= 4 => Ok(input.dtype),
        _ => Err(Failure::usage(
            "--all-inputs takes an expression of one tensor of at most 32 bits an element, with one output",
        )
        .hint("write numbers in the place of scalars")),
    }
}

fn patterns(dtype: DType, first: u64, count: u64) -> Vec<u8> {
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
    fn patterns_follow_each_other_in_the_type_s_width() {
        assert_eq!(patterns(DType::Bf16, 0xfffe, 2), [0xfe, 0xff, 0xff, 0xff]);
        assert_eq!(patterns(DType::F32, 1 << 31, 1), [0, 0, 0, 0x80]);
    }
}
