//! A GPU's memory with a type known at run time, and calls on it.

use std::any::Any;
use std::sync::{Arc, PoisonError, RwLock};

use plimsoll_cuda::elementwise::{BoundExpression, Buffer, Expression, Gpu, Operand};
use plimsoll_expr::{LayoutError, Value};
use plimsoll_gen::elementwise::Choose;

use super::super::element::Element;
use super::super::error::Error;
use super::{AnyBuffer, AnyMemory};

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

/// An expression on a GPU with the launch of its last call, which is bound anew after a change.
pub(in super::super) struct GpuCall {
    expression: Arc<Expression>,
    gpu: Gpu,
    bound: Option<BoundExpression>,
}

impl GpuCall {
    pub(in super::super) fn new(expression: &Arc<Expression>, gpu: &Gpu) -> Self {
        Self { expression: Arc::clone(expression), gpu: gpu.clone(), bound: None }
    }

    /// Forgets the launch, after a change of an operand or a scalar.
    pub(in super::super) fn invalidate(&mut self) {
        self.bound = None;
    }

    /// Launches it in the stream's order on its inputs and on the outputs that aren't in place. A call with nothing changed since
    /// the last one allocates nothing.
    pub(in super::super) fn run<'s>(
        &mut self,
        tensors: impl Iterator<Item = &'s AnyBuffer> + Clone,
        scalars: &[Value],
    ) -> Result<(), Error> {
        // Untyped launches aren't ordered with other streams, so the host waits for those whose memory is used.
        let is_other = |gpu: &&Gpu| !Arc::ptr_eq(gpu.stream(), self.gpu.stream());
        let mut others = tensors.clone().filter_map(|buffer| buffer.device().as_gpu()).filter(is_other);
        let has_others = others.try_fold(false, |_, other| other.wait().map(|()| true))?;
        let bound = match &mut self.bound {
            Some(bound) => bound,
            unbound => unbound.insert(bind(&self.expression, tensors, scalars)?),
        };
        bound.enqueue(self.gpu.stream())?;
        if has_others { Ok(self.gpu.wait()?) } else { Ok(()) }
    }
}

/// Binds an expression to its inputs and to the outputs that aren't in place.
fn bind<'s>(
    expression: &Expression,
    tensors: impl Iterator<Item = &'s AnyBuffer>,
    scalars: &[Value],
) -> Result<BoundExpression, Error> {
    let operand = |buffer: &AnyBuffer| {
        let whole = match buffer.memory() {
            AnyMemory::Gpu(memory) => memory.read().unwrap_or_else(PoisonError::into_inner).operand(),
            // Refused when the call was given the buffer.
            #[cfg(feature = "cpu")]
            AnyMemory::Cpu(_) => None,
        };
        whole.map(|whole| Ok(whole?.with_layout(buffer.layout().clone())))
    };
    let mut inputs = tensors.filter_map(operand).collect::<Result<Vec<Operand>, LayoutError>>()?;
    let graph = expression.graph();
    let mut results = inputs.split_off(graph.inputs().len().min(inputs.len())).into_iter();
    let output = |in_place: Option<u32>| match in_place {
        Some(input) => inputs.get(input as usize).cloned(),
        None => results.next(),
    };
    let outputs: Vec<Operand> = graph.outputs().iter().map(|output| output.in_place).filter_map(output).collect();
    Ok(expression.bind(&inputs, &outputs, scalars, &Choose::default())?)
}
