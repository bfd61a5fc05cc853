//! Users' own kernels with the stand-in driver, two of whose kernels store to memory.

mod support;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use plimsoll::Plan;
use plimsoll::bench::Device;
use plimsoll::core::record::{Record, Run};
use plimsoll::core::sample::CachePolicy;
use plimsoll::core::{Fault, Flag};
use plimsoll::custom::{self, Cubin, Geometry, Inspected, Occupied, Request};
use plimsoll::explain::{ExplainOptions, Explanation, Origin, Subject};
use plimsoll::predict::find_machine;
use plimsoll_gen::sass::{Listing, Report};

fn request(image: &str, arguments: &str) -> Request {
    let cubin = Cubin::new(fakecuda::image(image)).unwrap();
    // SAFETY: kernels of the stand-in driver check where they store.
    unsafe { Request::new(Arc::new(cubin), None, arguments.parse().unwrap(), Geometry::linear(4, 64)) }.unwrap()
}

fn explain(request: &Request, cache: CachePolicy) -> Result<Explanation, Fault> {
    let folder = tempfile::tempdir().unwrap();
    let mut device = support::device(folder.path());
    custom::explain(&mut device, request, &ExplainOptions { cache, ..ExplainOptions::default() })
}

#[test]
fn an_explanation_has_facts_measurement_and_the_reason_for_what_is_left_out() {
    let found = explain(&request("scale(8,8,4)", "in:f32:1Ki out:f32:1Ki u32:1Ki"), CachePolicy::ColdRotate).unwrap();
    assert!(found.measured.as_ref().unwrap().time.value > 0.0);
    let kernel = found.forecast.custom.as_ref().unwrap();
    let fact = |what| kernel.facts.iter().find(|fact| fact.what == what).unwrap();
    assert_eq!((&*fact("kernel").value, &*fact("grid").value, &*fact("read").value), ("scale", "4", "4 KiB"));
    assert!(
        !kernel.uncounted.is_empty() && found.words().contains("Its instructions are left out"),
        "{}",
        found.words()
    );
    assert_eq!((found.cell.traffic.total(), found.forecast.description.footprint), (8192, 8192));
    assert!(found.words().contains("measuring dispatch, l2, latency"), "{}", found.words());
}

/// The prediction for `scale` of custom.cu on an H200.
#[test]
fn machine_code_and_stated_bytes_predict_the_time_as_for_an_expression() {
    const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../plimsoll-gen/tests/data/custom.sm_90");
    let cubin = custom::read_cubin(format!("{DATA}.cubin").as_ref()).unwrap();
    let arguments = "in:f32:16Mi out:f32:16Mi u32:16Mi f32:0.5".parse().unwrap();
    // SAFETY: nothing launches it.
    let request =
        unsafe { Request::new(cubin.into(), Some("scale"), arguments, Geometry::linear(65_536, 256)) }.unwrap();
    let listing = Listing::parse(&std::fs::read_to_string(format!("{DATA}.sass")).unwrap()).unwrap();
    let report = Report::new(&listing, &[]).kernel("scale").cloned();
    let occupied = Occupied { blocks: 65_536, threads: 256, resident: 8, static_shared: 0 };
    let inspected = Inspected { occupied, report: Ok(report.unwrap()) };
    let subject = Subject::from_machine(find_machine("h200").unwrap(), Origin::Model);
    // The record of another kernel.
    let folder = tempfile::tempdir().unwrap();
    let (mut device, mut records) = (support::device(folder.path()), Vec::<Record>::new());
    let (other, stop) = (self::request("nothing()", ""), AtomicBool::new(false));
    custom::time(&mut device, &other, &[CachePolicy::Hot], &Plan::default(), &mut records, &stop).unwrap();
    let run = Run::from_records(records).unwrap();
    let found =
        custom::explanations(&subject, (&request, &inspected), &[CachePolicy::ColdRotate], &run, "a test").remove(0);
    // A copy with 4 bytes per access was measured at 2.74 TB/s (docs/answers.md).
    let bandwidth = (128 << 20) as f64 / found.forecast.prediction.total.unwrap().value;
    assert!((bandwidth / 2.74e12 - 1.0).abs() < 0.1, "{bandwidth}");
    let words = found.words();
    assert!(words.contains("limited by loads in flight") && words.contains("could not be measured"), "{words}");
    assert_eq!(found.forecast.custom.unwrap().assumptions.len(), 2);
}

#[test]
fn a_store_beyond_a_buffer_fails_the_check_and_one_inside_does_not() {
    for cache in [CachePolicy::ColdRotate, CachePolicy::Hot] {
        for (offset, fails) in [(0, false), (15, false), (16, true), (271, true)] {
            let found = explain(&request("store_byte(8,8)", &format!("out:u8:16 u64:{offset}")), cache).unwrap();
            let flags = found.measured.as_ref().unwrap().flags;
            assert_eq!(flags.contains(Flag::VerifyFail), fails, "offset {offset}");
            assert_eq!(found.words().contains("wrote beyond the end of a buffer"), fails, "{}", found.words());
        }
    }
}

#[test]
fn a_store_outside_all_memory_says_what_the_kernel_did() {
    let fault = explain(&request("store_byte(8,8)", "out:u8:16 u64:1Ti"), CachePolicy::Hot).unwrap_err();
    assert!(fault.ends_the_device() && fault.to_string().contains("outside its arguments"), "{fault}");
}

#[test]
fn buffers_that_launches_overwrite_are_restored() {
    // Every launch stores a byte of the buffer's first element; the content of the rest shows the fill.
    let found = explain(&request("store_byte(8,8)", "inout:u32:1Ki:iota u64:0"), CachePolicy::Hot).unwrap();
    assert!(!found.measured.unwrap().flags.contains(Flag::VerifyFail));
    assert_eq!((found.cell.traffic.read, found.cell.traffic.written), (4096, 4096));
    assert_eq!(found.forecast.description.footprint, 4096);
}

#[test]
fn a_kernel_without_buffers_has_a_time_and_no_bandwidth() {
    let found = explain(&request("nothing()", ""), CachePolicy::ColdRotate).unwrap();
    let line = found.measured.unwrap();
    assert!(line.time.value > 0.0 && line.bandwidth.value == 0.0);
}

#[test]
fn only_cuda_devices_run_it() {
    let mut device = Device::open(&"sim".parse().unwrap(), &plimsoll::CudaOptions::default()).unwrap();
    let refused = custom::explain(&mut device, &request("nothing()", ""), &ExplainOptions::default()).unwrap_err();
    assert!(refused.to_string().contains("machine code of NVIDIA's GPUs"), "{refused}");
}
