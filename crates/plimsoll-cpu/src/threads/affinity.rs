//! Tying a thread to one CPU, with a typed reason where that is refused. Which CPU is [`crate::topology`]'s to choose.

use std::cell::RefCell;
use std::fmt;

/// Why a thread could not be tied to a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PinRefused {
    /// The CPU doesn't exist, is offline, or lies outside the container's CPU set (`EINVAL`).
    NoSuchCpu,
    /// A sandbox forbids the call (`EPERM`, `ENOSYS`).
    Forbidden,
    /// This operating system has no such call.
    Unsupported,
    /// Another error of the system call: its number.
    Os(i32),
}

impl fmt::Display for PinRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchCpu => f.write_str("the CPU is offline, absent or outside the allowed set"),
            Self::Forbidden => f.write_str("the sandbox forbids setting a thread's affinity"),
            Self::Unsupported => f.write_str("this operating system doesn't tie threads to CPUs"),
            Self::Os(code) => write!(f, "sched_setaffinity failed with error {code}"),
        }
    }
}

/// The set of CPUs that a thread may run on.
#[cfg(target_os = "linux")]
#[derive(Clone, Copy, Debug)]
struct Mask(rustix::thread::CpuSet);

#[cfg(not(target_os = "linux"))]
#[derive(Clone, Copy, Debug)]
struct Mask;

#[cfg(target_os = "linux")]
impl Mask {
    fn current() -> Option<Self> {
        rustix::thread::sched_getaffinity(None).ok().map(Self)
    }

    fn only(cpu: usize) -> Result<Self, PinRefused> {
        // A CPU set has a fixed size; beyond it the setter would panic.
        if cpu >= rustix::thread::CpuSet::MAX_CPU {
            return Err(PinRefused::NoSuchCpu);
        }
        let mut set = rustix::thread::CpuSet::new();
        set.set(cpu);
        Ok(Self(set))
    }

    fn apply(&self) -> Result<(), PinRefused> {
        use rustix::io::Errno;
        rustix::thread::sched_setaffinity(None, &self.0).map_err(|error| match error {
            Errno::INVAL => PinRefused::NoSuchCpu,
            Errno::PERM | Errno::NOSYS => PinRefused::Forbidden,
            other => PinRefused::Os(other.raw_os_error()),
        })
    }
}

#[cfg(not(target_os = "linux"))]
impl Mask {
    fn current() -> Option<Self> {
        None
    }

    fn only(_cpu: usize) -> Result<Self, PinRefused> {
        Err(PinRefused::Unsupported)
    }

    fn apply(&self) -> Result<(), PinRefused> {
        Err(PinRefused::Unsupported)
    }
}

/// CPUs that the calling thread may run on now, ascending; empty where the system doesn't say.
#[must_use]
pub fn allowed_cpus() -> Vec<usize> {
    #[cfg(target_os = "linux")]
    if let Some(Mask(set)) = Mask::current() {
        return (0..rustix::thread::CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect();
    }
    Vec::new()
}

/// Ties the calling thread to `cpu` for good.
///
/// # Errors
/// Why not; the thread then runs where it ran before.
pub fn pin(cpu: usize) -> Result<(), PinRefused> {
    Mask::only(cpu)?.apply()
}

/// The system's number for the calling thread, by which `/proc/self/task` lists it.
#[must_use]
pub fn thread_id() -> Option<u32> {
    #[cfg(target_os = "linux")]
    return u32::try_from(rustix::thread::gettid().as_raw_nonzero().get()).ok();
    #[cfg(not(target_os = "linux"))]
    return None;
}

/// What a thread's affinity was before the first of its [`Stay`]s.
struct Home {
    mask: Option<Mask>,
    stays: usize,
    on: Option<usize>,
}

thread_local! {
    static HOME: RefCell<Home> = const { RefCell::new(Home { mask: None, stays: 0, on: None }) };
}

/// A temporary tie of the calling thread to a CPU. Several may overlap in any order (teams over different CPUs): the
/// last one dropped restores the affinity that the thread had before the first.
///
/// It belongs to the thread that made it, so it isn't `Send`.
#[derive(Debug)]
pub struct Stay {
    cpu: usize,
    only_here: std::marker::PhantomData<*const ()>,
}

impl Stay {
    /// Ties the calling thread to `cpu`.
    ///
    /// # Errors
    /// Why not; the affinity is then unchanged.
    pub fn on(cpu: usize) -> Result<Self, PinRefused> {
        HOME.with_borrow_mut(|home| {
            let before = Mask::current();
            pin(cpu)?;
            if home.stays == 0 {
                home.mask = before;
            }
            home.stays += 1;
            home.on = Some(cpu);
            Ok(Self { cpu, only_here: std::marker::PhantomData })
        })
    }

    /// Ties the thread again if another stay has moved it since. Costs a system call only then.
    ///
    /// # Errors
    /// Why the CPU is no longer to be had.
    pub fn renew(&self) -> Result<(), PinRefused> {
        HOME.with_borrow_mut(|home| {
            if home.on != Some(self.cpu) {
                pin(self.cpu)?;
                home.on = Some(self.cpu);
            }
            Ok(())
        })
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        HOME.with_borrow_mut(|home| {
            home.stays -= 1;
            if home.stays == 0 {
                home.on = None;
                if let Some(mask) = home.mask.take() {
                    // Nothing better can be done here: the thread stays tied, which slows but doesn't break.
                    let _ = mask.apply();
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs `body` on a fresh thread, so that tests don't tie the test runner's.
    fn apart<R: Send + 'static>(body: impl FnOnce() -> R + Send + 'static) -> R {
        std::thread::spawn(body).join().expect("the test's thread panicked")
    }

    #[test]
    fn overlapping_stays_restore_the_first_affinity_in_any_order() {
        apart(|| {
            let before = allowed_cpus();
            let (Some(&first), Some(&last)) = (before.first(), before.last()) else {
                eprintln!("skipped: no affinity on this system");
                return;
            };
            let (Ok(a), Ok(b)) = (Stay::on(first), Stay::on(last)) else {
                eprintln!("skipped: affinity can't be set here");
                return;
            };
            assert_eq!(allowed_cpus(), [last]);
            a.renew().unwrap();
            assert_eq!(allowed_cpus(), [first]);
            drop(a);
            assert_eq!(allowed_cpus().len(), 1);
            drop(b);
            assert_eq!(allowed_cpus(), before);
        });
    }

    #[test]
    fn a_cpu_that_cannot_exist_is_a_typed_refusal() {
        apart(|| {
            let before = allowed_cpus();
            for cpu in [1023, 1 << 20, usize::MAX] {
                if before.contains(&cpu) {
                    continue;
                }
                let refused = Stay::on(cpu).unwrap_err();
                assert!(
                    matches!(refused, PinRefused::NoSuchCpu | PinRefused::Forbidden | PinRefused::Unsupported),
                    "{refused}"
                );
            }
            assert_eq!(allowed_cpus(), before);
        });
    }
}
