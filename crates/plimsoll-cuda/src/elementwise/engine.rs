//! Expressions compiled for one device, and the plans and kernels that were made for them so far. A call with tensors that
//! are laid out as before finds its plan without allocating, and holds no lock while it launches.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use plimsoll_core::Fault;
use plimsoll_expr::{Graph, Value};
use plimsoll_gen::Target;
use plimsoll_gen::elementwise::{Choose, Device, KernelSpec, Plan, PlanError, Table, Walk, generate, plan, plan_batch};
use plimsoll_gen::kernel::OPTIONS;

use super::checks::{Fit, apart_in_batch, count};
use super::error::Error;
use super::key::{AsIs, Key, hash};
use super::launch::{Bound, Work};
use super::operand::{Operand, Raw};
use crate::CudaDevice;
use crate::compile::{Kernels, Program};
use crate::device::dependent_launch;
use crate::driver::{Attribute, Context, Function};
use crate::launch::WordKernel;
use crate::memory::Held;

/// Most plans that one expression keeps: a program whose shapes change all the time plans again rather than grow.
const MOST_PLANS: usize = 4096;
/// Shared memory that a block gets without asking, bytes.
const SHARED_UNASKED: u32 = 48 << 10;

/// What generated texts are called.
const SOURCE: &str = "elementwise.cu";

/// Kernels of expressions on one device. Clones share them.
#[derive(Clone)]
pub struct Engine {
    shared: Arc<Shared>,
}

struct Shared {
    context: Arc<Context>,
    kernels: Kernels,
    device: Device,
    table: Table,
    /// Launches may overlap: where not, those that could follow each other.
    overlaps: bool,
    functions: Mutex<HashMap<KernelSpec, Function>>,
}

impl Engine {
    /// For a device, with the plans that are shipped for it.
    ///
    /// # Errors
    /// The driver's.
    pub fn new(device: &CudaDevice) -> Result<Self, Error> {
        Self::over(&device.context, device.kernels.beside(&device.context), None)
    }

    /// The same with other plans: those that `plimsoll tune` made.
    ///
    /// # Errors
    /// The driver's.
    pub fn with_table(device: &CudaDevice, table: Table) -> Result<Self, Error> {
        Self::over(&device.context, device.kernels.beside(&device.context), Some(table))
    }

    pub(crate) fn over(context: &Arc<Context>, kernels: Kernels, table: Option<Table>) -> Result<Self, Error> {
        let handle = context.device();
        let ask = |attribute| handle.attribute(attribute).map(|value| u32::try_from(value).unwrap_or(0));
        let capability = 10 * ask(Attribute::CapabilityMajor)? + ask(Attribute::CapabilityMinor)?;
        let device = Device {
            target: kernels.target().parse().unwrap_or(Target::plain(capability)),
            multiprocessors: ask(Attribute::Multiprocessors)?,
            threads_per_multiprocessor: ask(Attribute::ThreadsPerMultiprocessor)?,
            l2_bytes: ask(Attribute::L2Bytes)?.into(),
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

    /// What plans depend on of the device.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.shared.device
    }

    /// An expression to be run on this device. Kernels are compiled when tensors are first given.
    ///
    /// # Errors
    /// [`Error::Fault`] where kernels can't be compiled here at all.
    pub fn expression(&self, graph: &Graph) -> Result<Expression, Error> {
        self.shared.kernels.compiler().map_err(Fault::from)?;
        Ok(Expression { engine: self.clone(), graph: graph.clone(), plans: RwLock::default() })
    }

    /// Compiles kernels that will be asked for on all processors, in this order, where they can be kept, until `stop` is set.
    pub(crate) fn ahead(&self, specs: &[KernelSpec], stop: &AtomicBool) {
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
        kernels.ahead(&programs, stop);
    }

    /// The kernel of a plan: one that this engine has, from the disk, or compiled.
    fn kernel(&self, plan: &Plan, words: usize) -> Result<WordKernel, Error> {
        let shared = &*self.shared;
        let lock = || shared.functions.lock().unwrap_or_else(PoisonError::into_inner);
        let known = lock().get(&plan.spec).cloned();
        let function = match known {
            Some(function) => function,
            None => {
                // Two threads may compile the same, as the lock isn't held meanwhile. The first one's stays, which may be running.
                let text = generate(&plan.spec);
                let options = OPTIONS.map(str::to_owned);
                let (headers, target) = (text.headers, shared.kernels.target());
                let program = Program { name: SOURCE, source: &text.text, headers, options: &options, target };
                // What the disk keeps for another number of words is compiled anew.
                let wanted = (text.entry, vec![8 * words as u64]);
                let module = shared.kernels.load_with(&program, &[wanted])?;
                let function = module.function(text.entry)?;
                lock().entry(plan.spec.clone()).or_insert(function).clone()
            }
        };
        let bytes = plan.geometry().shared;
        if bytes > SHARED_UNASKED {
            function.allow_shared(bytes)?;
        }
        Ok(WordKernel::new(&function, words)?)
    }
}

/// An expression on a device, with the plans that were made for it.
pub struct Expression {
    engine: Engine,
    graph: Graph,
    plans: RwLock<HashMap<u64, Arc<Ready>, AsIs>>,
}

/// What a call with tensors of these layouts does.
pub(super) struct Ready {
    key: Key,
    pub(super) fit: Fit,
    /// Nothing where there are no elements.
    pub(super) work: Option<Work>,
}

/// The memory of operands.
fn held<'o>(operands: impl Iterator<Item = &'o Operand>) -> Result<Held, Error> {
    Ok(Held::new(operands.map(Operand::region).collect::<Result<Vec<_>, _>>()?))
}

impl Expression {
    /// The expression itself.
    #[must_use]
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The engine that it belongs to.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Fixes tensors and scalars: all outputs of the expression are given, those that are written in place as the very tensor
    /// that is their input. Compiles where no kernel is there yet.
    ///
    /// # Errors
    /// Whatever is wrong with the tensors, with their sizes, types or addresses; that no kernel can do what `choose` forces; the
    /// compiler's and the driver's.
    pub fn bind(
        &self,
        inputs: &[Operand],
        outputs: &[Operand],
        scalars: &[Value],
        choose: &Choose,
    ) -> Result<Bound, Error> {
        count("inputs", self.graph.inputs().len(), inputs.len())?;
        count("outputs", self.graph.outputs().len(), outputs.len())?;
        let tensors: Vec<Raw<'_>> = inputs.iter().chain(outputs).map(Operand::raw).collect();
        let bits = self.bits(scalars)?;
        // Types aren't part of a plan's key, so they are looked at here.
        Fit::new(&self.graph, &tensors)?.admits(&self.graph, &tensors, self.engine.context())?;
        let ready = self.ready(&tensors, &bits, choose)?;
        let mut words = Vec::new();
        if let Some(work) = &ready.work {
            let starts: Vec<u64> = tensors.iter().map(Raw::start).collect();
            work.plan().words(&starts, &bits, &mut words)?;
        }
        Ok(Bound::new(ready, words, held(inputs.iter().chain(outputs))?))
    }

    /// The kernel that [`Expression::bind`] would launch, without a look at the memory; nothing where it would refuse or launch none.
    pub(crate) fn foreseen(&self, inputs: &[Operand], outputs: &[Operand], choose: &Choose) -> Option<KernelSpec> {
        let tensors: Vec<Raw<'_>> = inputs.iter().chain(outputs).map(Operand::raw).collect();
        let space = Fit::new(&self.graph, &tensors).ok()?.space;
        let starts: Vec<u64> = tensors.iter().map(Raw::start).collect();
        let walk = Walk::new(&self.graph, &space, &starts).ok()?;
        let shared = &self.engine.shared;
        Some(plan(&self.graph, &walk, &shared.device, &shared.table, choose).ok()?.spec)
    }

    /// Many sets of contiguous tensors in as few launches as their parameters fit into; sets without elements are left out.
    ///
    /// # Errors
    /// Those of [`Expression::bind`]; [`Error::Batch`] for tensors that aren't contiguous; [`Error::Overlap`] for an output that
    /// shares memory with a tensor of another set, as sets run in no order.
    pub fn batch(
        &self,
        sets: &[(Vec<Operand>, Vec<Operand>)],
        scalars: &[Value],
        choose: &Choose,
    ) -> Result<Vec<Bound>, Error> {
        let bits = self.bits(scalars)?;
        let (mut members, mut spans) = (Vec::new(), Vec::new());
        for (set, (inputs, outputs)) in sets.iter().enumerate() {
            count("inputs", self.graph.inputs().len(), inputs.len())?;
            count("outputs", self.graph.outputs().len(), outputs.len())?;
            let tensors: Vec<Raw<'_>> = inputs.iter().chain(outputs).map(Operand::raw).collect();
            let fit = Fit::new(&self.graph, &tensors)?;
            fit.admits(&self.graph, &tensors, self.engine.context())?;
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
        apart_in_batch(&self.graph, spans)?;
        let held = held(sets.iter().flat_map(|(inputs, outputs)| inputs.iter().chain(outputs)))?;
        let mut launches = Vec::new();
        self.split(&mut members, &bits, (choose, &held), &mut launches)?;
        Ok(launches)
    }

    /// Launches for members of a batch: as many in each as one can have.
    fn split(
        &self,
        members: &mut Vec<(u64, Vec<u64>, Fit)>,
        bits: &[u64],
        (choose, held): (&Choose, &Held),
        launches: &mut Vec<Bound>,
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
                let key = Key::of(&[], choose);
                let Some((_, _, fit)) = members.pop() else { return Ok(()) };
                let ready =
                    Arc::new(Ready { key, fit, work: Some(Work::new(self.engine.shared.overlaps, plan, kernel)) });
                launches.push(Bound::new(ready, words, held.clone()));
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
        count("scalars", self.graph.scalars().len(), scalars.len())?;
        Ok(self.graph.scalars().iter().zip(scalars).map(|(scalar, value)| scalar.dtype.encode(*value)).collect())
    }

    /// The plan for tensors of these layouts and of the expression's types, found or made.
    fn ready(&self, tensors: &[Raw<'_>], bits: &[u64], choose: &Choose) -> Result<Arc<Ready>, Error> {
        let hash = hash(tensors, choose);
        let found = self.plans.read().unwrap_or_else(PoisonError::into_inner).get(&hash).cloned();
        if let Some(ready) = found.filter(|ready| ready.key.choose == *choose && ready.key.is_of(tensors)) {
            return Ok(ready);
        }
        let ready = Arc::new(self.prepare(tensors, bits, choose)?);
        let mut plans = self.plans.write().unwrap_or_else(PoisonError::into_inner);
        if plans.len() >= MOST_PLANS {
            plans.clear();
        }
        plans.insert(hash, Arc::clone(&ready));
        Ok(ready)
    }

    /// The same for one who always chooses alike, and keeps what was found last.
    pub(super) fn ready_again(
        &self,
        last: &Mutex<Option<Arc<Ready>>>,
        tensors: &[Raw<'_>],
        bits: &[u64],
        choose: &Choose,
    ) -> Result<Arc<Ready>, Error> {
        // Whoever finds another thread here looks into the plans of all.
        let Ok(mut last) = last.try_lock() else { return self.ready(tensors, bits, choose) };
        if let Some(ready) = last.as_ref().filter(|ready| ready.key.is_of(tensors)) {
            return Ok(Arc::clone(ready));
        }
        let ready = self.ready(tensors, bits, choose)?;
        *last = Some(Arc::clone(&ready));
        Ok(ready)
    }

    fn prepare(&self, tensors: &[Raw<'_>], bits: &[u64], choose: &Choose) -> Result<Ready, Error> {
        let fit = Fit::new(&self.graph, tensors)?;
        // Before anything is compiled for them.
        fit.admits(&self.graph, tensors, self.engine.context())?;
        let key = Key::of(tensors, choose);
        if fit.space.elements() == 0 {
            return Ok(Ready { key, fit, work: None });
        }
        let starts: Vec<u64> = tensors.iter().map(Raw::start).collect();
        let walk = Walk::new(&self.graph, &fit.space, &starts)?;
        let plan = plan(&self.graph, &walk, &self.engine.shared.device, &self.engine.shared.table, choose)?;
        let mut words = Vec::new();
        plan.words(&starts, bits, &mut words)?;
        let kernel = self.engine.kernel(&plan, words.len())?;
        Ok(Ready { key, fit, work: Some(Work::new(self.engine.shared.overlaps, plan, kernel)) })
    }
}
