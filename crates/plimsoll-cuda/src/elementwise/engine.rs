//! Expressions compiled for one device, with the plans and kernels made for them so far. A call with tensor layouts seen before
//! finds its plan without allocating, and holds no lock while it launches.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use plimsoll_core::Fault;
use plimsoll_expr::{Graph, Value};
use plimsoll_gen::Target;
use plimsoll_gen::elementwise::{
    Choose, Device, Indexing, KernelSpec, Plan, PlanError, Table, generate, plan, plan_batch,
};
use plimsoll_gen::kernel::OPTIONS;

use super::checks::{Fit, check_batch_disjoint, check_count};
use super::error::Error;
use super::key::{Key, Prehashed, hash};
use super::launch::{BoundExpression, Work};
use super::operand::{Operand, Raw};
use crate::CudaDevice;
use crate::compile::{Kernels, Program};
use crate::device::dependent_launch;
use crate::driver::{Attribute, Context, Function};
use crate::launch::WordKernel;
use crate::memory::HeldRegions;

/// Most plans that one expression keeps: a program whose shapes keep changing plans again instead of using ever more memory.
const MAX_PLANS: usize = 4096;
/// Shared memory of a block that needs no opt-in, bytes.
const DEFAULT_SHARED: u32 = 48 << 10;

/// File name of generated sources in messages.
const SOURCE: &str = "elementwise.cu";

/// Compiles expressions for one device and keeps their kernels. Clones share the kernels.
#[derive(Clone)]
pub struct Engine {
    shared: Arc<Shared>,
}

struct Shared {
    context: Arc<Context>,
    kernels: Kernels,
    device: Device,
    table: Table,
    /// Whether the device supports overlapping (dependent) launches; if not, they run one after another.
    overlaps: bool,
    functions: Mutex<HashMap<KernelSpec, Function>>,
}

impl Engine {
    /// For a device, with the plans that are shipped for it.
    pub fn new(device: &CudaDevice) -> Result<Self, Error> {
        Self::from_parts(&device.context, device.kernels.for_context(&device.context), None)
    }

    /// For a device, with other plans, such as those of `plimsoll tune`.
    pub fn with_table(device: &CudaDevice, table: Table) -> Result<Self, Error> {
        Self::from_parts(&device.context, device.kernels.for_context(&device.context), Some(table))
    }

    pub(crate) fn from_parts(context: &Arc<Context>, kernels: Kernels, table: Option<Table>) -> Result<Self, Error> {
        let handle = context.device();
        let number = |attribute| handle.attribute(attribute).map(|value| u32::try_from(value).unwrap_or(0));
        let capability = 10 * number(Attribute::CapabilityMajor)? + number(Attribute::CapabilityMinor)?;
        let device = Device {
            target: kernels.target().parse().unwrap_or(Target::plain(capability)),
            multiprocessors: number(Attribute::Multiprocessors)?,
            threads_per_multiprocessor: number(Attribute::ThreadsPerMultiprocessor)?,
            l2_bytes: number(Attribute::L2Bytes)?.into(),
        };
        let table = match table {
            Some(table) => table,
            None => Table::for_device(&handle.name()?, capability),
        };
        let overlaps = dependent_launch(context.driver(), capability).is_ok();
        let (context, functions) = (Arc::clone(context), Mutex::default());
        Ok(Self { shared: Arc::new(Shared { context, kernels, device, table, overlaps, functions }) })
    }

    /// The context that its kernels run in.
    #[must_use]
    pub fn context(&self) -> &Arc<Context> {
        &self.shared.context
    }

    /// The properties of the device that plans depend on.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.shared.device
    }

    /// Prepares an expression for this device. Its kernels are compiled when it is first bound to or run on tensors.
    ///
    /// # Errors
    /// [`Error::Fault`] if kernels can't be compiled on this machine.
    pub fn expression(&self, graph: &Graph) -> Result<Expression, Error> {
        self.shared.kernels.compiler().map_err(Fault::from)?;
        Ok(Expression { engine: self.clone(), graph: graph.clone(), plans: RwLock::default() })
    }

    /// Compiles kernels that will be needed, on all processors and in this order, until `stop` is set. Does nothing without a
    /// cache.
    pub(crate) fn compile_ahead(&self, specs: &[KernelSpec], stop: &AtomicBool) {
        let kernels = &self.shared.kernels;
        let options = OPTIONS.map(str::to_owned);
        let texts: Vec<_> = specs.iter().map(generate).collect();
        let programs: Vec<Program<'_>> = texts
            .iter()
            .map(|text| Program {
                name: SOURCE,
                source: &text.text,
                headers: text.headers,
                options: &options,
                target: kernels.target(),
            })
            .collect();
        kernels.compile_ahead(&programs, stop);
    }

    /// The kernel of a plan: from this engine, from the disk, or compiled.
    fn kernel(&self, plan: &Plan, words: usize) -> Result<WordKernel, Error> {
        let shared = &*self.shared;
        let lock = || shared.functions.lock().unwrap_or_else(PoisonError::into_inner);
        let known = lock().get(&plan.spec).cloned();
        let function = match known {
            Some(function) => function,
            None => {
                // Two threads may compile the same kernel, since the lock isn't held meanwhile. The first one stays: it may be
                // running.
                let text = generate(&plan.spec);
                let options = OPTIONS.map(str::to_owned);
                let (headers, target) = (text.headers, shared.kernels.target());
                let program = Program { name: SOURCE, source: &text.text, headers, options: &options, target };
                // A cached kernel for another number of words is compiled again.
                let signature = (text.entry, vec![8 * words as u64]);
                let module = shared.kernels.load_with(&program, &[signature])?;
                let function = module.function(text.entry)?;
                lock().entry(plan.spec.clone()).or_insert(function).clone()
            }
        };
        let bytes = plan.geometry().shared;
        if bytes > DEFAULT_SHARED {
            function.allow_shared(bytes)?;
        }
        Ok(WordKernel::new(&function, words)?)
    }
}

/// An expression on a device, with the plans made for it so far.
pub struct Expression {
    engine: Engine,
    graph: Graph,
    plans: RwLock<HashMap<u64, Arc<Ready>, Prehashed>>,
}

/// A prepared plan for calls with tensors of one set of layouts.
pub(super) struct Ready {
    key: Key,
    pub(super) fit: Fit,
    /// `None` if there are no elements.
    pub(super) work: Option<Work>,
}

/// Holds the memory of operands.
fn hold_memory<'o>(operands: impl Iterator<Item = &'o Operand>) -> Result<HeldRegions, Error> {
    Ok(HeldRegions::new(operands.map(Operand::region).collect::<Result<Vec<_>, _>>()?))
}

impl Expression {
    /// The expression itself.
    #[must_use]
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Its engine.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Binds the expression to tensors and scalars. `outputs` are all outputs of the expression; one that is written in place is
    /// the same tensor as its input. Compiles the kernel if there is none yet.
    ///
    /// # Errors
    /// Invalid tensors, with their sizes, types or addresses; no kernel can do what `choose` forces; compiler errors.
    pub fn bind(
        &self,
        inputs: &[Operand],
        outputs: &[Operand],
        scalars: &[Value],
        choose: &Choose,
    ) -> Result<BoundExpression, Error> {
        check_count("inputs", self.graph.inputs().len(), inputs.len())?;
        check_count("outputs", self.graph.outputs().len(), outputs.len())?;
        let tensors: Vec<Raw<'_>> = inputs.iter().chain(outputs).map(Operand::raw).collect();
        let bits = self.bits(scalars)?;
        // Types aren't part of a plan's key, so they are checked here.
        Fit::new(&self.graph, &tensors)?.check_addresses(&self.graph, &tensors, self.engine.context())?;
        let ready = self.ready(&tensors, &bits, choose)?;
        let mut words = Vec::new();
        if let Some(work) = &ready.work {
            let starts: Vec<u64> = tensors.iter().map(Raw::start).collect();
            work.plan().words(&starts, &bits, &mut words)?;
        }
        Ok(BoundExpression::new(ready, words, hold_memory(inputs.iter().chain(outputs))?))
    }

    /// The kernel that [`Expression::bind`] would launch, without checking the memory; `None` if it would refuse or launch nothing.
    pub(crate) fn predict_kernel(
        &self,
        inputs: &[Operand],
        outputs: &[Operand],
        choose: &Choose,
    ) -> Option<KernelSpec> {
        let tensors: Vec<Raw<'_>> = inputs.iter().chain(outputs).map(Operand::raw).collect();
        let space = Fit::new(&self.graph, &tensors).ok()?.space;
        let starts: Vec<u64> = tensors.iter().map(Raw::start).collect();
        let indexing = Indexing::new(&self.graph, &space, &starts).ok()?;
        let shared = &self.engine.shared;
        Some(plan(&self.graph, &indexing, &shared.device, &shared.table, choose).ok()?.spec)
    }

    /// Binds many sets of contiguous tensors, in as few launches as kernel parameters allow. Sets without elements are skipped.
    ///
    /// # Errors
    /// Those of [`Expression::bind`]; [`Error::Batch`] for tensors that aren't contiguous; [`Error::Overlap`] for an output that
    /// shares memory with a tensor of another set, as sets run in no order.
    pub fn batch(
        &self,
        sets: &[(Vec<Operand>, Vec<Operand>)],
        scalars: &[Value],
        choose: &Choose,
    ) -> Result<Vec<BoundExpression>, Error> {
        let bits = self.bits(scalars)?;
        let (mut members, mut spans) = (Vec::new(), Vec::new());
        for (set, (inputs, outputs)) in sets.iter().enumerate() {
            check_count("inputs", self.graph.inputs().len(), inputs.len())?;
            check_count("outputs", self.graph.outputs().len(), outputs.len())?;
            let tensors: Vec<Raw<'_>> = inputs.iter().chain(outputs).map(Operand::raw).collect();
            let fit = Fit::new(&self.graph, &tensors)?;
            fit.check_addresses(&self.graph, &tensors, self.engine.context())?;
            let shape = outputs.first().map(|output| output.layout().shape());
            let gaps =
                |operand: &&Operand| !operand.layout().is_contiguous() || Some(operand.layout().shape()) != shape;
            if let Some(place) = inputs.iter().chain(outputs).position(|operand| gaps(&operand)) {
                return Err(Error::Batch { set, name: super::checks::name(&self.graph, place) });
            }
            let length = fit.space.elements();
            spans.extend(fit.spans(&tensors, set));
            if length > 0 {
                members.push((length, tensors.iter().map(Raw::start).collect::<Vec<u64>>(), fit));
            }
        }
        check_batch_disjoint(&self.graph, spans)?;
        let held = hold_memory(sets.iter().flat_map(|(inputs, outputs)| inputs.iter().chain(outputs)))?;
        let mut launches = Vec::new();
        self.split(&mut members, &bits, (choose, &held), &mut launches)?;
        Ok(launches)
    }

    /// Appends launches for members of a batch, with as many members in each as fit.
    fn split(
        &self,
        members: &mut Vec<(u64, Vec<u64>, Fit)>,
        bits: &[u64],
        (choose, held): (&Choose, &HeldRegions),
        launches: &mut Vec<BoundExpression>,
    ) -> Result<(), Error> {
        let lengths: Vec<u64> = members.iter().map(|(length, ..)| *length).collect();
        let starts: Vec<u64> = members.iter().flat_map(|(_, starts, _)| starts).copied().collect();
        if lengths.is_empty() {
            return Ok(());
        }
        let (device, table) = (&self.engine.shared.device, &self.engine.shared.table);
        match plan_batch(&self.graph, &lengths, &starts, device, table, choose) {
            Ok(plan) => {
                let mut words = Vec::new();
                plan.words(&starts, bits, &mut words)?;
                let kernel = self.engine.kernel(&plan, words.len())?;
                let key = Key::new(&[], choose);
                let Some((_, _, fit)) = members.pop() else { return Ok(()) };
                let ready =
                    Arc::new(Ready { key, fit, work: Some(Work::new(self.engine.shared.overlaps, plan, kernel)) });
                launches.push(BoundExpression::new(ready, words, held.clone()));
                Ok(())
            }
            Err(PlanError::Sets { most, .. }) if (1..members.len()).contains(&most) => {
                let mut second = members.split_off(most);
                self.split(members, bits, (choose, held), launches)?;
                self.split(&mut second, bits, (choose, held), launches)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The scalars' bits in their declared types.
    fn bits(&self, scalars: &[Value]) -> Result<Vec<u64>, Error> {
        check_count("scalars", self.graph.scalars().len(), scalars.len())?;
        Ok(self.graph.scalars().iter().zip(scalars).map(|(scalar, value)| scalar.dtype.encode(*value)).collect())
    }

    /// Finds or makes the plan for tensors of these layouts and of the expression's types.
    fn ready(&self, tensors: &[Raw<'_>], bits: &[u64], choose: &Choose) -> Result<Arc<Ready>, Error> {
        let hash = hash(tensors, choose);
        let found = self.plans.read().unwrap_or_else(PoisonError::into_inner).get(&hash).cloned();
        if let Some(ready) = found.filter(|ready| ready.key.choose == *choose && ready.key.matches(tensors)) {
            return Ok(ready);
        }
        let ready = Arc::new(self.prepare(tensors, bits, choose)?);
        let mut plans = self.plans.write().unwrap_or_else(PoisonError::into_inner);
        if plans.len() >= MAX_PLANS {
            plans.clear();
        }
        plans.insert(hash, Arc::clone(&ready));
        Ok(ready)
    }

    /// As [`Expression::ready`], for a caller that always passes the same `choose` and keeps the last result.
    pub(super) fn ready_again(
        &self,
        last: &Mutex<Option<Arc<Ready>>>,
        tensors: &[Raw<'_>],
        bits: &[u64],
        choose: &Choose,
    ) -> Result<Arc<Ready>, Error> {
        // If another thread holds the lock, search the shared plans instead.
        let Ok(mut last) = last.try_lock() else { return self.ready(tensors, bits, choose) };
        if let Some(ready) = last.as_ref().filter(|ready| ready.key.matches(tensors)) {
            return Ok(Arc::clone(ready));
        }
        let ready = self.ready(tensors, bits, choose)?;
        *last = Some(Arc::clone(&ready));
        Ok(ready)
    }

    fn prepare(&self, tensors: &[Raw<'_>], bits: &[u64], choose: &Choose) -> Result<Ready, Error> {
        let fit = Fit::new(&self.graph, tensors)?;
        // Checked before anything is compiled.
        fit.check_addresses(&self.graph, tensors, self.engine.context())?;
        let key = Key::new(tensors, choose);
        if fit.space.elements() == 0 {
            return Ok(Ready { key, fit, work: None });
        }
        let starts: Vec<u64> = tensors.iter().map(Raw::start).collect();
        let indexing = Indexing::new(&self.graph, &fit.space, &starts)?;
        let plan = plan(&self.graph, &indexing, &self.engine.shared.device, &self.engine.shared.table, choose)?;
        let mut words = Vec::new();
        plan.words(&starts, bits, &mut words)?;
        let kernel = self.engine.kernel(&plan, words.len())?;
        Ok(Ready { key, fit, work: Some(Work::new(self.engine.shared.overlaps, plan, kernel)) })
    }
}
