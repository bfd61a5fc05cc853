//! Launches, times and explains a CUDA kernel of your own. Needs an NVIDIA GPU with its driver, and NVRTC to compile the kernel; a
//! cubin of `nvcc -cubin` works without NVRTC. Without a GPU it says why and ends.
//!
//! `cargo run --release -p plimsoll --example 10_own_kernel`
#![allow(clippy::print_stdout, reason = "it is a program")]

use std::error::Error;
use std::sync::Arc;

use plimsoll::bench::Device;
use plimsoll::core::Fault;
use plimsoll::custom::{self, DeviceBuffer, Geometry, Kernel, Request, Transfer as _, Value};
use plimsoll::explain::ExplainOptions;

const SOURCE: &str = r#"
extern "C" __global__ void __launch_bounds__(256) scale(const float *x, float *y, unsigned n, float factor)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = factor * x[i];
}
"#;
const N: u32 = 1 << 24;

fn main() -> Result<(), Box<dyn Error>> {
    if let Err(fault) = plimsoll::cuda_devices() {
        let why = if let Fault::Unavailable { why, .. } = fault { why } else { fault.to_string() };
        println!("A kernel of your own needs an NVIDIA GPU: {why}");
        return Ok(());
    }
    let mut device = Device::open(&"cuda:0".parse()?, &plimsoll::CudaOptions::default())?;
    let file = tempfile::NamedTempFile::new()?;
    std::fs::write(file.path(), SOURCE)?;
    let cubin = custom::compile(&mut device, file.path())?; // or custom::read_cubin("scale.cubin".as_ref())?
    for kernel in cubin.kernels() {
        println!("{} takes parameters of {:?} bytes", kernel.name, kernel.sizes());
    }
    let geometry = Geometry::linear(N.div_ceil(256), 256);

    // On memory of your own.
    if let Device::Cuda(bench) = &mut device {
        let opened = bench.device();
        let (context, stream) = (&opened.context, &opened.stream);
        let x: Vec<u8> = (0..N).flat_map(|i| (i as f32).to_le_bytes()).collect();
        let [input, output] =
            [DeviceBuffer::new(context, 4 * u64::from(N))?, DeviceBuffer::new(context, 4 * u64::from(N))?];
        input.upload(stream, &x)?;
        let values: [Value; 4] = [input.whole().into(), output.whole().into(), N.into(), 0.5_f32.into()];
        // SAFETY: NVRTC made the cubin.
        let kernel = unsafe { Kernel::load(context, &cubin, Some("scale")) }?;
        // SAFETY: `scale` reads n floats of x and writes n floats of y, which both buffers have; nothing else uses them.
        let launch = unsafe { kernel.launch(geometry, &values) }?;
        stream.launch(&launch)?;
        let mut last = [0; 4];
        output.whole().part(4 * u64::from(N - 1), 4)?.download(stream, &mut last)?; // waits for the kernel
        println!("y[n - 1] = {}", f32::from_le_bytes(last));
    }

    // Timed and explained on buffers that are made for it.
    let arguments = format!("in:f32:{N} out:f32:{N} u32:{N} f32:0.5").parse()?;
    // SAFETY: as above.
    let request = unsafe { Request::new(Arc::new(cubin), Some("scale"), arguments, geometry) }?;
    let explained = custom::explain(&mut device, &request, &ExplainOptions::default())?;
    if let Some(line) = &explained.measured {
        println!("measured: {:.1} µs, {:.0} GB/s", 1e6 * line.time.value, line.bandwidth.value / 1e9);
    }
    println!("{}", explained.words());
    Ok(())
}
