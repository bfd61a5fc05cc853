//! A prepared program allocates nothing when it runs, whatever its steps are.

use plimsoll_cpu::elementwise::{How, Program, Set};
use plimsoll_cpu::memory::{Buffer, Pages};
use plimsoll_cpu::threads::{Team, affinity};
use plimsoll_cpu::timer::Timer;
use plimsoll_expr::{Layout, Names, Value, parse};

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
    let mut prepared = Program::new(&graph).prepare(&layouts.0, &layouts.1, &How::on(2)).expect("a program");
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
