//! Hardware counters with a fake driver and a fake CUPTI: counted values reach the caller, and anything that CUPTI lacks or refuses
//! is a reason with a hint that costs no measurement.
#![allow(unsafe_code)]

mod common;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use common::{Bare, Fake, FakeLibrary, SourceCompiler};
use plimsoll_core::flag::Flag;
use plimsoll_core::probe::{Instrument, Outcome, Request, RunContext};
use plimsoll_core::record::Record;
use plimsoll_core::{Fault, counted};
use plimsoll_cuda::cupti::Cupti;
use plimsoll_cuda::{Counter, Counters, Options, open_with};

/// A fake driver and a CUPTI in its folder.
fn with_profiler() -> (Fake, FakeLibrary) {
    let fake = Fake::new();
    let profiler = FakeLibrary::cupti(fake.folder.path(), &[]);
    (fake, profiler)
}

fn open_counters(profiler: &FakeLibrary, fake: &Fake) -> Result<Counters, Fault> {
    let cupti = Cupti::find(Some(&profiler.path), Some(13))?;
    Ok(Counters::open_with(&cupti, &Bare::new(fake)?.context)?)
}

/// Counts a launch; no object stays when the counters are closed.
fn count_and_close(counters: Counters, profiler: &FakeLibrary) {
    counters.measure(|| Ok(())).unwrap();
    drop(counters);
    assert_eq!(profiler.number("fakecupti_alive"), 0);
}

const VALUES: &str =
    "value=dram__bytes_read.sum:4096;value=l1tex__t_sectors.sum:200;value=l1tex__t_sectors_lookup_hit.sum:50";

#[test]
fn a_launch_runs_once_per_pass_and_no_object_leaks() {
    let (fake, profiler) = with_profiler();
    for passes in [1, 3] {
        profiler.order(&format!("{VALUES};passes={passes}"));
        let counters = open_counters(&profiler, fake.order("")).unwrap();
        let mut launches = 0;
        let counts = counters.measure(|| {
            launches += 1;
            Ok(())
        });
        let counts = counts.unwrap();
        assert_eq!((launches, counters.passes()), (passes, passes));
        assert_eq!((counts.get(Counter::DramRead), counts.l1_hit_rate()), (Some(4096.0), Some(0.25)));
        count_and_close(counters, &profiler);
    }
}

#[test]
fn a_metric_is_found_by_its_other_name_and_a_missing_one_is_left_out() {
    let (fake, profiler) = with_profiler();
    let orders =
        "unknown=dram__bytes_read.sum;value=dram__bytes_op_read.sum:7;unknown=lts__t_sectors_srcunit_ltcfabric.sum";
    let counters = open_counters(profiler.order(orders), &fake).unwrap();
    let counts = counters.measure(|| Ok(())).unwrap();
    assert_eq!(counts.get(Counter::DramRead), Some(7.0));
    assert_eq!(counts.get(Counter::L2Crossed), None);
    assert_eq!(counts.get(Counter::Instructions), Some(1.0));
}

#[test]
fn counting_works_again_after_a_failed_launch() {
    let (fake, profiler) = with_profiler();
    let counters = open_counters(profiler.order(""), &fake).unwrap();
    let failed = counters.measure(|| Err(Fault::Invalid("a bad launch".to_owned())));
    assert!(matches!(failed, Err(Fault::Invalid(_))), "{failed:?}");
    // The profiler is off again: the next launch is counted.
    counters.measure(|| Ok(())).unwrap();
}

#[test]
fn every_refusal_of_every_call_is_a_reason_and_no_object_leaks() {
    let (fake, profiler) = with_profiler();
    for call in Cupti::CALLS {
        for code in [1, 7, 35, 999, 12345] {
            // A profiler that can't be stopped or disabled isn't enabled again, so it gets its own copy.
            let stays = ["cuptiRangeProfilerStop", "cuptiRangeProfilerDisable"].contains(call);
            let own = stays.then(|| tempfile::tempdir().unwrap());
            let another = own.as_ref().map(|folder| FakeLibrary::cupti(folder.path(), &[]));
            let profiler = another.as_ref().unwrap_or(&profiler);
            let counters = open_counters(profiler.order(&format!("fail={call}:{code}")), &fake);
            let ended = counters.and_then(|counters| counters.measure(|| Ok(())));
            let may_pass = call.contains("einitialize") || call.contains("DeInitialize") || call.contains("Disable");
            match ended {
                Ok(counts) => {
                    // A chip with no known metrics counts nothing.
                    let nothing = counts == Default::default();
                    assert!(may_pass || (nothing && call.contains("Properties")), "{call} returned {code} unnoticed");
                }
                Err(Fault::Unavailable { what, why, hint }) => {
                    assert!(what == "CUPTI" && why.contains(call) && !hint.is_empty(), "{call} {code}: {why}");
                    let ours = !call.contains("Disable") && !call.contains("HostDeinitialize");
                    assert!(!ours || profiler.number("fakecupti_alive") == 0, "{call} {code}");
                }
                Err(other) => panic!("{call} {code}: {other}"),
            }
        }
    }
}

#[test]
fn dropping_one_session_leaves_the_profiler_on_for_the_others() {
    let (fake, profiler) = with_profiler();
    let first = open_counters(profiler.order(""), &fake).unwrap();
    // The same library, opened again.
    let second = open_counters(&profiler, &fake).unwrap();
    drop(second);
    first.measure(|| Ok(())).unwrap();
    drop(first);
    open_counters(&profiler, &fake).unwrap().measure(|| Ok(())).unwrap();
}

#[test]
fn buffers_outlive_a_refused_configuration_and_a_context_that_was_given_up() {
    let (fake, profiler) = with_profiler();
    let refused =
        open_counters(profiler.order("after=cuptiRangeProfilerSetConfig:1"), &fake).unwrap().measure(|| Ok(()));
    assert!(matches!(refused, Err(Fault::Unavailable { .. })), "{refused:?}");
    // The fake CUPTI disables its profiler only if its buffer is unchanged.
    assert_eq!(profiler.number("fakecupti_alive"), 0);
    let cupti = Cupti::find(Some(&profiler.order("").path), Some(13)).unwrap();
    let context = Bare::new(&fake).unwrap().context;
    let counters = Counters::open_with(&cupti, &context).unwrap();
    let ended = counters.measure(|| {
        context.give_up();
        Err(Fault::Invalid("it hangs".to_owned()))
    });
    assert!(ended.is_err());
    drop(counters);
    assert_eq!(profiler.number("fakecupti_kept"), 1);
}

#[test]
fn a_profiler_that_cant_be_disabled_keeps_its_buffers_and_isnt_enabled_again() {
    let (fake, profiler) = with_profiler();
    let counters = open_counters(profiler.order("fail=cuptiRangeProfilerDisable:999"), &fake).unwrap();
    counters.measure(|| Ok(())).unwrap();
    assert_eq!((profiler.number("fakecupti_kept"), profiler.number("fakecupti_alive")), (1, 2));
    let calls = profiler.number("fakecupti_total");
    let refused = counters.measure(|| Ok(())).unwrap_err();
    assert!(refused.to_string().contains("already") && profiler.number("fakecupti_total") == calls, "{refused}");
}

#[test]
fn counting_works_again_after_a_launch_that_counts_or_panics() {
    let (fake, profiler) = with_profiler();
    let counters = open_counters(profiler.order(""), &fake).unwrap();
    let mut within = None;
    let mut calls = (0, 0);
    let counted = counters.measure(|| {
        calls.0 = profiler.number("fakecupti_total");
        within = Some(counters.measure(|| Ok(())));
        calls.1 = profiler.number("fakecupti_total");
        Ok(())
    });
    assert!(counted.is_ok() && matches!(within, Some(Err(Fault::Unavailable { what: "CUPTI", .. }))), "{within:?}");
    assert_eq!(calls.0, calls.1, "CUPTI doesn't survive a second configuration of one profiler");
    let panics = || counters.measure(|| panic!("the launch panics"));
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).is_err());
    count_and_close(counters, &profiler);
}

#[test]
fn implausible_sizes_and_passes_are_refused() {
    let (fake, profiler) = with_profiler();
    let sizes = [
        "bytes=cuptiProfilerGetCounterAvailability:1000000000000000",
        "bytes=cuptiProfilerHostGetConfigImageSize:1000000000000000",
        "bytes=cuptiRangeProfilerGetCounterDataSize:1000000000000000",
        "passes=65",
    ];
    for orders in sizes {
        let ended = open_counters(profiler.order(orders), &fake).and_then(|counters| counters.measure(|| Ok(())));
        assert!(matches!(ended, Err(Fault::Unavailable { what: "CUPTI", .. })), "{orders}: {ended:?}");
        assert_eq!(profiler.number("fakecupti_alive"), 0, "{orders}");
    }
}

#[test]
fn a_missing_permission_names_the_driver_s_setting() {
    let (fake, profiler) = with_profiler();
    let fault =
        open_counters(profiler.order("fail=cuptiProfilerGetCounterAvailability:35"), &fake).unwrap_err().to_string();
    assert!(fault.contains("administrators") && fault.contains("NVreg_RestrictProfilingToAdminUsers=0"), "{fault}");
}

#[test]
fn a_missing_an_old_and_a_too_new_library_are_refused_with_the_reason() {
    let old = tempfile::tempdir().unwrap();
    let old = FakeLibrary::cupti(old.path(), &["cuptiProfilerHostInitialize"]);
    let why = Cupti::find(Some(&old.path), None).unwrap_err();
    assert!(why.to_string().contains("cuptiProfilerHostInitialize") && why.to_string().contains("12.6"), "{why}");
    let (_fake, profiler) = with_profiler();
    let newer = Cupti::find(Some(&profiler.order("version=130001").path), Some(12)).unwrap_err();
    assert!(newer.to_string().contains("newer than the driver's CUDA 12"), "{newer}");
    assert!(Cupti::find(Some(&profiler.order("version=26").path), Some(12)).is_ok());
    let missing = Cupti::find(Some(Path::new("/nowhere/libcupti.so.13")), None).unwrap_err();
    assert!(missing.to_string().contains("does not exist"), "{missing}");
}

/// Runs `copy` with counters and returns its records.
fn measured(fake: &Fake, cupti: &Path) -> (Outcome, Vec<Record>) {
    counted_probe(fake, cupti, "copy")
}

/// Runs a probe with counters and returns its records.
fn counted_probe(fake: &Fake, cupti: &Path, probe: &str) -> (Outcome, Vec<Record>) {
    let options =
        Options { cupti: Some(cupti.to_path_buf()), compiler: Some(Arc::new(SourceCompiler)), ..fake.options() };
    let mut bench = open_with(&fake.driver().unwrap(), 0, &options, plimsoll_probes::cuda_probes()).unwrap();
    let request = Request { counters: true, bytes: Some(64 << 20), ..Request::default() };
    let (stop, mut records) = (AtomicBool::new(false), Vec::new());
    let mut run = RunContext { request: &request, sink: &mut records, stop: &stop, device: 0, next_series: 0 };
    (bench.measure(probe, &mut run).unwrap(), records)
}

/// Slow kernels, so that a sample has few of them, a small cache, and enough memory for arrays larger than the cache.
const LONG: &str = "kernel=500000;cache=1048576;memory=4000000000";

#[test]
fn every_point_has_counted_values_and_cold_points_are_flagged_if_memory_traffic_differs() {
    let (fake, profiler) = with_profiler();
    let (outcome, records) = measured(fake.order(LONG), &profiler.order(VALUES).path);
    assert!(matches!(outcome, Outcome::Complete), "{outcome:?}");
    let points = records.iter().filter_map(|record| match record {
        Record::Point(point) => Some(point),
        _ => None,
    });
    let (mut flagged, mut all) = (0, 0);
    for point in points {
        assert!(
            point.extra.contains_key(counted::DRAM_READ) && point.extra[counted::L1_HITS] == 0.25,
            "{:?}",
            point.at
        );
        flagged += usize::from(point.flags.contains(Flag::Counted));
        all += 1;
    }
    assert!(flagged > 0 && flagged < all, "{flagged} of {all}");
    let has_metric = |record: &Record| match record {
        Record::Series(series) => series.metrics.iter().any(|metric| metric.name == counted::DRAM_READ),
        _ => false,
    };
    assert!(records.iter().any(has_metric));
}

#[test]
fn failed_counting_is_reported_once_and_costs_no_point() {
    let (fake, profiler) = with_profiler();
    let plain = |records: &[Record]| records.iter().filter(|record| matches!(record, Record::Point(_))).count();
    let (_, counted) = measured(fake.order(LONG), &profiler.order("").path);
    let (outcome, records) = measured(fake.order(LONG), &profiler.order("fail=cuptiRangeProfilerStart:26").path);
    assert!(matches!(outcome, Outcome::Complete), "{outcome:?}");
    assert_eq!(plain(&records), plain(&counted));
    let faults = records.iter().filter(|record| matches!(record, Record::Fault(fault) if fault.what.contains("CUPTI")));
    assert_eq!(faults.count(), 1);
}

#[test]
fn sectors_that_differ_from_the_computed_ones_are_reported_for_each_pattern() {
    let (fake, profiler) = with_profiler();
    let orders = "value=l1tex__t_sectors.sum:1000000000";
    let (outcome, records) = counted_probe(fake.order(LONG), &profiler.order(orders).path, "sectors");
    assert!(matches!(outcome, Outcome::Complete), "{outcome:?}");
    let faults = |what: &str| {
        let matches = |record: &&Record| matches!(record, Record::Fault(fault) if fault.what.contains(what));
        records.iter().filter(matches).count()
    };
    assert_eq!(faults("4 B stride 8, first-level cache"), 1);
    assert_eq!(faults("sectors counted"), records.iter().filter(|record| matches!(record, Record::Point(_))).count());
}
