//! Pinning a thread to one CPU, with a typed reason if that is refused. [`crate::topology`] chooses the CPU.

use std::cell::RefCell;
use std::fmt;

/// Why a thread could not be pinned to a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PinRefused {
    /// The CPU doesn't exist, is offline, or lies outside the container's CPU set (`EINVAL`).
    NoSuchCpu,
    /// A sandbox forbids the call (`EPERM`, `ENOSYS`).
    Forbidden,
    /// This operating system has no such call.
    Unsupported,
    /// Another error number of the system call.
    Os(i32),
}

impl fmt::Display for PinRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchCpu => f.write_str("the CPU is offline, absent or outside the allowed set"),
            Self::Forbidden => f.write_str("the sandbox forbids setting a thread's affinity"),
            Self::Unsupported => f.write_str("this operating system can't pin threads to CPUs"),
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

    fn from_cpu(cpu: usize) -> Result<Self, PinRefused> {
        // A CPU set has a fixed size; `set` would panic beyond it.
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

    fn from_cpu(_cpu: usize) -> Result<Self, PinRefused> {
        Err(PinRefused::Unsupported)
    }

    fn apply(&self) -> Result<(), PinRefused> {
        Err(PinRefused::Unsupported)
    }
}

/// CPUs that the calling thread may run on now, ascending; empty if the system doesn't report them.
#[must_use]
pub fn allowed_cpus() -> Vec<usize> {
    #[cfg(target_os = "linux")]
    if let Some(Mask(set)) = Mask::current() {
        return (0..rustix::thread::CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect();
    }
    Vec::new()
}

/// Pins the calling thread to `cpu` permanently. On an error, its affinity is unchanged.
pub fn pin(cpu: usize) -> Result<(), PinRefused> {
    Mask::from_cpu(cpu)?.apply()
}

/// The system's number for the calling thread, as in `/proc/self/task`.
#[must_use]
pub fn thread_id() -> Option<u32> {
    #[cfg(target_os = "linux")]
    return u32::try_from(rustix::thread::gettid().as_raw_nonzero().get()).ok();
    #[cfg(not(target_os = "linux"))]
    return None;
}

/// A thread's affinity before its first [`PinGuard`], the number of its guards, and the CPU that it is pinned to.
struct Original {
    mask: Option<Mask>,
    guards: usize,
    cpu: Option<usize>,
}

thread_local! {
    static ORIGINAL: RefCell<Original> = const { RefCell::new(Original { mask: None, guards: 0, cpu: None }) };
}

/// Pins the calling thread to a CPU until it is dropped. Several may overlap in any order (teams over different CPUs): the
/// last one dropped restores the affinity that the thread had before the first.
///
/// It belongs to the thread that made it, so it isn't `Send`.
#[derive(Debug)]
pub struct PinGuard {
    cpu: usize,
    only_here: std::marker::PhantomData<*const ()>,
}

impl PinGuard {
    /// Pins the calling thread to `cpu`. On an error, its affinity is unchanged.
    pub fn pin_to(cpu: usize) -> Result<Self, PinRefused> {
        ORIGINAL.with_borrow_mut(|original| {
            let before = Mask::current();
            pin(cpu)?;
            if original.guards == 0 {
                original.mask = before;
            }
            original.guards += 1;
            original.cpu = Some(cpu);
            Ok(Self { cpu, only_here: std::marker::PhantomData })
        })
    }

    /// Pins the thread again if another guard has moved it since. Costs a system call only then.
    pub fn renew(&self) -> Result<(), PinRefused> {
        ORIGINAL.with_borrow_mut(|original| {
            if original.cpu != Some(self.cpu) {
                pin(self.cpu)?;
                original.cpu = Some(self.cpu);
            }
            Ok(())
        })
    }
}

impl Drop for PinGuard {
    fn drop(&mut self) {
        ORIGINAL.with_borrow_mut(|original| {
            original.guards -= 1;
            if original.guards == 0 {
                original.cpu = None;
                if let Some(mask) = original.mask.take() {
                    // An error can't be handled here: the thread then stays pinned, which is slow but correct.
                    let _ = mask.apply();
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs `body` on a new thread, so that tests don't pin the test runner's.
    fn run_on_new_thread<R: Send + 'static>(body: impl FnOnce() -> R + Send + 'static) -> R {
        std::thread::spawn(body).join().expect("the test's thread panicked")
    }

    #[test]
    fn overlapping_guards_restore_the_first_affinity_in_any_order() {
        run_on_new_thread(|| {
            let before = allowed_cpus();
            let (Some(&first), Some(&last)) = (before.first(), before.last()) else {
                eprintln!("skipped: this system doesn't report affinity");
                return;
            };
            let (Ok(a), Ok(b)) = (PinGuard::pin_to(first), PinGuard::pin_to(last)) else {
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
    fn pinning_to_an_impossible_cpu_returns_a_typed_error() {
        run_on_new_thread(|| {
            let before = allowed_cpus();
            for cpu in [1023, 1 << 20, usize::MAX] {
                if before.contains(&cpu) {
                    continue;
                }
                let refused = PinGuard::pin_to(cpu).unwrap_err();
                assert!(
                    matches!(refused, PinRefused::NoSuchCpu | PinRefused::Forbidden | PinRefused::Unsupported),
                    "{refused}"
                );
            }
            assert_eq!(allowed_cpus(), before);
        });
    }
}
