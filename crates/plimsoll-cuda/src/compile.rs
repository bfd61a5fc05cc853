//! From source to a loaded kernel: the compiler where it is needed, the cache where it isn't. What the sources are is
//! `plimsoll-gen`'s; finding and calling NVRTC is `nvrtc`'s.

use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use plimsoll_core::Fault;
use plimsoll_gen::kernel::{KernelDesc, OPTIONS, Source, unit};
use plimsoll_gen::sass::Image;
use plimsoll_gpu::Trust;

use crate::cache::{Cache, Key};
use crate::driver::{Context, Module};
use crate::launch::Kernel;
use plimsoll_gpu::Unavailable;

/// A source with all that decides what becomes of it.
#[derive(Clone, Copy, Debug)]
pub struct Program<'p> {
    /// For messages: `stream.cu`.
    pub name: &'p str,
    /// The text.
    pub source: &'p str,
    /// Headers that it includes: name and text.
    pub headers: &'p [(&'p str, &'p str)],
    /// Options beside the target: `-DVECTOR=4`.
    pub options: &'p [String],
    /// The target: `sm_90a`.
    pub target: &'p str,
}

impl Program<'_> {
    fn key(&self, compiler: &str) -> Key {
        let headers = self.headers.iter().flat_map(|(name, text)| [name.as_bytes(), text.as_bytes()]);
        let options = self.options.iter().map(String::as_bytes);
        let counts = [self.headers.len() as u64, self.options.len() as u64].map(u64::to_le_bytes);
        let head = [self.source.as_bytes(), self.target.as_bytes(), compiler.as_bytes()];
        Key::of(head.into_iter().chain(counts.iter().map(<[u8; 8]>::as_slice)).chain(headers).chain(options))
    }
}

/// What makes cubins of sources.
///
/// # Safety
/// What it makes of a program must be what that program says, for its target: it is run with the memory of whoever launches it.
pub unsafe trait Compiler: Send + Sync {
    /// Its name and exact version: part of the cache's key.
    fn identity(&self) -> String;

    /// A cubin.
    ///
    /// # Errors
    /// The compiler's words, or that the target isn't one of its own.
    fn compile(&self, program: &Program<'_>) -> Result<Vec<u8>, Unavailable>;
}

/// Kernels for one context.
pub struct Kernels {
    context: Arc<Context>,
    target: String,
    compiler: Result<Arc<dyn Compiler>, Unavailable>,
    cache: Result<Cache, Unavailable>,
}

impl Kernels {
    /// For a context whose device is `target`, with whatever there is of compiler and cache.
    #[must_use]
    pub fn new(
        context: &Arc<Context>,
        target: String,
        compiler: Result<Arc<dyn Compiler>, Unavailable>,
        cache: Result<Cache, Unavailable>,
    ) -> Self {
        Self { context: Arc::clone(context), target, compiler, cache }
    }

    /// The same compiler and folder for the context of another device, which runs the same target.
    #[must_use]
    pub fn beside(&self, context: &Arc<Context>) -> Self {
        Self::new(context, self.target.clone(), self.compiler.clone(), self.cache.clone())
    }

    /// The target that everything is compiled for.
    #[must_use]
    pub fn target(&self) -> &str {
        &self.target
    }

    /// Whether kernels can be compiled.
    ///
    /// # Errors
    /// Why not, and what brings it.
    pub fn compiler(&self) -> Result<&dyn Compiler, Unavailable> {
        self.compiler.as_deref().map_err(Clone::clone)
    }

    /// Whether they are kept.
    ///
    /// # Errors
    /// Why not, and what brings it.
    pub fn cache(&self) -> Result<&Cache, Unavailable> {
        self.cache.as_ref().map_err(Clone::clone)
    }

    /// The cubin of a program, from the cache or compiled, and whether it was compiled.
    fn cubin(&self, program: &Program<'_>, fresh: bool) -> Result<(Vec<u8>, bool), Fault> {
        let compiler = self.compiler()?;
        let key = program.key(&compiler.identity());
        if let Some(found) = self.cache.as_ref().ok().filter(|_| !fresh).and_then(|cache| cache.get(&key)) {
            return Ok((found, false));
        }
        let cubin = compiler.compile(program)?;
        if let Ok(cache) = &self.cache {
            // A full disk costs the next run a compilation and nothing else.
            let _ = cache.put(&key, &cubin);
        }
        Ok((cubin, true))
    }

    /// Compiles what is missing of some programs on all processors and keeps it, for who needs many kernels one after the other. Without
    /// a place to keep them, or with what can't be compiled, nothing happens: whoever loads them is told. Once `stop` is set, no further
    /// one is begun.
    pub fn ahead(&self, programs: &[Program<'_>], stop: &AtomicBool) {
        if self.cache.is_err() {
            return;
        }
        let threads = std::thread::available_parallelism().map_or(1, NonZero::get).min(programs.len());
        let next = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed)
                        && let Some(program) = programs.get(next.fetch_add(1, Ordering::Relaxed))
                    {
                        let _ = self.cubin(program, false);
                    }
                });
            }
        });
    }

    /// The same as an image that lies inside of itself and has these kernels, with parameters of these sizes. What the cache held is
    /// compiled anew where it hasn't.
    fn image(&self, program: &Program<'_>, fresh: bool, wanted: &[Wanted<'_>]) -> Result<(Image, bool), Fault> {
        let (cubin, compiled) = self.cubin(program, fresh)?;
        let size = cubin.len();
        match Image::new(cubin).map_err(|error| error.to_string()).and_then(|image| fits(image, wanted)) {
            Ok(image) => Ok((image, compiled)),
            Err(_) if !compiled => self.image(program, true, wanted),
            Err(why) => {
                let why = format!("what {} was compiled to, {size} bytes, can't be used: {why}", program.name);
                let hint = "Install another NVRTC: pip install nvidia-cuda-nvrtc";
                Err(Unavailable::new("kernel image", why, hint).into())
            }
        }
    }

    /// Compiles and loads a source for this device.
    ///
    /// # Errors
    /// No compiler, the compiler's words, the driver's.
    pub fn load(
        &self,
        name: &str,
        source: &str,
        headers: &[(&str, &str)],
        options: &[String],
    ) -> Result<Arc<Module>, Fault> {
        self.load_as(&Program { name, source, headers, options, target: &self.target })
    }

    /// The same for the program's own target: the architecture-specific form of this device's, say.
    ///
    /// # Errors
    /// Those of [`Kernels::load`].
    pub fn load_as(&self, program: &Program<'_>) -> Result<Arc<Module>, Fault> {
        self.load_with(program, &[])
    }

    /// The same where the module must have these kernels.
    ///
    /// # Errors
    /// Those of [`Kernels::load`]; [`Fault::Unavailable`] where the compiler makes them with other parameters.
    pub(crate) fn load_with(&self, program: &Program<'_>, wanted: &[Wanted<'_>]) -> Result<Arc<Module>, Fault> {
        let (image, compiled) = self.image(program, false, wanted)?;
        match Module::load_checked(&self.context, image) {
            Ok(module) => Ok(module),
            // What the cache held may be whole and still not for this driver.
            Err(error) if !compiled && !error.loses_the_device() => {
                let (image, _) = self.image(program, true, wanted)?;
                Ok(Module::load_checked(&self.context, image)?)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Loads the kernels of these descriptions, all of one source and compiled as one unit.
    ///
    /// # Errors
    /// Those of [`Kernels::load_with`].
    pub(crate) fn load_stated(
        &self,
        target: &str,
        source: &'static Source,
        stated: &[KernelDesc],
        _: Trust,
    ) -> Result<Vec<Kernel>, Fault> {
        let (name, text, options) = (format!("{}.cu", source.name()), unit(source, stated), OPTIONS.map(str::to_owned));
        let headers = source.headers();
        let program = Program { name: &name, source: &text, headers: &headers, options: &options, target };
        let bytes = |kernel: &KernelDesc| -> Vec<u64> {
            kernel.parameters.iter().map(|parameter| parameter.bytes(kernel)).collect()
        };
        let wanted: Vec<Wanted<'_>> = stated.iter().map(|kernel| (kernel.name.as_str(), bytes(kernel))).collect();
        let module = self.load_with(&program, &wanted)?;
        let ready = |kernel: &KernelDesc| {
            let function = module.function(&kernel.name)?;
            function.takes(&bytes(kernel))?;
            // SAFETY: compiled from what the description says, which keeps to it as the trust promises.
            Ok(unsafe { Kernel::new(function, kernel) })
        };
        stated.iter().map(ready).collect()
    }
}

/// A kernel by its name, and bytes of its parameters.
pub(crate) type Wanted<'w> = (&'w str, Vec<u64>);

/// Whether an image has kernels with parameters of these sizes.
fn fits(image: Image, wanted: &[Wanted<'_>]) -> Result<Image, String> {
    for (name, sizes) in wanted {
        match image.parameters(name) {
            Some(own) if own == sizes => {}
            Some(own) => return Err(format!("{name} takes parameters of {own:?} bytes instead of {sizes:?}")),
            None => return Err(format!("it has no {name}")),
        }
    }
    Ok(image)
}
