//! A custom operation of candle as one fused kernel: silu(x) · y, for tensors of any shape and strides. candle provides
//! slices, layouts and its stream; plimsoll checks them, plans a kernel for these layouts, and launches it in that stream.

use candle_core::{CpuStorage, CudaStorage, CustomOp2, DType, Device, Error, Layout, Result, Shape, Tensor, bail};
use plimsoll::elementwise::gpu::Kernel;
use plimsoll::elementwise::gpu::cudarc::laid;
use plimsoll::prelude::{Gpu, In, trace};

/// silu(x) · y in f32; the device is opened and the expression traced once.
struct SiluTimes {
    gpu: Gpu,
    kernel: Kernel<(In<f32>, In<f32>), In<f32>>,
}

impl SiluTimes {
    fn new(device: &Device) -> Result<Self> {
        let gpu = Gpu::from_cudarc(&device.as_cuda_device()?.cuda_stream()).map_err(Error::wrap)?;
        let traced = trace(|x: In<f32>, y: In<f32>| x.silu() * y).map_err(Error::wrap)?;
        let kernel = gpu.compile(&traced).map_err(Error::wrap)?;
        Ok(Self { gpu, kernel })
    }
}

/// Converts candle's layout to plimsoll's: both count strides and offsets in elements.
fn convert_layout(layout: &Layout) -> Result<plimsoll::prelude::Layout> {
    let shape: Vec<u64> = layout.dims().iter().map(|&extent| extent as u64).collect();
    let strides: Vec<i64> = layout.stride().iter().map(|&stride| stride as i64).collect();
    plimsoll::prelude::Layout::strided(&shape, &strides, layout.start_offset() as u64).map_err(Error::wrap)
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
        let dense = convert_layout(&Layout::contiguous(&shape))?;
        let stream = self.gpu.on_cudarc(&device.cuda_stream()).map_err(Error::wrap)?;
        let (x, y) = (x.as_cuda_slice::<f32>()?, y.as_cuda_slice::<f32>()?);
        let (lx, ly) = (convert_layout(lx)?, convert_layout(ly)?);
        let run = self.kernel.on_stream(&stream).run(laid(x, lx), laid(y, ly), laid(&mut out, dense));
        run.map_err(Error::wrap)?;
        Ok((CudaStorage::wrap_cuda_slice(out, device.clone()), shape))
    }
}

fn main() -> Result<()> {
    let device = Device::new_cuda(0)?;
    let x = Tensor::rand(-3_f32, 3.0, (64, 96), &device)?;
    // A transposed view, which is not copied.
    let y = Tensor::rand(-3_f32, 3.0, (96, 64), &device)?.t()?;
    let fused = x.apply_op2_no_bwd(&y, &SiluTimes::new(&device)?)?;
    let separate = (x.silu()? * &y)?;
    let difference = (fused - separate)?.abs()?.to_dtype(DType::F64)?.max_all()?.to_scalar::<f64>()?;
    device.synchronize()?;
    if difference <= 1e-6 { Ok(()) } else { bail!("the results differ by {difference}") }
}
