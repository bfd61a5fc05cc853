//! A pseudo-acoustic wave in a tilted transversely isotropic medium, 16th order in space, one block per SM.

use plimsoll_gen::kernel::Data;

use crate::lab::fields::Margin;
use crate::lab::fields::over_rows;
use crate::prelude::kernels::*;

/// The source of these kernels.
pub static SOURCE: Source = Source::new("tti", include_str!("kernel.cu"), kernels)
    .with_headers(&[("tti_block.h", include_str!("tti_block.h")), ("tti_check.h", include_str!("tti_check.h"))])
    .with_data(Data::Any);

/// Cells that a difference reaches to each side.
pub const RADIUS: u32 = 8;
/// The margin around a field: one more plane before it, since the first plane's halo begins above its first row.
pub const MARGIN: Margin = Margin { radius: RADIUS, before: RADIUS + 1, block: [32, 48] };
/// Planes of each field in shared memory: one more than a derivative needs.
const SLOTS: u32 = 2 * RADIUS + 2;

/// How planes get into shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Loads {
    /// Through registers, when they are needed.
    Direct,
    /// `cp.async`, a plane ahead.
    Async,
    /// `cp.async.bulk` of rows, a plane ahead (compute capability 9.0).
    Bulk,
    /// No copies: shared memory holds zeros, and a step changes the sign of the previous field. The speed if copies were free.
    None,
}

impl Loads {
    /// Every way.
    pub const ALL: [Self; 4] = [Self::Direct, Self::Async, Self::Bulk, Self::None];

    /// Its name in kernel names, and in capitals in the source.
    fn short(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Async => "async",
            Self::Bulk => "bulk",
            Self::None => "none",
        }
    }

    /// Whether a target supports it.
    #[must_use]
    pub fn is_supported_by(self, target: Target) -> bool {
        self != Self::Bulk || target.capability >= 90
    }
}

/// Block sizes; each thread has one cell of a plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Tile {
    /// 32 × 12, the 384 threads of the talk: for 227 KiB of shared memory.
    Large,
    /// 16 × 16: for 163 KiB.
    Small,
}

impl Tile {
    /// Largest first.
    pub const ALL: [Self; 2] = [Self::Large, Self::Small];

    /// Threads in x and y.
    #[must_use]
    pub fn threads(self) -> [u32; 2] {
        match self {
            Self::Large => [32, 12],
            Self::Small => [16, 16],
        }
    }

    /// Dynamic shared memory of a block, bytes: the ring of planes, the first derivatives in y and in z, and a barrier.
    #[must_use]
    pub fn shared(self) -> u32 {
        let [x, y] = self.threads();
        let width = x + 2 * RADIUS;
        let plane = width * (y + 2 * RADIUS);
        4 * (SLOTS * 2 * plane + 2 * width * y + 2 * plane) + 16
    }

    /// Blocks in x and y that cover a grid.
    #[must_use]
    pub fn grid(self, cells: [u32; 3]) -> [u32; 3] {
        let [x, y] = self.threads();
        [cells[0].div_ceil(x), cells[1].div_ceil(y), 1]
    }
}

crate::lab::fields::field_amounts!(MARGIN);

/// Bytes read per cell and step: both current and previous fields, the speed, and two words of the medium.
pub const BYTES_READ: u64 = 28;
/// Bytes written per cell: both new fields.
pub const BYTES_WRITTEN: u64 = 8;

/// One time step.
#[must_use]
pub fn step(loads: Loads, tile: Tile) -> KernelDesc {
    let [x, y] = tile.threads();
    let short = loads.short();
    let name = format!("tti_{short}_{x}x{y}");
    macro_rules! step {
        ($x:literal, $y:literal) => {
            takes!(
                p_field: [update 4; Bytes(CELLS)], q_field: [update 4; Bytes(CELLS)], p: [read 16; Bytes(CELLS)],
                q: [read 16; Bytes(CELLS)], v: [read 4; Bytes(CELLS)], thomsen: [read 4; Bytes(CELLS)],
                axis: [read 4; Bytes(CELLS)], nx: U32, ny: U32, nz: U32 [Least(Is(1)), Most(PLANES)],
                pitch: U32 [Multiple(Is(4)), Least(Sum(&[Product(&[Grid(0), Is($x)]), Is(RADIUS as u64)]))],
                rows: U32 [Least(Sum(&[Product(&[Grid(1), Is($y)]), Is(RADIUS as u64)]))],
            )
        };
    }
    KernelDesc {
        entry: format!("TTI_STEP({name}, {}, {x}, {y})", short.to_ascii_uppercase()),
        parameters: match tile {
            Tile::Large => step!(32, 12),
            Tile::Small => step!(16, 16),
        },
        ..resident(1, &SOURCE, name, x * y)
    }
}

/// The initial state: a round bump at rest, and a medium with a tilted axis.
#[must_use]
pub fn begin() -> KernelDesc {
    let parameters = takes!(
        p_field: [write 4; Bytes(CELLS)], q_field: [write 4; Bytes(CELLS)], p: [write 4; Bytes(CELLS)],
        q: [write 4; Bytes(CELLS)], v: [write 4; Bytes(CELLS)], thomsen: [write 4; Bytes(CELLS)],
        axis: [write 4; Bytes(CELLS)], nx: U32, ny: U32 [Least(Is(1))], nz: U32 [Least(Grid(1)), Most(PLANES)],
        pitch: U32 [Least(Of("nx"))], rows: U32 [Least(Grid(0))], radius: F32,
    );
    over_rows(&SOURCE, "tti_begin", "TTI_BEGIN(tti_begin)", parameters)
}

/// Counts the wrong cells of a step.
#[must_use]
pub fn check() -> KernelDesc {
    let parameters = takes!(
        p_after: [read 4; Bytes(CELLS)], q_after: [read 4; Bytes(CELLS)], p_before: [read 4; Bytes(CELLS)],
        q_before: [read 4; Bytes(CELLS)], p: [read 4; Bytes(CELLS)], q: [read 4; Bytes(CELLS)], v: [read 4; Bytes(CELLS)],
        thomsen: [read 4; Bytes(CELLS)], axis: [read 4; Bytes(CELLS)], nx: U32, ny: U32,
        nz: U32 [Least(Grid(1)), Most(PLANES)], pitch: U32 [Least(Sum(&[Of("nx"), Is(RADIUS as u64)]))],
        rows: U32 [Least(Sum(&[Grid(0), Is(RADIUS as u64)]))], result: [update 8; Times(16, &[])],
    );
    over_rows(&SOURCE, "tti_check", "TTI_CHECK(tti_check)", parameters)
}

/// All kernels that this target supports, with tiles that fit in the shared memory of any of its devices.
#[must_use]
pub fn kernels(target: Target) -> Vec<KernelDesc> {
    let ways = || Loads::ALL.into_iter().filter(move |loads| loads.is_supported_by(target));
    let steps = Tile::ALL.into_iter().flat_map(|tile| ways().map(move |loads| step(loads, tile)));
    steps.chain([begin(), check()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_fit_in_their_shared_memory() {
        // CUDA C++ Programming Guide, 'Technical Specifications per Compute Capability'.
        assert!(Tile::Large.shared() <= 227 << 10 && 2 * Tile::Large.shared() > 228 << 10);
        assert!(Tile::Small.shared() <= 163 << 10 && 2 * Tile::Small.shared() > 228 << 10);
        assert_eq!(Tile::Large.threads().iter().product::<u32>(), 384);
    }

    #[test]
    fn bulk_copies_need_a_supporting_device() {
        assert_eq!(kernels(Target::plain(80)).len(), 8);
        assert_eq!(kernels(Target::plain(90)).len(), 10);
    }
}
