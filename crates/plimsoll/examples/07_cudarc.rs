//! Runs an expression on memory that another library allocated with cudarc, on that library's stream. The `cuda_fwd` of a custom
//! operation in candle does the same, with the slice from `CudaStorage` and the stream from `CudaDevice::cuda_stream`.
//!
//! `cargo run -p plimsoll --features cudarc --example 07_cudarc`

use std::error::Error;
use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaSlice, CudaStream};
use plimsoll::elementwise::gpu::Kernel;
use plimsoll::elementwise::gpu::cudarc::laid;
use plimsoll::prelude::{Gpu, In, Layout, trace};

/// y = silu(x · gate): opened and traced once, then used for every call.
struct Gated {
    gpu: Gpu,
    kernel: Kernel<(In<f32>, In<f32>), In<f32>>,
}

impl Gated {
    fn new(stream: &Arc<CudaStream>) -> Result<Self, Box<dyn Error>> {
        let gpu = Gpu::from_cudarc(stream)?;
        let kernel = gpu.compile(&trace(|x: In<f32>, gate: In<f32>| (x * gate).silu())?)?;
        Ok(Self { gpu, kernel })
    }

    /// Multiplies a matrix by one gate per column.
    fn forward(
        &self,
        stream: &Arc<CudaStream>,
        [rows, columns]: [u64; 2],
        x: &CudaSlice<f32>,
        gate: &CudaSlice<f32>,
    ) -> Result<CudaSlice<f32>, Box<dyn Error>> {
        let mut y = stream.alloc_zeros::<f32>(x.len())?;
        let (shape, row) = (Layout::contiguous(&[rows, columns])?, Layout::contiguous(&[columns])?);
        let here = self.kernel.on_stream(&self.gpu.on_cudarc(stream)?);
        here.run(laid(x, shape.clone()), laid(gate, row), laid(&mut y, shape))?;
        Ok(y)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let stream = CudaContext::new(0)?.new_stream()?;
    let gated = Gated::new(&stream)?;
    let x = stream.clone_htod(&[1.0_f32, 2.0, 3.0, -1.0, -2.0, -3.0])?;
    let gate = stream.clone_htod(&[1.0_f32, 0.5, 0.0])?;
    let y = gated.forward(&stream, [2, 3], &x, &gate)?;
    let y = stream.clone_dtoh(&y)?;
    let silu = |x: f32| x / (1.0 + (-x).exp());
    let expected = [1.0, 1.0, 0.0, -1.0, -1.0, 0.0].map(silu);
    let near = y.iter().zip(expected).all(|(y, expected)| (y - expected).abs() <= 1e-6 * expected.abs());
    if near { Ok(()) } else { Err(format!("{y:?} instead of {expected:?}").into()) }
}
