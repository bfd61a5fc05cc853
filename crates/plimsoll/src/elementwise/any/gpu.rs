//! A GPU's memory with a type known at run time, and calls on it.

use std::any::Any;
use std::sync::{Arc, PoisonError, RwLock};

use plimsoll_cuda::elementwise::{Buffer, Expression, Gpu, Operand};
use plimsoll_cuda::memory::Span;
use plimsoll_expr::{Graph, LayoutError, Value};
use plimsoll_gen::elementwise::Choose;

use super::super::element::Element;
use super::super::error::Error;
use super::AnyBuffer;

pub(in super::super) type Memory = Arc<RwLock<dyn Elements>>;

/// A buffer of any type. `None` only once it was taken out, when no handle is left.
pub(in super::super) trait Elements: Any + Send + Sync {
    fn operand(&self) -> Option<Result<Operand, LayoutError>>;
    fn span(&self) -> Option<Span>;
}

impl<T: Element> Elements for Option<Buffer<T>> {
    fn operand(&self) -> Option<Result<Operand, LayoutError>> {
        self.as_ref().map(Buffer::operand)
    }

    fn span(&self) -> Option<Span> {
        self.as_ref().map(Buffer::span)
    }
}

pub(super) fn hold<T: Element>(buffer: Buffer<T>) -> Memory {
    Arc::new(RwLock::new(Some(buffer)))
}

fn as_buffer_mut<T: Element>(elements: &mut dyn Elements) -> Option<&mut Option<Buffer<T>>> {
    (elements as &mut dyn Any).downcast_mut()
}

/// All elements of a memory, which has this type.
pub(super) fn copy<T: Element>(memory: &Memory) -> Result<Vec<T>, Error> {
    let memory = memory.read().unwrap_or_else(PoisonError::into_inner);
    let elements: &dyn Any = &*memory;
    match elements.downcast_ref::<Option<Buffer<T>>>() {
        Some(Some(buffer)) => Ok(buffer.to_vec()?),
        _ => Ok(Vec::new()),
    }
}

/// Overwrites the first elements of a memory, which has this type.
pub(super) fn write<T: Element>(memory: &Memory, values: &[T]) -> Result<(), Error> {
    let mut memory = memory.write().unwrap_or_else(PoisonError::into_inner);
    match as_buffer_mut::<T>(&mut *memory) {
        Some(Some(buffer)) => Ok(buffer.write(values)?),
        _ => Ok(()),
    }
}

/// The buffer, if this is the only handle and it has this type; else the handle.
pub(super) fn release<T: Element>(mut memory: Memory) -> Result<Buffer<T>, Memory> {
    let elements = Arc::get_mut(&mut memory).map(|lock| lock.get_mut().unwrap_or_else(PoisonError::into_inner));
    elements.and_then(as_buffer_mut).and_then(Option::take).ok_or(memory)
}

/// An expression on a GPU with the operands of its last run.
pub(in super::super) struct GpuCall {
    expression: Arc<Expression>,
    gpu: Gpu,
    operands: Option<Operands>,
}

/// The tensors of a call.
struct Operands {
    inputs: Vec<Operand>,
    /// All outputs, also those in place.
    outputs: Vec<Operand>,
    /// Devices whose streams the memory of some tensors belongs to, other than the call's.
    others: Vec<Gpu>,
}

impl GpuCall {
    pub(in super::super) fn new(expression: &Arc<Expression>, gpu: &Gpu) -> Self {
        Self { expression: Arc::clone(expression), gpu: gpu.clone(), operands: None }
    }

    /// Uses another buffer for a tensor, by its place among the inputs and the outputs that aren't in place. Allocates nothing if it
    /// has the layout of the last one.
    pub(in super::super) fn buffer_changed(&mut self, tensor: usize, buffer: &AnyBuffer) {
        let replaced = self.operands.as_mut().is_some_and(|operands| {
            let is_here = |buffer: &AnyBuffer| {
                buffer.device().as_gpu().is_some_and(|gpu| Arc::ptr_eq(gpu.stream(), self.gpu.stream()))
            };
            operands.others.is_empty() && is_here(buffer) && operands.replace(self.expression.graph(), tensor, buffer)
        });
        if !replaced {
            self.operands = None;
        }
    }

    /// Launches it in the stream's order on its inputs and on the outputs that aren't in place. Allocates nothing for known layouts.
    pub(in super::super) fn run<'s>(
        &mut self,
        tensors: impl Iterator<Item = &'s AnyBuffer>,
        scalars: &[Value],
    ) -> Result<(), Error> {
        let operands = match &mut self.operands {
            Some(operands) => operands,
            missing => missing.insert(collect_operands(&self.expression, &self.gpu, tensors)?),
        };
        let Operands { inputs, outputs, others } = operands;
        // Untyped launches aren't ordered with other streams, so the host waits for those whose memory is used.
        others.iter().try_for_each(Gpu::wait)?;
        self.expression.run(inputs, outputs, scalars, &Choose::default(), self.gpu.stream())?;
        if others.is_empty() { Ok(()) } else { Ok(self.gpu.wait()?) }
    }
}

impl Operands {
    /// Replaces a tensor's memory; false if its layout differs.
    fn replace(&mut self, graph: &Graph, tensor: usize, buffer: &AnyBuffer) -> bool {
        let Some(span) = span(buffer) else { return false };
        let mut next = self.inputs.len();
        let mut is_known = false;
        let mut set = |operand: &mut Operand| {
            is_known = operand.layout() == buffer.layout();
            operand.set_memory(span);
        };
        if let Some(operand) = self.inputs.get_mut(tensor) {
            set(operand);
        }
        for (output, operand) in graph.outputs().iter().zip(&mut self.outputs) {
            let place = output.in_place.map_or(next, |input| input as usize);
            next += usize::from(output.in_place.is_none());
            if place == tensor {
                set(operand);
            }
        }
        is_known
    }
}

/// The memory of a buffer.
fn span(buffer: &AnyBuffer) -> Option<Span> {
    buffer.memory().as_gpu()?.read().unwrap_or_else(PoisonError::into_inner).span()
}

/// The operands of a call from its inputs and the outputs that aren't in place.
fn collect_operands<'s>(
    expression: &Expression,
    gpu: &Gpu,
    tensors: impl Iterator<Item = &'s AnyBuffer>,
) -> Result<Operands, Error> {
    let graph = expression.graph();
    let (mut inputs, mut others) = (Vec::new(), Vec::new());
    for buffer in tensors {
        // The CPU's memory was refused when the call was given the buffer.
        let Some(memory) = buffer.memory().as_gpu() else { continue };
        let Some(whole) = memory.read().unwrap_or_else(PoisonError::into_inner).operand() else { continue };
        inputs.push(whole?.with_layout(buffer.layout().clone()));
        others.extend(buffer.device().as_gpu().filter(|other| !Arc::ptr_eq(other.stream(), gpu.stream())).cloned());
    }
    let mut results = inputs.split_off(graph.inputs().len().min(inputs.len())).into_iter();
    let output = |in_place: Option<u32>| match in_place {
        Some(input) => inputs.get(input as usize).cloned(),
        None => results.next(),
    };
    let outputs = graph.outputs().iter().map(|output| output.in_place).filter_map(output).collect();
    Ok(Operands { inputs, outputs, others })
}
