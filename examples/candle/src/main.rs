//! A custom operation of candle that is one fused kernel: silu(x) · y, for tensors of any shape and strides. candle gives
//! slices, layouts and its stream; plimsoll checks them, plans a kernel for how they lie, and launches it in that stream.

use candle_core::{CpuStorage, CudaStorage, CustomOp2, DType, Device, Error, Layout, Result, Shape, Tensor, bail};
use plimsoll::elementwise::cudarc::laid;
use plimsoll::prelude::*;

/// silu(x) · y in f32: opened and traced once.
struct SiluTimes {
    gpu: Gpu,
    kernel: Kernel<(In<f32>, In<f32>), In<f32>>,
}

impl SiluTimes {
    fn new(device: &Device) -> Result<Self> {
        let gpu = Gpu::of_cudarc(&device.as_cuda_device()?.cuda_stream()).map_err(Error::wrap)?;
        let traced = trace(|x: In<f32>, y: In<f32>| x.silu() * y).map_err(Error::wrap)?;
        let kernel = gpu.compile(&traced).map_err(Error::wrap)?;
        Ok(Self { gpu, kernel })
    }
}

/// candle's layout as plimsoll's: both count strides and offsets in elements.
fn layout(of: &Layout) -> Result<plimsoll::prelude::Layout> {
    let shape: Vec<u64> = of.dims().iter().map(|&extent| extent as u64).collect();
    let strides: Vec<i64> = of.stride().iter().map(|&stride| stride as i64).collect();
    plimsoll::prelude::Layout::strided(&shape, &strides, of.start_offset() as u64).map_err(Error::wrap)
}

impl CustomOp2 for SiluTimes {
    fn name(&self) -> &'static str {
        "silu-times"
    }

    fn cpu_fwd(&self, _: &CpuStorage, _: &Layout, _: &CpuStorage, _: &Layout) -> Result<(CpuStorage, Shape)> {
        bail!("silu-times runs on CUDA")
    }

    fn cuda_fwd(&self, x: &CudaStorage, lx: &Layout, y: &CudaStorage, ly: &Layout) -> Result<(CudaStorage, Shape)> {
        let device = &x.device;
        let shape = lx.shape().clone();
        let mut out = device.alloc_zeros::<f32>(shape.elem_count())?;
        let dense = layout(&Layout::contiguous(&shape))?;
        let here = self.gpu.on_cudarc(&device.cuda_stream()).map_err(Error::wrap)?;
        let (x, y) = (x.as_cuda_slice::<f32>()?, y.as_cuda_slice::<f32>()?);
        let run = self.kernel.on(&here).run(laid(x, layout(lx)?), laid(y, layout(ly)?), laid(&mut out, dense));
        run.map_err(Error::wrap)?;
        Ok((CudaStorage::wrap_cuda_slice(out, device.clone()), shape))
    }
}

fn main() -> Result<()> {
    let device = Device::new_cuda(0)?;
    let x = Tensor::rand(-3_f32, 3.0, (64, 96), &device)?;
    // A transposed view, taken as it lies.
    let y = Tensor::rand(-3_f32, 3.0, (96, 64), &device)?.t()?;
    let fused = x.apply_op2_no_bwd(&y, &SiluTimes::new(&device)?)?;
    let apart = (x.silu()? * &y)?;
    let off = (fused - apart)?.abs()?.to_dtype(DType::F64)?.max_all()?.to_scalar::<f64>()?;
    device.synchronize()?;
    if off <= 1e-6 { Ok(()) } else { bail!("off by {off}") }
}
