//! An expression as the body of a kernel: CUDA C++ that computes one element, one statement per instruction of its
//! [`plimsoll_ir::Program`]. Inputs and outputs are in carrier types. Names derive from indices, so the text contains nothing written by
//! the user. The forms do indexing, loads and stores.
//!
//! The text defines, for the inputs that are read and for every output,
//!
//! ```c
//! typedef bf16_t in0_t; typedef float in0_c; …      // type in memory, and carrier type
//! typedef f16_t out0_t; typedef float out0_c; …
//! struct Scalars { float a0; … };
//! Scalars scalars(const u64* words);                // from the scalars' words of the parameter block
//! void body(const Scalars& s, const At& at, in0_c x0, …, out0_c& y0, …);
//! #define INPUTS 2                                  // declared, read or not; OUTPUTS and SCALARS alike
//! #define EACH_INPUT(M) M(0) M(1)                   // the inputs that are read; EACH_OUTPUT for outputs
//! #define NEEDS_PLACE 0                             // at.place is read
//! #define NEEDS_COORDINATES 0                       // number of elements of at.coordinate that may be read
//! #define BODY_CALL(s, at, i) body(s, at, x0[i], x1[i], y0[i])
//! ```
//!
//! A program with guards has a second body for the common case. A form computes the elements of a vector between `BODY_BEGIN` and
//! `BODY_END(s, n)` with `BODY_EACH(s, at, i)`; at the end, if an element broke a guard, `body` computes those that did, one after the
//! other: the arrays rotate, so that no index is dynamic and the code of `body` occurs once. Single elements are vectors of one. So an
//! element's result depends neither on its neighbours nor on the form.

pub mod catalogue;
mod print;

use std::fmt::Write;

use plimsoll_expr::graph::Kind;
use plimsoll_expr::{DType, Graph};
use plimsoll_ir::{Accuracy, Block, Program};

use super::Tier;

/// Files that bodies include, by the names used there.
pub const HEADERS: [(&str, &str); 5] =
    headers!("elementwise/": "types.h", "convert.h", "arithmetic.h", "library.h", "primitives.h");

/// Most nodes of a body that is inlined for every element of a vector; larger ones are called, because compile time grows faster
/// than linearly.
const MOST_INLINE: usize = 512;

/// Generates the text of a body. Plain copies in `graph` should be integers ([`Graph::with_raw_copies`]), and it should be the
/// [`meaning`](super::accuracy::meaning) of an expression in this tier.
#[must_use]
pub fn emit(graph: &Graph, tier: Tier) -> String {
    let mut text = String::with_capacity(512 + 40 * graph.nodes().len());
    // Writing to a String can't fail.
    let _ = write(&mut text, graph, tier);
    text
}

/// The program of an expression. Guards aren't worth a second body where an element's index is read or the body is called.
#[must_use]
pub fn program(graph: &Graph, tier: Tier) -> Program {
    let accuracy = match tier {
        Tier::Exact => Accuracy::Exact,
        Tier::Accurate => Accuracy::Accurate,
        Tier::Fast => Accuracy::Fast,
        Tier::Full => Accuracy::Full,
    };
    let guarded = !graph.depends_on_place() && graph.nodes().len() <= MOST_INLINE;
    plimsoll_ir::lower(graph, accuracy, guarded)
}

fn write(text: &mut String, graph: &Graph, tier: Tier) -> std::fmt::Result {
    let program = program(graph, tier);
    writeln!(text, "#include \"primitives.h\"")?;
    let read: Vec<usize> = graph.reads().iter().enumerate().filter(|(_, read)| **read).map(|(slot, _)| slot).collect();
    for &slot in &read {
        types(text, "in", slot, graph.inputs()[slot].dtype)?;
    }
    for (slot, output) in graph.outputs().iter().enumerate() {
        types(text, "out", slot, output.dtype)?;
    }
    let outputs: Vec<usize> = (0..graph.outputs().len()).collect();
    writeln!(text, "#define INPUTS {}", graph.inputs().len())?;
    writeln!(text, "#define OUTPUTS {}", outputs.len())?;
    writeln!(text, "#define SCALARS {}", graph.scalars().len())?;
    let place = graph.nodes().iter().any(|node| node.kind == Kind::Place);
    writeln!(text, "#define NEEDS_PLACE {}", u8::from(place))?;
    writeln!(text, "#define NEEDS_COORDINATES {}", graph.least_rank())?;
    each(text, "EACH_INPUT", &read)?;
    each(text, "EACH_OUTPUT", &outputs)?;
    scalars(text, graph)?;
    let slots = (read.as_slice(), outputs.as_slice());
    let called = graph.nodes().len() > MOST_INLINE;
    function(text, "body", slots, program.total(), called)?;
    call(text, "BODY_CALL", "body", slots, "")?;
    if program.general.is_some() {
        print::write_guards(text, &program.common)?;
        function(text, "common", slots, &program.common, false)?;
        let alone = Block { results: Vec::new(), ..program.common }.without_dead();
        function(text, "check", (&read, &[]), &alone, false)?;
        text.push_str("#define BODY_BEGIN Guards guards;\n");
        call(text, "BODY_EACH", "common", slots, ", guards")?;
        call(text, "BODY_CHECK", "check", (&read, &[]), ", own")?;
        guarded_end(text, slots)
    } else {
        text.push_str("#define BODY_BEGIN\n#define BODY_EACH(s, at, i) BODY_CALL(s, at, i)\n#define BODY_END(s, n)\n");
        Ok(())
    }
}

/// The slots of the inputs that are read, and of the outputs.
type Slots<'a> = (&'a [usize], &'a [usize]);

/// Writes a block as a function.
fn function(text: &mut String, name: &str, slots: Slots<'_>, block: &Block, called: bool) -> std::fmt::Result {
    let inline = if called { "static __device__ __noinline__" } else { "__device__ __forceinline__" };
    write!(text, "{inline} void {name}(const Scalars& s, const At& at")?;
    for slot in slots.0 {
        write!(text, ", in{slot}_c x{slot}")?;
    }
    for slot in slots.1 {
        write!(text, ", out{slot}_c& y{slot}")?;
    }
    text.push_str(if block.guards.is_empty() { ") {\n" } else { ", Guards& guards) {\n" });
    print::write_block(text, block)?;
    text.push_str("}\n");
    Ok(())
}

/// Writes the macro that calls a function for element `i` of a vector.
fn call(text: &mut String, macro_name: &str, name: &str, (inputs, outputs): Slots<'_>, more: &str) -> std::fmt::Result {
    write!(text, "#define {macro_name}(s, at, i) {name}(s, at")?;
    for (letter, slots) in [('x', inputs), ('y', outputs)] {
        for slot in slots {
            write!(text, ", {letter}{slot}[i]")?;
        }
    }
    writeln!(text, "{more})")
}

/// Writes the macro that computes the elements of a vector again that broke a guard.
fn guarded_end(text: &mut String, (inputs, outputs): Slots<'_>) -> std::fmt::Result {
    text.push_str("#define BODY_END(s, n) if (guards.broken()) { _Pragma(\"unroll 1\") for (int k = 0; k < (n); ++k) { At at; Guards own; BODY_CHECK(s, at, 0); if (own.broken()) BODY_CALL(s, at, 0);");
    for (letter, slots) in [('x', inputs), ('y', outputs)] {
        for slot in slots {
            write!(text, " rotate<n>({letter}{slot});")?;
        }
    }
    writeln!(text, " }} }}")
}

fn types(text: &mut String, side: &str, slot: usize, dtype: DType) -> std::fmt::Result {
    let (memory, carrier) = (memory_type(dtype), carrier_type(dtype));
    writeln!(text, "typedef {memory} {side}{slot}_t; typedef {carrier} {side}{slot}_c;")
}

fn each(text: &mut String, name: &str, slots: &[usize]) -> std::fmt::Result {
    write!(text, "#define {name}(M)")?;
    for slot in slots {
        write!(text, " M({slot})")?;
    }
    writeln!(text)
}

fn scalars(text: &mut String, graph: &Graph) -> std::fmt::Result {
    text.push_str("struct Scalars {\n");
    for (slot, scalar) in graph.scalars().iter().enumerate() {
        writeln!(text, "    {} a{slot};", carrier_type(scalar.dtype))?;
    }
    text.push_str("};\n__device__ __forceinline__ Scalars scalars(const u64* words) {\n    Scalars s;\n");
    for (slot, scalar) in graph.scalars().iter().enumerate() {
        writeln!(text, "    s.a{slot} = from_bits<{}>(words[{slot}]);", memory_type(scalar.dtype))?;
    }
    text.push_str("    return s;\n}\n");
    Ok(())
}

/// The name in types.h of a type in memory.
pub(super) const fn memory_type(dtype: DType) -> &'static str {
    match dtype {
        DType::F64 => "double",
        DType::F32 => "float",
        DType::F16 => "f16_t",
        DType::Bf16 => "bf16_t",
        DType::F8E4M3 => "f8e4m3_t",
        DType::F8E5M2 => "f8e5m2_t",
        DType::Bool => "bool_t",
        integer => integer.name(),
    }
}

/// The name in types.h of a type's carrier.
pub(super) const fn carrier_type(dtype: DType) -> &'static str {
    match dtype.carrier() {
        DType::F64 => "double",
        DType::F32 => "float",
        DType::Bool => "bool",
        integer => integer.name(),
    }
}
