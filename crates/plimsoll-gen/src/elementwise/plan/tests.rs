//! Plans for typical tensors: the chosen form, forced choices, and rejected choices.

mod sizes;

use plimsoll_expr::{Graph, Layout, Names, Space, parse};

use super::*;
use crate::elementwise::spec::{Inner, Stream};
use crate::elementwise::table::{Class, Wanted};

const MIB: u64 = 1 << 20;
const ADD: &str = "in x: bf16\ny = x + 1";
const BIAS: &str = "in x: bf16, b: bf16\ny = x + b";
pub(super) const TRIAD: &str = "in x: f32, z: f32\nscalar a: f32\ny = a*x + z";

pub(super) fn device(capability: u32) -> Device {
    Device {
        target: Target::plain(capability),
        multiprocessors: 132,
        threads_per_multiprocessor: 2048,
        l2_bytes: 60 * MIB,
    }
}

pub(super) fn graph(text: &str) -> Graph {
    parse(text, &Names::default()).unwrap()
}

/// Plans `text` on tensors of these strides, whose first elements are at these addresses.
pub(super) fn planned(
    text: &str,
    shape: &[u64],
    tensors: &[(&[i64], u64)],
    capability: u32,
    choose: &Choose,
) -> Result<Plan, PlanError> {
    let graph = graph(text);
    let layouts: Vec<Layout> = tensors.iter().map(|(strides, _)| Layout::strided(shape, strides, 0).unwrap()).collect();
    let starts: Vec<u64> = tensors.iter().map(|(_, start)| *start).collect();
    let indexing = Indexing::new(&graph, &Space::with_shape(shape, &layouts).unwrap(), &starts)?;
    let table = if capability == 90 { crate::elementwise::table::example() } else { Table::default() };
    plan(&graph, &indexing, &device(capability), &table, choose)
}

fn flat(text: &str, elements: u64, capability: u32, choose: &Choose) -> Plan {
    let graph = graph(text);
    let tensors = vec![(&[1_i64][..], 0); graph.inputs().len() + graph.outputs().len()];
    planned(text, &[elements], &tensors, capability, choose).unwrap()
}

#[test]
fn resident_blocks_are_limited_by_each_compute_capability() {
    // Threads per SM and most blocks per SM of the CUDA C++ Programming Guide.
    let documented = [
        (75, 1024, 16),
        (80, 2048, 32),
        (86, 1536, 16),
        (87, 1536, 16),
        (89, 1536, 24),
        (90, 2048, 32),
        (100, 2048, 32),
        (103, 2048, 32),
        (110, 1536, 24),
        (120, 1536, 24),
        (121, 1536, 24),
    ];
    for (capability, threads_per_multiprocessor, blocks) in documented {
        let device = Device { target: Target::plain(capability), threads_per_multiprocessor, ..device(90) };
        let resident = [32, 64, 96, 256].map(|threads| device.resident(threads));
        assert_eq!(resident, [32, 64, 96, 256].map(|threads| blocks.min(threads_per_multiprocessor / threads)));
    }
}

#[test]
fn alignment_of_addresses_decides_between_flat_peel_and_phased() {
    let form = |x: u64, y: u64| {
        let plan = planned(ADD, &[1 << 20], &[(&[1], x), (&[1], y)], 80, &Choose::default()).unwrap();
        (plan.spec.form, plan.spec.lanes)
    };
    assert_eq!(form(0, 1024), (Form::Flat, 8));
    assert_eq!(form(2, 18), (Form::Peel, 8));
    assert_eq!(form(2, 0), (Form::Phased, 8));
    // Narrower aligned vectors need no shifts.
    assert_eq!(form(8, 16), (Form::Flat, 4));
}

#[test]
fn one_kernel_serves_every_size_and_all_copies_of_the_same_width() {
    let hints = Some(Hints::default());
    let choose = Choose { vector: Some(16), unroll: Some(1), threads: Some(128), hints, ..Choose::default() };
    let spec = |elements| flat(ADD, elements, 80, &choose).spec;
    assert_eq!(spec(1), spec((1 << 40) + 1));
    let copy = |dtype: &str| flat(&format!("in x: {dtype}\ny = x"), 5000, 80, &choose).spec;
    assert_eq!(copy("bf16"), copy("i16"));
    assert_ne!(copy("bf16"), copy("f32"));
}

#[test]
fn rows_of_a_table_are_checked_like_choices_and_keep_the_registers_they_were_measured_with() {
    let copy = graph("in x: f64\ny = x");
    let plan_by = |vector| {
        let mut table = Table::for_device("NVIDIA H200", 90);
        table.rows.iter_mut().for_each(|row| row.vector = vector);
        let access = Access { strides: vec![1], phase: 0 };
        let indexing = Indexing { extents: vec![MIB], accesses: vec![access; 2] };
        plan(&copy, &indexing, &device(90), &table, &Choose::default())
    };
    for vector in [0, 5, 12, u32::MAX] {
        assert!(matches!(plan_by(vector), Err(PlanError::Choice { what: "vector", .. })), "{vector}");
    }
    assert!(plan_by(8).is_ok());
    let resident = |text| flat(text, MIB / 16, 90, &Choose::default()).spec.resident;
    assert_eq!(resident(TRIAD), 0);
    assert!(resident("in x: f32, z: f32, w: f32\ny = x + z + w") > 0);
}

#[test]
fn bias_uses_the_rows_form_and_transposed_input_uses_tiles() {
    let plan = |strides: [&[i64]; 3]| {
        let tensors = strides.map(|strides| (strides, 0));
        planned(BIAS, &[4096, 1024], &tensors, 90, &Choose::default()).unwrap().spec
    };
    let columns = plan([&[1024, 1], &[0, 1], &[1024, 1]]);
    assert_eq!((columns.form, columns.streams[1]), (Form::Rows, Stream::Indexed { set: 0, inner: Inner::Vector }));
    let rows = plan([&[1024, 1], &[1, 0], &[1024, 1]]);
    assert_eq!((rows.form, rows.streams[1]), (Form::Rows, Stream::Indexed { set: 0, inner: Inner::Splat }));
    assert_eq!((rows.index, rows.streams[0]), (Index::U32, Stream::Linear));
    assert_eq!(plan([&[1, 4096], &[1024, 1], &[1024, 1]]).form, Form::Transpose);
    // If all tensors are transposed alike, none is transposed relative to the others.
    assert_eq!(plan([&[1, 4096], &[1, 4096], &[1, 4096]]).form, Form::Flat);
    assert_eq!(plan([&[2048, 2], &[1024, 1], &[1024, 1]]).form, Form::Rows);
    assert_eq!(plan([&[1024, 1], &[1024, 1], &[2048, 2]]).form, Form::Strided);
}

#[test]
fn bulk_copies_are_used_for_devices_and_sizes_that_gain() {
    let choose = Choose::default();
    assert_eq!(flat(TRIAD, 256 * MIB, 90, &choose).spec.form, Form::Bulk);
    assert_eq!(flat(TRIAD, MIB, 90, &choose).spec.form, Form::Flat);
    assert_eq!(flat(TRIAD, 256 * MIB, 80, &choose).spec.form, Form::Flat);
    // Blocks that were measured for sums of one or two inputs don't suit three inputs, or functions.
    assert_eq!(flat("in x: f32, z: f32, w: f32\ny = x + z + w", 256 * MIB, 90, &choose).spec.form, Form::Flat);
    let shape = |text, elements| {
        let spec = flat(text, elements, 90, &choose).spec;
        (spec.form, spec.lanes, spec.unroll)
    };
    let (functions, heavy) =
        ("in x: f32, z: f32\ny = exp(x) * rsqrt(z)", "in x: f32, z: f32\ny = sin(x) * log(exp(z) + x)");
    assert_eq!(shape(functions, 256 * MIB), (Form::Bulk, 4, 1));
    assert_eq!(shape(heavy, 256 * MIB), (Form::Flat, 4, 1));
    // One input of heavy work takes two vectors once the data don't fit into L2. Until then two inputs take halves, unless the work is heavy.
    let erfs = "in x: f32\ny = erf(erf(erf(x)))";
    assert_eq!((shape(erfs, 4 * MIB), shape(erfs, 64 * MIB)), ((Form::Flat, 4, 1), (Form::Flat, 4, 2)));
    assert_eq!((shape(functions, 4 * MIB), shape(heavy, 4 * MIB)), ((Form::Flat, 2, 1), (Form::Flat, 4, 1)));
    assert_eq!(shape("in x: f32\ny = silu(x)", 256 * MIB), (Form::Bulk, 4, 2));
    // A copy of f32 moves two-byte elements, so it is as fast as one of bf16.
    let narrow = Choose { form: Some(Form::Bulk), vector: Some(2), unroll: Some(12), ..choose };
    let copy = flat("in x: f32\ny = x", 1 << 30, 90, &narrow);
    assert_eq!((copy.spec.form, copy.spec.element_bytes()), (Form::Bulk, vec![2, 2]));
    assert_eq!(copy.form_words[0], 2 << 30);
    let forced = Choose { form: Some(Form::Bulk), ..choose };
    let error = planned(ADD, &[MIB], &[(&[1], 0), (&[1], 0)], 80, &forced).unwrap_err();
    assert!(error.to_string().contains("compute capability 9.0"), "{error}");
}

#[test]
fn tiles_begin_at_sectors_of_the_outputs() {
    let head = |x: u64, y: u64, vector| {
        let choose = Choose { vector: Some(vector), ..Choose::default() };
        let plan = planned(ADD, &[1 << 20], &[(&[1], x), (&[1], y)], 80, &choose).unwrap();
        (plan.spec.form, plan.form_words[2], plan.spec.head)
    };
    assert_eq!(head(0, 0, 16), (Form::Flat, 0, false));
    assert_eq!(head(16, 16, 16), (Form::Flat, 0, false));
    assert_eq!(head(2, 2, 16), (Form::Peel, 15, true));
    // Both can't begin at a sector: the output does.
    assert_eq!(head(2, 18, 16), (Form::Peel, 7, true));
    assert_eq!(head(18, 2, 16), (Form::Peel, 15, true));
    // The input's first access would begin before the tensor, so tiles begin some lines later.
    assert_eq!(head(2, 0, 16), (Form::Phased, 128, true));
    assert_eq!(head(2, 16, 16), (Form::Phased, 136, true));
    assert_eq!(head(0, 2, 16), (Form::Phased, 15, true));
}

#[test]
fn bulk_copies_accept_contiguous_tensors_at_any_address() {
    let run: &[i64] = &[1];
    let plan = |x: u64, y: u64, choose: &Choose| planned(ADD, &[1 << 30], &[(run, x), (run, y)], 90, choose).unwrap();
    let free = |x, y| plan(x, y, &Choose::default());
    let shifted = free(2, 0);
    assert_eq!(
        (shifted.spec.form, shifted.spec.streams.as_slice()),
        (Form::Bulk, &[Stream::Shifted, Stream::Linear][..])
    );
    // Copies stay inside the tensor: there are 16 bytes before the first tile and after the last one.
    let (whole, tile) = (shifted.form_words[1], shifted.spec.tile());
    assert_eq!((shifted.form_words[0], shifted.form_words[3]), (1 << 30, 128));
    assert!((8..tile + 8).contains(&((1 << 30) - 128 - whole * tile)));
    let peeled = free(2, 2);
    assert_eq!((peeled.spec.streams[0], peeled.form_words[3]), (Stream::Linear, 15));
    assert!(!free(0, 32).spec.head && free(0, 32).form_words.len() == 3);
    // Misaligned inputs aren't prefetched.
    let dependent = Choose { dependent: true, ..Choose::default() };
    assert!(!plan(2, 0, &Choose { form: Some(Form::Bulk), ..dependent }).spec.prefetch);
    // The head comes after the number of blocks that prefetch.
    let prefetching = plan(2, 2, &Choose { dependent: true, prefetch: Some(true), ..Choose::default() });
    assert_eq!((prefetching.form_words.len(), prefetching.form_words[4]), (5, 15));
    let outputs = "in x: bf16\ny = x + 1\nz = x - 1";
    let bulk = Choose { form: Some(Form::Bulk), ..Choose::default() };
    let apart = |z| planned(outputs, &[1 << 30], &[(run, 0), (run, 0), (run, z)], 90, &bulk);
    assert!(apart(2).is_err() && apart(16).is_ok());
}

#[test]
fn bulk_copies_are_combined_with_broadcast_inputs() {
    let bias = |columns: u64, strides: &[i64], text: &str, choose: &Choose| {
        let c = columns as i64;
        planned(text, &[1 << 17, columns], &[(&[c, 1], 0), (strides, 0), (&[c, 1], 0)], 90, choose)
    };
    let free = |columns, strides| bias(columns, strides, BIAS, &Choose::default()).unwrap().spec;
    let columns = free(16384, &[0, 1]);
    assert_eq!((columns.form, columns.lanes, columns.unroll, columns.rank), (Form::Bulk, 4, 3, 2));
    assert_eq!(columns.streams[..2], [Stream::Linear, Stream::Indexed { set: 0, inner: Inner::Vector }]);
    let rows = free(16384, &[1, 0]);
    assert_eq!((rows.form, rows.streams[1]), (Form::Bulk, Stream::Indexed { set: 0, inner: Inner::Splat }));
    let odd = free(16385, &[0, 1]);
    assert_eq!((odd.form, odd.lanes, odd.unroll, odd.whole_rows), (Form::Bulk, 4, 3, false));
    // Pitched rows are not contiguous, and another form computes coordinates.
    assert_eq!(free(16384, &[16400, 1]).form, Form::Rows);
    let place = "in x: bf16, b: bf16\ny = x + b + bf16(index(1))";
    assert_eq!(bias(16384, &[0, 1], place, &Choose::default()).unwrap().spec.form, Form::Rows);
    let forced = Choose { form: Some(Form::Bulk), ..Choose::default() };
    let refused = |columns, strides: &[i64], text: &str, choose: &Choose| {
        bias(columns, strides, text, choose).unwrap_err().to_string()
    };
    assert!(refused(16384, &[0, 1], place, &forced).contains("uses coordinates"));
    assert!(refused(3, &[1, 0], BIAS, &forced).contains("isn't broadcast"));
    // Every iteration is unrolled, so long expressions don't fit.
    let long = format!("in x: bf16, b: bf16\ny = x*b{}", " + x*b".repeat(500));
    assert_eq!(bias(16384, &[0, 1], &long, &Choose::default()).unwrap().spec.form, Form::Rows);
    // About as many bytes in flight, in vectors as wide as the widest element allows.
    let of_two = "in x: f32, b: f32, z: f32\ny = x + b + z";
    let tensors: [(&[i64], u64); 4] = [(&[16384, 1], 0), (&[0, 1], 0), (&[16384, 1], 0), (&[16384, 1], 0)];
    let two = planned(of_two, &[1 << 17, 16384], &tensors, 90, &Choose::default()).unwrap().spec;
    assert_eq!((two.form, two.lanes), (Form::Bulk, 1));
    let mixed = "in x: f64, b: u8\ny = x + b";
    let mixed = bias(16384, &[0, 1], mixed, &Choose::default()).unwrap().spec;
    assert!(mixed.lanes <= 4, "{mixed:?}");
    let large = Choose { vector: Some(2), unroll: Some(64), threads: Some(128), ..forced };
    assert!(refused(16384, &[0, 1], BIAS, &Choose { threads: Some(512), ..large }).contains("KiB"));
    assert_eq!(bias(16384, &[0, 1], BIAS, &large).unwrap().spec.unroll, 64);
    assert!(
        refused(16384, &[0, 1], BIAS, &Choose { vector: Some(16), unroll: Some(16), ..large }).contains("registers")
    );
}

#[test]
fn vectors_use_the_widest_access_and_mixed_types_limit_them() {
    assert_eq!(flat(ADD, 256 * MIB, 100, &Choose::default()).spec.lanes, 16);
    let mixed = flat("in x: f32\ny: bf16 = x", 256 * MIB, 80, &Choose::default());
    // One access to the widest tensor.
    assert_eq!(mixed.spec.lanes, 4);
    // Data of several inputs that fit into L2 are moved in halves of an access, unless there are few.
    let three =
        |elements| flat("in x: f32, z: f32, w: f32\ny = x + z + w", elements, 90, &Choose::default()).spec.lanes;
    assert_eq!([MIB / 16, MIB, 256 * MIB].map(three), [4, 2, 4]);
    // With very different types, the narrowest takes two bytes.
    assert_eq!(flat("in x: i8, z: f64\ny = x + z", MIB, 80, &Choose::default()).spec.lanes, 2);
}

#[test]
fn many_tensors_or_operations_limit_elements_per_thread() {
    let inputs: Vec<String> = (0..60).map(|k| format!("x{k}: f32")).collect();
    let sum: Vec<String> = (0..60).map(|k| format!("x{k}")).collect();
    let many = format!("in {}\ny = {}", inputs.join(", "), sum.join(" + "));
    let spec = flat(&many, MIB, 80, &Choose::default()).spec;
    assert_eq!((spec.lanes, spec.unroll), (2, 1));
    let long = format!("in x: f32\ny = x{}", " * x + 1.5".repeat(2000));
    let spec = flat(&long, MIB, 80, &Choose::default()).spec;
    assert!(spec.lanes * spec.unroll <= 16);
}

#[test]
fn every_choice_has_a_reason() {
    for choose in [Choose::default(), Choose { dependent: true, threads: Some(64), ..Choose::default() }] {
        let plan = flat(TRIAD, 64 * MIB, 90, &choose);
        let what: Vec<&str> = plan.reasons.iter().map(|reason| reason.what).collect();
        for known in ["form", "vector", "unroll", "threads", "hints", "index", "grid"] {
            assert_eq!(what.iter().filter(|what| **what == known).count(), 1, "{known}");
        }
        assert_eq!(what.contains(&"dependent"), choose.dependent);
        assert!(plan.reasons.iter().all(|reason| !reason.why.is_empty() && !reason.chosen.is_empty()));
    }
}

#[test]
fn short_dependent_launches_prefetch_their_inputs() {
    let dependent = Choose { dependent: true, threads: Some(128), ..Choose::default() };
    let prefetching_blocks = |elements, capability, choose: Choose| {
        let plan = flat(ADD, elements, capability, &choose);
        let words = plan.form_words.len();
        assert_eq!(words, if plan.spec.prefetch { 4 } else { 3 });
        assert_eq!(plan.reasons.iter().any(|reason| reason.what == "prefetch"), plan.spec.prefetch);
        plan.spec.prefetch.then(|| plan.form_words[3])
    };
    assert_eq!(prefetching_blocks(MIB, 90, dependent), Some(132 * 2048 / 128));
    assert_eq!(prefetching_blocks(64 * MIB, 90, dependent), Some(132 * 2048 / 128));
    assert_eq!(prefetching_blocks(65 * MIB, 90, dependent), None);
    assert_eq!(prefetching_blocks(MIB, 80, dependent), None);
    assert_eq!(prefetching_blocks(MIB, 90, Choose { cached: true, ..dependent }), None);
    assert_eq!(prefetching_blocks(MIB, 90, Choose { prefetch: Some(false), ..dependent }), None);
    assert_eq!(prefetching_blocks(MIB, 90, Choose::default()), None);
    assert!(prefetching_blocks(MIB, 90, Choose { prefetch: Some(true), ..Choose::default() }).is_some());
    let column = |choose: &Choose| planned(ADD, &[5000], &[(&[2], 0), (&[1], 0)], 90, choose);
    assert!(!column(&dependent).unwrap().spec.prefetch);
    let forced = Choose { prefetch: Some(true), ..dependent };
    let old = planned(ADD, &[5000], &[(&[1], 0), (&[1], 0)], 80, &forced).unwrap_err().to_string();
    assert!(old.contains("compute capability 9.0"), "{old}");
    for (form, start) in [(Form::Flat, 0), (Form::Peel, 2), (Form::Bulk, 0)] {
        let choose = Choose { form: Some(form), vector: Some(4), unroll: Some(2), ..forced };
        let plan = planned(ADD, &[5000], &[(&[1], start), (&[1], start)], 90, &choose).unwrap();
        let mut words = Vec::new();
        plan.words(&[start, start], &[], &mut words).unwrap();
        let define = format!("#define WORDS {}\n", words.len());
        assert!(crate::elementwise::generate(&plan.spec).text.contains(&define), "{form:?}");
        assert_eq!(words.last(), Some(&(132 * 2048 / 128)), "{form:?}");
    }
    let narrow = Choose { threads: Some(32), ..dependent };
    assert_eq!(prefetching_blocks(MIB, 90, narrow), Some(132 * 32));
    assert!(column(&forced).unwrap_err().to_string().contains("prefetch yes is not possible"));
    let ordinary = Choose { prefetch: Some(true), release: Some(Dependent::No), ..Choose::default() };
    let run: &[i64] = &[1];
    assert!(planned(ADD, &[5000], &[(run, 0), (run, 0)], 90, &ordinary).unwrap_err().to_string().contains("ordinary"));
}

#[test]
fn prediction_is_added_to_the_reasons() {
    let nothing = Prediction { parts: vec![], total: None, limiter: None, missing: vec![] };
    let plan = flat(TRIAD, 64 * MIB, 90, &Choose::default());
    let before = plan.reasons.len();
    let plan = plan.with_prediction(&nothing);
    assert_eq!((plan.reasons.len(), plan.reasons[before].chosen.as_str()), (before + 1, "unknown"));
}

#[test]
fn impossible_choices_are_rejected_with_a_reason() {
    let run: &[i64] = &[1];
    let refused = |choose: &Choose| planned(ADD, &[5000], &[(run, 0), (run, 0)], 90, choose).unwrap_err().to_string();
    assert!(refused(&Choose { threads: Some(33), ..Choose::default() }).contains("multiple of 32"));
    assert!(refused(&Choose { vector: Some(3), ..Choose::default() }).contains("power of two"));
    assert!(refused(&Choose { unroll: Some(0), ..Choose::default() }).contains("1 to 64"));
    assert!(refused(&Choose { form: Some(Form::Transpose), ..Choose::default() }).contains("no input is transposed"));
    assert!(refused(&Choose { form: Some(Form::Phased), ..Choose::default() }).contains("require flat"));
    for (dependent, release) in [(false, Dependent::Early), (false, Dependent::Tail), (true, Dependent::No)] {
        let choose = Choose { dependent, release: Some(release), ..Choose::default() };
        assert!(refused(&choose).starts_with(&format!("release {} is not possible", release.name())));
    }
    let rows = Choose { form: Some(Form::Rows), grid: Some(GridPolicy::Stride { waves: 1 }), ..Choose::default() };
    assert!(refused(&rows).contains("no loop"));
    let huge = Choose { index: Some(Index::U32), ..Choose::default() };
    let error = planned(ADD, &[1 << 33], &[(run, 0), (run, 0)], 80, &huge).unwrap_err();
    assert!(error.to_string().contains("31 bits"));
    let empty = planned(ADD, &[0], &[(run, 0), (run, 0)], 80, &Choose::default());
    assert_eq!(empty, Err(PlanError::Empty));
    let misaligned = planned(ADD, &[5], &[(run, 1), (run, 0)], 80, &Choose::default());
    assert_eq!(misaligned, Err(PlanError::Misaligned { tensor: 0, start: 1, bytes: 2 }));
}

#[test]
fn words_reject_other_alignments_and_reuse_their_buffer() {
    let plan = flat(TRIAD, 5000, 80, &Choose::default());
    let mut words = Vec::new();
    plan.words(&[4096, 8192, 0], &[7], &mut words).unwrap();
    assert_eq!(words[..4], [4096, 8192, 0, 7]);
    let capacity = words.capacity();
    plan.words(&[0, 8192, 32], &[8], &mut words).unwrap();
    assert_eq!((words.capacity(), words[3]), (capacity, 8));
    assert!(matches!(plan.words(&[4, 0, 0], &[7], &mut words), Err(PlanError::Phase { tensor: 0, .. })));
    assert!(matches!(plan.words(&[0, 0], &[7], &mut words), Err(PlanError::Count { .. })));
}

#[test]
fn every_candidate_is_a_valid_plan() {
    for capability in [80, 90, 100] {
        for dependent in [false, true] {
            for text in ["in x: f32\ny = x", TRIAD, BIAS] {
                let all = candidates(&graph(text), &device(capability), dependent);
                assert!(all.len() > 100);
                for choose in &all {
                    let plan = flat(text, 64 * MIB, capability, choose);
                    assert_eq!(
                        (Some(plan.spec.form), Some(plan.spec.unroll)),
                        (choose.form, choose.unroll),
                        "{choose:?}"
                    );
                    let overlaps = !matches!(plan.spec.dependent, Dependent::No | Dependent::Exit);
                    let requested = dependent && choose.release != Some(Dependent::Exit);
                    assert_eq!(overlaps, requested && capability >= 90);
                    assert_eq!(plan.spec.dependent == Dependent::No, capability < 90);
                }
            }
        }
    }
}

#[test]
fn hints_are_described_as_the_form_uses_them() {
    let description = |form, bits: u32| {
        let hints = Hints { load_no_allocate: bits & 1 != 0, store_streaming: bits & 2 != 0 };
        let choose = Choose { form: Some(form), hints: Some(hints), ..Choose::default() };
        let plan = flat(TRIAD, 64 * MIB, 90, &choose);
        plan.reasons.into_iter().find(|reason| reason.what == "hints").unwrap().chosen
    };
    assert!(description(Form::Flat, 1).contains("L1") && description(Form::Bulk, 1).contains("L2"));
    assert_eq!(
        (description(Form::Bulk, 2).as_str(), description(Form::Flat, 0).as_str()),
        ("streaming stores", "none")
    );
    let default_hints = |form| flat(TRIAD, 64 * MIB, 100, &Choose { form: Some(form), ..Choose::default() }).spec.hints;
    assert!(default_hints(Form::Flat).load_no_allocate && !default_hints(Form::Bulk).load_no_allocate);
}

#[test]
fn last_tiles_demote_the_evict_last_lines_of_bulk_copies() {
    let demoting_tiles = |hints: u32| {
        let hints = Hints { load_no_allocate: hints & 1 != 0, store_streaming: hints & 2 != 0 };
        let tile = Choose { vector: Some(4), unroll: Some(3), threads: Some(256), ..Choose::default() };
        let plan = flat(TRIAD, 64 * MIB, 90, &Choose { form: Some(Form::Bulk), hints: Some(hints), ..tile });
        plan.form_words[2]
    };
    // A quarter of 60 MiB, in tiles of 3 KiB of each input.
    assert_eq!([0, 1, 2, 3].map(demoting_tiles), [0, 2560, 0, 2560]);
}

#[test]
fn flat_kernels_ignore_the_load_hint_of_rows_for_bulk_copies() {
    let names: Vec<String> = (0..48).map(|number| format!("x{number}")).collect();
    let graph = graph(&format!("in {}: f64\ny = {}", names.join(": f64, "), names.join(" + ")));
    let table = Table::for_device("NVIDIA H200", 90);
    let planned = |elements: u64| {
        let layouts = vec![Layout::contiguous(&[elements]).unwrap(); 49];
        let indexing = Indexing::new(&graph, &Space::with_shape(&[elements], &layouts).unwrap(), &[0; 49]).unwrap();
        plan(&graph, &indexing, &device(90), &table, &Choose::default()).unwrap().spec
    };
    let class = Class { inputs: 48, ..Class::from_graph(&graph, Tier::Accurate) };
    let bytes = 49 * 8 * (64 * MIB);
    let row = table.row(Wanted { class, bytes, dependent: false, cached: false, bulk: true }).unwrap();
    assert_eq!((row.form, row.hints & 1), (Form::Bulk, 1));
    let spec = planned(64 * MIB);
    assert_eq!((spec.form, spec.hints.load_no_allocate), (Form::Flat, false));
}

#[test]
fn unmeasured_dependent_launch_uses_the_plan_of_a_plain_launch() {
    let table = Table::for_device("NVIDIA H200", 90);
    let spec = |text: &str, elements: u64, dependent: bool| {
        let graph = graph(text);
        let count = graph.inputs().len() + 1;
        let layouts = vec![Layout::contiguous(&[elements]).unwrap(); count];
        let indexing =
            Indexing::new(&graph, &Space::with_shape(&[elements], &layouts).unwrap(), &vec![0; count]).unwrap();
        let choose = Choose { dependent, ..Choose::default() };
        plan(&graph, &indexing, &device(90), &table, &choose).unwrap().spec
    };
    // A quotient of two inputs, a second function, other numbers of inputs, other types.
    let others = [
        "in x: f32, y: f32\nz = exp(-abs(1/(abs(y*x) + 0.5)))",
        "in x: f32\nz = cos(log(abs(x) + 0.5)/tanh(x))",
        "in x: f16, y: f16, z: f16\nw = x*y + z",
        "in x: f64\nz = x + 1",
    ];
    for text in others {
        for elements in [MIB / 2, 789_504, MIB, 3 * MIB, 16 * MIB, 256 * MIB] {
            let (plain, dependent) = (spec(text, elements, false), spec(text, elements, true));
            let bytes = elements * dependent.element_bytes().iter().map(|&bytes| u64::from(bytes)).sum::<u64>();
            let fits = bytes <= device(90).l2_bytes / 2;
            assert_eq!(dependent.dependent, if fits { Dependent::Tail } else { Dependent::Exit }, "{text} {elements}");
            assert_eq!(dependent.prefetch, fits, "{text} {elements}");
            // Where it overlaps, its blocks need not fit at once.
            let KernelSpec { resident, unroll, threads, .. } = plain;
            assert!(dependent.unroll == unroll || fits && dependent.unroll < unroll, "{text} {elements}");
            // Smaller blocks gain in launches that don't overlap only.
            assert!(dependent.threads == threads || fits && threads == 128, "{text} {elements}");
            let release = plain.dependent;
            let alike = KernelSpec { prefetch: plain.prefetch, resident, unroll, threads, ..dependent };
            assert_eq!(KernelSpec { dependent: release, ..alike }, plain, "{text} {elements}");
        }
    }
    let measured = spec("in x: f32, y: f32\nz = 0.5*x + y", MIB, true);
    assert_eq!((measured.form, measured.dependent), (Form::Bulk, Dependent::Early));
}
