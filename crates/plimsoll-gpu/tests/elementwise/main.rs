//! Expressions on the stand-in backend, whose kernels are Rust functions: here one that interprets the words of a launch and the
//! program of its expression. So the engine, its checks and `verify` run without a GPU and without anything of CUDA.
#![allow(unsafe_code)]

#[path = "../../../plimsoll-probes/tests/host/mod.rs"]
#[allow(dead_code, reason = "probes use the rest")]
mod host;
mod interpreter;
mod tuning;

use std::slice::from_ref;

use host::{Device, Host};
use interpreter::{MISTAKE, Mistake};
use plimsoll_core::probe::{Case, Depth};
use plimsoll_expr::{DType, Layout, Names, Value, parse};
use plimsoll_gen::elementwise::Choose;
use plimsoll_gpu::elementwise::{Engine, Error, Expression, Operand, verify};
use plimsoll_gpu::{Gpu as _, Memory as _};

fn expression(engine: &Engine<Host>, text: &str) -> Expression<Host> {
    engine.expression(&parse(text, &Names::with_default(DType::F32)).unwrap()).unwrap()
}

fn upload(device: &Device, values: &[f32]) -> host::Buffer {
    let buffer = Host::allocate(&device.stream, 4 * values.len() as u64).unwrap();
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    Host::upload(&device.stream, buffer.whole(), &bytes).unwrap();
    buffer
}

fn download(device: &Device, buffer: &host::Buffer) -> Vec<f32> {
    let mut bytes = vec![0; buffer.bytes() as usize];
    Host::download(&device.stream, buffer.whole(), &mut bytes).unwrap();
    bytes.chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect()
}

fn operand(buffer: &host::Buffer, layout: Layout) -> Operand<Host> {
    Operand::from_buffer(buffer, DType::F32, layout)
}

#[test]
fn an_expression_runs_on_a_backend_other_than_cuda() {
    let device = Device::new([]);
    let engine = Engine::new(&device).unwrap();
    let sum = expression(&engine, "scalar a: f32; z = a * x + y");
    let [x, y, z] = [&[1.0, 2.0, 3.0, 4.0][..], &[10.0, 20.0], &[0.0; 4]].map(|values| upload(&device, values));
    let square = Layout::contiguous(&[2, 2]).unwrap();
    // A matrix, transposed, plus a row.
    let inputs = [operand(&x, square.transposed()), operand(&y, Layout::contiguous(&[2]).unwrap())];
    let (out, choose, stream) = (operand(&z, square.clone()), Choose::default(), &device.stream);
    let run = |inputs: &[Operand<Host>], a| sum.run(inputs, from_ref(&out), &[Value::Float(a)], &choose, stream);
    run(&inputs, 2.0).unwrap();
    assert_eq!(download(&device, &z), [12.0, 26.0, 14.0, 28.0]);
    let bound = sum.bind(&inputs, from_ref(&out), &[Value::Float(-1.0)], &choose).unwrap();
    bound.enqueue(stream).unwrap();
    assert_eq!(download(&device, &z), [9.0, 17.0, 8.0, 16.0]);
    run(&inputs, 2.0).unwrap();
    Host::launch(stream, &bound.launch().unwrap()).unwrap();
    assert_eq!(download(&device, &z), [9.0, 17.0, 8.0, 16.0]);
    let error = run(&[inputs[0].clone(), operand(&y, square)], 1.0);
    assert!(matches!(error, Err(Error::Short { needed: 16, given: 8, .. })), "{error:?}");
}

/// The cases that `verify` finds wrong, and the number of all.
fn verify(mistake: Mistake) -> (Vec<Case>, usize) {
    let (mut wrong, mut count) = (Vec::new(), 0);
    let mut report = |case: Case| {
        count += 1;
        wrong.extend((!case.wrong.is_empty()).then_some(case));
    };
    MISTAKE.set(mistake);
    verify::expressions::<Host>(&Device::new([]), Depth::Small, &mut report).unwrap();
    (wrong, count)
}

#[test]
fn verify_passes_right_kernels() {
    let (wrong, count) = verify(Mistake::None);
    assert!(wrong.is_empty() && count > 200, "{count}: {wrong:#?}");
}

#[test]
fn verify_finds_kernels_that_skip_an_element_or_write_one_too_many() {
    let (wrong, count) = verify(Mistake::Skips);
    let says = |what: &str| wrong.iter().filter(|case| case.wrong.starts_with(what)).count();
    let (skipped, exceeded) = (says("element "), says("byte "));
    assert!(skipped * 4 > count && exceeded * 4 > count, "{skipped} and {exceeded} of {count}");
    assert!(wrong.iter().any(|case| case.kernel == "batch"));
}
