//! Expressions by precedence climbing: operators, calls, casts, numbers and names.

use std::ops::Range;

use super::lex::{Symbol, Token};
use super::{Fault, MAX_NESTING, Parsed, Parser, suggestion};
use crate::dtype::DType;
use crate::graph::{ExprError, NodeId};
use crate::op::{Binary, Comparison, Unary};
use crate::value::Value;

/// An operator between two operands.
#[derive(Clone, Copy)]
enum Infix {
    Binary(Binary),
    Compare(Comparison),
    /// `&&` and `||`: only for `bool`; both sides are computed.
    Logic(Binary),
}

/// Precedence of comparisons. An operand of a comparison can't be another comparison.
pub(crate) const COMPARISON: u8 = 3;
/// Precedence of prefix operators.
pub(crate) const PREFIX: u8 = 10;

/// The precedence of an operator, as in Rust. Comparisons bind less tightly than these, and `&&` and `||` less tightly still.
pub(crate) fn binding(op: Binary) -> u8 {
    match op {
        Binary::Or => 4,
        Binary::Xor => 5,
        Binary::And => 6,
        Binary::Shl | Binary::Shr => 7,
        Binary::Add | Binary::Sub => 8,
        _ => 9,
    }
}

fn infix(symbol: Symbol) -> Option<(u8, Infix)> {
    match symbol {
        Symbol::OrOr => return Some((1, Infix::Logic(Binary::Or))),
        Symbol::AndAnd => return Some((2, Infix::Logic(Binary::And))),
        _ => {}
    }
    if let Some(op) = Comparison::from_name(symbol.text()) {
        return Some((COMPARISON, Infix::Compare(op)));
    }
    Binary::from_name(symbol.text()).map(|op| (binding(op), Infix::Binary(op)))
}

/// Names of functions that are neither unary nor binary operations.
const FUNCTIONS: [&str; 5] = ["fma", "select", "where", "clamp", "index"];

/// A construct that waits for the value being parsed. Text is untrusted and thread stacks are small, so nesting uses a vector of
/// these instead of recursion.
enum Waiting<'a> {
    /// Operands joined by operators of at least precedence `least`: waits for the next operand, after `left` and an operator.
    Operand { least: u8, compared: bool, left: Option<(NodeId, Infix, Range<usize>)> },
    /// A sign.
    Sign(Unary, Range<usize>),
    /// A parenthesis.
    Parenthesis,
    /// A function call, with its arguments so far.
    Call { name: &'a str, place: Range<usize>, arguments: Vec<NodeId> },
}

impl Waiting<'_> {
    fn operand(least: u8) -> Self {
        Self::Operand { least, compared: false, left: None }
    }
}

impl<'a> Parser<'a> {
    pub(super) fn expression(&mut self) -> Parsed<NodeId> {
        let mut waiting = vec![Waiting::operand(1)];
        loop {
            let Some(mut value) = self.begin(&mut waiting)? else { continue };
            while let Some(next) = waiting.pop() {
                match self.resume(next, value, &mut waiting)? {
                    Some(whole) => value = whole,
                    None => break,
                }
            }
            if waiting.is_empty() {
                return Ok(value);
            }
        }
    }

    /// Passes a value to the construct that waited for it; `None` if that needs another value.
    fn resume(&mut self, next: Waiting<'a>, value: NodeId, waiting: &mut Vec<Waiting<'a>>) -> Parsed<Option<NodeId>> {
        match next {
            Waiting::Operand { least, compared, left } => {
                let value = match left {
                    Some((left, op, place)) => Self::locate(&place, self.join(op, left, value))?,
                    None => value,
                };
                let Some((tightness, op, place)) = self.operator(least, compared)? else { return Ok(Some(value)) };
                let compared = tightness == COMPARISON;
                waiting.push(Waiting::Operand { least, compared, left: Some((value, op, place)) });
                waiting.push(Waiting::operand(tightness + 1));
                Ok(None)
            }
            Waiting::Sign(op, place) => {
                self.depth -= 1;
                Self::locate(&place, self.builder.unary(op, value)).map(Some)
            }
            Waiting::Parenthesis => {
                self.depth -= 1;
                self.expect(Symbol::Close, "to close the parenthesis")?;
                Ok(Some(value))
            }
            Waiting::Call { name, place, mut arguments } => {
                arguments.push(value);
                if self.take(Symbol::Comma) {
                    waiting.push(Waiting::Call { name, place, arguments });
                    waiting.push(Waiting::operand(1));
                    return Ok(None);
                }
                self.depth -= 1;
                self.expect(Symbol::Close, "or ',' after an argument")?;
                self.call(name, &arguments, &place).map(Some)
            }
        }
    }

    /// The next operator, if its precedence is at least `least`.
    fn operator(&mut self, least: u8, compared: bool) -> Parsed<Option<(u8, Infix, Range<usize>)>> {
        let Token::Symbol(symbol) = self.token() else { return Ok(None) };
        let place = self.place();
        if symbol == Symbol::StarStar {
            return Err(Fault { place, message: "write pow(a, b) for a power".to_owned() });
        }
        let Some((tightness, op)) = infix(symbol).filter(|(tightness, _)| *tightness >= least) else { return Ok(None) };
        if tightness == COMPARISON && compared {
            let message = "comparisons don't chain: write 'a < b && b < c', and parentheses around & | ^".to_owned();
            return Err(Fault { place, message });
        }
        self.advance();
        Ok(Some((tightness, op, place)))
    }

    fn join(&mut self, op: Infix, left: NodeId, right: NodeId) -> Result<NodeId, ExprError> {
        match op {
            Infix::Binary(op) => self.builder.binary(op, left, right),
            Infix::Compare(op) => self.builder.compare(op, left, right),
            Infix::Logic(op) => {
                for side in [left, right] {
                    let (dtype, _) = self.builder.type_of(side)?;
                    if dtype != DType::Bool {
                        return Err(ExprError::Condition(dtype));
                    }
                }
                self.builder.binary(op, left, right)
            }
        }
    }

    /// Parses a number or a name, or begins a longer construct: then it returns `None`, and the value that the construct waits
    /// for must be parsed next. A minus before a number belongs to the number, so that −128 is an i8.
    fn begin(&mut self, waiting: &mut Vec<Waiting<'a>>) -> Parsed<Option<NodeId>> {
        self.skip_lines();
        let place = self.place();
        let sign = match self.token() {
            Token::Symbol(Symbol::Minus) => Unary::Neg,
            Token::Symbol(Symbol::Not | Symbol::Tilde) => Unary::Not,
            Token::Symbol(Symbol::Plus) => {
                return Err(Fault { place, message: "a '+' needs a value on each side".to_owned() });
            }
            Token::Number(number) => {
                self.advance();
                return self.number(number, false, &place).map(Some);
            }
            Token::Symbol(Symbol::Open) => {
                self.advance();
                self.deeper(&place)?;
                waiting.extend([Waiting::Parenthesis, Waiting::operand(1)]);
                return Ok(None);
            }
            Token::Name(name) => {
                self.advance();
                return self.begin_name(name, place, waiting);
            }
            _ => return Err(self.unexpected("a value")),
        };
        self.advance();
        if let (Unary::Neg, Token::Number(number)) = (sign, self.token()) {
            let place = place.start..self.place().end;
            self.advance();
            return self.number(number, true, &place).map(Some);
        }
        self.deeper(&place)?;
        waiting.push(Waiting::Sign(sign, place));
        Ok(None)
    }

    /// A name's value, or a call that waits for its arguments.
    fn begin_name(
        &mut self,
        name: &'a str,
        place: Range<usize>,
        waiting: &mut Vec<Waiting<'a>>,
    ) -> Parsed<Option<NodeId>> {
        if !self.take(Symbol::Open) {
            return self.name_value(name, &place).map(Some);
        }
        if self.take(Symbol::Close) {
            return self.call(name, &[], &place).map(Some);
        }
        self.deeper(&place)?;
        waiting.extend([Waiting::Call { name, place, arguments: Vec::new() }, Waiting::operand(1)]);
        Ok(None)
    }

    /// Enters one more level of nesting.
    fn deeper(&mut self, place: &Range<usize>) -> Parsed<()> {
        if self.depth >= MAX_NESTING {
            let message = format!("nested deeper than {MAX_NESTING}: name parts of it with 'let t = …'");
            return Err(Fault { place: place.clone(), message });
        }
        self.depth += 1;
        Ok(())
    }

    fn call(&mut self, name: &str, arguments: &[NodeId], place: &Range<usize>) -> Parsed<NodeId> {
        let function = Unary::from_name(name).filter(|op| !op.is_prefix());
        let binary = Binary::from_name(name).filter(|op| !op.is_infix());
        let result = match (name, arguments) {
            _ if function.is_some() || binary.is_some() => match (function, binary, arguments) {
                (Some(op), _, &[a]) => self.builder.unary(op, a),
                (_, Some(op), &[a, b]) => self.builder.binary(op, a, b),
                _ => return Err(wrong_count(name, if function.is_some() { "1" } else { "2" }, arguments, place)),
            },
            ("fma", &[a, b, c]) => self.builder.fma(a, b, c),
            ("select" | "where", &[condition, a, b]) => self.builder.select(condition, a, b),
            ("clamp", &[x, low, high]) => self.builder.clamp(x, low, high),
            ("fma" | "select" | "where" | "clamp", _) => return Err(wrong_count(name, "3", arguments, place)),
            ("index", &[]) => self.builder.place(),
            ("index", &[dimension]) => match self.builder.whole_literal(dimension) {
                Some(dimension) => self.builder.coordinate(dimension),
                None => {
                    let message = "index takes the number of a dimension, as in 'index(0)'".to_owned();
                    return Err(Fault { place: place.clone(), message });
                }
            },
            ("index", _) => return Err(wrong_count(name, "0 or 1", arguments, place)),
            (name, arguments) => match (name.parse::<DType>(), arguments) {
                (Ok(dtype), &[a]) => self.builder.cast(a, dtype),
                (Ok(_), _) => return Err(wrong_count(name, "1", arguments, place)),
                (Err(_), _) => return Err(unknown_function(name, place)),
            },
        };
        Self::locate(place, result)
    }

    /// The value of a name. A new name is declared as a tensor, if that is allowed.
    fn name_value(&mut self, name: &'a str, place: &Range<usize>) -> Parsed<NodeId> {
        let constant = match name {
            "true" => Some(Value::Bool(true)),
            "false" => Some(Value::Bool(false)),
            "inf" => Some(Value::Float(f64::INFINITY)),
            "nan" => Some(Value::Float(f64::NAN)),
            "pi" => Some(Value::Float(std::f64::consts::PI)),
            _ => None,
        };
        if let Some(value) = constant {
            return Self::locate(place, self.builder.literal(value));
        }
        if let Some(meaning) = self.scope.get(name) {
            return Ok(meaning.id());
        }
        if let Some(&dtype) = self.names.scalars.get(name) {
            return self.declare(name, dtype, false, place);
        }
        match self.names.tensors.get(name).copied().or(self.names.default) {
            Some(dtype) => self.declare(name, dtype, true, place),
            None => {
                let foreign = self.names.tensors.keys().chain(self.names.scalars.keys()).map(String::as_str);
                let near = suggestion(name, self.scope.keys().copied().chain(foreign));
                Err(Fault { place: place.clone(), message: format!("'{name}' is not declared{near}") })
            }
        }
    }

    /// A number with an optional type at its end: `1`, `0.5`, `1e-3f32`, `0xffu8`.
    fn number(&mut self, text: &str, negative: bool, place: &Range<usize>) -> Parsed<NodeId> {
        let fault = |message: String| Fault { place: place.clone(), message };
        if let Some(hex) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
            let suffix = DType::ALL.iter().filter(|d| d.is_int()).find_map(|d| Some((hex.strip_suffix(d.name())?, *d)));
            let (digits, dtype) = suffix.map_or((hex, None), |(digits, dtype)| (digits, Some(dtype)));
            let value =
                u64::from_str_radix(digits, 16).map_err(|_| fault(format!("{text} is not a 64-bit integer")))?;
            let value = if negative { -i128::from(value) } else { value.into() };
            return self.constant(Value::Int(value), dtype, place);
        }
        let suffix = DType::ALL.iter().filter_map(|d| Some((text.strip_suffix(d.name())?, *d)));
        // 'bf16' ends in 'f16': the longest matching suffix counts.
        let suffix = suffix.min_by_key(|(digits, _)| digits.len());
        let (digits, dtype) = suffix.map_or((text, None), |(digits, dtype)| (digits, Some(dtype)));
        if let Some(start) = digits.find(|c: char| c.is_ascii_alphabetic() && !matches!(c, 'e' | 'E') || c == '_') {
            let near = suggestion(&digits[start..], DType::ALL.iter().map(|dtype| dtype.name()));
            return Err(fault(format!("'{}' is not a type for a number{near}", &digits[start..])));
        }
        let whole = digits.bytes().all(|b| b.is_ascii_digit());
        let value = if whole && dtype.is_none_or(|dtype| !dtype.is_float()) {
            let value = digits.parse::<u64>().map_err(|_| fault(format!("{digits} is not a 64-bit integer")))?;
            Value::Int(if negative { -i128::from(value) } else { value.into() })
        } else {
            let value = digits.parse::<f64>().map_err(|_| fault(format!("'{digits}' is not a number")))?;
            if value.is_infinite() {
                return Err(fault(format!("{digits} is out of range for f64: write 'inf' for infinity")));
            }
            Value::Float(if negative { -value } else { value })
        };
        self.constant(value, dtype, place)
    }

    fn constant(&mut self, value: Value, dtype: Option<DType>, place: &Range<usize>) -> Parsed<NodeId> {
        let id = match (dtype, value) {
            (Some(dtype), Value::Float(_)) if !dtype.is_float() => {
                let message = format!("a {dtype} has no fraction and no exponent: write '{dtype}(…)' to convert");
                return Err(Fault { place: place.clone(), message });
            }
            (Some(dtype), value) => self.builder.typed(value, dtype),
            (None, value) => self.builder.literal(value),
        };
        Self::locate(place, id)
    }
}

fn wrong_count(name: &str, expected: &str, given: &[NodeId], place: &Range<usize>) -> Fault {
    let message = format!("'{name}' takes {expected} arguments but has {}", given.len());
    Fault { place: place.clone(), message }
}

fn unknown_function(name: &str, place: &Range<usize>) -> Fault {
    let unary = Unary::ALL.iter().filter(|op| !op.is_prefix()).map(|op| op.name());
    let binary = Binary::ALL.iter().filter(|op| !op.is_infix()).map(|op| op.name());
    let known = unary.chain(binary).chain(FUNCTIONS).chain(DType::ALL.iter().map(|dtype| dtype.name()));
    Fault { place: place.clone(), message: format!("there is no function '{name}'{}", suggestion(name, known)) }
}
