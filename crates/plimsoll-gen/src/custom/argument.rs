//! The arguments of a kernel that is timed: buffers to allocate, numbers and raw bytes.

use std::fmt;

use plimsoll_core::Traffic;
use plimsoll_core::stats::Rng;
use plimsoll_expr::{DType, Value};

/// What a kernel does with a buffer. It decides the bytes that a launch is assumed to move; nothing checks it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Reads all of it once.
    In,
    /// Writes all of it once.
    Out,
    /// Reads and writes all of it once.
    InOut,
    /// Anything else: its bytes count as not moved.
    Scratch,
}

impl Role {
    /// Every role.
    pub const ALL: [Self; 4] = [Self::In, Self::Out, Self::InOut, Self::Scratch];

    /// Its name in text.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::In => "in",
            Self::Out => "out",
            Self::InOut => "inout",
            Self::Scratch => "scratch",
        }
    }
}

/// What a buffer holds before the first launch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fill {
    /// Zeros.
    Zeros,
    /// Floats from -1 to 1, and integers from the whole range of their type.
    Random,
    /// 0, 1, 2, … cast to the type: valid indices.
    Iota,
    /// One value everywhere.
    Value(Value),
}

/// A buffer to allocate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Buffer {
    /// What the kernel does with it.
    pub role: Role,
    /// The type of its elements.
    pub dtype: DType,
    /// How many elements it has.
    pub count: u64,
    /// What it holds before the first launch.
    pub fill: Fill,
}

impl Buffer {
    /// A buffer with the usual content: floats that are read are random, everything else is zero. Random integers would be wrong
    /// indices.
    #[must_use]
    pub fn new(role: Role, dtype: DType, count: u64) -> Self {
        Self { role, dtype, count, fill: Self::usual_fill(role, dtype) }
    }

    pub(super) fn usual_fill(role: Role, dtype: DType) -> Fill {
        let random = dtype.is_float() && matches!(role, Role::In | Role::InOut);
        if random { Fill::Random } else { Fill::Zeros }
    }

    /// Its size; `u64::MAX` where that doesn't fit.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.count.saturating_mul(self.dtype.bytes())
    }

    /// The bytes that a launch is assumed to move.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        match self.role {
            Role::In => Traffic::new(self.bytes(), 0),
            Role::Out => Traffic::new(0, self.bytes()),
            Role::InOut => Traffic::new(self.bytes(), self.bytes()),
            Role::Scratch => Traffic::NONE,
        }
    }

    /// Its content, in pieces.
    #[must_use]
    pub fn content(&self, seed: u64) -> Content {
        Content { buffer: *self, next: 0, random: Rng::new(seed) }
    }
}

/// The content of a buffer, written in pieces of whole elements.
#[derive(Clone, Debug)]
pub struct Content {
    buffer: Buffer,
    next: u64,
    random: Rng,
}

impl Content {
    /// Replaces `piece` by the next elements, at most `most` bytes of them; it is empty after the last.
    pub fn write(&mut self, piece: &mut Vec<u8>, most: u64) {
        piece.clear();
        let Buffer { dtype, count, fill, .. } = self.buffer;
        let end = count.min(self.next.saturating_add(most / dtype.bytes()));
        for place in self.next..end {
            let value = match fill {
                Fill::Zeros => Value::Int(0),
                Fill::Iota => Value::Int(place.into()),
                Fill::Value(value) => value,
                Fill::Random if dtype.is_float() => Value::Float(2.0 * self.random.uniform() - 1.0),
                Fill::Random if dtype == DType::Bool => Value::Int((self.random.next_u64() & 1).into()),
                Fill::Random => Value::Int(dtype.wrap(self.random.next_u64().into())),
            };
            dtype.write(value, piece);
        }
        self.next = end;
    }
}

/// One argument.
#[derive(Clone, Debug, PartialEq)]
pub enum Argument {
    /// A pointer to a buffer that is allocated for the kernel.
    Buffer(Buffer),
    /// A number.
    Number(DType, Value),
    /// Any other parameter, such as a struct, as the bytes in memory.
    Bytes(Vec<u8>),
}

impl Argument {
    /// Its size as a parameter, bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Buffer(_) => 8,
            Self::Number(dtype, _) => dtype.bytes(),
            Self::Bytes(bytes) => bytes.len() as u64,
        }
    }

    /// The buffer, if it is one.
    #[must_use]
    pub fn buffer(&self) -> Option<&Buffer> {
        match self {
            Self::Buffer(buffer) => Some(buffer),
            _ => None,
        }
    }
}

/// The arguments of a launch, in order.
///
/// ```
/// use plimsoll_gen::custom::Arguments;
///
/// let arguments: Arguments = "in:f32:16Mi out:f32:16Mi u32:16Mi f32:0.5".parse()?;
/// assert_eq!(arguments.traffic().total(), 128 << 20);
/// assert_eq!(arguments.to_string(), "in:f32:16Mi out:f32:16Mi u32:16777216 f32:0.5");
/// # Ok::<(), plimsoll_gen::custom::ParseArgumentError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Arguments(pub Vec<Argument>);

impl Arguments {
    /// The buffers, in order.
    pub fn buffers(&self) -> impl Iterator<Item = &Buffer> {
        self.0.iter().filter_map(Argument::buffer)
    }

    /// The bytes that a launch is assumed to move, by the buffers' roles.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        self.buffers().map(Buffer::traffic).fold(Traffic::NONE, |all, one| {
            Traffic::new(all.read.saturating_add(one.read), all.written.saturating_add(one.written))
        })
    }

    /// Bytes of all buffers.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.buffers().map(Buffer::bytes).fold(0, u64::saturating_add)
    }
}

/// `16Mi`; a plain number if it isn't a multiple of 1024.
fn format_count(count: u64) -> String {
    let units = [(40, "Ti"), (30, "Gi"), (20, "Mi"), (10, "Ki")];
    let unit = units.into_iter().find(|(shift, _)| count > 0 && count.trailing_zeros() >= *shift);
    unit.map_or(count.to_string(), |(shift, name)| format!("{}{name}", count >> shift))
}

fn format_value(value: Value) -> String {
    match value {
        Value::Float(x) => x.to_string(),
        Value::Int(i) => i.to_string(),
        Value::Bool(b) => b.to_string(),
    }
}

impl fmt::Display for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.role.name(), self.dtype, format_count(self.count))?;
        match self.fill {
            fill if fill == Self::usual_fill(self.role, self.dtype) => Ok(()),
            Fill::Zeros => f.write_str(":zeros"),
            Fill::Random => f.write_str(":random"),
            Fill::Iota => f.write_str(":iota"),
            Fill::Value(value) => write!(f, ":{}", format_value(value)),
        }
    }
}

impl fmt::Display for Argument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Buffer(buffer) => buffer.fmt(f),
            Self::Number(dtype, value) => write!(f, "{dtype}:{}", format_value(*value)),
            Self::Bytes(bytes) => {
                f.write_str("bytes:")?;
                bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }
    }
}

impl fmt::Display for Arguments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<String> = self.0.iter().map(Argument::to_string).collect();
        f.write_str(&all.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(text: &str) -> Vec<u8> {
        let arguments: Arguments = text.parse().unwrap();
        let mut content = arguments.buffers().next().unwrap().content(7);
        let (mut all, mut piece) = (Vec::new(), Vec::new());
        loop {
            content.write(&mut piece, 12);
            assert!(piece.len() <= 12);
            if piece.is_empty() {
                return all;
            }
            all.extend_from_slice(&piece);
        }
    }

    #[test]
    fn content_is_written_in_pieces_of_whole_elements() {
        assert_eq!(content("in:u16:7:iota"), [0, 0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0]);
        assert_eq!(content("in:u8:300:iota")[254..258], [254, 255, 0, 1]);
        assert_eq!(content("in:i32:2:-1"), [0xff; 8]);
        assert_eq!(content("out:f64:5"), [0; 40]);
        let floats = content("in:f32:1000");
        let floats: Vec<f32> = floats.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        assert_eq!(floats.len(), 1000);
        assert!(floats.iter().all(|x| (-1.0..=1.0).contains(x)) && floats.iter().any(|x| *x < -0.5), "{floats:?}");
    }

    #[test]
    fn roles_decide_the_bytes_that_are_moved() {
        let traffic = |text: &str| text.parse::<Arguments>().unwrap().traffic();
        assert_eq!(traffic("in:f32:1Ki out:u8:10 inout:f64:2 scratch:f32:1Mi u64:9"), Traffic::new(4096 + 16, 10 + 16));
        assert_eq!(traffic("f32:1"), Traffic::NONE);
    }
}
