//! Prints a graph as text that parses to the same graph. Values that are used once are printed inline, others get a name.
//! Constants get a type suffix unless the other operands determine the type.

use std::collections::HashSet;
use std::fmt::{self, Write as _};

use crate::dtype::{DType, common};
use crate::graph::{Graph, Kind, Node, NodeId, Parameter};
use crate::op::{Binary, Comparison};
use crate::parse::{COMPARISON, PREFIX, binding};
use crate::value::Value;

/// The nesting depth at which a part gets a name: far below the parser's limit.
const DEEPEST: usize = 24;
/// Precedence of names, numbers and calls.
const ATOM: u8 = 11;

/// The text of a value, and the precedence of its outermost operator.
#[derive(Clone, Debug, Default)]
struct Piece {
    text: String,
    binding: u8,
    depth: usize,
}

impl Piece {
    fn atom(text: String, depth: usize) -> Self {
        Self { text, binding: ATOM, depth }
    }

    /// The text, in parentheses if its precedence is below `least`.
    fn with_parentheses(&self, least: u8) -> String {
        if self.binding < least { format!("({})", self.text) } else { self.text.clone() }
    }
}

impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Printer::new(self).print(f)
    }
}

struct Printer<'g> {
    graph: &'g Graph,
    taken: HashSet<String>,
    fresh: usize,
    pieces: Vec<Piece>,
}

impl<'g> Printer<'g> {
    fn new(graph: &'g Graph) -> Self {
        let parameters = graph.inputs().iter().chain(graph.scalars()).map(|parameter| parameter.name.clone());
        let taken = parameters.chain(graph.outputs().iter().map(|output| output.name.clone())).collect();
        Self { graph, taken, fresh: 0, pieces: Vec::with_capacity(graph.nodes().len()) }
    }

    fn print(mut self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        declare(f, "in", self.graph.inputs())?;
        declare(f, "scalar", self.graph.scalars())?;
        let uses = self.graph.uses();
        for (node, uses) in self.graph.nodes().iter().zip(uses) {
            let mut piece = self.piece(node);
            let leaf = node.kind.operands().is_empty();
            // Once an input is overwritten, its name means the new value, so the old value gets a name first.
            let overwritten = |slot| self.graph.outputs().iter().any(|output| output.in_place == Some(slot));
            let kept = self.graph.outputs().len() > 1 && matches!(node.kind, Kind::Input(slot) if overwritten(slot));
            if kept || (!leaf && (uses > 1 || piece.depth >= DEEPEST)) {
                let name = self.fresh_name();
                writeln!(f, "let {name} = {}", piece.text)?;
                piece = Piece::atom(name, 0);
            }
            self.pieces.push(piece);
        }
        for (i, output) in self.graph.outputs().iter().enumerate() {
            let own = self.graph.nodes()[output.node.index()].dtype;
            let dtype = match output.in_place.is_none() && output.dtype != own {
                true => format!(": {}", output.dtype),
                false => String::new(),
            };
            let end = if i + 1 < self.graph.outputs().len() { "\n" } else { "" };
            write!(f, "{}{dtype} = {}{end}", output.name, self.pieces[output.node.index()].text)?;
        }
        Ok(())
    }

    fn fresh_name(&mut self) -> String {
        loop {
            let name = format!("t{}", self.fresh);
            self.fresh += 1;
            if self.taken.insert(name.clone()) {
                return name;
            }
        }
    }

    fn piece(&mut self, node: &Node) -> Piece {
        let operands = node.kind.operands();
        let taken: Vec<Piece> = operands.iter().map(|&id| self.operand(node, id)).collect();
        let depth = 1 + taken.iter().map(|piece| piece.depth).max().unwrap_or(0);
        let call = |name: &str| {
            let arguments: Vec<&str> = taken.iter().map(|piece| piece.text.as_str()).collect();
            Piece::atom(format!("{name}({})", arguments.join(", ")), depth)
        };
        match node.kind {
            Kind::Input(slot) => Piece::atom(self.graph.inputs()[slot as usize].name.clone(), 0),
            Kind::Scalar(slot) => Piece::atom(self.graph.scalars()[slot as usize].name.clone(), 0),
            Kind::Constant(bits) => constant(node.dtype.decode(bits), node.dtype, true),
            Kind::Place => Piece::atom("index()".to_owned(), 0),
            Kind::Coordinate(dimension) => Piece::atom(format!("index({dimension})"), 0),
            Kind::Unary(op, _) if op.is_prefix() => {
                Piece { text: format!("{}{}", op.name(), taken[0].with_parentheses(PREFIX)), binding: PREFIX, depth }
            }
            Kind::Binary(op, _) if op.is_infix() => between(op, &taken[0], &taken[1], depth),
            Kind::Compare(op, _) => compared(op, &taken[0], &taken[1], depth),
            Kind::Unary(op, _) => call(op.name()),
            Kind::Binary(op, _) => call(op.name()),
            Kind::Fma(_) => call("fma"),
            Kind::Select(_) => call("select"),
            Kind::Cast(_) => call(node.dtype.name()),
        }
    }

    /// The text of an operand of `user`. A constant has no type suffix if it gets the same type from the other operands.
    fn operand(&mut self, user: &Node, id: NodeId) -> Piece {
        let node = &self.graph.nodes()[id.index()];
        let Some(value) = node.constant() else {
            return self.pieces[id.index()].clone();
        };
        let promoted = match user.kind {
            Kind::Select([_, a, b]) => vec![a, b],
            Kind::Binary(..) | Kind::Compare(..) | Kind::Fma(_) => user.kind.operands().to_vec(),
            _ => Vec::new(),
        };
        // Constants of a narrow type always have a suffix.
        let has_type = |node: &&Node| node.constant().is_none() || node.dtype.carrier() != node.dtype;
        let others = promoted.iter().map(|id| &self.graph.nodes()[id.index()]).filter(has_type);
        let others = others.map(|node| (node.dtype, node.strength)).reduce(common);
        let inferred = others.is_some_and(|(dtype, _)| {
            let same = matches!(user.kind, Kind::Compare(..)) || dtype == user.dtype;
            same && dtype.carrier() == node.dtype && promoted.contains(&id)
        });
        constant(value, node.dtype, !inferred)
    }
}

fn declare(f: &mut fmt::Formatter<'_>, keyword: &str, parameters: &[Parameter]) -> fmt::Result {
    for (i, Parameter { name, dtype }) in parameters.iter().enumerate() {
        write!(f, "{} {name}: {dtype}", if i == 0 { keyword } else { "," })?;
    }
    if parameters.is_empty() { Ok(()) } else { f.write_char('\n') }
}

fn between(op: Binary, a: &Piece, b: &Piece, depth: usize) -> Piece {
    let tightness = binding(op);
    let gap = if tightness >= binding(Binary::Mul) { "" } else { " " };
    let text = format!("{}{gap}{}{gap}{}", a.with_parentheses(tightness), op.name(), b.with_parentheses(tightness + 1));
    Piece { text, binding: tightness, depth }
}

fn compared(op: Comparison, a: &Piece, b: &Piece, depth: usize) -> Piece {
    let text = format!("{} {} {}", a.with_parentheses(COMPARISON + 1), op.name(), b.with_parentheses(COMPARISON + 1));
    Piece { text, binding: COMPARISON, depth }
}

/// A constant of type `dtype`, with a type suffix if `typed`.
fn constant(value: Value, dtype: DType, typed: bool) -> Piece {
    let suffix = if typed { dtype.name() } else { "" };
    let (text, negative) = match value {
        Value::Bool(b) => (b.to_string(), false),
        Value::Int(i) => (format!("{i}{suffix}"), i < 0),
        Value::Float(x) if x.is_finite() => (format!("{}{suffix}", decimal(x, dtype)), x.is_sign_negative()),
        Value::Float(x) => {
            let word = match x {
                _ if x.is_nan() => "nan",
                _ if x < 0.0 => "-inf",
                _ => "inf",
            };
            if typed { (format!("{suffix}({word})"), false) } else { (word.to_owned(), x < 0.0) }
        }
    };
    Piece { text, binding: if negative { PREFIX } else { ATOM }, depth: 0 }
}

/// The shortest decimal that parses to `x` in `dtype`: the f32 form if parsing it as f64 and rounding gives `x`.
fn decimal(x: f64, dtype: DType) -> String {
    let narrow = x as f32;
    let text = format!("{narrow:?}");
    let round_trips = dtype != DType::F64 && text.parse::<f64>().is_ok_and(|wide| dtype.round(wide) == x);
    if round_trips { text } else { format!("{x:?}") }
}
