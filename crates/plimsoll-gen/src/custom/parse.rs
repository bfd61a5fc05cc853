//! Arguments as people type them: `in:f32:16Mi out:f32:16Mi u32:16Mi f32:0.5`.

use std::str::FromStr;

use plimsoll_core::text::shorten;
use plimsoll_core::unit::ByteSize;
use plimsoll_expr::{Category, DType, Value};

use super::argument::{Argument, Arguments, Buffer, Fill, Role};

/// The forms of an argument, for messages.
pub const GRAMMAR: &str = "in:TYPE:COUNT, out:TYPE:COUNT, inout:TYPE:COUNT or scratch:TYPE:COUNT for a buffer, TYPE:VALUE for a number, \
                           bytes:HEX for anything else";

/// Largest parameter that is accepted, bytes: no kernel takes more (CUDA C++ Programming Guide, `__global__` parameters).
const MOST_BYTES: usize = 32_764;
/// Most characters of an argument that an error quotes.
const LONGEST_QUOTE: usize = 40;

/// An argument that can't be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("argument {place}, '{text}': {why}")]
pub struct ParseArgumentError {
    /// Its number, from 1.
    pub place: usize,
    /// Its beginning, with control characters escaped.
    pub text: String,
    /// What is wrong.
    pub why: String,
}

impl FromStr for Arguments {
    type Err = ParseArgumentError;

    /// Parses arguments that spaces or commas separate.
    fn from_str(text: &str) -> Result<Self, ParseArgumentError> {
        let words = text.split(|c: char| c.is_whitespace() || c == ',').filter(|word| !word.is_empty());
        let argument = |(place, word): (usize, &str)| {
            argument(word).map_err(|why| ParseArgumentError {
                place: place + 1,
                text: shorten(word, LONGEST_QUOTE),
                why,
            })
        };
        words.enumerate().map(argument).collect::<Result<_, _>>().map(Self)
    }
}

fn argument(word: &str) -> Result<Argument, String> {
    let Some((head, rest)) = word.split_once(':') else { return Err(format!("write {GRAMMAR}")) };
    if let Some(role) = Role::ALL.into_iter().find(|role| role.name() == head) {
        return buffer(role, rest).map(Argument::Buffer);
    }
    if head == "bytes" {
        return hex(rest).map(Argument::Bytes);
    }
    let Ok(dtype) = head.parse::<DType>() else {
        return Err(format!("'{}' is neither a role nor a type: write {GRAMMAR}", shorten(head, LONGEST_QUOTE)));
    };
    Ok(Argument::Number(dtype, value(dtype, rest)?))
}

fn buffer(role: Role, text: &str) -> Result<Buffer, String> {
    let mut parts = text.splitn(3, ':');
    let (dtype, number) = (parts.next().unwrap_or_default(), parts.next());
    let dtype: DType = dtype.parse().map_err(|error| format!("{error}"))?;
    let number = number.ok_or_else(|| format!("write {}:{dtype}:COUNT", role.name()))?;
    let count = count(dtype, number)?;
    let fill = match parts.next() {
        None => Buffer::usual_fill(role, dtype),
        Some("zeros") => Fill::Zeros,
        Some("random") => Fill::Random,
        Some("iota") => Fill::Iota,
        Some(text) => Fill::Value(
            value(dtype, text).map_err(|why| format!("{why}; the content is zeros, random, iota or one value"))?,
        ),
    };
    Ok(Buffer { role, dtype, count, fill })
}

/// Elements: `16Mi` of them, or as many as `64MiB` hold.
fn count(dtype: DType, text: &str) -> Result<u64, String> {
    let too_many = || "more bytes than any memory has".to_owned();
    let count = if text.ends_with(['B', 'b']) {
        let ByteSize(bytes) = text.parse().map_err(|error| format!("{error}"))?;
        if !bytes.is_multiple_of(dtype.bytes()) {
            return Err(format!("{bytes} bytes aren't a whole number of {dtype}"));
        }
        bytes / dtype.bytes()
    } else {
        let whole = whole(text)
            .ok_or_else(|| "a count is a number such as 1000 or 16Mi, or a size such as 64MiB".to_owned())?;
        u64::try_from(whole).map_err(|_| if whole < 0 { "a count isn't negative".to_owned() } else { too_many() })?
    };
    match count.checked_mul(dtype.bytes()) {
        Some(0) => Err("a buffer has at least one element".to_owned()),
        Some(bytes) if bytes < 1 << 62 => Ok(count),
        _ => Err(too_many()),
    }
}

/// A whole number: `-5`, `0x1f`, `16Mi`, `1_000`. `None` for anything else, or beyond 127 bits.
fn whole(text: &str) -> Option<i128> {
    let text = text.replace('_', "");
    let (negative, digits) = text.strip_prefix('-').map_or((false, &*text), |rest| (true, rest));
    let units = [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40)];
    let unit = units.into_iter().find_map(|(name, shift)| Some((digits.strip_suffix(name)?, shift)));
    let (digits, shift) = unit.unwrap_or((digits, 0));
    let (digits, radix) = digits.strip_prefix("0x").map_or((digits, 10), |digits| (digits, 16));
    if !digits.starts_with(|c: char| c.is_ascii_hexdigit()) {
        return None;
    }
    let number = i128::from_str_radix(digits, radix).ok()?.checked_mul(1 << shift)?;
    Some(if negative { -number } else { number })
}

fn value(dtype: DType, text: &str) -> Result<Value, String> {
    let no_number = || format!("'{}' is not a value of {dtype}", shorten(text, LONGEST_QUOTE));
    match dtype.category() {
        Category::Bool => match text {
            "true" | "1" => Ok(Value::Bool(true)),
            "false" | "0" => Ok(Value::Bool(false)),
            _ => Err(no_number()),
        },
        Category::Int => {
            let number = whole(text).ok_or_else(no_number)?;
            let fits = dtype.wrap(number) == number;
            if fits { Ok(Value::Int(number)) } else { Err(format!("{number} is outside the range of {dtype}")) }
        }
        Category::Float => {
            let exact = whole(text).map(|number| number as f64);
            exact.or_else(|| text.parse().ok()).map(Value::Float).ok_or_else(no_number)
        }
    }
}

fn hex(text: &str) -> Result<Vec<u8>, String> {
    let digits = text.as_bytes();
    if digits.is_empty() || !digits.len().is_multiple_of(2) || !digits.iter().all(u8::is_ascii_hexdigit) {
        return Err("write two hexadecimal digits per byte, such as bytes:0000803f".to_owned());
    }
    if digits.len() / 2 > MOST_BYTES {
        return Err(format!("{} bytes are more than any kernel takes", digits.len() / 2));
    }
    let digit = |byte: u8| char::from(byte).to_digit(16).unwrap_or_default() as u8;
    Ok(digits.chunks_exact(2).map(|pair| 16 * digit(pair[0]) + digit(pair[1])).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> Vec<Argument> {
        text.parse::<Arguments>().unwrap_or_else(|error| panic!("{error}")).0
    }

    fn refused(text: &str) -> String {
        text.parse::<Arguments>().unwrap_err().to_string()
    }

    #[test]
    fn buffers_take_counts_and_sizes() {
        for (text, count) in
            [("in:f32:1000", 1000), ("in:f32:16Mi", 16 << 20), ("in:f32:64MiB", 16 << 20), ("in:f32:0x10", 16)]
        {
            assert_eq!(parse(text), [Argument::Buffer(Buffer::new(Role::In, DType::F32, count))], "{text}");
        }
        let found = parse("in:u32:8:iota, inout:f32:8:zeros\n out:i8:8:-1");
        let fills: Vec<Fill> = found.iter().filter_map(Argument::buffer).map(|buffer| buffer.fill).collect();
        assert_eq!(fills, [Fill::Iota, Fill::Zeros, Fill::Value(Value::Int(-1))]);
    }

    #[test]
    fn numbers_have_the_width_of_their_type() {
        let found = parse("u32:16Mi i8:-128 f32:0.5 f64:1e-3 f16:-inf bool:true bytes:00ff7F");
        let sizes: Vec<u64> = found.iter().map(Argument::bytes).collect();
        assert_eq!(sizes, [4, 1, 4, 8, 2, 1, 3]);
        assert_eq!(found[0], Argument::Number(DType::U32, Value::Int(16 << 20)));
        assert_eq!(found[6], Argument::Bytes(vec![0, 255, 127]));
        assert_eq!(parse(""), []);
    }

    #[test]
    fn an_error_names_the_argument_and_the_way_out() {
        for (text, why) in [
            ("in:f32:8 x", "argument 2, 'x': write in:TYPE:COUNT"),
            ("ptr:f32:8", "'ptr' is neither a role nor a type"),
            ("in:float:8", "there is no element type 'float'"),
            ("in:f32", "write in:f32:COUNT"),
            ("in:f32:0", "at least one element"),
            ("in:f32:-4", "a count isn't negative"),
            ("in:f32:many", "a count is a number such as"),
            ("in:f32:16M", "a count is a number such as"),
            ("in:f32:6B", "6 bytes aren't a whole number of f32"),
            ("in:f32:9223372036854775807", "more bytes than any memory"),
            ("in:f32:99999999999999999999999999", "more bytes than any memory"),
            ("in:f32:8:ones", "zeros, random, iota or one value"),
            ("u8:256", "256 is outside the range of u8"),
            ("u32:-1", "-1 is outside the range of u32"),
            ("u32:", "'' is not a value of u32"),
            ("u32:0.5", "'0.5' is not a value of u32"),
            ("f32:x", "'x' is not a value of f32"),
            ("bytes:abc", "two hexadecimal digits per byte"),
            ("bytes:", "two hexadecimal digits per byte"),
        ] {
            let message = refused(text);
            assert!(message.contains(why), "{text}: {message}");
        }
        assert!(refused(&format!("bytes:{}", "00".repeat(40_000))).contains("more than any kernel takes"));
        let long = "x".repeat(10_000);
        for text in [
            long.clone(),
            format!("{long}:f32"),
            format!("in:{long}:8"),
            format!("in:f32:{long}"),
            format!("in:f32:8:{long}"),
            format!("in:f32:{long}B"),
            format!("u32:{long}"),
            format!("bool:{long}"),
            format!("f32:{long}"),
        ] {
            assert!(refused(&text).len() < 400, "{}", refused(&text));
        }
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_or_refused(text in "((in|out|inout|scratch|bytes|u32|f32|i8|bool|é)?:?[0-9a-fxKMGiB:._é-]{0,12}[ ,]?){0,5}") {
            if let Ok(arguments) = text.parse::<Arguments>() {
                let again: Arguments = arguments.to_string().parse().map_err(|error| TestCaseError::fail(format!("{error}")))?;
                prop_assert_eq!(again.to_string(), arguments.to_string());
            }
        }
    }
}
