//! The stream kernels: the forms in `kernel.cu`, and those that the probe uses.

use std::collections::BTreeSet;

use plimsoll_gen::kernel::Op;
use plimsoll_gen::kernel::spirv::NOT_WRITTEN;

use crate::prelude::kernels::*;

spirv_builds! {
    "crates/plimsoll-probes/src/stream", "":
    STREAM = "stream.spv", "stream.comp", [];
}

/// The source of these kernels.
pub static SOURCE: Source = Source::new("stream", include_str!("kernel.cu"), kernels)
    .with_headers(&[("stream_bulk.h", include_str!("stream_bulk.h"))])
    .with_access_rule(AccessRule::Stated)
    .with_spirv(spirv, BUILDS);

/// Most vectors that a thread of `stream.comp` holds at once.
const MOST_UNROLLED: u32 = 8;

fn spirv(kernel: &KernelDesc, _: Features) -> Result<Spirv, &'static str> {
    let op = operation(kernel).and_then(|named| Op::ALL.iter().position(|op| *op == named));
    let op = op.ok_or(NOT_WRITTEN)? as u32;
    if kernel.element != Element::F32 {
        return Err("the stream kernels for Vulkan have no double precision");
    }
    if kernel.hints.bits() != 0 || kernel.name.contains("_bulk") {
        return Err("Vulkan has neither cache hints nor bulk copies");
    }
    if !matches!(kernel.vector_bytes, 4 | 8 | 16) || kernel.unroll > MOST_UNROLLED {
        return Err("vectors in Vulkan have at most 16 bytes, and its stream kernel holds at most 8 of them");
    }
    Ok(Spirv::new(STREAM, vec![(1, op), (2, kernel.lanes()), (3, kernel.unroll), (4, u32::from(kernel.looping))]))
}

/// One stream kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// The operation.
    pub op: Op,
    /// [`Element::F32`] or [`Element::F64`].
    pub element: Element,
    /// Bytes per access: 4, 8, 16 or 32, at least the element size.
    pub vector_bytes: u32,
    /// Vectors of each array that a thread holds at once.
    pub unroll: u32,
    /// Cache hints.
    pub hints: Hints,
    /// Grid-stride form; otherwise every block does one tile.
    pub looping: bool,
    /// Threads per block.
    pub threads: u32,
    /// Inputs are copied to shared memory in bulk, a tile per block: compute capability 9.0, no loop and no stencil. Of the hints
    /// only the load hint applies: inputs stay in L2, so that results leave it sooner.
    pub bulk: bool,
}

impl Parameters {
    /// One vector of 16 bytes per thread, blocks of 256, no hints, no loop.
    #[must_use]
    pub fn new(op: Op) -> Self {
        Self {
            op,
            element: Element::F32,
            vector_bytes: 16,
            unroll: 1,
            hints: Hints::default(),
            looping: false,
            threads: 256,
            bulk: false,
        }
    }

    /// The kernel's description.
    #[must_use]
    pub fn kernel(self) -> KernelDesc {
        let Self { op, element, vector_bytes, unroll, hints, looping, threads, bulk } = self;
        let form = if looping { "loop" } else { "one" };
        let (hint, kind) = (hints.bits(), element.name());
        let kept = hints.load_no_allocate;
        let how = match (bulk, kept) {
            (true, true) => "bulk_kept".to_owned(),
            (true, false) => "bulk".to_owned(),
            (false, _) => format!("h{hint}_{form}"),
        };
        let name = format!("stream_{}_{kind}_v{vector_bytes}_u{unroll}_{how}_b{threads}", op.name());
        let in_source = in_source(op);
        let access_rule = match op.reach() {
            _ if bulk => AccessRule::BulkCopies,
            0 => AccessRule::Stated,
            // The compiler may reuse neighbours' loads.
            _ => AccessRule::Unchecked,
        };
        let c_name = element.c_name();
        let entry = if bulk {
            format!("STREAM_BULK({name}, {in_source}, {c_name}, {vector_bytes}, {unroll}, {threads}, {kept})")
        } else {
            format!("STREAM({name}, {in_source}, {c_name}, {vector_bytes}, {unroll}, {hint}, {looping}, {threads})")
        };
        KernelDesc {
            entry,
            // Bulk copies need sizes and addresses that are multiples of 16 bytes, whatever the vector size.
            parameters: if bulk {
                takes!(
                    out: [fill VECTOR; Output("n")], a: [read 16; Input(0, "n")], b: [read 16; Input(1, "n")],
                    c: [read 16; Input(2, "n")], s: SCALAR, n: U64 [Most(Covered)],
                )
            } else {
                takes!(
                    out: [fill VECTOR; Output("n")], a: [read VECTOR; Input(0, "n")], b: [read VECTOR; Input(1, "n")],
                    c: [read VECTOR; Input(2, "n")], s: SCALAR, n: U64 [Most(Covered)],
                )
            },
            element,
            inputs: op.mix().reads,
            outputs: u32::from(Output::from(op) == Output::Map),
            vector_bytes,
            unroll,
            hints,
            looping,
            grid: if looping { Grid::Least { waves: 1 } } else { Grid::Cover },
            output: Output::from(op),
            access_rule,
            ..KernelDesc::new(&SOURCE, name, threads)
        }
    }
}

/// The operation of a kernel, from its name.
#[must_use]
pub fn operation(kernel: &KernelDesc) -> Option<Op> {
    Op::ALL.into_iter().find(|op| kernel.name.starts_with(&format!("stream_{}_", op.name())))
}

/// The operation's name in `kernel.cu`.
fn in_source(op: Op) -> &'static str {
    match op {
        Op::Init => "INIT",
        Op::Read => "READ",
        Op::Copy => "COPY",
        Op::Scale => "SCALE",
        Op::Add => "ADD",
        Op::Triad => "TRIAD",
        Op::Schoenauer => "SCHOENAUER",
        Op::Dot => "DOT",
        Op::Point3 => "POINT3",
        Op::Point5 => "POINT5",
    }
}

/// All applicable hints together. Stencils get their neighbours from L1, so their loads have none.
fn hinted(op: Op) -> Hints {
    Hints { load_no_allocate: op.mix().reads > 0 && op.reach() == 0, store_streaming: Output::from(op) == Output::Map }
}

/// Operations with a full search for the best configuration: the ceilings of 0:1, 1:0, 1:1 and 2:1.
pub const CEILINGS: [Op; 4] = [Op::Init, Op::Read, Op::Copy, Op::Triad];

/// One-shot forms to search for the best: by bytes that each thread requests at once, hints and block size. Blocks of 128 are
/// the smallest that a device starts fast enough for its memory and, with one vector per thread, the best on most devices.
#[must_use]
pub fn configurations(op: Op, target: Target) -> Vec<Parameters> {
    let plain = Parameters { threads: 128, ..Parameters::new(op) };
    let hints = [Hints::default(), hinted(op)];
    let over = |vectors: &[u32], unrolls: &[u32]| {
        let mut all = Vec::new();
        for &vector_bytes in vectors {
            for &unroll in unrolls {
                all.extend(hints.map(|hints| Parameters { vector_bytes, unroll, hints, ..plain }));
            }
        }
        all
    };
    if !CEILINGS.contains(&op) {
        let mut all = over(&[16], &[1, 2, 4]);
        all.extend(bulk_forms(op, target));
        return all;
    }
    let vectors: Vec<u32> = [4, 8, 16, 32].into_iter().filter(|bytes| *bytes <= target.widest_access()).collect();
    let mut all = over(&vectors, &[1, 2, 4, 8]);
    all.extend([256, 512, 1024].map(|threads| Parameters { threads, ..plain }));
    all.extend(bulk_forms(op, target));
    all
}

/// Bulk forms to search for the best: for each number of inputs the fastest tile on an H200, and for kernels with output also the
/// fastest one with inputs kept in the cache.
fn bulk_forms(op: Op, target: Target) -> Vec<Parameters> {
    let shapes: &[(u32, u32, u32, bool)] = match op {
        _ if target.capability < 90 => &[],
        Op::Copy => &[(8, 8, 128, false), (4, 5, 128, true)],
        Op::Read => &[(8, 10, 128, false)],
        Op::Triad => &[(16, 3, 128, false), (4, 3, 256, true)],
        _ => &[],
    };
    let parameters = |&(vector_bytes, unroll, threads, load_no_allocate)| Parameters {
        vector_bytes,
        unroll,
        threads,
        hints: Hints { load_no_allocate, ..Hints::default() },
        bulk: true,
        ..Parameters::new(op)
    };
    shapes.iter().map(parameters).collect()
}

/// Largest block of [`occupancy`].
const OCCUPANCY_BLOCK: u32 = 256;

/// The form for the occupancy series: four vectors per thread, so that few threads already have many bytes in flight. For
/// `threads` per SM it has blocks of up to 256.
#[must_use]
pub fn occupancy(op: Op, looping: bool, threads: u32) -> Parameters {
    Parameters { unroll: 4, looping, threads: threads.min(OCCUPANCY_BLOCK), ..Parameters::new(op) }
}

/// Every stream kernel that the probe may use on this target, and each operation in double precision and in both forms.
#[must_use]
pub fn kernels(target: Target) -> Vec<KernelDesc> {
    let mut wanted: Vec<Parameters> = Vec::new();
    for op in Op::ALL {
        wanted.extend(configurations(op, target));
        wanted.push(Parameters { element: Element::F64, ..Parameters::new(op) });
        wanted.extend([1, 4].map(|unroll| Parameters { unroll, looping: true, ..Parameters::new(op) }));
    }
    for op in CEILINGS {
        for looping in [false, true] {
            wanted.extend([32, 64, 128, 256].map(|threads| occupancy(op, looping, threads)));
        }
    }
    let mut kernels: Vec<KernelDesc> = wanted.into_iter().map(Parameters::kernel).collect();
    let mut seen = BTreeSet::new();
    kernels.retain(|kernel| seen.insert(kernel.name.clone()));
    kernels
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traffic_counts_each_array_once() {
        let mix = |op| {
            let traffic = Parameters::new(op).kernel().traffic(1000);
            (traffic.read / 4000, traffic.written / 4000)
        };
        assert_eq!(
            Op::ALL.map(mix).map(|(r, w)| [r, w]).concat(),
            [0, 1, 1, 0, 1, 1, 1, 1, 2, 1, 2, 1, 3, 1, 2, 0, 1, 1, 1, 1]
        );
    }

    #[test]
    fn bytes_in_flight_are_loads_or_where_there_are_none_stores() {
        let flight = |op, unroll| Parameters { unroll, ..Parameters::new(op) }.kernel().bytes_in_flight();
        assert_eq!([flight(Op::Triad, 4), flight(Op::Init, 2), flight(Op::Read, 8)], [128, 32, 128]);
    }

    #[test]
    fn every_kernel_names_its_operation() {
        for kernel in kernels(Target::plain(90)) {
            let op = operation(&kernel).unwrap();
            assert_eq!((op.mix().reads, Output::from(op)), (kernel.inputs, kernel.output), "{}", kernel.name);
        }
    }
}
