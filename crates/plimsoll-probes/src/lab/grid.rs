//! Grid sizes of the wave equations: enough columns to fill the device with whole waves of blocks, and as many planes as the
//! effort or the user requests.

use crate::lab::fields::{Margin, Shape};
use plimsoll_core::Fault;
use plimsoll_core::sample::Effort;
use plimsoll_core::unit::ByteSize;

/// Cells in x.
const NX: u32 = 512;
/// Fewest planes: a difference spans nine or seventeen.
const LEAST: u32 = 16;
/// Share of the free memory that may be used.
const SHARE: f64 = 0.9;

/// A kernel's requirements on its grid.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    /// The margin around its fields.
    pub(crate) margin: Margin,
    /// Threads of a block in x and y.
    pub(crate) block: [u32; 2],
    /// Blocks resident on the device at once.
    pub(crate) resident: u32,
    /// Fewest cells in y: waves of blocks are added until there are as many.
    pub(crate) fewest: u32,
    /// Planes at quick, standard and thorough.
    pub(crate) planes: [u64; 3],
    /// Number of field-sized arrays.
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

    /// Planes for an effort, or as many as fit in `bytes` per field.
    fn planes(&self, effort: Effort, bytes: Option<u64>) -> u64 {
        let [nx, ny] = self.plane().map(u64::from);
        let usual = match effort {
            Effort::Thorough => self.planes[2],
            Effort::Standard => self.planes[1],
            _ => self.planes[0],
        };
        bytes.map_or(usual, |bytes| bytes / (4 * nx * ny))
    }
}

/// The grid, if all its arrays fit into `free` bytes.
///
/// # Errors
/// [`Fault::Invalid`] if they don't, naming a size that does, or if the user requested too little or too much.
pub(crate) fn grid(wanted: &Wanted, effort: Effort, bytes: Option<u64>, free: u64) -> Result<Shape, Fault> {
    let ([nx, ny], arrays) = (wanted.plane(), wanted.arrays);
    let shape = |nz: u64| Shape::new([nx, ny, u32::try_from(nz).ok()?], wanted.margin);
    let field = |nz: u64| 4 * u64::from(nx) * u64::from(ny) * nz;
    let nz = wanted.planes(effort, bytes);
    if nz < u64::from(LEAST) {
        let (asked, least) = (ByteSize(bytes.unwrap_or(0)), ByteSize(field(LEAST.into())));
        return Err(Fault::Invalid(format!(
            "{asked} is less than {LEAST} planes of {nx} x {ny} cells; request at least {least}"
        )));
    }
    let fits = |nz: &u64| shape(*nz).is_some_and(|shape| (arrays * shape.bytes()) as f64 <= SHARE * free as f64);
    if let Some(shape) = shape(nz).filter(|_| fits(&nz)) {
        return Ok(shape);
    }
    let most = (1..=nz.min(1 << 16) / 16).map(|sixteenth| 16 * sixteenth).take_while(fits).last();
    let way_out = most.map_or("use a device with more memory".to_owned(), |most| {
        format!("use --bytes {} ({most} planes)", field(most))
    });
    let why = format!(
        "a grid of {nx} x {ny} x {nz} cells in {arrays} arrays doesn't fit in {} of free memory: {way_out}",
        ByteSize(free)
    );
    Err(Fault::Invalid(why))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::rtm::kernels::MARGIN;

    fn wanted(resident: u32) -> Wanted {
        Wanted { margin: MARGIN, block: [32, 32], resident, fewest: 416, planes: [128, 512, 768], arrays: 7 }
    }

    #[test]
    fn the_columns_fill_the_device_and_the_planes_follow_the_effort() {
        // Blocks of 1024 threads on an H200, an A100 and an L4.
        assert_eq!([264, 216, 58].map(|resident| wanted(resident).plane()[1]), [512, 416, 448]);
        let standard = grid(&wanted(264), Effort::Standard, None, 140 << 30).unwrap();
        assert_eq!(standard.cells, [512, 512, 512]);
        assert_eq!(grid(&wanted(264), Effort::Quick, Some(64 << 20), 1 << 30).unwrap().cells[2], 64);
    }

    #[test]
    fn refusal_of_a_grid_that_does_not_fit_names_one_that_does() {
        let build = |effort, bytes, free| grid(&wanted(264), effort, bytes, free);
        let why = build(Effort::Standard, None, 1 << 30).unwrap_err().to_string();
        let bytes: u64 = why.split("--bytes ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
        assert!(build(Effort::Standard, Some(bytes), 1 << 30).is_ok(), "{why}");
        assert!(build(Effort::Standard, Some(bytes + (16 << 20)), 1 << 30).is_err(), "{why}");
        assert!(build(Effort::Quick, Some(1), 1 << 30).unwrap_err().to_string().contains("at least 16"));
        assert!(build(Effort::Quick, Some(u64::MAX), 1 << 30).is_err());
        assert!(build(Effort::Quick, None, 1 << 20).unwrap_err().to_string().contains("more memory"));
    }
}
