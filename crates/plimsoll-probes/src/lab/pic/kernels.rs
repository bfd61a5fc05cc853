//! Particles whose velocities a magnetic field rotates, by threads and by blocks of matrix products.

pub use super::Way;
use crate::prelude::kernels::*;

/// The source of these kernels.
pub static SOURCE: Source = Source::new("pic", include_str!("kernel.cu"), |_| kernels())
    .with_headers(&[("pic_blocks.h", include_str!("pic_blocks.h"))]);

/// Corners of a cell, each with a field in x, y, z.
pub const CORNERS: u32 = 8;
/// Cells of a block of threads: a warp each.
pub const CELLS: u32 = 4;
/// Numbers of a particle: its place in the cell and its velocity.
pub const NUMBERS: u64 = 6;

impl Way {
    /// Floating-point operations of a push for one particle, on the scalar and on the matrix units, counted in the source: a fused
    /// multiply-add is two, a quotient one.
    #[must_use]
    pub fn operations(self) -> [f64; 2] {
        const MOVE: f64 = 12.0;
        match self {
            // 15 for the weights, 24 multiply-adds to gather, two cross products added, t² and the quotient.
            Self::Fused => [MOVE + 15.0 + 2.0 * 24.0 + 2.0 * 15.0 + 7.0, 0.0],
            // Four threads do the same work for a particle: two weights, twice a weighted direction and a sum, t² and the quotient.
            // Four products of 16 × 8 by 16 serve 16 particles.
            Self::Matrix => [4.0 * (MOVE + 6.0 + 2.0 * (9.0 + 7.0) + 8.0), 4.0 * (2 * 16 * 8 * 16) as f64 / 16.0],
        }
    }
}

/// Pushes all particles.
#[must_use]
pub fn push(way: Way) -> KernelDesc {
    let (name, in_source, products) = match way {
        Way::Fused => ("pic_threads", "by_threads", None),
        Way::Matrix => ("pic_blocks", "by_blocks", Some(Issue { mnemonics: &["HMMA.16816.F32"], count: 4, chains: 1 })),
    };
    KernelDesc {
        entry: format!("PIC_PUSH({name}, {in_source})"),
        parameters: takes!(
            out: [fill 4; Times(24, &["count"])], at: [read 4; Times(24, &["count"])], corners: [read 4; PerBlock(384, &[])],
            count: U64 [Most(Product(&[Blocks, Is(CELLS as u64), Of("per_cell")]))], per_cell: U32, pushes: U32, h: F32,
        ),
        issues: products.into_iter().collect(),
        ..resident(1, &SOURCE, name, 32 * CELLS)
    }
}

/// Random places, velocities and fields.
#[must_use]
pub fn begin() -> KernelDesc {
    KernelDesc {
        entry: "PIC_BEGIN(pic_begin)".to_owned(),
        parameters: takes!(
            at: [fill 4; Times(24, &["count"])], corners: [fill 4; Times(4, &["fields"])],
            count: U64 [Most(Product(&[Blocks, Threads]))], fields: U64 [Most(Product(&[Blocks, Threads]))],
            size: F32, seed: U32,
        ),
        ..resident(1, &SOURCE, "pic_begin", 256)
    }
}

/// All kernels.
#[must_use]
pub fn kernels() -> Vec<KernelDesc> {
    Way::ALL.map(push).into_iter().chain([begin()]).collect()
}
