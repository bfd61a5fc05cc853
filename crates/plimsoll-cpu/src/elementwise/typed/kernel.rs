//! A traced closure on the CPU, and what was prepared for the tensors of its calls.

use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};

use plimsoll_expr::cost::{Class, Cost};
use plimsoll_expr::{DType, Graph, Layout};

use super::super::error::Error;
use super::super::prepared::{Prepared, Program};
use super::call::{Argument, Call, Outputs};
use super::{MOST_PLANS, SMALL, Shared};
use crate::threads::Pool;
use crate::timer::Timer;

/// Bytes that move within a core's caches in the time of a function of f32: tanh took a nanosecond, in which 23 did (as for `SMALL`).
const FUNCTION: u64 = 24;
/// The same of functions that the oracle computes element by element, some tens of nanoseconds: a guess.
const REFERENCE: u64 = 1024;

/// A traced closure on the CPU: call [`Kernel::run`] with what its parameters and results are given as.
pub struct Kernel<Args, R> {
    program: Arc<Program>,
    shared: Arc<Shared>,
    /// Bytes that an element counts as.
    weight: u64,
    pub(super) plans: Mutex<Plans>,
    of: PhantomData<fn(Args) -> R>,
}

/// What was prepared, and a place for one thread to work alone.
#[derive(Debug, Default)]
pub(super) struct Plans {
    pub(super) ready: Vec<Ready>,
    /// Where the last call's is.
    last: usize,
    /// Calls so far.
    calls: u64,
    alone: Option<Pool>,
}

/// An expression ready for tensors that lie so.
#[derive(Debug)]
pub(super) struct Ready {
    pub(super) layouts: Vec<Layout>,
    prepared: Prepared,
    /// Runs on the caller's thread.
    pub(super) alone: bool,
    /// The last call that used it.
    used: u64,
}

impl Plans {
    /// The place of what was prepared for tensors such as a call's.
    fn find(&self, call: &Call<'_>) -> Option<usize> {
        let is_it = |place: &usize| self.ready.get(*place).is_some_and(|ready| call.lies(&ready.layouts));
        Some(self.last).filter(is_it).or_else(|| (0..self.ready.len()).find(is_it))
    }

    /// Keeps something in place of what wasn't used for longest, where there is too much; its place.
    fn keep(&mut self, ready: Ready) -> usize {
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

    /// Runs it on what a call was given.
    fn launch(&self, call: Call<'_>) -> Result<(), Error> {
        let graph = self.program.graph();
        call.check(graph)?;
        // Whatever panicked left plans that can be used.
        let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        plans.calls += 1;
        let now = plans.calls;
        let place = match plans.find(&call) {
            Some(place) => place,
            None => {
                let ready = self.prepare(&call, now)?;
                plans.keep(ready)
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
        let pool = match (ready.alone, alone) {
            (false, _) => &self.shared.pool,
            (true, Some(alone)) => alone,
            (true, alone) => alone.insert(Pool::new(&[self.shared.cpu], Timer::Os)?),
        };
        pool.enter(|team| ready.prepared.run_typed(team, inputs, outputs, scalars))
    }

    /// Makes it ready for tensors such as a call's.
    fn prepare(&self, call: &Call<'_>, used: u64) -> Result<Ready, Error> {
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
        let threads = self.shared.pool.size();
        let alone = threads == 1 || elements.saturating_mul(self.weight) <= SMALL;
        let how = self.shared.how(if alone { 1 } else { threads });
        let prepared = self.program.prepare(inputs, &outputs, &how)?;
        Ok(Ready { layouts, prepared, alone, used })
    }
}

/// Bytes that an element counts as: those that move, and the time of what isn't hidden behind them.
fn weight(graph: &Graph) -> u64 {
    let cost = Cost::of(graph);
    let time = |((class, dtype), count): (&(Class, DType), &u64)| match class {
        Class::Function(_) if *dtype == DType::F32 => count * FUNCTION,
        Class::Function(_) => count * REFERENCE,
        _ => 0,
    };
    cost.traffic.read + cost.traffic.written + cost.operations.iter().map(time).sum::<u64>()
}

macro_rules! runs {
    ($($a:ident $x:ident)*) => {
        impl<R, $($a),*> Kernel<($($a,)*), R> {
            /// Runs it: the closure's parameters as it has them, then what it returns. Returns when all is written.
            ///
            /// # Errors
            /// Whatever is wrong with the tensors' shapes and sizes: nothing was written then. Too little memory for what is
            /// made ready when tensors first lie so.
            #[allow(non_snake_case, clippy::too_many_arguments)]
            pub fn run<$($x: Argument<$a>,)* Out: Outputs<R>>(&self, $($x: $x,)* out: Out) -> Result<(), Error> {
                let mut call = Call::new();
                $($x.give(&mut call);)*
                out.give(&mut call);
                self.launch(call)
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
