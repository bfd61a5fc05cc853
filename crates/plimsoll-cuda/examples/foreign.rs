//! Runs expressions on memory and in streams that another library made, checks the results, records them in that library's way, and
//! compares the host time of a call with a bare launch of the same kernel. The other library is the driver's own interface. Needs an
//! NVIDIA GPU.
//!
//! `cargo run --release -p plimsoll-cuda --example foreign`
#![allow(unsafe_code, reason = "it plays the other library")]
#![allow(clippy::print_stdout, reason = "it is a program")]

use std::error::Error;
use std::ffi::c_void;
use std::time::Instant;

use libloading::os::unix::{Library, Symbol};
use plimsoll_cuda::Cuda;
use plimsoll_cuda::elementwise::{Batch, BatchOptions, Expression, Gpu};
use plimsoll_expr::{DType, Foreign, ForeignSet, Names, Value, parse};
use plimsoll_gen::elementwise::Choose;

type Outcome<T> = Result<T, Box<dyn Error>>;
/// Calls that are timed together, and the number of rounds.
const CALLS: (u32, usize) = (500, 201);

/// Another library.
struct Other(Library);

impl Other {
    /// Calls the driver with two to six arguments as numbers.
    fn call(&self, name: &str, arguments: [u64; 6]) -> Outcome<()> {
        type Call = unsafe extern "C" fn(u64, u64, u64, u64, u64, u64) -> u32;
        let [a, b, c, d, e, f] = arguments;
        // SAFETY: all calls here take at most six numbers, pointers or handles, which the callers give in cuda.h's order.
        let code = unsafe {
            let call: Symbol<Call> = self.0.get(name.as_bytes())?;
            call(a, b, c, d, e, f)
        };
        if code == 0 { Ok(()) } else { Err(format!("{name} returned {code}").into()) }
    }

    /// A handle that the driver writes, with further arguments.
    fn make(&self, name: &str, further: [u64; 2]) -> Outcome<u64> {
        let mut made = 0_u64;
        self.call(name, [address(&raw mut made), further[0], further[1], 0, 0, 0])?;
        Ok(made)
    }

    fn upload(&self, values: &[u32]) -> Outcome<u64> {
        let to = self.make("cuMemAlloc_v2", [size_of_val(values) as u64, 0])?;
        self.call("cuMemcpyHtoD_v2", [to, address(values.as_ptr().cast_mut()), size_of_val(values) as u64, 0, 0, 0])?;
        self.call("cuCtxSynchronize", [0; 6])?;
        Ok(to)
    }

    fn download(&self, from: u64, length: usize) -> Outcome<Vec<u32>> {
        let mut values = vec![0_u32; length];
        self.call("cuCtxSynchronize", [0; 6])?;
        self.call("cuMemcpyDtoH_v2", [address(values.as_mut_ptr()), from, 4 * length as u64, 0, 0, 0])?;
        Ok(values)
    }

    /// Records `task` in a stream so that most calls of any thread would break the recording; a graph to launch.
    fn record(&self, stream: u64, task: impl FnOnce() -> Outcome<()>) -> Outcome<u64> {
        self.call("cuStreamBeginCapture_v2", [stream, 0, 0, 0, 0, 0])?;
        let done = task();
        let mut graph = 0_u64;
        self.call("cuStreamEndCapture", [stream, address(&raw mut graph), 0, 0, 0, 0])?;
        done?;
        self.make("cuGraphInstantiateWithFlags", [graph, 0])
    }
}

fn address<T>(place: *mut T) -> u64 {
    place.cast::<c_void>().expose_provenance() as u64
}

fn tensor<'a>(start: u64, shape: &'a [u64], strides: &'a [i64]) -> Foreign<'a> {
    Foreign { start, dtype: DType::U32, shape, strides }
}

fn expression(gpu: &Gpu, text: &str) -> Outcome<Expression> {
    Ok(gpu.engine().expression(&parse(text, &Names::with_default(DType::U32))?)?)
}

fn run(expression: &Expression, tensors: &[Foreign<'_>], scalars: &[Value], stream: u64) -> Outcome<()> {
    // SAFETY: memory is never freed here, and every result is waited for; the tensors lie inside their memory.
    Ok(unsafe { expression.run_foreign(tensors, scalars, &Choose::default(), stream) }?)
}

fn check(what: &str, right: bool) -> Outcome<()> {
    println!("{what}: {}", if right { "right" } else { "wrong" });
    if right { Ok(()) } else { Err(format!("{what} is wrong").into()) }
}

fn main() -> Outcome<()> {
    // SAFETY: the driver's library.
    let other = Other(unsafe { Library::new("libcuda.so.1") }?);
    let gpu = Cuda::device(0)?;
    let made = other.make("cuStreamCreate", [1, 0])?;
    for stream in [0, 1, 2, made] {
        layouts(&gpu, &other, stream)?;
        in_turn(&gpu, &other, stream)?;
    }
    contexts(&gpu, &other)?;
    recordings(&gpu, &other, made)?;
    batches(&gpu, &other, made)?;
    for stream in [made, 0] {
        host_time(&gpu, &other, stream)?;
    }
    Ok(())
}

fn layouts(gpu: &Gpu, other: &Other, stream: u64) -> Outcome<()> {
    let (rows, columns) = (301_u64, 205_u64);
    let values: Vec<u32> = (0..(rows * columns) as u32).collect();
    let (x, out) = (other.upload(&values)?, other.upload(&values)?);
    let add = expression(gpu, "scalar a: u32; z = a*x + b")?;
    // Transposed; the first row backwards.
    let (shape, strides, row_major) = ([rows, columns], [1, rows as i64], [columns as i64, 1]);
    let backwards = x + 4 * (columns - 1);
    let tensors = [tensor(x, &shape, &strides), tensor(backwards, &shape[1..], &[-1]), tensor(out, &shape, &row_major)];
    run(&add, &tensors, &[Value::Int(3)], stream)?;
    let found = other.download(out, values.len())?;
    let expected = |row: u64, column: u64| (3 * (column * rows + row) + columns - 1 - column) as u32;
    let right = (0..rows).all(|row| (0..columns).all(|at| found[(row * columns + at) as usize] == expected(row, at)));
    check(&format!("stream {stream:#x}: transposed and backwards"), right)
}

/// Our kernels and another library's work in turn. Each reads what the previous one wrote.
fn in_turn(gpu: &Gpu, other: &Other, stream: u64) -> Outcome<()> {
    let length = 1_u64 << 22;
    let zeros = vec![0; length as usize];
    let (x, y) = (other.upload(&zeros)?, other.upload(&zeros)?);
    let (next, shape) = (expression(gpu, "y = x*5 + 1")?, [length]);
    for _ in 0..50 {
        run(&next, &[tensor(x, &shape, &[1]), tensor(y, &shape, &[1])], &[], stream)?;
        other.call("cuMemcpyDtoDAsync_v2", [x, y, 4 * length, stream, 0, 0])?;
        // A kernel of the other library, which our next one must not overtake.
        other.call("cuMemsetD32Async", [y, 7, length, stream, 0, 0])?;
    }
    let expected = (0..50).fold(0_u32, |x, _| x.wrapping_mul(5).wrapping_add(1));
    let right = other.download(x, zeros.len())?.iter().all(|&x| x == expected)
        && other.download(y, zeros.len())?.iter().all(|&y| y == 7);
    check(&format!("stream {stream:#x}: 50 kernels in turn with another library's"), right)
}

fn contexts(gpu: &Gpu, other: &Other) -> Outcome<()> {
    let (x, y) = (other.upload(&[2; 64])?, other.upload(&[0; 64])?);
    let triple = expression(gpu, "y = 3*x")?;
    let left = std::thread::scope(|scope| {
        let call = scope.spawn(|| {
            // Nothing is current on a new thread.
            let run =
                run(&triple, &[tensor(x, &[64], &[1]), tensor(y, &[64], &[1])], &[], 0).map_err(|e| e.to_string());
            run.and_then(|()| other.make("cuCtxGetCurrent", [0; 2]).map_err(|e| e.to_string()))
        });
        call.join().map_err(|_| "a thread panicked".to_owned())?
    })?;
    check("no context is current on a thread that had none", left == 0)?;
    check("its result", other.download(y, 64)? == [6; 64])
}

fn recordings(gpu: &Gpu, other: &Other, stream: u64) -> Outcome<()> {
    let length = 4097_u64;
    let zeros = vec![0; length as usize];
    let (x, y, z) = (other.upload(&zeros)?, other.upload(&zeros)?, other.upload(&zeros)?);
    let next = expression(gpu, "y = x*11 + 3")?;
    let (there, back) = ([x, y].map(|at| (at, [length])), [y, x].map(|at| (at, [length])));
    let call = |pair: &[(u64, [u64; 1]); 2]| {
        run(&next, &[0, 1].map(|place| tensor(pair[place].0, &pair[place].1, &[1])), &[], stream)
    };
    // The first call compiles and loads while the stream is being recorded; so does another thread.
    let graph = other.record(stream, || {
        call(&there)?;
        std::thread::scope(|scope| {
            let warm = scope.spawn(|| {
                let cube = expression(gpu, "y = x*x*x").map_err(|e| e.to_string())?;
                let tensors = [tensor(x, &[64], &[1]), tensor(z, &[64], &[1])];
                cube.prepare_foreign(&tensors, &Choose::default()).map_err(|e| e.to_string())
            });
            warm.join().map_err(|_| "a thread panicked".to_owned())?
        })?;
        call(&back)
    })?;
    for _ in 0..10 {
        other.call("cuGraphLaunch", [graph, stream, 0, 0, 0, 0])?;
    }
    let expected = (0..20).fold(0_u32, |x, _| x.wrapping_mul(11).wrapping_add(3));
    check("20 calls in another library's recording", other.download(x, zeros.len())?.iter().all(|&x| x == expected))
}

fn batches(gpu: &Gpu, other: &Other, stream: u64) -> Outcome<()> {
    let step = expression(gpu, "scalar a: u32; y = a*x + y")?;
    let shapes: Vec<[u64; 1]> = (0..300).map(|place| [1000 + 37 * place]).collect();
    let make = |value: u32| {
        let upload = |shape: &[u64; 1]| other.upload(&vec![value; shape[0] as usize]);
        shapes.iter().map(upload).collect::<Outcome<Vec<u64>>>()
    };
    let (x, y) = (make(2)?, make(1)?);
    let pairs: Vec<[Foreign<'_>; 2]> =
        (0..300).map(|place| [x[place], y[place]].map(|start| tensor(start, &shapes[place], &[1]))).collect();
    let sets: Vec<ForeignSet<'_>> = pairs.iter().map(|tensors| ForeignSet { tensors, group: 0 }).collect();
    let scalars = [vec![Value::Int(5)]];
    let options = BatchOptions { scalars: &scalars, ..BatchOptions::default() };
    // SAFETY: as in `run`.
    let mut batch: Batch = unsafe { step.batch_foreign(&sets, &options, gpu.stream()) }?;
    let graph = other.record(stream, || {
        // SAFETY: as in `run`.
        unsafe { Ok(batch.enqueue_foreign(stream)?) }
    })?;
    // SAFETY: as in `run`.
    unsafe { batch.enqueue_foreign(stream) }?;
    let start = Instant::now();
    // SAFETY: as in `run`.
    let changed = unsafe { batch.update_foreign(&sets, gpu.stream()) }?;
    println!("comparing 600 tensors of a batch: {:?}", start.elapsed());
    // The recording keeps what it uses of the batch.
    drop(batch);
    for _ in 0..2 {
        other.call("cuGraphLaunch", [graph, stream, 0, 0, 0, 0])?;
    }
    let mut right = !changed;
    for (start, shape) in y.iter().zip(&shapes) {
        right &= other.download(*start, shape[0] as usize)?.iter().all(|&y| y == 31);
    }
    check("300 sets in one launch, once and twice recorded", right)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The host's time of a call, and of a bare launch of the same kernel in the same stream.
fn host_time(gpu: &Gpu, other: &Other, stream: u64) -> Outcome<()> {
    let axpy = expression(gpu, "scalar a: u32; z = a*x + y")?;
    let memory = [0; 3].map(|value| other.upload(&[value; 4096]));
    let [x, y, z] = memory.map(|start| start.map(|start| tensor(start, &[4096], &[1])));
    let tensors = [x?, y?, z?];
    run(&axpy, &tensors, &[Value::Int(3)], stream)?;
    // A batch of one set has its words ready, so that its launch is little more than the driver's.
    let sets = [ForeignSet { tensors: &tensors, group: 0 }];
    let scalars = [vec![Value::Int(3)]];
    let options = BatchOptions { scalars: &scalars, ..BatchOptions::default() };
    // SAFETY: as in `run`.
    let bare = unsafe { axpy.batch_foreign(&sets, &options, gpu.stream()) }?;
    let (calls, rounds) = CALLS;
    let time = |call: &dyn Fn() -> Outcome<()>| {
        other.call("cuCtxSynchronize", [0; 6])?;
        let start = Instant::now();
        (0..calls).try_for_each(|_| call())?;
        Ok::<_, Box<dyn Error>>(start.elapsed().as_nanos() as f64 / f64::from(calls))
    };
    let mut times = [Vec::new(), Vec::new()];
    // Interleaved, as the cost of a launch drifts.
    for _ in 0..rounds {
        // SAFETY: as in `run`.
        times[0].push(time(&|| unsafe { Ok(bare.enqueue_foreign(stream)?) })?);
        times[1].push(time(&|| run(&axpy, &tensors, &[Value::Int(3)], stream))?);
    }
    let more = median(times[1].iter().zip(&times[0]).map(|(call, bare)| call - bare).collect());
    println!(
        "stream {stream:#x}: a bare launch takes the host {:.0} ns, a call {more:+.0} ns",
        median(times[0].clone())
    );
    Ok(())
}
