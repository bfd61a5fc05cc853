//! Fills buffers with random data, poisons outputs, and checks them on the device, by kernels that are compiled apart
//! from those that are measured (`check.cu`). When to do so is each probe's business.

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

/// A word that no right result has: a quiet NaN in single and in double precision, and no datum.
pub const POISON: u32 = 0xffff_ffff;
/// Count of wrong elements, and the first of them.
const RESULT_BYTES: u64 = 16;
/// Elements on which checks are tried themselves.
const TRIED: u64 = 1000;

/// Kernels that fill and check, on one stream.
pub struct Checker<G: Gpu> {
    stream: Arc<G::Stream>,
    unit: Unit<G>,
    result: G::Buffer,
}

/// Elements of `bytes` in a span.
fn elements(span: Span, bytes: u32) -> u64 {
    span.bytes() / u64::from(bytes)
}

impl<G: Gpu> Checker<G> {
    /// Compiles them, or finds them compiled.
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

    /// Fills a span with the data of a seed, in the stream's order.
    ///
    /// # Errors
    /// The driver's.
    pub fn fill(&self, data: Data, element: Element, out: Span, seed: u64) -> Result<(), Fault> {
        let n = elements(out, element.bytes());
        self.queue(&check::fill(data, element), n, Arguments::new().span(out).u64(seed).u64(n))
    }

    /// Fills a span with one word, in the stream's order.
    ///
    /// # Errors
    /// The driver's.
    pub fn words(&self, out: Span, word: u32) -> Result<(), Fault> {
        let n = elements(out, 4);
        self.queue(&check::words(), n, Arguments::new().span(out).u32(word).u64(n))
    }

    /// Fills a span with [`POISON`], in the stream's order.
    ///
    /// # Errors
    /// The driver's.
    pub fn poison(&self, out: Span) -> Result<(), Fault> {
        self.words(out, POISON)
    }

    fn reset(&self, count: u64, first: u64) -> Result<(), Fault> {
        let mut bytes = [0; RESULT_BYTES as usize];
        bytes[..8].copy_from_slice(&count.to_le_bytes());
        bytes[8..].copy_from_slice(&first.to_le_bytes());
        G::upload(&self.stream, self.result.whole(), &bytes)
    }

    fn word(&self, place: usize) -> Result<u64, Fault> {
        let mut bytes = [0; RESULT_BYTES as usize];
        G::download(&self.stream, self.result.whole(), &mut bytes)?;
        Ok(u64::from_le_bytes(std::array::from_fn(|byte| bytes[8 * place + byte])))
    }

    /// What a check kernel counted.
    fn verdict(&self, what: &str, n: u64) -> Result<Check, Fault> {
        Ok(match self.word(0)? {
            0 => Check::Passed,
            wrong => {
                Check::Failed(format!("{what}: {wrong} of {n} elements are wrong, the first is {}", self.word(1)?))
            }
        })
    }

    /// Whether a wrong element is found: on a device whose launches do nothing, all would seem right.
    ///
    /// # Errors
    /// [`Fault::OutOfMemory`]; the driver's.
    pub fn try_itself(&self) -> Result<Case, Fault> {
        let bytes = 4 * TRIED;
        let (out, input) = (G::allocate(&self.stream, bytes)?, G::allocate(&self.stream, bytes)?);
        self.words(out.whole(), 1)?;
        self.words(input.whole(), 1)?;
        G::upload(&self.stream, out.part(bytes - 4, 4)?, &POISON.to_le_bytes())?;
        let name = Op::Copy.name();
        let expected = Check::Failed(format!("{name}: 1 of {TRIED} elements are wrong, the first is {}", TRIED - 1));
        let found = self.map(Op::Copy, Element::Word, out.whole(), [input.whole(); 3], 0.0)?;
        let wrong =
            if found == expected { String::new() } else { "one wrong element isn't found: no check counts".to_owned() };
        Ok(Case { kernel: "checks".to_owned(), on: format!("n = {TRIED}"), wrong })
    }

    /// Is `out` what `op` makes of the inputs, element for element? For operations with one value per element.
    ///
    /// # Errors
    /// [`Fault::Invalid`] for an operation that folds; the driver's.
    pub fn map(&self, op: Op, element: Element, out: Span, inputs: [Span; 3], scalar: f64) -> Result<Check, Fault> {
        let kernel = check::map(op, element)
            .ok_or_else(|| Fault::Invalid(format!("{} leaves no value per element to be checked", op.name())))?;
        let n = elements(out, element.bytes());
        self.reset(0, u64::MAX)?;
        let arguments = inputs.iter().fold(Arguments::new().span(out), |list, input| list.span(*input));
        let arguments = match element {
            Element::F32 => arguments.f32(scalar as f32),
            Element::F64 => arguments.f64(scalar),
            Element::Word | Element::Vector16 => arguments.u32(scalar as u32),
        };
        self.queue(&kernel, n, arguments.u64(n).buffer(&self.result))?;
        self.verdict(op.name(), n)
    }

    /// Are all outputs of a mix right? Array k begins `pitch` bytes times k from `out` and from `input`; each has `bytes`.
    ///
    /// # Errors
    /// The driver's.
    pub fn mix(
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
        self.verdict("mix", n)
    }

    /// Is every word its own place?
    ///
    /// # Errors
    /// The driver's.
    pub fn marks(&self, out: Span) -> Result<Check, Fault> {
        let n = elements(out, 4);
        self.reset(0, u64::MAX)?;
        let arguments = Arguments::new().span(out).span(out).span(out).span(out).u32(0);
        self.queue(&check::marks(), n, arguments.u64(n).buffer(&self.result))?;
        self.verdict("marks of blocks", n)
    }

    /// Exclusive or of all words.
    ///
    /// # Errors
    /// The driver's.
    pub fn bits(&self, input: Span) -> Result<u32, Fault> {
        self.reset(0, 0)?;
        let n = elements(input, 4);
        self.queue(&check::bits(), n, Arguments::new().span(input).u64(n).buffer(&self.result))?;
        Ok(self.word(0)? as u32)
    }

    /// A launch that reads all of a span and leaves its exclusive or where nobody looks: what brings clean lines into the
    /// caches.
    ///
    /// # Errors
    /// Those of [`Unit::launch`].
    pub fn read(&self, input: Span) -> Result<G::Launch, Fault> {
        let n = elements(input, 4);
        self.unit.launch(&check::bits(), n, Arguments::new().span(input).u64(n).buffer(&self.result))
    }

    /// Sum of a·b, or of a where there is no b, in double precision.
    ///
    /// # Errors
    /// The driver's.
    pub fn sum(&self, element: Element, a: Span, b: Option<Span>) -> Result<f64, Fault> {
        self.reset(0.0_f64.to_bits(), 0)?;
        let n = elements(a, element.bytes());
        let arguments = Arguments::new().span(a).span(b.unwrap_or(a)).u64(n).buffer(&self.result);
        self.queue(&check::sum(b.is_some(), element), n, arguments)?;
        Ok(f64::from_bits(self.word(0)?))
    }

    /// Whether two folds of the same data agree.
    #[must_use]
    pub fn same_bits(what: &str, found: u32, expected: u32) -> Check {
        if found == expected {
            return Check::Passed;
        }
        Check::Failed(format!("{what}: the exclusive or of what was read is {found:#010x}, not {expected:#010x}"))
    }
}
