//! The kernels of expressions for one device: planned, compiled once, and kept.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use plimsoll_core::Fault;
use plimsoll_expr::Graph;
use plimsoll_gen::elementwise::{Device, KernelSpec, Plan, Table};

use super::backend::{Elementwise, Facts};
use super::error::Error;
use super::expression::Expression;
use super::launch::Work;

/// Shared memory of a block that needs no opt-in, bytes.
const DEFAULT_SHARED: u32 = 48 << 10;

/// Compiles expressions for one device and keeps their kernels. Clones share the kernels.
pub struct Engine<G: Elementwise> {
    shared: Arc<Shared<G>>,
}

struct Shared<G: Elementwise> {
    compiler: G::Compiler,
    facts: Facts,
    /// Each kernel with its number of words.
    functions: Mutex<HashMap<KernelSpec, (G::Function, usize)>>,
}

impl<G: Elementwise> Clone for Engine<G> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<G: Elementwise> Engine<G> {
    /// For a device, with the plans that are shipped for it.
    pub fn new(device: &G::Device) -> Result<Self, Error> {
        Self::from_compiler(G::compiler(device), None)
    }

    /// For a device, with other plans, such as those of `plimsoll tune`.
    pub fn with_table(device: &G::Device, table: Table) -> Result<Self, Error> {
        Self::from_compiler(G::compiler(device), Some(table))
    }

    /// For the device of a compiler, with its shipped plans or others.
    pub fn from_compiler(compiler: G::Compiler, table: Option<Table>) -> Result<Self, Error> {
        let mut facts = G::facts(&compiler)?;
        if let Some(table) = table {
            facts.table = table;
        }
        Ok(Self { shared: Arc::new(Shared { compiler, facts, functions: Mutex::default() }) })
    }

    /// The backend's compiler.
    #[must_use]
    pub fn compiler(&self) -> &G::Compiler {
        &self.shared.compiler
    }

    /// The properties of the device that plans depend on.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.shared.facts.device
    }

    /// Whether launches may overlap the preceding one.
    #[must_use]
    pub fn overlaps(&self) -> bool {
        self.shared.facts.overlaps
    }

    /// The device's model, with the versions of its driver and of the compiler.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.shared.facts.name
    }

    pub(super) fn table(&self) -> &Table {
        &self.shared.facts.table
    }

    /// Prepares an expression for this device. Its kernels are compiled when it is first bound to or run on tensors.
    ///
    /// # Errors
    /// [`Error::Fault`] if kernels can't be compiled on this machine.
    pub fn expression(&self, graph: &Graph) -> Result<Expression<G>, Error> {
        self.shared.facts.compiles.clone().map_err(Fault::from)?;
        Ok(Expression::new(self.clone(), graph.clone()))
    }

    /// Compiles kernels that will be needed, on all processors and in this order, until `stop` is set.
    pub(crate) fn compile_ahead(&self, specs: &[KernelSpec], stop: &AtomicBool) {
        G::compile_ahead(&self.shared.compiler, specs, stop);
    }

    /// A plan with its kernel: from this engine, from the disk, or compiled.
    pub(super) fn work(&self, plan: Plan, words: usize) -> Result<Work<G>, Error> {
        let shared = &*self.shared;
        let lock = || shared.functions.lock().unwrap_or_else(PoisonError::into_inner);
        let known = lock().get(&plan.spec).cloned();
        let (function, taken) = match known {
            Some(known) => known,
            None => {
                // Two threads may compile the same kernel, since the lock isn't held meanwhile. The first one stays: it may be
                // running.
                let function = G::load(&shared.compiler, &plan.spec, words)?;
                lock().entry(plan.spec.clone()).or_insert((function, words)).clone()
            }
        };
        let bytes = plan.geometry().shared;
        if bytes > DEFAULT_SHARED {
            G::allow_shared(&function, bytes)?;
        }
        Ok(Work::new(self.overlaps(), plan, function, taken))
    }
}
