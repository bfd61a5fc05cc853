//! Single functions: as expressions, and with operands to test them on.

use crate::graph::{Builder, ExprError, Graph, Kind, Node};
use crate::op::{Binary, Domain, Unary};
use crate::{DType, Value};

/// A function that takes more than a few instructions, or isn't exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Function {
    /// A function of one operand.
    Unary(Unary),
    /// A function of two operands.
    Binary(Binary),
}

impl Function {
    /// Every function that isn't exact in every type; functions of one operand come first.
    #[must_use]
    pub fn list() -> Vec<Self> {
        let unary = Unary::ALL.iter().filter(|op| op.domain() == Domain::Float).map(|op| Self::Unary(*op));
        unary.chain([Self::Binary(Binary::Div), Self::Binary(Binary::Pow), Self::Binary(Binary::Atan2)]).collect()
    }

    /// The function that a node computes; `None` if the node is exact.
    #[must_use]
    pub fn from_node(node: &Node) -> Option<Self> {
        match node.kind {
            Kind::Unary(op, _) if op.domain() == Domain::Float => Some(Self::Unary(op)),
            Kind::Binary(op @ (Binary::Div | Binary::Pow | Binary::Atan2), _) if node.dtype.is_float() => {
                Some(Self::Binary(op))
            }
            _ => None,
        }
    }

    /// The name in text.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unary(op) => op.name(),
            Self::Binary(op) => op.name(),
        }
    }

    /// The number of operands.
    #[must_use]
    pub const fn operands(self) -> usize {
        match self {
            Self::Unary(_) => 1,
            Self::Binary(_) => 2,
        }
    }

    /// The function as an expression `y = f(x)`, with one input per operand, all of type `dtype`.
    ///
    /// # Errors
    /// If `dtype` isn't a float.
    pub fn graph(self, dtype: DType) -> Result<Graph, ExprError> {
        let mut builder = Builder::new();
        let x = builder.input("x", dtype)?;
        let y = match self {
            Self::Unary(op) => builder.unary(op, x)?,
            Self::Binary(op) => {
                let b = builder.input("b", dtype)?;
                builder.binary(op, x, b)?
            }
        };
        builder.output("y", y, Some(dtype))?;
        builder.finish()
    }
}

/// The `k`-th pair of an endless sequence of operands in `dtype`, as bits. Pairs are arbitrary bits; every second pair has a
/// first operand near 1, where powers are most sensitive.
#[must_use]
pub fn operand_pair(dtype: DType, k: u64) -> [u64; 2] {
    let ones = u64::MAX >> (64 - 8 * dtype.bytes());
    let (first, second) = (mix(k) & ones, mix(!k));
    if k.is_multiple_of(2) {
        return [first, second & ones];
    }
    let one = dtype.encode(Value::Float(1.0));
    [one.wrapping_add(second % 64).wrapping_sub(32) & ones, first]
}

/// Pseudorandom bits: one SplitMix64 step from `bits` (Steele, Lea and Flood, 2014).
#[must_use]
pub fn mix(mut bits: u64) -> u64 {
    bits = bits.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_makes_an_expression_with_one_input_per_operand() {
        for function in Function::list() {
            let graph = function.graph(DType::F16).unwrap();
            assert_eq!(graph.inputs().len(), function.operands(), "{}", function.name());
        }
    }

    #[test]
    fn every_second_pair_has_a_first_operand_near_one() {
        for k in 0..1000 {
            let [first, second] = operand_pair(DType::Bf16, k).map(|bits| DType::Bf16.decode(bits).as_f64());
            assert!(k.is_multiple_of(2) || (0.7..1.5).contains(&first), "{k}: {first} {second}");
        }
        assert!(operand_pair(DType::F32, 0).iter().all(|bits| *bits <= u64::from(u32::MAX)));
    }
}
