//! Waiting with a deadline: a tight spin while an answer may come at once, short sleeps after it, and a typed fault when
//! none comes.

use std::time::{Duration, Instant};

use plimsoll_core::Fault;

use crate::driver::{Context, DriverError, Event, Stream};

/// After this long, an answer isn't expected any more, unless the context was opened with another deadline.
pub const DEADLINE: Duration = Duration::from_secs(20);
/// How long to spin before the first sleep: what a sleep costs is small beside it.
const SPIN: Duration = Duration::from_millis(2);
/// Length of a sleep.
const NAP: Duration = Duration::from_micros(50);

/// Waits until an event is reached.
///
/// # Errors
/// [`Fault::Hung`] after the context's deadline, from when on the context is given up; else the driver's.
pub fn event(event: &Event) -> Result<(), Fault> {
    until(event.context(), "cuEventQuery", || event.is_done())
}

/// Waits until everything asked of a stream is done.
///
/// # Errors
/// Those of [`event`].
pub fn stream(stream: &Stream) -> Result<(), Fault> {
    until(stream.context(), "cuStreamQuery", || stream.is_done())
}

/// Waits until a query says so.
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
