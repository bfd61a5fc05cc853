//! Marks in a stream's work: their order, and the device's time where they have one.

use std::fmt;
use std::sync::{Arc, Mutex};

use plimsoll_core::Fault;

use crate::core::{Core, Slot, lock};
use crate::loss::Held;
use crate::stream::{Inner, Keep, Stream};

/// A mark in a stream's work.
pub struct Event {
    core: Arc<Core>,
    timed: bool,
    mark: Mutex<Option<Mark>>,
}

/// Where it was set last: the stream, the batch, and the time stamp.
#[derive(Clone)]
struct Mark {
    stream: Arc<Inner>,
    batch: u64,
    slot: Option<Arc<Slot>>,
}

impl Held for Slot {}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event").field("timed", &self.timed).finish()
    }
}

impl Event {
    pub(crate) fn new(core: &Arc<Core>, timed: bool) -> Self {
        Self { core: Arc::clone(core), timed, mark: Mutex::new(None) }
    }

    /// Sets the mark here.
    ///
    /// # Errors
    /// [`Fault::Invalid`] where it is another device's; the driver's.
    pub(crate) fn record(&self, stream: &Stream) -> Result<(), Fault> {
        stream.owns(&self.core)?;
        // A place of its own each time: what was read or is pending of the last stays as it is.
        let slot = if self.timed { Some(Slot::new(&self.core)?) } else { None };
        let keep = slot.iter().map(|slot| Arc::clone(slot) as Keep);
        let batch = stream.inner().record(keep, |_, commands| {
            if let Some(slot) = &slot {
                // SAFETY: a new place of this device, written once, which the batch holds.
                unsafe { slot.write(commands) };
            }
        })?;
        *lock(&self.mark) = Some(Mark { stream: Arc::clone(stream.inner()), batch, slot });
        Ok(())
    }

    /// Waits until it is reached; at once where it was never set.
    ///
    /// # Errors
    /// [`Fault::Hung`]; the driver's.
    pub(crate) fn wait(&self) -> Result<(), Fault> {
        let mark = lock(&self.mark).clone();
        mark.map_or(Ok(()), |mark| mark.stream.wait(mark.batch))
    }

    /// The device's time when it was reached, in steps.
    fn ticks(&self) -> Result<u64, Fault> {
        let invalid = |why: &str| Fault::Invalid(format!("a mark's time is asked that {why}"));
        let mark = lock(&self.mark).clone().ok_or_else(|| invalid("was not set"))?;
        let slot = mark.slot.as_ref().ok_or_else(|| invalid("has none"))?;
        if !mark.stream.is_done(mark.batch)? {
            return Err(invalid("was not reached"));
        }
        slot.read()
    }

    /// Nanoseconds of the device from an earlier mark to this one.
    ///
    /// # Errors
    /// [`Fault::Invalid`] where one wasn't reached, is another device's, or the order is wrong; the driver's.
    pub(crate) fn nanoseconds_since(&self, from: &Self) -> Result<u64, Fault> {
        if !Arc::ptr_eq(&self.core, &from.core) {
            return Err(Fault::Invalid("two marks are of different devices".to_owned()));
        }
        let steps = steps(from.ticks()?, self.ticks()?, self.core.bits)?;
        Ok((steps as f64 * f64::from(self.core.physical.facts.limits.timestamp_period)).round() as u64)
    }
}

/// Steps from one time stamp to a later one, of which so many bits count.
fn steps(from: u64, to: u64, bits: u32) -> Result<u64, Fault> {
    let mask = if bits >= 64 { u64::MAX } else { (1 << bits) - 1 };
    let steps = to.wrapping_sub(from) & mask;
    if steps > mask / 2 {
        return Err(Fault::Invalid("the second mark is the earlier one".to_owned()));
    }
    Ok(steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_stamps_wrap_and_never_run_backwards() {
        assert_eq!(steps(5, 9, 64).unwrap(), 4);
        assert_eq!(steps((1 << 36) - 2, 3, 36).unwrap(), 5);
        assert_eq!(steps(u64::MAX, 3, 64).unwrap(), 4);
        // Bits that don't count are noise.
        assert_eq!(steps(0xf00_0000_0001, 0xa00_0000_0004, 36).unwrap(), 3);
        assert!(steps(9, 5, 64).is_err() && steps(9, 5, 36).is_err());
    }
}
