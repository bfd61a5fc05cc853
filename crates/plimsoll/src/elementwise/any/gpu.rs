//! A GPU's memory with a type known at run time, and calls on it.

use std::any::Any;
use std::sync::{Arc, PoisonError, RwLock};

use plimsoll_cuda::elementwise::{BoundExpression, Buffer, Expression, Gpu, Operand};
use plimsoll_expr::{LayoutError, Value};
use plimsoll_gen::elementwise::Choose;

use super::super::element::Element;
use super::super::error::Error;
use super::AnyBuffer;

pub(in super::super) type Memory = Arc<RwLock<dyn Elements>>;

/// A buffer of any type. `None` only once it was taken out, when no handle is left.
pub(in super::super) trait Elements: Any + Send + Sync {
    fn operand(&self) -> Option<Result<Operand, LayoutError>>;
}

impl<T: Element> Elements for Option<Buffer<T>> {
    fn operand(&self) -> Option<Result<Operand, LayoutError>> {
        self.as_ref().map(Buffer::operand)
    }
}

pub(super) fn hold<T: Element>(buffer: Buffer<T>) -> Memory {
    Arc::new(RwLock::new(Some(buffer)))
}

/// Where the buffer's handle is.
pub(super) fn address(memory: &Memory) -> usize {
    Arc::as_ptr(memory).cast::<()>().addr()
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

/// The buffer, if this is the only handle.
pub(super) fn release<T: Element>(mut memory: Memory) -> Option<Buffer<T>> {
    let elements = Arc::get_mut(&mut memory)?.get_mut().unwrap_or_else(PoisonError::into_inner);
    as_buffer_mut(elements)?.take()
}

/// An expression on a GPU with the operands and the launch of its last run.
pub(in super::super) struct GpuCall {
    expression: Arc<Expression>,
    gpu: Gpu,
    operands: Option<Operands>,
    bound: Option<BoundExpression>,
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
        Self { expression: Arc::clone(expression), gpu: gpu.clone(), operands: None, bound: None }
    }

    /// Forgets what depends on the scalars.
    pub(in super::super) fn scalar_changed(&mut self) {
        self.bound = None;
    }

    /// Forgets what depends on the buffers.
    pub(in super::super) fn buffer_changed(&mut self) {
        (self.operands, self.bound) = (None, None);
    }

    /// Launches it in the stream's order on its inputs and on the outputs that aren't in place. A run with nothing changed since
    /// the last one allocates nothing.
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
        let bound = match &mut self.bound {
            Some(bound) => bound,
            missing => missing.insert(self.expression.bind(inputs, outputs, scalars, &Choose::default())?),
        };
        bound.enqueue(self.gpu.stream())?;
        if others.is_empty() { Ok(()) } else { Ok(self.gpu.wait()?) }
    }
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
