//! The time of calls on another library's memory, as its users see it: `foreign_calls [TEXT] [ELEMENTS] [THREADS]`. Prints the
//! nanoseconds per call of the fastest of many short runs.

use std::time::{Duration, Instant};

use plimsoll_cpu::elementwise::Cpu;
use plimsoll_cpu::memory::{Buffer, Pages};
use plimsoll_expr::{DType, Foreign, Names, Value, parse};

/// The time of all runs, and of one of them.
const TOTAL: Duration = Duration::from_millis(700);
const RUN: Duration = Duration::from_millis(1);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let text = args.next().unwrap_or_else(|| "scalar a: f32; in x: f32, y: f32; z = a*x + y".to_owned());
    let elements: usize = args.next().map_or(Ok(256), |text| text.parse())?;
    let threads = args.next().map_or(Ok(usize::MAX), |text| text.parse())?;
    let graph = parse(&text, &Names { default: Some(DType::F32), ..Names::default() })?;
    let expression = Cpu::with_threads(threads)?.expression(&graph);
    let in_place = graph.outputs().iter().filter(|output| output.in_place.is_some()).count();
    let count = graph.inputs().len() + graph.outputs().len() - in_place;
    let allocate = |_| Buffer::<f32>::new(elements, Pages::Huge);
    let mut memory: Vec<Buffer<f32>> = (0..count).map(allocate).collect::<Result<_, _>>()?;
    memory.iter_mut().for_each(|memory| memory.fill(0.5));
    let (shape, strides) = ([elements as u64], [1]);
    let tensor = |memory: &mut Buffer<f32>| {
        let start = memory.as_mut_ptr().expose_provenance() as u64;
        Foreign { start, dtype: DType::F32, shape: &shape, strides: &strides }
    };
    let tensors: Vec<Foreign<'_>> = memory.iter_mut().map(tensor).collect();
    let scalars = vec![Value::Float(0.5); graph.scalars().len()];
    // SAFETY: the buffers hold all elements, live until the end, and nobody else uses them.
    let call = || unsafe { expression.run_foreign(&tensors, &scalars) };
    let begin = Instant::now();
    call()?;
    let first = begin.elapsed();
    let begin = Instant::now();
    call()?;
    let calls = (RUN.as_secs_f64() / begin.elapsed().as_secs_f64()).clamp(1.0, 1e5) as u32;
    let (mut fastest, start) = (f64::INFINITY, Instant::now());
    while start.elapsed() < TOTAL {
        let begin = Instant::now();
        (0..calls).try_for_each(|_| call())?;
        fastest = fastest.min(begin.elapsed().as_nanos() as f64 / f64::from(calls));
    }
    #[allow(clippy::print_stdout, reason = "an example's result")]
    {
        println!("{fastest:.1} ns; first call {} µs: {text}", first.as_micros());
    }
    Ok(())
}
