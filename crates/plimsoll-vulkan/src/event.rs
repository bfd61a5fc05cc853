//! Events in a stream, with or without the device's time.

use std::fmt;
use std::sync::{Arc, Mutex};

use plimsoll_core::Fault;

use crate::core::{Core, Slot, lock};
use crate::loss::Resource;
use crate::stream::{Inner, SharedResource, Stream};

/// An event in a stream.
pub struct Event {
    core: Arc<Core>,
    timed: bool,
    mark: Mutex<Option<Mark>>,
}

/// Where the event was recorded last: the stream, the batch, and the time stamp.
#[derive(Clone)]
struct Mark {
    stream: Arc<Inner>,
    batch: u64,
    slot: Option<Arc<Slot>>,
}

impl Resource for Slot {}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event").field("timed", &self.timed).finish()
    }
}

impl Event {
    pub(crate) fn new(core: &Arc<Core>, timed: bool) -> Self {
        Self { core: Arc::clone(core), timed, mark: Mutex::new(None) }
    }

    /// Records the event at this place in the stream.
    ///
    /// # Errors
    /// [`Fault::Invalid`] if the event belongs to another device.
    pub(crate) fn record(&self, stream: &Stream) -> Result<(), Fault> {
        stream.check_device(&self.core)?;
        // A new query each time, so that the stamp of the last recording isn't disturbed.
        let slot = if self.timed { Some(Slot::new(&self.core)?) } else { None };
        let keep = slot.iter().map(|slot| Arc::clone(slot) as SharedResource);
        let batch = stream.inner().record(keep, |_, commands| {
            if let Some(slot) = &slot {
                // SAFETY: a new query of this device, written once, and kept alive by the batch.
                unsafe { slot.write(commands) };
            }
        })?;
        *lock(&self.mark) = Some(Mark { stream: Arc::clone(stream.inner()), batch, slot });
        Ok(())
    }

    /// Waits until the event is reached. Returns at once if it was never recorded.
    ///
    /// # Errors
    /// [`Fault::Hung`].
    pub(crate) fn wait(&self) -> Result<(), Fault> {
        let mark = lock(&self.mark).clone();
        mark.map_or(Ok(()), |mark| mark.stream.wait(mark.batch))
    }

    /// The device's time when the event was reached, in steps.
    fn read_ticks(&self) -> Result<u64, Fault> {
        let invalid = |why: &str| Fault::Invalid(format!("the time of an event can't be read: {why}"));
        let mark = lock(&self.mark).clone().ok_or_else(|| invalid("it was not recorded"))?;
        let slot = mark.slot.as_ref().ok_or_else(|| invalid("it has no time"))?;
        if !mark.stream.is_done(mark.batch)? {
            return Err(invalid("it was not reached"));
        }
        slot.read()
    }

    /// Nanoseconds of device time from an earlier event to this one.
    ///
    /// # Errors
    /// [`Fault::Invalid`] if one wasn't reached, they belong to different devices, or the order is wrong.
    pub(crate) fn nanoseconds_since(&self, from: &Self) -> Result<u64, Fault> {
        if !Arc::ptr_eq(&self.core, &from.core) {
            return Err(Fault::Invalid("the two events belong to different devices".to_owned()));
        }
        let steps = count_steps(from.read_ticks()?, self.read_ticks()?, self.core.bits)?;
        Ok((steps as f64 * f64::from(self.core.physical.facts.limits.timestamp_period)).round() as u64)
    }
}

/// Steps from one time stamp to a later one, with `bits` valid bits.
fn count_steps(from: u64, to: u64, bits: u32) -> Result<u64, Fault> {
    let mask = if bits >= 64 { u64::MAX } else { (1 << bits) - 1 };
    let steps = to.wrapping_sub(from) & mask;
    if steps > mask / 2 {
        return Err(Fault::Invalid("the second event is the earlier one".to_owned()));
    }
    Ok(steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_stamps_may_wrap_but_not_run_backwards() {
        assert_eq!(count_steps(5, 9, 64).unwrap(), 4);
        assert_eq!(count_steps((1 << 36) - 2, 3, 36).unwrap(), 5);
        assert_eq!(count_steps(u64::MAX, 3, 64).unwrap(), 4);
        // Invalid bits are ignored.
        assert_eq!(count_steps(0xf00_0000_0001, 0xa00_0000_0004, 36).unwrap(), 3);
        assert!(count_steps(9, 5, 64).is_err() && count_steps(9, 5, 36).is_err());
    }
}
