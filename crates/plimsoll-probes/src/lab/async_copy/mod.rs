//! async-copy: the fastest way from global to shared memory. A few threads bring in tiles of 2 to 32 KiB by loads and stores, by
//! asynchronous copies of 4 to 16 bytes and by bulk copies, with one to four tiles in flight, from the L2 and from memory.

probe! {
    /// The fastest way from global to shared memory by tile size: registers, asynchronous copies, bulk copies.
    "async-copy" in LAB, seconds: [5.0, 20.0, 60.0], files: gpu kernels
}

use plimsoll_core::unit::ByteSize;

use crate::prelude::meaning::*;

/// Tiles that fit in the L2, and tiles that only memory holds.
pub const FROM_L2: &str = "from the L2";
/// See [`FROM_L2`].
pub const FROM_MEMORY: &str = "from memory";

/// The best stage count of every way and tile from the L2, measured again: samples that made a choice never report it.
pub const AFRESH: &str = "from the L2, best afresh";

labels! {
    /// A way from global to shared memory.
    pub enum Way {
        /// Loads and stores of 16 bytes.
        Registers = "load and store",
        /// Asynchronous copies of this many bytes through the L1.
        Through(bytes: u32) = "cp.async " bytes " B, through L1",
        /// Asynchronous copies of 16 bytes that bypass the L1.
        Past = "cp.async 16 B, past L1",
        /// One bulk copy for each tile.
        Bulk = "bulk copy",
    }
}

axes! {
    /// Tiles brought in by one way.
    pub struct Tiles {
        /// The way.
        way: Way,
        /// Bytes of a tile.
        tile: Bytes,
        /// Tiles that fit in the buffer at once.
        stages: Count,
    }
}

/// Bytes per cycle and SM by way, tile size and number of stages. An operation is one byte on one SM; the bandwidth is the whole
/// device's.
#[must_use]
pub fn tiles(case: &str) -> TypedSeries<Tiles> {
    let cache = if case == FROM_MEMORY { CachePolicy::Stream } else { CachePolicy::Hot };
    let metrics =
        vec![metric("bytes per cycle", Unit::BytePerCycle, Quantity::OperationsPerCycle), metrics::bandwidth()];
    let (x, y) = ("tile".to_owned(), "bytes per cycle".to_owned());
    let draw = Draw::Lines { x, y, by: Some("way".into()), log_x: true, log_y: false };
    TypedSeries::new(case, Figure::Throughput, cache, metrics, draw)
}

/// The best stage count of one way for one tile size.
struct Best<'s> {
    at: Tiles,
    rate: Estimate,
    row: &'s Row,
}

/// The best of each way for this tile size, in the order of the ways.
fn best_of_each(series: &Series, tile: Bytes) -> Vec<Best<'_>> {
    let mut all: Vec<Best<'_>> = Vec::new();
    for (at, row) in known_rows(series).filter(|(at, _): &(Tiles, &Row)| at.tile == tile) {
        let Some(rate) = series.estimate(row, "bytes per cycle") else { continue };
        match all.iter_mut().find(|best| best.at.way == at.way) {
            Some(best) if best.rate.value >= rate.value => {}
            Some(best) => *best = Best { at, rate, row },
            None => all.push(Best { at, rate, row }),
        }
    }
    all
}

/// The points with the best stage count of every way and tile size.
#[must_use]
pub fn chosen(series: &Series) -> Vec<Tiles> {
    let best = |tile| best_of_each(series, tile).into_iter().map(|best| best.at);
    sizes(series).into_iter().flat_map(best).collect()
}

/// The series from the L2: the repeated one if it exists.
fn from_l2(series: &[Series]) -> Option<&Series> {
    let case = |case: &str| series.iter().find(|series| series.spec.case == case && !series.rows.is_empty());
    case(AFRESH).or(case(FROM_L2))
}

/// Tile sizes, ascending.
fn sizes(series: &Series) -> Vec<Bytes> {
    let mut sizes: Vec<Bytes> = known_rows(series).map(|(at, _): (Tiles, &Row)| at.tile).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

fn fastest<'b, 's>(ways: &'b [Best<'s>]) -> Option<&'b Best<'s>> {
    ways.iter().reduce(|best, next| if next.rate.value > best.rate.value { next } else { best })
}

fn findings(_: &DeviceInfo, series: &[Series]) -> Vec<Finding> {
    let best_finding = |case: &str, series: &Series, tile: Bytes| {
        let ways = best_of_each(series, tile);
        let best = fastest(&ways)?;
        let describe =
            |way: &Best<'_>| format!("{} {:.1} B/cycle ({})", way.at.way, way.rate.value, stages(way.at.stages));
        let says = ways.iter().map(describe).collect::<Vec<_>>().join("; ");
        let name = format!("best of tiles of {}, {}", ByteSize(tile.0), case);
        Some(Finding { says, ..finding(name, Unit::BytePerCycle, best.row, best.rate) })
    };
    let memory = series.iter().find(|series| series.spec.case == FROM_MEMORY);
    let cases = [(FROM_L2, from_l2(series)), (FROM_MEMORY, memory)];
    let cases = cases.into_iter().filter_map(|(case, series)| Some((case, series?)));
    let all = cases
        .flat_map(|(case, series)| sizes(series).into_iter().filter_map(move |tile| best_finding(case, series, tile)));
    all.chain(advise(series)).collect()
}

fn stages(Count(stages): Count) -> String {
    if stages == 1 { "1 stage".to_owned() } else { format!("{stages} stages") }
}

/// The best way for the smallest and for the largest tiles from the L2, and what bulk copies gain or lose at both sizes.
fn advise(series: &[Series]) -> Option<Finding> {
    let series = from_l2(series)?;
    let sizes = sizes(series);
    let (small, large) = (*sizes.first()?, *sizes.last()?);
    let (at_small, at_large) = (best_of_each(series, small), best_of_each(series, large));
    let way = |ways: &[Best<'_>]| fastest(ways).map(|best| format!("{} with {}", best.at.way, stages(best.at.stages)));
    // Bulk copies over the best of the others.
    let bulk = |ways: &[Best<'_>]| {
        let bulk = ways.iter().find(|best| best.at.way == Way::Bulk)?;
        let others: Vec<f64> =
            ways.iter().filter(|best| best.at.way != Way::Bulk).map(|best| best.rate.value).collect();
        let most = others.into_iter().fold(0.0, f64::max);
        let other = ways.iter().find(|best| best.at.way != Way::Bulk && best.rate.value >= most)?;
        Some(ratio(bulk.rate, other.rate))
    };
    let plain = at_small.iter().find(|best| best.at.way == Way::Registers)?;
    let gain = ratio(fastest(&at_small)?.rate, plain.rate);
    let words = ["faster than any other", "as fast as the others", "slower than the best other"];
    let of_bulk = bulk(&at_small).zip(bulk(&at_large)).map(|(small, large)| {
        format!("; bulk copies are {} there and {} here", describe_ratio(small, words), describe_ratio(large, words))
    });
    let says = format!(
        "Bring tiles of {} by {} ({:.1} times loads and stores), tiles of {} by {}{}.",
        ByteSize(small.0),
        way(&at_small)?,
        gain.value,
        ByteSize(large.0),
        way(&at_large)?,
        of_bulk.unwrap_or_default()
    );
    let rows: Vec<&Row> = at_small.iter().chain(&at_large).map(|best| best.row).collect();
    Some(advice(says, Unit::One, bulk(&at_small).unwrap_or(gain), rows))
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::Traffic;
    use plimsoll_core::sample::Work;

    use plimsoll_suite::findings::synthetic::{CLOCK, point};

    /// Tiles that arrive at the given bytes per cycle.
    fn measured(rows: &[(Way, u64, u64, f64)]) -> Series {
        let row = |(way, tile, stages, rate): &(Way, u64, u64, f64)| {
            let operations = (1 << 20) as f64;
            let work = Work { traffic: Traffic::new(100 << 20, 0), operations, ..Work::default() };
            let at = Tiles { way: *way, tile: Bytes(*tile), stages: Count(*stages) };
            point(at.to_values(), operations / rate / CLOCK, work, &[])
        };
        Series::new(tiles(FROM_L2), rows.iter().map(row))
    }

    #[test]
    fn findings_name_the_best_way_and_stages_for_each_tile_size() {
        let rows = [
            (Way::Registers, 2048, 1, 4.0),
            (Way::Past, 2048, 1, 5.0),
            (Way::Past, 2048, 4, 16.0),
            (Way::Bulk, 2048, 4, 12.0),
            (Way::Registers, 32768, 1, 20.0),
            (Way::Past, 32768, 2, 30.0),
            (Way::Bulk, 32768, 3, 33.0),
        ];
        let found = findings(&DeviceInfo::default(), &[measured(&rows)]);
        assert_eq!(found[0].name, "best of tiles of 2 KiB, from the L2");
        assert!((found[0].value - 16.0).abs() < 1e-3);
        let says = "load and store 4.0 B/cycle (1 stage); cp.async 16 B, past L1 16.0 B/cycle (4 stages); \
                    bulk copy 12.0 B/cycle (4 stages)";
        assert_eq!(found[0].says, says);
        let advice = found.last().unwrap();
        let says = "Bring tiles of 2 KiB by cp.async 16 B, past L1 with 4 stages (4.0 times loads and stores), tiles of 32 KiB by \
                    bulk copy with 3 stages; bulk copies are 25 % slower than the best other there and 10 % faster than any \
                    other here.";
        assert_eq!(advice.says, says);
        assert!((advice.value - 0.75).abs() < 1e-3);
    }

    #[test]
    fn findings_use_the_repeated_measurement_of_the_best_stages() {
        let rows = [(Way::Past, 2048, 1, 5.0), (Way::Past, 2048, 4, 16.0), (Way::Registers, 2048, 1, 4.0)];
        let first = measured(&rows);
        let tiles = |way, stages| Tiles { way, tile: Bytes(2048), stages: Count(stages) };
        let expected = [tiles(Way::Past, 4), tiles(Way::Registers, 1)];
        assert_eq!(chosen(&first), expected);
        let mut afresh = measured(&[(Way::Past, 2048, 4, 15.0), (Way::Registers, 2048, 1, 4.0)]);
        afresh.spec.case = AFRESH.to_owned();
        let found = findings(&DeviceInfo::default(), &[first, afresh]);
        assert_eq!((found[0].name.as_str(), found.len()), ("best of tiles of 2 KiB, from the L2", 2));
        assert!((found[0].value - 15.0).abs() < 1e-3);
    }

    #[test]
    fn advice_works_without_bulk_copies() {
        let rows = [(Way::Registers, 2048, 1, 4.0), (Way::Past, 2048, 4, 16.0), (Way::Registers, 32768, 1, 20.0)];
        let found = findings(&DeviceInfo::default(), &[measured(&rows)]);
        let advice = found.last().unwrap();
        assert!(!advice.says.contains("bulk") && (advice.value - 4.0).abs() < 1e-3, "{}", advice.says);
        assert!(findings(&DeviceInfo::default(), &[]).is_empty());
    }
}
