//! How many blocks must fit on an SM at once. Fewer blocks leave more registers to each thread, so that it loads all its inputs before
//! it computes.

use plimsoll_expr::DType;

use super::tuning::{bytes_in_flight, refused};
use super::{Device, KernelSpec, PlanError};
use crate::elementwise::spec::{Dependent, Form, Inner, Stream};

/// Registers of an SM: compute capability 7.0 to 12.0 (CUDA C++ Programming Guide, table of compute capabilities).
const REGISTERS: u32 = 65_536;
/// Most registers of a thread that are asked for. More were never needed with one vector per input.
const MOST: u32 = 64;
/// With fewer than this, asking changes nothing: the compiler takes 32 for full SMs, and a spill to memory is near.
const LEAST: u32 = 40;
/// Most nodes of a graph. The values of larger ones may need more registers than [`MOST`].
const MOST_NODES: usize = 128;

/// Blocks that must fit on an SM at once, or 0 if that is left to the compiler.
///
/// If all blocks fit on the device at once, as many as there are per SM; a dependent launch leaves room for as many of its neighbour. If
/// they don't, the data in flight must keep memory busy: as many blocks as hold a quarter more than that. On an H200 three inputs of f16
/// with 1.5 MiB in all took 1.73 µs with 64 registers and 2.12 with 32. Two inputs of 162 MiB took 46.9 µs with 48 registers and 41.9
/// with 32: five blocks with 8 KiB in flight are too few. A sum of three inputs of 13 MiB, launched dependent, took 4.8 µs in two waves of
/// five blocks per SM and 4.1 in one.
///
/// By coordinates, registers gain more than room for the neighbour: a dependent launch of 4 MiB, four blocks per SM, took 2.89 µs with 32
/// registers and 2.48 with 64.
pub fn resident(spec: &KernelSpec, blocks: u64, device: &Device) -> u32 {
    if matches!(spec.form, Form::Bulk | Form::Transpose) || spec.graph.nodes().len() > MOST_NODES {
        return 0;
    }
    let inputs = spec.graph.inputs().len();
    let held = || {
        let held = |(place, (stream, bytes)): (usize, (&Stream, u32))| match stream {
            Stream::Unused | Stream::Uniform | Stream::Indexed { inner: Inner::Splat, .. } => 0,
            _ => spec.lanes * spec.vectors(place) * bytes,
        };
        let streams = spec.streams[..inputs].iter().zip(spec.element_bytes());
        streams.enumerate().map(held).filter(|bytes| *bytes > 0)
    };
    if held().count() as u32 * spec.unroll < 2 {
        return 0;
    }
    let per_block = held().sum::<u32>().saturating_mul(spec.threads).max(1);
    let neighbours: u32 = if matches!(spec.dependent, Dependent::No | Dependent::Exit) { 1 } else { 2 };
    let most = device.resident(spec.threads);
    let per_multiprocessor =
        blocks.div_ceil(u64::from(device.multiprocessors.max(1))).saturating_mul(neighbours.into());
    // Functions of f64 take up to 60 registers.
    let wide = spec.graph.nodes().iter().any(|node| node.dtype == DType::F64);
    let least = if wide { MOST } else { LEAST };
    let with_registers = |blocks: u32| {
        let resident = blocks.max(REGISTERS / MOST / spec.threads).clamp(1, most);
        (REGISTERS / (resident * spec.threads) >= least).then_some(resident)
    };
    let resident = match u32::try_from(per_multiprocessor) {
        Ok(all) if all <= most && spec.rank > 0 => with_registers(all).or_else(|| with_registers(all / neighbours)),
        Ok(all) if all <= most => with_registers(all),
        // Vectors by coordinates take registers of their own.
        _ if neighbours > 1 || spec.rank > 0 => None,
        _ => with_registers((bytes_in_flight(device) / 4 * 5).div_ceil(per_block)),
    };
    resident.unwrap_or(0)
}

/// A forced number of blocks, if that many fit on an SM. 0 leaves it to the compiler.
///
/// # Errors
/// For more blocks than an SM holds.
pub fn check_forced(resident: u32, threads: u32, device: &Device) -> Result<u32, PlanError> {
    let most = device.resident(threads);
    if resident > most {
        return Err(refused("resident", resident, &format!("an SM holds at most {most} blocks of {threads} threads")));
    }
    Ok(resident)
}

#[cfg(test)]
mod tests {
    use plimsoll_expr::{Names, parse};

    use super::*;
    use crate::Target;
    use crate::elementwise::{Choose, Indexing, Table, plan};

    const H200: Device = Device {
        target: Target::plain(90),
        multiprocessors: 132,
        threads_per_multiprocessor: 2048,
        l2_bytes: 60 << 20,
    };

    fn planned(text: &str, dtype: DType, elements: u64) -> u32 {
        planned_as(text, dtype, elements, false)
    }

    fn planned_as(text: &str, dtype: DType, elements: u64, dependent: bool) -> u32 {
        let graph = parse(text, &Names::with_default(dtype)).unwrap();
        let tensors = graph.inputs().len() + graph.outputs().len();
        let access = super::super::Access { strides: vec![1], phase: 0 };
        let indexing = Indexing { extents: vec![elements], accesses: vec![access; tensors] };
        let choose = Choose { vector: Some(16), unroll: Some(1), threads: Some(256), dependent, ..Choose::default() };
        plan(&graph, &indexing, &H200, &Table::default(), &choose).unwrap().spec.resident
    }

    #[test]
    fn small_launches_and_many_inputs_get_more_registers() {
        // 98 blocks of 2,048 elements: one per SM. Four of them have 64 registers per thread.
        assert_eq!(planned("x*y + z", DType::Bf16, 200_000), 4);
        // 611 blocks: five per SM.
        assert_eq!(planned("x*y", DType::Bf16, 1_250_000), 5);
        // A dependent launch leaves room for the next one: twice three blocks, but not twice five.
        assert_eq!([200_000, 540_000, 1_250_000].map(|n| planned_as("x*y + z", DType::Bf16, n, true)), [4, 6, 0]);
        // Many blocks: 60 KiB in flight are 7.5 blocks with two inputs of 4 KiB, which leaves 32 registers, and 5 with three.
        assert_eq!((planned("x*y", DType::Bf16, 1 << 26), planned("x*y + z", DType::Bf16, 1 << 26)), (0, 5));
    }

    #[test]
    fn dependent_launches_by_coordinates_load_all_inputs_at_once_even_without_room_for_the_next() {
        let graph = parse("x*b + y", &Names::with_default(DType::F32)).unwrap();
        let access = |strides: &[i64]| super::super::Access { strides: strides.to_vec(), phase: 0 };
        let resident = |rows: u64| {
            let accesses = vec![access(&[1025, 1]), access(&[0, 1]), access(&[1025, 1]), access(&[1025, 1])];
            let indexing = Indexing { extents: vec![rows, 1025], accesses };
            let choose = Choose { dependent: true, ..Choose::default() };
            let spec = plan(&graph, &indexing, &H200, &Table::default(), &choose).unwrap().spec;
            (spec.resident, spec.dependent)
        };
        // Three blocks per SM; with four and five, the next launch isn't let in early.
        let expected = [(6, Dependent::Tail), (4, Dependent::Exit), (5, Dependent::Exit)];
        assert_eq!([390, 520, 640].map(resident), expected);
    }

    #[test]
    fn one_load_has_nothing_to_wait_for_and_f64_keeps_its_registers() {
        assert_eq!(planned("exp(x)", DType::F32, 100_000), 0);
        assert_eq!((planned("x*y + z", DType::F64, 1 << 26), planned("x*y + z", DType::F64, 50_000)), (0, 4));
    }
}
