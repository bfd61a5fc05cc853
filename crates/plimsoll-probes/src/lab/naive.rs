//! Shared code of the wave equations' begin and check kernels: one block per grid row, and a count of wrong cells.

use plimsoll_core::Fault;
use plimsoll_core::sample::Check;
use plimsoll_gpu::kit::Kit;
use plimsoll_gpu::load::Action;
use plimsoll_gpu::{Arguments, Form, Geometry, Gpu, Kernel, Memory as _};

use crate::lab::fields::Shape;

/// Threads of a block, which processes one row.
const THREADS: u32 = 128;

/// Appends the memory layout of the fields to the arguments.
pub(crate) fn push_layout(list: Arguments, shape: &Shape) -> Arguments {
    let [nx, ny, nz] = shape.cells;
    list.u32(nx).u32(ny).u32(nz).u32(shape.pitch).u32(shape.rows)
}

/// Runs a kernel over all rows immediately.
///
/// # Errors
/// The driver's.
pub(crate) fn over_rows<G: Gpu>(kit: &Kit<G>, kernel: &Kernel<G>, shape: &Shape, list: Arguments) -> Result<(), Fault> {
    let [_, ny, nz] = shape.cells;
    let geometry = Geometry { grid: [ny, nz, 1], block: [THREADS, 1, 1], shared: 0 };
    kit.run(&[Action::Launch(kernel.launch(geometry, Form::default(), &list)?)])
}

/// Runs a kernel that counts wrong cells; `list` has its arrays, `result` is 16 bytes.
///
/// # Errors
/// The driver's.
pub(crate) fn check<G: Gpu>(
    kit: &Kit<G>,
    kernel: &Kernel<G>,
    result: &G::Buffer,
    shape: &Shape,
    list: Arguments,
) -> Result<Check, Fault> {
    let mut bytes = [0; 16];
    bytes[8..].fill(u8::MAX);
    G::upload(kit.stream(), result.whole(), &bytes)?;
    over_rows(kit, kernel, shape, push_layout(list, shape).buffer(result))?;
    G::download(kit.stream(), result.whole(), &mut bytes)?;
    let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]));
    let wrong = || format!("{} of {} cells are wrong, the first at element {}", word(0), shape.volume(), word(8));
    Ok(if word(0) == 0 { Check::Passed } else { Check::Failed(wrong()) })
}

/// Whether two numbers differ by at most `by`; a NaN is near nothing.
pub(crate) fn is_near(a: f64, b: f64, by: f64) -> bool {
    (a - b).abs() <= by
}
