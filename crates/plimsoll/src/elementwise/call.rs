//! A call of an expression whose types are known only at run time: its operands by name or by position, for any number of runs.

use std::fmt;

use half::{bf16, f16};
use plimsoll_expr::layout::broadcast;
use plimsoll_expr::{Layout, Value};

use super::any::AnyBuffer;
#[cfg(feature = "cpu")]
use super::any::cpu;
#[cfg(feature = "cuda")]
use super::any::gpu::GpuCall;
#[cfg(feature = "cuda")]
use super::device::Backend;
use super::error::Error;
use super::expression::{Expression, Form, Parameter, ParameterRole};

/// A parameter of an [`Expression`] by its name (a text) or by its position (a number).
pub trait Key {
    #[doc(hidden)]
    fn find(&self, expression: &Expression) -> Result<usize, Error>;
}

impl Key for usize {
    fn find(&self, expression: &Expression) -> Result<usize, Error> {
        let count = expression.parameters().len();
        if *self < count { Ok(*self) } else { Err(Error::Position { given: *self, count, known: expression.list() }) }
    }
}

impl Key for &str {
    fn find(&self, expression: &Expression) -> Result<usize, Error> {
        expression.find(self)
    }
}

impl Key for &String {
    fn find(&self, expression: &Expression) -> Result<usize, Error> {
        expression.find(self)
    }
}

/// What a parameter is set to: a buffer, or a number for a scalar.
#[derive(Clone, Debug)]
pub enum Setting {
    /// For inputs and outputs.
    Buffer(AnyBuffer),
    /// For scalars; rounded to the scalar's type.
    Number(Value),
}

impl From<&AnyBuffer> for Setting {
    fn from(buffer: &AnyBuffer) -> Self {
        Self::Buffer(buffer.clone())
    }
}

impl From<AnyBuffer> for Setting {
    fn from(buffer: AnyBuffer) -> Self {
        Self::Buffer(buffer)
    }
}

impl From<Value> for Setting {
    fn from(value: Value) -> Self {
        Self::Number(value)
    }
}

macro_rules! numbers {
    ($($($type:ty)* => $value:expr;)*) => {
        $($(impl From<$type> for Setting {
            fn from(number: $type) -> Self {
                let value: fn($type) -> Value = $value;
                Self::Number(value(number))
            }
        })*)*
    };
}

numbers! {
    f64 => Value::Float;
    f32 => |number| Value::Float(number.into());
    f16 bf16 => |number| Value::Float(number.to_f64());
    i8 i16 i32 i64 u8 u16 u32 u64 => |number| Value::Int(number.into());
    bool => Value::Bool;
}

/// A call of an [`Expression`]. Operands and scalars stay until they are set again, and [`Call::run`] may be repeated. It keeps
/// handles of its buffers, whose contents may be read and written between runs.
pub struct Call {
    expression: Expression,
    /// The inputs, then the outputs that aren't in place.
    tensors: Vec<Option<AnyBuffer>>,
    /// The scalars, and whether each was set.
    scalars: Vec<Value>,
    is_set: Vec<bool>,
    /// Whether nothing was set since the last check.
    is_checked: bool,
    #[cfg(feature = "cuda")]
    gpu: Option<GpuCall>,
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("tensors", &self.tensors).field("scalars", &self.scalars).finish_non_exhaustive()
    }
}

/// Where a call keeps a parameter.
enum Slot {
    Tensor(usize),
    Scalar(usize),
}

impl Call {
    pub(super) fn new(expression: &Expression) -> Self {
        let parameters = expression.parameters();
        let scalars = parameters.iter().filter(|parameter| parameter.role == ParameterRole::Scalar).count();
        #[cfg(feature = "cuda")]
        let gpu = match (&expression.form, &expression.device.backend) {
            (Form::Gpu(expression), Backend::Gpu(gpu)) => Some(GpuCall::new(expression, gpu)),
            #[cfg(feature = "cpu")]
            _ => None,
        };
        Self {
            expression: expression.clone(),
            tensors: vec![None; parameters.len() - scalars],
            scalars: vec![Value::Int(0); scalars],
            is_set: vec![false; scalars],
            is_checked: false,
            #[cfg(feature = "cuda")]
            gpu,
        }
    }

    /// Its expression.
    #[must_use]
    pub fn expression(&self) -> &Expression {
        &self.expression
    }

    fn parameter(&self, position: usize) -> &Parameter {
        &self.expression.parameters()[position]
    }

    fn slot(&self, position: usize) -> Slot {
        let inputs = self.expression.graph().inputs().len();
        match position {
            input if input < inputs => Slot::Tensor(input),
            scalar if scalar < inputs + self.scalars.len() => Slot::Scalar(scalar - inputs),
            output => Slot::Tensor(output - self.scalars.len()),
        }
    }

    /// The parameter of a tensor.
    fn tensor_parameter(&self, tensor: usize) -> &Parameter {
        let inputs = self.expression.graph().inputs().len();
        self.parameter(if tensor < inputs { tensor } else { tensor + self.scalars.len() })
    }

    /// Sets a parameter, by its name or its position in [`Expression::parameters`], to a buffer or a number. Allocates nothing.
    ///
    /// # Errors
    /// [`Error::Name`] with the most similar name, or [`Error::Position`]; [`Error::Kind`] for a number in place of a buffer or the
    /// reverse; [`Error::Type`] or [`Error::Device`] for a buffer of another type or device.
    pub fn set(&mut self, key: impl Key, setting: impl Into<Setting>) -> Result<&mut Self, Error> {
        let position = key.find(&self.expression)?;
        let Parameter { name, dtype, .. } = &self.expression.parameters()[position];
        let kind = |expected, given| Error::Kind { name: name.clone(), expected, given };
        match (self.slot(position), setting.into()) {
            (Slot::Tensor(tensor), Setting::Buffer(buffer)) => {
                self.expression.device.check_same(name, buffer.device())?;
                let (expected, given) = (*dtype, buffer.dtype());
                if expected != given {
                    return Err(Error::Type { name: name.clone(), expected, given });
                }
                #[cfg(feature = "cuda")]
                self.gpu.iter_mut().for_each(|gpu| gpu.buffer_changed(tensor, &buffer));
                self.tensors[tensor] = Some(buffer);
                self.is_checked = false;
            }
            (Slot::Scalar(scalar), Setting::Number(value)) => {
                self.is_checked &= self.is_set[scalar];
                (self.scalars[scalar], self.is_set[scalar]) = (dtype.cast(value), true);
            }
            (Slot::Tensor(_), Setting::Number(_)) => return Err(kind("a tensor", "a number")),
            (Slot::Scalar(_), Setting::Buffer(_)) => return Err(kind("a scalar", "a buffer")),
        }
        Ok(self)
    }

    /// The buffer that a parameter is set to.
    ///
    /// # Errors
    /// [`Error::Unset`] if there is none yet; those of [`Call::set`] for a wrong key or a scalar.
    pub fn get(&self, key: impl Key) -> Result<&AnyBuffer, Error> {
        let position = key.find(&self.expression)?;
        let name = || self.parameter(position).name.clone();
        match self.slot(position) {
            Slot::Tensor(tensor) => self.tensors[tensor].as_ref().ok_or_else(|| Error::Unset(name())),
            Slot::Scalar(_) => {
                Err(Error::Kind { name: name(), expected: "a scalar", given: "a request for its buffer" })
            }
        }
    }

    /// Gives each output without a buffer a new one, row-major in the shape to which the other tensors are broadcast.
    ///
    /// # Errors
    /// [`Error::Unset`] if an input has no buffer; shapes that can't be broadcast; too little memory.
    pub fn allocate_outputs(&mut self) -> Result<&mut Self, Error> {
        let inputs = self.expression.graph().inputs().len();
        if let Some(missing) = self.tensors[..inputs].iter().position(Option::is_none) {
            return Err(Error::Unset(self.tensor_parameter(missing).name.clone()));
        }
        let shapes: Vec<&[u64]> = self.tensors.iter().flatten().map(AnyBuffer::shape).collect();
        let shape = Layout::contiguous(&broadcast(&shapes)?)?;
        for tensor in inputs..self.tensors.len() {
            if self.tensors[tensor].is_none() {
                let Parameter { name, dtype, .. } = self.tensor_parameter(tensor);
                let (name, buffer) = (name.clone(), self.expression.device.any_zeros(*dtype, shape.shape())?);
                self.set(name.as_str(), buffer)?;
            }
        }
        Ok(self)
    }

    /// Runs it. On the CPU it returns when all outputs are written; on a GPU it returns at once, and the work is done in the
    /// stream's order, unless a buffer belongs to another stream: then it waits for both. Allocates nothing if the layouts are those of an earlier run.
    ///
    /// # Errors
    /// [`Error::Unset`] for a parameter without a value; [`Error::SharedMemory`] for an output in another tensor's memory; invalid
    /// shapes or sizes; compiler errors.
    pub fn run(&mut self) -> Result<(), Error> {
        if !self.is_checked {
            self.check()?;
            self.is_checked = true;
        }
        match &self.expression.form {
            #[cfg(feature = "cpu")]
            Form::Cpu(expression) => {
                let tensors = self.tensors.iter().flatten().enumerate();
                let tensors = tensors.map(|(tensor, buffer)| (buffer, self.is_written(tensor)));
                cpu::run(expression, tensors, &self.scalars)
            }
            #[cfg(feature = "cuda")]
            Form::Gpu(_) => {
                let Self { gpu: Some(gpu), tensors, scalars, .. } = self else { return Ok(()) };
                gpu.run(tensors.iter().flatten(), scalars)
            }
        }
    }

    fn is_written(&self, tensor: usize) -> bool {
        self.tensor_parameter(tensor).role != ParameterRole::Input
    }

    /// Checks that everything is set and that no output shares memory with another tensor.
    fn check(&self) -> Result<(), Error> {
        let tensor = self.tensors.iter().position(Option::is_none).map(|tensor| self.tensor_parameter(tensor));
        let inputs = self.expression.graph().inputs().len();
        let scalar = self.is_set.iter().position(|is_set| !is_set).map(|scalar| self.parameter(inputs + scalar));
        if let Some(parameter) = tensor.or(scalar) {
            return Err(Error::Unset(parameter.name.clone()));
        }
        let tensors = || self.tensors.iter().flatten().enumerate();
        for (output, memory) in tensors().filter(|(tensor, _)| self.is_written(*tensor)) {
            let mut others = tensors().filter(|(other, _)| *other != output);
            if let Some((other, _)) = others.find(|(_, other)| other.shares_memory_with(memory)) {
                let name = |tensor| self.tensor_parameter(tensor).name.clone();
                return Err(Error::SharedMemory { output: name(output), other: name(other) });
            }
        }
        Ok(())
    }
}
