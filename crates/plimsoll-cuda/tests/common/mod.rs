//! A fake driver that tests configure, compilers for it, and one round of everything that the backend does.
#![allow(dead_code, reason = "each test binary uses its part")]

mod probe_image;

use std::cell::RefCell;
use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use libloading::os::unix::Library;
use plimsoll_core::Fault;
use plimsoll_core::sample::{Work, Workload};
use plimsoll_cuda::compile::{Compiler, Kernels, Program};
use plimsoll_cuda::driver::{
    Access, AccessWindow, Context, DeviceHandle, Driver, Function, Graph, Limit, LimitGuard, Stream,
};
use plimsoll_cuda::launch::{Arguments, Form, Geometry, Launch};
use plimsoll_cuda::memory::{
    Advice, DeviceBuffer, HostBuffer, HostKind, ManagedBuffer, MappedBuffer, Side, StreamBuffer, Transfer as _,
};
use plimsoll_cuda::{Action, Cuda, Load, Options, Shape, Spinner, StreamAction, Unavailable, open_with};
use probe_image::probe_image;

/// How long calls may take: short, because some tests wait until a device is given up, but not so short that a busy machine misses it.
const DEADLINE: Duration = Duration::from_millis(120);

/// The fake driver's primary context of every device.
pub const CONTEXT: usize = 0xc0;
/// A context that another library made in the fake driver.
pub const OTHER_CONTEXT: usize = 0xf0;

/// A separate copy of a fake library for one test.
pub struct FakeLibrary {
    pub path: PathBuf,
    raw: Library,
    /// The library's function that sets its settings.
    configure: &'static [u8],
}

impl FakeLibrary {
    /// Opens the copy at `path`.
    fn open(path: PathBuf, configure: &'static [u8]) -> Self {
        // SAFETY: the fake library's initialisers do nothing.
        let raw = unsafe { Library::new(&path) }.unwrap();
        Self { path, raw, configure }
    }

    fn copy(name: &str, path: PathBuf, missing: &[&str], configure: &'static [u8]) -> Self {
        fakecuda::copy_without(&fakecuda::find_library(name).unwrap(), &path, missing).unwrap();
        Self::open(path, configure)
    }

    /// A CUPTI in `folder` that lacks some calls.
    pub fn cupti(folder: &Path, missing: &[&str]) -> Self {
        Self::copy("libfakecupti.so", folder.join("libcupti.so.13"), missing, b"fakecupti_configure")
    }

    /// A cuBLAS in `folder` that lacks some calls.
    pub fn cublas(folder: &Path, missing: &[&str]) -> Self {
        Self::copy("libfakecublas.so", folder.join("libcublas.so.13"), missing, b"fakecublas_configure")
    }

    /// An NCCL in `folder` that lacks some calls.
    pub fn nccl(folder: &Path, missing: &[&str]) -> Self {
        Self::copy("libfakenccl.so", folder.join("libnccl.so.2"), missing, b"fakenccl_configure")
    }

    /// Configures the library and resets all its state.
    pub fn order(&self, orders: &str) -> &Self {
        let orders = CString::new(orders).unwrap();
        // SAFETY: the symbol has this type, and the text is terminated.
        unsafe {
            let configure = self.raw.get::<unsafe extern "C" fn(*const std::ffi::c_char)>(self.configure).unwrap();
            configure(orders.as_ptr());
        }
        self
    }

    /// The result of one of the library's own functions without arguments.
    pub fn number(&self, symbol: &str) -> u64 {
        // SAFETY: all symbols passed here have this type.
        unsafe { self.raw.get::<extern "C" fn() -> u64>(symbol.as_bytes()).unwrap()() }
    }
}

/// The CPUs that this process may use.
pub fn allowed_cpus() -> Vec<usize> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap().trim();
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        first.parse::<usize>().unwrap()..=last.parse().unwrap()
    };
    list.split(',').flat_map(range).collect()
}

/// A sysfs in `folder` with two memory nodes: the CPUs of this process, once as node 0 and once as node 9, which is next to the fake
/// device. The memory of this machine isn't on node 9.
pub fn two_nodes(folder: &Path) -> PathBuf {
    let sys = folder.join("sys");
    let cpus: Vec<String> = allowed_cpus().iter().map(usize::to_string).collect();
    for node in ["node0", "node9"] {
        let folder = sys.join("devices/system/node").join(node);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("cpulist"), cpus.join(",")).unwrap();
    }
    let device = sys.join("bus/pci/devices/0000:01:00.0");
    std::fs::create_dir_all(&device).unwrap();
    std::fs::write(device.join("numa_node"), "9\n").unwrap();
    sys
}

/// A separate copy of the fake driver for one test.
pub struct Fake {
    pub folder: tempfile::TempDir,
    library: FakeLibrary,
}

impl Fake {
    /// A driver that lacks some calls.
    pub fn without(missing: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = fakecuda::driver_without(folder.path(), missing).unwrap();
        Self { folder, library: FakeLibrary::open(path, b"fakecuda_configure") }
    }

    pub fn new() -> Self {
        Self::without(&[])
    }

    /// Configures the driver and resets all its state.
    pub fn order(&self, orders: &str) -> &Self {
        self.library.order(orders);
        self
    }

    /// The result of one of the fake driver's own functions without arguments.
    pub fn number(&self, symbol: &str) -> u64 {
        self.library.number(symbol)
    }

    /// A stream that another library made, with its own recording if `recorded`. A context must be current on this thread.
    pub fn foreign_stream(&self, recorded: bool) -> u64 {
        let mut stream = std::ptr::null_mut::<std::ffi::c_void>();
        // SAFETY: both symbols have these types, and the stream is written to a live variable.
        unsafe {
            type Create = unsafe extern "C" fn(*mut *mut std::ffi::c_void, u32) -> i32;
            type Begin = unsafe extern "C" fn(*mut std::ffi::c_void, u32) -> i32;
            assert_eq!(self.library.raw.get::<Create>(b"cuStreamCreate").unwrap()(&raw mut stream, 1), 0);
            if recorded {
                assert_eq!(self.library.raw.get::<Begin>(b"cuStreamBeginCapture_v2").unwrap()(stream, 2), 0);
            }
        }
        stream.expose_provenance() as u64
    }

    /// The result of a call that another library makes, with these arguments.
    fn call_with<A, B>(&self, symbol: &str, a: A, b: B) -> u32 {
        // SAFETY: the callers' arguments are those of cuda.h.
        unsafe { self.library.raw.get::<unsafe extern "C" fn(A, B) -> u32>(symbol.as_bytes()).unwrap()(a, b) }
    }

    /// Makes a context current on this thread, as another library does; 0 for none.
    pub fn set_current(&self, context: usize) {
        assert_eq!(self.call_with("cuCtxSetCurrent", context, 0_u32), 0);
    }

    /// The context that is current on this thread; 0 for none.
    pub fn current(&self) -> usize {
        let mut context = 0;
        assert_eq!(self.call_with("cuCtxGetCurrent", &raw mut context, 0_u32), 0);
        context
    }

    /// Begins to record a stream as other libraries do, so that most calls of any thread break the recording.
    pub fn begin_capture(&self, stream: u64) {
        assert_eq!(self.call_with("cuStreamBeginCapture_v2", stream, 0_u32), 0);
    }

    /// Ends such a recording: its number of kernels, or the error if it was broken.
    pub fn end_capture(&self, stream: u64) -> Result<u64, u32> {
        let mut graph = 0_usize;
        match self.call_with("cuStreamEndCapture", stream, &raw mut graph) {
            0 => Ok(self.number("fakecuda_captured")),
            code => Err(code),
        }
    }

    /// How this thread's calls treat recordings.
    pub fn capture_mode(&self) -> u32 {
        let mut mode = 2_u32;
        assert_eq!(self.call_with("cuThreadExchangeStreamCaptureMode", &raw mut mode, 0_u32), 0);
        let (found, mut back) = (mode, mode);
        assert_eq!(self.call_with("cuThreadExchangeStreamCaptureMode", &raw mut back, 0_u32), 0);
        found
    }

    /// From now on work submitted to streams doesn't finish, until [`Fake::finish`].
    pub fn hold(&self) {
        self.call("fakecuda_hold");
    }

    /// Finishes all work submitted to streams.
    pub fn finish(&self) {
        self.call("fakecuda_finish");
    }

    fn call(&self, symbol: &str) {
        // SAFETY: both symbols have this type.
        unsafe { self.library.raw.get::<extern "C" fn()>(symbol.as_bytes()).unwrap()() }
    }

    /// How many threads have found unfinished work since [`Fake::hold`].
    pub fn waiting(&self) -> u64 {
        self.number("fakecuda_waiting")
    }

    /// How often memory was freed while unfinished work used it.
    pub fn freed_early(&self) -> u64 {
        self.number("fakecuda_early")
    }

    /// Runs `task` on another thread, after [`Fake::hold`], until it waits or ends; then finishes all work. Returns whether it
    /// waited.
    pub fn waits(&self, task: impl FnOnce() + Send) -> bool {
        std::thread::scope(|scope| {
            let before = self.waiting();
            let thread = scope.spawn(task);
            while !thread.is_finished() && self.waiting() == before {
                std::thread::yield_now();
            }
            let waited = self.waiting() > before;
            self.finish();
            thread.join().unwrap();
            waited
        })
    }

    /// Number of live objects.
    pub fn alive(&self) -> u64 {
        self.number("fakecuda_alive")
    }

    /// Number of calls made.
    pub fn total(&self) -> u64 {
        self.number("fakecuda_total")
    }

    /// The current value of a context limit, by cuda.h's number.
    pub fn limit(&self, number: u32) -> u64 {
        // SAFETY: the symbol has this type.
        unsafe { self.library.raw.get::<extern "C" fn(u32) -> u64>(b"fakecuda_limit").unwrap()(number) }
    }

    /// Sets such a limit behind the backend's back.
    pub fn set_limit(&self, number: u32, value: u64) {
        // SAFETY: the symbol has this type.
        unsafe { self.library.raw.get::<extern "C" fn(u32, u64)>(b"fakecuda_set_limit").unwrap()(number, value) }
    }

    /// How often a call was made.
    pub fn count(&self, call: &str) -> u64 {
        let call = CString::new(call).unwrap();
        // SAFETY: the symbol has this type, and the text is terminated.
        unsafe {
            let count = self.library.raw.get::<unsafe extern "C" fn(*const std::ffi::c_char) -> u64>(b"fakecuda_count");
            count.unwrap()(call.as_ptr())
        }
    }

    pub fn driver(&self) -> Result<Arc<Driver>, Fault> {
        Ok(Driver::open(&self.library.path)?)
    }

    pub fn options(&self) -> Options {
        Options {
            no_cache: true,
            compiler: Some(Arc::new(CountingCompiler::default())),
            deadline: Some(DEADLINE),
            ..Options::default()
        }
    }
}

/// A compiler for the fake driver that also handles expressions and checks.
pub struct AnyCompiler;

// SAFETY: kernels of the fake driver do nothing.
unsafe impl Compiler for AnyCompiler {
    fn identity(&self) -> String {
        "anything for the fake driver 1.0".to_owned()
    }

    fn compile(&self, program: &Program<'_>) -> Result<Vec<u8>, Unavailable> {
        match program.name {
            "elementwise.cu" => Ok(fakecuda::image_from_text(program.source).unwrap()),
            "check.cu" => SourceCompiler.compile(program),
            _ => Ok(fakecuda::image(KERNELS)),
        }
    }
}

/// Kernels of the fake driver.
pub const KERNELS: &str = "plimsoll_spin(8,8);plimsoll_empty();scale(8,8,4)";

/// A compiler for the fake driver that counts its calls and can be told to fail.
#[derive(Default)]
pub struct CountingCompiler {
    pub times: AtomicU64,
    pub refuses: AtomicBool,
}

// SAFETY: as above.
unsafe impl Compiler for CountingCompiler {
    fn identity(&self) -> String {
        "made for the fake driver 1.0".to_owned()
    }

    fn compile(&self, _program: &Program<'_>) -> Result<Vec<u8>, Unavailable> {
        self.times.fetch_add(1, Ordering::Relaxed);
        if self.refuses.load(Ordering::Relaxed) {
            return Err(Unavailable::new("NVRTC", "error: expected ';'", "Report it"));
        }
        Ok(fakecuda::image(KERNELS))
    }
}

/// A compiler for the fake driver that returns the kernels of a probe's source with the parameters of their descriptions.
pub struct SourceCompiler;

// SAFETY: as above.
unsafe impl Compiler for SourceCompiler {
    fn identity(&self) -> String {
        "names for the fake driver 1.0".to_owned()
    }

    fn compile(&self, program: &Program<'_>) -> Result<Vec<u8>, Unavailable> {
        probe_image(program).ok_or_else(|| Unavailable::new("NVRTC", "no such source", "Name one of the crate's"))
    }
}

/// A context with a stream and a kernel, without the bench around it.
pub struct Bare {
    pub context: Arc<Context>,
    pub stream: Arc<Stream>,
    pub scale: Function,
    pub spinner: Arc<Spinner>,
}

impl Bare {
    /// A fake driver with these orders, and what runs on it.
    pub fn with_orders(orders: &str) -> (Fake, Self) {
        let fake = Fake::new();
        let bare = Self::new(fake.order(orders)).unwrap();
        (fake, bare)
    }

    pub fn new(fake: &Fake) -> Result<Self, Fault> {
        Self::with_deadline(fake, DEADLINE)
    }

    pub fn with_deadline(fake: &Fake, deadline: Duration) -> Result<Self, Fault> {
        let handle = DeviceHandle::new(&fake.driver()?, 0)?;
        let context = Context::new(handle, deadline)?;
        let stream = Arc::new(Stream::new(&context)?);
        // SAFETY: a complete image for the fake driver.
        let module = unsafe { plimsoll_cuda::driver::Module::load(&context, &fakecuda::image(KERNELS)) }?;
        let cache = Err(Unavailable::new("kernel cache", "a test", "none"));
        let kernels = Kernels::new(&context, "sm_90".to_owned(), Ok(Arc::new(CountingCompiler::default()) as _), cache);
        let spinner = Arc::new(Spinner::compile(&context, &kernels, 132)?);
        Ok(Self { scale: module.function("scale")?, context, stream, spinner })
    }

    pub fn launch(&self, buffer: &DeviceBuffer) -> Result<Launch, Fault> {
        let arguments = Arguments::new().buffer(buffer).u64(buffer.bytes()).f32(2.0);
        // SAFETY: kernels of the fake driver do nothing.
        unsafe { Launch::raw(&self.scale, Geometry::linear(8, 256), arguments) }
    }
}

/// Exercises everything that changes how the L2 works: limits, windows of a stream, a launch and a graph node, and compressible
/// memory.
fn settings(bare: &Bare, buffer: &DeviceBuffer) -> Result<(), Fault> {
    let (context, stream) = (&bare.context, &bare.stream);
    let guard = LimitGuard::new(context, Limit::PersistingL2)?;
    if guard.set(1 << 20)? != 1 << 20 {
        return Err(Fault::Invalid("the limit is not what was set".to_owned()));
    }
    context.reset_persisting()?;
    let window = AccessWindow::new(buffer.whole(), 0.5, Access::Persisting);
    stream.set_window(Some(window))?;
    stream.set_window(None)?;
    let launch = bare.launch(buffer)?.with_window(window);
    stream.launch(&launch)?;
    Graph::chain(context, &[launch], 2, false)?.launch(stream)?;
    for asked in [true, false] {
        let mapped = MappedBuffer::new(stream, 5 << 20, asked)?;
        if mapped.is_compressible() != asked || mapped.whole().bytes() != 6 << 20 {
            return Err(Fault::Invalid("the memory is not what was asked for".to_owned()));
        }
        mapped.part(4096, 4096)?.copy_from(stream, buffer.whole())?;
    }
    Ok(())
}

/// Runs everything that the backend does, once: opens a bench, then uses memory, copies, and every shape of load. Returns the
/// number of calls made before everything is destroyed.
pub fn everything(fake: &Fake) -> Result<u64, Fault> {
    drop(open_with(&fake.driver()?, 0, &fake.options(), plimsoll_probes::cuda_probes())?);
    let bare = Bare::new(fake)?;
    let (context, stream) = (&bare.context, &bare.stream);
    let (a, b) = (DeviceBuffer::new(context, 4096)?, DeviceBuffer::new(context, 4096)?);
    a.upload(stream, &[7; 4096])?;
    b.whole().copy_from(stream, a.whole())?;
    let mut back = [0; 4096];
    b.download(stream, &mut back)?;
    if back != [7; 4096] {
        return Err(Fault::Invalid("the copy came back changed".to_owned()));
    }
    let other = Context::new(DeviceHandle::new(&fake.driver()?, 0)?, DEADLINE)?;
    context.enable_peer_access(&other)?;
    b.whole().copy_from_peer(stream, a.whole())?;
    let mut placed = HostBuffer::on_cpus(context, 4096, &allowed_cpus())?;
    placed.copy_to(stream, a.whole())?;
    let mut managed = ManagedBuffer::new(context, 8192)?;
    managed.advise(Advice::ReadMostly)?;
    managed.prefetch(stream, Side::Device)?;
    managed.touch_by_host()?;
    let ordered = context.driver().keep_current(|| StreamBuffer::new(stream, 4096))??;
    stream.begin_recording()?;
    stream.launch(&bare.launch(&a)?)?;
    let recorded = stream.end_recording()?;
    recorded.launch(stream)?;
    drop(ordered);
    settings(&bare, &a)?;
    bare.scale.clusters_at_once(Geometry::linear(8, 256), 2)?;
    drop(<Cuda as plimsoll_gpu::Gpu>::global(&bare.scale, "variable")?);
    let mut loads = vec![
        Load::graph(stream, vec![bare.launch(&a)?, bare.launch(&b)?], false, Work::default())?
            .with_blocker(&bare.spinner),
        Load::graph(stream, vec![bare.launch(&a)?], true, Work::default())?,
    ];
    // SAFETY: the fake driver runs no kernel.
    let dependent = unsafe { bare.launch(&a)?.with_form(Form { dependent: true, ..Form::default() }) };
    let actions = vec![Action::Launch(bare.launch(&a)?), Action::Launch(dependent), Action::Fill(a.whole(), 1)];
    loads.push(Load::new(stream, Shape::Stream, actions, Work::default())?);
    let second = Arc::new(Stream::new(context)?);
    for kind in [HostKind::Pinned, HostKind::Pageable] {
        let host = || Ok::<_, Fault>(Rc::new(RefCell::new(HostBuffer::new(context, kind, 4096)?)));
        let up = vec![Action::Other(StreamAction::Up(host()?, a.whole()))];
        let down = vec![Action::Other(StreamAction::Down(host()?, b.whole()))];
        loads.push(Load::new(stream, Shape::Stream, up.clone(), Work::default())?.with_second_stream(&second, down)?);
        loads.push(Load::new(stream, Shape::HostLatency, up, Work::default())?);
    }
    let flush = vec![Action::Fill(b.whole(), 0)];
    let latency = vec![Action::Copy(a.whole(), b.whole())];
    loads.push(Load::new(stream, Shape::Latency, latency, Work::default())?.with_before(flush));
    for load in &mut loads {
        let cycle = load.batch().cycle;
        let mut out = [0; 3];
        load.prepare(cycle)?;
        load.sample(cycle, &mut out)?;
        load.check()?;
        if out.contains(&0) {
            return Err(Fault::Invalid("a sample took no time".to_owned()));
        }
    }
    Ok(fake.total())
}
