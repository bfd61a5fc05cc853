//! `impl Gpu`: everything a backend must provide, in the shortest form that works.

use std::cell::Cell;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_core::Fault;
use plimsoll_gen::Target;
use plimsoll_gen::kernel::{KernelDesc, Machine, Source};
use plimsoll_gpu::{Capabilities, Geometry, Gpu, Kernel, Setup, Span, Unavailable};

use super::{Buffer, Device, Function, Host, Launch, Stream};

impl Gpu for Host {
    type Stream = Stream;
    type Event = Cell<u64>;
    type Buffer = Buffer;
    type Function = Function;
    type Launch = Launch;
    type Graph = Vec<Launch>;
    type Blocker = ();
    type Action = Infallible;

    fn capabilities(device: &Device) -> &Capabilities {
        &device.capabilities
    }

    fn machine(_: &Device) -> Result<Machine, Fault> {
        Ok(Machine { multiprocessors: 32, threads_per_multiprocessor: 2048 })
    }

    fn target(_: &Device) -> Target {
        Target::plain(90)
    }

    fn free_memory(_: &Device) -> Result<u64, Fault> {
        Ok(1 << 30)
    }

    fn cache_bytes(_: &Device) -> Option<u64> {
        None
    }

    fn clock_hz(_: &Device) -> Option<f64> {
        Some(1e9)
    }

    fn stream(device: &Device) -> &Arc<Stream> {
        &device.stream
    }

    fn blocker(_: &Device) -> Option<&Arc<()>> {
        None
    }

    fn runs(device: &Device, kernel: &KernelDesc) -> Result<(), Unavailable> {
        let missing = || Unavailable::new("kernel", format!("no function implements {}", kernel.name), "Write one");
        device.kernels.contains_key(&kernel.name).then_some(()).ok_or_else(missing)
    }

    unsafe fn compile(device: &Device, _: &'static Source, kernels: &[KernelDesc]) -> Result<Vec<Kernel<Self>>, Fault> {
        let make = |kernel: &KernelDesc| {
            Self::runs(device, kernel)?;
            let function = Function(Arc::clone(&device.kernels[&kernel.name]));
            // SAFETY: the function that stands for a kernel is safe code.
            Ok(unsafe { Kernel::new(function, kernel) })
        };
        kernels.iter().map(make).collect()
    }

    unsafe fn prepare(function: &Function, setup: Setup<'_>) -> Result<Launch, Fault> {
        let Setup { geometry, form, arguments } = setup;
        Ok(Launch { function: function.clone(), geometry, form, arguments: *arguments, words: Vec::new() })
    }

    fn allow_shared(_: &Function, _: u32) -> Result<(), Fault> {
        Ok(())
    }

    fn allocate(stream: &Arc<Stream>, bytes: u64) -> Result<Buffer, Fault> {
        Ok(Buffer::new(stream, bytes))
    }

    fn upload(stream: &Arc<Stream>, to: Span, from: &[u8]) -> Result<(), Fault> {
        stream.bytes(to.first(from.len() as u64)?, |bytes| bytes.copy_from_slice(from))
    }

    fn download(stream: &Arc<Stream>, from: Span, to: &mut [u8]) -> Result<(), Fault> {
        stream.bytes(from.first(to.len() as u64)?, |bytes| to.copy_from_slice(bytes))
    }

    fn fill(stream: &Arc<Stream>, span: Span, value: u8) -> Result<(), Fault> {
        stream.bytes(span, |bytes| bytes.fill(value))
    }

    fn copy(stream: &Arc<Stream>, to: Span, from: Span) -> Result<(), Fault> {
        let copied = stream.bytes(from, |bytes| bytes.to_vec())?;
        Self::upload(stream, to, &copied)
    }

    fn launch(stream: &Stream, launch: &Launch) -> Result<(), Fault> {
        launch.run(stream);
        Ok(())
    }

    fn run_action(_: &Arc<Stream>, action: &Infallible) -> Result<(), Fault> {
        match *action {}
    }

    fn block((): &(), _: &Stream, _: Duration) -> Result<(), Fault> {
        Ok(())
    }

    fn busy_clock_hz((): &(), _: &Stream, _: Duration) -> Result<Option<f64>, Fault> {
        Ok(None)
    }

    fn wait(_: &Stream) -> Result<(), Fault> {
        Ok(())
    }

    fn event(_: &Arc<Stream>) -> Result<Cell<u64>, Fault> {
        Ok(Cell::default())
    }

    fn untimed_event(_: &Arc<Stream>) -> Result<Cell<u64>, Fault> {
        Ok(Cell::default())
    }

    fn record(event: &Cell<u64>, stream: &Stream) -> Result<(), Fault> {
        event.set(stream.nanoseconds());
        Ok(())
    }

    fn wait_for(_: &Stream, _: &Cell<u64>) -> Result<(), Fault> {
        Ok(())
    }

    fn wait_event(_: &Cell<u64>) -> Result<(), Fault> {
        Ok(())
    }

    fn nanoseconds(from: &Cell<u64>, to: &Cell<u64>) -> Result<u64, Fault> {
        Ok(to.get() - from.get())
    }

    fn graph(_: &Arc<Stream>, launches: &[Launch], count: u32, _: bool) -> Result<Vec<Launch>, Fault> {
        Ok(launches.iter().cycle().take(count as usize).cloned().collect())
    }

    fn launch_graph(stream: &Stream, graph: &Vec<Launch>) -> Result<(), Fault> {
        graph.iter().for_each(|launch| launch.run(stream));
        Ok(())
    }

    fn allow_large_clusters(_: &Function) -> Result<(), Fault> {
        Ok(())
    }

    fn clusters_at_once(_: &Function, _: Geometry, blocks: u32) -> Result<u32, Fault> {
        Ok(32 / blocks)
    }
}
