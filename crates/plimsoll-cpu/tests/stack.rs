//! Expressions of any depth are prepared and run on a thread with a stack of 64 KiB, even in unoptimised builds.

use plimsoll_cpu::elementwise::{Cpu, How, Program, Set};
use plimsoll_cpu::memory::{Buffer, Pages};
use plimsoll_cpu::threads::{Team, affinity};
use plimsoll_cpu::timer::Timer;
use plimsoll_expr::parse::MAX_NESTING;
use plimsoll_expr::{DType, In, Layout, Names, Scalar, parse, trace};

/// Runs on a thread with a stack smaller than the smallest common one (80 KiB in older versions of musl).
fn run_on_small_stack(body: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().stack_size(64 << 10).spawn(body).expect("a thread").join().expect("no overflow");
}

#[test]
fn a_long_chain_is_planned_and_called_on_a_small_stack() {
    run_on_small_stack(|| {
        let traced = trace(|a: Scalar<f32>, x: In<f32>, y: In<f32>| {
            let mut sum = x + y;
            for _ in 0..1000 {
                sum = (sum * a).tanh() - y;
            }
            (sum, sum.lt(0.0))
        });
        let kernel = Cpu::new().expect("processors").compile(&traced.expect("an expression")).expect("a kernel");
        // A call on the caller's thread, and one on all threads.
        for elements in [3, 4_000] {
            let (x, y) = (vec![0.5; elements], vec![0.25; elements]);
            let (mut sum, mut less) = (vec![0.0; elements], vec![false; elements]);
            kernel.run(0.5, &x, &y, (&mut sum, &mut less)).expect("a call");
            assert!(sum.iter().zip(&less).all(|(sum, less)| *less == (*sum < 0.0)));
        }
    });
}

#[test]
fn nested_text_is_planned_and_run_on_a_small_stack() {
    for (prefix, suffix) in [("-", ""), ("~(", ")"), ("max(x, ", ")"), ("select(x < y, x, y - abs(", "))")] {
        run_on_small_stack(move || {
            let levels = MAX_NESTING / prefix.matches(['(', '-', '~']).count();
            let text = prefix.repeat(levels) + "x" + &suffix.repeat(levels);
            let graph = parse(&text, &Names::with_default(DType::I32)).expect("an expression");
            let layout = Layout::contiguous(&[1000]).expect("a layout");
            let inputs = vec![layout.clone(); graph.inputs().len()];
            let mut prepared =
                Program::new(&graph).prepare(&inputs, &[layout], &How::for_threads(1)).expect("a program");
            let mut team = Team::new(&affinity::allowed_cpus()[..1], Timer::best()).expect("a team");
            let buffer = || Buffer::<u8>::new(4000, Pages::Small).expect("memory");
            let (tensors, mut out): (Vec<_>, _) = ((0..inputs.len()).map(|_| buffer()).collect(), buffer());
            let inputs: Vec<&[u8]> = tensors.iter().map(|tensor| &tensor[..]).collect();
            prepared.run(&mut team, Set { inputs: &inputs, outputs: &mut [&mut out] }, &[]).expect("a run");
        });
    }
}
