//! Fills buffers with random data, poisons outputs, and checks results on the device. Its kernels (`check.cu`) are compiled
//! separately from those that are measured. Each probe decides when to fill and check.

use std::rc::Rc;
use std::sync::Arc;

use plimsoll_core::Fault;
use plimsoll_core::probe::Case;
use plimsoll_core::sample::Check;
use plimsoll_gen::kernel::Op;
use plimsoll_gen::kernel::check::{self, Data};
use plimsoll_gen::kernel::{Element, KernelDesc};

use crate::launch::Arguments;
use crate::unit::Unit;
use crate::{Gpu, Memory as _, Span, Trust};

/// A word that is never a correct result and never input data: a quiet NaN in single and in double precision.
pub const POISON: u32 = 0xffff_ffff;
/// Bytes of a check's result: the number of wrong elements, and the index of the first.
const RESULT_BYTES: u64 = 16;
/// Elements in the self-test of the checks.
const SELF_TEST_ELEMENTS: u64 = 1000;

/// Kernels that fill and check, on one stream.
pub struct Checker<G: Gpu> {
    stream: Arc<G::Stream>,
    unit: Unit<G>,
    result: G::Buffer,
}

/// Number of elements of `bytes` bytes in a span.
fn count_elements(span: Span, bytes: u32) -> u64 {
    span.bytes() / u64::from(bytes)
}

impl<G: Gpu> Checker<G> {
    /// Compiles the kernels, or loads them from the cache.
    ///
    /// # Errors
    /// Those of [`Unit::new`].
    pub fn new(device: &G::Device, trust: Trust) -> Result<Rc<Self>, Fault> {
        let unit = Unit::new(device, &check::SOURCE, &check::kernels(), trust)?;
        let result = G::allocate(G::stream(device), RESULT_BYTES)?;
        Ok(Rc::new(Self { stream: Arc::clone(G::stream(device)), unit, result }))
    }

    fn queue(&self, kernel: &KernelDesc, n: u64, arguments: Arguments) -> Result<(), Fault> {
        G::bind(&self.stream)?;
        G::launch(&self.stream, &self.unit.launch(kernel, n, arguments)?)
    }

    /// Fills a span with data generated from a seed, in stream order.
    pub fn fill(&self, data: Data, element: Element, out: Span, seed: u64) -> Result<(), Fault> {
        let n = count_elements(out, element.bytes());
        self.queue(&check::fill(data, element), n, Arguments::new().span(out).u64(seed).u64(n))
    }

    /// Fills a span with copies of one word, in stream order.
    pub fn fill_words(&self, out: Span, word: u32) -> Result<(), Fault> {
        let n = count_elements(out, 4);
        self.queue(&check::words(), n, Arguments::new().span(out).u32(word).u64(n))
    }

    /// Fills a span with [`POISON`], in stream order.
    pub fn poison(&self, out: Span) -> Result<(), Fault> {
        self.fill_words(out, POISON)
    }

    fn reset(&self, count: u64, first: u64) -> Result<(), Fault> {
        let mut bytes = [0; RESULT_BYTES as usize];
        bytes[..8].copy_from_slice(&count.to_le_bytes());
        bytes[8..].copy_from_slice(&first.to_le_bytes());
        G::upload(&self.stream, self.result.whole(), &bytes)
    }

    fn result_word(&self, index: usize) -> Result<u64, Fault> {
        let mut bytes = [0; RESULT_BYTES as usize];
        G::download(&self.stream, self.result.whole(), &mut bytes)?;
        Ok(u64::from_le_bytes(std::array::from_fn(|byte| bytes[8 * index + byte])))
    }

    /// Reads the count that a check kernel left.
    fn read_verdict(&self, what: &str, n: u64) -> Result<Check, Fault> {
        Ok(match self.result_word(0)? {
            0 => Check::Passed,
            wrong => Check::Failed(format!(
                "{what}: {wrong} of {n} elements are wrong, the first is {}",
                self.result_word(1)?
            )),
        })
    }

    /// Tests that the check finds a wrong element: on a device whose launches do nothing, everything would seem right.
    ///
    /// # Errors
    /// [`Fault::OutOfMemory`].
    pub fn self_test(&self) -> Result<Case, Fault> {
        let bytes = 4 * SELF_TEST_ELEMENTS;
        let (out, input) = (G::allocate(&self.stream, bytes)?, G::allocate(&self.stream, bytes)?);
        self.fill_words(out.whole(), 1)?;
        self.fill_words(input.whole(), 1)?;
        G::upload(&self.stream, out.part(bytes - 4, 4)?, &POISON.to_le_bytes())?;
        let name = Op::Copy.name();
        let last = SELF_TEST_ELEMENTS - 1;
        let why = format!("{name}: 1 of {SELF_TEST_ELEMENTS} elements are wrong, the first is {last}");
        let expected = Check::Failed(why);
        let found = self.check_map(Op::Copy, Element::Word, out.whole(), [input.whole(); 3], 0.0)?;
        let missed = "the check missed a wrong element, so no result can be trusted";
        let wrong = if found == expected { String::new() } else { missed.to_owned() };
        Ok(Case { kernel: "checks".to_owned(), on: format!("n = {SELF_TEST_ELEMENTS}"), wrong })
    }

    /// Checks every element of `out` against `op` of the inputs, for operations with one result per element.
    ///
    /// # Errors
    /// [`Fault::Invalid`] for a reduction.
    pub fn check_map(
        &self,
        op: Op,
        element: Element,
        out: Span,
        inputs: [Span; 3],
        scalar: f64,
    ) -> Result<Check, Fault> {
        let kernel = check::map(op, element)
            .ok_or_else(|| Fault::Invalid(format!("{} has no result per element that could be checked", op.name())))?;
        let n = count_elements(out, element.bytes());
        self.reset(0, u64::MAX)?;
        let arguments = inputs.iter().fold(Arguments::new().span(out), |list, input| list.span(*input));
        let arguments = match element {
            Element::F32 => arguments.f32(scalar as f32),
            Element::F64 => arguments.f64(scalar),
            Element::Word | Element::Vector16 => arguments.u32(scalar as u32),
        };
        self.queue(&kernel, n, arguments.u64(n).buffer(&self.result))?;
        self.read_verdict(op.name(), n)
    }

    /// Checks all outputs of a mix. Array k begins `k * pitch` bytes after `out` and after `input`, and has `bytes` bytes.
    pub fn check_mix(
        &self,
        out: Span,
        input: Span,
        (pitch, bytes): (u64, u64),
        (reads, writes): (u32, u32),
    ) -> Result<Check, Fault> {
        let n = bytes / 4;
        self.reset(0, u64::MAX)?;
        let arguments = Arguments::new().span(out).span(input).u64(pitch / 4).u64(n).u32(reads).u32(writes);
        self.queue(&check::mix(), n, arguments.buffer(&self.result))?;
        self.read_verdict("mix", n)
    }

    /// Checks that every word holds its own index.
    pub fn check_marks(&self, out: Span) -> Result<Check, Fault> {
        let n = count_elements(out, 4);
        self.reset(0, u64::MAX)?;
        let arguments = Arguments::new().span(out).span(out).span(out).span(out).u32(0);
        self.queue(&check::marks(), n, arguments.u64(n).buffer(&self.result))?;
        self.read_verdict("marks of blocks", n)
    }

    /// Computes the exclusive or of all words.
    pub fn xor_words(&self, input: Span) -> Result<u32, Fault> {
        self.reset(0, 0)?;
        let n = count_elements(input, 4);
        self.queue(&check::bits(), n, Arguments::new().span(input).u64(n).buffer(&self.result))?;
        Ok(self.result_word(0)? as u32)
    }

    /// Prepares a launch that reads all of a span, to bring clean lines into the caches. Its result, the exclusive or, is ignored.
    ///
    /// # Errors
    /// Those of [`Unit::launch`].
    pub fn prepare_read(&self, input: Span) -> Result<G::Launch, Fault> {
        let n = count_elements(input, 4);
        self.unit.launch(&check::bits(), n, Arguments::new().span(input).u64(n).buffer(&self.result))
    }

    /// Computes the sum of a·b, or of a if there is no b, in double precision.
    pub fn sum_products(&self, element: Element, a: Span, b: Option<Span>) -> Result<f64, Fault> {
        self.reset(0.0_f64.to_bits(), 0)?;
        let n = count_elements(a, element.bytes());
        let arguments = Arguments::new().span(a).span(b.unwrap_or(a)).u64(n).buffer(&self.result);
        self.queue(&check::sum(b.is_some(), element), n, arguments)?;
        Ok(f64::from_bits(self.result_word(0)?))
    }

    /// Checks that two folds (exclusive or) of the same data agree.
    #[must_use]
    pub fn compare_folds(what: &str, found: u32, expected: u32) -> Check {
        if found == expected {
            return Check::Passed;
        }
        Check::Failed(format!("{what}: the exclusive or of what was read is {found:#010x}, not {expected:#010x}"))
    }
}
