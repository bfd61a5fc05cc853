//! Each loop executes the named instruction, as often as it counts.

use super::oracle::naive;
use super::*;

fn every_kernel() -> impl Iterator<Item = Kernel> {
    let all = instructions().into_iter().chain(&generic::TABLE);
    all.flat_map(|instruction| ILP.into_iter().filter_map(|ilp| kernel(instruction, ilp)))
}

#[test]
fn every_chain_executes_every_counted_link() {
    for kernel in every_kernel() {
        let instruction = kernel.instruction();
        for iterations in [1, 3] {
            let expected = naive(kernel, iterations);
            for (chain, last) in kernel.run(iterations).into_iter().enumerate() {
                let mask = instruction.lane_mask();
                assert_eq!(last & mask, expected[chain], "{} chain {chain} of {}", instruction.mnemonic, kernel.ilp());
            }
        }
    }
}

#[test]
fn every_link_of_a_long_run_is_a_normal_number() {
    for kernel in every_kernel().filter(|kernel| kernel.ilp() == 1) {
        // the last iteration before the chains are seeded again, and the first after it; fewer for the slow divisions
        let iterations = if kernel.instruction().operation == Operation::Div { 1_000 } else { ITERATIONS_PER_SEED };
        for iterations in [iterations, iterations + 1] {
            let last = kernel.run(iterations)[0];
            let (normal, value) = match kernel.instruction().number {
                Number::F64 => (f64::from_bits(last).is_normal(), f64::from_bits(last)),
                Number::F32 => (f32::from_bits(last as u32).is_normal(), f64::from(f32::from_bits(last as u32))),
                _ => continue,
            };
            assert!(normal && value != 1.0, "{}: {value}", kernel.instruction().mnemonic);
        }
    }
}

#[test]
fn every_loop_has_enough_instructions_to_hide_its_overhead() {
    for kernel in every_kernel() {
        assert!(kernel.operations(1) >= UNROLL as u64);
        assert_eq!(kernel.operations(1) % kernel.ilp() as u64, 0);
        assert_eq!(kernel.operations(7), 7 * kernel.operations(1));
    }
}

#[test]
fn zero_iterations_do_nothing() {
    for kernel in every_kernel() {
        assert_eq!(kernel.operations(0), 0);
        assert_eq!(kernel.run(0), [0; MAX_ILP]);
    }
}

#[test]
fn only_floating_point_counts_as_flops() {
    for instruction in instructions() {
        let per_lane = instruction.flops_per_op() / instruction.lanes() as u64;
        let expected = match (instruction.number, instruction.operation) {
            (Number::I32 | Number::I64, _) => 0,
            (_, Operation::Fma) => 2,
            _ => 1,
        };
        assert_eq!(per_lane, expected, "{}", instruction.mnemonic);
    }
}

#[test]
fn an_unknown_number_of_chains_has_no_kernel() {
    for instruction in instructions() {
        assert!(kernel(instruction, 1).is_some());
        assert!(kernel(instruction, 0).is_none());
        assert!(kernel(instruction, 5).is_none());
        assert!(kernel(instruction, 13).is_none());
    }
}
