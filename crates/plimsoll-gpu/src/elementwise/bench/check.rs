//! Checks the results of timed kernels: single elements against the oracle, and whole windows against the simplest kernel of the
//! same expression, which shares neither plan nor access pattern with the timed one.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use plimsoll_core::Fault;
use plimsoll_core::sample::Check;
use plimsoll_expr::{DType, Judgement, Problem, Value, oracle};
use plimsoll_gen::elementwise::Tier;
use plimsoll_gen::elementwise::accuracy::bounds;
use plimsoll_gen::kernel::Element;
use plimsoll_gen::kernel::Op;

use crate::checker::Checker;
use crate::elementwise::arrays::Refill;
use crate::elementwise::{BoundExpression, Elementwise};
use crate::{Gpu, Span};

/// One element of every operand.
#[derive(Debug)]
pub(super) struct Sample {
    /// Its row-major index.
    pub(super) place: u64,
    pub(super) inputs: Vec<Span>,
    pub(super) outputs: Vec<Span>,
}

/// The checks of a point's outputs.
pub(super) struct Outputs<G: Elementwise> {
    checker: Rc<Checker<G>>,
    problem: Arc<Problem>,
    /// Error bounds of the functions in its nodes.
    bounds: Vec<oracle::Bound>,
    /// Number of samples that the last run couldn't judge, and of all samples.
    pub(super) unjudged: Rc<Cell<[u64; 2]>>,
    pub(super) samples: Vec<Sample>,
    /// The simplest kernel on a window, its outputs, and the outputs to compare.
    pub(super) compared: Vec<(BoundExpression<G>, Vec<Span>, Vec<Span>)>,
    /// For an expression in place: refills its operands and launches it again.
    pub(super) again: Option<(Refill<G>, BoundExpression<G>)>,
}

impl<G: Elementwise> Outputs<G> {
    pub(super) fn new(checker: &Rc<Checker<G>>, problem: &Arc<Problem>, tier: Tier) -> Self {
        let problem = if tier == Tier::Exact { Arc::clone(problem) } else { Arc::new(problem.with_fused_products()) };
        let (checker, bounds) = (Rc::clone(checker), bounds(problem.graph(), tier));
        let unjudged = Rc::default();
        Self { checker, problem, bounds, unjudged, samples: Vec::new(), compared: Vec::new(), again: None }
    }

    pub(super) fn run(&self, stream: &Arc<G::Stream>) -> Result<Check, Fault> {
        if let Some((refill, _)) = &self.again {
            refill.run(stream)?;
            G::wait(stream)?;
        }
        let graph = self.problem.graph();
        let inputs: Vec<DType> = graph.inputs().iter().map(|input| input.dtype).collect();
        let outputs: Vec<DType> = graph.outputs().iter().map(|output| output.dtype).collect();
        let read = self.samples.iter().map(|sample| values::<G>(stream, &sample.inputs, &inputs));
        let read = read.collect::<Result<Vec<_>, Fault>>()?;
        if let Some((_, again)) = &self.again {
            again.enqueue(stream)?;
            G::wait(stream)?;
        }
        let mut unjudged = 0;
        for (sample, read) in self.samples.iter().zip(&read) {
            let found = values::<G>(stream, &sample.outputs, &outputs)?;
            match self.problem.judge(sample.place, read, &found, &self.bounds) {
                Judgement::Right => {}
                Judgement::Wrong(wrong) => return Ok(Check::Failed(wrong)),
                Judgement::Unjudged => unjudged += 1,
            }
        }
        for (naive, expected, found) in &self.compared {
            naive.enqueue(stream)?;
            for (expected, found) in expected.iter().zip(found) {
                // Trailing bytes that don't fill a word are covered by the samples.
                let words = found.bytes() / 4 * 4;
                let (expected, found) = (expected.first(words)?, found.first(words)?);
                if words > 0
                    && let failed @ Check::Failed(_) =
                        self.checker.check_map(Op::Copy, Element::Word, found, [expected; 3], 0.0)?
                {
                    return Ok(failed);
                }
            }
        }
        self.unjudged.set([unjudged, self.samples.len() as u64]);
        Ok(Check::Passed)
    }
}

/// One element of each span.
fn values<G: Gpu>(stream: &Arc<G::Stream>, spans: &[Span], dtypes: &[DType]) -> Result<Vec<Value>, Fault> {
    let value = |(span, dtype): (&Span, &DType)| {
        let mut bytes = [0; 8];
        let bytes = &mut bytes[..dtype.bytes() as usize];
        G::download(stream, *span, bytes)?;
        Ok(dtype.read(bytes, 0).unwrap_or(Value::Float(f64::NAN)))
    };
    spans.iter().zip(dtypes).map(value).collect()
}
