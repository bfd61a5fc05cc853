//! Calls in a forked process, which has none of the parent's helpers, and where other threads' locks stay locked.
#![cfg(target_os = "linux")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use plimsoll_cpu::elementwise::{Cpu, Kernel};
use plimsoll_expr::{In, trace};

unsafe extern "C" {
    fn fork() -> i32;
    fn waitpid(process: i32, status: *mut i32, options: i32) -> i32;
    fn kill(process: i32, signal: i32) -> i32;
    fn _exit(status: i32) -> !;
}

/// Waits without blocking.
const WNOHANG: i32 = 1;
const SIGKILL: i32 = 9;
/// Large enough for helpers, even if there is only one core.
const LARGE: usize = 700_003;

type Add = Kernel<(In<f32>, In<f32>), plimsoll_expr::trace::Expr<f32>>;

/// Whether calls with and without helpers are right.
fn is_right(add: &Add, x: &[f32], out: &mut [f32]) -> bool {
    [LARGE, 100].into_iter().all(|length| {
        let out = &mut out[..length];
        out.fill(-1.0);
        add.run(&x[..length], &x[..length], &mut *out).is_ok() && out.iter().zip(x).all(|(out, x)| *out == 2.0 * x)
    })
}

/// Forks; the child runs calls. Whether they were right and ended in time.
fn child_is_right(add: &Add, x: &[f32], out: &mut [f32]) -> bool {
    // SAFETY: the child only runs calls, without a lock of the test's, and then exits without running destructors.
    let child = unsafe { fork() };
    if child == 0 {
        let right = is_right(add, x, out) && is_right(add, x, out);
        // SAFETY: it has no precondition.
        unsafe { _exit(i32::from(!right)) };
    }
    assert!(child > 0, "fork failed");
    let begin = Instant::now();
    let mut status = 0;
    // SAFETY: `status` is writable; the child is this process's own.
    while unsafe { waitpid(child, &raw mut status, WNOHANG) } == 0 {
        if begin.elapsed() > Duration::from_secs(60) {
            // SAFETY: as above.
            unsafe { kill(child, SIGKILL) };
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    status == 0
}

#[test]
fn forked_processes_start_their_own_helpers_and_never_wait_for_the_parents() {
    let cpu = Cpu::builder().threads(2).build().expect("processors");
    let add = cpu.compile(&trace(|x: In<f32>, y: In<f32>| x + y).expect("an expression")).expect("a kernel");
    let x: Vec<f32> = (0..LARGE).map(|i| (i % 1000) as f32).collect();
    let mut out = vec![0.0; LARGE];
    assert!(is_right(&add, &x, &mut out));
    assert!(child_is_right(&add, &x, &mut out));
    assert!(is_right(&add, &x, &mut out), "the parent keeps its helpers");

    // Fork while other threads are inside calls of the same kernel.
    let stop = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut out = vec![0.0; LARGE];
                while !stop.load(Ordering::Relaxed) {
                    assert!(is_right(&add, &x, &mut out));
                }
            });
        }
        let right = (0..20).all(|_| child_is_right(&add, &x, &mut out));
        stop.store(true, Ordering::Relaxed);
        assert!(right);
    });
}
