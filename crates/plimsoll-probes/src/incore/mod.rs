//! incore: latency and throughput of single instructions, by the number of independent dependency chains (ILP) on one core. At ILP
//! 1 the cycles per operation are the latency; where more chains no longer help, they are the reciprocal throughput.
//!
//! On a GPU, whose SM chooses among many warps, also by the number of warps: an operation is then one instruction of one warp.

probe! {
    /// Latency and throughput of single instructions, in the cycles of a core or a multiprocessor.
    "incore" in "arithmetic", seconds: [7.0, 60.0, 180.0], files: cpu gpu kernels
}

#[cfg(feature = "gpu")]
mod oracle;

use plimsoll_suite::machines::cpus::{MICROARCHITECTURES, Microarchitecture};

use crate::prelude::meaning::*;

axes! {
    /// Chains of an instruction on one core.
    pub struct Chains {
        /// Operation, type and width: `FMA f64 512`.
        instruction: Name,
        /// How many chains.
        ilp: Count,
    }

    /// Chains of an instruction on one SM.
    pub struct ChainsOfWarps {
        /// Operation and type: `FMA f32`.
        instruction: Name,
        /// Chains of each thread.
        ilp: Count,
        /// Warps that run these chains.
        warps: Count,
    }
}

/// Cycles per instruction over the number of independent chains.
#[must_use]
pub fn operations() -> TypedSeries<Chains> {
    let draw = Draw::lines("ilp", "cycles").grouped_by("instruction").log_y();
    spec("operations", draw)
}

/// Each instruction at its fastest number of chains, measured again: its reciprocal throughput.
#[must_use]
pub fn best() -> TypedSeries<Chains> {
    spec("best", Draw::Table)
}

/// On an SM: each instruction in one chain of one warp, and in some chains of all warps.
#[must_use]
pub fn instructions() -> TypedSeries<ChainsOfWarps> {
    spec("instructions", Draw::Table)
}

/// On an SM: each instruction at its fastest number of chains, measured again.
#[must_use]
pub fn saturated() -> TypedSeries<ChainsOfWarps> {
    spec("saturated", Draw::bars("instruction", "rate"))
}

/// On an SM: an instruction of each pipe over chains and warps.
#[must_use]
pub fn grid() -> TypedSeries<ChainsOfWarps> {
    spec("chains and warps", Draw::heat("warps", "ilp", "rate"))
}

fn spec<A: Axes>(case: &str, draw: Draw) -> TypedSeries<A> {
    let metrics = vec![metrics::cycles_per_operation(), metric("rate", Unit::OpPerCycle, Quantity::OperationsPerCycle)];
    TypedSeries::hot(case, metrics, draw)
}

fn findings(device: &DeviceInfo, series: &[Series]) -> Vec<Finding> {
    let case = |name: &str| series.iter().find(|series| series.spec.case == name);
    let known = MICROARCHITECTURES.iter().find(|core| Some(core.name) == device.architecture.as_deref());
    let mut findings = Vec::new();
    for (name, row, cycles) in case("operations").into_iter().flat_map(|series| rows(series, |ilp| ilp == Count(1))) {
        let published =
            known.and_then(|core| Some(published_figure(core, core.figure_by_name(name.as_str())?.latency?)));
        findings.push(Finding { published, ..finding(format!("latency {name}"), Unit::Cycle, row, cycles) });
    }
    for (name, row, cycles) in case("best").into_iter().flat_map(|series| rows(series, |_| true)) {
        let cycles_of = |core: &Microarchitecture| core.figure_by_name(name.as_str())?.reciprocal_throughput;
        let published = known.and_then(|core| cycles_of(core).map(|cycles| published_figure(core, [cycles, cycles])));
        findings.push(Finding {
            published,
            ..finding(format!("reciprocal throughput {name}"), Unit::CyclePerOp, row, cycles)
        });
    }
    findings.extend(case("instructions").into_iter().flat_map(latencies));
    findings.extend(case("saturated").into_iter().flat_map(|series| rates(device, series)));
    findings
}

/// Lanes of a warp.
const WARP: f64 = 32.0;

/// One chain of one warp: its cycles per instruction are the latency.
fn latencies(series: &Series) -> impl Iterator<Item = Finding> {
    let is_alone = |(at, _): &(ChainsOfWarps, &Row)| at.ilp == Count(1) && at.warps == Count(1);
    known_rows(series).filter(is_alone).filter_map(|(at, row)| {
        let name = format!("latency {}", at.instruction);
        Some(finding(name, Unit::Cycle, row, series.estimate(row, "cycles")?))
    })
}

/// Instructions of a warp per cycle and SM, with the published rate.
fn rates(device: &DeviceInfo, series: &Series) -> Vec<Finding> {
    let rate = |(at, row): (ChainsOfWarps, &Row)| {
        let name = at.instruction;
        let rate = series.estimate(row, "rate")?;
        let published = published_results(device, name.as_str()).map(|results| Published {
            range: Interval { lo: results / WARP, hi: results / WARP },
            source: RESULTS_SOURCE.to_owned(),
        });
        let (chains, warps) = (at.ilp.0, at.warps.0);
        let says = format!("{:.1} lanes per cycle, with {chains} chains in {warps} warps", WARP * rate.value);
        Some(Finding { published, says, ..finding(format!("throughput {name}"), Unit::OpPerCycle, row, rate) })
    };
    known_rows(series).filter_map(rate).collect()
}

const RESULTS_SOURCE: &str = "CUDA C++ Programming Guide, 'Throughput of Native Arithmetic Instructions'";

/// Published lanes per cycle and SM for one instruction; for pairs, half of the published results.
fn published_results(device: &DeviceInfo, name: &str) -> Option<f64> {
    let column = match device.architecture.as_deref()? {
        "sm_80" => 0,
        "sm_86" => 1,
        "sm_89" => 2,
        "sm_90" => 3,
        _ => return None,
    };
    let row = match name {
        "FMA f32" | "ADD f32" | "MUL f32" => [64.0, 128.0, 128.0, 128.0],
        "FMA f64" | "ADD f64" | "MUL f64" => [32.0, 2.0, 2.0, 64.0],
        "FMA f16x2" | "ADD f16x2" | "MUL f16x2" => [128.0, 64.0, 64.0, 128.0],
        "RCP f32" | "RSQRT f32" | "EX2 f32" | "LG2 f32" | "SIN f32" | "POPC i32" => [16.0; 4],
        "MAD i32" | "ADD3 i32" | "SHF i32" | "LOP3 i32" => [64.0; 4],
        "SHFL b32" => [32.0; 4],
        _ => return None,
    };
    Some(row[column])
}

/// The instruction and the cycles of each row of so many chains.
fn rows(series: &Series, keep: impl Fn(Count) -> bool) -> impl Iterator<Item = (Name, &Row, Estimate)> {
    let is_kept = move |(at, _): &(Chains, &Row)| keep(at.ilp);
    known_rows(series)
        .filter(is_kept)
        .filter_map(|(at, row)| Some((at.instruction, row, series.estimate(row, "cycles")?)))
}

fn published_figure(core: &Microarchitecture, [lo, hi]: [f64; 2]) -> Published {
    Published { range: Interval { lo, hi }, source: format!("{}: {}", core.name, core.source) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::sample::Work;
    use plimsoll_core::series::Point;
    use plimsoll_suite::findings::synthetic;

    fn point(at: impl Axes, cycles: f64) -> Point {
        let work = Work { operations: 1e6, ..Work::default() };
        synthetic::point(at.to_values(), cycles * 1e6 / 2e9, work, &[])
    }

    fn chains(instruction: &'static str, ilp: u64) -> Chains {
        Chains { instruction: instruction.into(), ilp: Count(ilp) }
    }

    #[test]
    fn cpu_latency_is_that_of_one_chain_and_throughput_the_remeasured_best() {
        let device =
            DeviceInfo { architecture: Some("Raptor Cove (Emerald Rapids)".to_owned()), ..DeviceInfo::default() };
        let search =
            [("FMA f64 512", 1, 4.01), ("FMA f64 512", 8, 0.49), ("ADD f64 256", 1, 2.0), ("ROR i64 scalar", 1, 1.0)];
        let search = Series::new(operations(), search.map(|(name, ilp, cycles)| point(chains(name, ilp), cycles)));
        let best = Series::new(best(), [point(chains("FMA f64 512", 8), 0.51)]);
        let found = findings(&device, &[search, best]);
        let find = |name: &str| found.iter().find(|finding| finding.name == name).expect(name);
        let fma = find("latency FMA f64 512");
        assert!((fma.value - 4.01).abs() < 1e-6 && fma.unit == Unit::Cycle);
        let published = |finding: &Finding| finding.published.as_ref().map(|known| (known.range.lo, known.range.hi));
        assert_eq!(published(fma), Some((4.0, 4.0)));
        let throughput = find("reciprocal throughput FMA f64 512");
        assert!((throughput.value - 0.51).abs() < 1e-6 && published(throughput) == Some((0.5, 0.5)), "{throughput:?}");
        assert_eq!(published(find("latency ADD f64 256")), Some((2.0, 3.0)));
        assert_eq!(published(find("latency ROR i64 scalar")), None);
        assert_eq!(found.len(), 4);
    }

    #[test]
    fn gpu_latency_is_that_of_one_warp_and_throughput_the_remeasured_best() {
        let timed = |name: &'static str, ilp, warps, cycles| {
            point(ChainsOfWarps { instruction: name.into(), ilp: Count(ilp), warps: Count(warps) }, cycles)
        };
        let all = [timed("FMA f32", 1, 1, 4.1), timed("FMA f32", 4, 32, 0.26), timed("DIV f64", 1, 1, 136.0)];
        let series = [Series::new(instructions(), all), Series::new(saturated(), [timed("FMA f32", 4, 32, 0.255)])];
        let hopper = DeviceInfo { architecture: Some("sm_90".to_owned()), ..DeviceInfo::default() };
        let found = findings(&hopper, &series);
        let names: Vec<&str> = found.iter().map(|finding| finding.name.as_str()).collect();
        assert_eq!(names, ["latency FMA f32", "latency DIV f64", "throughput FMA f32"]);
        assert!((found[0].value - 4.1).abs() < 1e-6 && (found[2].value - 1.0 / 0.255).abs() < 1e-4, "{found:?}");
        assert_eq!(found[2].published.as_ref().map(|known| known.range.hi), Some(4.0));
        assert!(found[2].says.starts_with("125.5 lanes"), "{}", found[2].says);
        assert_eq!(findings(&DeviceInfo::default(), &series)[2].published, None);
    }

    #[test]
    fn an_unknown_core_has_findings_without_published_figures() {
        let series = Series::new(operations(), [point(chains("FMA f64 512", 1), 4.0)]);
        let found = findings(&DeviceInfo::default(), &[series]);
        assert_eq!((found.len(), &found[0].published), (1, &None));
        assert!(findings(&DeviceInfo::default(), &[]).is_empty());
    }
}
