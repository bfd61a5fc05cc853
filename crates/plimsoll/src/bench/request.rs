//! A request to time an expression, and the points that it expands to. Nothing runs here, so every mistake in a request is
//! reported before a device is opened.

use std::collections::BTreeMap;
use std::sync::Arc;

use plimsoll_core::sample::CachePolicy;
use plimsoll_core::unit::{ByteRange, ByteSize};
use plimsoll_cuda::bench::{Covers, span_of_sets};
use plimsoll_expr::graph::Parameter;
use plimsoll_expr::layout::Shape;
use plimsoll_expr::problem::ProblemError;
use plimsoll_expr::{Category, DType, Graph, Layout, Names, ParseError, Problem, Value, parse};
use plimsoll_suite::bench::{Cell, PLAIN};

use super::batch::BatchSets;
use super::name::{operation, types};
use super::operand::Operand;
use super::variant::Variant;

/// The ratio of neighbouring sizes in a range.
const STEP: u64 = 4;

/// An expression and the conditions under which to time it.
#[derive(Clone, Debug)]
pub struct BenchRequest {
    /// The expression.
    pub text: String,
    /// A name for it; by default the name of its operation, or else its text.
    pub name: Option<String>,
    /// The type of tensors that `types` doesn't name.
    pub default_type: DType,
    /// Types of tensors by name.
    pub types: BTreeMap<String, DType>,
    /// Run-time scalars by name, with their values as text.
    pub scalars: BTreeMap<String, String>,
    /// Inputs with explicit layouts. Other inputs have the shape to which these are broadcast.
    pub operands: Vec<Operand>,
    /// Sizes in bytes of the widest tensor, used if no operand has a layout.
    pub sizes: Vec<u64>,
    /// Hot, cold or both.
    pub caches: Vec<CachePolicy>,
    /// Launch modes: [`PLAIN`] or dependent.
    pub launches: Vec<&'static str>,
    /// Plans to time. The default variant is the planner's choice.
    pub variants: Vec<Variant>,
    /// Times one launch over these sets of tensors, and a launch over as many elements of flat tensors. `sizes` don't count then, and
    /// `operands` are inputs of one element.
    pub batch: Option<BatchSets>,
}

impl Default for BenchRequest {
    fn default() -> Self {
        Self {
            text: String::new(),
            name: None,
            default_type: DType::F32,
            types: BTreeMap::new(),
            scalars: BTreeMap::new(),
            operands: Vec::new(),
            sizes: Vec::new(),
            caches: vec![CachePolicy::ColdRotate],
            launches: vec![PLAIN],
            variants: vec![Variant::default()],
            batch: None,
        }
    }
}

/// One point to time.
#[derive(Clone, Debug)]
pub struct Point {
    /// Its identification in results.
    pub cell: Cell,
    /// The expression with its shapes and scalars, shared by points that differ only in other conditions.
    pub problem: Arc<Problem>,
    /// The plan.
    pub variant: Variant,
    /// What its launches compute.
    pub covers: Covers,
}

/// Why a request is invalid.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BenchRequestError {
    /// The expression's text is invalid.
    #[error(transparent)]
    Text(#[from] ParseError),
    /// Shapes that don't match, or wrong operands.
    #[error(transparent)]
    Problem(#[from] ProblemError),
    /// A name that the expression doesn't have.
    #[error("the expression has no {what} '{name}'{hint}")]
    Unknown {
        /// `tensor` or `scalar`.
        what: &'static str,
        /// The name.
        name: String,
        /// The names that it has, as text.
        hint: String,
    },
    /// An input that is described twice, or also described with another type or as a scalar.
    #[error("'{0}' is described twice: as an input with its shape, and again as an input, with a type or as a scalar")]
    Twice(String),
    /// A scalar without a value.
    #[error("the scalar '{0}' has no value")]
    NoValue(String),
    /// A scalar's value that isn't a number.
    #[error("'{value}' is not a number for the scalar '{name}'")]
    Value {
        /// The scalar.
        name: String,
        /// The text that was given.
        value: String,
    },
    /// Inputs without elements.
    #[error("inputs of the shape {0} have no elements, so there is nothing to time: make every extent at least 1")]
    Empty(Shape),
    /// A size smaller than one element.
    #[error("{bytes} bytes are less than one element of {dtype}: ask for more")]
    NoElement {
        /// The size.
        bytes: u64,
        /// The widest type.
        dtype: DType,
    },
    /// An input of a batch with a shape of its own.
    #[error(
        "'{0}' has a shape, but the tensors of a batch have those of its sets: give a shape only to inputs of one element, such as t:f32:1"
    )]
    BatchShape(String),
    /// An expression whose results depend on the place of an element.
    #[error("the expression uses index(), which counts from 0 in each set of a batch: time it without --batch")]
    BatchIndex,
    /// An expression without inputs, so without a shape.
    #[error("the expression reads no tensor: it needs at least one")]
    NoTensor,
}

/// The sizes of a range: its lower end times each power of four up to its upper end, and the upper end.
#[must_use]
pub fn sizes(range: ByteRange) -> Vec<u64> {
    let (ByteSize(lo), ByteSize(hi)) = (range.lo(), range.hi());
    let steps = std::iter::successors(Some(lo.max(1)), |size| size.checked_mul(STEP));
    let mut sizes: Vec<u64> = steps.take_while(|size| *size < hi).collect();
    sizes.push(hi);
    sizes
}

/// A problem to time, and what its launches compute.
struct Work {
    problem: Arc<Problem>,
    shape: String,
    covers: Covers,
    /// The problem whose elements count: the sets of a batch have gaps between them.
    counted: Arc<Problem>,
}

impl BenchRequest {
    /// The expression's graph.
    ///
    /// # Errors
    /// If the text is invalid, or the request gives a type, layout or value for a name that the expression doesn't have.
    pub fn graph(&self) -> Result<Graph, BenchRequestError> {
        if let Some(name) = self.name_described_twice() {
            return Err(BenchRequestError::Twice(name.chars().take(40).collect()));
        }
        let mut tensors = self.types.clone();
        tensors.extend(self.operands.iter().map(|operand| (operand.name.clone(), operand.dtype)));
        let scalars = self.scalars.iter().map(|(name, value)| (name.clone(), self.scalar_type(value))).collect();
        let graph = parse(&self.text, &Names { default: Some(self.default_type), tensors: tensors.clone(), scalars })?;
        let known = |parameters: &[Parameter], name: &String| parameters.iter().any(|known| known.name == *name);
        if let Some(name) = tensors.keys().find(|name| !known(graph.inputs(), name)) {
            return Err(unknown("tensor", name, graph.inputs()));
        }
        if let Some(name) = self.scalars.keys().find(|name| !known(graph.scalars(), name)) {
            return Err(unknown("scalar", name, graph.scalars()));
        }
        Ok(graph)
    }

    /// The first name that is described twice.
    fn name_described_twice(&self) -> Option<&str> {
        let again = |(place, operand): &(usize, &Operand)| {
            let other_type = self.types.get(&operand.name).is_some_and(|dtype| *dtype != operand.dtype);
            let earlier = self.operands[..*place].iter().any(|other| other.name == operand.name);
            other_type || earlier || self.scalars.contains_key(&operand.name)
        };
        self.operands.iter().enumerate().find(again).map(|(_, operand)| operand.name.as_str())
    }

    /// The type of a scalar. Scalars are weak, so it only has to be wide enough: f64 if any type is f64, i64 for an integer among
    /// integers, else f32.
    fn scalar_type(&self, value: &str) -> DType {
        let named = self.types.values().chain(self.operands.iter().map(|operand| &operand.dtype));
        let all: Vec<DType> = named.copied().chain([self.default_type]).collect();
        if all.contains(&DType::F64) {
            DType::F64
        } else if all.iter().all(|dtype| dtype.category() != Category::Float) && value.parse::<i64>().is_ok() {
            DType::I64
        } else {
            DType::F32
        }
    }

    fn values(&self, graph: &Graph) -> Result<Vec<Value>, BenchRequestError> {
        let value = |scalar: &Parameter| {
            let text = self.scalars.get(&scalar.name).ok_or_else(|| BenchRequestError::NoValue(scalar.name.clone()))?;
            let bad = || BenchRequestError::Value { name: scalar.name.clone(), value: text.chars().take(40).collect() };
            let whole = text.parse::<i128>().map(Value::Int);
            let value = whole.or_else(|_| text.parse::<f64>().map(Value::Float)).map_err(|_| bad())?;
            Ok(scalar.dtype.cast(value))
        };
        graph.scalars().iter().map(value).collect()
    }

    /// All points, in the order in which they are measured.
    ///
    /// # Errors
    /// The first mistake in the request.
    pub fn points(&self) -> Result<Vec<Point>, BenchRequestError> {
        let graph = self.graph()?;
        if graph.inputs().is_empty() {
            return Err(BenchRequestError::NoTensor);
        }
        let values = self.values(&graph)?;
        let expression = self.name.clone().or_else(|| operation(&graph).map(str::to_owned));
        let expression = expression.unwrap_or_else(|| self.text.split_whitespace().collect::<Vec<_>>().join(" "));
        let types = types(&graph);
        let mut points = Vec::new();
        for Work { problem, shape, covers, counted } in self.work(graph, &values)? {
            let (bytes, traffic) = (largest_tensor_bytes(&counted), counted.traffic());
            for &cache in &self.caches {
                for &launch in &self.launches {
                    for variant in &self.variants {
                        let cell = Cell {
                            expression: expression.clone(),
                            types: types.clone(),
                            shape: shape.clone(),
                            launch,
                            plan: variant.to_string(),
                            bytes,
                            cache,
                            traffic,
                            ceiling: None,
                        };
                        points.push(Point {
                            cell,
                            problem: Arc::clone(&problem),
                            variant: *variant,
                            covers: covers.clone(),
                        });
                    }
                }
            }
        }
        Ok(points)
    }

    /// What to time, one after the other.
    fn work(&self, graph: Graph, values: &[Value]) -> Result<Vec<Work>, BenchRequestError> {
        let Some(batch) = &self.batch else {
            let (shape, problems) = (self.shape(), self.problems(graph, values)?);
            let one = |problem: Arc<Problem>| Work {
                counted: Arc::clone(&problem),
                problem,
                shape: shape.clone(),
                covers: Covers::Rotating,
            };
            return Ok(problems.into_iter().map(one).collect());
        };
        if let Some(operand) = self.operands.iter().find(|operand| operand.layout.elements() != 1) {
            return Err(BenchRequestError::BatchShape(operand.name.clone()));
        }
        if graph.depends_on_place() {
            return Err(BenchRequestError::BatchIndex);
        }
        let flat = |elements: u64| -> Result<Arc<Problem>, BenchRequestError> {
            let layout = |input: &Parameter| {
                let alone = self.operands.iter().any(|operand| operand.name == input.name);
                Layout::contiguous(&[if alone { 1 } else { elements }]).map_err(ProblemError::from)
            };
            let layouts = graph.inputs().iter().map(layout).collect::<Result<_, _>>()?;
            Ok(Arc::new(Problem::new(graph.clone(), layouts, values.to_vec())?))
        };
        let (counted, spanned) = (flat(batch.elements())?, flat(span_of_sets(&batch.lengths))?);
        let beside = Work {
            problem: Arc::clone(&counted),
            shape: "flat".to_owned(),
            covers: Covers::Once,
            counted: Arc::clone(&counted),
        };
        let covers = Covers::Sets(Arc::clone(&batch.lengths));
        Ok(vec![beside, Work { problem: spanned, shape: batch.label(), covers, counted }])
    }

    fn problems(&self, graph: Graph, values: &[Value]) -> Result<Vec<Arc<Problem>>, BenchRequestError> {
        if !self.operands.is_empty() {
            let described = |name: &str| self.operands.iter().find(|operand| operand.name == name);
            let shapes: Vec<&[u64]> = self.operands.iter().map(|operand| operand.layout.shape()).collect();
            let shape = plimsoll_expr::layout::broadcast(&shapes).map_err(ProblemError::from)?;
            let full = Layout::contiguous(&shape).map_err(ProblemError::from)?;
            let layout = |input: &Parameter| described(&input.name).map_or_else(|| full.clone(), |o| o.layout.clone());
            let layouts = graph.inputs().iter().map(layout).collect();
            let problem = Problem::new(graph, layouts, values.to_vec())?;
            if problem.elements() == 0 {
                return Err(BenchRequestError::Empty(Shape(shape)));
            }
            return Ok(vec![Arc::new(problem)]);
        }
        let tensors = graph.inputs().iter().map(|input| input.dtype);
        let tensors = tensors.chain(graph.outputs().iter().map(|output| output.dtype));
        let widest = tensors.max_by_key(|dtype| dtype.bytes()).unwrap_or(self.default_type);
        let problem = |&bytes: &u64| match bytes / widest.bytes() {
            0 => Err(BenchRequestError::NoElement { bytes, dtype: widest }),
            elements => Ok(Arc::new(Problem::flat(&graph, elements, values)?)),
        };
        self.sizes.iter().map(problem).collect()
    }

    fn shape(&self) -> String {
        let flat = |operand: &Operand| operand.is_plain() && operand.layout.shape().len() == 1;
        match self.operands.as_slice() {
            [] => "flat".to_owned(),
            [operand] if flat(operand) => "flat".to_owned(),
            operands => operands.iter().map(Operand::to_string).collect::<Vec<_>>().join(" "),
        }
    }
}

/// The size in bytes of the largest tensor.
fn largest_tensor_bytes(problem: &Problem) -> u64 {
    let inputs = problem.graph().inputs().iter().zip(problem.inputs());
    let inputs = inputs.map(|(input, layout)| layout.distinct().saturating_mul(input.dtype.bytes()));
    let outputs = problem.graph().outputs().iter();
    let outputs = outputs.map(|output| problem.elements().saturating_mul(output.dtype.bytes()));
    inputs.chain(outputs).max().unwrap_or(0)
}

fn unknown(what: &'static str, name: &str, known: &[Parameter]) -> BenchRequestError {
    let names: Vec<&str> = known.iter().map(|parameter| parameter.name.as_str()).collect();
    let hint = if names.is_empty() { format!(": it has no {what}") } else { format!(": it has {}", names.join(", ")) };
    BenchRequestError::Unknown { what, name: name.chars().take(40).collect(), hint }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(text: &str) -> BenchRequest {
        BenchRequest { text: text.to_owned(), sizes: vec![1 << 20, 4 << 20], ..BenchRequest::default() }
    }

    #[test]
    fn a_range_has_powers_of_four_and_both_ends() {
        let sizes_of = |text: &str| sizes(text.parse().unwrap());
        assert_eq!(sizes_of("1MiB..2GiB"), [1, 4, 16, 64, 256, 1024, 2048].map(|mib: u64| mib << 20));
        assert_eq!(sizes_of("1MiB..4MiB"), [1 << 20, 4 << 20]);
        assert_eq!(sizes_of("3MiB"), [3 << 20]);
        assert_eq!(sizes_of("0..10"), [1, 4, 10]);
    }

    #[test]
    fn every_combination_of_conditions_makes_a_point() {
        let request = BenchRequest {
            caches: vec![CachePolicy::ColdRotate, CachePolicy::Hot],
            launches: vec![PLAIN, plimsoll_suite::bench::DEPENDENT],
            ..request("a*x + y")
        };
        let request = BenchRequest { scalars: [("a".to_owned(), "0.5".to_owned())].into(), ..request };
        let points = request.points().unwrap();
        assert_eq!(points.len(), 8);
        let cell = &points[0].cell;
        assert_eq!((cell.expression.as_str(), cell.types.as_str(), cell.shape.as_str()), ("triad", "f32", "flat"));
        assert_eq!((cell.bytes, cell.traffic.total()), (1 << 20, 3 << 20));
        assert_eq!(points[0].problem.scalars(), [Value::Float(0.5)]);
    }

    #[test]
    fn sizes_apply_to_the_widest_tensor() {
        let types = [("x".to_owned(), DType::Bf16)].into();
        let points = BenchRequest { types, ..request("x * y") }.points().unwrap();
        assert_eq!((points[0].problem.elements(), points[0].cell.types.as_str()), (1 << 18, "bf16+f32>f32"));
    }

    #[test]
    fn inputs_without_a_layout_take_the_broadcast_shape() {
        let operands = vec!["b:f32:1x128".parse().unwrap(), "x:f32:64x128:transposed".parse().unwrap()];
        let refused = BenchRequest { operands, ..request("x + b + z") }.points();
        assert!(matches!(refused, Err(BenchRequestError::Problem(ProblemError::Layout(_)))));
        let operands = vec!["b:f32:1x128".parse().unwrap(), "x:f32:128x64:transposed".parse().unwrap()];
        let points = BenchRequest { operands, ..request("x + b + z") }.points().unwrap();
        assert_eq!(points.len(), 1);
        assert_eq!(points[0].problem.shape(), [64, 128]);
        assert_eq!(points[0].cell.shape, "b:1x128 x:128x64:transposed");
        assert_eq!(points[0].cell.traffic.read, 4 * (128 + 2 * 64 * 128));
    }

    #[test]
    fn inputs_described_twice_are_refused() {
        let operands = |all: &[&str]| all.iter().map(|text| text.parse().unwrap()).collect::<Vec<Operand>>();
        let twice = operands(&["x:f32:8", "y:f32:8", "x:f32:8"]);
        let types = [("x".to_owned(), DType::F16)].into();
        let scalars = [("x".to_owned(), "1".to_owned())].into();
        let once = || operands(&["x:f32:8"]);
        for request in [
            BenchRequest { operands: twice, ..request("x + y") },
            BenchRequest { operands: once(), types, ..request("x + y") },
            BenchRequest { operands: once(), scalars, ..request("x + y") },
        ] {
            assert_eq!(request.points().unwrap_err(), BenchRequestError::Twice("x".to_owned()));
        }
        let types = [("x".to_owned(), DType::F32)].into();
        assert!(BenchRequest { operands: once(), types, ..request("x + 1") }.points().is_ok());
    }

    #[test]
    fn unknown_names_are_refused_with_a_list_of_known_names() {
        let types = [("z".to_owned(), DType::Bf16)].into();
        let error = BenchRequest { types, ..request("x * y") }.points().unwrap_err().to_string();
        assert!(error.contains("no tensor 'z'") && error.contains("x, y"), "{error}");
        let scalars = [("b".to_owned(), "1".to_owned())].into();
        let error = BenchRequest { scalars, ..request("x * y") }.points().unwrap_err().to_string();
        assert!(error.contains("no scalar 'b'"), "{error}");
        let error = request("scalar a: f32; a*x").points().unwrap_err().to_string();
        assert!(error.contains("'a' has no value"), "{error}");
        let scalars = [("a".to_owned(), "half".to_owned())].into();
        assert!(matches!(BenchRequest { scalars, ..request("a*x") }.points(), Err(BenchRequestError::Value { .. })));
    }

    #[test]
    fn sizes_below_one_element_are_refused() {
        let error = BenchRequest { sizes: vec![3], ..request("x") }.points().unwrap_err();
        assert_eq!(error, BenchRequestError::NoElement { bytes: 3, dtype: DType::F32 });
    }

    #[test]
    fn inputs_without_elements_or_too_large_for_memory_are_refused() {
        let refused = |operand: &str| {
            BenchRequest { operands: vec![operand.parse().unwrap()], ..request("x + 1") }.points().unwrap_err()
        };
        for empty in ["x:f32:0", "x:f32:4x0x3", "x:f32:18446744073709551615x0:offset=7"] {
            let error = refused(empty);
            assert!(
                matches!(error, BenchRequestError::Empty(_)) && error.to_string().contains("no element"),
                "{empty}: {error}"
            );
        }
        for far in [
            "x:f32:1:offset=4611686018427387904",
            "x:f32:2:strides=4611686018427387904",
            "x:f64:2:offset=1152921504606846976:strides=-1152921504606846976",
            "x:f64:1152921504606846976",
        ] {
            let error = refused(far);
            assert!(matches!(error, BenchRequestError::Problem(ProblemError::Memory { .. })), "{far}: {error}");
            assert!(error.to_string().starts_with("'x': "), "{error}");
        }
        for vast in ["x:i16:9223372036854775807", "x:f64:4611686018427387904", "x:f32:4611686018427387903:strides=0"] {
            let error = refused(vast);
            let message = error.to_string();
            assert!(
                message.contains("2^64 bytes together") || message.contains("2^63 bytes of memory"),
                "{vast}: {message}"
            );
        }
    }
}
