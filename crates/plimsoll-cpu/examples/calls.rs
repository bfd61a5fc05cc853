//! The time of typed calls by size, on the caller's thread and on all cores: nanoseconds per call, back to back and after pauses
//! in which the other threads parked.

use std::time::{Duration, Instant};

use plimsoll_cpu::elementwise::Cpu;
use plimsoll_expr::{In, Scalar, trace};

/// Longer than idle threads spin before they park.
const PAUSE: Duration = Duration::from_millis(80);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let axpy = trace(|a: Scalar<f32>, x: In<f32>, y: In<f32>| a * x + y)?;
    let tanh = trace(|a: Scalar<f32>, x: In<f32>, y: In<f32>| (a * x + y).tanh())?;
    print("bytes; ns per call: axpy with 1 thread, all, all after a pause; the same for tanh");
    for length in (8..=22).map(|power| 1_usize << power) {
        let (x, y, mut out) = (vec![0.5; length], vec![0.25; length], vec![0.0; length]);
        let mut line = format!("{:>10}", 12 * length);
        for traced in [&axpy, &tanh] {
            for (threads, pause) in [(1, None), (usize::MAX, None), (usize::MAX, Some(PAUSE))] {
                let kernel = Cpu::with_threads(threads)?.compile(traced)?;
                let mut call = || kernel.run(0.5, &x, &y, &mut out);
                line += &format!(" {:>9.0}", median(&mut call, length, pause)?);
            }
        }
        print(&line);
    }
    Ok(())
}

/// The median nanoseconds of a call.
fn median<E>(call: &mut impl FnMut() -> Result<(), E>, length: usize, pause: Option<Duration>) -> Result<f64, E> {
    let (repeats, calls) = if pause.is_some() { (9, 1) } else { (15, (1 << 22) / length) };
    call()?;
    let mut times = Vec::new();
    for _ in 0..repeats {
        pause.into_iter().for_each(std::thread::sleep);
        let begin = Instant::now();
        (0..calls).try_for_each(|_| call())?;
        times.push(begin.elapsed().as_nanos() as f64 / calls as f64);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}

#[allow(clippy::print_stdout, reason = "an example's result")]
fn print(line: &str) {
    println!("{line}");
}
