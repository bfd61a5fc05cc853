//! A gate that keeps calls on a stream apart from the start and end of its recording, so that no call falls between the driver's
//! switch and our note of it. Callers enter and leave by a counter and never wait for each other. A switch happens only while no
//! caller is inside; threads that are inside no gate wait for it before they enter.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Calls are recorded, not executed.
const RECORDING: u32 = 1 << 31;
/// The recording is being started or ended.
const SWITCHING: u32 = 1 << 30;
/// A thread is waiting until no caller is inside; threads that are inside no gate don't enter meanwhile.
const WAITING: u32 = 1 << 29;
const CALLERS: u32 = WAITING - 1;

thread_local! {
    /// Number of gates that this thread is inside. A thread inside a gate must not wait for a waiting one: that would deadlock.
    static INSIDE: Cell<u32> = const { Cell::new(0) };
}

/// The number of callers inside, and the three flags.
#[derive(Debug, Default)]
pub(super) struct Gate(AtomicU32);

/// Why a switch was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// Already recording (on start), or not recording (on end).
    WrongState,
    /// Other threads were always inside.
    Busy,
}

impl Gate {
    /// Enters; the caller must call [`Gate::leave`] later. Returns whether calls are being recorded.
    #[inline]
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

    #[inline]
    pub(super) fn leave(&self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
        INSIDE.set(INSIDE.get().saturating_sub(1));
    }

    pub(super) fn is_recording(&self) -> bool {
        self.0.load(Ordering::SeqCst) & RECORDING != 0
    }

    /// Waits until all callers inside have left; false if `patience` ran out.
    pub(super) fn wait_for_callers(&self, patience: Duration) -> bool {
        let start = Instant::now();
        let empty = loop {
            if self.0.fetch_or(WAITING, Ordering::SeqCst) & CALLERS == 0 {
                break true;
            }
            if start.elapsed() > patience {
                break false;
            }
            std::thread::yield_now();
        };
        self.0.fetch_and(!WAITING, Ordering::SeqCst);
        empty
    }

    /// Starts a recording with `call`, or ends one if `recording` is false, while no caller is inside. An end takes effect even if
    /// the call fails, a start only if it succeeds.
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
                _ if found & SWITCHING == 0 && found & RECORDING != from => Some(Refused::WrongState),
                _ if start.elapsed() > patience => Some(Refused::Busy),
                _ => None,
            };
            if let Some(refused) = refused {
                self.0.fetch_and(!WAITING, Ordering::SeqCst);
                return Err(refused);
            }
            std::thread::yield_now();
        }
        let result = call();
        let flags = if recording && result.is_err() { SWITCHING } else { SWITCHING | RECORDING };
        self.0.fetch_xor(flags, Ordering::SeqCst);
        Ok(result)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn no_caller_is_inside_while_a_recording_starts_or_ends() {
        let (gate, captured, stop) = (Gate::default(), AtomicBool::new(false), AtomicBool::new(false));
        let (entered, wrong) = (AtomicU32::new(0), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        let recording = gate.enter();
                        let truth = captured.load(Ordering::Relaxed);
                        // A thread inside may enter again even while another waits.
                        let again = gate.enter();
                        std::thread::yield_now();
                        let same = (recording, again, captured.load(Ordering::Relaxed)) == (truth, truth, truth);
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
                answers.push(gate.switch(true, LONG, || set(true)) == Err(Refused::WrongState));
                answers.push(gate.switch(false, LONG, || set(false)) == Ok(Ok(())));
            }
            stop.store(true, Ordering::Relaxed);
            assert!(answers.iter().all(|right| *right));
        });
        assert_eq!(wrong.into_inner(), 0);
        assert!(!gate.is_recording() && gate.wait_for_callers(Duration::ZERO));
    }

    #[test]
    fn waiting_for_callers_ends_after_the_given_patience() {
        let gate = Gate::default();
        gate.enter();
        assert_eq!(gate.switch(true, Duration::ZERO, || Ok::<_, ()>(())), Err(Refused::Busy));
        assert!(!gate.wait_for_callers(Duration::ZERO));
        gate.leave();
        assert_eq!(gate.switch(true, LONG, || Err::<(), _>("refused")), Ok(Err("refused")));
        assert!(!gate.is_recording());
    }
}
