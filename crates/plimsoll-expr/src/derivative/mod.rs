//! Derivatives: from an expression, another expression that computes the derivatives by its inputs. Its kernel computes again
//! what it needs of the first, so nothing has to be stored in between. `docs/derivatives.md` has the conventions.

mod binary;
mod reverse;
mod term;
mod unary;

use std::collections::HashSet;

use crate::dtype::DType;
use crate::graph::{ExprError, Graph};
use reverse::Reverse;

/// An expression that has no derivative, or an input by which it has none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GradientError {
    /// No input was given.
    #[error("no input to differentiate by: give the index of at least one float input")]
    NoInput,
    /// An input that doesn't exist.
    #[error("there is no input {index}: the expression has {count}, counted from 0")]
    Index {
        /// The index that was given.
        index: usize,
        /// The number of inputs.
        count: usize,
    },
    /// An input that was given twice.
    #[error("input '{0}' was given twice: give each input once")]
    Repeated(String),
    /// An input that isn't a float.
    #[error("input '{name}' is {dtype} and has no derivative: only floats do, so leave it out")]
    Input {
        /// The input's name.
        name: String,
        /// The input's type.
        dtype: DType,
    },
    /// An expression all of whose outputs are integers or `bool`.
    #[error("no output is a float, so there is nothing to differentiate: store at least one output as a float")]
    NoFloatOutput,
    /// A derivative beyond the limits of an expression.
    #[error("the derivative is too large: {0}")]
    Limit(#[from] ExprError),
}

impl Graph {
    /// The derivatives by the inputs with these indices, in reverse mode: with respect to the values before the call, also of
    /// inputs that are overwritten in place.
    ///
    /// The result has
    /// - as inputs all inputs of this expression, in order, then for each float output `y` its cotangent `grad_y`: the derivative
    ///   of some number by that output, of the output's type. [`Graph::reads`] tells which of them it needs, and
    ///   [`Graph::with_read_inputs`] drops the others;
    /// - the same scalars;
    /// - an output for each of `inputs`, in the order given: `d_x` for `x`, of the input's type. It is the derivative of that
    ///   number by the input's element, or 0 if no float output depends on it. If an input was broadcast, the caller sums over
    ///   the elements that read it.
    ///
    /// If a name is taken or too long, a number is appended and the name is shortened. There are no derivatives by scalars.
    ///
    /// Values are f32, or f64 for f64, and are rounded to other types only by the stores. Time and memory are linear in the
    /// number of nodes. At points without a derivative the result follows PyTorch; `docs/derivatives.md` lists it.
    ///
    /// ```
    /// use plimsoll_expr::{Names, parse};
    ///
    /// let swiglu = parse("in x: bf16, z: bf16\ny = silu(x)*z", &Names::default())?;
    /// let gradient = swiglu.gradient(&swiglu.float_inputs())?;
    /// assert_eq!(
    ///     gradient.to_string(),
    ///     "in x: bf16, z: bf16, grad_y: bf16
    /// let t0 = f32(grad_y)
    /// let t1 = sigmoid(x)
    /// d_x: bf16 = t0*z*(t1*(1.0 + x*(1.0 - t1)))
    /// d_z: bf16 = t0*silu(x)"
    /// );
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If `inputs` is empty, has an index twice, or names something other than a float input, if no output is a float, or if the
    /// result exceeds the limits of an expression.
    pub fn gradient(&self, inputs: &[usize]) -> Result<Self, GradientError> {
        self.check_gradient(inputs)?;
        let taken = self.inputs.iter().chain(&self.scalars).map(|parameter| parameter.name.clone());
        let mut taken: HashSet<String> = taken.chain(self.outputs.iter().map(|output| output.name.clone())).collect();
        let mut new_name = |prefix, name| free_name(prefix, name, &mut taken);
        let cotangents: Vec<String> = self.float_outputs().map(|output| new_name("grad_", &output.name)).collect();
        let results: Vec<String> = inputs.iter().map(|&place| new_name("d_", &self.inputs[place].name)).collect();

        let mut reverse = Reverse::new(self, inputs)?;
        for (output, name) in self.float_outputs().zip(&cotangents) {
            reverse.seed(output, name)?;
        }
        reverse.propagate();
        Ok(reverse.finish(inputs.iter().copied().zip(results))?)
    }

    /// The indices of all float inputs: those by which there can be a derivative.
    #[must_use]
    pub fn float_inputs(&self) -> Vec<usize> {
        (0..self.inputs.len()).filter(|&place| self.inputs[place].dtype.is_float()).collect()
    }

    fn float_outputs(&self) -> impl Iterator<Item = &crate::graph::Output> {
        self.outputs.iter().filter(|output| output.dtype.is_float())
    }

    fn check_gradient(&self, inputs: &[usize]) -> Result<(), GradientError> {
        if inputs.is_empty() {
            return Err(GradientError::NoInput);
        }
        let mut seen = HashSet::new();
        for &index in inputs {
            let count = self.inputs.len();
            let input = self.inputs.get(index).ok_or(GradientError::Index { index, count })?;
            if !input.dtype.is_float() {
                return Err(GradientError::Input { name: input.name.clone(), dtype: input.dtype });
            }
            if !seen.insert(index) {
                return Err(GradientError::Repeated(input.name.clone()));
            }
        }
        if self.float_outputs().next().is_none() {
            return Err(GradientError::NoFloatOutput);
        }
        Ok(())
    }
}

/// The most bytes of a name.
const LONGEST: usize = 64;

/// `prefix` and `name`; shortened if it is too long, and with a number if it is taken. It is taken from now on.
fn free_name(prefix: &str, name: &str, taken: &mut HashSet<String>) -> String {
    let full = format!("{prefix}{name}");
    let numbered = (2..).map(|number| format!("_{number}"));
    let candidates = std::iter::once(String::new()).chain(numbered).map(|end| {
        // Names are ASCII.
        let kept = full.len().min(LONGEST - end.len());
        format!("{}{end}", &full[..kept])
    });
    let free = candidates.into_iter().find(|candidate| !taken.contains(candidate)).unwrap_or(full);
    taken.insert(free.clone());
    free
}
