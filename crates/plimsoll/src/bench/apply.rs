//! Runs an expression once on bytes from the host, with the kernel that would be timed, and returns the results.

use plimsoll_core::Fault;
use plimsoll_cuda::elementwise::{Engine, Operand};
use plimsoll_cuda::memory::DeviceBuffer;
use plimsoll_cuda::wait;
use plimsoll_expr::{Graph, Layout, Value};
use plimsoll_gen::elementwise::{Choose, Table};

use super::Device;

/// Runs an expression on inputs of `elements` elements, each contiguous and little-endian, and returns the bytes of each output.
/// An output in place is the updated input.
///
/// # Errors
/// [`Fault::Invalid`] if the inputs don't match; [`Fault::Unavailable`] if the device isn't a GPU.
pub fn apply(
    device: &mut Device,
    graph: &Graph,
    (elements, inputs): (u64, &[Vec<u8>]),
    scalars: &[Value],
    table: Option<&Table>,
) -> Result<Vec<Vec<u8>>, Fault> {
    let invalid = |what: String| Fault::Invalid(what);
    let needs = |bytes: u64| elements.saturating_mul(bytes);
    for (input, memory) in graph.inputs().iter().zip(inputs) {
        let (bytes, needed) = (memory.len() as u64, needs(input.dtype.bytes()));
        if bytes != needed {
            return Err(invalid(format!("'{}' has {bytes} bytes, but {elements} elements take {needed}", input.name)));
        }
    }
    let Device::Cuda(bench) = device else {
        let hint = "Choose a GPU, such as cuda:0".to_owned();
        let why = "results are only read back from GPUs".to_owned();
        return Err(Fault::Unavailable { what: "results of an expression", why, hint });
    };
    let device = bench.device();
    let engine = match table {
        Some(table) => Engine::with_table(device, table.clone()),
        None => Engine::new(device),
    }?;
    let layout = Layout::contiguous(&[elements]).map_err(|error| invalid(error.to_string()))?;
    let buffer = |bytes: u64| DeviceBuffer::new(&device.context, bytes);
    let mut memory = Vec::new();
    for bytes in inputs {
        let array = buffer(bytes.len() as u64)?;
        array.upload(&device.stream, bytes)?;
        memory.push(array);
    }
    let mut places = Vec::new();
    for output in graph.outputs() {
        match output.in_place {
            Some(slot) => places.push(slot as usize),
            None => {
                places.push(memory.len());
                memory.push(buffer(needs(output.dtype.bytes()))?);
            }
        }
    }
    let operand = |place: usize, dtype| {
        let array = memory.get(place).ok_or_else(|| invalid("inputs are missing".to_owned()))?;
        Ok::<_, Fault>(Operand::from_buffer(array, dtype, layout.clone()))
    };
    let input_operands = graph.inputs().iter().enumerate().map(|(place, input)| operand(place, input.dtype));
    let output_operands = graph.outputs().iter().zip(&places).map(|(output, place)| operand(*place, output.dtype));
    let input_operands = input_operands.collect::<Result<Vec<_>, _>>()?;
    let output_operands = output_operands.collect::<Result<Vec<_>, _>>()?;
    let expression = engine.expression(graph)?;
    expression.bind(&input_operands, &output_operands, scalars, &Choose::default())?.enqueue(&device.stream)?;
    wait::stream(&device.stream)?;
    let read = |place: &usize| {
        let array = &memory[*place];
        let mut bytes = vec![0; usize::try_from(array.bytes()).unwrap_or(0)];
        array.download(&device.stream, &mut bytes)?;
        Ok(bytes)
    };
    places.iter().map(read).collect()
}
