use half::{bf16, f16};
use plimsoll_core::Fault;
use plimsoll_expr::oracle::{self, Precision, Tensor};
use plimsoll_expr::trace::{Expr, F8E4M3, F8E5M2, Promote, Tensor as OfTensor, place};
use plimsoll_expr::{DType, In, InOut, Layout, Scalar, Traced, Value, trace};
use proptest::prelude::*;

use super::plans::PlanSet;
use super::*;
use crate::memory::{Lendable, bytes};
use crate::threads::affinity::allowed_cpus;

/// `threads` threads that share one CPU.
fn cpu(threads: usize) -> Cpu {
    let cpu = allowed_cpus().first().copied().unwrap_or(0);
    Cpu::builder().build_on(vec![cpu; threads], 0).unwrap()
}

/// One thread, whose stores all bypass the caches.
fn bypassing_caches() -> Cpu {
    Cpu::builder().build_on(vec![allowed_cpus().first().copied().unwrap_or(0)], 1).unwrap()
}

/// A length that is too large for one thread, and no multiple of a vector or tile.
const LARGE: usize = 300_007;

fn ramp(length: usize) -> Vec<f32> {
    (0..length).map(|i| (i % 1000) as f32 * 0.25 - 100.0).collect()
}

#[test]
fn parameters_may_be_numbers_slices_vectors_arrays_and_views() {
    let traced = trace(|a: Scalar<f32>, x: In<f32>, y: In<f32>| a * x + y).unwrap();
    let axpy = cpu(1).compile(&traced).unwrap();
    let (x, y) = (vec![2.0, 4.0, 6.0], [1.0, 2.0, 3.0]);
    let expected = [2.0, 4.0, 6.0];
    let mut vector = vec![0.0; 3];
    axpy.run(0.5, &x, &y, &mut vector).unwrap();
    assert_eq!(vector, expected);
    let mut array = [0.0; 3];
    axpy.run(0.5, &x[..], &y[..], &mut array).unwrap();
    assert_eq!(array, expected);
    let mut wide = [9.0; 5];
    axpy.run(0.5, &View::shaped(&x, &[3]).unwrap(), &y, &mut wide[1..4]).unwrap();
    assert_eq!(wide, [9.0, 2.0, 4.0, 6.0, 9.0]);
    let reversed = Layout::strided(&[3], &[-1], 4).unwrap();
    axpy.run(0.5, &x, &y, &mut ViewMut::new(&mut wide, reversed)).unwrap();
    assert_eq!(wide, [9.0, 2.0, 6.0, 4.0, 2.0]);
    // All of these except the last have the same layouts.
    assert_eq!(axpy.expression.plans.enter(|set| set.plans().len()), 2);
}

#[test]
fn calls_return_vectors_of_the_common_shape() {
    type Sum = Traced<(Scalar<i32>, In<i32>, In<i32>), (In<i32>, In<bool>)>;
    let sum = Sum::from_text(&["a", "x", "y"], "s = a*x + y\nless = x < y").unwrap();
    let sum = cpu(1).compile(&sum).unwrap();
    let (x, y) = ([1, 2], [10, 20, 30]);
    let (values, less) = sum.call(2, &View::shaped(&x, &[2, 1]).unwrap(), &y).unwrap();
    assert_eq!(values, [12, 22, 32, 14, 24, 34]);
    assert_eq!(less, [true; 6]);
    let error = sum.call(2, &x, &y).unwrap_err();
    assert!(matches!(error, Error::Layout(_)) && error.to_string().contains("shapes 2 and 3"), "{error}");
    assert_eq!(sum.call(2, &[] as &[i32], &[7]).unwrap(), (vec![], vec![]));
    // What is in place is not returned.
    let step = trace(|g: In<f32>, m: InOut<f32>| m.set(m.get() + g)).unwrap();
    let mut m = vec![1.0_f32; 3];
    cpu(1).compile(&step).unwrap().call(&[1.0, 2.0, 3.0], &mut m).unwrap();
    assert_eq!(m, [2.0, 3.0, 4.0]);
}

#[test]
fn a_result_too_large_for_memory_is_refused_before_anything_runs() {
    let sum = cpu(1).compile(&trace(|x: In<f64>, y: In<f64>| x + y).unwrap()).unwrap();
    let one = [1.0];
    let wide = View::new(&one, Layout::strided(&[1 << 40, 1], &[0, 0], 0).unwrap());
    let tall = View::new(&one, Layout::strided(&[1 << 20], &[0], 0).unwrap());
    let error = sum.call(&wide, &tall).unwrap_err();
    assert!(error.to_string().contains("memory"), "{error}");
}

#[test]
fn a_tensor_written_in_place_is_passed_once() {
    let step = trace(|rate: Scalar<f32>, g: In<bf16>, m: InOut<f32>, p: InOut<f32>| {
        let next = 0.5 * m.get() + g;
        m.set(next);
        p.set(p.get() - rate * next);
    });
    for (threads, length) in [(1, 5), (2, LARGE)] {
        let step = cpu(threads).compile(step.as_ref().unwrap()).unwrap();
        let g = vec![bf16::ONE; length];
        let (mut m, mut p) = (vec![2.0; length], ramp(length));
        let before = p.clone();
        for _ in 0..2 {
            step.run(0.25, &g, &mut m, &mut p[..], ()).unwrap();
        }
        assert_eq!(m, vec![2.0; length]);
        assert!(p.iter().zip(&before).all(|(after, before)| *after == before - 1.0));
    }
}

#[test]
fn outputs_in_place_and_returned_keep_their_order() {
    // The graph's outputs: y's, then x's, then what is returned.
    let traced = trace(|x: InOut<i32>, z: In<i32>, y: InOut<i32>| {
        y.set(x.get() * 10);
        x.set(z + 1);
        (y.get() - z, x.get().lt(y.get()))
    });
    let kernel = cpu(1).compile(&traced.unwrap()).unwrap();
    let (mut x, z, mut y) = ([1, 2], [5, 6], [7, -8]);
    let (mut difference, mut less) = ([0; 2], [true; 2]);
    kernel.run(&mut x, &z, &mut y, (&mut difference, &mut less)).unwrap();
    assert_eq!((x, y), ([6, 7], [10, 20]));
    assert_eq!((difference, less), ([2, -14], [true, false]));
}

#[test]
fn a_writable_parameter_that_is_not_written_is_read() {
    let traced = trace(|x: InOut<f32>, y: In<f32>| x.get() * y).unwrap();
    let (mut x, mut out) = ([2.0, 3.0], [0.0; 2]);
    cpu(1).compile(&traced).unwrap().run(&mut x, &[10.0, 20.0], &mut out).unwrap();
    assert_eq!((x, out), ([2.0, 3.0], [20.0, 60.0]));
}

#[test]
fn bool_outputs_only_hold_0_and_1() {
    let traced = trace(|x: In<f32>, p: In<bool>, q: InOut<bool>, s: Scalar<bool>| {
        q.set(!q.get());
        let chosen = p.select(q.get(), x.lt(0.0));
        (p, x.lt(0.0) & p, (p ^ s) | q.get(), x.cast::<bool>(), chosen, s | s)
    });
    let traced = traced.unwrap();
    for cpu in [cpu(1), bypassing_caches()] {
        bools_are_0_or_1(&cpu.compile(&traced).unwrap());
    }
}

type Bools = (In<f32>, In<bool>, InOut<bool>, Scalar<bool>);
type SixBools = (In<bool>, In<bool>, In<bool>, In<bool>, In<bool>, Scalar<bool>);

fn bools_are_0_or_1(kernel: &Kernel<Bools, SixBools>) {
    let x: Vec<f32> = (0..600).map(|i| (i % 7) as f32 - 3.0).collect();
    let (p, before): (Vec<bool>, Vec<bool>) = (0..600).map(|i| (i % 2 == 0, i % 3 == 0)).unzip();
    let mut q = before.clone();
    let mut out: [Vec<bool>; 6] = std::array::from_fn(|_| vec![false; 600]);
    let [a, b, c, d, e, f] = &mut out;
    kernel.run(&x, &p, &mut q, true, (a, b, c, d, e, f)).unwrap();
    for i in 0..600 {
        let (x, p, old) = (x[i], p[i], before[i]);
        let chosen = if p { old } else { x < 0.0 };
        let expected = [p, (x < 0.0) & p, !p | old, x != 0.0, chosen, true];
        assert_eq!([0, 1, 2, 3, 4, 5].map(|output: usize| bytes(&out[output])[i]), expected.map(u8::from), "{i}");
        assert_eq!(bytes(&q)[i], u8::from(!old), "{i}");
    }
}

#[test]
fn views_are_broadcast_transposed_and_strided() {
    let traced = trace(|x: In<f32>, b: In<f32>| x + b).unwrap();
    for (threads, rows, columns) in [(1, 3, 5), (2, 301, 333)] {
        let add = cpu(threads).compile(&traced).unwrap();
        let x = ramp(rows * columns);
        let (per_row, per_column) = (ramp(rows), ramp(columns));
        let (wide, tall) = ([rows as u64, columns as u64], [rows as u64, 1]);
        let mut y = vec![0.0; rows * columns + 1];
        let coordinates = |i: usize| (i / columns, i % columns);

        let whole = View::shaped(&x, &wide).unwrap();
        add.run(&whole, &per_column, &mut ViewMut::shaped(&mut y, &wide).unwrap()).unwrap();
        assert!((0..x.len()).all(|i| y[i] == x[i] + per_column[coordinates(i).1]));

        let (column, shifted) = (View::shaped(&per_row, &tall).unwrap(), Layout::contiguous(&wide).unwrap());
        let shifted = shifted.offset_by(1).unwrap();
        add.run(&whole, &column, &mut ViewMut::new(&mut y, shifted)).unwrap();
        assert!((0..x.len()).all(|i| y[i + 1] == x[i] + per_row[coordinates(i).0]));

        let transposed = View::shaped(&x, &[columns as u64, rows as u64]).unwrap().transposed();
        add.run(&transposed, &[1.0], &mut ViewMut::shaped(&mut y, &wide).unwrap()).unwrap();
        assert!((0..x.len()).all(|i| y[i] == x[coordinates(i).1 * rows + coordinates(i).0] + 1.0));
    }
}

#[test]
fn wrong_tensors_are_refused_before_anything_is_written() {
    let traced = trace(|x: In<f32>, y: In<f32>| (x + y, x - y)).unwrap();
    let kernel = cpu(1).compile(&traced).unwrap();
    let (x, mut a, mut b) = (vec![1.0; 6], vec![7.0; 6], vec![7.0; 6]);
    let refused = kernel.run(&x, &x[..4], (&mut a, &mut b)).unwrap_err();
    assert!(matches!(refused, Error::Input { ref name, .. } if name == "x1"), "{refused}");
    let refused = kernel.run(&x, &x, (&mut a, &mut b[1..])).unwrap_err();
    assert!(matches!(refused, Error::Shape { ref name, .. } if name == "y1"), "{refused}");
    let folded = Layout::strided(&[6], &[0], 0).unwrap();
    let refused = kernel.run(&x, &x, (&mut a, &mut ViewMut::new(&mut b, folded))).unwrap_err();
    assert!(matches!(refused, Error::SharedElements(ref name) if name == "y1"), "{refused}");
    let beyond = View::new(&x, Layout::contiguous(&[6]).unwrap().offset_by(1).unwrap());
    let refused = kernel.run(&beyond, &x, (&mut a, &mut b)).unwrap_err();
    assert!(matches!(refused, Error::Short { bytes: 24, needed: 28, .. }), "{refused}");
    assert!(a.iter().chain(&b).all(|&element| element == 7.0));
    kernel.run(&x, &x, (&mut a, &mut b)).unwrap();
    assert_eq!((a[5], b[5]), (2.0, 0.0));
    let refused = Cpu::with_threads(0).unwrap_err();
    assert!(matches!(refused, Error::Fault(Fault::Invalid(_))), "{refused}");
}

/// Passes a slice of `bool` for an `f32` result.
struct Wrong<'b>(&'b mut [bool]);

impl Outputs<Expr<f32>> for Wrong<'_> {
    fn give<'s>(self, call: &mut call::Call<'s>)
    where
        Self: 's,
    {
        Outputs::<Expr<bool>>::give(self.0, call);
    }
}

#[test]
fn types_are_checked_against_foreign_implementations_of_the_traits() {
    let traced = trace(|x: In<f32>| x + 1.0).unwrap();
    let refused = cpu(1).compile(&traced).unwrap().run(&[1.0], Wrong(&mut [true; 4])).unwrap_err();
    assert!(matches!(refused, Error::Type { expected: DType::F32, given: DType::Bool, .. }), "{refused}");
}

#[test]
fn empty_tensors_do_nothing() {
    let traced = trace(|x: In<f64>| x.exp()).unwrap();
    let kernel = cpu(2).compile(&traced).unwrap();
    kernel.run(&Vec::new(), &mut Vec::new()).unwrap();
    let mut out = [3.0];
    kernel.run(&[] as &[f64], &mut out[..0]).unwrap();
    let (none, far) = (Layout::contiguous(&[4, 0]).unwrap(), Layout::contiguous(&[0]).unwrap().offset_by(9).unwrap());
    kernel.run(&View::new(&[1.0], far), &mut ViewMut::new(&mut out, none)).unwrap();
    assert_eq!(out, [3.0]);
    assert!(kernel.run(&[1.0, 2.0], &mut out[..0]).is_err());
}

#[test]
fn plans_are_reused_for_other_scalars_and_the_last_ones_are_kept() {
    let traced = trace(|a: Scalar<f32>, k: Scalar<i32>, x: In<f16>| (a * x, x + k)).unwrap();
    let kernel = cpu(1).compile(&traced).unwrap();
    let x = [f16::from_f32(2.0); 40];
    let (mut y, mut z) = ([f16::ZERO; 40], [f16::ZERO; 40]);
    for i in 0..5_i8 {
        kernel.run(f32::from(i), i32::from(i) * 2, &x, (&mut y, &mut z)).unwrap();
        assert_eq!((y[39].to_f32(), z[39].to_f32()), (f32::from(i) * 2.0, f32::from(i) * 2.0 + 2.0));
    }
    assert_eq!(kernel.expression.plans.enter(|set| set.plans().len()), 1);
    for length in 1..=40 {
        kernel.run(1.0, 1, &x[..length], (&mut y[..length], &mut z[..length])).unwrap();
    }
    let shapes = |set: &mut PlanSet| set.plans().iter().map(|plan| plan.layouts[0].shape()[0]).collect();
    let mut kept: Vec<u64> = kernel.expression.plans.enter(shapes);
    kept.sort_unstable();
    assert_eq!(kept, (25..=40).collect::<Vec<u64>>(), "the last plans must be kept");
}

#[test]
fn small_calls_stay_on_the_callers_thread() {
    let double = trace(|x: In<f32>| x * 2.0).unwrap();
    let exact = trace(|x: In<f64>| x.exp()).unwrap();
    let alone = |cpu: &Cpu, length: usize| {
        let double = cpu.compile(&double).unwrap();
        double.run(&ramp(length), &mut vec![0.0; length]).unwrap();
        let exact = cpu.compile(&exact).unwrap();
        exact.run(&vec![0.0; length], &mut vec![0.0; length]).unwrap();
        let first = |set: &mut PlanSet| set.plans()[0].alone;
        (double.expression.plans.enter(first), exact.expression.plans.enter(first))
    };
    assert_eq!(alone(&cpu(2), 1000), (true, true));
    assert_eq!(alone(&cpu(2), 10_000), (true, false), "functions count as bytes");
    assert_eq!(alone(&cpu(2), LARGE), (false, false));
    assert_eq!(alone(&cpu(1), LARGE), (true, true));
}

#[test]
fn threads_may_share_a_kernel_and_its_processors() {
    let traced = trace(|a: Scalar<f32>, x: In<f32>| a * x).unwrap();
    let shared = cpu(2).compile(&traced).unwrap();
    let own = shared.clone();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let kernel = if thread == 3 { &own } else { &shared };
            scope.spawn(move || {
                let before = allowed_cpus();
                for (call, length) in [10, LARGE, 11, LARGE + 1].into_iter().cycle().take(12).enumerate() {
                    let (x, a) = (ramp(length), (thread * 100 + call) as f32);
                    let mut y = vec![0.0; length];
                    kernel.run(a, &x, &mut y).unwrap();
                    assert!(x.iter().zip(&y).all(|(x, y)| *y == a * x));
                }
                assert_eq!(allowed_cpus(), before, "the caller's affinity must be restored");
            });
        }
    });
}

#[test]
fn a_cpu_has_all_cores_and_outlives_its_handle_in_kernels() {
    let (all, one) = (Cpu::new().unwrap(), Cpu::with_threads(1).unwrap());
    assert!(all.threads() >= 1 && one.threads() == 1);
    let traced = trace(|x: In<f32>| x + place()).unwrap();
    let kernel = all.compile(&traced).unwrap();
    let (x, mut y) = (vec![0.5; LARGE], vec![0.0; LARGE]);
    kernel.run(&x, &mut y).unwrap();
    drop(all);
    assert!(y.iter().enumerate().all(|(i, y)| *y == i as f32 + 0.5));
    kernel.run(&x, &mut y).unwrap();
}

/// Checks that a function of one tensor matches the oracle bitwise.
fn check_against_oracle<T>(values: &[T]) -> Result<(), TestCaseError>
where
    T: Lendable + Default + Promote<T, OfTensor, OfTensor, Out = T, Role = OfTensor>,
{
    let traced = trace(|x: In<T>, y: In<T>| (x * y - x, x.lt(y))).unwrap();
    let kernel = cpu(1).compile(&traced).unwrap();
    let shifted: Vec<T> = values.iter().rev().copied().collect();
    let (mut product, mut less) = (vec![T::default(); values.len()], vec![false; values.len()]);
    kernel.run(values, &shifted, (&mut product, &mut less)).unwrap();
    let layout = Layout::contiguous(&[values.len() as u64]).unwrap();
    let tensors = [values, &shifted].map(|memory| Tensor { memory: bytes(memory), layout: &layout });
    let expected = oracle::run(traced.graph(), layout.shape(), &tensors, &[], Precision::Carried).unwrap();
    for i in 0..values.len() {
        let found = T::DTYPE.read(bytes(&product), i as u64).unwrap();
        prop_assert!(found.is_same(expected[0][i]), "{}: {i}: {found:?} {:?}", T::DTYPE, expected[0][i]);
        prop_assert_eq!(Value::Bool(less[i]), expected[1][i]);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn results_of_any_length_are_complete(length in 0_usize..6000, offset in 0_usize..40, a in -4.0_f32..4.0, bypass: bool) {
        let traced = trace(|a: Scalar<f32>, x: In<f32>, y: InOut<f32>| {
            y.set(a * x + y.get());
            x.gt(a)
        });
        let (x, mut y) = (ramp(length), vec![1.5; offset + length + 3]);
        let mut greater = vec![true; offset + length + 3];
        let kernel = if bypass { bypassing_caches() } else { cpu(1) }.compile(&traced.unwrap()).unwrap();
        let inside = offset..offset + length;
        kernel.run(a, &x, &mut y[inside.clone()], &mut greater[inside]).unwrap();
        for (i, (&y, &greater)) in y.iter().zip(&greater).enumerate() {
            let inside = i.checked_sub(offset).and_then(|i| x.get(i));
            prop_assert_eq!(y, inside.map_or(1.5, |x| a * x + 1.5));
            prop_assert_eq!(greater, inside.is_none_or(|x| *x > a));
        }
    }

    #[test]
    fn every_type_matches_the_oracle_bitwise(bits in prop::collection::vec(any::<u64>(), 1..300)) {
        macro_rules! each {
            ($($type:ty: $from:expr;)*) => {
                $(check_against_oracle::<$type>(&bits.iter().map(|&bits| $from(bits)).collect::<Vec<_>>())?;)*
            };
        }
        each! {
            f64: f64::from_bits;
            f32: |bits| f32::from_bits(bits as u32);
            f16: |bits| f16::from_bits(bits as u16);
            bf16: |bits| bf16::from_bits(bits as u16);
            F8E4M3: |bits| F8E4M3::from_bits(bits as u8);
            F8E5M2: |bits| F8E5M2::from_bits(bits as u8);
            i8: |bits| bits as i8;
            i16: |bits| bits as i16;
            i32: |bits| bits as i32;
            i64: |bits| bits as i64;
            u8: |bits| bits as u8;
            u16: |bits| bits as u16;
            u32: |bits| bits as u32;
            u64: |bits| bits;
        }
    }
}

#[test]
fn untyped_calls_check_the_number_and_types_of_tensors() {
    let graph = plimsoll_expr::parse("scalar a: f32; in x: f32, m: f64; m = m + a*x; y = x < 0", &Default::default());
    let expression = cpu(1).expression(&graph.unwrap());
    let (x, mut m, mut y) = (vec![1.0_f32, -2.0], vec![10.0_f64, 20.0], vec![true; 2]);
    let a = [Value::Float(2.0)];
    let operands = [Operand::read(&x, None), Operand::write(&mut m, None), Operand::write(&mut y, None)];
    expression.run(operands, &a).unwrap();
    assert_eq!((&m[..], &y[..]), (&[12.0, 16.0][..], &[false, true][..]));

    let error = expression.run([Operand::read(&x, None)], &a).unwrap_err().to_string();
    assert_eq!(error, "the expression has 2 inputs, but 1 were given");
    let operands = [Operand::read(&x, None), Operand::read(&m, None), Operand::write(&mut y, None)];
    assert_eq!(expression.run(operands, &a).unwrap_err().to_string(), "'m' is written: pass it as a writable tensor");
    let operands = [Operand::read(&m, None), Operand::read(&m, None), Operand::write(&mut y, None)];
    assert_eq!(
        expression.run(operands, &a).unwrap_err().to_string(),
        "'x' is f32, but f64 was given: pass a tensor of f32, or declare 'x' as f64"
    );
    let many = (0..200).map(|_| Operand::read(&x, None));
    assert!(matches!(expression.run(many, &a), Err(Error::Count { expected: 3, given: 200, .. })));
    let operands = [Operand::read(&x, None), Operand::write(&mut m, None), Operand::write(&mut y, None)];
    assert!(matches!(expression.run(operands, &[]), Err(Error::Count { what: "scalars", .. })));
    assert_eq!((&m[..], &y[..]), (&[12.0, 16.0][..], &[false, true][..]));
}
