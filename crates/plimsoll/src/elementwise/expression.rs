//! Expressions whose types and number of tensors are known only at run time.

use std::fmt;
use std::sync::Arc;

use plimsoll_core::text::{list_names, shorten};
use plimsoll_expr::parse::closest;
use plimsoll_expr::{DType, Graph, Names, parse};

use super::call::Call;
use super::device::{Backend, Device};
use super::error::Error;

/// What a parameter of an [`Expression`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterRole {
    /// A tensor that is only read.
    Input,
    /// A tensor that is read and written in place.
    InOut,
    /// A number.
    Scalar,
    /// A tensor that is only written.
    Output,
}

/// A parameter of an [`Expression`]. A call sets it by its name or by its position in [`Expression::parameters`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// What it is.
    pub role: ParameterRole,
    /// The type of its elements or of the number.
    pub dtype: DType,
}

/// An expression from text on its way to a device: says which names are scalars and which types tensors have. Names that the
/// text itself declares (`in x: bf16`, `scalar a: f32`) need nothing here.
#[derive(Clone, Debug)]
#[must_use = "`compile` makes an expression of it"]
pub struct ExpressionBuilder {
    device: Device,
    text: String,
    names: Names,
}

impl ExpressionBuilder {
    pub(super) fn new(device: &Device, text: &str) -> Self {
        Self { device: device.clone(), text: text.to_owned(), names: Names::default() }
    }

    /// Makes `name` a tensor of this type.
    pub fn tensor(mut self, name: &str, dtype: DType) -> Self {
        self.names.tensors.insert(name.to_owned(), dtype);
        self
    }

    /// Makes `name` a number that each call may change.
    pub fn scalar(mut self, name: &str, dtype: DType) -> Self {
        self.names.scalars.insert(name.to_owned(), dtype);
        self
    }

    /// Makes all other names tensors of this type.
    pub fn tensors(mut self, dtype: DType) -> Self {
        self.names.default = Some(dtype);
        self
    }

    /// Reads the text and prepares it for the device. A GPU compiles it in its first call and caches it on disk.
    ///
    /// # Errors
    /// [`Error::Text`] with the position of the first mistake; kernels can't be compiled on this machine.
    pub fn compile(self) -> Result<Expression, Error> {
        Expression::new(&parse(&self.text, &self.names)?, &self.device)
    }
}

/// An expression on a device with its parameters, for calls by name or by position. Clones share what was compiled on a GPU.
#[derive(Clone)]
pub struct Expression {
    pub(super) form: Form,
    pub(super) device: Device,
    parameters: Arc<[Parameter]>,
}

#[derive(Clone)]
pub(super) enum Form {
    #[cfg(feature = "cpu")]
    Cpu(Box<plimsoll_cpu::elementwise::Expression>),
    #[cfg(feature = "cuda")]
    Gpu(Arc<plimsoll_cuda::elementwise::Expression>),
}

impl fmt::Debug for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Expression").field("device", &self.device).field("graph", self.graph()).finish()
    }
}

impl Expression {
    pub(super) fn new(graph: &Graph, device: &Device) -> Result<Self, Error> {
        let form = match &device.backend {
            #[cfg(feature = "cpu")]
            Backend::Cpu(cpu) => Form::Cpu(Box::new(cpu.expression(graph))),
            #[cfg(feature = "cuda")]
            Backend::Gpu(gpu) => Form::Gpu(Arc::new(gpu.engine().expression(graph)?)),
        };
        Ok(Self { form, device: device.clone(), parameters: list_parameters(graph).into() })
    }

    /// The expression itself.
    #[must_use]
    pub fn graph(&self) -> &Graph {
        match &self.form {
            #[cfg(feature = "cpu")]
            Form::Cpu(expression) => expression.graph(),
            #[cfg(feature = "cuda")]
            Form::Gpu(expression) => expression.graph(),
        }
    }

    /// Its device.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Its inputs, then its scalars, then the outputs that aren't written in place, each in the order of the text. The output of
    /// a text without a name is `out`.
    #[must_use]
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// A call without operands yet.
    #[must_use]
    pub fn new_call(&self) -> Call {
        Call::new(self)
    }

    /// The position of the parameter with this name.
    pub(super) fn find(&self, name: &str) -> Result<usize, Error> {
        let names = || self.parameters.iter().map(|parameter| parameter.name.as_str());
        names().position(|known| known == name).ok_or_else(|| Error::Name {
            given: shorten(name, 40),
            closest: closest(name, names()).map(str::to_owned),
            known: self.list(),
        })
    }

    /// The parameters for error messages: `x, y, scalar a, output out`.
    pub(super) fn list(&self) -> String {
        let list = self.parameters.iter().map(|parameter| match parameter.role {
            ParameterRole::Input | ParameterRole::InOut => parameter.name.clone(),
            ParameterRole::Scalar => format!("scalar {}", parameter.name),
            ParameterRole::Output => format!("output {}", parameter.name),
        });
        list_names(list)
    }
}

fn list_parameters(graph: &Graph) -> Vec<Parameter> {
    let role = |slot: usize| {
        let is_written =
            graph.outputs().iter().any(|output| output.in_place.is_some_and(|input| input as usize == slot));
        if is_written { ParameterRole::InOut } else { ParameterRole::Input }
    };
    let inputs = graph.inputs().iter().enumerate().map(|(slot, input)| (&input.name, role(slot), input.dtype));
    let scalars = graph.scalars().iter().map(|scalar| (&scalar.name, ParameterRole::Scalar, scalar.dtype));
    let results = graph.outputs().iter().filter(|output| output.in_place.is_none());
    let results = results.map(|output| (&output.name, ParameterRole::Output, output.dtype));
    let all = inputs.chain(scalars).chain(results);
    all.map(|(name, role, dtype)| Parameter { name: name.clone(), role, dtype }).collect()
}
