//! Waiting with a deadline: spins at first, then polls with short sleeps, and returns a typed fault at the deadline.

use std::time::{Duration, Instant};

use plimsoll_core::Fault;

use crate::driver::{Context, DriverError, Event, Stream};

/// Longest wait, unless the context was opened with another deadline.
pub const DEADLINE: Duration = Duration::from_secs(20);
/// How long to spin before the first sleep: long enough that the overhead of a sleep is small in comparison.
const SPIN: Duration = Duration::from_millis(2);
/// Length of a sleep.
const NAP: Duration = Duration::from_micros(50);

/// Waits until an event is reached.
///
/// # Errors
/// [`Fault::Hung`] after the context's deadline; the context is given up from then on.
pub fn event(event: &Event) -> Result<(), Fault> {
    until(event.context(), "cuEventQuery", || event.is_done())
}

/// Waits until all work submitted to a stream is done.
///
/// # Errors
/// Those of [`event`].
pub fn stream(stream: &Stream) -> Result<(), Fault> {
    until(stream.context(), "cuStreamQuery", || stream.is_done())
}

/// Polls `done` until it returns true.
pub(crate) fn until(
    context: &Context,
    call: &'static str,
    mut done: impl FnMut() -> Result<bool, DriverError>,
) -> Result<(), Fault> {
    if context.is_given_up() {
        return Err(Fault::DeviceLost { call, why: "given up after an earlier fault".to_owned() });
    }
    let (start, deadline) = (Instant::now(), context.deadline());
    while !done()? {
        let waited = start.elapsed();
        if waited >= deadline {
            context.give_up();
            return Err(Fault::Hung { call, seconds: deadline.as_secs_f64() });
        }
        if waited < SPIN { std::hint::spin_loop() } else { std::thread::sleep(NAP) }
    }
    Ok(())
}
