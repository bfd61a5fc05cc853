use plimsoll_expr::{DType, Foreign, Names, Value, parse};
use proptest::prelude::*;

use super::super::super::error::Error;
use super::super::Cpu;
use super::super::expression::Expression;

fn expression(text: &str) -> Expression {
    Cpu::with_threads(1).unwrap().expression(&parse(text, &Names::default()).unwrap())
}

/// A tensor whose element of index 0 is element `first` of an array.
fn tensor<'a>(memory: &mut [f32], first: usize, shape: &'a [u64], strides: &'a [i64]) -> Foreign<'a> {
    let start = memory.as_mut_ptr().expose_provenance() as u64 + 4 * first as u64;
    Foreign { start, dtype: DType::F32, shape, strides }
}

/// Runs it on tensors of arrays that outlive the call.
fn run(expression: &Expression, tensors: &[Foreign<'_>]) -> Result<(), Error> {
    // SAFETY: the tests' arrays hold all elements, initialised, and nobody else uses them.
    unsafe { expression.run_foreign(tensors, &vec![Value::Float(0.5); expression.graph().scalars().len()]) }
}

fn ramp(length: usize) -> Vec<f32> {
    (0..length).map(|i| i as f32).collect()
}

#[test]
fn reversed_broadcast_scalar_and_empty_tensors_are_right() {
    let add = expression("in x: f32, b: f32; y = x + 10*b");
    let (mut x, mut b, mut y) = (ramp(6), ramp(3), vec![-1.0; 6]);
    let shape = [2, 3];
    let reversed = tensor(&mut x, 5, &shape, &[-3, -1]);
    run(&add, &[reversed, tensor(&mut b, 2, &[3], &[-1]), tensor(&mut y, 3, &shape, &[-3, 1])]).unwrap();
    assert_eq!(y, [22.0, 11.0, 0.0, 25.0, 14.0, 3.0]);

    let zero = tensor(&mut x, 4, &[], &[]);
    run(&add, &[zero, tensor(&mut b, 1, &[], &[]), tensor(&mut y, 5, &[], &[])]).unwrap();
    assert_eq!(y, [22.0, 11.0, 0.0, 25.0, 14.0, 14.0]);

    let none = Foreign { start: 0, dtype: DType::F32, shape: &[0, 3], strides: &[3, 1] };
    run(&add, &[none, tensor(&mut b, 0, &[3], &[1]), Foreign { start: 1, ..none }]).unwrap();
}

#[test]
fn inputs_may_share_memory_and_tensors_in_place_are_written() {
    let mut memory = ramp(8);
    let mut y = vec![0.0; 4];
    let both = expression("in x: f32, z: f32; y = x*z");
    let tensors = [tensor(&mut memory, 0, &[4], &[1]), tensor(&mut memory, 2, &[4], &[1])];
    run(&both, &[tensors[0], tensors[1], tensor(&mut y, 0, &[4], &[1])]).unwrap();
    assert_eq!(y, [0.0, 3.0, 8.0, 15.0]);

    let momentum = expression("in m: f32, g: f32; scalar a: f32; m = a*m + g");
    run(&momentum, &[tensor(&mut memory, 0, &[4], &[2]), tensor(&mut y, 0, &[4], &[1])]).unwrap();
    assert_eq!(memory, [0.0, 1.0, 4.0, 3.0, 10.0, 5.0, 18.0, 7.0]);

    let graph = both.graph().with_output_in_place(0, 1).unwrap();
    let replaced = Cpu::with_threads(1).unwrap().expression(&graph);
    run(&replaced, &[tensor(&mut memory, 4, &[4], &[1]), tensor(&mut y, 0, &[4], &[1])]).unwrap();
    assert_eq!(y, [0.0, 15.0, 144.0, 105.0]);
}

#[test]
fn wrong_tensors_are_refused_before_anything_is_written() {
    let sum = expression("in x: f32, z: f32; y = x + z");
    let (mut x, mut y) = (ramp(16), vec![-1.0; 16]);
    let flat = |memory: &mut [f32], first| tensor(memory, first, &[4], &[1]);
    let (a, b, out) = (flat(&mut x, 0), flat(&mut x, 4), flat(&mut y, 0));
    let refused = |tensors: &[Foreign<'_>]| run(&sum, tensors).unwrap_err().to_string();
    assert_eq!(refused(&[a, b]), "the expression has 1 outputs, but 0 were given");
    assert_eq!(refused(&[a, b, b]), "the output 'y' is the input 'z': write it in place, as in 'z = …'");
    let partly = "'y' is written and overlaps 'x': use memory that no other tensor of the call uses, such as a copy";
    assert_eq!(refused(&[a, b, flat(&mut x, 2)]), partly);
    assert_eq!(refused(&[a, b, tensor(&mut x, 3, &[4], &[-1])]), partly);
    let double = Foreign { dtype: DType::F64, ..b };
    assert!(matches!(run(&sum, &[a, double, out]), Err(Error::Type { name, .. }) if name == "z"));
    let five = tensor(&mut x, 0, &[5], &[1]);
    assert!(matches!(run(&sum, &[five, b, out]), Err(Error::Input { name, .. }) if name == "x"));
    let folded = Foreign { strides: &[0], ..out };
    assert!(matches!(run(&sum, &[a, b, folded]), Err(Error::SharedElements(name)) if name == "y"));
    let ragged = Foreign { strides: &[1, 1], ..b };
    assert!(matches!(run(&sum, &[a, ragged, out]), Err(Error::Memory { name, .. }) if name == "z"));
    let low = Foreign { start: 8, strides: &[-1], ..b };
    assert!(matches!(run(&sum, &[a, low, out]), Err(Error::Memory { name, .. }) if name == "z"));
    let odd = Foreign { start: b.start + 1, ..b };
    assert!(matches!(run(&sum, &[a, odd, out]), Err(Error::Misaligned { name, .. }) if name == "z"));
    assert!(y.iter().all(|&y| y == -1.0));

    let update = expression("in m: f32, x: f32; m = m + x");
    let same = run(&update, &[a, a]).unwrap_err();
    assert!(matches!(same, Error::Overlap { ref written, ref other } if written == "m" && other == "x"), "{same}");
    let both = expression("in x: f32; y = x + 1; z = x - 1");
    assert!(matches!(run(&both, &[a, out, out]), Err(Error::Overlap { .. })));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_strides_and_signs_match_a_loop(
        rows in 1_u64..40, columns in 1_u64..40, gap in 1_i64..3, signs: [bool; 4], transposed: bool, first in 0_usize..8,
    ) {
        let sum = expression("in x: f32, z: f32; y = x - 2*z");
        let (r, c) = (rows as i64, columns as i64);
        let shape = [rows, columns];
        let mut x = ramp(first + 9000);
        let mut y = vec![-1.0; first + 9000];
        let sign = |negative: bool, stride: i64| if negative { -stride } else { stride };
        let of = if transposed { (gap, gap * r) } else { (gap * c, gap) };
        let x_strides = [sign(signs[0], of.0), sign(signs[1], of.1)];
        let y_strides = [sign(signs[2], gap * c), sign(signs[3], gap)];
        let below = |strides: [i64; 2]| -((strides[0] * (r - 1)).min(0) + (strides[1] * (c - 1)).min(0)) as usize;
        let (x_first, y_first) = (first + below(x_strides), first + below(y_strides));
        let given = [
            tensor(&mut x, x_first, &shape, &x_strides),
            tensor(&mut x, x_first, &shape, &[0, 0]),
            tensor(&mut y, y_first, &shape, &y_strides),
        ];
        run(&sum, &given).unwrap();
        let mut expected = vec![-1.0; y.len()];
        for (i, j) in (0..r).flat_map(|i| (0..c).map(move |j| (i, j))) {
            let place = |start: usize, strides: [i64; 2]| (start as i64 + i * strides[0] + j * strides[1]) as usize;
            expected[place(y_first, y_strides)] = x[place(x_first, x_strides)] - 2.0 * x[x_first];
        }
        prop_assert_eq!(y, expected);
    }
}
