//! Functions of f32 with AVX-512 whose coefficients are looked up in registers: polynomials on 32 intervals, four to each power of two.
//! They are for odd functions that rise to 1: no exponential, no division, and no other form near 0.

use std::arch::x86_64::{
    __m512, _CMP_GE_OQ, _mm512_and_epi32, _mm512_castps_si512, _mm512_castsi512_ps, _mm512_cmp_ps_mask,
    _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_mask_blend_ps, _mm512_mask_storeu_ps, _mm512_maskz_and_epi32,
    _mm512_maskz_loadu_ps, _mm512_maskz_sub_epi32, _mm512_min_ps, _mm512_permutex2var_ps, _mm512_set1_epi32,
    _mm512_set1_ps, _mm512_srli_epi32, _mm512_sub_ps, _mm512_ternarylogic_epi32,
};
use std::f64::consts::PI;
use std::sync::LazyLock;

use super::loops::{Arguments, Function};

/// Elements of a vector.
const LANES: usize = 16;
const INTERVALS: usize = 32;
/// Coefficients of a polynomial.
const TERMS: usize = 7;
/// Bits of an f32 below those that tell the intervals apart: two of the significand do.
const BELOW: u32 = 21;
/// The sign of an f32.
const SIGN: i32 = i32::MIN;

/// An odd function that rises to 1.
pub(super) trait Rising {
    /// The end of the first interval, which begins at 0: a power of two.
    const FIRST: f32;
    /// From here on the function rounds to 1. It is in the last interval or before it.
    const LAST: f32;
    /// The function in f64.
    fn exact(x: f64) -> f64;
    /// Its coefficients.
    fn table() -> &'static Table;
}

/// The coefficients of all intervals, by their power of the distance to the interval's start.
pub(super) struct Table([[f32; INTERVALS]; TERMS]);

/// Names a function.
macro_rules! rising {
    ($($(#[$about:meta])* $name:ident: $exact:path, $first:literal, $last:literal;)*) => {$(
        $(#[$about])*
        pub(super) struct $name;

        impl Rising for $name {
            const FIRST: f32 = $first;
            const LAST: f32 = $last;

            fn exact(x: f64) -> f64 {
                $exact(x)
            }

            fn table() -> &'static Table {
                static TABLE: LazyLock<Table> = LazyLock::new(Table::new::<$name>);
                &TABLE
            }
        }
    )*};
}

rising! {
    /// tanh x.
    Tanh: libm::tanh, 0.0625, 12.0;
    /// The error function.
    Erf: libm::erf, 0.03125, 4.0;
}

/// Where an interval begins.
fn begin<F: Rising>(interval: usize) -> f32 {
    match interval {
        0 => 0.0,
        _ => f32::from_bits(F::FIRST.to_bits() + ((interval as u32 - 1) << BELOW)),
    }
}

impl Table {
    /// Interpolates the function at the Chebyshev nodes of each interval, in f64. In the first interval the sum is f(x) − x, so that its error
    /// hardly counts: there f(x)/x − 1 is interpolated.
    fn new<F: Rising>() -> Self {
        let mut table = [[0.0; INTERVALS]; TERMS];
        for interval in 0..INTERVALS {
            let (from, to) = (f64::from(begin::<F>(interval)), f64::from(begin::<F>(interval + 1)));
            let is_first = interval == 0;
            let value = |part: f64| {
                let x = from + part * (to - from);
                if is_first { F::exact(x) / x - 1.0 } else { F::exact(x) }
            };
            let coefficients = interpolate(TERMS - usize::from(is_first), value);
            let rows = table.iter_mut().skip(usize::from(is_first));
            for (power, (row, coefficient)) in rows.zip(coefficients).enumerate() {
                row[interval] = (coefficient / (to - from).powi(power as i32)) as f32;
            }
        }
        Self(table)
    }
}

/// The coefficients of the polynomial that meets a function at the Chebyshev nodes of 0 to 1: by Newton's divided differences.
fn interpolate(terms: usize, value: impl Fn(f64) -> f64) -> Vec<f64> {
    let node = |place: usize| 0.5 - 0.5 * (PI * (2 * place + 1) as f64 / (2 * terms) as f64).cos();
    let nodes: Vec<f64> = (0..terms).map(node).collect();
    let mut differences: Vec<f64> = nodes.iter().map(|&at| value(at)).collect();
    for order in 1..terms {
        for place in (order..terms).rev() {
            differences[place] = (differences[place] - differences[place - 1]) / (nodes[place] - nodes[place - order]);
        }
    }
    // d₀ + (x − x₀)(d₁ + (x − x₁)(d₂ + …)), multiplied out from the inside.
    let mut coefficients = vec![0.0; terms];
    for place in (0..terms).rev() {
        for power in (1..terms).rev() {
            coefficients[power] = coefficients[power - 1] - nodes[place] * coefficients[power];
        }
        coefficients[0] = differences[place] - nodes[place] * coefficients[0];
    }
    coefficients
}

/// The loop of a function, for [`super::Set::Avx512`].
pub(super) fn function<F: Rising>() -> Function {
    run::<F>
}

/// # Safety
/// That of [`Function`]: the machine has AVX-512, and the elements are there.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn run<F: Rising>(arguments: &Arguments<'_>) {
    let Arguments { n, out, operands: [x, ..], ahead, .. } = *arguments;
    let (out, x) = (out.cast::<f32>(), x.cast::<f32>());
    let rows = &F::table().0;
    // SAFETY: each half of a row has 16 numbers.
    let half = |row: usize, half: usize| unsafe { _mm512_loadu_ps(rows[row].as_ptr().add(LANES * half)) };
    let table: [[__m512; 2]; TERMS] = std::array::from_fn(|row| [half(row, 0), half(row, 1)]);
    let mut done = 0;
    while done < n {
        for input in ahead {
            input.fetch(done, LANES);
        }
        let left = n - done;
        let lanes = if left < LANES { (1 << left) - 1 } else { u16::MAX };
        // SAFETY: the caller promises n elements and n results; the mask leaves out those behind them.
        unsafe {
            let value = apply::<F>(_mm512_maskz_loadu_ps(lanes, x.add(done)), &table);
            _mm512_mask_storeu_ps(out.add(done), lanes, value);
        }
        done += LANES;
    }
}

/// The function of 16 elements.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn apply<F: Rising>(x: __m512, table: &[[__m512; 2]; TERMS]) -> __m512 {
    let sign = _mm512_set1_epi32(SIGN);
    let magnitude = _mm512_castsi512_ps(_mm512_and_epi32(_mm512_castps_si512(x), _mm512_set1_epi32(!SIGN)));
    // The minimum is its second operand if either is NaN.
    let bounded = _mm512_min_ps(_mm512_set1_ps(F::LAST), magnitude);
    let bits = _mm512_castps_si512(bounded);
    let is_later = _mm512_cmp_ps_mask::<_CMP_GE_OQ>(bounded, _mm512_set1_ps(F::FIRST));
    let before = (F::FIRST.to_bits() >> BELOW) as i32 - 1;
    let interval = _mm512_maskz_sub_epi32(is_later, _mm512_srli_epi32::<BELOW>(bits), _mm512_set1_epi32(before));
    let begin = _mm512_maskz_and_epi32(is_later, bits, _mm512_set1_epi32(-(1 << BELOW)));
    let distance = _mm512_sub_ps(bounded, _mm512_castsi512_ps(begin));
    let look_up = |row: &[__m512; 2]| _mm512_permutex2var_ps(row[0], interval, row[1]);
    let mut sum = look_up(&table[TERMS - 1]);
    for row in table[1..TERMS - 1].iter().rev() {
        sum = _mm512_fmadd_ps(sum, distance, look_up(row));
    }
    let constant = _mm512_mask_blend_ps(is_later, bounded, look_up(&table[0]));
    let sum = _mm512_fmadd_ps(sum, distance, constant);
    // The sum has no sign: sum | (x & sign).
    let signed = _mm512_ternarylogic_epi32::<0b1111_1000>(_mm512_castps_si512(sum), _mm512_castps_si512(x), sign);
    _mm512_castsi512_ps(signed)
}

#[cfg(test)]
mod tests {
    use plimsoll_expr::DType;
    use plimsoll_expr::op::Unary;

    use super::*;
    use crate::arch::best;
    use crate::arch::vectored::Set;
    use crate::arch::vectored::operation::unary;

    /// erf by its Taylor series. The terms grow to e^16/√(2π·16) at 4, so up to there it is right to 10 digits.
    fn erf_by_series(x: f64) -> f64 {
        let mut term = x;
        let mut sum = x;
        for n in 1..120 {
            term *= -x * x / f64::from(n);
            sum += term / f64::from(2 * n + 1);
        }
        sum * std::f64::consts::FRAC_2_SQRT_PI
    }

    /// The values of a function in the machine's best set.
    fn apply(op: Unary, x: &[f32]) -> Vec<f32> {
        let operation = unary(Set::from_isa(best()).unwrap(), op, DType::F32).unwrap();
        let mut out = vec![7.0_f32; x.len() + 1];
        let operands = [x.as_ptr().cast(), std::ptr::null(), std::ptr::null()];
        let arguments = Arguments { n: x.len(), out: out.as_mut_ptr().cast(), operands, ahead: &[], past: None };
        // SAFETY: the machine has the set; both lists have n elements and don't overlap.
        unsafe { (operation.function)(&arguments) };
        assert_eq!(out.pop(), Some(7.0), "an element too many was written");
        out
    }

    #[test]
    fn functions_are_within_a_unit_and_a_half_on_all_intervals_and_their_ends() {
        for op in [Unary::Tanh, Unary::Erf] {
            let exact = |x: f64| if op == Unary::Tanh { x.tanh() } else { erf_by_series(x) };
            // Every 997th number from 2⁻³⁰ to 4 or 12, and the neighbours of powers of two and of their quarters.
            let last: f32 = if op == Unary::Tanh { 12.0 } else { 4.0 };
            let dense = (0x3080_0000..last.to_bits()).step_by(997);
            let ends = (0x3080_0000..=last.to_bits()).step_by(1 << BELOW).flat_map(|bits| bits - 3..bits + 3);
            let x: Vec<f32> = dense.chain(ends).map(f32::from_bits).flat_map(|x| [x, -x]).collect();
            for (&x, y) in x.iter().zip(apply(op, &x)) {
                let expected = exact(f64::from(x));
                let unit = f64::from((expected as f32).abs().next_up() - (expected as f32).abs());
                assert!((f64::from(y) - expected).abs() <= 1.5 * unit, "{op:?} of {x:e}: {y:e}, {expected:e}");
            }
        }
    }

    #[test]
    fn zeros_infinities_nan_and_tiny_numbers_follow_the_standard() {
        for op in [Unary::Tanh, Unary::Erf] {
            let y = apply(
                op,
                &[0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, -f32::NAN, 1e30, -1e-40, 4.5, -20.0],
            );
            assert_eq!(y[..2].iter().map(|y| y.to_bits()).collect::<Vec<_>>(), [0, 1 << 31]);
            assert_eq!(y[2..4], [1.0, -1.0]);
            assert!(y[4].is_nan() && y[5].is_nan());
            assert_eq!((y[6], y[9]), (1.0, -1.0));
            assert!(y[7] < 0.0 && y[7] > -1.2e-40 && y[8] > 0.999, "{y:?}");
        }
    }

    #[test]
    fn every_number_of_elements_is_computed_and_no_more() {
        let all: Vec<f32> = (0..70).map(|i| 0.1 * i as f32 - 3.0).collect();
        let whole = apply(Unary::Tanh, &all);
        for n in 0..all.len() {
            assert_eq!(apply(Unary::Tanh, &all[..n]), whole[..n]);
        }
    }
}
