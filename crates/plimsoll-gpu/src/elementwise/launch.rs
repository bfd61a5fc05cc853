//! Launches kernels of expressions, with the words that their plan made for checked tensors, whose memory is held or ordered. Calls
//! on tensors of other libraries are in `foreign`.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;

use plimsoll_core::Fault;
use plimsoll_gen::elementwise::{self, Choose, Dependent, Plan, PlanError};

use super::backend::Elementwise;
use super::error::Error;
use super::expression::{Expression, LastPlan, Ready};
use super::operand::{Operand, TensorRef};
use crate::{Form, Geometry};

/// A plan with its kernel.
pub(super) struct Work<G: Elementwise> {
    plan: Plan,
    function: G::Function,
    /// Words that the kernel takes.
    words: usize,
    form: Form,
}

impl<G: Elementwise> Work<G> {
    /// A plan and its kernel, which takes this number of words. It may overlap the preceding kernel if the device and the plan allow
    /// it.
    pub(super) fn new(overlaps: bool, plan: Plan, function: G::Function, words: usize) -> Self {
        let dependent = overlaps && plan.spec.dependent != Dependent::No;
        Self { plan, function, words, form: Form { dependent, ..Form::default() } }
    }

    pub(super) fn plan(&self) -> &Plan {
        &self.plan
    }

    fn shape(&self) -> (Geometry, Form) {
        let elementwise::Geometry { blocks, threads, shared } = self.plan.geometry();
        (Geometry { shared, ..Geometry::linear(blocks, threads) }, self.form)
    }

    fn check_words(&self, words: &[u64]) -> Result<(), Fault> {
        let wrong = || Fault::Invalid(format!("{} words for a kernel that takes {}", words.len(), self.words));
        (words.len() == self.words).then_some(()).ok_or_else(wrong)
    }

    /// Submits it to a stream of the kernel's device.
    ///
    /// # Safety
    /// The words must come from this plan, for tensors that passed its checks and whose memory lives until the kernel has ended or,
    /// if the stream is recording, as long as the recording.
    unsafe fn run(&self, entered: &mut G::Entered<'_>, words: &[u64]) -> Result<(), Error> {
        G::check_stream(&self.function, entered).map_err(Error::other_stream)?;
        self.check_words(words)?;
        // SAFETY: the kernel takes this number of words, is written for the plan's form, and belongs to the stream's device. It
        // accesses only the elements of the tensors in the plan, which satisfy this function's contract.
        Ok(unsafe { G::launch_words(entered, &self.function, self.shape(), words) }?)
    }
}

thread_local! {
    /// Buffers for addresses and words, reused by every launch of the thread.
    static SCRATCH: RefCell<(Vec<u64>, Vec<u64>)> = const { RefCell::new((Vec::new(), Vec::new())) };
}

impl<G: Elementwise> Expression<G> {
    /// Launches the expression on tensors (inputs in order, then all outputs), with the scalars' bits, in the stream
    /// that was entered. A call with the layouts of the last one allocates nothing. For calls whose tensors are kept alive
    /// by their owners; [`Expression::run`] is safe.
    ///
    /// # Safety
    /// - All bytes of each tensor are memory of the engine's device, which is freed only after the work submitted now. If the stream
    ///   is recording, the memory lives as long as the recording.
    /// - `last` is used for calls of this expression with the same `choose` only.
    ///
    /// # Errors
    /// Those of [`Expression::bind`].
    pub unsafe fn launch_borrowed(
        &self,
        entered: &mut G::Entered<'_>,
        last: &LastPlan<G>,
        (tensors, bits): (&[TensorRef<'_, G>], &[u64]),
        choose: &Choose,
    ) -> Result<(), Error> {
        let ready = self.reuse_or_prepare(last, tensors, bits, choose)?;
        // SAFETY: the caller promises it.
        unsafe { self.launch_ready(entered, &ready, tensors, bits) }
    }

    /// Launches a plan on operands, whose memory they hold.
    pub(super) fn launch_held(
        &self,
        stream: &G::Stream,
        ready: &Ready<G>,
        (inputs, outputs): (&[Operand<G>], &[Operand<G>]),
        (tensors, bits): (&[TensorRef<'_, G>], &[u64]),
    ) -> Result<(), Error> {
        if ready.work.is_none() {
            return Ok(());
        }
        let mut entered = G::enter(stream)?;
        for operand in inputs.iter().chain(outputs) {
            if let Some(held) = operand.held()? {
                G::admit(&mut entered, held)?;
            }
        }
        // SAFETY: the operands hold the memory of these tensors and were admitted, so it is freed only after the work submitted now;
        // a recording holds it.
        unsafe { self.launch_ready(&mut entered, ready, tensors, bits) }
    }

    /// Launches the prepared plan on tensors of its layouts. Allocates nothing.
    ///
    /// # Safety
    /// The tensors' memory lives until the work submitted now has ended or, if the stream is recording, as long as the recording.
    pub(super) unsafe fn launch_ready(
        &self,
        entered: &mut G::Entered<'_>,
        ready: &Ready<G>,
        tensors: &[TensorRef<'_, G>],
        bits: &[u64],
    ) -> Result<(), Error> {
        ready.fit.check_addresses(self.graph(), tensors, self.engine().compiler())?;
        let Some(work) = &ready.work else { return Ok(()) };
        SCRATCH.with_borrow_mut(|(starts, words)| {
            starts.clear();
            starts.extend(tensors.iter().map(TensorRef::start));
            work.plan.words(starts, bits, words)?;
            // SAFETY: the words come from this plan, which is for tensors of these layouts; `check_addresses` found them inside
            // their memory, which lives as long as the caller promises.
            unsafe { work.run(entered, words) }
        })
    }
}

/// An expression bound to tensors and scalars, which can be launched any number of times. It holds the tensors' memory.
pub struct BoundExpression<G: Elementwise> {
    /// `None` if there are no elements.
    work: Option<Arc<Work<G>>>,
    words: Vec<u64>,
    held: G::Held,
}

impl<G: Elementwise> BoundExpression<G> {
    /// `words` come from the plan in `work`, for tensors that passed its checks and whose memory is `held`.
    pub(super) fn new(work: Option<Arc<Work<G>>>, words: Vec<u64>, held: G::Held) -> Self {
        Self { work, words, held }
    }

    /// Without elements.
    pub(super) fn empty() -> Result<Self, Fault> {
        Ok(Self { work: None, words: Vec::new(), held: G::hold(&[])? })
    }

    pub(super) fn held(&self) -> &G::Held {
        &self.held
    }

    /// Replaces words that are the bits of scalars.
    pub(super) fn set_words(&mut self, places: Range<usize>, bits: &[u64]) {
        if let Some(words) = self.words.get_mut(places) {
            words.copy_from_slice(bits);
        }
    }

    /// Whether there are no elements, so that nothing is launched.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.work.is_none()
    }

    /// Whether its launches may overlap the preceding one.
    #[must_use]
    pub fn overlaps(&self) -> bool {
        self.work.as_ref().is_some_and(|work| work.form.dependent)
    }

    fn work(&self) -> Result<&Work<G>, Error> {
        self.work.as_deref().ok_or(Error::Plan(PlanError::Empty))
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
    pub fn function(&self) -> Result<&G::Function, Error> {
        Ok(&self.work()?.function)
    }

    /// As a launch for timing in streams and graphs.
    ///
    /// # Errors
    /// Those of [`BoundExpression::plan`].
    pub fn launch(&self) -> Result<G::Launch, Error> {
        let work = self.work()?;
        work.check_words(&self.words)?;
        // SAFETY: the words are as many as the kernel takes. They come from this plan, for whose form the kernel is written, and are
        // for tensors that passed its checks and whose memory the launch holds.
        Ok(unsafe { G::prepare_words(&work.function, work.shape(), &self.words, &self.held) }?)
    }

    /// Launches it; does nothing if there are no elements. Allocates nothing unless the stream is recording. Memory that belongs to
    /// another stream is freed after this launch; it is not ordered with that stream's work otherwise.
    pub fn enqueue(&self, stream: &G::Stream) -> Result<(), Error> {
        let Some(work) = &self.work else { return Ok(()) };
        let mut entered = G::enter(stream)?;
        G::admit(&mut entered, &self.held)?;
        // SAFETY: as in `launch`; `self` holds the memory and it was admitted, so it is freed only after the work submitted now; a
        // recording holds it.
        unsafe { work.run(&mut entered, &self.words) }
    }

    /// As [`BoundExpression::enqueue`], in a stream of another library.
    ///
    /// # Safety
    /// Memory of other libraries among the tensors, and the stream, live until the work submitted now has ended, and the memory as long
    /// as recordings of it. The stream is one of the compiler's device.
    pub(super) unsafe fn enqueue_foreign(&self, compiler: &G::Compiler, stream: u64) -> Result<(), Error> {
        let Some(work) = &self.work else { return Ok(()) };
        // SAFETY: the caller promises it.
        let mut entered = unsafe { G::enter_foreign(compiler, stream) }?;
        G::admit(&mut entered, &self.held)?;
        // SAFETY: as in `launch`; `self` holds its own memory, which was admitted, and the caller keeps the rest.
        unsafe { work.run(&mut entered, &self.words) }
    }
}
