//! Expressions on the command line: options for types, scalars and inputs, and syntax errors shown with a caret.

use plimsoll::bench::{BenchRequest, BenchRequestError};
use plimsoll::expr::{DType, ParseError};

use super::args::ExpressionArgs;
use super::exit::Failure;

/// Builds a request from the expression and the types, scalars and inputs in `args`; sizes, caches and plans are left to the
/// verb. Fails with exit code 2 if an option can't be parsed.
pub(crate) fn parse_request(text: &str, args: &ExpressionArgs) -> Result<BenchRequest, Failure> {
    let mut request = BenchRequest { text: text.to_owned(), operands: args.inputs.clone(), ..BenchRequest::default() };
    let words = args.dtype.iter().flat_map(|list| list.split(','));
    let mut default = None;
    for word in words.map(str::trim).filter(|word| !word.is_empty()) {
        let (name, earlier) = match word.split_once(':') {
            None => ("all names", default.replace(parse_dtype(word)?)),
            Some((name, word)) => (name, request.types.insert(name.to_owned(), parse_dtype(word)?)),
        };
        if earlier.is_some() {
            return Err(given_twice("type", name));
        }
    }
    request.default_type = default.unwrap_or(request.default_type);
    for word in &args.scalar {
        let Some((name, value)) = word.split_once('=').filter(|(name, value)| !name.is_empty() && !value.is_empty())
        else {
            let shown: String = word.chars().take(40).collect();
            return Err(Failure::usage(format!("'{shown}' is not a scalar: write --scalar NAME=VALUE")));
        };
        if request.scalars.insert(name.to_owned(), value.to_owned()).is_some() {
            return Err(given_twice("value", name));
        }
    }
    Ok(request)
}

fn given_twice(what: &str, name: &str) -> Failure {
    let shown: String = name.chars().take(40).collect();
    Failure::usage(format!("the {what} of '{shown}' is given twice"))
}

fn parse_dtype(word: &str) -> Result<DType, Failure> {
    let shown: String = word.chars().take(40).collect();
    shown.parse().map_err(Failure::usage)
}

/// The failure for a request that can't be met; a syntax error shows the text below its message, with a caret.
pub(crate) fn failure(error: &BenchRequestError) -> Failure {
    match error {
        BenchRequestError::Text(error) => Failure::usage(shown(error)).hint("the grammar is in docs/expressions.md"),
        BenchRequestError::NoValue(name) => {
            Failure::usage(error).hint(format!("give it one with --scalar {name}=VALUE"))
        }
        BenchRequestError::Twice(_) => {
            Failure::usage(error).hint("name it once: with --in, or with --dtype or --scalar")
        }
        error => Failure::usage(error),
    }
}

fn shown(error: &ParseError) -> String {
    error.to_string()
}
