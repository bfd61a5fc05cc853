//! The bytes that a thread of a whole tile moves according to its plan; the machine code is checked against them.

use std::ops::RangeInclusive;

use super::plan::joined;
use super::spec::{Form, Inner, KernelSpec, Stream};
use crate::sass::{Accesses, Hot, HotKind};

/// Bytes of all tensors that a thread moves in some loop iterations.
struct Moves {
    /// At least the streamed bytes; at most also the extra loads for shifted vectors and the broadcast inputs.
    read: RangeInclusive<u32>,
    written: u32,
}

impl Moves {
    /// The bytes of `vectors` vectors of each tensor.
    fn from_vectors(spec: &KernelSpec, vectors: u32) -> Self {
        let inputs = spec.graph.inputs().len();
        let (mut least, mut most, mut written) = (0, 0, 0);
        for (place, (stream, bytes)) in spec.streams.iter().zip(spec.element_bytes()).enumerate() {
            let row = spec.lanes * bytes;
            // A thread with the same columns of several rows loads what all rows share once.
            let vectors = if spec.same_rows.get(place) == Some(&true) { 1 } else { vectors };
            let whole = vectors * row;
            if place >= inputs {
                written += whole;
                continue;
            }
            // With tiles in shared memory, broadcast inputs are loaded once, in another part of the kernel.
            let loaded_before = spec.form == Form::Bulk;
            let range = match stream {
                Stream::Unused => (0, 0),
                Stream::Uniform => (0, bytes),
                // Sheared tiles are wider in shared memory; a thread loads as many vectors at once as a line has elements.
                Stream::Transposed { line, .. } if spec.shear > 0 => {
                    let line = u32::from(*line);
                    let pieces = (spec.rows / line * (spec.unroll + spec.shear / spec.lanes)).div_ceil(spec.threads);
                    (whole, (pieces * line).max(vectors) * row)
                }
                // A thread has as many pieces of lines as others, and up to an eighth more.
                Stream::Transposed { line, .. } if spec.joined > 0 => {
                    let line = u32::from(*line);
                    let piece = line * bytes;
                    let lines = spec.joined.next_multiple_of(joined::lines_at_once(bytes, spec.joined, line));
                    let fewest = (spec.rows / line * lines).div_ceil(spec.threads);
                    (fewest * piece, (fewest + fewest / 8) * piece)
                }
                Stream::Dense { vector, .. } => {
                    let piece = u32::from(*vector) * bytes;
                    let pieces = (spec.rows * spec.unroll * row).div_ceil(piece * spec.threads);
                    (pieces * piece, pieces * piece)
                }
                Stream::Linear | Stream::Transposed { .. } => (whole, whole),
                Stream::Indexed { .. } if loaded_before => (0, whole),
                Stream::Shifted | Stream::Indexed { inner: Inner::Shifted, .. } => {
                    (whole, whole + vectors * row.min(spec.target.widest_access()))
                }
                // The compiler may put both kinds of loads on one path.
                Stream::Indexed { inner: Inner::ShiftedOrUnit, .. } => {
                    (whole, 2 * whole + vectors * row.min(spec.target.widest_access()))
                }
                Stream::Indexed { inner: Inner::Splat, .. } => (vectors * bytes, whole),
                Stream::Indexed { inner: Inner::Spaced(spacing), .. } => (whole, whole * u32::from(*spacing)),
                Stream::Indexed { .. } => (whole, whole),
            };
            (least, most) = (least + range.0, most + range.1);
        }
        if let Some(batched) = spec.batched {
            // The flag; and the single elements outside whole tiles, whose code may come after that of a tile on the same path.
            most += batched.skip.map_or(0, |skip| skip.bytes() as u32);
            most += spec.element_bytes()[..inputs].iter().sum::<u32>();
        }
        Self { read: least..=most, written }
    }
}

/// Vectors of each tensor that the hot part may move: in one iteration if it is a loop, else in all.
fn vectors(spec: &KernelSpec, kind: HotKind) -> RangeInclusive<u32> {
    match (spec.form, kind) {
        // The iterations over a tile are a loop, which the compiler may unroll.
        (Form::Bulk, HotKind::Loop) => 1..=spec.unroll,
        (Form::Transpose, _) => {
            let each = spec.vectors_in_tile().div_ceil(spec.threads);
            each..=each
        }
        _ => spec.unroll..=spec.unroll,
    }
}

/// How the bytes that the hot part moves differ from the plan's; `None` if they agree.
#[must_use]
pub fn disagreement(spec: &KernelSpec, hot: Option<&Hot>) -> Option<String> {
    let Some(hot) = hot else { return Some("no part of the machine code moves memory".to_owned()) };
    let mut possible = vectors(spec, hot.kind).map(|vectors| Moves::from_vectors(spec, vectors));
    // The table of a batch isn't part of its tensors.
    let table = |accesses: &&Accesses| spec.batched.is_some() && accesses.access.is_read_only();
    let table: u32 = hot.accesses.iter().filter(table).map(|accesses| accesses.access.bytes * accesses.count).sum();
    let read = hot.read.saturating_sub(table);
    if possible.any(|moves| moves.written == hot.written && moves.read.contains(&read)) {
        return None;
    }
    let Moves { read, written } = Moves::from_vectors(spec, *vectors(spec, hot.kind).end());
    let (least, most) = (read.start(), read.end());
    let read = if least == most { least.to_string() } else { format!("{least} to {most}") };
    Some(format!(
        "the hot part reads {} bytes and writes {}, but a thread of a whole tile reads {read} and writes {written}: its counts \
         don't cover the whole work",
        hot.read, hot.written
    ))
}

#[cfg(test)]
mod tests {
    use super::super::representative::representatives;
    use super::*;
    use crate::Target;
    use crate::sass::{Listing, Report};

    /// How a kernel with these instructions differs from the plan of this name.
    fn compare(name: &str, instructions: &[&str]) -> Option<String> {
        let spec = representatives(Target::plain(90)).into_iter().find(|one| one.name == name).unwrap().spec;
        let lines = instructions.iter().enumerate().map(|(at, line)| format!("/*{:04x}*/ {line} ;\n", at * 16));
        let listing = format!(".section .text.k\n{}", lines.collect::<String>());
        let report = Report::new(&Listing::parse(&listing).unwrap(), &[]);
        disagreement(&spec, report.kernels[0].hot.as_ref())
    }

    #[test]
    fn kernel_that_moves_other_bytes_than_its_plan_is_rejected_with_both_counts() {
        let (load, store) = ("LDG.E.128 R4, [R2.64]", "STG.E.128 [R2.64], R4");
        assert_eq!(compare("flat_copy_bf16", &[load, load, store, store]), None);
        let message = compare("flat_copy_bf16", &[load, load, store]).unwrap();
        assert!(message.contains("writes 16,") && message.contains("reads 32 and writes 32"), "{message}");
        assert!(compare("flat_copy_bf16", &["EXIT"]).is_some());
        // A shifted vector needs the two aligned vectors around it.
        assert_eq!(compare("phased_add_bf16", &[load, load, store]), None);
        assert!(compare("phased_add_bf16", &[load, load, load, store]).unwrap().contains("reads 16 to 32"));
    }

    #[test]
    fn loop_over_a_tile_may_be_unrolled_but_straight_code_must_have_all_iterations() {
        let iteration = ["LDS R4, [R8]", "LDS R5, [R9]", "STG.E [R2.64], R4"];
        let looped = |iterations: usize| {
            compare(
                "bulk_triad_f32",
                &[&["UBLKCP [UR12], [UR8], UR5"], iteration.repeat(iterations).as_slice(), &["@P0 BRA 0x10"]].concat(),
            )
        };
        assert_eq!((looped(1), looped(2), looped(3)), (None, None, None));
        assert!(looped(4).is_some());
        let straight = |iterations: usize| {
            compare(
                "bulk_triad_f32",
                &[&["UBLKCP [UR12], [UR8], UR5"], iteration.repeat(iterations).as_slice()].concat(),
            )
        };
        assert!(straight(3).is_none() && straight(1).is_some());
    }
}
