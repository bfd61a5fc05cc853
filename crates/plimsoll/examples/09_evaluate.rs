//! Evaluates expressions for the differential test in `tests/differential`: reads requests from standard input and writes outputs
//! to standard output. The first argument is `cpu`, `cuda:0`, or `program`:
//! what kernels compute, by the interpreter of their programs. The second is the index of the CPU to run on.
//!
//! `cargo run -p plimsoll --example 09_evaluate -- cpu 0`
//!
//! A request is a line of JSON ([`Request`]), the bytes of each input, and the initial bytes of each output that isn't written in
//! place. The answer is a line `{"outputs": [bytes, …]}` and the bytes of each output, or a line `{"error": "…"}`.
#![allow(clippy::print_stdout, reason = "it is a program")]

use std::error::Error;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};

use plimsoll::elementwise::gpu::{Choose, Expression, Gpu, Operand};
use plimsoll::expr::layout::Space;
use plimsoll::expr::{DType, Graph, Layout, Names, Value, parse};
use plimsoll_cpu::arch::available;
use plimsoll_cpu::elementwise::{How, Program, Set, StorePolicy};
use plimsoll_cpu::threads::{Team, affinity};
use plimsoll_cpu::timer::Timer;
use plimsoll_cuda::driver::Driver;
use plimsoll_cuda::memory::DeviceBuffer;
use plimsoll_gen::elementwise::{Tier, accuracy, body};
use plimsoll_ir::eval;
use serde_json::{Value as Json, json};

type Answer<T> = Result<T, Box<dyn Error>>;

fn main() -> Answer<()> {
    let mut arguments = std::env::args().skip(1);
    let device = arguments.next().unwrap_or_else(|| "cpu".to_owned());
    let place = arguments.next().map_or(Ok(0), |place| place.parse::<usize>())?;
    let mut subject = Subject::open(&device, place)?;
    let mut requests = BufReader::with_capacity(1 << 20, io::stdin().lock());
    let mut answers = BufWriter::with_capacity(1 << 20, io::stdout().lock());
    let mut line = String::new();
    while requests.read_line(&mut line)? > 0 {
        let request = Request::read(&line, &mut requests)?;
        match subject.run(&request) {
            Ok(outputs) => {
                let sizes: Vec<usize> = outputs.iter().map(Vec::len).collect();
                writeln!(answers, "{}", json!({ "outputs": sizes }))?;
                for output in outputs {
                    answers.write_all(&output)?;
                }
            }
            Err(error) => writeln!(answers, "{}", json!({ "error": error.to_string() }))?,
        }
        answers.flush()?;
        line.clear();
    }
    Ok(())
}

/// A tensor of a request.
struct Tensor {
    dtype: DType,
    layout: Layout,
    /// The initial content of its memory. Empty for an output in place, which uses its input's memory.
    memory: Vec<u8>,
}

/// An expression with its operands and settings.
struct Request {
    /// The expression, with all of its inputs and scalars declared.
    text: String,
    /// The scalars' bits, in the order of their declarations.
    scalars: Vec<u64>,
    inputs: Vec<Tensor>,
    outputs: Vec<Tensor>,
    /// The index of the CPU's instruction set, counted from the widest.
    isa: usize,
    /// Whether the CPU uses non-temporal stores.
    nontemporal: bool,
}

impl Request {
    fn read(line: &str, payload: &mut impl Read) -> Answer<Self> {
        let header: Json = serde_json::from_str(line)?;
        let words = |json: &Json| json.as_array().into_iter().flatten().filter_map(Json::as_u64).collect();
        let tensors = |name: &str| header[name].as_array().into_iter().flatten();
        let mut tensor = |json: &Json| -> Answer<Tensor> {
            let dtype = json["dtype"].as_str().ok_or("a tensor has no type")?.parse()?;
            let shape: Vec<u64> = words(&json["shape"]);
            let strides: Vec<i64> = json["strides"].as_array().into_iter().flatten().filter_map(Json::as_i64).collect();
            let layout = Layout::strided(&shape, &strides, json["offset"].as_u64().unwrap_or(0))?;
            let mut memory = vec![0; usize::try_from(json["bytes"].as_u64().unwrap_or(0))?];
            payload.read_exact(&mut memory)?;
            Ok(Tensor { dtype, layout, memory })
        };
        Ok(Self {
            inputs: tensors("inputs").map(&mut tensor).collect::<Answer<_>>()?,
            outputs: tensors("outputs").map(&mut tensor).collect::<Answer<_>>()?,
            text: header["text"].as_str().ok_or("there is no text")?.to_owned(),
            scalars: words(&header["scalars"]),
            isa: header["isa"].as_u64().unwrap_or(0) as usize,
            nontemporal: header["nontemporal"].as_bool().unwrap_or(false),
        })
    }

    /// Checks the types: they are part of the test, and an output of another type would be misread.
    fn check_types(&self, graph: &Graph) -> Answer<()> {
        let expected = |tensors: &[Tensor]| tensors.iter().map(|tensor| tensor.dtype).collect::<Vec<_>>();
        let inputs: Vec<DType> = graph.inputs().iter().map(|input| input.dtype).collect();
        let outputs: Vec<DType> = graph.outputs().iter().map(|output| output.dtype).collect();
        if inputs != expected(&self.inputs) || outputs != expected(&self.outputs) {
            return Err(format!("the expression takes {inputs:?} and returns {outputs:?}").into());
        }
        Ok(())
    }

    fn scalars(&self, graph: &Graph) -> Vec<Value> {
        graph.scalars().iter().zip(&self.scalars).map(|(scalar, &bits)| scalar.dtype.decode(bits)).collect()
    }

    fn layouts(&self) -> [Vec<Layout>; 2] {
        [&self.inputs, &self.outputs].map(|tensors| tensors.iter().map(|tensor| tensor.layout.clone()).collect())
    }
}

/// The device that runs expressions.
enum Subject {
    Cpu(Box<Team>),
    Gpu(Box<Device>),
    Program,
}

impl Subject {
    fn open(device: &str, place: usize) -> Answer<Self> {
        if device == "cpu" {
            let cpus = affinity::allowed_cpus();
            let cpu = cpus[place % cpus.len()];
            return Ok(Self::Cpu(Box::new(Team::new(&[cpu], Timer::best())?)));
        }
        if device == "program" {
            return Ok(Self::Program);
        }
        let index = device.strip_prefix("cuda:").ok_or("the device is 'cpu', 'cuda:N' or 'program'")?.parse()?;
        let options = plimsoll::CudaOptions { no_cache: true, ..Default::default() };
        let gpu = Gpu::open(&Driver::system()?, index, &options)?;
        Ok(Self::Gpu(Box::new(Device { gpu, last: None, memory: Vec::new() })))
    }

    fn run(&mut self, request: &Request) -> Answer<Vec<Vec<u8>>> {
        match self {
            Self::Cpu(team) => on_cpu(team, request),
            Self::Gpu(device) => device.run(request),
            Self::Program => interpreted(request),
        }
    }
}

fn on_cpu(team: &mut Team, request: &Request) -> Answer<Vec<Vec<u8>>> {
    let graph = parse(&request.text, &Names::default())?;
    request.check_types(&graph)?;
    let isas = available();
    let stores = if request.nontemporal { StorePolicy::NonTemporal } else { StorePolicy::Ordinary };
    let how = How { isa: isas[request.isa % isas.len()], stores, ..How::for_threads(team.size()) };
    let in_place: Vec<Option<u32>> = graph.outputs().iter().map(|output| output.in_place).collect();
    let separate = |input: &usize| !in_place.contains(&u32::try_from(*input).ok());
    let memory: Vec<Aligned> = request.inputs.iter().map(|tensor| Aligned::new(&tensor.memory)).collect();
    let inputs: Vec<&[u8]> = (0..memory.len()).filter(separate).map(|input| memory[input].bytes()).collect();
    let mut outputs: Vec<Aligned> = (request.outputs.iter().zip(&in_place))
        .map(|(tensor, input)| Aligned::new(input.map_or(&tensor.memory, |k| &request.inputs[k as usize].memory)))
        .collect();
    let mut written: Vec<&mut [u8]> = outputs.iter_mut().map(Aligned::bytes_mut).collect();
    let [input_layouts, output_layouts] = request.layouts();
    let mut prepared = Program::new(&graph).prepare(&input_layouts, &output_layouts, &how)?;
    prepared.run(team, Set { inputs: &inputs, outputs: &mut written }, &request.scalars(&graph))?;
    Ok(outputs.iter().map(|output| output.bytes().to_vec()).collect())
}

/// Interprets the program of a kernel: as on a GPU, the common part, and the general one where a guard of it doesn't hold.
fn interpreted(request: &Request) -> Answer<Vec<Vec<u8>>> {
    let graph = parse(&request.text, &Names::default())?;
    request.check_types(&graph)?;
    let tier = Tier::Accurate;
    let program = body::program(&accuracy::meaning(&graph, tier).with_raw_copies(), tier);
    let in_place: Vec<Option<usize>> =
        graph.outputs().iter().map(|output| output.in_place.map(|k| k as usize)).collect();
    let written: Vec<&Tensor> =
        (request.outputs.iter().zip(&in_place)).map(|(tensor, k)| k.map_or(tensor, |k| &request.inputs[k])).collect();
    let mut outputs: Vec<Vec<u8>> = written.iter().map(|tensor| tensor.memory.clone()).collect();
    let shape = request.outputs.first().ok_or("there is no output")?.layout.shape();
    let layouts: Vec<Layout> =
        request.inputs.iter().map(|tensor| tensor.layout.broadcast_to(shape)).collect::<Result<_, _>>()?;
    for (place, coordinates) in Space::with_shape(shape, &layouts)?.coordinates().enumerate() {
        let inputs: Vec<u64> = (request.inputs.iter().zip(&layouts))
            .map(|(tensor, layout)| {
                let at = place_of(layout, &coordinates, tensor.dtype)?;
                let mut bits = [0; 8];
                bits[..at.len()].copy_from_slice(&tensor.memory[at]);
                Ok(u64::from_le_bytes(bits))
            })
            .collect::<Answer<_>>()?;
        let element = eval::Element {
            inputs: &inputs,
            scalars: &request.scalars,
            types: (&program.inputs, &program.scalars),
            place: place as u64,
            coordinates: &coordinates,
        };
        let (mut results, held) = eval::run(&program.common, element);
        if !held {
            results = eval::run(program.total(), element).0;
        }
        for (slot, (bits, dtype)) in results.iter().zip(&program.outputs).enumerate() {
            let bytes = dtype.encode(dtype.cast(dtype.carrier().decode(*bits))).to_le_bytes();
            let at = place_of(&written[slot].layout, &coordinates, *dtype)?;
            let length = at.len();
            outputs[slot][at].copy_from_slice(&bytes[..length]);
        }
    }
    Ok(outputs)
}

/// The bytes of an element.
fn place_of(layout: &Layout, coordinates: &[u64], dtype: DType) -> Answer<std::ops::Range<usize>> {
    let element = layout.offset_of(coordinates).ok_or("a tensor has too few dimensions")?;
    let size = dtype.bytes() as usize;
    let start = usize::try_from(element)? * size;
    Ok(start..start + size)
}

/// Bytes that begin at a multiple of 16, which a plain vector of bytes doesn't guarantee.
struct Aligned {
    memory: Vec<u8>,
    start: usize,
    length: usize,
}

impl Aligned {
    fn new(bytes: &[u8]) -> Self {
        let mut memory = vec![0; bytes.len() + 16];
        let start = memory.as_ptr().align_offset(16);
        memory[start..start + bytes.len()].copy_from_slice(bytes);
        Self { memory, start, length: bytes.len() }
    }

    fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.length]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.length]
    }
}

/// A GPU, with the last expression and memory for reuse.
struct Device {
    gpu: Gpu,
    last: Option<(String, Expression)>,
    memory: Vec<DeviceBuffer>,
}

impl Device {
    fn run(&mut self, request: &Request) -> Answer<Vec<Vec<u8>>> {
        if self.last.as_ref().is_none_or(|(text, _)| *text != request.text) {
            let graph = parse(&request.text, &Names::default())?;
            self.last = Some((request.text.clone(), self.gpu.engine().expression(&graph)?));
        }
        let Some((_, expression)) = &self.last else { return Err("there is no expression".into()) };
        let graph = expression.graph();
        request.check_types(graph)?;
        let mut inputs = Vec::new();
        let mut slot = 0;
        for tensor in &request.inputs {
            inputs.push(upload(&self.gpu, &mut self.memory, &mut slot, tensor)?);
        }
        let mut outputs = Vec::new();
        let mut places = Vec::new();
        for (output, tensor) in graph.outputs().iter().zip(&request.outputs) {
            let input = output.in_place.map(|input| input as usize);
            places.push((input.unwrap_or(slot), input.map_or(tensor, |k| &request.inputs[k]).memory.len()));
            outputs.push(match input {
                Some(input) => inputs[input].clone(),
                None => upload(&self.gpu, &mut self.memory, &mut slot, tensor)?,
            });
        }
        let bound = expression.bind(&inputs, &outputs, &request.scalars(graph), &Choose::default())?;
        bound.enqueue(self.gpu.stream())?;
        let mut results = Vec::new();
        for (place, bytes) in places {
            let mut result = vec![0; bytes];
            self.memory[place].download(self.gpu.stream(), &mut result)?;
            results.push(result);
        }
        Ok(results)
    }
}

/// Uploads the tensor into buffer number `slot`, which grows if it is too small.
fn upload(gpu: &Gpu, memory: &mut Vec<DeviceBuffer>, slot: &mut usize, tensor: &Tensor) -> Answer<Operand> {
    let bytes = (tensor.memory.len() as u64).max(1 << 12);
    let context = gpu.stream().context();
    if *slot == memory.len() {
        memory.push(DeviceBuffer::new(context, bytes)?);
    } else if memory[*slot].bytes() < bytes {
        memory[*slot] = DeviceBuffer::new(context, bytes.next_power_of_two())?;
    }
    let buffer = &memory[*slot];
    buffer.upload(gpu.stream(), &tensor.memory)?;
    *slot += 1;
    Ok(Operand::from_buffer(buffer, tensor.dtype, tensor.layout.clone()))
}
