//! A kernel's text: the specification as macros, the expression's body, and the header of the form that uses both.

use std::fmt::Write;

use super::body;
use super::plan::batch;
use super::spec::{Dependent, Form, GridPolicy, Inner, KernelSpec, Stream};
use crate::kernel::Index;

/// The entry point of every kernel.
pub const ENTRY: &str = "elementwise";

/// Files that the texts include.
const HEADERS: [(&str, &str); 24] = headers!(
    "": "bulk_copy.h", "device.h";
    "elementwise/":
    "types.h", "convert.h", "arithmetic.h", "library.h", "primitives.h",
    "access.h", "shift.h", "same.h", "single.h", "tile.h", "flat.h", "batch.h", "indexed.h", "rows.h", "transpose.h",
    "dense_lines.h", "passage.h", "lines.h", "aligned_tiles.h", "sheared_tiles.h", "joined_rows.h", "bulk.h"
);

/// The compiler's input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generated {
    /// The entry point: [`ENTRY`].
    pub entry: &'static str,
    /// CUDA C++.
    pub text: String,
    /// Files that the text includes, by the name used there.
    pub headers: &'static [(&'static str, &'static str)],
}

/// Generates the text of a kernel. It contains no text from the user.
#[must_use]
pub fn generate(spec: &KernelSpec) -> Generated {
    let mut text = String::with_capacity(4096);
    // Writing to a String can't fail.
    let _ = write(&mut text, spec);
    Generated { entry: ENTRY, text, headers: &HEADERS }
}

fn write(text: &mut String, spec: &KernelSpec) -> std::fmt::Result {
    // The body comes first, because the form's macros would clash with names in the body's headers.
    text.push_str(&body::emit(&spec.graph, spec.tier));
    let tensors = spec.streams.len();
    let scalars = spec.graph.scalars().len();
    let (form_at, scalars_at) = if spec.batched.is_some() { (0, 3) } else { (tensors + scalars, tensors) };
    let defines: [(&str, u64); 31] = [
        ("LANES", spec.lanes.into()),
        ("UNROLL", spec.unroll.into()),
        ("ROWS", spec.rows.into()),
        ("ROWS_FIT", spec.fits[0].into()),
        ("COLUMNS_FIT", spec.fits[1].into()),
        ("SHEAR", spec.shear.into()),
        ("JOINED", spec.joined.into()),
        ("FOLD_ROWS", spec.folds[0].into()),
        ("FOLD_COLUMNS", spec.folds[1].into()),
        ("THREADS", spec.threads.into()),
        ("TILE", spec.tile()),
        ("BLOCKS_AT_ONCE", spec.resident.into()),
        ("HINT", spec.hints.bits().into()),
        ("INDEX_BITS", if spec.index == Index::U32 { 32 } else { 64 }),
        ("DEPENDENT", spec.dependent as u64),
        ("PREFETCH", spec.prefetch.into()),
        ("STRIDE_GRID", u64::from(spec.grid != GridPolicy::Cover)),
        ("WIDEST", spec.target.widest_access().into()),
        ("HAS_HEAD", spec.head.into()),
        ("HAS_SHIFTS", u64::from(spec.streams.contains(&Stream::Shifted))),
        ("RANK", spec.rank.into()),
        ("SETS", spec.sets.into()),
        ("WHOLE_ROWS", spec.whole_rows.into()),
        ("RARE_TURNS", spec.rare_turns.into()),
        ("STACKED", (!spec.same_rows.is_empty()).into()),
        ("BATCH", spec.batched.is_some().into()),
        ("TABLE_IN_MEMORY", spec.batched.is_some_and(|batched| batched.table_in_memory).into()),
        ("WORDS", words(spec) as u64),
        ("SCALARS_AT", scalars_at as u64),
        ("FORM_AT", form_at as u64),
        ("DIMENSIONS_AT", (form_at + words_before_dimensions(spec)) as u64),
    ];
    for (name, value) in defines {
        writeln!(text, "#define {name} {value}")?;
    }
    if let Some(batched) = spec.batched {
        writeln!(text, "#define ADDRESSES {}", batch::addresses(&spec.graph))?;
        for place in 0..spec.graph.outputs().len() {
            writeln!(
                text,
                "#define OUT{place}_ADDRESS {}",
                batch::address(&spec.graph, spec.graph.inputs().len() + place)
            )?;
        }
        if let Some(skip) = batched.skip {
            writeln!(text, "#define SKIP_TYPE {}", body::memory_type(skip))?;
        }
    }
    let inputs = spec.graph.inputs().len();
    for (place, stream) in spec.streams.iter().enumerate() {
        let (side, slot) = if place < inputs { ("IN", place) } else { ("OUT", place - inputs) };
        let (kind, set) = kind(*stream);
        writeln!(text, "#define {side}{slot} {kind}\n#define {side}{slot}_SET {set}")?;
        let (line, spacing) = match stream {
            Stream::Transposed { line, .. } => (*line, 1),
            Stream::Dense { vector, .. } => (*vector, 1),
            Stream::Indexed { inner: Inner::Spaced(spacing), .. } => (1, *spacing),
            _ => (1, 1),
        };
        writeln!(text, "#define {side}{slot}_LINE {line}\n#define {side}{slot}_SPACING {spacing}")?;
        if place < inputs {
            let same = spec.same_rows.get(place).copied().unwrap_or(false);
            writeln!(text, "#define IN{slot}_SAME_ROWS {}", u64::from(same))?;
        }
    }
    let form = match spec.form {
        Form::Flat | Form::Peel | Form::Phased => "flat",
        Form::Rows | Form::Strided => "rows",
        Form::Transpose => "transpose",
        Form::Bulk => "bulk",
        Form::Batch => "batch",
    };
    writeln!(text, "#include \"{form}.h\"")
}

/// Words of the form before those of dimensions and strides.
fn words_before_dimensions(spec: &KernelSpec) -> usize {
    match spec.form {
        Form::Flat | Form::Peel | Form::Phased => 3 + usize::from(spec.prefetch),
        Form::Bulk => 3 + usize::from(spec.prefetch) + usize::from(spec.head),
        Form::Rows | Form::Strided | Form::Transpose => 2,
        Form::Batch => 0,
    }
}

/// Words of the parameter block.
fn words(spec: &KernelSpec) -> usize {
    if let Some(batched) = spec.batched {
        return batched.words as usize;
    }
    let (rank, sets) = (spec.rank as usize, spec.sets as usize);
    let folds = spec.folds.iter().filter(|fold| **fold > 0).count();
    let words_per_set = if spec.form == Form::Transpose { rank + folds } else { 2 * rank };
    let form = words_before_dimensions(spec) + 3 * rank + sets * words_per_set;
    spec.streams.len() + spec.graph.scalars().len() + form
}

/// The name of an addressing mode in access.h, and the set of strides.
fn kind(stream: Stream) -> (&'static str, u8) {
    match stream {
        Stream::Unused => ("UNUSED", 0),
        Stream::Linear => ("LINEAR", 0),
        Stream::Shifted => ("SHIFTED", 0),
        Stream::Uniform => ("UNIFORM", 0),
        Stream::Indexed { set, inner: Inner::Vector } => ("INDEXED_VECTOR", set),
        Stream::Indexed { set, inner: Inner::Shifted } => ("INDEXED_SHIFTED", set),
        Stream::Indexed { set, inner: Inner::ShiftedOrUnit } => ("INDEXED_SHIFTED_OR_UNIT", set),
        Stream::Indexed { set, inner: Inner::Unit } => ("INDEXED_UNIT", set),
        Stream::Indexed { set, inner: Inner::Splat } => ("INDEXED_SPLAT", set),
        Stream::Indexed { set, inner: Inner::Spaced(_) } => ("INDEXED_SPACED", set),
        Stream::Indexed { set, inner: Inner::Any } => ("INDEXED_ANY", set),
        Stream::Transposed { set, .. } => ("TRANSPOSED", set),
        Stream::Dense { set, .. } => ("DENSE", set),
    }
}

const _: () = assert!(Dependent::No as u64 == 0 && Dependent::Early as u64 == 1);
const _: () = assert!(Dependent::Late as u64 == 2 && Dependent::Exit as u64 == 3 && Dependent::Start as u64 == 4);
const _: () = assert!(Dependent::Tail as u64 == 5);
