//! Which streams are waited for, where that depends on what happens between two steps of ours.

use std::path::Path;
use std::thread::{scope, sleep, yield_now};
use std::time::Duration;

use libloading::os::unix::Library;

use super::*;
use crate::driver::{DeviceHandle, Driver};
use crate::memory::{DeviceBuffer, Transfer as _};

const LONG: Duration = Duration::from_secs(60);

/// A stand-in for the driver that finishes work only when the test says so.
struct Fake(Library, Arc<Context>);

impl Fake {
    fn new(folder: &Path) -> Self {
        let path = fakecuda::without(folder, &[]).unwrap();
        // SAFETY: the stand-in's initialisers do nothing.
        let library = unsafe { Library::new(&path) }.unwrap();
        let handle = DeviceHandle::new(&Driver::open(&path).unwrap(), 0).unwrap();
        Self(library, Context::new(handle, LONG).unwrap())
    }

    fn tell(&self, symbol: &str) {
        // SAFETY: all symbols that are told have this type.
        unsafe { self.0.get::<extern "C" fn()>(symbol.as_bytes()).unwrap()() }
    }

    fn waiting(&self) -> u64 {
        // SAFETY: the symbol has this type.
        unsafe { self.0.get::<extern "C" fn() -> u64>(b"fakecuda_waiting").unwrap()() }
    }

    /// The handle of a stream of another library.
    fn foreign(&self) -> Handle {
        let mut handle = Handle::NULL;
        // SAFETY: the handle is written to a live variable; the context is current on this thread, which made it.
        unsafe { self.1.call().stream_create(&raw mut handle, NON_BLOCKING) }.unwrap();
        handle
    }

    fn lent(&self, handle: Handle, owner: &Arc<()>) -> Stream {
        Stream::of_handle(&self.1, handle, Some(Owner(Arc::clone(owner) as _)))
    }

    /// Waits for all streams on another thread, and does `meanwhile` once that waits; then all work is done. Whether it waited.
    fn settles(&self, meanwhile: impl FnOnce()) -> bool {
        scope(|scope| {
            let before = self.waiting();
            let thread = scope.spawn(|| self.1.settle());
            while !thread.is_finished() && self.waiting() == before {
                yield_now();
            }
            let waited = self.waiting() > before;
            meanwhile();
            self.tell("fakecuda_finish");
            thread.join().unwrap().unwrap();
            waited
        })
    }
}

#[test]
fn a_stream_whose_recording_ends_meanwhile_is_waited_for_all_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let fake = Fake::new(folder.path());
    let (context, stream) = (&fake.1, Stream::new(&fake.1).unwrap());
    let memory = DeviceBuffer::new(context, 64).unwrap();
    fake.tell("fakecuda_hold");
    memory.whole().fill(&stream, 1).unwrap();
    stream.record().unwrap();
    let core = &*stream.0;
    scope(|scope| {
        let mut recording = core.recording();
        let settling = scope.spawn(|| core.settle());
        // It finds the stream being recorded, and stops where it would look since when.
        sleep(Duration::from_millis(50));
        let mut graph = Handle::NULL;
        // SAFETY: the stream lives; the graph's handle is written to a live variable.
        let end = || unsafe { context.call().capture_end(core.handle, &raw mut graph) };
        // Either it can't end now, or nothing tells any more since when it lasted.
        if core.gate.switch(false, Duration::from_millis(50), end).is_ok() {
            std::mem::take(&mut *recording);
        }
        drop(recording);
        while !settling.is_finished() && fake.waiting() == 0 {
            yield_now();
        }
        let waits = fake.waiting() > 0;
        fake.tell("fakecuda_finish");
        settling.join().unwrap().unwrap();
        assert!(waits, "work was under way");
    });
}

#[test]
fn a_recording_begins_and_ends_undisturbed_while_its_stream_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let fake = Fake::new(folder.path());
    let (stream, memory) = (Stream::new(&fake.1).unwrap(), DeviceBuffer::new(&fake.1, 64).unwrap());
    fake.tell("fakecuda_hold");
    memory.whole().fill(&stream, 1).unwrap();
    let recorded = || {
        stream.record().unwrap();
        // Long enough for a look at the stream.
        sleep(Duration::from_millis(20));
        stream.recorded().map(drop).unwrap();
        sleep(Duration::from_millis(20));
    };
    assert!(fake.settles(recorded));
}

#[test]
fn a_stream_of_another_library_is_waited_for_after_all_that_it_was_ever_asked() {
    let folder = tempfile::tempdir().unwrap();
    let fake = Fake::new(folder.path());
    let (owner, memory) = (Arc::new(()), DeviceBuffer::new(&fake.1, 64).unwrap());
    let stream = fake.lent(fake.foreign(), &owner);
    memory.whole().fill(&stream, 1).unwrap();
    assert!(!fake.settles(|| {}));
    fake.tell("fakecuda_hold");
    memory.whole().fill(&stream, 2).unwrap();
    drop(stream);
    assert_eq!(Arc::strong_count(&owner), 2, "it lives until it was waited for");
    assert!(fake.settles(|| {}));
    assert_eq!(Arc::strong_count(&owner), 1);
}

#[test]
fn a_stream_of_another_library_that_is_let_go_of_while_it_is_waited_for_is_waited_for_once_more() {
    let folder = tempfile::tempdir().unwrap();
    let fake = Fake::new(folder.path());
    let (owner, memory, handle) = (Arc::new(()), DeviceBuffer::new(&fake.1, 64).unwrap(), fake.foreign());
    fake.tell("fakecuda_hold");
    memory.whole().fill(&fake.lent(handle, &owner), 1).unwrap();
    assert!(fake.settles(|| memory.whole().fill(&fake.lent(handle, &owner), 2).unwrap()));
    assert_eq!(Arc::strong_count(&owner), 2, "it lives until it was waited for");
    assert!(!fake.settles(|| {}));
    assert_eq!(Arc::strong_count(&owner), 1);
}
