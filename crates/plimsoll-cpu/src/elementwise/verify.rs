//! How far the functions of f32 are off, over all of their arguments or a sample of them that has every exponent and sign: the
//! figures of `docs/mathematics.md`. And the cases by which a device is verified.

use std::fmt;

use plimsoll_core::Fault;
use plimsoll_core::probe::{Case, Depth};
use plimsoll_expr::op::Unary;
use plimsoll_expr::oracle::{Precision, apply};
use plimsoll_expr::{Builder, DType, Graph, Layout, Value};

use super::plan::How;
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
    let mut worst = Worst { function, ulp: 0.0, at: 0.0, found: 0.0, tried: 0 };
    let all = 1_u64 << 32;
    let mut bits = 0_u64;
    while bits < all {
        let first = bits;
        for element in x.chunks_exact_mut(4) {
            element.copy_from_slice(&((bits % all) as u32).to_le_bytes());
            bits += stride;
        }
        prepared.run(team, Set { inputs: &[&x], outputs: &mut [&mut y] }, &[])?;
        for (i, found) in y.chunks_exact(4).enumerate() {
            let argument = first + i as u64 * stride;
            if argument >= all {
                break;
            }
            let at = f32::from_bits(argument as u32);
            let found = f32::from_le_bytes([found[0], found[1], found[2], found[3]]);
            let ulp = error(&graph, at, found);
            worst.tried += 1;
            if ulp > worst.ulp {
                worst = Worst { ulp, at, found, ..worst };
            }
        }
    }
    Ok(worst)
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

/// Holds every function to its bound, on every instruction set of this machine, with as many arguments as `depth` says.
///
/// # Errors
/// Those of [`worst`].
pub fn verify(team: &mut Team, depth: Depth, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
    let arguments = match depth {
        Depth::Small => Arguments::Every(262_147),
        Depth::Usual => Arguments::Every(4_099),
        Depth::Exhaustive => Arguments::All,
    };
    for isa in available() {
        for function in functions() {
            let worst = worst(team, function, isa, arguments)?;
            let wrong = if worst.ulp <= bound(function) { String::new() } else { worst.to_string() };
            let kernel = format!("{} f32 {}", function.name(), isa.name());
            let on = format!("{} arguments: {:.3} ulp at {:e}", worst.tried, worst.ulp, worst.at);
            report(Case { kernel, on, wrong });
        }
    }
    Ok(())
}
