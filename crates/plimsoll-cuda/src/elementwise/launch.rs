//! Launches kernels of expressions, with the words that their plan made for checked tensors, whose memory is held or ordered. The
//! only module of expressions with `unsafe`.

use std::cell::RefCell;
use std::sync::Arc;

use plimsoll_core::Fault;
use plimsoll_gen::elementwise::{self, Dependent, Plan, PlanError};

use super::engine::{Expression, Ready};
use super::error::Error;
use super::operand::Raw;
use crate::driver::{Function, Stream};
use crate::launch::{Form, Geometry, Launch, WordKernel, word_pointers};
use crate::memory::HeldRegions;

/// A plan with its kernel.
pub(super) struct Work {
    plan: Plan,
    kernel: WordKernel,
    form: Form,
}

impl Work {
    /// The kernel of a plan. It may overlap the preceding kernel if the device and the plan allow it.
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

    /// Submits it to a stream of the kernel's device.
    ///
    /// # Safety
    /// The words must come from this plan, for tensors that passed its checks and whose memory lives until the kernel has ended or,
    /// if the stream is recording, as long as the graph.
    unsafe fn run(&self, stream: &Stream, words: &[u64]) -> Result<(), Error> {
        let context = stream.context();
        if context.is_given_up() {
            let why = "given up after an earlier fault: restart the program".to_owned();
            return Err(Fault::DeviceLost { call: "cuLaunchKernel", why }.into());
        }
        let own = self.kernel.function().context();
        if !own.shares_device_with(context) {
            return Err(Error::device_mismatch("stream".to_owned(), own, context));
        }
        self.kernel.check_words(words)?;
        context.bind()?;
        // SAFETY: the kernel takes this number of words (`WordKernel::new`), which live until the call returns. It accesses only
        // the elements of the tensors in the plan, which satisfy this function's contract.
        unsafe { Ok(stream.submit(self.kernel.function(), self.geometry(), self.form, None, word_pointers(words))?) }
    }
}

thread_local! {
    /// Buffers for addresses and words, reused by every launch of the thread.
    static SCRATCH: RefCell<(Vec<u64>, Vec<u64>)> = const { RefCell::new((Vec::new(), Vec::new())) };
}

impl Expression {
    /// Launches the prepared plan on tensors of its layouts (inputs in order, then all outputs), with the scalars' bits. Allocates
    /// nothing.
    ///
    /// Only for typed calls, whose tensors are borrowed from owners that keep them in order with the stream: buffers, which are
    /// freed in the order of their lane ([`super::lane::Lane::run_with_others`]), and slices of other libraries, whose streams wait
    /// for this one.
    pub(super) fn enqueue(
        &self,
        stream: &Stream,
        ready: &Ready,
        tensors: &[Raw<'_>],
        bits: &[u64],
    ) -> Result<(), Error> {
        let context = self.engine().context();
        ready.fit.check_addresses(self.graph(), tensors, context)?;
        let Some(work) = &ready.work else { return Ok(()) };
        SCRATCH.with_borrow_mut(|(starts, words)| {
            starts.clear();
            starts.extend(tensors.iter().map(Raw::start));
            work.plan.words(starts, bits, words)?;
            // SAFETY: the words come from this plan, which is for tensors of these layouts; `check_addresses` found them inside
            // their memory, which is borrowed until the call returns and freed only after the work submitted now; a recording graph
            // keeps it.
            unsafe { work.run(stream, words) }
        })
    }
}

/// An expression bound to tensors and scalars, which can be launched any number of times. It holds the tensors' memory.
pub struct BoundExpression {
    ready: Arc<Ready>,
    words: Vec<u64>,
    held: HeldRegions,
}

impl BoundExpression {
    /// `words` come from the plan in `ready`, for tensors that passed its checks and whose memory is `held`.
    pub(super) fn new(ready: Arc<Ready>, words: Vec<u64>, held: HeldRegions) -> Self {
        Self { ready, words, held }
    }

    /// Whether there are no elements, so that nothing is launched.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ready.work.is_none()
    }

    fn work(&self) -> Result<&Work, Error> {
        self.ready.work.as_ref().ok_or(Error::Plan(PlanError::Empty))
    }

    /// The plan, with the reasons for its choices.
    ///
    /// # Errors
    /// [`PlanError::Empty`] if there are no elements.
    pub fn plan(&self) -> Result<&Plan, Error> {
        Ok(&self.work()?.plan)
    }

    /// The kernel, for example for its register count.
    ///
    /// # Errors
    /// Those of [`BoundExpression::plan`].
    pub fn function(&self) -> Result<&Function, Error> {
        Ok(self.work()?.kernel.function())
    }

    /// As a launch for timing in streams and graphs.
    ///
    /// # Errors
    /// Those of [`BoundExpression::plan`].
    pub fn launch(&self) -> Result<Launch, Error> {
        let work = self.work()?;
        // SAFETY: the words come from this plan, for tensors that passed its checks and whose memory the launch holds.
        let launch = unsafe { work.kernel.launch(work.geometry(), &self.words, &self.held) }?;
        // SAFETY: the form is the plan's, for which its kernel is written.
        Ok(unsafe { launch.with_form(work.form) })
    }

    /// Launches it; does nothing if there are no elements. Allocates nothing unless the stream is recording. Memory that belongs to
    /// another stream is freed after this launch; it is not ordered with that stream's work otherwise.
    pub fn enqueue(&self, stream: &Stream) -> Result<(), Error> {
        let Some(work) = &self.ready.work else { return Ok(()) };
        let entered = stream.enter()?;
        self.held.admit(&entered)?;
        if entered.is_recording() {
            entered.keep(Arc::new((Arc::clone(&self.ready), self.held.clone())));
        }
        // SAFETY: as in `launch`; `self` holds the memory, which is freed only after the work submitted now; a recording graph
        // keeps it.
        unsafe { work.run(stream, &self.words) }
    }
}
