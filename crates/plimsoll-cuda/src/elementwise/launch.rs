//! Where kernels of expressions are launched: with words that their plan made for tensors that were checked, and with the memory of
//! these held or ordered. The one place of expressions with `unsafe`.

use std::cell::RefCell;
use std::sync::Arc;

use plimsoll_core::Fault;
use plimsoll_gen::elementwise::{self, Dependent, Plan, PlanError};

use super::engine::{Expression, Ready};
use super::error::Error;
use super::operand::Raw;
use crate::driver::{Function, Stream};
use crate::launch::{Form, Geometry, Launch, WordKernel, only};
use crate::memory::Held;

/// A plan with its kernel.
pub(super) struct Work {
    plan: Plan,
    kernel: WordKernel,
    form: Form,
}

impl Work {
    /// A kernel of a plan, which may overlap the one before it where the device lets kernels do so.
    pub(super) fn new(overlaps: bool, plan: Plan, kernel: WordKernel) -> Self {
        let dependent = overlaps && plan.spec.dependent != Dependent::No;
        Self { plan, kernel, form: Form { dependent, ..Form::default() } }
    }

    pub(super) fn plan(&self) -> &Plan {
        &self.plan
    }

    fn geometry(&self) -> Geometry {
        let elementwise::Geometry { blocks, threads, shared } = self.plan.geometry();
        Geometry { shared, ..Geometry::linear(blocks, threads) }
    }

    /// Asks a stream of the kernel's own device to run it.
    ///
    /// # Safety
    /// The words must be of this plan, for tensors that its checks admitted and whose memory is there until the kernel has ended or,
    /// where the stream is recorded, as long as the graph.
    unsafe fn run(&self, stream: &Stream, words: &[u64]) -> Result<(), Error> {
        let context = stream.context();
        if context.is_given_up() {
            let why = "given up after an earlier fault: start the program anew".to_owned();
            return Err(Fault::DeviceLost { call: "cuLaunchKernel", why }.into());
        }
        let own = self.kernel.function().context();
        if !own.shares_device_with(context) {
            return Err(Error::of_devices("stream".to_owned(), own, context));
        }
        self.kernel.takes(words)?;
        context.bind()?;
        // SAFETY: the kernel takes as many words (`WordKernel::new`), which live until the call returns. It touches what the plan
        // says of the tensors that the words are of, and they are as this function's contract has them.
        unsafe { Ok(stream.submit(self.kernel.function(), self.geometry(), self.form, None, only(words))?) }
    }
}

thread_local! {
    /// Addresses and words of the launch being made, kept for the next one.
    static SCRATCH: RefCell<(Vec<u64>, Vec<u64>)> = const { RefCell::new((Vec::new(), Vec::new())) };
}

impl Expression {
    /// Launches what was made ready for tensors of these layouts (inputs in order, then all outputs), with the scalars' bits.
    /// Allocates nothing.
    ///
    /// For typed calls alone, whose tensors are borrowed from who keeps them in order with the stream: buffers, which are freed in
    /// the order of their lane ([`super::lane::Lane::among`]), and slices of other libraries, whose streams wait for this one.
    pub(super) fn enqueue(
        &self,
        stream: &Stream,
        ready: &Ready,
        tensors: &[Raw<'_>],
        bits: &[u64],
    ) -> Result<(), Error> {
        let context = self.engine().context();
        ready.fit.admits(self.graph(), tensors, context)?;
        let Some(work) = &ready.work else { return Ok(()) };
        SCRATCH.with_borrow_mut(|(starts, words)| {
            starts.clear();
            starts.extend(tensors.iter().map(Raw::start));
            work.plan.words(starts, bits, words)?;
            // SAFETY: the words are of this plan, which is one for tensors of these layouts; `admits` found them inside of their
            // memory, which is borrowed until the call returns and freed
            // after what the stream is asked now; what is recorded is kept by the graph.
            unsafe { work.run(stream, words) }
        })
    }
}

/// An expression on given tensors and scalars: what can be launched again and again. It holds the tensors' memory.
pub struct Bound {
    ready: Arc<Ready>,
    words: Vec<u64>,
    held: Held,
}

impl Bound {
    /// `words` are of the plan in `ready`, for tensors that its checks admitted and whose memory is `held`.
    pub(super) fn new(ready: Arc<Ready>, words: Vec<u64>, held: Held) -> Self {
        Self { ready, words, held }
    }

    /// Whether there are no elements: then nothing is launched.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ready.work.is_none()
    }

    fn work(&self) -> Result<&Work, Error> {
        self.ready.work.as_ref().ok_or(Error::Plan(PlanError::Empty))
    }

    /// What is launched, and why it is so.
    ///
    /// # Errors
    /// [`PlanError::Empty`] where there are no elements.
    pub fn plan(&self) -> Result<&Plan, Error> {
        Ok(&self.work()?.plan)
    }

    /// The kernel: its registers and the like.
    ///
    /// # Errors
    /// Those of [`Bound::plan`].
    pub fn function(&self) -> Result<&Function, Error> {
        Ok(self.work()?.kernel.function())
    }

    /// As a launch, to be timed in streams and graphs.
    ///
    /// # Errors
    /// Those of [`Bound::plan`].
    pub fn launch(&self) -> Result<Launch, Error> {
        let work = self.work()?;
        // SAFETY: the words are of this plan, for tensors that its checks admitted and whose memory the launch holds.
        let launch = unsafe { work.kernel.launch(work.geometry(), &self.words, &self.held) }?;
        // SAFETY: the form is the plan's, for which its kernel is written.
        Ok(unsafe { launch.with_form(work.form) })
    }

    /// Launches it; nothing where there are no elements. Allocates nothing, unless the stream is recorded. Memory that belongs to
    /// another stream is freed after this one, and in no other order with what that stream does.
    ///
    /// # Errors
    /// The driver's.
    pub fn enqueue(&self, stream: &Stream) -> Result<(), Error> {
        let Some(work) = &self.ready.work else { return Ok(()) };
        let entered = stream.enter()?;
        self.held.admit(&entered)?;
        if entered.is_recording() {
            entered.keep(Arc::new((Arc::clone(&self.ready), self.held.clone())));
        }
        // SAFETY: as in `launch`; the memory is held by `self`, is freed after what the stream is asked now, and is kept by a graph
        // that is recorded.
        unsafe { work.run(stream, &self.words) }
    }
}
