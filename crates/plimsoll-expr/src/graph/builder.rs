//! Builds a graph node by node: checks types, inserts the conversions that promotion requires, folds constants, and reuses
//! equal nodes.

use std::collections::HashMap;

use super::error::ExprError;
use super::{Kind, MAX_INPUTS, MAX_NODES, MAX_RANK, MAX_SCALARS, Node, NodeId, Output, Parameter};
use crate::dtype::{DType, Strength, common};
use crate::op::{Binary, Comparison, Domain, Unary};
use crate::oracle::{Precision, apply};
use crate::value::Value;

/// Reserved words.
const RESERVED: [&str; 7] = ["in", "scalar", "let", "true", "false", "inf", "nan"];

/// Whether `text` may name a parameter, an output or a value.
#[must_use]
pub fn is_name(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
        && text.len() <= 64
        && text != "pi"
        && !RESERVED.contains(&text)
}

/// An expression under construction. Methods that add a node return its id, or the id of an equal node that exists already.
/// An id from another builder gives [`ExprError::ForeignHandle`] if it is out of range, and otherwise means an unrelated node.
#[derive(Clone, Debug, Default)]
pub struct Builder {
    pub(super) nodes: Vec<Node>,
    known: HashMap<Node, NodeId>,
    pub(super) inputs: Vec<Parameter>,
    pub(super) scalars: Vec<Parameter>,
    pub(super) outputs: Vec<Output>,
}

impl Builder {
    /// An empty expression.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Declares an input tensor.
    ///
    /// # Errors
    /// If `name` is invalid or taken, or there are too many inputs.
    pub fn input(&mut self, name: &str, dtype: DType) -> Result<NodeId, ExprError> {
        let place = self.inputs.len();
        let input = self.parameter(name, dtype, place < MAX_INPUTS, ExprError::TooManyInputs)?;
        self.inputs.push(input);
        self.push(Kind::Input(place as u32), dtype, Strength::Tensor)
    }

    /// Declares a run-time scalar.
    ///
    /// # Errors
    /// If `name` is invalid or taken, or there are too many scalars.
    pub fn scalar(&mut self, name: &str, dtype: DType) -> Result<NodeId, ExprError> {
        let place = self.scalars.len();
        let scalar = self.parameter(name, dtype, place < MAX_SCALARS, ExprError::TooManyScalars)?;
        self.scalars.push(scalar);
        self.push(Kind::Scalar(place as u32), dtype, Strength::Scalar)
    }

    /// A parameter with a new name, if there is room for it.
    fn parameter(&self, name: &str, dtype: DType, fits: bool, too_many: ExprError) -> Result<Parameter, ExprError> {
        if !fits {
            return Err(too_many);
        }
        self.check_name(name)?;
        Ok(Parameter { name: name.to_owned(), dtype })
    }

    /// Number of input tensors declared so far.
    #[must_use]
    pub fn input_count(&self) -> usize {
        self.inputs.len()
    }

    /// Number of scalars declared so far.
    #[must_use]
    pub fn scalar_count(&self) -> usize {
        self.scalars.len()
    }

    /// Number of outputs declared so far.
    #[must_use]
    pub fn output_count(&self) -> usize {
        self.outputs.len()
    }

    fn check_name(&self, name: &str) -> Result<(), ExprError> {
        if !is_name(name) {
            return Err(ExprError::Name(name.to_owned()));
        }
        let taken = self.inputs.iter().chain(&self.scalars).any(|parameter| parameter.name == name)
            || self.outputs.iter().any(|output| output.name == name);
        if taken { Err(ExprError::Taken(name.to_owned())) } else { Ok(()) }
    }

    /// An untyped constant: f64, i64 (u64 above the range of i64) or `bool` until it is combined with an operand.
    ///
    /// # Errors
    /// If an integer fits neither i64 nor u64.
    pub fn literal(&mut self, value: Value) -> Result<NodeId, ExprError> {
        let dtype = match value {
            Value::Float(_) => DType::F64,
            Value::Int(i) if i > i128::from(i64::MAX) => DType::U64,
            Value::Int(_) => DType::I64,
            Value::Bool(_) => DType::Bool,
        };
        self.constant(value, dtype, Strength::Literal)
    }

    /// A constant of type `dtype`, rounded to it.
    ///
    /// # Errors
    /// If `dtype` is an integer type and the integer is out of its range.
    pub fn typed(&mut self, value: Value, dtype: DType) -> Result<NodeId, ExprError> {
        self.constant(value, dtype, Strength::Scalar)
    }

    fn constant(&mut self, value: Value, dtype: DType, strength: Strength) -> Result<NodeId, ExprError> {
        if let (Value::Int(i), Some((low, high))) = (value, dtype.range())
            && dtype.is_int()
            && !(low..=high).contains(&i)
        {
            return Err(ExprError::Range { value: i.to_string(), dtype });
        }
        self.push(Kind::Constant(dtype.encode(value)), dtype, strength)
    }

    /// The element's row-major index in the shape, i64.
    ///
    /// # Errors
    /// If there are too many nodes.
    pub fn place(&mut self) -> Result<NodeId, ExprError> {
        self.push(Kind::Place, DType::I64, Strength::Tensor)
    }

    /// The element's coordinate along `dimension` (0 is the slowest), i64.
    ///
    /// # Errors
    /// If `dimension` is [`MAX_RANK`] or more.
    pub fn coordinate(&mut self, dimension: u64) -> Result<NodeId, ExprError> {
        if dimension >= MAX_RANK as u64 {
            return Err(ExprError::Dimension(dimension));
        }
        self.push(Kind::Coordinate(dimension as u8), DType::I64, Strength::Tensor)
    }

    /// An operation of one operand.
    ///
    /// # Errors
    /// If the operation doesn't support the operand's type.
    pub fn unary(&mut self, op: Unary, a: NodeId) -> Result<NodeId, ExprError> {
        let (dtype, strength) = self.type_of(a)?;
        let in_type = operand_type(op.domain(), op.name(), dtype, strength)?;
        if op.domain() == Domain::Rounding && dtype.is_int() {
            return Ok(a);
        }
        let a = self.convert(a, in_type, strength)?;
        self.push(Kind::Unary(op, a), in_type, strength)
    }

    /// An operation of two operands, which are promoted to their common type.
    ///
    /// # Errors
    /// If the operation doesn't support that type.
    pub fn binary(&mut self, op: Binary, a: NodeId, b: NodeId) -> Result<NodeId, ExprError> {
        let (dtype, strength) = common(self.type_of(a)?, self.type_of(b)?);
        let in_type = operand_type(op.domain(), op.name(), dtype, strength)?;
        let operands = [self.convert(a, in_type, strength)?, self.convert(b, in_type, strength)?];
        self.push(Kind::Binary(op, operands), in_type, strength)
    }

    /// A comparison of two operands in their common type; `bool` values compare as 0 and 1.
    ///
    /// # Errors
    /// If there are too many nodes, or a literal is out of range for the common type.
    pub fn compare(&mut self, op: Comparison, a: NodeId, b: NodeId) -> Result<NodeId, ExprError> {
        let (dtype, strength) = common(self.type_of(a)?, self.type_of(b)?);
        let operands = [self.convert(a, dtype, strength)?, self.convert(b, dtype, strength)?];
        self.push(Kind::Compare(op, operands), DType::Bool, strength)
    }

    /// a·b + c in the common type of the three, with one rounding for floats.
    ///
    /// # Errors
    /// If that type is `bool`.
    pub fn fma(&mut self, a: NodeId, b: NodeId, c: NodeId) -> Result<NodeId, ExprError> {
        let (dtype, strength) = common(common(self.type_of(a)?, self.type_of(b)?), self.type_of(c)?);
        let in_type = operand_type(Domain::Number, "fma", dtype, strength)?;
        let [a, b, c] = [a, b, c].map(|id| self.convert(id, in_type, strength));
        self.push(Kind::Fma([a?, b?, c?]), in_type, strength)
    }

    /// `a` where `condition` is true, else `b`, in the common type of the two.
    ///
    /// # Errors
    /// If the condition isn't `bool`.
    pub fn select(&mut self, condition: NodeId, a: NodeId, b: NodeId) -> Result<NodeId, ExprError> {
        let (condition_type, condition_strength) = self.type_of(condition)?;
        if condition_type != DType::Bool {
            return Err(ExprError::Condition(condition_type));
        }
        let (mut dtype, mut strength) = common(self.type_of(a)?, self.type_of(b)?);
        if strength == Strength::Literal && condition_strength != Strength::Literal {
            // The choice depends on a run-time value, so the literals need a type.
            (dtype, strength) = (default_type(dtype), Strength::Scalar);
        }
        let condition = match strength {
            Strength::Literal => condition,
            _ => self.convert(condition, condition_type, strength)?,
        };
        let operands = [condition, self.convert(a, dtype, strength)?, self.convert(b, dtype, strength)?];
        self.push(Kind::Select(operands), dtype, strength)
    }

    /// `x` limited to `low` … `high`: min(max(x, low), high). NaN if any of the three is NaN.
    ///
    /// # Errors
    /// If one of the three is `bool`.
    pub fn clamp(&mut self, x: NodeId, low: NodeId, high: NodeId) -> Result<NodeId, ExprError> {
        let floored = self.binary(Binary::Max, x, low)?;
        self.binary(Binary::Min, floored, high)
    }

    /// `a` rounded to `dtype`; `a` itself if it is already a value of that type.
    ///
    /// # Errors
    /// If there are too many nodes.
    pub fn cast(&mut self, a: NodeId, dtype: DType) -> Result<NodeId, ExprError> {
        let node = *self.node(a)?;
        if let Some(value) = node.constant() {
            return self.push(Kind::Constant(dtype.encode(value)), dtype, Strength::Scalar);
        }
        let exact = matches!(node.kind, Kind::Input(_) | Kind::Scalar(_) | Kind::Cast(_));
        if node.dtype == dtype && (exact || dtype.carrier() == dtype) {
            return Ok(a);
        }
        self.push(Kind::Cast(a), dtype, node.strength)
    }

    /// The type and the strength of a node.
    ///
    /// # Errors
    /// If this builder has no such node.
    pub fn type_of(&self, id: NodeId) -> Result<(DType, Strength), ExprError> {
        self.node(id).map(|node| (node.dtype, node.strength))
    }

    /// The value of a non-negative integer constant.
    pub(crate) fn whole_literal(&self, id: NodeId) -> Option<u64> {
        match self.nodes.get(id.index())?.constant()? {
            Value::Int(i) => u64::try_from(i).ok(),
            _ => None,
        }
    }

    pub(crate) fn node(&self, id: NodeId) -> Result<&Node, ExprError> {
        self.nodes.get(id.index()).ok_or(ExprError::ForeignHandle)
    }

    /// `a` as an operand of an operation in `dtype`: cast if the carriers differ. A weak operand is cast to the carrier, so that
    /// it isn't rounded to 16 bits; a tensor is cast to the type itself, as in PyTorch.
    pub(super) fn convert(&mut self, a: NodeId, dtype: DType, strength: Strength) -> Result<NodeId, ExprError> {
        let node = *self.node(a)?;
        match node.constant() {
            // Stays untyped among untyped operands.
            Some(value) if node.strength == Strength::Literal && strength == Strength::Literal => {
                self.constant(value, dtype, Strength::Literal)
            }
            Some(value) if node.strength == Strength::Literal => self.typed(value, dtype.carrier()),
            _ if node.dtype.carrier() == dtype.carrier() => Ok(a),
            _ if node.strength < strength => self.cast(a, dtype.carrier()),
            _ => self.cast(a, dtype),
        }
    }

    /// Adds a node: folds it if all its operands are constants, and reuses an equal node.
    pub(crate) fn push(&mut self, kind: Kind, dtype: DType, strength: Strength) -> Result<NodeId, ExprError> {
        if let Some(folded) = self.fold(kind, dtype) {
            return self.push(Kind::Constant(dtype.encode(folded)), dtype, strength);
        }
        let key = Node { kind: commuted(kind), dtype, strength };
        if let Some(&id) = self.known.get(&key) {
            return Ok(id);
        }
        if self.nodes.len() >= MAX_NODES {
            return Err(ExprError::TooManyNodes);
        }
        let id = NodeId(self.nodes.len() as u32);
        self.nodes.push(Node { kind, dtype, strength });
        self.known.insert(key, id);
        Ok(id)
    }

    /// The value of an operation whose operands are all constants. The result is a constant of the operation's type, so no
    /// operation on constants is left.
    fn fold(&self, kind: Kind, dtype: DType) -> Option<Value> {
        let operands = kind.operands();
        if operands.is_empty() {
            return None;
        }
        let constants = operands.iter().map(|id| self.nodes.get(id.index())?.constant());
        let values: Vec<Value> = constants.collect::<Option<_>>()?;
        let carried = operands.last().and_then(|id| self.nodes.get(id.index())).map(|node| node.dtype.carrier())?;
        Some(apply(kind, dtype, carried, &values, Precision::Carried))
    }
}

/// The type to which an operation converts operands of `dtype`. An untyped literal keeps f64 precision.
fn operand_type(domain: Domain, op: &'static str, dtype: DType, strength: Strength) -> Result<DType, ExprError> {
    let hint = match domain {
        Domain::Int | Domain::Bits if dtype.is_float() => "cast it to an integer type, as in 'i32(x)'",
        Domain::Int => "cast it to an integer type, as in 'u8(x)'",
        _ => "cast it to a number, as in 'i32(x)', or use & | ^ !",
    };
    match domain.operand_type(dtype) {
        Some(_) if strength == Strength::Literal && domain == Domain::Float => Ok(DType::F64),
        Some(in_type) => Ok(in_type),
        None => Err(ExprError::Domain { op, dtype, hint }),
    }
}

/// The type of an untyped constant without other operands: f32, i64 or `bool`, as in PyTorch.
pub(super) fn default_type(dtype: DType) -> DType {
    if dtype.is_float() { DType::F32 } else { dtype }
}

/// The lookup key of a node: operands of commutative operations are ordered by id.
fn commuted(kind: Kind) -> Kind {
    match kind {
        Kind::Binary(op, [a, b]) if op.is_commutative() && b < a => Kind::Binary(op, [b, a]),
        Kind::Compare(op @ (Comparison::Equal | Comparison::NotEqual), [a, b]) if b < a => Kind::Compare(op, [b, a]),
        Kind::Fma([a, b, c]) if b < a => Kind::Fma([b, a, c]),
        kind => kind,
    }
}
