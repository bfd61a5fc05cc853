//! A traced closure on the CPU, and the plans prepared for the layouts of its calls.

use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};

use plimsoll_expr::cost::{Class, Cost};
use plimsoll_expr::{DType, Graph, Layout};

use super::super::error::Error;
use super::super::prepared::{Prepared, Program};
use super::call::{Argument, Call, Outputs, Returned};
use super::{MOST_PLANS, SMALL, Shared};
use crate::threads::SharedTeam;
use crate::timer::Timer;

/// Bytes that move within a core's caches in the time of a function of f32: tanh took a nanosecond, in which 23 bytes moved (same
/// machine as for `SMALL`).
const FUNCTION: u64 = 24;
/// As [`FUNCTION`], for functions of f64, which take 2 to 12 ns.
const DOUBLE_FUNCTION: u64 = 5 * FUNCTION;

/// A traced closure on the CPU: call [`Kernel::run`] with its arguments and results.
pub struct Kernel<Args, R> {
    program: Arc<Program>,
    shared: Arc<Shared>,
    /// The cost of an element in bytes.
    weight: u64,
    pub(super) plans: Mutex<Plans>,
    of: PhantomData<fn(Args) -> R>,
}

/// The prepared plans, and a team of one for small calls.
#[derive(Debug, Default)]
pub(super) struct Plans {
    pub(super) ready: Vec<PreparedPlan>,
    /// The index of the last call's plan.
    last: usize,
    /// Number of calls so far.
    calls: u64,
    alone: Option<SharedTeam>,
}

/// An expression prepared for these layouts.
#[derive(Debug)]
pub(super) struct PreparedPlan {
    pub(super) layouts: Vec<Layout>,
    prepared: Prepared,
    /// Whether it runs only on the caller's thread.
    pub(super) alone: bool,
    /// The number of the last call that used it.
    used: u64,
}

impl Plans {
    /// The index of the plan for a call's layouts.
    fn find(&self, call: &Call<'_>) -> Option<usize> {
        let is_it = |place: &usize| self.ready.get(*place).is_some_and(|ready| call.has_layouts(&ready.layouts));
        Some(self.last).filter(is_it).or_else(|| (0..self.ready.len()).find(is_it))
    }

    /// Adds a plan, replacing the least recently used one if there are too many. Returns its index.
    fn insert(&mut self, ready: PreparedPlan) -> usize {
        if self.ready.len() < MOST_PLANS {
            self.ready.push(ready);
            return self.ready.len() - 1;
        }
        let oldest = self.ready.iter().enumerate().min_by_key(|(_, ready)| ready.used).map_or(0, |(place, _)| place);
        self.ready[oldest] = ready;
        oldest
    }
}

impl<Args, R> Clone for Kernel<Args, R> {
    fn clone(&self) -> Self {
        let (program, shared) = (Arc::clone(&self.program), Arc::clone(&self.shared));
        Self { program, shared, weight: self.weight, plans: Mutex::default(), of: PhantomData }
    }
}

impl<Args, R> fmt::Debug for Kernel<Args, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kernel").field("graph", self.graph()).finish_non_exhaustive()
    }
}

impl<Args, R> Kernel<Args, R> {
    pub(super) fn new(graph: &Graph, shared: &Arc<Shared>) -> Self {
        let (program, weight) = (Arc::new(Program::new(graph)), weight(graph));
        Self { program, shared: Arc::clone(shared), weight, plans: Mutex::default(), of: PhantomData }
    }

    /// The expression.
    #[must_use]
    pub fn graph(&self) -> &Graph {
        self.program.graph()
    }

    /// Runs it on a call's arguments.
    fn launch(&self, call: Call<'_>) -> Result<(), Error> {
        let graph = self.program.graph();
        call.check(graph)?;
        // The plans stay usable after a panic.
        let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        plans.calls += 1;
        let now = plans.calls;
        let place = match plans.find(&call) {
            Some(place) => place,
            None => {
                let ready = self.prepare(&call, now)?;
                plans.insert(ready)
            }
        };
        plans.last = place;
        let Plans { ready, alone, .. } = &mut *plans;
        let ready = &mut ready[place];
        ready.used = now;
        let scalars = call.scalars();
        let scalars = &scalars[..graph.scalars().len()];
        let mut memories = call.memories(graph)?;
        let (inputs, outputs) = memories.parts();
        let team = match (ready.alone, alone) {
            (false, _) => &self.shared.team,
            (true, Some(alone)) => alone,
            (true, alone) => alone.insert(SharedTeam::new(&[self.shared.cpu], Timer::Os)?),
        };
        team.enter(|team| ready.prepared.run_typed(team, inputs, outputs, scalars))
    }

    /// Prepares it for a call's layouts.
    fn prepare(&self, call: &Call<'_>, used: u64) -> Result<PreparedPlan, Error> {
        let graph = self.program.graph();
        let layouts = call.layouts()?;
        let (inputs, results) = layouts.split_at(graph.inputs().len());
        let mut results = results.iter();
        let output = |in_place: Option<u32>| match in_place {
            Some(input) => inputs.get(input as usize),
            None => results.next(),
        };
        let places = graph.outputs().iter().map(|output| output.in_place);
        let outputs: Vec<Layout> = places.filter_map(output).cloned().collect();
        let elements = outputs.first().map_or(0, Layout::elements);
        let threads = self.shared.team.size();
        let alone = threads == 1 || elements.saturating_mul(self.weight) <= SMALL;
        let how = self.shared.how(if alone { 1 } else { threads });
        let prepared = self.program.prepare(inputs, &outputs, &how)?;
        Ok(PreparedPlan { layouts, prepared, alone, used })
    }
}

/// The cost of an element in bytes: its traffic, plus the time of functions converted to bytes.
fn weight(graph: &Graph) -> u64 {
    let cost = Cost::from_graph(graph);
    let time = |((class, dtype), count): (&(Class, DType), &u64)| match class {
        Class::Function(_) if *dtype == DType::F32 => count * FUNCTION,
        Class::Function(_) => count * DOUBLE_FUNCTION,
        _ => 0,
    };
    cost.traffic.read + cost.traffic.written + cost.operations.iter().map(time).sum::<u64>()
}

macro_rules! runs {
    ($($a:ident $x:ident)*) => {
        impl<R, $($a),*> Kernel<($($a,)*), R> {
            /// Runs it: pass the closure's parameters in order, then its results. Returns when all results are written.
            ///
            /// # Errors
            /// If the tensors' shapes or sizes are wrong (then nothing was written), or there is too little memory for the
            /// scratch memory of new layouts.
            #[allow(non_snake_case, clippy::too_many_arguments)]
            pub fn run<$($x: Argument<$a>,)* Out: Outputs<R>>(&self, $($x: $x,)* out: Out) -> Result<(), Error> {
                let mut call = Call::new();
                $($x.give(&mut call);)*
                out.give(&mut call);
                self.launch(call)
            }

            /// Runs it and returns its results as new vectors, row-major in the shape to which the tensors are broadcast.
            ///
            /// # Errors
            /// Those of `run`; shapes that can't be broadcast, or too little memory for the results.
            #[allow(non_snake_case, clippy::too_many_arguments)]
            pub fn call<$($x: Argument<$a>),*>(&self, $($x: $x),*) -> Result<R::Values, Error>
            where
                R: Returned,
            {
                // Before the arguments, which are borrowed for as long as the results.
                let (layout, mut values);
                let mut call = Call::new();
                $($x.give(&mut call);)*
                layout = Layout::contiguous(&call.shape()?)?;
                values = R::allocate(&layout)?;
                R::give(&mut values, &layout, &mut call);
                self.launch(call)?;
                Ok(values)
            }
        }
    };
}

macro_rules! up_to {
    ($first:ident $second:ident $($rest:ident)*) => {
        runs!($first $second $($rest)*);
        up_to!($($rest)*);
    };
    () => {};
}

up_to!(A XA B XB C XC D XD E XE F XF G XG H XH I XI J XJ K XK L XL);
runs!();
