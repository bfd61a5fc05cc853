//! One run of an expression over bytes of the host, by the kernel that would be timed: for whoever wants the results.

use plimsoll_core::Fault;
use plimsoll_cuda::elementwise::{Engine, Operand};
use plimsoll_cuda::memory::DeviceBuffer;
use plimsoll_cuda::wait;
use plimsoll_expr::{Graph, Layout, Value};
use plimsoll_gen::elementwise::{Choose, Table};

use super::Device;

/// The outputs' bytes for inputs of so many elements, each contiguous and little-endian. Outputs in place have their
/// input's bytes as well.
///
/// # Errors
/// [`Fault::Invalid`] for inputs that don't fit; [`Fault::Unavailable`] for a device that can't; the device's.
pub fn apply(
    device: &mut Device,
    graph: &Graph,
    (elements, inputs): (u64, &[Vec<u8>]),
    scalars: &[Value],
    table: Option<&Table>,
) -> Result<Vec<Vec<u8>>, Fault> {
    let invalid = |what: String| Fault::Invalid(what);
    let needs = |bytes: u64| elements.saturating_mul(bytes);
    for (input, given) in graph.inputs().iter().zip(inputs) {
        let (bytes, needed) = (given.len() as u64, needs(input.dtype.bytes()));
        if bytes != needed {
            return Err(invalid(format!("'{}' has {bytes} bytes, and {elements} elements are {needed}", input.name)));
        }
    }
    let Device::Cuda(bench) = device else {
        let hint = "Choose a GPU with --device cuda:0".to_owned();
        let why = "results are read back from GPUs alone".to_owned();
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
        Ok::<_, Fault>(Operand::of(array, dtype, layout.clone()))
    };
    let given = graph.inputs().iter().enumerate().map(|(place, input)| operand(place, input.dtype));
    let made = graph.outputs().iter().zip(&places).map(|(output, place)| operand(*place, output.dtype));
    let (given, made) = (given.collect::<Result<Vec<_>, _>>()?, made.collect::<Result<Vec<_>, _>>()?);
    let expression = engine.expression(graph)?;
    expression.bind(&given, &made, scalars, &Choose::default())?.enqueue(&device.stream)?;
    wait::stream(&device.stream)?;
    let read = |place: &usize| {
        let array = &memory[*place];
        let mut bytes = vec![0; usize::try_from(array.bytes()).unwrap_or(0)];
        array.download(&device.stream, &mut bytes)?;
        Ok(bytes)
    };
    places.iter().map(read).collect()
}
