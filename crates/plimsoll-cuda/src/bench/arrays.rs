//! Memory for timing expressions: one array per operand, reused for all points so that all sizes use the same memory, and filled
//! with copies of one random block.

use std::sync::Arc;

use plimsoll_core::Fault;
use plimsoll_expr::{DType, Problem};

use crate::driver::Stream;
use crate::memory::Transfer as _;
use crate::memory::{DeviceBuffer, Span};

/// Bytes of the random block that an array repeats: larger than an L1, and of an odd size so that windows at power-of-two distances
/// start with different data.
const BLOCK: usize = (8 << 20) + 3 * 4096;

/// One array per operand.
#[derive(Debug)]
pub(super) struct Arrays {
    stream: Arc<Stream>,
    seed: u64,
    buffers: Vec<DeviceBuffer>,
    /// The random block of each array, with the kind of data it holds.
    blocks: Vec<Option<(Kind, Arc<DeviceBuffer>)>>,
}

/// The kind of data in an array.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Kind {
    dtype: DType,
    range: (f64, f64),
}

/// Refills arrays, in a stream's order.
#[derive(Clone, Debug)]
pub(super) struct Refill {
    arrays: Vec<Copies>,
}

/// The block, the span at the array's start that it is copied to, and the copies (to, from) that repeat it.
type Copies = (Arc<DeviceBuffer>, Span, Vec<(Span, Span)>);

impl Refill {
    pub(super) fn run(&self, stream: &Arc<Stream>) -> Result<(), Fault> {
        stream.context().bind()?;
        for (block, first, copies) in &self.arrays {
            first.copy_from(stream, block.whole().first(first.bytes())?)?;
            copies.iter().try_for_each(|(to, from)| to.copy_from(stream, *from))?;
        }
        Ok(())
    }
}

impl Arrays {
    /// No arrays yet.
    pub(super) fn new(stream: &Arc<Stream>, seed: u64) -> Self {
        Self { stream: Arc::clone(stream), seed, buffers: Vec::new(), blocks: Vec::new() }
    }

    /// The stream that they are used in.
    pub(super) fn stream(&self) -> &Arc<Stream> {
        &self.stream
    }

    /// Ensures arrays of at least these sizes. If one is too small, all are allocated again, so that memory is freed first.
    ///
    /// # Errors
    /// [`Fault::OutOfMemory`].
    pub(super) fn ensure(&mut self, bytes: &[u64]) -> Result<(), Fault> {
        let fits = |(place, bytes): (usize, &u64)| self.buffers.get(place).is_some_and(|array| array.bytes() >= *bytes);
        if bytes.iter().enumerate().all(fits) {
            return Ok(());
        }
        self.buffers.clear();
        self.blocks.clear();
        for &bytes in bytes {
            match DeviceBuffer::new(self.stream.context(), bytes) {
                Ok(array) => self.buffers.push(array),
                Err(fault) => {
                    self.buffers.clear();
                    return Err(fault);
                }
            }
        }
        Ok(())
    }

    /// A span of an array.
    ///
    /// # Errors
    /// [`Fault::Invalid`] if the range is out of bounds.
    pub(super) fn part(&self, array: usize, offset: u64, bytes: u64) -> Result<Span, Fault> {
        let none = || Fault::Invalid(format!("there is no array {array}"));
        self.buffers.get(array).ok_or_else(none)?.part(offset, bytes)
    }

    /// Fills an array with bits that results rarely have, in the stream's order.
    pub(super) fn poison(&self, array: usize) -> Result<(), Fault> {
        self.stream.context().bind()?;
        let Some(array) = self.buffers.get(array) else { return Ok(()) };
        array.whole().fill(&self.stream, 0xff)
    }

    /// Fills the inputs' arrays with data on which the expression is finite, unless they already hold it. The returned [`Refill`]
    /// fills them again.
    ///
    /// # Errors
    /// [`Fault::OutOfMemory`].
    pub(super) fn fill(&mut self, problem: &Problem) -> Result<Refill, Fault> {
        self.blocks.resize(self.buffers.len(), None);
        let mut refill = Refill { arrays: Vec::new() };
        let mut stale = Refill { arrays: Vec::new() };
        for (place, input) in problem.graph().inputs().iter().enumerate() {
            let kind = Kind { dtype: input.dtype, range: problem.range() };
            let known = self.blocks[place].as_ref().filter(|(known, _)| *known == kind);
            let (block, is_new) = match known {
                Some((_, block)) => (Arc::clone(block), false),
                None => (Arc::new(self.block(problem, kind.dtype, place as u64)?), true),
            };
            let array = &self.buffers[place];
            let copies = (
                Arc::clone(&block),
                array.whole().first(array.bytes().min(block.bytes()))?,
                doubling_copies(array, block.bytes())?,
            );
            if is_new {
                stale.arrays.push(copies.clone());
                self.blocks[place] = Some((kind, block));
            }
            refill.arrays.push(copies);
        }
        stale.run(&self.stream)?;
        Ok(refill)
    }

    fn block(&self, problem: &Problem, dtype: DType, place: u64) -> Result<DeviceBuffer, Fault> {
        let mut bytes = vec![0; BLOCK];
        problem.fill(dtype, self.seed.wrapping_add(place), &mut bytes);
        let block = DeviceBuffer::new(self.stream.context(), BLOCK as u64)?;
        block.upload(&self.stream, &bytes)?;
        Ok(block)
    }
}

/// Copies (to, from) that repeat the first `block` bytes of an array over the rest of it, doubling the filled part each time.
fn doubling_copies(array: &DeviceBuffer, block: u64) -> Result<Vec<(Span, Span)>, Fault> {
    let mut copies = Vec::new();
    let mut done = block.min(array.bytes());
    while done < array.bytes() {
        let next = done.min(array.bytes() - done);
        copies.push((array.part(done, next)?, array.part(0, next)?));
        done += next;
    }
    Ok(copies)
}
