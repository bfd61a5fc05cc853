//! Waiting for streams when other threads act between two of our steps.

use std::path::Path;
use std::thread::{scope, sleep, yield_now};
use std::time::Duration;

use libloading::os::unix::Library;

use super::*;
use crate::driver::{DeviceHandle, Driver};
use crate::memory::{DeviceBuffer, Transfer as _};

const LONG: Duration = Duration::from_secs(60);

/// A fake driver that finishes work only when the test says so.
struct Fake(Library, Arc<Context>);

impl Fake {
    fn new(folder: &Path) -> Self {
        let path = fakecuda::driver_without(folder, &[]).unwrap();
        // SAFETY: the fake driver's initialisers do nothing.
        let library = unsafe { Library::new(&path) }.unwrap();
        let handle = DeviceHandle::new(&Driver::open(&path).unwrap(), 0).unwrap();
        Self(library, Context::new(handle, LONG).unwrap())
    }

    fn call(&self, symbol: &str) {
        // SAFETY: all symbols that are called by this function have this type.
        unsafe { self.0.get::<extern "C" fn()>(symbol.as_bytes()).unwrap()() }
    }

    /// How often the fake driver answered that work isn't done.
    fn waits(&self) -> u64 {
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

    fn wrap(&self, handle: Handle, owner: &Arc<()>) -> Stream {
        Stream::from_handle(&self.1, handle, Some(Owner(Arc::clone(owner) as _)))
    }

    /// Waits for all streams on another thread, runs `meanwhile` once that thread waits, then finishes all work. Returns whether
    /// the thread had to wait.
    fn waits_for_work(&self, meanwhile: impl FnOnce()) -> bool {
        scope(|scope| {
            let before = self.waits();
            let thread = scope.spawn(|| self.1.wait_idle());
            while !thread.is_finished() && self.waits() == before {
                yield_now();
            }
            let waited = self.waits() > before;
            meanwhile();
            self.call("fakecuda_finish");
            thread.join().unwrap().unwrap();
            waited
        })
    }
}

#[test]
fn a_stream_is_waited_for_even_if_its_recording_ends_during_the_wait() {
    let folder = tempfile::tempdir().unwrap();
    let fake = Fake::new(folder.path());
    let (context, stream) = (&fake.1, Stream::new(&fake.1).unwrap());
    let memory = DeviceBuffer::new(context, 64).unwrap();
    fake.call("fakecuda_hold");
    memory.whole().fill(&stream, 1).unwrap();
    stream.begin_recording().unwrap();
    let core = &*stream.0;
    scope(|scope| {
        let mut recording = core.recording();
        let waiting = scope.spawn(|| core.wait_idle());
        // The thread sees that the stream is recording, and blocks on the lock before it reads when the recording started.
        sleep(Duration::from_millis(50));
        let mut graph = Handle::NULL;
        // SAFETY: the stream lives; the graph's handle is written to a live variable.
        let end = || unsafe { context.call().capture_end(core.handle, &raw mut graph) };
        // Either the recording can't end now, or its start is no longer known.
        if core.gate.switch(false, Duration::from_millis(50), end).is_ok() {
            std::mem::take(&mut *recording);
        }
        drop(recording);
        while !waiting.is_finished() && fake.waits() == 0 {
            yield_now();
        }
        let waits = fake.waits() > 0;
        fake.call("fakecuda_finish");
        waiting.join().unwrap().unwrap();
        assert!(waits, "it must wait for the running work");
    });
}

#[test]
fn waiting_for_a_stream_does_not_disturb_its_recordings() {
    let folder = tempfile::tempdir().unwrap();
    let fake = Fake::new(folder.path());
    let (stream, memory) = (Stream::new(&fake.1).unwrap(), DeviceBuffer::new(&fake.1, 64).unwrap());
    fake.call("fakecuda_hold");
    memory.whole().fill(&stream, 1).unwrap();
    let recorded = || {
        stream.begin_recording().unwrap();
        // Long enough for a query of the stream.
        sleep(Duration::from_millis(20));
        stream.end_recording().map(drop).unwrap();
        sleep(Duration::from_millis(20));
    };
    assert!(fake.waits_for_work(recorded));
}

#[test]
fn a_foreign_stream_is_waited_for_after_it_is_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let fake = Fake::new(folder.path());
    let (owner, memory) = (Arc::new(()), DeviceBuffer::new(&fake.1, 64).unwrap());
    let stream = fake.wrap(fake.foreign(), &owner);
    memory.whole().fill(&stream, 1).unwrap();
    assert!(!fake.waits_for_work(|| {}));
    fake.call("fakecuda_hold");
    memory.whole().fill(&stream, 2).unwrap();
    drop(stream);
    assert_eq!(Arc::strong_count(&owner), 2, "the stream must live until it was waited for");
    assert!(fake.waits_for_work(|| {}));
    assert_eq!(Arc::strong_count(&owner), 1);
}

#[test]
fn a_foreign_stream_dropped_during_a_wait_is_waited_for_again() {
    let folder = tempfile::tempdir().unwrap();
    let fake = Fake::new(folder.path());
    let (owner, memory, handle) = (Arc::new(()), DeviceBuffer::new(&fake.1, 64).unwrap(), fake.foreign());
    fake.call("fakecuda_hold");
    memory.whole().fill(&fake.wrap(handle, &owner), 1).unwrap();
    assert!(fake.waits_for_work(|| memory.whole().fill(&fake.wrap(handle, &owner), 2).unwrap()));
    assert_eq!(Arc::strong_count(&owner), 2, "the stream must live until it was waited for");
    assert!(!fake.waits_for_work(|| {}));
    assert_eq!(Arc::strong_count(&owner), 1);
}
