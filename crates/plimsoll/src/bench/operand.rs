//! Parses an input tensor: `x:bf16:8x3x1025x128:offset=1`. The expression gives the name its meaning.

use std::fmt;
use std::str::FromStr;

use plimsoll_expr::layout::LayoutError;
use plimsoll_expr::{DType, Layout};

/// The form of the text, for messages.
const FORM: &str = "NAME:TYPE:SHAPE, such as x:bf16:8x3x1025x128, then :offset=N, :strides=AxB or :transposed";

/// A named input with its type and its layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operand {
    /// The input's name.
    pub name: String,
    /// The type of its elements.
    pub dtype: DType,
    /// Shape, strides and offset.
    pub layout: Layout,
    /// The text of shape and options: `8x3x1025x128:offset=1`.
    shape_text: String,
}

/// Why a text isn't an operand.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OperandError {
    /// Parts are missing.
    #[error("'{0}' is not an input: write {FORM}")]
    Form(String),
    /// An unknown element type.
    #[error("'{operand}': {why}")]
    Type {
        /// The operand.
        operand: String,
        /// What is wrong with its type.
        why: String,
    },
    /// A part that should be a number.
    #[error("'{operand}': '{part}' is not a valid {what}")]
    Number {
        /// The operand.
        operand: String,
        /// The part that isn't a number.
        part: String,
        /// What it should be.
        what: &'static str,
    },
    /// An unknown option.
    #[error("'{operand}': there is no option '{option}': use offset=N, strides=AxB or transposed")]
    Option {
        /// The operand.
        operand: String,
        /// The option.
        option: String,
    },
    /// An invalid layout.
    #[error("'{operand}': {why}")]
    Layout {
        /// The operand.
        operand: String,
        /// What is wrong with it.
        why: LayoutError,
    },
}

impl Operand {
    /// Whether it is a contiguous tensor with offset 0.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.layout.is_contiguous() && self.layout.offset() == 0
    }
}

impl FromStr for Operand {
    type Err = OperandError;

    fn from_str(text: &str) -> Result<Self, OperandError> {
        let operand = || shorten(text);
        let mut parts = text.split(':');
        let (Some(name), Some(dtype), Some(shape)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(OperandError::Form(operand()));
        };
        if name.is_empty() || shape.is_empty() {
            return Err(OperandError::Form(operand()));
        }
        let dtype = dtype
            .parse::<DType>()
            .map_err(|why| OperandError::Type { operand: operand(), why: shorten(&why.to_string()) })?;
        let layout = |why| OperandError::Layout { operand: operand(), why };
        let extents: Vec<u64> = parse_numbers(text, shape, "extent")?;
        let mut built = Layout::contiguous(&extents).map_err(layout)?;
        for option in parts {
            built = match option.split_once('=') {
                None if option == "transposed" => built.transposed(),
                Some(("offset", offset)) => {
                    let [offset] = parse_numbers::<u64>(text, offset, "offset in elements")?[..] else {
                        return Err(not_a_number(text, offset, "offset in elements"));
                    };
                    built.offset_by(offset).map_err(layout)?
                }
                Some(("strides", strides)) => {
                    let strides: Vec<i64> = parse_numbers(text, strides, "stride in elements")?;
                    Layout::strided(built.shape(), &strides, built.offset()).map_err(layout)?
                }
                _ => return Err(OperandError::Option { operand: operand(), option: shorten(option) }),
            };
        }
        let shape_text = shorten(text.splitn(3, ':').nth(2).unwrap_or_default());
        Ok(Self { name: name.to_owned(), dtype, layout: built, shape_text })
    }
}

impl fmt::Display for Operand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.name, self.shape_text)
    }
}

/// Parses numbers separated by `x`: `8x3x1025`.
fn parse_numbers<N: FromStr>(operand: &str, text: &str, what: &'static str) -> Result<Vec<N>, OperandError> {
    text.split('x').map(|part| part.parse().map_err(|_| not_a_number(operand, part, what))).collect()
}

fn not_a_number(operand: &str, part: &str, what: &'static str) -> OperandError {
    OperandError::Number { operand: shorten(operand), part: shorten(part), what }
}

/// Limits the length of command-line text in messages.
fn shorten(text: &str) -> String {
    plimsoll_core::text::shorten(text, 79)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(text: &str) -> Layout {
        text.parse::<Operand>().unwrap().layout
    }

    #[test]
    fn shapes_offsets_strides_and_transposition_are_parsed() {
        assert_eq!(layout("x:bf16:8x3x1025x128"), Layout::contiguous(&[8, 3, 1025, 128]).unwrap());
        assert_eq!(layout("x:f32:16:offset=1").offset(), 1);
        assert_eq!(layout("x:f32:4x8:transposed"), Layout::contiguous(&[4, 8]).unwrap().transposed());
        assert_eq!(layout("x:f32:4x8:strides=1x0:offset=3"), Layout::strided(&[4, 8], &[1, 0], 3).unwrap());
        let operand: Operand = "b:f16:1x128".parse().unwrap();
        assert_eq!((operand.to_string().as_str(), operand.is_plain()), ("b:1x128", true));
    }

    #[test]
    fn invalid_inputs_are_refused_with_the_part_that_is_wrong() {
        for (text, part) in [
            ("x", "NAME:TYPE:SHAPE"),
            (":f32:8", "NAME:TYPE:SHAPE"),
            ("x:f33:8", "f33"),
            ("x:f32:8x", "'' is not a valid extent"),
            ("x:f32:-8", "'-8' is not a valid extent"),
            ("x:f32:8:offset=1x2", "offset"),
            ("x:f32:8:sideways", "sideways"),
            ("x:f32:8x8:strides=1", "strides"),
            ("x:f32:8:strides=-1", "below the start"),
            ("x:f32:1x1x1x1x1x1x1x1x1", "dimensions"),
            ("x:f32:99999999999x99999999999", "2^63"),
        ] {
            let error = text.parse::<Operand>().unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
        let long = "x".repeat(100_000);
        assert!(long.parse::<Operand>().unwrap_err().to_string().len() < 400);
    }
}
