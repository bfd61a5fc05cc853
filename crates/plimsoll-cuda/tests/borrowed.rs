//! Memory and streams of other libraries, variables and machine code of modules, as `plimsoll_gpu::Gpu` offers them.

mod common;

use std::sync::Arc;

use common::Fake;
use plimsoll_core::Fault;
use plimsoll_core::probe::Bench;
use plimsoll_cuda::{Cuda, open_with};
use plimsoll_gpu::Gpu as _;

fn open(fake: &Fake) -> Bench<Cuda> {
    open_with(&fake.order("").driver().unwrap(), 0, &fake.options(), &[]).unwrap()
}

#[test]
fn borrowed_memory_is_released_after_the_work_that_uses_it() {
    let fake = Fake::new();
    let mut bench = open(&fake);
    let device = &*bench.device();
    let stream = Cuda::stream(device);
    let own = Cuda::allocate(stream, 4096).unwrap();
    let owner = Arc::new(());
    // SAFETY: memory of the fake driver, which lives until the end of this test.
    let memory = unsafe { Cuda::borrow_memory(device, own.pointer(), 4096, Arc::clone(&owner) as _) }.unwrap();
    let span = memory.part(64, 128).unwrap();
    assert_eq!((memory.pointer(), memory.bytes(), span.pointer()), (own.pointer(), 4096, own.pointer() + 64));
    assert!(memory.part(4000, 128).is_err());
    Cuda::fill(stream, span, 7).unwrap();
    let mut bytes = [0; 128];
    Cuda::download(stream, span, &mut bytes).unwrap();
    fake.hold();
    Cuda::fill(stream, span, 8).unwrap();
    std::thread::scope(|scope| {
        let before = fake.number("fakecuda_waiting");
        let dropping = scope.spawn({
            let (context, owner) = (Arc::clone(&device.context), Arc::clone(&owner));
            move || {
                context.bind().unwrap();
                // SAFETY: as above.
                let again = unsafe {
                    plimsoll_cuda::memory::BorrowedBuffer::new(&context, span.pointer(), 64, Arc::clone(&owner) as _)
                };
                drop(owner);
                drop(again);
            }
        });
        while fake.number("fakecuda_waiting") == before && !dropping.is_finished() {
            std::thread::yield_now();
        }
        assert!(Arc::strong_count(&owner) > 2, "released while work is pending");
        fake.finish();
        dropping.join().unwrap();
    });
    assert_eq!(Arc::strong_count(&owner), 2);
    drop(memory);
    assert_eq!(Arc::strong_count(&owner), 1);
    assert!(matches!(Cuda::fill(stream, span, 0), Err(Fault::Invalid(_))), "released memory can't be used");
}

#[test]
fn a_borrowed_stream_is_used_and_kept_and_its_recording_is_seen() {
    let fake = Fake::new();
    let mut bench = open(&fake);
    let device = &*bench.device();
    device.context.bind().unwrap();
    let owner = Arc::new(());
    let borrow = |recorded| {
        // SAFETY: a stream of the fake driver, which is never destroyed.
        unsafe { Cuda::borrow_stream(device, fake.foreign_stream(recorded), Arc::clone(&owner) as _) }.unwrap()
    };
    let stream = borrow(false);
    let memory = Cuda::allocate(&stream, 64).unwrap();
    Cuda::fill(&stream, memory.whole(), 1).unwrap();
    Cuda::wait(&stream).unwrap();
    assert!(!Cuda::is_recording(&stream).unwrap());
    let recorded = borrow(true);
    assert!(Cuda::is_recording(&recorded).unwrap());
    assert!(Cuda::fill(&recorded, memory.whole(), 1).is_err(), "nothing would keep the memory for the graph");
    let own = Cuda::stream(device);
    own.begin_recording().unwrap();
    assert!(Cuda::is_recording(own).unwrap());
    own.end_recording().unwrap();
    assert!(!Cuda::is_recording(own).unwrap());
    drop((stream, recorded, memory));
    // Releasing memory that kernels read in place waits for all streams, dropped ones too.
    drop(Cuda::host_memory(own, &[0; 16]).unwrap());
    assert_eq!(Arc::strong_count(&owner), 1);
}

#[test]
fn variables_and_machine_code_of_a_module_are_found() {
    let fake = Fake::new();
    let mut bench = open(&fake);
    let device = &*bench.device();
    let module = device.kernels.load("a.cu", "", &[], &[]).unwrap();
    let function = module.function("scale").unwrap();
    let variable = Cuda::global(&function, "variable").unwrap();
    assert_eq!(variable.bytes(), 64);
    assert!(Cuda::global(&function, "missing").is_err() && Cuda::global(&function, "a\0b").is_err());
    assert!(Cuda::machine_code(&function).unwrap().starts_with(b"\x7fELF"));
    let unloaded = fake.count("cuModuleUnload");
    drop((function, module));
    assert_eq!(fake.count("cuModuleUnload"), unloaded, "the variable keeps its module");
    drop(variable);
    assert_eq!(fake.count("cuModuleUnload"), unloaded + 1);
}
