//! A thread that makes a library's calls, so that a call that never returns doesn't stop the caller.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::Duration;

use plimsoll_core::Fault;

type Job = Box<dyn FnOnce() + Send>;

/// The thread, and whether a call didn't return in time. Dropping it ends the thread after the jobs that it has.
#[derive(Debug)]
pub(super) struct Worker {
    jobs: Sender<Job>,
    stuck: AtomicBool,
}

impl Worker {
    /// Starts the thread.
    ///
    /// # Errors
    /// [`Fault::Invalid`] if the system grants no further thread.
    pub(super) fn start(name: &str) -> Result<Self, Fault> {
        let (jobs, received) = mpsc::channel::<Job>();
        let thread = std::thread::Builder::new().name(name.to_owned());
        let run = move || received.into_iter().for_each(|job| job());
        thread.spawn(run).map_err(|error| Fault::Invalid(format!("no thread for the calls of {name}: {error}")))?;
        Ok(Self { jobs, stuck: AtomicBool::new(false) })
    }

    /// Runs a job on the thread and returns its result. A job that is given up keeps what it owns; its result is dropped on the
    /// thread if it ends after all.
    ///
    /// # Errors
    /// [`Fault::Hung`] if it doesn't end within `deadline`, or an earlier one didn't; [`Fault::Panicked`].
    pub(super) fn run<T: Send + 'static>(
        &self,
        (call, deadline): (&'static str, Duration),
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Fault> {
        let hung = || Fault::Hung { call, seconds: deadline.as_secs_f64() };
        if self.stuck.load(Ordering::Relaxed) {
            return Err(hung());
        }
        let panicked = || Fault::Panicked(format!("the thread that makes the call {call} ended"));
        let (answer, result) = mpsc::sync_channel(1);
        let job: Job = Box::new(move || {
            // Nobody receives the result of a job that was given up.
            let _ = answer.try_send(job());
        });
        self.jobs.send(job).map_err(|_| panicked())?;
        match result.recv_timeout(deadline) {
            Ok(result) => Ok(result),
            Err(RecvTimeoutError::Timeout) => {
                self.stuck.store(true, Ordering::Relaxed);
                Err(hung())
            }
            Err(RecvTimeoutError::Disconnected) => Err(panicked()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(20);
    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn jobs_run_in_order_and_return_their_results() {
        let worker = Worker::start("test").unwrap();
        let sums: Vec<u32> = (0..10).map(|x| worker.run(("add", LONG), move || x + 1).unwrap()).collect();
        assert_eq!(sums, (1..11).collect::<Vec<_>>());
    }

    #[test]
    fn a_job_that_does_not_end_is_given_up_and_so_are_later_ones() {
        let worker = Worker::start("test").unwrap();
        let (release, held) = mpsc::channel::<()>();
        let ended = worker.run(("hang", SHORT), move || {
            let _ = held.recv();
        });
        assert!(matches!(ended, Err(Fault::Hung { call: "hang", .. })), "{ended:?}");
        assert!(matches!(worker.run(("next", LONG), || ()), Err(Fault::Hung { call: "next", .. })));
        drop(release);
    }

    #[test]
    fn a_job_that_panics_is_a_fault() {
        let worker = Worker::start("test").unwrap();
        let ended = worker.run(("fail", LONG), || panic!("on purpose"));
        assert!(matches!(ended, Err::<(), _>(Fault::Panicked(_))), "{ended:?}");
        assert!(matches!(worker.run(("next", LONG), || ()), Err(Fault::Panicked(_))));
    }
}
