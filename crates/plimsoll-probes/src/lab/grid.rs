//! How large a grid of a wave equation is: as many columns as the device works at once, so that no wave of blocks is left half
//! empty, and as many planes as the effort or the user asks for.

use crate::lab::fields::{Margin, Shape};
use plimsoll_core::Fault;
use plimsoll_core::sample::Effort;
use plimsoll_core::unit::ByteSize;

/// Cells in x.
const NX: u32 = 512;
/// Fewest planes: a difference reaches over nine or seventeen.
const LEAST: u32 = 16;
/// Share of the free memory that may be used.
const SHARE: f64 = 0.9;

/// What a kernel asks of its grid.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    /// What lies around its fields.
    pub(crate) margin: Margin,
    /// Threads of a block in x and y.
    pub(crate) block: [u32; 2],
    /// Blocks that the device holds at once.
    pub(crate) resident: u32,
    /// Fewest cells in y: waves of blocks are added until there are as many.
    pub(crate) fewest: u32,
    /// Planes at quick, standard and thorough.
    pub(crate) planes: [u64; 3],
    /// Arrays of the size of a field.
    pub(crate) arrays: u64,
}

impl Wanted {
    /// Cells in x and y.
    fn plane(&self) -> [u32; 2] {
        let [x, y] = self.block;
        let in_x = NX / x;
        let in_y = (1..).map(|waves| waves * self.resident.max(1) / in_x).find(|in_y| *in_y * y >= self.fewest);
        [NX, in_y.unwrap_or(1) * y]
    }

    /// Planes of an effort, or as many as `bytes` of a field hold.
    fn planes(&self, effort: Effort, bytes: Option<u64>) -> u64 {
        let [nx, ny] = self.plane().map(u64::from);
        let of_effort = match effort {
            Effort::Thorough => self.planes[2],
            Effort::Standard => self.planes[1],
            _ => self.planes[0],
        };
        bytes.map_or(of_effort, |bytes| bytes / (4 * nx * ny))
    }
}

/// The grid, where all its arrays fit into `free` bytes.
///
/// # Errors
/// [`Fault::Invalid`] where they don't, with a size that would; where the user asked for too little or too much.
pub(crate) fn grid(wanted: &Wanted, effort: Effort, bytes: Option<u64>, free: u64) -> Result<Shape, Fault> {
    let ([nx, ny], arrays) = (wanted.plane(), wanted.arrays);
    let shape = |nz: u64| Shape::new([nx, ny, u32::try_from(nz).ok()?], wanted.margin);
    let field = |nz: u64| 4 * u64::from(nx) * u64::from(ny) * nz;
    let nz = wanted.planes(effort, bytes);
    if nz < u64::from(LEAST) {
        let (asked, least) = (ByteSize(bytes.unwrap_or(0)), ByteSize(field(LEAST.into())));
        return Err(Fault::Invalid(format!(
            "{asked} are less than {LEAST} planes of {nx} x {ny} cells; ask for at least {least}"
        )));
    }
    let fits = |nz: &u64| shape(*nz).is_some_and(|shape| (arrays * shape.bytes()) as f64 <= SHARE * free as f64);
    if let Some(shape) = shape(nz).filter(|_| fits(&nz)) {
        return Ok(shape);
    }
    let most = (1..=nz.min(1 << 16) / 16).map(|sixteenth| 16 * sixteenth).take_while(fits).last();
    let way_out = most.map_or("use a device with more memory".to_owned(), |most| {
        format!("--bytes {} ({most} planes) would do", field(most))
    });
    let why = format!(
        "a grid of {nx} x {ny} x {nz} cells in {arrays} arrays doesn't fit where {} are free: {way_out}",
        ByteSize(free)
    );
    Err(Fault::Invalid(why))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::rtm::kernels::MARGIN;

    fn on(resident: u32) -> Wanted {
        Wanted { margin: MARGIN, block: [32, 32], resident, fewest: 416, planes: [128, 512, 768], arrays: 7 }
    }

    #[test]
    fn the_columns_fill_the_device_and_the_planes_follow_the_effort() {
        // Blocks of 1024 threads on an H200, an A100 and an L4.
        assert_eq!([264, 216, 58].map(|resident| on(resident).plane()[1]), [512, 416, 448]);
        let standard = grid(&on(264), Effort::Standard, None, 140 << 30).unwrap();
        assert_eq!(standard.cells, [512, 512, 512]);
        assert_eq!(grid(&on(264), Effort::Quick, Some(64 << 20), 1 << 30).unwrap().cells[2], 64);
    }

    #[test]
    fn grids_that_do_not_fit_are_refused_with_one_that_does() {
        let of = |effort, bytes, free| grid(&on(264), effort, bytes, free);
        let why = of(Effort::Standard, None, 1 << 30).unwrap_err().to_string();
        let bytes: u64 = why.split("--bytes ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
        assert!(of(Effort::Standard, Some(bytes), 1 << 30).is_ok(), "{why}");
        assert!(of(Effort::Standard, Some(bytes + (16 << 20)), 1 << 30).is_err(), "{why}");
        assert!(of(Effort::Quick, Some(1), 1 << 30).unwrap_err().to_string().contains("at least 16"));
        assert!(of(Effort::Quick, Some(u64::MAX), 1 << 30).is_err());
        assert!(of(Effort::Quick, None, 1 << 20).unwrap_err().to_string().contains("more memory"));
    }
}
