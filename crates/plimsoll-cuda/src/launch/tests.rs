use std::time::Duration;

use plimsoll_gen::kernel::KernelDesc;
use plimsoll_gen::kernel::Op;
use plimsoll_probes::copy::kernels as copy;
use plimsoll_probes::stream::kernels::Parameters;

use super::*;
use crate::compile::{Compiler, Kernels, Program};
use crate::driver::{Context, DeviceHandle, Driver};
use crate::memory::DeviceBuffer;
use plimsoll_gpu::Unavailable;

/// A compiler for the fake driver, whose kernels have exactly these parameters.
struct FixedKernels(String);

// SAFETY: kernels of the fake driver do nothing.
unsafe impl Compiler for FixedKernels {
    fn identity(&self) -> String {
        "a test".to_owned()
    }

    fn compile(&self, _: &Program<'_>) -> Result<Vec<u8>, Unavailable> {
        Ok(fakecuda::image(&self.0))
    }
}

fn load(described: &KernelDesc, sizes: &str) -> (tempfile::TempDir, Arc<Context>, Result<Kernel, Fault>) {
    let folder = tempfile::tempdir().unwrap();
    let driver = Driver::open(&fakecuda::driver_without(folder.path(), &["cuFuncGetParamInfo"]).unwrap()).unwrap();
    let context = Context::new(DeviceHandle::new(&driver, 0).unwrap(), Duration::from_secs(1)).unwrap();
    let compiler = Arc::new(FixedKernels(format!("{}({sizes})", described.name)));
    let cache = Err(Unavailable::new("kernel cache", "a test", "none"));
    let kernels = Kernels::new(&context, "sm_90".to_owned(), Ok(compiler), cache);
    let loaded = kernels.load_described("sm_90", described.source, std::slice::from_ref(described), TRUST);
    (folder, context, loaded.map(|mut kernels| kernels.remove(0)))
}

#[test]
fn launch_refuses_arguments_that_differ_from_the_description() {
    let triad = Parameters { threads: 128, ..Parameters::new(Op::Triad) }.kernel();
    let (_folder, context, kernel) = load(&triad, "8,8,8,8,4,8");
    let (kernel, n) = (kernel.unwrap(), 1000);
    let buffer = DeviceBuffer::new(&context, 16 * n + 16).unwrap();
    let [out, whole] = [0, 8 * n].map(|offset| buffer.part(offset, 4 * n).unwrap());
    let geometry = Geometry::linear(8, 128);
    let arrays = || Arguments::new().span(out).span(whole).span(whole).span(whole);
    let refused = |arguments| Launch::new(&kernel, geometry, arguments).map(drop).unwrap_err().to_string();
    assert!(Launch::new(&kernel, geometry, arrays().f32(1.0).u64(n)).is_ok());
    assert!(refused(arrays().f32(1.0)).contains("takes 6 arguments and was given 5"));
    assert!(refused(Arguments::new()).contains("was given 0"));
    assert!(refused(arrays().f32(1.0).u64(n).u64(0)).contains("was given 7"));
    assert!(refused((0..100).fold(arrays(), |list, _| list.u64(0))).contains("was given 104"));
    let address = Arguments::new().u64(buffer.pointer()).span(whole).span(whole).span(whole);
    assert!(refused(address.f32(1.0).u64(n)).contains("out is memory and was given as U64"));
    assert!(refused(arrays().span(whole).u64(n)).contains("s is F32 and was given as Memory"));
    assert!(refused(arrays().f64(1.0).u64(n)).contains("s is F32 and was given as F64"));
    assert!(refused(arrays().f32(1.0).u32(n as u32)).contains("n is U64 and was given as U32"));
    assert!(refused(arrays().f32(1.0).u64(n + 1)).contains("out needs 4004 bytes and was given 4000"));
    assert!(refused(arrays().f32(1.0).u64(4097)).contains("n is 4097, and must be at most 4096"));
    let odd = buffer.part(8, 4 * n).unwrap();
    let misplaced = |out, a| Arguments::new().span(out).span(a).span(whole).span(whole).f32(1.0).u64(n);
    assert!(refused(misplaced(odd, whole)).contains("out begins at"));
    assert!(refused(misplaced(whole, odd)).contains("not a multiple of 16 bytes"));
    assert!(refused(misplaced(whole, whole)).contains("out is written and is in part the same memory as a"));
    let list = arrays().f32(1.0).u64(n);
    let many = Launch::new(&kernel, Geometry::linear(1, 256), list).map(drop).unwrap_err();
    assert!(many.to_string().contains("blocks of 128 threads, not 256"), "{many}");
    drop(buffer);
    assert!(refused(list).contains("freed"));
}

#[test]
fn a_kernel_whose_parameters_differ_from_its_description_is_not_loaded() {
    let naive = copy::naive(plimsoll_gen::kernel::Index::U32);
    assert_eq!(naive.source, &plimsoll_probes::copy::kernels::SOURCE);
    assert!(load(&naive, "8,8,4").2.is_ok());
    for sizes in ["", "8,8", "8,8,8", "8,4,4", "8,8,4,4"] {
        let refused = load(&naive, sizes).2.map(drop).unwrap_err();
        assert!(refused.to_string().contains("takes parameters of"), "{sizes}: {refused}");
    }
}
