//! Who is asking something of a stream while another thread begins or ends its recording: no call is slipped in between the
//! driver's switch and our note of it. Callers count themselves in and out, and never wait for each other; who switches does so
//! while nobody is counted in, and callers who aren't inside of anything yet wait for that.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// What is asked is recorded and not done.
const RECORDING: u32 = 1 << 31;
/// The recording begins or ends.
const SWITCHING: u32 = 1 << 30;
/// Somebody waits until nobody is inside: whoever isn't inside of any gate waits for that.
const WAITING: u32 = 1 << 29;
const CALLERS: u32 = WAITING - 1;

thread_local! {
    /// Gates that this thread is inside of: one who is must not wait, or it would be waited for in turn.
    static INSIDE: Cell<u32> = const { Cell::new(0) };
}

/// Callers that are inside, and the two marks.
#[derive(Debug, Default)]
pub(super) struct Gate(AtomicU32);

/// Why a switch isn't made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// It is recorded already, or not at all.
    Already,
    /// Other threads were always inside.
    Busy,
}

impl Gate {
    /// Counts the caller in, who must call [`Gate::leave`]. Whether what it asks is recorded.
    pub(super) fn enter(&self) -> bool {
        let inside = INSIDE.get();
        let closed = if inside > 0 { SWITCHING } else { SWITCHING | WAITING };
        loop {
            let before = self.0.fetch_add(1, Ordering::SeqCst);
            if before & closed == 0 {
                INSIDE.set(inside + 1);
                return before & RECORDING != 0;
            }
            self.0.fetch_sub(1, Ordering::SeqCst);
            std::thread::yield_now();
        }
    }

    pub(super) fn leave(&self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
        INSIDE.set(INSIDE.get().saturating_sub(1));
    }

    pub(super) fn is_recording(&self) -> bool {
        self.0.load(Ordering::SeqCst) & RECORDING != 0
    }

    /// Waits until everybody who is inside by now has left.
    pub(super) fn pass(&self, patience: Duration) -> bool {
        let start = Instant::now();
        let passed = loop {
            if self.0.fetch_or(WAITING, Ordering::SeqCst) & CALLERS == 0 {
                break true;
            }
            if start.elapsed() > patience {
                break false;
            }
            std::thread::yield_now();
        };
        self.0.fetch_and(!WAITING, Ordering::SeqCst);
        passed
    }

    /// Begins a recording by `call` (or ends one, with `recording` false) while nobody is inside. Ending takes effect whatever
    /// the call answers; beginning only where it succeeds.
    pub(super) fn switch<T, E>(
        &self,
        recording: bool,
        patience: Duration,
        call: impl FnOnce() -> Result<T, E>,
    ) -> Result<Result<T, E>, Refused> {
        let (from, start) = (if recording { 0 } else { RECORDING }, Instant::now());
        loop {
            self.0.fetch_or(WAITING, Ordering::SeqCst);
            let (empty, taken) = (from | WAITING, from | SWITCHING);
            let Err(found) = self.0.compare_exchange(empty, taken, Ordering::SeqCst, Ordering::SeqCst) else { break };
            let refused = match found {
                _ if found & SWITCHING == 0 && found & RECORDING != from => Some(Refused::Already),
                _ if start.elapsed() > patience => Some(Refused::Busy),
                _ => None,
            };
            if let Some(refused) = refused {
                self.0.fetch_and(!WAITING, Ordering::SeqCst);
                return Err(refused);
            }
            std::thread::yield_now();
        }
        let answer = call();
        let marks = if recording && answer.is_err() { SWITCHING } else { SWITCHING | RECORDING };
        self.0.fetch_xor(marks, Ordering::SeqCst);
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn nobody_is_inside_while_a_recording_begins_or_ends() {
        let (gate, captured, stop) = (Gate::default(), AtomicBool::new(false), AtomicBool::new(false));
        let (entered, wrong) = (AtomicU32::new(0), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        let told = gate.enter();
                        let truth = captured.load(Ordering::Relaxed);
                        // One who is inside may enter again, whoever waits.
                        let again = gate.enter();
                        std::thread::yield_now();
                        let same = (told, again, captured.load(Ordering::Relaxed)) == (truth, truth, truth);
                        wrong.fetch_add(u32::from(!same), Ordering::Relaxed);
                        gate.leave();
                        gate.leave();
                        entered.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            let set = |to| {
                captured.store(to, Ordering::Relaxed);
                Ok::<_, ()>(())
            };
            let mut answers = Vec::new();
            while answers.len() < 150 || entered.load(Ordering::Relaxed) < 50 {
                answers.push(gate.switch(true, LONG, || set(true)) == Ok(Ok(())));
                answers.push(gate.switch(true, LONG, || set(true)) == Err(Refused::Already));
                answers.push(gate.switch(false, LONG, || set(false)) == Ok(Ok(())));
            }
            stop.store(true, Ordering::Relaxed);
            assert!(answers.iter().all(|right| *right));
        });
        assert_eq!(wrong.into_inner(), 0);
        assert!(!gate.is_recording() && gate.pass(Duration::ZERO));
    }

    #[test]
    fn who_is_inside_is_not_waited_for_without_end() {
        let gate = Gate::default();
        gate.enter();
        assert_eq!(gate.switch(true, Duration::ZERO, || Ok::<_, ()>(())), Err(Refused::Busy));
        assert!(!gate.pass(Duration::ZERO));
        gate.leave();
        assert_eq!(gate.switch(true, LONG, || Err::<(), _>("refused")), Ok(Err("refused")));
        assert!(!gate.is_recording());
    }
}
