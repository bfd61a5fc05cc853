//! What the wave equations' begin and check kernels share: a block per row of the grid, and a count of wrong cells.

use crate::lab::fields::Shape;
use plimsoll_core::Fault;
use plimsoll_core::sample::Check;

use crate::cuda::kit::Kit;
use plimsoll_cuda::Action;
use plimsoll_cuda::launch::{Arguments, Form, Geometry};
use plimsoll_cuda::memory::DeviceBuffer;

/// Threads of a block that goes over a row.
const THREADS: u32 = 128;

/// How the fields lie, behind other arguments.
pub(crate) fn placed(list: Arguments, shape: &Shape) -> Arguments {
    let [nx, ny, nz] = shape.cells;
    list.u32(nx).u32(ny).u32(nz).u32(shape.pitch).u32(shape.rows)
}

/// Runs a kernel over all rows now.
///
/// # Errors
/// The driver's.
pub(crate) fn over_rows(
    kit: &Kit,
    kernel: &plimsoll_gpu::Kernel<plimsoll_cuda::Cuda>,
    shape: &Shape,
    list: Arguments,
) -> Result<(), Fault> {
    let [_, ny, nz] = shape.cells;
    let geometry = Geometry { grid: [ny, nz, 1], block: [THREADS, 1, 1], shared: 0 };
    kit.run(&[Action::Launch(kernel.launch(geometry, Form::default(), &list)?)])
}

/// Runs a kernel that counts wrong cells; `list` has its arrays, `result` is 16 bytes.
///
/// # Errors
/// The driver's.
pub(crate) fn check(
    kit: &Kit,
    kernel: &plimsoll_gpu::Kernel<plimsoll_cuda::Cuda>,
    result: &DeviceBuffer,
    shape: &Shape,
    list: Arguments,
) -> Result<Check, Fault> {
    let mut told = [0; 16];
    told[8..].fill(u8::MAX);
    result.upload(kit.stream(), &told)?;
    over_rows(kit, kernel, shape, placed(list, shape).buffer(result))?;
    result.download(kit.stream(), &mut told)?;
    let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| told[at + byte]));
    let wrong = || format!("{} of {} cells are wrong, the first at element {}", word(0), shape.volume(), word(8));
    Ok(if word(0) == 0 { Check::Passed } else { Check::Failed(wrong()) })
}

/// Whether two numbers are within `by`; what is no number is near none.
pub(crate) fn near(a: f64, b: f64, by: f64) -> bool {
    (a - b).abs() <= by
}
