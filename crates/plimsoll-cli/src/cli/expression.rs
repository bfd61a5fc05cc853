//! Expressions on the command line: types, scalars and inputs as options, and a fault in the text shown with its caret.

use plimsoll::bench::{Ask, AskError};
use plimsoll::expr::{DType, ParseError};

use super::args::ExpressionArgs;
use super::exit::Failure;

/// The expression with the meaning of its names; sizes, caches and plans are the verb's.
///
/// # Errors
/// 2 for an option that can't be read.
pub(crate) fn ask(text: &str, args: &ExpressionArgs) -> Result<Ask, Failure> {
    let mut ask = Ask { text: text.to_owned(), operands: args.inputs.clone(), ..Ask::default() };
    let words = args.dtype.iter().flat_map(|list| list.split(','));
    for word in words.map(str::trim).filter(|word| !word.is_empty()) {
        match word.split_once(':') {
            None => ask.default_type = dtype(word)?,
            Some((name, word)) => drop(ask.types.insert(name.to_owned(), dtype(word)?)),
        }
    }
    for word in &args.scalar {
        let Some((name, value)) = word.split_once('=').filter(|(name, value)| !name.is_empty() && !value.is_empty())
        else {
            let shown: String = word.chars().take(40).collect();
            return Err(Failure::usage(format!("'{shown}' is no scalar: write --scalar NAME=VALUE")));
        };
        ask.scalars.insert(name.to_owned(), value.to_owned());
    }
    Ok(ask)
}

fn dtype(word: &str) -> Result<DType, Failure> {
    let shown: String = word.chars().take(40).collect();
    shown.parse().map_err(Failure::usage)
}

/// A question that can't be answered: a fault in the text is shown below its message, with a caret.
pub(crate) fn failure(error: &AskError) -> Failure {
    match error {
        AskError::Text(error) => Failure::usage(shown(error)).hint("the grammar is in docs/expressions.md"),
        error => Failure::usage(error),
    }
}

fn shown(error: &ParseError) -> String {
    error.to_string()
}
