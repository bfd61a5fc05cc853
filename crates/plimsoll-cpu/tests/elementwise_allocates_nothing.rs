//! Runs of a prepared program and typed calls allocate nothing.

use half::bf16;
use plimsoll_cpu::elementwise::{Cpu, How, Program, Set, View, ViewMut};
use plimsoll_cpu::memory::{Buffer, Pages};
use plimsoll_cpu::threads::{Team, affinity};
use plimsoll_cpu::timer::Timer;
use plimsoll_expr::{DType, Foreign, In, InOut, Layout, Names, Scalar, Value, parse, trace};

#[test]
fn runs_allocate_nothing_once_prepared() {
    let text = "scalar a: f32; in x: f32, b: bf16; y = exp(a*x + b) % 3; x = x + index()";
    let graph = parse(text, &Names::default()).expect("an expression");
    let shape = [40, 50];
    let whole = Layout::contiguous(&shape).expect("a layout");
    let bias = Layout::contiguous(&[50]).expect("a layout");
    let cpu = affinity::allowed_cpus()[0];
    let mut team = Team::new(&[cpu, cpu], Timer::best()).expect("a team");
    let layouts = ([whole.clone(), bias], [whole.clone(), whole]);
    let mut prepared = Program::new(&graph).prepare(&layouts.0, &layouts.1, &How::for_threads(2)).expect("a program");
    let buffer = |bytes| Buffer::<u8>::new(bytes, Pages::Small).expect("memory");
    let (b, mut y, mut x) = (buffer(100), buffer(8000), buffer(8000));
    let mut run = || {
        let set = Set { inputs: &[&b], outputs: &mut [&mut y, &mut x] };
        prepared.run(&mut team, set, &[Value::Float(0.5)]).expect("a run");
    };
    run();
    let counted = allocation_counter::measure(|| (0..10).for_each(|_| run()));
    assert_eq!(counted.count_total, 0);
}

#[test]
fn typed_calls_allocate_nothing_once_their_layouts_are_known() {
    let traced = trace(|a: Scalar<f32>, x: In<f32>, b: In<bf16>, m: InOut<f32>| {
        m.set(m.get() + x);
        ((a * x + b).exp(), x.lt(0.0))
    });
    let kernel = Cpu::new().expect("processors").compile(&traced.expect("an expression")).expect("a kernel");
    for shape in [[4, 50], [4000, 50]] {
        let n = 50 * shape[0] as usize;
        let (x, b) = (vec![0.5; n], vec![bf16::ONE; 50]);
        let (mut m, mut y, mut negative) = (vec![0.0; n], vec![0.0; n], vec![true; n]);
        let x = View::shaped(&x, &shape).expect("a shape");
        let mut m = ViewMut::shaped(&mut m, &shape).expect("a shape");
        let mut y = ViewMut::shaped(&mut y, &shape).expect("a shape");
        let mut negative = ViewMut::shaped(&mut negative, &shape).expect("a shape");
        let mut run = |a: f32| kernel.run(a, &x, &b, &mut m, (&mut y, &mut negative)).expect("a run");
        run(0.5);
        let counted = allocation_counter::measure(|| (0..10).for_each(|i| run(i as f32)));
        assert_eq!(counted.count_total, 0, "{shape:?}");
    }
}

#[test]
fn calls_on_foreign_memory_allocate_nothing_once_their_layouts_are_known() {
    let graph = parse("scalar a: f32; in x: f32, m: f32; m = m - x; y = a*x + m", &Names::default());
    let expression = Cpu::new().expect("processors").expression(&graph.expect("an expression"));
    for rows in [40, 40_000] {
        let n = 50 * rows as usize;
        let (mut x, mut m, mut y) = (vec![0.5_f32; n], vec![0.0_f32; n], vec![0.0_f32; n]);
        let (shape, strides, reversed) = ([rows, 50], [50, 1], [50, -1]);
        let tensor = |memory: &mut Vec<f32>, first: u64| {
            let start = memory.as_mut_ptr().expose_provenance() as u64 + 4 * first;
            let strides = if first > 0 { &reversed } else { &strides };
            Foreign { start, dtype: DType::F32, shape: &shape, strides }
        };
        let tensors = [tensor(&mut x, 49), tensor(&mut m, 0), tensor(&mut y, 0)];
        let run = |a: f64| {
            // SAFETY: the vectors hold all elements, outlive the calls, and nobody else uses them.
            unsafe { expression.run_foreign(&tensors, &[Value::Float(a)]) }.expect("a run");
        };
        run(0.5);
        let counted = allocation_counter::measure(|| (0..10).for_each(|i| run(f64::from(i))));
        assert_eq!(counted.count_total, 0, "{rows} rows");
        assert_eq!((m[n - 1], y[n - 1]), (-5.5, 9.0 * 0.5 - 5.5));
    }
}
