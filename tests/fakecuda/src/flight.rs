//! What streams have still to do: which memory it uses, who waits for it, and whether that memory is freed before.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::thread::ThreadId;

/// Work that isn't done. Without `held` all work is done at once.
#[derive(Debug, Default)]
pub struct Flight {
    /// What is asked from now on isn't done before `fakecuda_finish`.
    held: bool,
    /// Allocations that the work of each stream uses. A stream that was destroyed still does what it was asked.
    used: BTreeMap<usize, BTreeSet<usize>>,
    /// Events that aren't reached, with the stream that they were recorded on.
    marks: BTreeMap<usize, usize>,
    /// Streams with those whose work theirs comes after.
    after: BTreeSet<(usize, usize)>,
    /// Threads that were told that something isn't done.
    waiting: HashSet<ThreadId>,
    /// How often memory was freed that unfinished work uses.
    early: u64,
}

impl Flight {
    /// From now on nothing gets done.
    pub fn hold(&mut self) {
        self.held = true;
    }

    /// All is done that was asked, and whatever is asked is done at once again.
    pub fn finish(&mut self) {
        *self = Self { early: self.early, ..Self::default() };
    }

    /// Notes work of a stream that uses allocations.
    pub fn ask(&mut self, stream: usize, allocations: impl IntoIterator<Item = usize>) {
        if self.held {
            self.used.entry(stream).or_default().extend(allocations);
            self.after.retain(|(_, first)| *first != stream);
        }
    }

    /// Whether a stream has nothing to do. Who is told that it has will wait.
    pub fn is_done(&mut self, stream: usize) -> bool {
        let done = !self.used.contains_key(&stream);
        self.tell(done)
    }

    /// Whether an event was reached.
    pub fn is_reached(&mut self, event: usize) -> bool {
        let reached = !self.marks.contains_key(&event);
        self.tell(reached)
    }

    fn tell(&mut self, done: bool) -> bool {
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

    /// Lets a stream wait for an event, and so for all that the event's stream waits for.
    pub fn wait(&mut self, stream: usize, event: usize) {
        let Some(first) = self.marks.get(&event).copied() else { return };
        let further = self.after.iter().filter(|(waits, _)| *waits == first).map(|(_, first)| (stream, *first));
        let further: Vec<_> = further.collect();
        self.after.extend(further);
        self.after.insert((stream, first));
    }

    /// Notes that an allocation is freed, after all work of `home`, where it is freed in a stream's order, and of those before.
    pub fn free(&mut self, allocation: usize, home: Option<usize>) {
        let ordered = |stream| home.is_some_and(|home| home == stream || self.after.contains(&(home, stream)));
        let used = |(stream, used): (&usize, &BTreeSet<usize>)| used.contains(&allocation) && !ordered(*stream);
        self.early += u64::from(self.used.iter().any(used));
    }

    /// How many threads wait.
    pub fn waiting(&self) -> u64 {
        self.waiting.len() as u64
    }

    /// How often memory was freed that unfinished work uses.
    pub fn early(&self) -> u64 {
        self.early
    }
}
