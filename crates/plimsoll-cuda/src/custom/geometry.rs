//! Checks the grid and block of a user's kernel before anything is launched: against what every device allows, and against what the
//! kernel is compiled for.

use plimsoll_core::Fault;
use plimsoll_core::text::shorten;
use plimsoll_gen::custom::{Occupied, Signature};

use crate::driver::{Attribute, Function};
use crate::launch::Geometry;

/// Most blocks of a grid and threads of a block, x y z, and threads of a block in all (CUDA C++ Programming Guide, 'Technical
/// Specifications per Compute Capability': the same for all since 5.0).
const GRID: [u32; 3] = [0x7fff_ffff, 65_535, 65_535];
const BLOCK: [u32; 3] = [1024, 1024, 64];
const THREADS: u64 = 1024;

fn invalid(why: String) -> Fault {
    Fault::Invalid(why)
}

/// The kernel's name for messages.
fn short_name(signature: &Signature) -> String {
    shorten(&signature.name, 60)
}

/// Threads or blocks in all.
fn product(sides: [u32; 3]) -> u64 {
    sides.iter().fold(1, |product: u64, side| product.saturating_mul((*side).into()))
}

/// `256x2x1`
fn format_sides([x, y, z]: [u32; 3]) -> String {
    format!("{x}x{y}x{z}")
}

/// Checks what needs no device.
///
/// # Errors
/// [`Fault::Invalid`] with the limit.
pub(super) fn check_stated(signature: &Signature, geometry: Geometry) -> Result<(), Fault> {
    let Geometry { grid, block, .. } = geometry;
    for (what, sides, most) in [("grid", grid, GRID), ("block", block, BLOCK)] {
        for ((name, side), most) in ["x", "y", "z"].into_iter().zip(sides).zip(most) {
            if side == 0 || side > most {
                return Err(invalid(format!("the {what} has {side} in {name}: it takes 1 to {most}")));
            }
        }
    }
    let (threads, name) = (product(block), short_name(signature));
    if threads > THREADS {
        return Err(invalid(format!(
            "a block of {} has {threads} threads, and at most {THREADS} are possible",
            format_sides(block)
        )));
    }
    if let Some(only) = signature.block.filter(|only| *only != block) {
        return Err(invalid(format!(
            "{name} is compiled for blocks of {}, not {}",
            format_sides(only),
            format_sides(block)
        )));
    }
    if let Some(most) = signature.most_threads.map(product).filter(|most| threads > *most) {
        let bounds = "its __launch_bounds__";
        return Err(invalid(format!("a block has {threads} threads, and {name} allows {most} by {bounds}")));
    }
    // With a fixed block the grid may count clusters instead of blocks.
    let divides = |cluster: &[u32; 3]| grid.iter().zip(cluster).all(|(blocks, side)| blocks.is_multiple_of(*side));
    if let Some(cluster) = signature.cluster.filter(|cluster| signature.block.is_none() && !divides(cluster)) {
        return Err(invalid(format!(
            "{name} is compiled for clusters of {} blocks, and a grid of {} isn't a multiple of that",
            format_sides(cluster),
            format_sides(grid)
        )));
    }
    Ok(())
}

/// Checks a geometry against the kernel as loaded on its device, allows it its shared memory, and returns what it occupies.
///
/// # Errors
/// [`Fault::Invalid`] with the limit.
pub(super) fn check_loaded(function: &Function, signature: &Signature, geometry: Geometry) -> Result<Occupied, Fault> {
    check_stated(signature, geometry)?;
    let Geometry { grid, block, shared } = geometry;
    let name = short_name(signature);
    let threads = u32::try_from(product(block)).unwrap_or(u32::MAX);
    let most = function.max_threads()?;
    if threads > most {
        let registers = function.registers()?;
        return Err(invalid(format!(
            "a block has {threads} threads, and {name} runs at most {most} on this device, with {registers} registers per thread"
        )));
    }
    let device = function.context().device();
    let limit = u64::try_from(device.attribute(Attribute::SharedPerBlock)?).unwrap_or(0);
    let static_shared = function.shared_bytes()?;
    let needed = u64::from(static_shared) + u64::from(shared);
    if needed > limit {
        return Err(invalid(format!(
            "a block needs {needed} bytes of shared memory, {static_shared} of them static, and this device has {limit} per block"
        )));
    }
    if shared > 0 {
        function.allow_shared(shared)?;
    }
    let resident = function.blocks_per_multiprocessor(threads, shared)?;
    if resident == 0 {
        return Err(invalid(format!("not even one block of {threads} threads of {name} fits on an SM")));
    }
    Ok(Occupied { blocks: product(grid), threads, resident, static_shared })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(signature: &Signature, grid: [u32; 3], block: [u32; 3]) -> String {
        check_stated(signature, Geometry { grid, block, shared: 0 }).unwrap_err().to_string()
    }

    #[test]
    fn grids_and_blocks_beyond_any_device_or_the_kernels_bounds_are_refused() {
        let plain = Signature { name: "scale".to_owned(), ..Signature::default() };
        let fits =
            |signature: &Signature, grid, block| check_stated(signature, Geometry { grid, block, shared: 0 }).is_ok();
        assert!(fits(&plain, [u32::MAX >> 1, 65_535, 65_535], [1, 16, 64]));
        for (grid, block, why) in [
            ([0, 1, 1], [32, 1, 1], "the grid has 0 in x: it takes 1 to 2147483647"),
            ([1, 65_536, 1], [32, 1, 1], "the grid has 65536 in y"),
            ([1, 1, 1], [32, 0, 1], "the block has 0 in y"),
            ([1, 1, 1], [1, 1, 65], "the block has 65 in z: it takes 1 to 64"),
            ([1, 1, 1], [1024, 2, 1], "a block of 1024x2x1 has 2048 threads"),
        ] {
            let message = refused(&plain, grid, block);
            assert!(message.contains(why), "{message}");
        }
        let bounded = Signature { most_threads: Some([256, 1, 1]), ..plain.clone() };
        assert!(fits(&bounded, [1; 3], [16, 16, 1]));
        assert!(refused(&bounded, [1; 3], [257, 1, 1]).contains("scale allows 256 by its __launch_bounds__"));
        let fixed = Signature { block: Some([64, 2, 1]), ..plain.clone() };
        assert!(fits(&fixed, [1; 3], [64, 2, 1]));
        assert!(refused(&fixed, [1; 3], [128, 1, 1]).contains("compiled for blocks of 64x2x1, not 128x1x1"));
        let clustered = Signature { cluster: Some([2, 1, 1]), ..plain };
        assert!(fits(&clustered, [4, 1, 1], [32, 1, 1]));
        assert!(refused(&clustered, [3, 1, 1], [32, 1, 1]).contains("clusters of 2x1x1 blocks"));
    }
}
