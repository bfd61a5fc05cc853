//! Expressions as text: `y = tanh(a*x + y)`. The grammar is in `docs/expressions.md`. Text is untrusted: its length, its
//! nesting and the graph that it makes are bounded, and every fault is an error with a caret under it.

mod error;
mod lex;
mod statement;
mod term;

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use crate::dtype::DType;
use crate::graph::{Builder, ExprError, Graph, NodeId};

pub use error::ParseError;
use lex::{Symbol, Token};
pub(crate) use term::{COMPARISON, PREFIX, binding};

/// Most bytes of an expression's text.
pub const MAX_TEXT: usize = 1 << 20;
/// Deepest nesting of parentheses, calls and signs.
pub const MAX_NESTING: usize = 128;
/// Most steps of one `iterate`.
pub const MAX_STEPS: usize = 1024;
/// Most words that the steps of all of them go over.
const MAX_WALKED: usize = 1 << 18;

/// What names mean that the text itself doesn't declare.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// The type of any other name that is read, which makes it a tensor; without it such names are errors.
    pub default: Option<DType>,
    /// Tensors, by name. They become inputs in the order in which the text first mentions them.
    pub tensors: BTreeMap<String, DType>,
    /// Run-time scalars, by name.
    pub scalars: BTreeMap<String, DType>,
}

impl Names {
    /// Every name that is read is a tensor of `dtype`.
    #[must_use]
    pub fn all(dtype: DType) -> Self {
        Self { default: Some(dtype), ..Self::default() }
    }
}

/// The graph of a text.
///
/// # Errors
/// With the place of the first fault.
pub fn parse(text: &str, names: &Names) -> Result<Graph, ParseError> {
    if text.len() > MAX_TEXT {
        return Err(ParseError::new(text, 0..0, format!("more than {MAX_TEXT} bytes of text: split the expression")));
    }
    let fault = |fault: Fault| ParseError::new(text, fault.place, fault.message);
    let tokens = lex::tokens(text).map_err(fault)?;
    let parser = Parser {
        text,
        tokens,
        next: 0,
        depth: 0,
        names,
        builder: Builder::new(),
        scope: HashMap::new(),
        inputs: 0,
        bare: false,
        stored: false,
        walked: 0,
    };
    parser.program().map_err(fault)
}

/// A fault and the bytes of the text that it is about.
#[derive(Debug)]
struct Fault {
    place: Range<usize>,
    message: String,
}

type Parsed<T> = Result<T, Fault>;

/// What a name stands for.
#[derive(Clone, Copy, Debug)]
enum Meaning {
    /// An input tensor, with its place.
    Tensor(NodeId, u32),
    /// A run-time scalar.
    Scalar(NodeId),
    /// A value named by `let`.
    Value(NodeId),
    /// What was stored under this name.
    Stored(NodeId),
}

impl Meaning {
    fn id(self) -> NodeId {
        match self {
            Self::Tensor(id, _) | Self::Scalar(id) | Self::Value(id) | Self::Stored(id) => id,
        }
    }
}

struct Parser<'a> {
    text: &'a str,
    tokens: Vec<(Token<'a>, Range<usize>)>,
    next: usize,
    depth: usize,
    names: &'a Names,
    builder: Builder,
    scope: HashMap<&'a str, Meaning>,
    /// Tensors declared so far.
    inputs: u32,
    /// A value without a name was stored: nothing else may be.
    bare: bool,
    /// Something was stored.
    stored: bool,
    /// Words that steps of `iterate` went over.
    walked: usize,
}

impl<'a> Parser<'a> {
    fn token(&self) -> Token<'a> {
        self.tokens.get(self.next).map_or(Token::End, |(token, _)| *token)
    }

    fn token_after(&self) -> Token<'a> {
        self.tokens.get(self.next + 1).map_or(Token::End, |(token, _)| *token)
    }

    fn place(&self) -> Range<usize> {
        self.tokens.get(self.next).map_or(self.text.len()..self.text.len(), |(_, place)| place.clone())
    }

    fn advance(&mut self) {
        self.next += 1;
    }

    fn take(&mut self, symbol: Symbol) -> bool {
        let found = self.token() == Token::Symbol(symbol);
        if found {
            self.advance();
        }
        found
    }

    fn expect(&mut self, symbol: Symbol, why: &str) -> Parsed<()> {
        if self.take(symbol) { Ok(()) } else { Err(self.unexpected(&format!("'{}' {why}", symbol.text()))) }
    }

    fn skip_lines(&mut self) {
        while self.token() == Token::Line {
            self.advance();
        }
    }

    fn unexpected(&self, wanted: &str) -> Fault {
        let found = match self.token() {
            Token::End => "the text ends".to_owned(),
            Token::Line => "the line ends".to_owned(),
            Token::Name(name) => format!("here is '{name}'"),
            Token::Number(number) => format!("here is {number}"),
            Token::Symbol(symbol) => format!("here is '{}'", symbol.text()),
        };
        Fault { place: self.place(), message: format!("{found} where {wanted} should be") }
    }

    /// What the builder said, with its place.
    fn at<T>(place: &Range<usize>, result: Result<T, ExprError>) -> Parsed<T> {
        result.map_err(|error| Fault { place: place.clone(), message: error.to_string() })
    }
}

/// ` Did you mean 'tanh'?` where some known word is near.
fn suggestion<'w>(word: &str, known: impl Iterator<Item = &'w str>) -> String {
    let near = known.map(|candidate| (strsim::damerau_levenshtein(word, candidate), candidate)).min();
    match near {
        Some((distance, candidate)) if distance <= 1 + word.len() / 4 => format!(". Did you mean '{candidate}'?"),
        _ => String::new(),
    }
}
