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
    let mut default = None;
    for word in words.map(str::trim).filter(|word| !word.is_empty()) {
        let (name, earlier) = match word.split_once(':') {
            None => ("all names", default.replace(dtype(word)?)),
            Some((name, word)) => (name, ask.types.insert(name.to_owned(), dtype(word)?)),
        };
        if earlier.is_some() {
            return Err(twice("type", name));
        }
    }
    ask.default_type = default.unwrap_or(ask.default_type);
    for word in &args.scalar {
        let Some((name, value)) = word.split_once('=').filter(|(name, value)| !name.is_empty() && !value.is_empty())
        else {
            let shown: String = word.chars().take(40).collect();
            return Err(Failure::usage(format!("'{shown}' is no scalar: write --scalar NAME=VALUE")));
        };
        if ask.scalars.insert(name.to_owned(), value.to_owned()).is_some() {
            return Err(twice("value", name));
        }
    }
    Ok(ask)
}

fn twice(what: &str, name: &str) -> Failure {
    let shown: String = name.chars().take(40).collect();
    Failure::usage(format!("the {what} of '{shown}' is given twice"))
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
