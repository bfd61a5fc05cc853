//! Functions of f64 against true values of 160 bits, which `scripts/f64_reference.py` made with mpmath: it shares no code with
//! this crate or the oracle.

use std::collections::BTreeMap;

use plimsoll_cpu::arch::available;
use plimsoll_cpu::elementwise::verify::bound;
use plimsoll_cpu::elementwise::{How, Program, Set};
use plimsoll_cpu::memory::{Buffer, Pages};
use plimsoll_cpu::threads::{Team, affinity};
use plimsoll_cpu::timer::Timer;
use plimsoll_expr::function::Function;
use plimsoll_expr::{DType, LastPlace, Layout};

/// The arguments of one function, and their results: the nearest number, and what it lacks in units in the last place.
#[derive(Default)]
struct Trials {
    arguments: Vec<Vec<f64>>,
    results: Vec<(f64, f64)>,
}

fn read(text: &str) -> BTreeMap<&str, Trials> {
    let mut functions: BTreeMap<&str, Trials> = BTreeMap::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        let [name, arguments @ .., result, rest] = fields.as_slice() else { panic!("{line}") };
        let number = |bits: &&str| f64::from_bits(u64::from_str_radix(bits, 16).unwrap());
        let trials = functions.entry(name).or_default();
        trials.arguments.resize(arguments.len(), Vec::new());
        trials.arguments.iter_mut().zip(arguments).for_each(|(list, bits)| list.push(number(bits)));
        trials.results.push((number(result), rest.parse().unwrap()));
    }
    functions
}

/// The results of a function on one instruction set.
fn evaluate(team: &mut Team, function: Function, arguments: &[Vec<f64>], how: &How) -> Vec<f64> {
    let n = arguments[0].len();
    let layout = Layout::contiguous(&[n as u64]).unwrap();
    let graph = function.graph(DType::F64).unwrap();
    let inputs = vec![layout.clone(); arguments.len()];
    let mut prepared = Program::new(&graph).prepare(&inputs, &[layout], how).unwrap();
    let mut sources: Vec<Buffer<u8>> = Vec::new();
    for list in arguments {
        let mut buffer = Buffer::<u8>::new(8 * n, Pages::Small).unwrap();
        buffer.chunks_exact_mut(8).zip(list).for_each(|(bytes, x)| bytes.copy_from_slice(&x.to_le_bytes()));
        sources.push(buffer);
    }
    let mut target = Buffer::<u8>::new(8 * n, Pages::Small).unwrap();
    let sources: Vec<&[u8]> = sources.iter().map(|buffer| &**buffer).collect();
    prepared.run(team, Set { inputs: &sources, outputs: &mut [&mut target] }, &[]).unwrap();
    target.chunks_exact(8).map(|bytes| f64::from_le_bytes(bytes.try_into().unwrap())).collect()
}

#[test]
fn functions_of_f64_are_within_their_bounds_of_true_values() {
    let functions = read(include_str!("f64_functions.txt"));
    let place = LastPlace::new(DType::F64);
    let cpu = affinity::allowed_cpus()[0];
    let mut team = Team::new(&[cpu], Timer::best()).unwrap();
    let mut checked = 0;
    for function in Function::list() {
        let Some(trials) = functions.get(function.name()) else { continue };
        checked += 1;
        for isa in available() {
            let how = How { isa, ..How::for_threads(1) };
            let found = evaluate(&mut team, function, &trials.arguments, &how);
            for (i, (&(result, rest), found)) in trials.results.iter().zip(found).enumerate() {
                let error = ((found - result) / place.unit(result) - rest).abs();
                let at: Vec<f64> = trials.arguments.iter().map(|list| list[i]).collect();
                let bound = bound(function, DType::F64);
                assert!(error <= bound, "{} {isa:?} {at:?}: {found:e}, not {result:e}: {error} ulp", function.name());
            }
        }
    }
    assert_eq!(checked, functions.len(), "every function of the file exists");
}
