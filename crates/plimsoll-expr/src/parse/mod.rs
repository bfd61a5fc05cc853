//! Expressions as text: `y = tanh(a*x + y)`. The grammar is in `docs/expressions.md`. Text is untrusted: its length, its
//! nesting and the size of its graph are limited, and every mistake gives an error with a caret under it.

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

/// The most bytes in the text of an expression.
pub const MAX_TEXT: usize = 1 << 20;
/// The deepest nesting of parentheses, calls and signs.
pub const MAX_NESTING: usize = 128;
/// The most steps of one `iterate`.
pub const MAX_STEPS: usize = 1024;
/// The most tokens that all steps of all `iterate` statements may read together.
const MAX_TOKENS_ITERATED: usize = 1 << 18;

/// The meaning of names that the text doesn't declare.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// If set, any other name that is read is a tensor of this type; otherwise such names are errors.
    pub default: Option<DType>,
    /// Tensors, by name. They become inputs in the order in which the text first mentions them.
    pub tensors: BTreeMap<String, DType>,
    /// Run-time scalars, by name.
    pub scalars: BTreeMap<String, DType>,
}

impl Names {
    /// Makes every name that is read a tensor of `dtype`.
    #[must_use]
    pub fn with_default(dtype: DType) -> Self {
        Self { default: Some(dtype), ..Self::default() }
    }
}

/// Parses the text of an expression.
///
/// # Errors
/// The first mistake, with its position.
pub fn parse(text: &str, names: &Names) -> Result<Graph, ParseError> {
    if text.len() > MAX_TEXT {
        return Err(ParseError::new(text, 0..0, format!("more than {MAX_TEXT} bytes of text: split the expression")));
    }
    let fault = |fault: Fault| ParseError::new(text, fault.place, fault.message);
    let tokens = lex::tokenize(text).map_err(fault)?;
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
        tokens_iterated: 0,
    };
    parser.program().map_err(fault)
}

/// A mistake and its byte range in the text.
#[derive(Debug)]
struct Fault {
    place: Range<usize>,
    message: String,
}

type Parsed<T> = Result<T, Fault>;

/// The meaning of a name.
#[derive(Clone, Copy, Debug)]
enum Meaning {
    /// An input tensor, with its index.
    Tensor(NodeId, u32),
    /// A run-time scalar.
    Scalar(NodeId),
    /// A value named by `let`.
    Value(NodeId),
    /// The value that was stored under this name.
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
    /// Number of tensors declared so far.
    inputs: u32,
    /// A value without a name was stored, so nothing else may be.
    bare: bool,
    /// Something was stored.
    stored: bool,
    /// Tokens that steps of `iterate` have read.
    tokens_iterated: usize,
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
            Token::Name(name) => format!("found '{name}'"),
            Token::Number(number) => format!("found {number}"),
            Token::Symbol(symbol) => format!("found '{}'", symbol.text()),
        };
        Fault { place: self.place(), message: format!("{found} where {wanted} was expected") }
    }

    /// Adds the position to the builder's error.
    fn locate<T>(place: &Range<usize>, result: Result<T, ExprError>) -> Parsed<T> {
        result.map_err(|error| Fault { place: place.clone(), message: error.to_string() })
    }
}

/// `. Did you mean 'tanh'?` if a known word is similar; otherwise empty.
fn suggestion<'w>(word: &str, known: impl Iterator<Item = &'w str>) -> String {
    closest(word, known).map_or_else(String::new, |candidate| format!(". Did you mean '{candidate}'?"))
}

/// The known word that is most similar to `word`, if one is similar enough to be meant.
pub fn closest<'w>(word: &str, known: impl Iterator<Item = &'w str>) -> Option<&'w str> {
    let near = known.map(|candidate| (strsim::damerau_levenshtein(word, candidate), candidate)).min();
    near.filter(|(distance, _)| *distance <= 1 + word.len() / 4).map(|(_, candidate)| candidate)
}
