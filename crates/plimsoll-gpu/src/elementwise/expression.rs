//! Expressions prepared for one device, with the plans made for them so far. A call with tensor layouts seen before finds its plan
//! without allocating, and holds no lock while it launches.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use plimsoll_expr::{Graph, Value};
use plimsoll_gen::elementwise::{Choose, Indexing, KernelSpec, plan};

use super::backend::Elementwise;
use super::checks::{Fit, check_count};
use super::engine::Engine;
use super::error::Error;
use super::key::{Key, Prehashed, hash};
use super::launch::{BoundExpression, Work};
use super::operand::{Operand, TensorRef, with_tensors};
use super::rotation::subject_like;
use super::tuner::{Tuned, Tuner};

/// Most plans that one expression keeps: a program whose shapes keep changing plans again instead of using ever more memory.
const MAX_PLANS: usize = 4096;

/// An expression on a device, with the plans made for it so far.
pub struct Expression<G: Elementwise> {
    engine: Engine<G>,
    graph: Graph,
    plans: RwLock<HashMap<u64, Arc<Ready<G>>, Prehashed>>,
    /// Tuned choices, by tensors and the choices of calls.
    tuned: RwLock<HashMap<(Indexing, Choose), Choose>>,
}

/// A prepared plan for calls with tensors of one set of layouts.
pub(super) struct Ready<G: Elementwise> {
    key: Key,
    pub(super) fit: Fit,
    /// `None` if there are no elements.
    pub(super) work: Option<Arc<Work<G>>>,
}

/// The plan of a caller's last call, which saves it a search among the expression's plans.
pub struct LastPlan<G: Elementwise>(Mutex<Option<Arc<Ready<G>>>>);

impl<G: Elementwise> Default for LastPlan<G> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

thread_local! {
    /// A buffer for scalars, reused by every call of the thread.
    static BITS: Cell<Vec<u64>> = const { Cell::new(Vec::new()) };
}

/// Holds the memory of operands.
fn hold_memory<'o, G: Elementwise>(operands: impl Iterator<Item = &'o Operand<G>>) -> Result<G::Held, Error> {
    Ok(G::hold(&operands.filter_map(Operand::span_to_hold).collect::<Vec<_>>())?)
}

/// The addresses of the tensors' elements of index 0.
fn starts<G: Elementwise>(tensors: &[TensorRef<'_, G>]) -> Vec<u64> {
    tensors.iter().map(TensorRef::start).collect()
}

impl<G: Elementwise> Expression<G> {
    pub(super) fn new(engine: Engine<G>, graph: Graph) -> Self {
        Self { engine, graph, plans: RwLock::default(), tuned: RwLock::default() }
    }

    /// The expression itself.
    #[must_use]
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Its engine.
    #[must_use]
    pub fn engine(&self) -> &Engine<G> {
        &self.engine
    }

    /// Launches the expression on tensors and scalars, asynchronously in the order of `stream`. `outputs` are all outputs of the
    /// expression; one that is written in place is the same tensor as its input. Plans and compiles for layouts that it meets for the
    /// first time; for known ones it allocates nothing. The memory is freed only after this launch; it is not ordered with the work of
    /// other streams otherwise.
    ///
    /// # Errors
    /// Those of [`Expression::bind`].
    pub fn run(
        &self,
        inputs: &[Operand<G>],
        outputs: &[Operand<G>],
        scalars: &[Value],
        choose: &Choose,
        stream: &G::Stream,
    ) -> Result<(), Error> {
        self.check_counts(inputs, outputs)?;
        with_tensors(inputs, outputs, |tensors| {
            self.with_bits(scalars, |bits| {
                let ready = self.find_or_prepare(tensors, bits, choose)?;
                self.launch_held(stream, &ready, (inputs, outputs), (tensors, bits))
            })
        })
    }

    /// Binds the expression to tensors and scalars, to launch it any number of times. `outputs` are all outputs of the expression;
    /// one that is written in place is the same tensor as its input. Compiles the kernel if there is none yet.
    ///
    /// # Errors
    /// Invalid tensors, with their sizes, types or addresses; no kernel can do what `choose` forces; compiler errors.
    pub fn bind(
        &self,
        inputs: &[Operand<G>],
        outputs: &[Operand<G>],
        scalars: &[Value],
        choose: &Choose,
    ) -> Result<BoundExpression<G>, Error> {
        self.check_counts(inputs, outputs)?;
        with_tensors(inputs, outputs, |tensors| {
            self.with_bits(scalars, |bits| {
                let ready = self.find_or_prepare(tensors, bits, choose)?;
                ready.fit.check_addresses(&self.graph, tensors, self.engine.compiler())?;
                let mut words = Vec::new();
                if let Some(work) = &ready.work {
                    work.plan().words(&starts(tensors), bits, &mut words)?;
                }
                Ok(BoundExpression::new(ready.work.clone(), words, hold_memory(inputs.iter().chain(outputs))?))
            })
        })
    }

    /// The kernel that [`Expression::bind`] would launch, without checking the memory; `None` if it would refuse or launch nothing.
    pub(crate) fn predict_kernel(
        &self,
        inputs: &[Operand<G>],
        outputs: &[Operand<G>],
        choose: &Choose,
    ) -> Option<KernelSpec> {
        let tensors: Vec<TensorRef<'_, G>> = inputs.iter().chain(outputs).map(Operand::tensor).collect();
        let space = Fit::new(&self.graph, &tensors).ok()?.space;
        let indexing = Indexing::new(&self.graph, &space, &starts(&tensors)).ok()?;
        Some(plan(&self.graph, &indexing, self.engine.device(), self.engine.table(), choose).ok()?.spec)
    }

    fn check_counts(&self, inputs: &[Operand<G>], outputs: &[Operand<G>]) -> Result<(), Error> {
        check_count("inputs", self.graph.inputs().len(), inputs.len())?;
        check_count("outputs", self.graph.outputs().len(), outputs.len())
    }

    /// Calls `task` with the scalars' bits in their declared types.
    pub(super) fn with_bits<R>(
        &self,
        scalars: &[Value],
        task: impl FnOnce(&[u64]) -> Result<R, Error>,
    ) -> Result<R, Error> {
        check_count("scalars", self.graph.scalars().len(), scalars.len())?;
        let mut bits = BITS.take();
        bits.clear();
        bits.extend(self.graph.scalars().iter().zip(scalars).map(|(scalar, value)| scalar.dtype.encode(*value)));
        let result = task(&bits);
        BITS.set(bits);
        result
    }

    /// Finds or makes the plan for tensors of these layouts and types.
    fn find_or_prepare(
        &self,
        tensors: &[TensorRef<'_, G>],
        bits: &[u64],
        choose: &Choose,
    ) -> Result<Arc<Ready<G>>, Error> {
        let hash = hash(tensors, choose);
        match self.find(hash, tensors, choose) {
            Some(ready) => Ok(ready),
            None => self.prepare_and_keep(hash, tensors, bits, choose),
        }
    }

    /// The plan for tensors of these layouts and types, if it is known. Allocates nothing.
    pub(super) fn find(&self, hash: u64, tensors: &[TensorRef<'_, G>], choose: &Choose) -> Option<Arc<Ready<G>>> {
        let found = self.plans.read().unwrap_or_else(PoisonError::into_inner).get(&hash).cloned();
        found.filter(|ready| ready.key.choose == *choose && ready.key.matches(tensors))
    }

    /// Makes the plan for tensors of these layouts and types.
    pub(super) fn prepare_and_keep(
        &self,
        hash: u64,
        tensors: &[TensorRef<'_, G>],
        bits: &[u64],
        choose: &Choose,
    ) -> Result<Arc<Ready<G>>, Error> {
        let ready = Arc::new(self.prepare(tensors, bits, choose)?);
        let mut plans = self.plans.write().unwrap_or_else(PoisonError::into_inner);
        if plans.len() >= MAX_PLANS {
            plans.clear();
        }
        plans.insert(hash, Arc::clone(&ready));
        Ok(ready)
    }

    /// As [`Expression::find_or_prepare`], for a caller that always passes the same `choose` and keeps the last result.
    pub(super) fn reuse_or_prepare(
        &self,
        last: &LastPlan<G>,
        tensors: &[TensorRef<'_, G>],
        bits: &[u64],
        choose: &Choose,
    ) -> Result<Arc<Ready<G>>, Error> {
        // If another thread holds the lock, search the shared plans instead.
        let Ok(mut last) = last.0.try_lock() else { return self.find_or_prepare(tensors, bits, choose) };
        if let Some(ready) = last.as_ref().filter(|ready| ready.key.matches(tensors)) {
            return Ok(Arc::clone(ready));
        }
        let ready = self.find_or_prepare(tensors, bits, choose)?;
        *last = Some(Arc::clone(&ready));
        Ok(ready)
    }

    fn prepare(&self, tensors: &[TensorRef<'_, G>], bits: &[u64], choose: &Choose) -> Result<Ready<G>, Error> {
        let fit = Fit::new(&self.graph, tensors)?;
        // Checked before anything is compiled.
        fit.check_addresses(&self.graph, tensors, self.engine.compiler())?;
        let key = Key::new(tensors, choose)?;
        if fit.space.elements() == 0 {
            return Ok(Ready { key, fit, work: None });
        }
        let starts = starts(tensors);
        let indexing = Indexing::new(&self.graph, &fit.space, &starts)?;
        let choose = self.tuned_choice(&indexing, choose);
        let plan = plan(&self.graph, &indexing, self.engine.device(), self.engine.table(), &choose)?;
        let mut words = Vec::new();
        plan.words(&starts, bits, &mut words)?;
        Ok(Ready { key, fit, work: Some(Arc::new(self.engine.work(plan, words.len())?)) })
    }

    /// Tunes the plan for calls with operands of these layouts and choices, and uses it for such calls from now on. The operands' memory
    /// is neither read nor written: `tuner` has its own. Waits for the result; once `stop` is set, that is the planner's own plan.
    ///
    /// # Errors
    /// Those of [`Expression::bind`] for the operands' shapes and types; faults of the device. What only keeps it from tuning is a note
    /// of the result.
    pub fn tune(
        &self,
        inputs: &[Operand<G>],
        outputs: &[Operand<G>],
        scalars: &[Value],
        choose: &Choose,
        tuner: &mut Tuner<G>,
        stop: &AtomicBool,
    ) -> Result<Tuned, Error> {
        self.check_counts(inputs, outputs)?;
        with_tensors(inputs, outputs, |tensors| {
            self.with_bits(scalars, |bits| self.tune_borrowed(tensors, bits, choose, (tuner, stop)))
        })
    }

    /// As [`Expression::tune`], for tensors of one call with the scalars' bits.
    ///
    /// # Errors
    /// Those of [`Expression::tune`].
    pub fn tune_borrowed(
        &self,
        tensors: &[TensorRef<'_, G>],
        bits: &[u64],
        choose: &Choose,
        (tuner, stop): (&mut Tuner<G>, &AtomicBool),
    ) -> Result<Tuned, Error> {
        let fit = Fit::new(&self.graph, tensors)?;
        if fit.space.elements() == 0 {
            return Ok(Tuned::untuned(choose, "there are no elements, so there is nothing to tune".to_owned()));
        }
        let indexing = Indexing::new(&self.graph, &fit.space, &starts(tensors))?;
        let subject = subject_like(&self.graph, tensors, bits)?;
        let tuned = tuner.tune(&subject, choose, stop)?;
        if tuned.is_other {
            self.use_tuned(indexing, choose, &tuned.choose);
        }
        Ok(tuned)
    }

    fn tuned_choice(&self, indexing: &Indexing, choose: &Choose) -> Choose {
        let tuned = self.tuned.read().unwrap_or_else(PoisonError::into_inner);
        if tuned.is_empty() {
            return *choose;
        }
        tuned.get(&(indexing.clone(), *choose)).copied().unwrap_or(*choose)
    }

    /// Uses tuned choices for calls with these tensors and choices.
    fn use_tuned(&self, indexing: Indexing, choose: &Choose, tuned: &Choose) {
        let mut all = self.tuned.write().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MAX_PLANS {
            all.clear();
        }
        all.insert((indexing, *choose), *tuned);
        // Plans made before the tuning.
        self.plans.write().unwrap_or_else(PoisonError::into_inner).clear();
    }
}
