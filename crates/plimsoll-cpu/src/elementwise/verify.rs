//! How far the functions of f32 are off, over all of their arguments or a sample of them that has every exponent and sign: the
//! figures of `docs/mathematics.md`. And the cases by which a device is verified.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::sync::{Mutex, PoisonError};

use plimsoll_core::Fault;
use plimsoll_core::probe::{ACCURACY, Case, Depth};
use plimsoll_core::sample::{Check, Workload as _};
use plimsoll_expr::op::Unary;
use plimsoll_expr::oracle::{Precision, apply};
use plimsoll_expr::{Builder, DType, Graph, Layout, Names, Problem, Value, parse};

use super::load::Load;
use super::plan::{How, StorePolicy};
use super::prepared::{Program, Set};
use crate::arch::{Isa, available};
use crate::memory::{Buffer, Pages};
use crate::threads::Team;

/// Arguments evaluated at a time.
const CHUNK: usize = 1 << 12;

/// A function's largest error over some arguments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Worst {
    /// The function.
    pub function: Unary,
    /// The largest error in units of the last place of the true result; infinite where a NaN, an infinity or the sign of a zero
    /// is wrong.
    pub ulp: f64,
    /// The argument.
    pub at: f32,
    /// What came of it.
    pub found: f32,
    /// How many arguments were tried.
    pub tried: u64,
}

impl fmt::Display for Worst {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { function, ulp, at, found, tried } = self;
        write!(f, "{}: {ulp:.3} ulp at {at:e} (found {found:e}), of {tried} arguments", function.name())
    }
}

/// The functions of f32 that have vector loops.
#[must_use]
pub fn functions() -> Vec<Unary> {
    let float = |op: &Unary| op.domain() == plimsoll_expr::op::Domain::Float;
    Unary::ALL.iter().copied().filter(float).collect()
}

/// The bound in units of the last place that a function keeps.
#[must_use]
pub fn bound(function: Unary) -> f64 {
    match function {
        Unary::Exp | Unary::Log | Unary::Tanh | Unary::Erf => 2.0,
        Unary::Sqrt | Unary::Recip => 0.5,
        Unary::Rsqrt => 1.5,
        _ => 0.51,
    }
}

/// Which arguments to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arguments {
    /// All 2³² of them.
    All,
    /// Every so manieth: an odd number, so that all exponents and low bits come up.
    Every(u32),
}

/// The largest error of `function` on `isa`.
///
/// # Errors
/// An instruction set that isn't there; too little memory.
pub fn worst(team: &mut Team, function: Unary, isa: Isa, arguments: Arguments) -> Result<Worst, Fault> {
    let graph = graph_of(function)?;
    let stride = match arguments {
        Arguments::All => 1,
        Arguments::Every(stride) => u64::from(stride.max(1)),
    };
    let layout = Layout::contiguous(&[CHUNK as u64]).map_err(|error| Fault::Invalid(error.to_string()))?;
    let how = How { isa, ..How::on(team.size()) };
    let layouts = [layout];
    let mut prepared = Program::new(&graph).prepare(&layouts, &layouts, &how)?;
    let mut x = Buffer::<u8>::new(4 * CHUNK, Pages::Small)?;
    let mut y = Buffer::<u8>::new(4 * CHUNK, Pages::Small)?;
    let start = Worst { function, ulp: 0.0, at: 0.0, found: 0.0, tried: 0 };
    let found: Vec<Mutex<Worst>> = (0..team.size()).map(|_| Mutex::new(start)).collect();
    let all = 1_u64 << 32;
    for first in (0..all).step_by(usize::try_from(stride).unwrap_or(1) * CHUNK) {
        for (i, element) in (0..).zip(x.chunks_exact_mut(4)) {
            element.copy_from_slice(&((first + i * stride) as u32).to_le_bytes());
        }
        prepared.run(team, Set { inputs: &[&x], outputs: &mut [&mut y] }, &[])?;
        // The oracle takes longer than what it checks: every thread asks it about a part.
        team.lend(1, &|rank| {
            let mut worst = found[rank.index].lock().unwrap_or_else(PoisonError::into_inner);
            let part = CHUNK * rank.index / rank.of..CHUNK * (rank.index + 1) / rank.of;
            for i in part.take_while(|&i| first + i as u64 * stride < all) {
                let at = f32::from_bits((first + i as u64 * stride) as u32);
                let bytes = &y[4 * i..4 * i + 4];
                let found = f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
                let ulp = error(&graph, at, found);
                worst.tried += 1;
                if ulp > worst.ulp {
                    *worst = Worst { ulp, at, found, ..*worst };
                }
            }
        })?;
    }
    let found = found.into_iter().map(|worst| worst.into_inner().unwrap_or_else(PoisonError::into_inner));
    Ok(found.fold(start, |one, other| {
        let tried = one.tried + other.tried;
        if other.ulp > one.ulp { Worst { tried, ..other } } else { Worst { tried, ..one } }
    }))
}

/// `out = function(x)`.
fn graph_of(function: Unary) -> Result<Graph, Fault> {
    let invalid = |error: plimsoll_expr::ExprError| Fault::Invalid(error.to_string());
    let mut builder = Builder::new();
    let x = builder.input("x", DType::F32).map_err(invalid)?;
    let y = builder.unary(function, x).map_err(invalid)?;
    builder.output("y", y, None).map_err(invalid)?;
    builder.finish().map_err(invalid)
}

/// The error of a result, by the oracle in f64.
fn error(graph: &Graph, at: f32, found: f32) -> f64 {
    let Some(exact) = wide(graph, at) else { return f64::INFINITY };
    let nearest = exact as f32;
    let same = found.is_nan() && nearest.is_nan() || found.to_bits() == nearest.to_bits();
    if same && !(nearest.is_finite() && nearest != 0.0) {
        return 0.0;
    }
    let signs = found.is_sign_negative() == nearest.is_sign_negative() || exact == 0.0 && found != 0.0;
    if found.is_nan() || nearest.is_nan() || (exact == 0.0 && !same) || !signs {
        return f64::INFINITY;
    }
    // An infinity stands for the number that would come next.
    let number = if found.is_infinite() {
        f64::from(f32::MAX).copysign(found.into()) * (1.0 + 2_f64.powi(-24))
    } else {
        found.into()
    };
    (number - exact).abs() / spacing(exact)
}

/// The oracle's result before it is rounded to f32.
fn wide(graph: &Graph, at: f32) -> Option<f64> {
    let node = graph.nodes().last()?;
    let value = apply(node.kind, DType::F64, DType::F64, &[Value::Float(at.into())], Precision::Wide);
    match value {
        Value::Float(x) => Some(x),
        _ => None,
    }
}

/// The distance of f32 numbers about `x`.
fn spacing(x: f64) -> f64 {
    let exponent = (x.abs().to_bits() >> 52) as i32 - 1023;
    2_f64.powi(exponent.clamp(-126, 127) - 23)
}

/// Expressions that take every road through the interpreter: copies, sums of products, several outputs, in place, mixed types,
/// places, many live values.
const EXPRESSIONS: [&str; 7] = [
    "in x: f32; y = x",
    "in x: f32, z: f32; y = 0.5*x + z",
    "in x: f32, z: f64; d = x - z; e: bf16 = x*z",
    "in x: bf16, y: f32; y = x + y; z = y*x",
    "in x: u8, k: i32; y = (x + k) << 2; c = x < k",
    "in x: f16; y = x + index() % 7",
    "in x: f32, z: f32; y = sqrt(x*x + z*z)*tanh(x - z) + select(x > z, x/(z*z + 1), exp(z))",
];

/// Holds expressions at awkward sizes to the oracle, and every function to its bound on every instruction set of this machine;
/// where `functions` are named, these alone. All arguments are tried on the widest set alone.
///
/// # Errors
/// [`Fault::Invalid`] for a function that isn't there; those of [`worst`].
pub fn verify(team: Team, names: &[&str], depth: Depth, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
    if let Some(unknown) = names.iter().find(|name| !functions().iter().any(|function| function.name() == **name)) {
        return Err(Fault::Invalid(format!("no function '{unknown}' has an accuracy to be checked")));
    }
    let team = Rc::new(RefCell::new(team));
    if names.is_empty() {
        for text in EXPRESSIONS {
            sizes(&team, text, report)?;
        }
    }
    let some = match depth {
        Depth::Small => Arguments::Every(1_048_583),
        Depth::Usual | Depth::Exhaustive => Arguments::Every(16_411),
    };
    for (place, isa) in available().into_iter().enumerate() {
        let arguments = if place == 0 && depth == Depth::Exhaustive { Arguments::All } else { some };
        let wanted = |function: &Unary| names.is_empty() || names.contains(&function.name());
        for function in functions().into_iter().filter(wanted) {
            let worst = worst(&mut team.borrow_mut(), function, isa, arguments)?;
            let wrong = if worst.ulp <= bound(function) { String::new() } else { worst.to_string() };
            let kernel = format!("{ACCURACY}{} f32 {}", function.name(), isa.name());
            let on = format!("{} operands, worst {:.3} ulp of {:e}", worst.tried, worst.ulp, worst.at);
            report(Case { kernel, on, wrong });
        }
    }
    Ok(())
}

/// One expression at some sizes.
fn sizes(team: &Rc<RefCell<Team>>, text: &str, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
    let invalid = |error: String| Fault::Invalid(error);
    let graph = parse(text, &Names::default()).map_err(|error| invalid(error.to_string()))?;
    for elements in [0, 1, 17, 255, 4_099, 65_537] {
        let problem = Problem::flat(&graph, elements, &[]).map_err(|error| invalid(error.to_string()))?;
        for stores in [StorePolicy::Ordinary, StorePolicy::NonTemporal] {
            let how = How { stores, ..How::on(team.borrow().size()) };
            let checked = Load::new(Rc::clone(team), &problem, &how, 0, 1)?.check()?;
            let wrong = if let Check::Failed(wrong) = checked { wrong } else { String::new() };
            report(Case { kernel: format!("{text} ({stores:?})"), on: format!("n = {elements}"), wrong });
        }
    }
    Ok(())
}
