//! Accuracy of the functions in generated kernels: the promised error of each function, type and tier, and the comparison of
//! results with the oracle. Backends run the kernels over all inputs; the table is in `docs/mathematics.md`.

pub use plimsoll_expr::function::Function;
use plimsoll_expr::op::{Binary, Unary};
use plimsoll_expr::oracle::{Bound, Precision, apply};
use plimsoll_expr::{DType, ExprError, Graph, LastPlace, Node, Value};
use plimsoll_ir::lower::need::{self, Need};

use super::Tier;

/// The promised accuracy of one function in one type and tier.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Claim {
    /// The function.
    pub function: Function,
    /// The type of its operands and of its result.
    pub dtype: DType,
    /// The tier.
    pub tier: Tier,
    /// The largest error, in units of the last place of the true result in `dtype`; one half is correctly rounded.
    pub ulp: f64,
}

/// The largest error of f32 results in the tier `accurate`, in units of the last place. For CUDA's functions, the CUDA C++
/// Programming Guide, "Mathematical Functions Appendix", states errors relative to the correctly rounded result, so half a unit
/// is added for the error relative to the true value. `exp`, `log`, `erf` and `tanh` are promised to be within 2.
fn full(function: Function) -> f64 {
    match function {
        Function::Unary(op) => match op {
            Unary::Sqrt | Unary::Recip => 0.5,
            Unary::Expm1 | Unary::Log2 | Unary::Log1p => 1.5,
            Unary::Exp | Unary::Log | Unary::Erf | Unary::Tanh => 2.0,
            Unary::Sinh | Unary::Asinh | Unary::Atanh => 3.5,
            Unary::Acosh | Unary::Erfc => 4.5,
            // Composed in this crate: the worst of all 2³² operands on an H200, plus a margin. Near the subnormals, e^x is
            // computed as the square of e^(x/2), which doubles its error.
            Unary::Softplus => 4.0,
            Unary::Sigmoid => 4.5,
            Unary::Silu | Unary::Mish => 5.5,
            Unary::GeluTanh => 6.0,
            Unary::Gelu => 8.5,
            _ => 2.5,
        },
        Function::Binary(Binary::Pow) => 4.5,
        Function::Binary(Binary::Atan2) => 3.5,
        Function::Binary(_) => 0.5,
    }
}

/// The largest error of f32 results in the tier `fast`, in units of the last place.
fn fast(function: Function) -> f64 {
    match function {
        Function::Unary(op) => match op {
            Unary::Sqrt | Unary::Rsqrt | Unary::Recip | Unary::Exp2 => 2.5,
            Unary::Sin | Unary::Cos => 4.0,
            Unary::Log | Unary::Log2 | Unary::Log10 | Unary::Log1p | Unary::Expm1 => 64.0,
            Unary::Tanh | Unary::Sinh | Unary::Asinh | Unary::Atanh | Unary::Atan | Unary::Acosh | Unary::Erf => 64.0,
            // The error of x·log₂ e grows with x, and the error of x² grows faster.
            Unary::Gelu | Unary::GeluTanh => 512.0,
            _ => 256.0,
        },
        Function::Binary(Binary::Div) => 2.5,
        other => full(other),
    }
}

/// What kernels of a tier compute: in every tier but `exact`, sums take in products.
#[must_use]
pub fn meaning(graph: &Graph, tier: Tier) -> Graph {
    if tier == Tier::Exact { graph.clone() } else { graph.with_fused_products() }
}

/// The error bound of every node's function, as used in kernel bodies; `graph` is the [`meaning`] of an expression. Functions
/// whose results become 16-bit floats may be off by the promised error minus the half unit of the final rounding. In f64 the bound is the worst that CUDA publishes (`erfc`:
/// 5 units from the correctly rounded result); functions composed in this crate keep their f32 bound.
#[must_use]
pub fn bounds(graph: &Graph, tier: Tier) -> Vec<Bound> {
    let bound = |(node, need): (&Node, Need)| {
        let carrier = node.dtype.carrier();
        let Some(function) = Function::from_node(node) else { return Bound { ulp: 0.5, dtype: carrier } };
        let correct = full(function) == 0.5;
        let narrow = tier == Tier::Fast || (tier != Tier::Full && need != Need::Full);
        let divides = function == Function::Binary(Binary::Div);
        let (ulp, dtype) = match (carrier, need) {
            (DType::F64, _) if correct => (0.5, carrier),
            (DType::F64, _) => (full(function).max(5.5), carrier),
            _ if !narrow => (full(function), carrier),
            _ if correct && tier == Tier::Exact => (0.5, carrier),
            (_, Need::Bf16 | Need::F16) if correct && !divides => (0.5, carrier),
            (_, Need::Bf16) => (SMALL - 0.5, DType::Bf16),
            (_, Need::F16) => (SMALL - 0.5, DType::F16),
            (_, Need::Wide | Need::Full) => (fast(function), carrier),
        };
        Bound { ulp, dtype }
    };
    graph.nodes().iter().zip(need::needs(graph)).map(bound).collect()
}

/// Whether kernels of a tier give exactly one result: all functions of its meaning are correctly rounded to their carriers.
#[must_use]
pub fn is_exact(meaning: &Graph, tier: Tier) -> bool {
    let rounds = |(node, bound): (&Node, Bound)| bound.ulp <= 0.5 && bound.dtype == node.dtype.carrier();
    meaning.nodes().iter().zip(bounds(meaning, tier)).all(rounds)
}

/// The largest error of results in 16 bits.
const SMALL: f64 = 0.65;

/// Every promise, by function, type and tier.
#[must_use]
pub fn claims() -> Vec<Claim> {
    let mut claims = Vec::new();
    for function in Function::list() {
        for (dtype, tier) in [
            (DType::F32, Tier::Accurate),
            (DType::F32, Tier::Fast),
            (DType::F16, Tier::Accurate),
            (DType::Bf16, Tier::Accurate),
        ] {
            let ulp = match (dtype, tier) {
                (DType::F32, Tier::Accurate) => full(function),
                (DType::F32, Tier::Fast) => fast(function),
                _ => SMALL,
            };
            claims.push(Claim { function, dtype, tier, ulp });
        }
    }
    claims
}

/// Errors of results relative to the true values.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Errors {
    /// Number of results compared.
    pub compared: u64,
    /// Number of wrong results: NaN, infinite, zero or negative where the true value isn't, or the other way round.
    pub wrong: u64,
    /// Operand bits of the first wrong result.
    pub first_wrong: Option<[u64; 2]>,
    /// The largest error of the other results, in units of the last place of the true value.
    pub worst: f64,
    /// Operand bits of the largest error.
    pub worst_at: [u64; 2],
}

impl Errors {
    /// The errors of both sets of results together.
    #[must_use]
    pub fn merge(self, other: Self) -> Self {
        let worse = if other.worst > self.worst { other } else { self };
        Self {
            compared: self.compared + other.compared,
            wrong: self.wrong + other.wrong,
            first_wrong: self.first_wrong.or(other.first_wrong),
            worst: worse.worst,
            worst_at: worse.worst_at,
        }
    }

    /// True if no result is wrong and no error exceeds `ulp`.
    #[must_use]
    pub fn is_within(&self, ulp: f64) -> bool {
        self.wrong == 0 && self.worst <= ulp
    }

    fn add(&mut self, at: [u64; 2], error: Option<f64>) {
        self.compared += 1;
        match error {
            None => {
                self.wrong += 1;
                self.first_wrong.get_or_insert(at);
            }
            Some(error) if error > self.worst => (self.worst, self.worst_at) = (error, at),
            Some(_) => {}
        }
    }
}

impl Claim {
    /// Compares results with the oracle. `operands` are the little-endian bytes of each operand and `results` those of the
    /// results, as elements of type [`Claim::dtype`]; elements beyond the shortest array are ignored. Takes about 50 ns per
    /// element: split the work over threads and combine with [`Errors::merge`].
    ///
    /// # Errors
    /// If the type can't be an operand of the function; never for the claims of [`claims`].
    pub fn compare(&self, operands: &[&[u8]], results: &[u8]) -> Result<Errors, ExprError> {
        let graph = self.function.graph(self.dtype)?;
        let kind = graph.outputs().first().and_then(|output| graph.node(output.node)).map(|node| node.kind);
        let kind = kind.ok_or(ExprError::NoOutput)?;
        let size = self.dtype.bytes() as usize;
        let place = LastPlace::new(self.dtype);
        let mut errors = Errors::default();
        let second = operands.get(1).copied().unwrap_or(operands[0]);
        let elements = operands[0].chunks_exact(size).zip(second.chunks_exact(size)).zip(results.chunks_exact(size));
        for ((a, b), result) in elements {
            let at = [bits(a), bits(b)];
            let values = at.map(|bits| place.decode(bits));
            let values = values.map(Value::Float);
            let right = apply(kind, self.dtype, DType::F32, &values[..self.function.operands()], Precision::Wide);
            errors.add(at, place.error(right.as_f64(), place.decode(bits(result))));
        }
        Ok(errors)
    }
}

/// Little-endian bytes as a word.
fn bits(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |bits, &byte| bits << 8 | u64::from(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documentation_page_lists_the_same_bounds() {
        let page = include_str!("../../../../docs/mathematics.md");
        let promised = |function, dtype, tier| {
            let found = claims().into_iter().find(|c| (c.function, c.dtype, c.tier) == (function, dtype, tier));
            found.map_or(0.0, |claim| claim.ulp)
        };
        for function in Function::list() {
            let [full, fast] = [Tier::Accurate, Tier::Fast].map(|tier| promised(function, DType::F32, tier));
            let row = format!("| {} | {full} | {fast} | 0.65 |", function.name());
            assert!(page.contains(&row), "docs/mathematics.md should have the row {row}");
        }
    }

    #[test]
    fn comparison_reports_largest_error_and_wrong_results() {
        let claims = claims();
        let claim =
            claims.iter().find(|claim| claim.function == Function::Unary(Unary::Exp) && claim.dtype == DType::F32);
        let Some(claim) = claim else { panic!("exp is promised") };
        let memory = |values: [f32; 3]| values.map(f32::to_le_bytes).concat();
        let operands = memory([0.0, 1.0, f32::NAN]);
        let near = claim.compare(&[&operands], &memory([1.0, std::f32::consts::E, f32::NAN]));
        assert!(near.is_ok_and(|errors| errors.compared == 3 && errors.is_within(0.5)));
        let far = claim.compare(&[&operands], &memory([1.0 + f32::EPSILON, std::f32::consts::E, 0.0]));
        assert!(far.is_ok_and(|errors| errors.wrong == 1 && errors.worst == 1.0 && errors.worst_at == [0, 0]));
    }
}
