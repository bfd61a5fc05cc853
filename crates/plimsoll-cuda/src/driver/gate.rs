//! Who is asking something of a stream while another thread begins or ends its recording: no call is slipped in between the
//! driver's switch and our note of it. Callers count themselves in and out, and never wait for each other; who switches does so
//! while nobody is counted in, and callers wait for that one driver call.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// What is asked is recorded and not done.
const RECORDING: u32 = 1 << 31;
/// The recording begins or ends.
const SWITCHING: u32 = 1 << 30;

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
        loop {
            let before = self.0.fetch_add(1, Ordering::SeqCst);
            if before & SWITCHING == 0 {
                return before & RECORDING != 0;
            }
            self.leave();
            std::thread::yield_now();
        }
    }

    pub(super) fn leave(&self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }

    pub(super) fn is_recording(&self) -> bool {
        self.0.load(Ordering::SeqCst) & RECORDING != 0
    }

    /// Waits until everybody who is inside by now has left.
    pub(super) fn pass(&self, patience: Duration) -> bool {
        let start = Instant::now();
        while self.0.load(Ordering::SeqCst) & !(RECORDING | SWITCHING) != 0 {
            if start.elapsed() > patience {
                return false;
            }
            std::thread::yield_now();
        }
        true
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
        while let Err(found) = self.0.compare_exchange(from, from | SWITCHING, Ordering::SeqCst, Ordering::SeqCst) {
            if found & SWITCHING == 0 && found & RECORDING != from {
                return Err(Refused::Already);
            }
            if start.elapsed() > patience {
                return Err(Refused::Busy);
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
        let entered = AtomicU32::new(0);
        std::thread::scope(|scope| {
            let callers: Vec<_> = (0..3)
                .map(|_| {
                    scope.spawn(|| {
                        while !stop.load(Ordering::Relaxed) {
                            let told = gate.enter();
                            let truth = captured.load(Ordering::Relaxed);
                            std::thread::yield_now();
                            assert_eq!((told, captured.load(Ordering::Relaxed)), (truth, truth));
                            gate.leave();
                            entered.fetch_add(1, Ordering::Relaxed);
                        }
                    })
                })
                .collect();
            let mut switches = 0;
            while switches < 200 || entered.load(Ordering::Relaxed) < 200 {
                switches += 1;
                let set = |to| {
                    captured.store(to, Ordering::Relaxed);
                    Ok::<_, ()>(())
                };
                assert_eq!(gate.switch(true, LONG, || set(true)), Ok(Ok(())));
                assert_eq!(gate.switch(true, LONG, || set(true)), Err(Refused::Already));
                assert_eq!(gate.switch(false, LONG, || set(false)), Ok(Ok(())));
            }
            stop.store(true, Ordering::Relaxed);
            callers.into_iter().for_each(|caller| caller.join().unwrap());
        });
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
