//! The CPU's memory with a type known at run time, and calls on it. A call locks the memory of all its tensors, always in the
//! order of their addresses, so that calls from several threads wait for each other and never for ever.

use std::any::Any;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use plimsoll_cpu::elementwise::{Expression, Operand};
use plimsoll_expr::graph::{MAX_INPUTS, MAX_OUTPUTS};
use plimsoll_expr::{Layout, Value};

use super::super::buffer::{copy_elements, write_first};
use super::super::element::Element;
use super::super::error::Error;
use super::{AnyBuffer, address};

/// Most tensors of a call.
const MOST: usize = MAX_INPUTS + MAX_OUTPUTS;

pub(in super::super) type Memory = Arc<RwLock<dyn Elements>>;

/// A vector of elements of any type.
pub(in super::super) trait Elements: Any + Send + Sync {
    fn read<'s>(&'s self, layout: &'s Layout) -> Operand<'s>;
    fn write<'s>(&'s mut self, layout: &'s Layout) -> Operand<'s>;
}

impl<T: Element> Elements for Vec<T> {
    fn read<'s>(&'s self, layout: &'s Layout) -> Operand<'s> {
        Operand::read(self, Some(layout))
    }

    fn write<'s>(&'s mut self, layout: &'s Layout) -> Operand<'s> {
        Operand::write(self, Some(layout))
    }
}

fn as_vec<T: Element>(elements: &dyn Elements) -> Option<&Vec<T>> {
    (elements as &dyn Any).downcast_ref()
}

fn as_vec_mut<T: Element>(elements: &mut dyn Elements) -> Option<&mut Vec<T>> {
    (elements as &mut dyn Any).downcast_mut()
}

pub(super) fn hold<T: Element>(elements: Vec<T>) -> Memory {
    Arc::new(RwLock::new(elements))
}

/// All elements of a memory, which has this type.
pub(super) fn copy<T: Element>(memory: &Memory) -> Result<Vec<T>, Error> {
    let memory = memory.read().unwrap_or_else(PoisonError::into_inner);
    copy_elements(as_vec::<T>(&*memory).map_or(&[][..], Vec::as_slice))
}

/// Overwrites the first elements of a memory, which has this type.
pub(super) fn write<T: Element>(memory: &Memory, values: &[T]) -> Result<(), Error> {
    let mut memory = memory.write().unwrap_or_else(PoisonError::into_inner);
    write_first(as_vec_mut::<T>(&mut *memory).map_or(&mut [][..], Vec::as_mut_slice), values)
}

/// The elements, if this is the only handle and they have this type; else the handle.
pub(super) fn release<T: Element>(mut memory: Memory) -> Result<Vec<T>, Memory> {
    let elements = Arc::get_mut(&mut memory).map(|lock| lock.get_mut().unwrap_or_else(PoisonError::into_inner));
    elements.and_then(as_vec_mut).map(std::mem::take).ok_or(memory)
}

/// Locked memory.
enum Guard<'s> {
    Read(RwLockReadGuard<'s, dyn Elements>),
    Write(RwLockWriteGuard<'s, dyn Elements>),
}

/// A call's tensor, and whether it is written.
pub(in super::super) type CallTensor<'s> = (&'s AnyBuffer, bool);

/// Runs an expression on its inputs and on the outputs that aren't in place, whose memory was compared: none that is written is
/// another tensor's. Allocates nothing for known layouts.
pub(in super::super) fn run<'s>(
    expression: &Expression,
    tensors: impl Iterator<Item = CallTensor<'s>>,
    scalars: &[Value],
) -> Result<(), Error> {
    let mut given = [None; MOST];
    let mut count = 0;
    for (slot, (buffer, written)) in given.iter_mut().zip(tensors) {
        // Memory of a GPU was refused when the call was given the buffer.
        let Some(memory) = buffer.memory().as_cpu() else { continue };
        *slot = Some((memory, buffer.layout(), written));
        count += 1;
    }
    let given = &given[..count];
    let mut order: [usize; MOST] = std::array::from_fn(|place| place);
    let order = &mut order[..count];
    order.sort_unstable_by_key(|&place| given[place].map(|(memory, ..)| address(memory)));
    let mut guards = [const { None }; MOST];
    lock(given, order, &mut guards);
    let mut operands = [const { None }; MOST];
    fill(given, &mut guards, &mut operands);
    Ok(expression.run(operands.into_iter().flatten(), scalars)?)
}

type Given<'s> = Option<(&'s Memory, &'s Layout, bool)>;

/// Locks each memory once, in the order of addresses: the first tensor of each memory gets its guard.
fn lock<'s>(given: &[Given<'s>], order: &[usize], guards: &mut [Option<Guard<'s>>]) {
    let mut previous = None;
    for &place in order {
        let Some((memory, _, written)) = given[place] else { continue };
        if previous.replace(address(memory)) != Some(address(memory)) {
            guards[place] = Some(match written {
                true => Guard::Write(memory.write().unwrap_or_else(PoisonError::into_inner)),
                false => Guard::Read(memory.read().unwrap_or_else(PoisonError::into_inner)),
            });
        }
    }
}

/// Makes operands of locked memory. Tensors that are only read may share a guard.
fn fill<'g, 's: 'g>(given: &[Given<'s>], guards: &'g mut [Option<Guard<'s>>], operands: &mut [Option<Operand<'g>>]) {
    for (place, guard) in guards.iter_mut().enumerate() {
        let Some(Some((memory, layout, _))) = given.get(place) else { continue };
        match guard {
            Some(Guard::Write(elements)) => operands[place] = Some(elements.write(layout)),
            Some(Guard::Read(elements)) => {
                let elements: &'g dyn Elements = &**elements;
                for (slot, tensor) in operands.iter_mut().zip(given) {
                    if let Some((_, layout, _)) = tensor.filter(|(other, ..)| Arc::ptr_eq(other, memory)) {
                        *slot = Some(elements.read(layout));
                    }
                }
            }
            None => {}
        }
    }
}
