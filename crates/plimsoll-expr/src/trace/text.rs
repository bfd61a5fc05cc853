//! Text with the types of a closure, for the backends' typed calls.

use std::fmt::Write;
use std::marker::PhantomData;

use super::closure::{Arg, Results, Traced};
use super::{Element, Expr, InOut, Role, Tensor, Weak};
use crate::dtype::DType;
use crate::graph::Graph;
use crate::parse::{Names, ParseError, parse};

/// What a parameter of a closure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub enum Kind {
    /// A tensor that is only read.
    In(DType),
    /// A tensor that is also written.
    InOut(DType),
    /// A scalar.
    Scalar(DType),
}

/// A tuple of parameter types, in the order of the calls.
pub trait Parameters {
    #[doc(hidden)]
    fn kinds() -> Vec<Kind>;
}

/// A parameter's type.
#[doc(hidden)]
pub trait Parameter: Arg {
    fn kind() -> Kind;
}

impl<T: Element> Parameter for Expr<T, Tensor> {
    fn kind() -> Kind {
        Kind::In(T::DTYPE)
    }
}

impl<T: Element> Parameter for Expr<T, Weak> {
    fn kind() -> Kind {
        Kind::Scalar(T::DTYPE)
    }
}

impl<T: Element> Parameter for InOut<T> {
    fn kind() -> Kind {
        Kind::InOut(T::DTYPE)
    }
}

/// The types of results, in order.
#[doc(hidden)]
pub trait Stored: Results {
    fn list(dtypes: &mut Vec<DType>);
}

impl Stored for () {
    fn list(_: &mut Vec<DType>) {}
}

impl<T: Element, K: Role> Stored for Expr<T, K> {
    fn list(dtypes: &mut Vec<DType>) {
        dtypes.push(T::DTYPE);
    }
}

/// Why a text doesn't have the given types.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum TextError {
    /// A mistake in the text, with its position.
    #[error(transparent)]
    Parse(#[from] ParseError),
    /// Names and types of parameters that don't correspond.
    #[error("{types} parameter types need as many names, not {names}")]
    Count {
        /// The number of names.
        names: usize,
        /// The number of types.
        types: usize,
    },
    /// A name that can't be a parameter's.
    #[error("'{}' is not a valid parameter name, or is given twice", .0.escape_debug())]
    Name(String),
    /// A parameter that the text uses in another way than its type says.
    #[error("'{name}' is {found} in the text, but {wanted} in the types")]
    Use {
        /// The parameter's name.
        name: String,
        /// What the text does.
        found: &'static str,
        /// What the types say.
        wanted: &'static str,
    },
    /// Outputs of other types.
    #[error("the text stores {found}, but the types are {wanted}: declare an output's type, as in 'y: bf16 = …'")]
    Outputs {
        /// The types of the text's outputs that aren't in place.
        found: String,
        /// The types asked for.
        wanted: String,
    },
}

impl<Args: Parameters, R: Stored> Traced<Args, R> {
    /// The same from text: `names` are those of the parameters in the order of the types.
    ///
    /// ```
    /// use half::bf16;
    /// use plimsoll_expr::{In, InOut, Scalar, Traced};
    ///
    /// type Axpy = Traced<(Scalar<f32>, In<bf16>, In<bf16>), In<bf16>>;
    /// let axpy = Axpy::from_text(&["a", "x", "y"], "tanh(a*x + y)")?;
    ///
    /// type Step = Traced<(Scalar<f32>, In<bf16>, InOut<f32>), ()>;
    /// let step = Step::from_text(&["lr", "g", "p"], "p = p - lr*g")?;
    /// # Ok::<(), plimsoll_expr::trace::TextError>(())
    /// ```
    ///
    /// # Errors
    /// A mistake in the text, or parameters or outputs that don't have these types.
    pub fn from_text(names: &[&str], text: &str) -> Result<Self, TextError> {
        let kinds = Args::kinds();
        if kinds.len() != names.len() {
            return Err(TextError::Count { names: names.len(), types: kinds.len() });
        }
        let mut declared = String::new();
        for (name, kind) in names.iter().zip(&kinds) {
            let (word, dtype) = match kind {
                Kind::In(dtype) | Kind::InOut(dtype) => ("in", dtype),
                Kind::Scalar(dtype) => ("scalar", dtype),
            };
            let line = format!("{word} {name}: {dtype}\n");
            // A name with a line of its own would be a statement.
            let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            if !is_name || parse(&format!("{declared}{line}y = 1.0"), &Names::default()).is_err() {
                return Err(TextError::Name((*name).to_owned()));
            }
            declared += &line;
        }
        let graph = parse(&format!("{declared}{text}"), &Names::default()).map_err(|error| error.without(&declared))?;
        check_uses(&graph, names, &kinds)?;
        check_outputs::<R>(&graph)?;
        Ok(Self { graph, types: PhantomData })
    }
}

/// Exactly the parameters that are [`InOut`] are written.
fn check_uses(graph: &Graph, names: &[&str], kinds: &[Kind]) -> Result<(), TextError> {
    for (name, kind) in names.iter().zip(kinds) {
        let is_written = graph.outputs().iter().any(|output| output.name == *name && output.in_place.is_some());
        let (found, wanted) = match (kind, is_written) {
            (Kind::In(_), true) => ("written", "only read"),
            (Kind::InOut(_), false) => ("only read", "written"),
            _ => continue,
        };
        return Err(TextError::Use { name: (*name).to_owned(), found, wanted });
    }
    let is_known = |name: &String| names.contains(&name.as_str());
    let parameters = graph.inputs().iter().chain(graph.scalars());
    match parameters.map(|parameter| &parameter.name).find(|name| !is_known(name)) {
        Some(name) => Err(TextError::Use { name: name.clone(), found: "a parameter", wanted: "not one" }),
        None => Ok(()),
    }
}

fn check_outputs<R: Stored>(graph: &Graph) -> Result<(), TextError> {
    let mut wanted = Vec::new();
    R::list(&mut wanted);
    let outputs = graph.outputs().iter().filter(|output| output.in_place.is_none());
    let found: Vec<DType> = outputs.map(|output| output.dtype).collect();
    if found == wanted {
        return Ok(());
    }
    Err(TextError::Outputs { found: listed(&found), wanted: listed(&wanted) })
}

fn listed(dtypes: &[DType]) -> String {
    let mut text = String::new();
    for (place, dtype) in dtypes.iter().enumerate() {
        // Writing to a String can't fail.
        let _ = write!(text, "{}{dtype}", if place == 0 { "" } else { ", " });
    }
    if text.is_empty() { "nothing".to_owned() } else { text }
}

macro_rules! tuples {
    ($($a:ident)*) => {
        impl<$($a: Parameter),*> Parameters for ($($a,)*) {
            fn kinds() -> Vec<Kind> {
                vec![$($a::kind()),*]
            }
        }
    };
}

macro_rules! results {
    ($($r:ident)+) => {
        impl<$($r: Stored),+> Stored for ($($r,)+) {
            fn list(dtypes: &mut Vec<DType>) {
                $($r::list(dtypes);)+
            }
        }
    };
}

super::closure::up_to!(results: A B C D E F G H);
super::closure::up_to!(tuples: A B C D E F G H I J K L);
tuples!();

#[cfg(test)]
mod tests {
    use half::bf16;

    use super::*;
    use crate::{In, Scalar, trace};

    type Axpy = Traced<(Scalar<f32>, In<bf16>, In<bf16>), In<bf16>>;
    type Step = Traced<(Scalar<f32>, In<bf16>, InOut<f32>), ()>;

    #[test]
    fn text_gives_the_graph_of_the_closure() {
        let text = Axpy::from_text(&["a", "x", "y"], "tanh(a*x + y)").unwrap();
        let closure = trace(|a: Scalar<f32>, x: In<bf16>, y: In<bf16>| (a * x + y).tanh()).unwrap();
        assert_eq!(text.graph().nodes(), closure.graph().nodes());
        // Parameters are in the order of the types, whatever the text mentions first.
        let swapped = Axpy::from_text(&["a", "y", "x"], "x + y*a").unwrap();
        assert_eq!(swapped.graph().inputs()[0].name, "y");
        let step = Step::from_text(&["lr", "g", "p"], "p = p - lr*g").unwrap();
        assert_eq!(step.graph().outputs()[0].in_place, Some(1));
        // An unused parameter stays.
        assert_eq!(Axpy::from_text(&["a", "x", "y"], "x").unwrap().graph().inputs().len(), 2);
    }

    #[test]
    fn wrong_texts_and_types_are_named() {
        let error = |names: &[&str], text: &str| Axpy::from_text(names, text).unwrap_err().to_string();
        assert_eq!(error(&["a", "x"], "a*x"), "3 parameter types need as many names, not 2");
        assert!(error(&["a", "x", "x"], "a*x").contains("'x' is not a valid"), "{}", error(&["a", "x", "x"], "x"));
        assert!(error(&["a", "x", "y: f32\nz = 1"], "a*x").contains("not a valid"));
        assert!(error(&["a", "x", "y"], "x = a*x").contains("'x' is written in the text, but only read"));
        assert!(error(&["a", "x", "y"], "x < y").contains("the text stores bool, but the types are bf16"));
        let tan = Axpy::from_text(&["a", "x", "y"], "let s = x + y\ntan(s)").unwrap_err();
        let TextError::Parse(tan) = tan else { panic!("{tan}") };
        assert_eq!((tan.line_and_column(), tan.place()), ((2, 1), 14..17));
        assert!(error(&["a", "x", "y"], "in z: f32\nu: bf16 = x + z").contains("'z' is a parameter in the text"));
        let step = Step::from_text(&["lr", "g", "p"], "q = p - lr*g").unwrap_err().to_string();
        assert!(step.contains("'p' is only read in the text, but written"), "{step}");
    }
}
