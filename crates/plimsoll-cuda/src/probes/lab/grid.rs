//! How large a grid of `rtm` is: as many columns as the device works at once, so that no wave of blocks is left half empty,
//! and as many planes as the effort or the user asks for.

use plimsoll_core::Fault;
use plimsoll_core::sample::Effort;
use plimsoll_core::unit::ByteSize;
use plimsoll_gen::kernel::Machine;
use plimsoll_gen::kernel::lab::rtm::Shape;

/// Cells in x.
const NX: u32 = 512;
/// Threads of a block.
const THREADS: u32 = 1024;
/// Rows and columns of a square block.
const SIDE: u32 = 32;
/// Fewest square blocks in y that waves are added for: 416 cells.
const FEWEST: u32 = 13;
/// Fewest planes: the difference reaches over nine.
const LEAST: u32 = 16;
/// Share of the free memory that may be used.
const SHARE: f64 = 0.9;

/// Cells in x and y.
pub(super) fn plane(machine: Machine) -> [u32; 2] {
    let resident = machine.multiprocessors.max(1) * (machine.threads_per_multiprocessor / THREADS).max(1);
    let in_x = NX / SIDE;
    let in_y = (1..).map(|waves| waves * resident / in_x).find(|in_y| *in_y >= FEWEST).unwrap_or(FEWEST);
    [NX, SIDE * in_y]
}

/// Planes of an effort, or as many as `bytes` of a field hold.
fn planes(effort: Effort, bytes: Option<u64>, plane: [u32; 2]) -> u64 {
    match (bytes, effort) {
        (Some(bytes), _) => bytes / (4 * u64::from(plane[0]) * u64::from(plane[1])),
        (None, Effort::Thorough) => 768,
        (None, Effort::Standard) => 512,
        (None, _) => 128,
    }
}

/// The grid, where `arrays` fields of it fit into `free` bytes.
///
/// # Errors
/// [`Fault::Invalid`] where they don't, with a size that would; where the user asked for too little or too much.
pub(super) fn grid(
    machine: Machine,
    effort: Effort,
    bytes: Option<u64>,
    (arrays, free): (u64, u64),
) -> Result<Shape, Fault> {
    let plane = plane(machine);
    let [nx, ny] = plane;
    let shape = |nz: u64| Shape::new([nx, ny, u32::try_from(nz).ok()?]);
    let field = |nz: u64| 4 * u64::from(nx) * u64::from(ny) * nz;
    let nz = planes(effort, bytes, plane);
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

    const H200: Machine = Machine { multiprocessors: 132, threads_per_multiprocessor: 2048 };

    #[test]
    fn the_columns_fill_the_device_and_the_planes_follow_the_effort() {
        assert_eq!(plane(H200), [512, 512]);
        assert_eq!(plane(Machine { multiprocessors: 108, ..H200 }), [512, 416]);
        assert_eq!(plane(Machine { multiprocessors: 58, threads_per_multiprocessor: 1536 }), [512, 448]);
        let standard = grid(H200, Effort::Standard, None, (7, 140 << 30)).unwrap();
        assert_eq!(standard.cells, [512, 512, 512]);
        assert_eq!(grid(H200, Effort::Quick, Some(64 << 20), (7, 1 << 30)).unwrap().cells[2], 64);
    }

    #[test]
    fn grids_that_do_not_fit_are_refused_with_one_that_does() {
        let why = grid(H200, Effort::Standard, None, (7, 1 << 30)).unwrap_err().to_string();
        let bytes: u64 = why.split("--bytes ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
        assert!(grid(H200, Effort::Standard, Some(bytes), (7, 1 << 30)).is_ok(), "{why}");
        assert!(grid(H200, Effort::Standard, Some(bytes + (16 << 20)), (7, 1 << 30)).is_err(), "{why}");
        assert!(grid(H200, Effort::Quick, Some(1), (7, 1 << 30)).unwrap_err().to_string().contains("at least 16"));
        assert!(grid(H200, Effort::Quick, Some(u64::MAX), (7, 1 << 30)).is_err());
        assert!(grid(H200, Effort::Quick, None, (7, 1 << 20)).unwrap_err().to_string().contains("more memory"));
    }
}
