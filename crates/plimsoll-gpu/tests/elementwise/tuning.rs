//! Tuning on the stand-in: which plan wins there means nothing, but results, users' memory and stored plans must be right.

use std::slice::from_ref;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use plimsoll_expr::{DType, Layout, Names, Problem, Value, parse};
use plimsoll_gen::elementwise::Choose;
use plimsoll_gpu::Memory as _;
use plimsoll_gpu::elementwise::{Engine, Operand, Store, Subject, Tuned, Tuner};

use super::host::{Device, Host};
use super::{download, expression, operand, upload};

/// A tuner with little memory and much time, for the interpreter is slow.
fn tuner(device: &Device, engine: &Engine<Host>) -> Tuner<Host> {
    Tuner::new(engine, &device.stream).with_window(1 << 11).with_seconds(100.0)
}

fn subject(text: &str, elements: u64) -> Subject {
    let graph = parse(text, &Names::with_default(DType::F32)).unwrap();
    Subject::new(&Arc::new(Problem::flat(&graph, elements, &[]).unwrap())).unwrap()
}

fn tune(tuner: &mut Tuner<Host>, subject: &Subject) -> Tuned {
    tuner.tune(subject, &Choose::default(), &AtomicBool::new(false)).unwrap()
}

#[test]
fn tuning_leaves_the_operands_alone_and_later_calls_are_right() {
    let device = Device::new([]);
    let engine = Engine::new(&device).unwrap();
    let sum = expression(&engine, "scalar a: f32; y = a * x + y");
    let values: Vec<f32> = (0..100_u8).map(f32::from).collect();
    let (x, y) = (upload(&device, &values), upload(&device, &[1.0; 100]));
    let matrix = Layout::contiguous(&[10, 10]).unwrap();
    let inputs = [operand(&x, matrix.transposed()), operand(&y, matrix)];
    let (out, scalars) = (from_ref(&inputs[1]), [Value::Float(2.0)]);
    let run = || sum.run(&inputs, out, &scalars, &Choose::default(), &device.stream).unwrap();
    run();
    let tuned = sum
        .tune(&inputs, out, &scalars, &Choose::default(), &mut tuner(&device, &engine), &AtomicBool::new(false))
        .unwrap();
    assert!(tuned.plans > 1 && tuned.notes.is_empty(), "{tuned:?}");
    let expected =
        |times: f32| -> Vec<f32> { (0..100_u8).map(|i| 1.0 + times * 2.0 * f32::from(i % 10 * 10 + i / 10)).collect() };
    assert_eq!((download(&device, &x), download(&device, &y)), (values, expected(1.0)));
    run();
    assert_eq!(download(&device, &y), expected(2.0));
    // The call's plan is the tuned one.
    let bound = sum.bind(&inputs, out, &scalars, &Choose::default()).unwrap();
    let forced = sum.bind(&inputs, out, &scalars, &tuned.choose).unwrap();
    assert_eq!(bound.plan().unwrap().spec, forced.plan().unwrap().spec);
}

#[test]
fn tensors_at_odd_addresses_are_tuned_for_their_alignment() {
    let device = Device::new([]);
    let engine = Engine::new(&device).unwrap();
    let next = expression(&engine, "x + 1");
    let (x, y) = (upload(&device, &[2.0; 90]), upload(&device, &[0.0; 90]));
    let part = |buffer: &super::host::Buffer, first: u64| {
        let layout = Layout::strided(&[64], &[1], 2).unwrap();
        Operand::<Host>::new(buffer.part(4 * first, 4 * 70).unwrap(), DType::F32, layout)
    };
    let (input, output) = (part(&x, 1), part(&y, 5));
    let tuned = next.tune(
        from_ref(&input),
        from_ref(&output),
        &[],
        &Choose::default(),
        &mut tuner(&device, &engine),
        &AtomicBool::new(false),
    );
    assert!(tuned.unwrap().seconds.is_some());
    next.run(from_ref(&input), from_ref(&output), &[], &Choose::default(), &device.stream).unwrap();
    let expected: Vec<f32> = (0..90).map(|i| if (7..71).contains(&i) { 3.0 } else { 0.0 }).collect();
    assert_eq!(download(&device, &y), expected);
}

#[test]
fn a_result_is_stored_and_found_by_the_next_tuner() {
    let device = Device::new([]);
    let engine = Engine::new(&device).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let store = || Some(Store::new(folder.path().join("tuned")));
    let own = subject("x*y + 1", 300);
    let first = tune(&mut tuner(&device, &engine).with_store(store()), &own);
    assert!(!first.is_stored && first.plans > 1 && first.notes.is_empty(), "{first:?}");
    let again = tune(&mut tuner(&device, &engine).with_store(store()), &own);
    assert!(again.is_stored && again.choose == first.choose && again.is_other == first.is_other, "{again:?}");
    // Another size, and the same size without the folder.
    assert!(!tune(&mut tuner(&device, &engine).with_store(store()), &subject("x*y + 1", 301)).is_stored);
    assert!(!tune(&mut tuner(&device, &engine), &own).is_stored);
    // A damaged file is replaced, with a note.
    for file in std::fs::read_dir(folder.path().join("tuned")).unwrap() {
        std::fs::write(file.unwrap().path(), "{").unwrap();
    }
    let repaired = tune(&mut tuner(&device, &engine).with_store(store()), &own);
    assert!(!repaired.is_stored && repaired.notes[0].contains("is not used"), "{repaired:?}");
    assert!(tune(&mut tuner(&device, &engine).with_store(store()), &own).is_stored);
}

#[test]
fn without_a_folder_that_can_be_written_the_result_still_counts() {
    let device = Device::new([]);
    let engine = Engine::new(&device).unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    let tuned =
        tune(&mut tuner(&device, &engine).with_store(Some(Store::new(file.path().join("x")))), &subject("-x", 64));
    assert!(tuned.seconds.is_some() && tuned.notes.iter().any(|note| note.contains("is not kept in")), "{tuned:?}");
}

#[test]
fn a_search_that_is_stopped_or_too_short_changes_and_stores_nothing() {
    let device = Device::new([]);
    let engine = Engine::new(&device).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let store = || Some(Store::new(folder.path()));
    let own = subject("x + y", 500);
    let stopped = tuner(&device, &engine).with_store(store()).tune(&own, &Choose::default(), &AtomicBool::new(true));
    let short = tune(&mut tuner(&device, &engine).with_store(store()).with_seconds(0.0), &own);
    for (tuned, why) in [(stopped.unwrap(), "stopped"), (short, "time")] {
        assert!(tuned.seconds.is_none() && !tuned.is_other && tuned.notes[0].contains(why), "{tuned:?}");
        assert_eq!(tuned.choose, Choose::default());
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
