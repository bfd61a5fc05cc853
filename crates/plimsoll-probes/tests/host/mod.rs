//! A minimal GPU backend as a stand-in: kernels are Rust functions, looked up by name and run at launch. It is an outline for new
//! backends, and tests probes without a GPU.

mod gpu;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use plimsoll_core::Fault;
use plimsoll_core::probe::Backend;
use plimsoll_gpu::clock::GpuClock;
use plimsoll_gpu::launch::Kind;
use plimsoll_gpu::{
    Arguments, Capabilities, ClusterSizes, Form, Geometry, KernelClock, Limits, Memory, Need, Span, Stamps, Unavailable,
};

/// Bytes between the addresses of two regions: no array reaches the next one.
pub const APART: u64 = 1 << 40;

/// The backend.
pub struct Host;

impl Backend for Host {
    type Device = Device;
    type Clock = GpuClock<Self>;
    type Need = Need;
    const NAME: &'static str = "host";
}

/// The function of a kernel.
pub type Body = Arc<dyn Fn(&mut Call<'_>) + Send + Sync>;

/// A device with its kernels.
pub struct Device {
    pub stream: Arc<Stream>,
    pub capabilities: Capabilities,
    pub kernels: BTreeMap<String, Body>,
}

impl Device {
    /// A device with only these kernels.
    pub fn new(kernels: impl IntoIterator<Item = (String, Body)>) -> Self {
        let no = |what| Unavailable::new(what, "the stand-in has none", "Use another backend");
        let limits = Limits {
            threads: 1024,
            blocks: 1 << 16,
            argument_bytes: 256,
            allocation: 1 << 30,
            alignment: 256,
            shared_per_block: 128 << 10,
            shared_per_multiprocessor: 128 << 10,
        };
        let capabilities = Capabilities {
            software: true,
            limits,
            kernels: Ok(()),
            stamps: Ok(Stamps { step: 1.0, bits: 64 }),
            kernel_clock: Ok(KernelClock { bits: 64, nanoseconds: true }),
            graphs: Ok(()),
            dependent: Err(no("dependent launches")),
            dependent_graphs: Err(no("dependent launches in graphs")),
            cooperative: Err(no("cooperative launches")),
            clusters: Ok(ClusterSizes { portable: 8 }),
            second_stream: Err(no("a second stream")),
            host_memory: Err(no("memory of the host")),
        };
        Self { stream: Arc::default(), capabilities, kernels: kernels.into_iter().collect() }
    }
}

/// A queue that runs everything immediately, and the device's memory.
pub struct Stream {
    regions: Mutex<BTreeMap<u64, Vec<u8>>>,
    opened: Instant,
}

impl Default for Stream {
    fn default() -> Self {
        Self { regions: Mutex::default(), opened: Instant::now() }
    }
}

impl Stream {
    pub fn regions(&self) -> MutexGuard<'_, BTreeMap<u64, Vec<u8>>> {
        self.regions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn nanoseconds(&self) -> u64 {
        u64::try_from(self.opened.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Calls `access` on the bytes of a span, which must be inside an allocated region.
    pub fn bytes<R>(&self, span: Span, access: impl FnOnce(&mut [u8]) -> R) -> Result<R, Fault> {
        let mut regions = self.regions();
        let begin = (span.pointer() % APART) as usize;
        let region = regions.get_mut(&span.region()).and_then(|all| all.get_mut(begin..begin + span.bytes() as usize));
        region.map(access).ok_or_else(|| Fault::Invalid("the memory was freed".to_owned()))
    }
}

/// An array.
pub struct Buffer {
    stream: Arc<Stream>,
    span: Span,
}

impl Buffer {
    pub fn new(stream: &Arc<Stream>, bytes: u64) -> Self {
        let mut regions = stream.regions();
        let region = regions.last_key_value().map_or(1, |(last, _)| last + 1);
        regions.insert(region, vec![0xa5; bytes as usize]);
        drop(regions);
        Self { stream: Arc::clone(stream), span: Span::new(region, region * APART, bytes) }
    }
}

impl Memory for Buffer {
    fn whole(&self) -> Span {
        self.span
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.stream.regions().remove(&self.span.region());
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Buffer").field(&self.span).finish()
    }
}

/// A kernel's code.
#[derive(Clone)]
pub struct Function(pub Body);

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Function")
    }
}

/// A prepared launch.
#[derive(Clone, Debug)]
pub struct Launch {
    pub function: Function,
    pub geometry: Geometry,
    pub form: Form,
    pub arguments: Arguments,
    /// The parameter of an expression's kernel.
    #[allow(dead_code, reason = "only tests of expressions read it")]
    pub words: Vec<u64>,
}

impl Launch {
    pub fn run(&self, stream: &Stream) {
        (self.function.0)(&mut Call { launch: self, stream });
    }
}

/// A kernel's view of its launch.
pub struct Call<'c> {
    pub launch: &'c Launch,
    pub stream: &'c Stream,
}

impl Call<'_> {
    /// Argument number `place`, which is a number.
    pub fn number(&self, place: usize) -> u32 {
        self.launch.arguments.slots()[place][0] as u32
    }

    /// Writes words of 8 bytes to the array that is argument number `place`, from word `first` on.
    pub fn store(&self, place: usize, first: usize, words: &[u64]) {
        let Kind::Memory(span) = self.launch.arguments.kinds()[place] else {
            panic!("argument {place} is not an array")
        };
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let copy = |all: &mut [u8]| all[8 * first..8 * first + bytes.len()].copy_from_slice(&bytes);
        self.stream.bytes(span, copy).expect("memory of a launch is allocated");
    }
}
