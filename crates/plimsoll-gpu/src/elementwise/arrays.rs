//! Memory for timing expressions: one array per operand, reused for all points so that all sizes use the same memory, and filled
//! with copies of one random block.

use std::sync::Arc;

use plimsoll_core::Fault;
use plimsoll_expr::{DType, Problem};

use crate::{Gpu, Memory as _, Span};

/// Most bytes of the random block that an array repeats: larger than an L1, and of an odd size so that windows at power-of-two distances
/// start with different data.
const BLOCK: usize = (8 << 20) + 3 * 4096;

/// One array per operand.
pub(super) struct Arrays<G: Gpu> {
    stream: Arc<G::Stream>,
    seed: u64,
    buffers: Vec<G::Buffer>,
    /// The random block of each array, with the kind of data it holds.
    blocks: Vec<Option<(Kind, Arc<G::Buffer>)>>,
}

/// The kind of data in an array.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Kind {
    dtype: DType,
    range: (f64, f64),
}

/// Refills arrays, in a stream's order.
pub(super) struct Refill<G: Gpu> {
    arrays: Vec<Copies<G>>,
}

/// The block, the span at the array's start that it is copied to, and the copies (to, from) that repeat it.
type Copies<G> = (Arc<<G as Gpu>::Buffer>, Span, Vec<(Span, Span)>);

impl<G: Gpu> Refill<G> {
    pub(super) fn run(&self, stream: &Arc<G::Stream>) -> Result<(), Fault> {
        G::bind(stream)?;
        for (block, first, copies) in &self.arrays {
            G::copy(stream, *first, block.whole().first(first.bytes())?)?;
            copies.iter().try_for_each(|(to, from)| G::copy(stream, *to, *from))?;
        }
        Ok(())
    }
}

impl<G: Gpu> Arrays<G> {
    /// No arrays yet.
    pub(super) fn new(stream: &Arc<G::Stream>, seed: u64) -> Self {
        Self { stream: Arc::clone(stream), seed, buffers: Vec::new(), blocks: Vec::new() }
    }

    /// The stream that they are used in.
    pub(super) fn stream(&self) -> &Arc<G::Stream> {
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
            match G::allocate(&self.stream, bytes) {
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
        G::bind(&self.stream)?;
        let Some(array) = self.buffers.get(array) else { return Ok(()) };
        G::fill(&self.stream, array.whole(), 0xff)
    }

    /// Fills the inputs' arrays with data on which the expression is finite, unless they already hold it. The returned [`Refill`]
    /// fills them again.
    ///
    /// # Errors
    /// [`Fault::OutOfMemory`].
    pub(super) fn fill(&mut self, problem: &Problem) -> Result<Refill<G>, Fault> {
        self.blocks.resize(self.buffers.len(), None);
        let mut refill = Refill::<G> { arrays: Vec::new() };
        let mut stale = Refill::<G> { arrays: Vec::new() };
        for (place, input) in problem.graph().inputs().iter().enumerate() {
            let kind = Kind { dtype: input.dtype, range: problem.range() };
            let known = self.blocks[place].as_ref().filter(|(known, _)| *known == kind);
            let (block, is_new) = match known {
                Some((_, block)) => (Arc::clone(block), false),
                None => (Arc::new(self.block(problem, kind.dtype, place)?), true),
            };
            let array = &self.buffers[place];
            let copies = (
                Arc::clone(&block),
                array.whole().first(array.bytes().min(block.bytes()))?,
                doubling_copies(array.whole(), block.bytes())?,
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

    fn block(&self, problem: &Problem, dtype: DType, place: usize) -> Result<G::Buffer, Fault> {
        let wanted = usize::try_from(self.buffers[place].bytes()).unwrap_or(BLOCK).min(BLOCK);
        let mut bytes = vec![0; wanted];
        problem.fill(dtype, self.seed.wrapping_add(place as u64), &mut bytes);
        let block = G::allocate(&self.stream, wanted as u64)?;
        G::upload(&self.stream, block.whole(), &bytes)?;
        Ok(block)
    }
}

/// Copies (to, from) that repeat the first `block` bytes of an array over the rest of it, doubling the filled part each time.
fn doubling_copies(array: Span, block: u64) -> Result<Vec<(Span, Span)>, Fault> {
    let mut copies = Vec::new();
    let mut done = block.min(array.bytes());
    while done < array.bytes() {
        let next = done.min(array.bytes() - done);
        copies.push((array.part(done, next)?, array.part(0, next)?));
        done += next;
    }
    Ok(copies)
}
