//! The errors of functions, over all of their arguments or a sample with every exponent and sign (the figures of
//! `docs/mathematics.md`), and the cases that verify a device.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};

use plimsoll_core::Fault;
use plimsoll_core::probe::{ACCURACY, Case, Depth};
use plimsoll_core::sample::{Check, Workload as _};
use plimsoll_expr::function::{Function, operand_pair};
use plimsoll_expr::op::{Binary, Unary};
use plimsoll_expr::oracle::{Bound, Precision, apply};
use plimsoll_expr::{DType, Graph, LastPlace, Layout, Names, Node, Problem, Value, parse};

use super::load::Load;
use super::plan::{How, StorePolicy};
use super::prepared::{Program, Set};
use crate::arch::{Isa, available};
use crate::memory::{Buffer, Pages};
use crate::threads::Team;

/// Arguments evaluated at a time.
const CHUNK: usize = 1 << 12;

/// The types whose functions are checked against the oracle; for 16 bits, with all arguments.
pub const TYPES: [DType; 3] = [DType::F32, DType::F16, DType::Bf16];

/// A function's largest error over some arguments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Worst {
    /// The function.
    pub function: Function,
    /// The type of argument and result.
    pub dtype: DType,
    /// The largest error in units in the last place of the true result; infinite if a NaN, an infinity or the sign of a zero is
    /// wrong.
    pub ulp: f64,
    /// The arguments; for a function of one argument, it is given twice.
    pub at: [f64; 2],
    /// The computed result.
    pub found: f64,
    /// How many arguments were tried.
    pub tried: u64,
}

impl fmt::Display for Worst {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { function, dtype, ulp, found, tried, .. } = self;
        let (at, name) = (self.format_arguments(), function.name());
        write!(f, "{name} {dtype}: {ulp:.3} ulp at {at} (found {found:e}), of {tried} arguments")
    }
}

impl Worst {
    /// Checks another result against the oracle.
    fn add(&mut self, graph: &Graph, place: LastPlace, at: [f64; 2], found: f64) {
        let exact = exact_result(graph, &at[..self.function.operands()]);
        let ulp = exact.and_then(|exact| place.error(exact, found)).unwrap_or(f64::INFINITY);
        self.tried += 1;
        if ulp > self.ulp {
            *self = Self { ulp, at, found, ..*self };
        }
    }

    fn format_arguments(&self) -> String {
        match (self.function, self.at) {
            (Function::Unary(_), [at, _]) => format!("{at:e}"),
            (Function::Binary(_), [at, second]) => format!("({at:e}, {second:e})"),
        }
    }
}

/// The error bound of a function in units in the last place. Functions of 16 bits are those of f32, rounded once more.
#[must_use]
pub fn bound(function: Function, dtype: DType) -> f64 {
    match function {
        _ if dtype == DType::F64 => double_bound(function),
        _ if dtype != DType::F32 => 0.51,
        Function::Unary(Unary::Exp | Unary::Log | Unary::Tanh | Unary::Erf) => 2.0,
        Function::Unary(Unary::Sqrt | Unary::Recip) | Function::Binary(Binary::Div) => 0.5,
        Function::Unary(Unary::Rsqrt) => 1.5,
        _ => 0.51,
    }
}

/// The error bound of a function of f64 (`arch/math/full`).
fn double_bound(function: Function) -> f64 {
    use Unary::{Cos, Exp2, Log, Log1p, Log2, Log10, Sin};
    match function {
        Function::Unary(Unary::Sqrt | Unary::Recip) | Function::Binary(Binary::Div) => 0.5,
        Function::Unary(Exp2 | Log | Log2 | Log10 | Log1p | Sin | Cos) => 1.0,
        Function::Binary(Binary::Pow) => 1.0,
        Function::Unary(Unary::Rsqrt | Unary::Exp | Unary::Erf) => 1.5,
        Function::Unary(Unary::Erfc | Unary::Mish) => 3.5,
        Function::Unary(Unary::Gelu) => 4.5,
        _ => 3.0,
    }
}

/// The error bound of every node: functions of 16 and 8 bits are evaluated as f32.
#[must_use]
pub fn bounds(graph: &Graph) -> Vec<Bound> {
    let of_node = |node: &Node| {
        let dtype = node.dtype.carrier();
        let ulp = match Function::from_node(node) {
            Some(function) => bound(function, dtype),
            None => 0.5,
        };
        Bound { ulp, dtype }
    };
    graph.nodes().iter().map(of_node).collect()
}

/// The arguments to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arguments {
    /// All of the type; for a function of two arguments, 2²⁶ pairs.
    All,
    /// Every n-th argument; n should be odd, so that all exponents and low bits occur. For a function of two arguments, every
    /// n-th of the 2²⁶ pairs.
    Every(u32),
}

/// Pairs of arguments for a function of two arguments.
const PAIRS: u64 = 1 << 26;

/// The arguments to try for one function, represented by the numbers from 0 to `all` in steps of `stride`.
struct Trials {
    function: Function,
    dtype: DType,
    stride: u64,
    all: u64,
}

impl Trials {
    fn new(function: Function, dtype: DType, arguments: Arguments) -> Self {
        let stride = match arguments {
            Arguments::All => 1,
            Arguments::Every(stride) => u64::from(stride.max(1)),
        };
        let all = if function.operands() == 1 { 1 << (8 * dtype.bytes()) } else { PAIRS.max(stride) };
        Self { function, dtype, stride, all }
    }

    /// The bits of the arguments `place` strides after `first`; `None` after the last.
    fn bits_at(&self, first: u64, place: usize) -> Option<[u64; 2]> {
        let number = first + place as u64 * self.stride;
        let bits = if self.function.operands() == 1 { [number; 2] } else { operand_pair(self.dtype, number) };
        (number < self.all).then_some(bits)
    }
}

/// Finds the largest error of `function` in `dtype`, one of [`TYPES`], on `isa`.
///
/// # Errors
/// If the instruction set isn't available, or there is too little memory.
pub fn worst(
    team: &mut Team,
    (function, dtype): (Function, DType),
    isa: Isa,
    arguments: Arguments,
) -> Result<Worst, Fault> {
    let invalid = |error: String| Fault::Invalid(error);
    let graph = function.graph(dtype).map_err(|error| invalid(error.to_string()))?;
    let (size, place) = (dtype.bytes() as usize, LastPlace::new(dtype));
    let trials = Trials::new(function, dtype, arguments);
    let layout = Layout::contiguous(&[CHUNK as u64]).map_err(|error| invalid(error.to_string()))?;
    let how = How { isa, ..How::for_threads(team.size()) };
    let (inputs, outputs) = (vec![layout.clone(); function.operands()], [layout]);
    let mut prepared = Program::new(&graph).prepare(&inputs, &outputs, &how)?;
    let new = |_| Buffer::<u8>::new(size * CHUNK, Pages::Small);
    let mut given = (0..function.operands()).map(new).collect::<Result<Vec<_>, _>>()?;
    let mut y = Buffer::<u8>::new(size * CHUNK, Pages::Small)?;
    let start = Worst { function, dtype, ulp: 0.0, at: [0.0; 2], found: 0.0, tried: 0 };
    let found: Vec<Mutex<Worst>> = (0..team.size()).map(|_| Mutex::new(start)).collect();
    for first in (0..trials.all).step_by(usize::try_from(trials.stride).unwrap_or(1) * CHUNK) {
        for (slot, x) in given.iter_mut().enumerate() {
            for (i, element) in x.chunks_exact_mut(size).enumerate() {
                element.copy_from_slice(&trials.bits_at(first, i).unwrap_or_default()[slot].to_le_bytes()[..size]);
            }
        }
        let inputs: Vec<&[u8]> = given.iter().map(|x| &x[..]).collect();
        prepared.run(team, Set { inputs: &inputs, outputs: &mut [&mut y] }, &[])?;
        // The oracle is slower than the function, so all threads share its work.
        team.run_borrowed(1, &|rank| {
            let mut worst = found[rank.index].lock().unwrap_or_else(PoisonError::into_inner);
            let part = CHUNK * rank.index / rank.members..CHUNK * (rank.index + 1) / rank.members;
            for (i, at) in part.map_while(|i| Some((i, trials.bits_at(first, i)?))) {
                let bits = y[size * i..size * (i + 1)].iter().rev().fold(0, |bits, &byte| bits << 8 | u64::from(byte));
                worst.add(&graph, place, at.map(|bits| place.decode(bits)), place.decode(bits));
            }
        })?;
    }
    let found = found.into_iter().map(|worst| worst.into_inner().unwrap_or_else(PoisonError::into_inner));
    Ok(found.fold(start, |one, other| {
        let tried = one.tried + other.tried;
        if other.ulp > one.ulp { Worst { tried, ..other } } else { Worst { tried, ..one } }
    }))
}

/// The oracle's result before it is rounded.
fn exact_result(graph: &Graph, at: &[f64]) -> Option<f64> {
    let node = graph.nodes().last()?;
    let at: Vec<Value> = at.iter().map(|at| Value::Float(*at)).collect();
    let value = apply(node.kind, DType::F64, DType::F64, &at, Precision::Wide);
    match value {
        Value::Float(x) => Some(x),
        _ => None,
    }
}

/// Expressions that cover every path of the compiler: copies, sums of products, several outputs, in place, mixed types,
/// indices, many live values.
const EXPRESSIONS: [&str; 7] = [
    "in x: f32; y = x",
    "in x: f32, z: f32; y = 0.5*x + z",
    "in x: f32, z: f64; d = x - z; e: bf16 = x*z",
    "in x: bf16, y: f32; y = x + y; z = y*x",
    "in x: u8, k: i32; y = (x + k) << 2; c = x < k",
    "in x: f16; y = x + index() % 7",
    "in x: f32, z: f32; y = sqrt(x*x + z*z)*tanh(x - z) + select(x > z, x/(z*z + 1), exp(z))",
];

/// Checks expressions at awkward sizes against the oracle, and every function against its bound, on every instruction set of
/// this machine. If `names` isn't empty, checks only these functions. All arguments of f32, and all pairs, are only tried on the
/// widest set.
///
/// # Errors
/// [`Fault::Invalid`] for an unknown function; those of [`worst`].
pub fn verify(team: Team, names: &[&str], depth: Depth, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
    if let Some(unknown) = names.iter().find(|name| !Function::list().iter().any(|function| function.name() == **name))
    {
        return Err(Fault::Invalid(format!("there is no function '{unknown}' whose accuracy could be checked")));
    }
    let team = Rc::new(RefCell::new(team));
    if names.is_empty() {
        for text in EXPRESSIONS {
            verify_sizes(&team, text, report)?;
        }
    }
    let wanted = |function: &Function| names.is_empty() || names.contains(&function.name());
    let wanted: Vec<Function> = Function::list().into_iter().filter(wanted).collect();
    for (place, isa) in available().into_iter().enumerate() {
        for (dtype, function) in
            TYPES.into_iter().flat_map(|dtype| wanted.iter().map(move |function| (dtype, *function)))
        {
            let narrow = dtype != DType::F32;
            let arguments = match (function, depth) {
                (_, Depth::Exhaustive) if place == 0 => Arguments::All,
                (Function::Binary(_), Depth::Small) => Arguments::Every(16_411),
                (Function::Binary(_), _) => Arguments::Every(257),
                (Function::Unary(_), Depth::Small) => Arguments::Every(if narrow { 17 } else { 1_048_583 }),
                (Function::Unary(_), _) if narrow => Arguments::All,
                _ => Arguments::Every(16_411),
            };
            let worst = worst(&mut team.borrow_mut(), (function, dtype), isa, arguments)?;
            let wrong = if worst.ulp <= bound(function, dtype) { String::new() } else { worst.to_string() };
            let kernel = format!("{ACCURACY}{} {dtype} {}", function.name(), isa.name());
            let on = format!("{} operands, worst {:.3} ulp of {}", worst.tried, worst.ulp, worst.format_arguments());
            report(Case { kernel, on, wrong });
        }
    }
    Ok(())
}

/// Checks one expression at some sizes.
fn verify_sizes(team: &Rc<RefCell<Team>>, text: &str, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
    let invalid = |error: String| Fault::Invalid(error);
    let graph = parse(text, &Names::default()).map_err(|error| invalid(error.to_string()))?;
    for elements in [0, 1, 17, 255, 4_099, 65_537] {
        let problem = Problem::flat(&graph, elements, &[]).map_err(|error| invalid(error.to_string()))?;
        for stores in [StorePolicy::Ordinary, StorePolicy::NonTemporal] {
            let how = How { stores, ..How::for_threads(team.borrow().size()) };
            let checked = Load::new(Rc::clone(team), &problem, &how, (0, 1), &AtomicBool::new(false))?.check()?;
            let wrong = if let Check::Failed(wrong) = checked { wrong } else { String::new() };
            report(Case { kernel: format!("{text} ({stores:?})"), on: format!("n = {elements}"), wrong });
        }
    }
    Ok(())
}
