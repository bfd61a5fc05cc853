//! Matrix products with a fake cuBLAS and a fake driver: products are correct, and anything that the library lacks or refuses is a
//! reason with a hint.
#![allow(unsafe_code)]

mod common;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use common::{Bare, Fake, FakeLibrary, SourceCompiler};
use plimsoll_core::probe::{Depth, Instrument, Outcome, Request, RunContext};
use plimsoll_core::record::Record;
use plimsoll_core::{Fault, FaultClass};
use plimsoll_cuda::cublas::{Cublas, Numbers, Products};
use plimsoll_cuda::memory::DeviceBuffer;
use plimsoll_cuda::{Options, open_with};

const N: usize = 7;

/// Row-major for A, column-major for B and C.
fn f64s(from: f64) -> Vec<f64> {
    (0..N * N).map(|place| from + (place * place % 13) as f64).collect()
}

fn bytes(numbers: &[f64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

#[test]
fn a_product_multiplies_rows_by_columns_and_no_object_leaks() {
    let fake = Fake::new();
    let vendor = FakeLibrary::cublas(fake.folder.path(), &[]);
    let bare = Bare::new(fake.order("")).unwrap();
    let cublas = Cublas::find(Some(&vendor.path), Some(13)).unwrap();
    assert_eq!(cublas.version(), 130_000);
    let (a, b) = (f64s(-3.0), f64s(0.5));
    let buffers = [(); 3].map(|()| DeviceBuffer::new(&bare.context, (8 * N * N) as u64).unwrap());
    buffers[0].upload(&bare.stream, &bytes(&a)).unwrap();
    buffers[1].upload(&bare.stream, &bytes(&b)).unwrap();
    let products = Products::new(&cublas, &bare.stream).unwrap();
    let parts = [buffers[0].whole(), buffers[1].whole(), buffers[2].whole()];
    products.square(Numbers::F64, N as u32, parts).unwrap();
    let mut left = vec![0; 8 * N * N];
    buffers[2].download(&bare.stream, &mut left).unwrap();
    for (place, left) in left.chunks_exact(8).enumerate() {
        let (row, column) = (place % N, place / N);
        let sum: f64 = (0..N).map(|k| a[row * N + k] * b[column * N + k]).sum();
        assert_eq!(f64::from_le_bytes(left.try_into().unwrap()), sum, "{row} {column}");
    }
    for numbers in Numbers::ALL {
        products.square(numbers, 5, parts).unwrap();
    }
    let short = products.square(Numbers::F64, 8, parts);
    assert!(matches!(short, Err(Fault::Invalid(ref why)) if why.contains("too short")), "{short:?}");
    assert_eq!((vendor.number("fakecublas_products"), vendor.number("fakecublas_alive")), (6, 1));
    drop(products);
    assert_eq!(vendor.number("fakecublas_alive"), 0);
}

#[test]
fn missing_calls_and_refusals_are_reasons_with_a_hint() {
    let fake = Fake::new();
    for missing in ["cublasGetProperty", "cublasCreate_v2", "cublasSetStream_v2", "cublasGemmEx", "cublasDestroy_v2"] {
        let folder = tempfile::tempdir().unwrap();
        let vendor = FakeLibrary::cublas(folder.path(), &[missing]);
        let reason = Cublas::find(Some(&vendor.path), None).unwrap_err();
        assert!(reason.why.contains(missing) && reason.hint.contains("pip install"), "{reason}");
    }
    let vendor = FakeLibrary::cublas(fake.folder.path(), &[]);
    let newer = Cublas::find(Some(&vendor.order("version=14").path), Some(13)).unwrap_err();
    assert!(newer.why.contains("belongs to CUDA 14"), "{newer}");
    let bare = Bare::new(fake.order("")).unwrap();
    let buffer = DeviceBuffer::new(&bare.context, 512).unwrap();
    let parts = [buffer.whole(); 3];
    for (call, code) in [("cublasCreate_v2", 1), ("cublasSetStream_v2", 7), ("cublasGemmEx", 13)] {
        vendor.order(&format!("fail={call}:{code}"));
        let cublas = Cublas::find(Some(&vendor.path), Some(13)).unwrap();
        let ended = Products::new(&cublas, &bare.stream).and_then(|made| made.square(Numbers::F64, N as u32, parts));
        let Err(Fault::Unavailable { what, why, hint }) = ended else { panic!("{call}: {ended:?}") };
        assert!(what == "cuBLAS" && !hint.is_empty(), "{why}");
        let expected = if code == 13 { "failed to execute" } else { "returned error" };
        assert!(why.contains(expected), "{call}: {why}");
        assert_eq!(vendor.number("fakecublas_alive"), 0, "{call}");
    }
    let refused = Cublas::find(Some(&vendor.order("fail=cublasGetProperty:1").path), None).unwrap_err();
    assert!(refused.why.contains("cublasGetProperty returned error 1"), "{refused}");
}

/// Runs the probe with a fake cuBLAS that has these orders and a fake driver, to its end.
fn gemm(orders: &str) -> (Fake, FakeLibrary, Vec<Record>) {
    let fake = Fake::new();
    let vendor = FakeLibrary::cublas(fake.folder.path(), &[]);
    vendor.order(orders);
    let options =
        Options { compiler: Some(Arc::new(SourceCompiler)), cublas: Some(vendor.path.clone()), ..fake.options() };
    let driver = fake.order("kernel=500000;cache=1048576").driver().unwrap();
    let mut bench = open_with(&driver, 0, &options, plimsoll_probes::cuda_probes()).unwrap();
    let (request, stop, mut records) = (Request { seed: 7, ..Request::default() }, AtomicBool::new(false), Vec::new());
    let mut run = RunContext { request: &request, sink: &mut records, stop: &stop, device: 0, next_series: 0 };
    let outcome = bench.measure("gemm", &mut run).unwrap();
    assert!(matches!(outcome, Outcome::Complete), "{outcome:?}");
    drop(bench);
    (fake, vendor, records)
}

fn cases(records: &[Record]) -> Vec<&str> {
    let series = records.iter().filter_map(|record| match record {
        Record::Series(series) => Some(series.case.as_str()),
        _ => None,
    });
    series.collect()
}

#[test]
fn the_probe_measures_every_type_of_product_and_no_object_leaks() {
    let (fake, vendor, records) = gemm("");
    assert_eq!(cases(&records), ["instructions", "products"]);
    let is_product = |record: &&Record| matches!(record, Record::Point(point) if point.at.len() == 2);
    assert_eq!(records.iter().filter(is_product).count(), Numbers::ALL.len());
    assert!(vendor.number("fakecublas_products") > 0);
    assert_eq!((vendor.number("fakecublas_alive"), fake.alive()), (0, 0));
}

#[test]
fn a_library_that_does_not_start_costs_only_its_own_series() {
    let (fake, vendor, records) = gemm("fail=cublasCreate_v2:1");
    assert_eq!(cases(&records), ["instructions"]);
    let is_refusal = |record: &&Record| match record {
        Record::Fault(fault) => fault.class == FaultClass::Unavailable && fault.what.contains("cublasCreate"),
        _ => false,
    };
    assert_eq!(records.iter().filter(is_refusal).count(), 1);
    let mut bench = {
        let options =
            Options { compiler: Some(Arc::new(SourceCompiler)), cublas: Some(vendor.path.clone()), ..fake.options() };
        open_with(&fake.order("").driver().unwrap(), 0, &options, plimsoll_probes::cuda_probes()).unwrap()
    };
    let mut kernels = Vec::new();
    bench.verify("gemm", Depth::Small, &mut |case| kernels.push(case.kernel)).unwrap();
    assert!(!kernels.is_empty() && kernels.iter().all(|kernel| kernel.starts_with("gemm_tame")), "{kernels:?}");
}
