//! Prepared launches: pipeline, push constants and groups.

use std::fmt;
use std::sync::Arc;

use plimsoll_core::Fault;
use plimsoll_gpu::{Form, Geometry, Setup};

use crate::core::{Core, never};
use crate::function::{Function, Pipeline};
use crate::memory::Region;

/// A prepared launch. It keeps its function and its memory alive.
#[derive(Clone)]
pub struct Launch(pub(crate) Arc<Prepared>);

/// The parts of a launch.
pub(crate) struct Prepared {
    pub(crate) function: Function,
    pub(crate) pipeline: Pipeline,
    pub(crate) groups: [u32; 3],
    pub(crate) constants: Vec<u8>,
    _regions: Vec<Arc<Region>>,
}

impl fmt::Debug for Launch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Launch").field("kernel", &self.0.function).field("groups", &self.0.groups).finish()
    }
}

impl Launch {
    pub(crate) fn core(&self) -> &Arc<Core> {
        self.0.function.core()
    }

    /// Checks the launch as far as this backend can, and builds the pipeline for this block size on first use.
    ///
    /// # Errors
    /// [`Fault::Invalid`] for arguments, memory or a geometry that the function doesn't take; [`Fault::Unavailable`] for forms that
    /// Vulkan has not.
    pub(crate) fn new(function: &Function, setup: Setup<'_>) -> Result<Self, Fault> {
        let Setup { geometry, form, arguments } = setup;
        check_form(form, geometry)?;
        let core = function.core();
        core.check("vkCmdDispatch")?;
        let groups = compute_groups(core, geometry)?;
        let wrong = |why: String| Fault::Invalid(format!("{}: {why}", function.name()));
        if let Some(threads) = function.threads().filter(|threads| *threads != geometry.block[0]) {
            return Err(wrong(format!("has blocks of {threads} threads, not {}", geometry.block[0])));
        }
        let offsets = function.offsets();
        if arguments.count() + 1 != offsets.len() {
            return Err(wrong(format!("takes {} arguments and was given {}", offsets.len() - 1, arguments.count())));
        }
        let mut constants = vec![0; function.constant_bytes()];
        let kinds = arguments.kinds().iter().zip(arguments.slots());
        for ((kind, slot), (offset, bytes)) in kinds.zip(offsets) {
            if kind.bytes() != *bytes {
                return Err(wrong(format!("an argument of {} bytes was given as {kind:?}", bytes)));
            }
            put(&mut constants, *offset, &slot[0].to_le_bytes()[..*bytes as usize]);
        }
        if let Some((offset, _)) = offsets.last() {
            put(&mut constants, *offset, &geometry.grid[0].to_le_bytes());
        }
        let spans = arguments.spans().filter(|span| span.bytes() > 0);
        let regions = spans.map(|span| Region::find(core, span)).collect::<Result<Vec<_>, Fault>>()?;
        let pipeline = function.pipeline(geometry.block[0])?;
        let function = function.clone();
        Ok(Self(Arc::new(Prepared { function, pipeline, groups, constants, _regions: regions })))
    }
}

/// Writes into push constants, if they are large enough: kernels without parameters have none.
fn put(constants: &mut [u8], offset: u64, bytes: &[u8]) {
    let target = usize::try_from(offset).ok().and_then(|from| constants.get_mut(from..from + bytes.len()));
    if let Some(target) = target {
        target.copy_from_slice(bytes);
    }
}

fn check_form(form: Form, geometry: Geometry) -> Result<(), Fault> {
    geometry.check()?;
    if form.dependent {
        return Err(dependent().into());
    }
    if form.cooperative {
        return Err(cooperative().into());
    }
    if form.cluster > 1 {
        return Err(clusters().into());
    }
    if geometry.shared > 0 {
        return Err(shared().into());
    }
    if geometry.grid[1..] != [1, 1] || geometry.block[1..] != [1, 1] {
        return Err(Fault::Invalid(format!("kernels for Vulkan are launched in one dimension, not {geometry:?}")));
    }
    Ok(())
}

/// The groups of a launch. Blocks beyond the device's limit in x continue in y; surplus groups exit at once.
fn compute_groups(core: &Core, geometry: Geometry) -> Result<[u32; 3], Fault> {
    let limits = &core.physical.facts.limits;
    let threads = geometry.block[0];
    if threads > limits.max_compute_work_group_invocations.min(limits.max_compute_work_group_size[0]) {
        return Err(Fault::Invalid(format!("blocks of {threads} threads are larger than this device allows")));
    }
    let [blocks, most, rows] =
        [geometry.grid[0], limits.max_compute_work_group_count[0], limits.max_compute_work_group_count[1]];
    split_rows(blocks, most.max(1), rows)
        .ok_or_else(|| Fault::Invalid(format!("{blocks} blocks are more than this device allows in a launch")))
}

/// Splits blocks into rows of at most `most`.
fn split_rows(blocks: u32, most: u32, rows: u32) -> Option<[u32; 3]> {
    let y = blocks.div_ceil(most);
    // The product must not overflow 32 bits: the last row is not full.
    let x = blocks.div_ceil(y.max(1));
    (y <= rows && x.checked_mul(y).is_some()).then_some([x, y, 1])
}

/// What this backend lacks, and why.
macro_rules! lacks {
    ($($function:ident: $what:literal, $why:literal;)+) => {$(
        pub(crate) fn $function() -> plimsoll_gpu::Unavailable {
            never($what, $why, "Use the CUDA backend on an NVIDIA GPU")
        }
    )+};
}

lacks! {
    dependent: "dependent launch", "in Vulkan, a kernel can't begin before the one before it has ended";
    cooperative: "cooperative launch", "Vulkan doesn't promise that all blocks are resident at once";
    clusters: "clusters of blocks", "Vulkan has none";
    second_stream: "a second stream", "this backend has one queue, whose work runs in order";
    host_memory: "memory of the host", "kernels of this backend use device memory only";
    shared: "dynamic shared memory", "kernels for Vulkan have a fixed amount";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_beyond_a_row_continue_in_the_next() {
        assert_eq!(split_rows(1, 65_535, 65_535), Some([1, 1, 1]));
        assert_eq!(split_rows(65_535, 65_535, 65_535), Some([65_535, 1, 1]));
        for blocks in [65_536, 65_537, 1 << 20, (1 << 31) - 1] {
            let [x, y, _] = split_rows(blocks, 65_535, 65_535).unwrap();
            assert!(x <= 65_535 && u64::from(x) * u64::from(y) >= u64::from(blocks) && x * y - blocks < y, "{blocks}");
        }
        assert_eq!(split_rows(65_536, 1, 65_535), None);
    }
}
