//! Unfinished work of streams: the memory it uses, the threads that wait for it, and early frees of that memory.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::thread::ThreadId;

/// Unfinished work. Unless `held`, all work is finished at once.
#[derive(Debug, Default)]
pub struct Flight {
    /// Work submitted from now on stays unfinished until `fakecuda_finish`.
    held: bool,
    /// Allocations used by the work of each stream. Destroying a stream doesn't cancel its work.
    used: BTreeMap<usize, BTreeSet<usize>>,
    /// Events that aren't reached, with the stream on which they were recorded.
    marks: BTreeMap<usize, usize>,
    /// Pairs of a stream and another stream that it waits for.
    after: BTreeSet<(usize, usize)>,
    /// Threads that found unfinished work.
    waiting: HashSet<ThreadId>,
    /// How often memory was freed while unfinished work used it.
    early: u64,
}

impl Flight {
    /// From now on, work stays unfinished.
    pub fn hold(&mut self) {
        self.held = true;
    }

    /// Finishes all work; from now on, work is again finished at once.
    pub fn finish(&mut self) {
        *self = Self { early: self.early, ..Self::default() };
    }

    /// Adds work to a stream that uses these allocations.
    pub fn add_work(&mut self, stream: usize, allocations: impl IntoIterator<Item = usize>) {
        if self.held {
            self.used.entry(stream).or_default().extend(allocations);
            self.after.retain(|(_, first)| *first != stream);
        }
    }

    /// True if a stream has no unfinished work; otherwise the calling thread counts as waiting.
    pub fn is_done(&mut self, stream: usize) -> bool {
        let done = !self.used.contains_key(&stream);
        self.note_waiting(done)
    }

    /// True if an event was reached; otherwise the calling thread counts as waiting.
    pub fn is_reached(&mut self, event: usize) -> bool {
        let reached = !self.marks.contains_key(&event);
        self.note_waiting(reached)
    }

    fn note_waiting(&mut self, done: bool) -> bool {
        if !done {
            self.waiting.insert(std::thread::current().id());
        }
        done
    }

    /// Records an event.
    pub fn mark(&mut self, event: usize, stream: usize) {
        self.marks.remove(&event);
        if self.used.contains_key(&stream) {
            self.marks.insert(event, stream);
        }
    }

    /// Makes a stream wait for an event, and so for all streams that the event's stream waits for.
    pub fn wait(&mut self, stream: usize, event: usize) {
        let Some(first) = self.marks.get(&event).copied() else { return };
        let further = self.after.iter().filter(|(waits, _)| *waits == first).map(|(_, first)| (stream, *first));
        let further: Vec<_> = further.collect();
        self.after.extend(further);
        self.after.insert((stream, first));
    }

    /// Notes that an allocation is freed. If it is freed in the order of the stream `home`, the free comes after all work of
    /// `home` and of the streams that `home` waits for.
    pub fn free(&mut self, allocation: usize, home: Option<usize>) {
        let ordered = |stream| home.is_some_and(|home| home == stream || self.after.contains(&(home, stream)));
        let used = |(stream, used): (&usize, &BTreeSet<usize>)| used.contains(&allocation) && !ordered(*stream);
        self.early += u64::from(self.used.iter().any(used));
    }

    /// The number of threads that wait.
    pub fn waiting(&self) -> u64 {
        self.waiting.len() as u64
    }

    /// How often memory was freed while unfinished work used it.
    pub fn early(&self) -> u64 {
        self.early
    }
}
