//! Users' own kernels with the fake driver: the bytes that a kernel gets, and what is refused before it runs.
#![allow(unsafe_code)]

mod common;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use common::{Bare, CountingCompiler, Fake};
use plimsoll_core::Fault;
use plimsoll_cuda::custom::{Cubin, Kernel, Request, Value, compile_source, read_cubin};
use plimsoll_cuda::launch::Geometry;
use plimsoll_cuda::memory::DeviceBuffer;
use plimsoll_cuda::{Options, open_with, wait};

const ONE: Geometry = Geometry::linear(1, 32);

fn load(bare: &Bare, image: &str) -> Kernel {
    let cubin = Cubin::new(fakecuda::image(image)).unwrap();
    // SAFETY: an image for the fake driver.
    unsafe { Kernel::load(&bare.context, &cubin, None) }.unwrap()
}

/// Prepares a launch; kernels of the fake driver do nothing, except storing inside allocations.
fn launch(kernel: &Kernel, geometry: Geometry, values: &[Value]) -> Result<plimsoll_cuda::launch::Launch, Fault> {
    // SAFETY: as above.
    unsafe { kernel.launch(geometry, values) }
}

#[test]
fn a_kernel_gets_its_arguments_bit_by_bit() {
    let (_fake, bare) = Bare::with_orders("");
    let buffer = DeviceBuffer::new(&bare.context, 256).unwrap();
    buffer.upload(&bare.stream, &[0xee; 256]).unwrap();
    let kernel = load(&bare, "store_parameters(8,1,4,8,2,3,8)");
    let offsets: Vec<u64> = kernel.signature().parameters.iter().map(|parameter| parameter.offset).collect();
    assert_eq!(offsets, [0, 8, 12, 16, 24, 27, 32]);
    let memory = Value::from(buffer.whole());
    let values = [
        memory.clone(),
        0x11_u8.into(),
        1.5_f32.into(),
        (-2_i64).into(),
        0x3344_u16.into(),
        Value::Bytes(vec![7, 8, 9]),
        memory,
    ];
    bare.stream.launch(&launch(&kernel, ONE, &values).unwrap()).unwrap();
    let mut stored = [0; 30];
    buffer.download(&bare.stream, &mut stored).unwrap();
    let expected = [
        &[0x11][..],
        &1.5_f32.to_le_bytes(),
        &(-2_i64).to_le_bytes(),
        &[0x44, 0x33, 7, 8, 9],
        &buffer.pointer().to_le_bytes(),
        &[0xee; 4],
    ];
    assert_eq!(stored[..], expected.concat());
}

#[test]
fn a_kernel_may_have_more_parameters_than_any_of_ours() {
    let (_fake, bare) = Bare::with_orders("");
    let buffer = DeviceBuffer::new(&bare.context, 256).unwrap();
    let kernel = load(&bare, &format!("store_parameters(8{})", ",4".repeat(60)));
    let values: Vec<Value> = [buffer.whole().into()].into_iter().chain((0..60_u32).map(Value::from)).collect();
    let launch = launch(&kernel, ONE, &values).unwrap();
    let numbers: Vec<u8> = (0..60_u32).flat_map(u32::to_le_bytes).collect();
    for in_graph in [false, true] {
        buffer.upload(&bare.stream, &[0; 256]).unwrap();
        if in_graph {
            let graph =
                plimsoll_cuda::driver::Graph::chain(&bare.context, std::slice::from_ref(&launch), 1, false).unwrap();
            graph.launch(&bare.stream).unwrap();
        } else {
            bare.stream.launch(&launch).unwrap();
        }
        let mut stored = [0; 240];
        buffer.download(&bare.stream, &mut stored).unwrap();
        assert_eq!(stored[..], numbers, "in a graph: {in_graph}");
    }
}

#[test]
fn values_of_other_numbers_and_sizes_and_freed_memory_are_refused() {
    let (_fake, bare) = Bare::with_orders("");
    let buffer = DeviceBuffer::new(&bare.context, 256).unwrap();
    let kernel = load(&bare, "scale(8,4)");
    let refused = |geometry, values: &[Value]| launch(&kernel, geometry, values).unwrap_err().to_string();
    let memory = Value::from(buffer.whole());
    let right = [memory.clone(), 5_u32.into()];
    assert!(refused(ONE, std::slice::from_ref(&memory)).contains("scale takes 2 arguments, and 1 was given"));
    let message = refused(ONE, &[memory.clone(), 5_u64.into()]);
    assert!(
        message.contains("parameter 2 of scale has 4 bytes") && message.contains("given: memory of 256 bytes"),
        "{message}"
    );
    assert!(refused(Geometry::linear(0, 32), &right).contains("the grid has 0 in x"));
    assert!(refused(Geometry::linear(1, 2048), &right).contains("the block has 2048 in x"));
    drop(buffer);
    assert!(refused(ONE, &right).contains("freed"));
}

#[test]
fn memory_lives_as_long_as_a_launch_that_uses_it() {
    let (fake, bare) = Bare::with_orders("");
    let buffer = DeviceBuffer::new(&bare.context, 256).unwrap();
    let launch = launch(&load(&bare, "scale(8,4)"), ONE, &[buffer.whole().into(), 5_u32.into()]).unwrap();
    drop(buffer);
    bare.stream.launch(&launch).unwrap();
    wait::stream(&bare.stream).unwrap();
    assert_eq!(fake.count("cuMemFree_v2"), 0);
    drop(launch);
    assert_eq!(fake.count("cuMemFree_v2"), 1);
}

#[test]
fn a_request_is_checked_without_a_device() {
    let request = |name: Option<&str>, arguments: &str, geometry| {
        let cubin = Cubin::new(fakecuda::image("first(8,4);second()")).unwrap();
        // SAFETY: an image for the fake driver.
        unsafe { Request::new(cubin.into(), name, arguments.parse().unwrap(), geometry) }
    };
    let found = request(Some("first"), "inout:f32:1Ki u32:1024", ONE).unwrap();
    assert_eq!((found.traffic().read, found.traffic().written, found.footprint()), (4096, 4096, 4096));
    let stated = found.with_traffic(Some(1000), None);
    assert_eq!((stated.traffic().read, stated.traffic().written, stated.footprint()), (1000, 4096, 4096));
    assert!(request(Some("second"), "", ONE).is_ok());
    for (name, arguments, geometry, why) in [
        (None, "", ONE, "choose one of first, second"),
        (Some("third"), "", ONE, "no kernel 'third'"),
        (Some("first"), "u32:1", ONE, "takes 2 arguments, and 1 was given"),
        (Some("second"), "", Geometry::linear(1, 0), "the block has 0 in x"),
    ] {
        let message = request(name, arguments, geometry).unwrap_err().to_string();
        assert!(message.contains(why), "{message}");
    }
}

#[test]
fn sources_are_compiled_and_checked_like_cubins() {
    let fake = Fake::new();
    fake.order("");
    let compiler = Arc::new(CountingCompiler::default());
    let options = Options { compiler: Some(Arc::clone(&compiler) as _), ..fake.options() };
    let mut bench = open_with(&fake.driver().unwrap(), 0, &options, plimsoll_probes::cuda_probes()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("own.cu");
    let mut compile = || compile_source(bench.device(), &path);
    assert!(compile().unwrap_err().to_string().contains("can't read"));
    std::fs::write(&path, b"\xff").unwrap();
    assert!(compile().unwrap_err().to_string().contains("not UTF-8"));
    std::fs::write(&path, "__global__ void own() {}").unwrap();
    assert!(compile().unwrap().kernel(Some("scale")).is_ok());
    compiler.refuses.store(true, Ordering::Relaxed);
    let refused = compile().unwrap_err();
    assert!(matches!(&refused, Fault::Invalid(why) if why.contains("expected ';'")), "{refused}");
    assert!(read_cubin(&path).unwrap_err().to_string().contains("own.cu: not a cubin"));
}
