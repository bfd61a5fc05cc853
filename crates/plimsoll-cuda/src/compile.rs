//! From source to a loaded kernel, by the cache or else the compiler. `plimsoll-gen` provides the sources; `nvrtc` finds and calls
//! NVRTC.

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

/// A source together with everything that determines its machine code.
#[derive(Clone, Copy, Debug)]
pub struct Program<'p> {
    /// For messages: `stream.cu`.
    pub name: &'p str,
    /// The text.
    pub source: &'p str,
    /// Headers that it includes: name and text.
    pub headers: &'p [(&'p str, &'p str)],
    /// Options other than the target: `-DVECTOR=4`.
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
        Key::from_parts(head.into_iter().chain(counts.iter().map(<[u8; 8]>::as_slice)).chain(headers).chain(options))
    }
}

/// Compiles sources to cubins.
///
/// # Safety
/// A compiled program must do what its source says, on its target: it runs on the memory that its launches pass to it.
pub unsafe trait Compiler: Send + Sync {
    /// Its name and exact version: part of the cache's key.
    fn identity(&self) -> String;

    /// Compiles a program to a cubin.
    ///
    /// # Errors
    /// The compiler's message, or an unsupported target.
    fn compile(&self, program: &Program<'_>) -> Result<Vec<u8>, Unavailable>;
}

/// Compiles, caches and loads kernels for one context.
pub struct Kernels {
    context: Arc<Context>,
    target: String,
    compiler: Result<Arc<dyn Compiler>, Unavailable>,
    cache: Result<Cache, Unavailable>,
}

impl Kernels {
    /// For a context whose device is `target`, with a compiler and a cache if there are any.
    #[must_use]
    pub fn new(
        context: &Arc<Context>,
        target: String,
        compiler: Result<Arc<dyn Compiler>, Unavailable>,
        cache: Result<Cache, Unavailable>,
    ) -> Self {
        Self { context: Arc::clone(context), target, compiler, cache }
    }

    /// The same compiler and cache for the context of another device that runs the same target.
    #[must_use]
    pub fn for_context(&self, context: &Arc<Context>) -> Self {
        Self::new(context, self.target.clone(), self.compiler.clone(), self.cache.clone())
    }

    /// The context that kernels are loaded in.
    #[must_use]
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// The target that everything is compiled for.
    #[must_use]
    pub fn target(&self) -> &str {
        &self.target
    }

    /// The compiler, or why kernels can't be compiled.
    pub fn compiler(&self) -> Result<&dyn Compiler, Unavailable> {
        self.compiler.as_deref().map_err(Clone::clone)
    }

    /// The cache, or why compiled kernels aren't stored.
    pub fn cache(&self) -> Result<&Cache, Unavailable> {
        self.cache.as_ref().map_err(Clone::clone)
    }

    /// The cubin of a program, and whether it was compiled rather than found in the cache. `fresh` skips the cache.
    fn cubin(&self, program: &Program<'_>, fresh: bool) -> Result<(Vec<u8>, bool), Fault> {
        let compiler = self.compiler()?;
        let key = program.key(&compiler.identity());
        if let Some(found) = self.cache.as_ref().ok().filter(|_| !fresh).and_then(|cache| cache.get(&key)) {
            return Ok((found, false));
        }
        let cubin = compiler.compile(program)?;
        if let Ok(cache) = &self.cache {
            // If this fails, for example on a full disk, the next run compiles again.
            let _ = cache.put(&key, &cubin);
        }
        Ok((cubin, true))
    }

    /// Compiles programs that the cache lacks, on all processors, for callers that will load many kernels one after another. Does
    /// nothing without a cache. Programs that fail to compile are skipped: loading them reports the error. Once `stop` is set, no
    /// further compilation starts.
    pub fn compile_ahead(&self, programs: &[Program<'_>], stop: &AtomicBool) {
        if self.cache.is_err() {
            return;
        }
        in_parallel(programs.len(), |place| {
            if !stop.load(Ordering::Relaxed) {
                let _ = self.cubin(&programs[place], false);
            }
        });
    }

    /// The cubin of a program as a checked image: all offsets lie inside it, and it has these kernels with parameters of these
    /// sizes. A cached cubin that fails the check is compiled again.
    fn image(&self, program: &Program<'_>, fresh: bool, wanted: &[Signature<'_>]) -> Result<(Image, bool), Fault> {
        let (cubin, compiled) = self.cubin(program, fresh)?;
        let size = cubin.len();
        match Image::new(cubin).map_err(|error| error.to_string()).and_then(|image| check_kernels(image, wanted)) {
            Ok(image) => Ok((image, compiled)),
            Err(_) if !compiled => self.image(program, true, wanted),
            Err(why) => {
                let why = format!("the {size} bytes compiled from {} can't be used: {why}", program.name);
                let hint = "Install another NVRTC: pip install nvidia-cuda-nvrtc";
                Err(Unavailable::new("kernel image", why, hint).into())
            }
        }
    }

    /// Compiles and loads a source for this device.
    ///
    /// # Errors
    /// No compiler, or the compiler's message.
    pub fn load(
        &self,
        name: &str,
        source: &str,
        headers: &[(&str, &str)],
        options: &[String],
    ) -> Result<Arc<Module>, Fault> {
        self.load_as(&Program { name, source, headers, options, target: &self.target })
    }

    /// As [`Kernels::load`], for the program's own target, such as the architecture-specific form of this device's target.
    ///
    /// # Errors
    /// Those of [`Kernels::load`].
    pub fn load_as(&self, program: &Program<'_>) -> Result<Arc<Module>, Fault> {
        self.load_with(program, &[])
    }

    /// As [`Kernels::load_as`], for a module that must have these kernels.
    ///
    /// # Errors
    /// Those of [`Kernels::load`]; [`Fault::Unavailable`] if the compiled kernels take other parameters.
    pub(crate) fn load_with(&self, program: &Program<'_>, wanted: &[Signature<'_>]) -> Result<Arc<Module>, Fault> {
        self.load_image(program, wanted, self.image(program, false, wanted)?)
    }

    /// Loads a program's image, and whether it was just compiled.
    fn load_image(
        &self,
        program: &Program<'_>,
        wanted: &[Signature<'_>],
        (image, compiled): (Image, bool),
    ) -> Result<Arc<Module>, Fault> {
        match Module::load_checked(&self.context, image) {
            Ok(module) => Ok(module),
            // The cached cubin may be intact and still not suit this driver.
            Err(error) if !compiled && !error.is_device_lost() => {
                let (image, _) = self.image(program, true, wanted)?;
                Ok(Module::load_checked(&self.context, image)?)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Loads the kernels of these descriptions, all of one source. Many kernels are compiled as several modules on all processors.
    ///
    /// # Errors
    /// Those of [`Kernels::load_with`].
    pub(crate) fn load_described(
        &self,
        target: &str,
        source: &'static Source,
        described: &[KernelDesc],
        _: Trust,
    ) -> Result<Vec<Kernel>, Fault> {
        let (name, options, headers) = (format!("{}.cu", source.name()), OPTIONS.map(str::to_owned), source.headers());
        let parts: Vec<&[KernelDesc]> = described.chunks(PER_MODULE).collect();
        let texts: Vec<String> = parts.iter().map(|part| unit(source, part)).collect();
        let program =
            |place: usize| Program { name: &name, source: &texts[place], headers: &headers, options: &options, target };
        let wanted: Vec<Vec<Signature<'_>>> = parts.iter().map(|part| part.iter().map(signature).collect()).collect();
        let images = in_parallel(parts.len(), |place| self.image(&program(place), false, &wanted[place]));
        let mut kernels = Vec::with_capacity(described.len());
        for (place, (part, image)) in parts.iter().zip(images).enumerate() {
            let module = self.load_image(&program(place), &wanted[place], image?)?;
            for (kernel, (_, bytes)) in part.iter().zip(&wanted[place]) {
                let function = module.function(&kernel.name)?;
                function.check_parameters(bytes)?;
                // SAFETY: compiled from this description; the kernel keeps to it, as `Trust` promises.
                kernels.push(unsafe { Kernel::new(function, kernel) });
            }
        }
        Ok(kernels)
    }
}

/// Most kernels of one module. Each module parses the headers again, which takes about as long as compiling two kernels.
const PER_MODULE: usize = 12;

/// The results of `work` for every place below `count`, in order, on as many threads as there are processors.
fn in_parallel<T: Send>(count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get).min(count);
    if threads <= 1 {
        return (0..count).map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let take = || {
        let mut done = Vec::new();
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            if place >= count {
                return done;
            }
            done.push((place, work(place)));
        }
    };
    let mut done = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(take)).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, Vec<(usize, T)>>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        running.into_iter().flat_map(join).collect::<Vec<_>>()
    });
    done.sort_by_key(|(place, _)| *place);
    done.into_iter().map(|(_, result)| result).collect()
}

/// The name of a description's kernel, and the bytes of each of its parameters.
fn signature(kernel: &KernelDesc) -> Signature<'_> {
    (&kernel.name, kernel.parameters.iter().map(|parameter| parameter.bytes(kernel)).collect())
}

/// A kernel's name and the bytes of each of its parameters.
pub(crate) type Signature<'w> = (&'w str, Vec<u64>);

/// Checks that an image has kernels with parameters of these sizes.
fn check_kernels(image: Image, wanted: &[Signature<'_>]) -> Result<Image, String> {
    for (name, sizes) in wanted {
        match image.parameters(name) {
            Some(own) if own == *sizes => {}
            Some(own) => return Err(format!("{name} takes parameters of {own:?} bytes instead of {sizes:?}")),
            None => return Err(format!("it has no {name}")),
        }
    }
    Ok(image)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parallel_results_are_in_order_and_each_is_made_once() {
        for count in [0, 1, 2, 97] {
            let made = AtomicUsize::new(0);
            let results = in_parallel(count, |place| {
                made.fetch_add(1, Ordering::Relaxed);
                3 * place
            });
            assert_eq!(results, (0..count).map(|place| 3 * place).collect::<Vec<_>>());
            assert_eq!(made.into_inner(), count);
        }
    }
}
