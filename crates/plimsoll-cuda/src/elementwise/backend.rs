//! Implements [`Elementwise`] for CUDA: kernels compiled by NVRTC, launched with a block of words.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use plimsoll_core::Fault;
use plimsoll_gen::Target;
use plimsoll_gen::elementwise::{Device, Generated, KernelSpec, Table, generate};
use plimsoll_gen::kernel::OPTIONS;
use plimsoll_gpu::elementwise::{Elementwise, Facts, OtherDevice};
use plimsoll_gpu::{Form, Geometry, Span};

use crate::compile::{Kernels, Program};
use crate::device::dependent_launch;
use crate::driver::{Attribute, Context, Entered, Function, Stream};
use crate::launch::{Launch, Parameters, word_pointers};
use crate::memory::{HeldRegions, Region};
use crate::{Cuda, CudaDevice};

/// File name of generated sources in messages.
const SOURCE: &str = "elementwise.cu";

impl Elementwise for Cuda {
    type Compiler = Kernels;
    type Held = HeldRegions;
    type Entered<'s> = Entered<'s>;

    fn compiler(device: &CudaDevice) -> Kernels {
        device.kernels.for_context(&device.context)
    }

    fn facts(kernels: &Kernels) -> Result<Facts, Fault> {
        let context = kernels.context();
        let handle = context.device();
        let number = |attribute| handle.attribute(attribute).map(|value| u32::try_from(value).unwrap_or(0));
        let capability = 10 * number(Attribute::CapabilityMajor)? + number(Attribute::CapabilityMinor)?;
        let device = Device {
            target: kernels.target().parse().unwrap_or(Target::plain(capability)),
            multiprocessors: number(Attribute::Multiprocessors)?,
            threads_per_multiprocessor: number(Attribute::ThreadsPerMultiprocessor)?,
            l2_bytes: number(Attribute::L2Bytes)?.into(),
        };
        let model = handle.name()?;
        let table = Table::for_device(&model, capability);
        let compiler = kernels.compiler().map_or_else(|_| "no compiler".to_owned(), |compiler| compiler.identity());
        let name = format!("{model}, driver {}, {compiler}", context.driver().version_text());
        let overlaps = dependent_launch(context.driver(), capability).is_ok();
        Ok(Facts { name, device, table, overlaps, compiles: kernels.compiler().map(drop) })
    }

    fn load(kernels: &Kernels, spec: &KernelSpec, words: usize) -> Result<Function, Fault> {
        let (text, options) = (generate(spec), OPTIONS.map(str::to_owned));
        let bytes = vec![8 * words as u64];
        // A cached kernel for another number of words is compiled again.
        let module = kernels.load_with(&program(&text, &options, kernels), &[(text.entry, bytes.clone())])?;
        let function = module.function(text.entry)?;
        function.check_parameters(&bytes)?;
        Ok(function)
    }

    fn compile_ahead(kernels: &Kernels, specs: &[KernelSpec], stop: &AtomicBool) {
        let (texts, options) = (specs.iter().map(generate).collect::<Vec<_>>(), OPTIONS.map(str::to_owned));
        let programs: Vec<Program<'_>> = texts.iter().map(|text| program(text, &options, kernels)).collect();
        kernels.compile_ahead(&programs, stop);
    }

    fn hold(spans: &[Span]) -> Result<HeldRegions, Fault> {
        if let [span] = spans {
            return Ok(HeldRegions::one(Region::find(*span)?));
        }
        Ok(HeldRegions::new(spans.iter().map(|span| Region::find(*span)).collect::<Result<Vec<_>, _>>()?))
    }

    #[inline]
    fn check_memory(kernels: &Kernels, held: &HeldRegions) -> Result<(), OtherDevice> {
        held.iter().try_for_each(|region| check_device(kernels.context(), region.context()))
    }

    #[inline]
    fn check_stream(function: &Function, entered: &Entered<'_>) -> Result<(), OtherDevice> {
        check_device(function.context(), entered.context())
    }

    #[inline]
    fn enter(stream: &Stream) -> Result<Entered<'_>, Fault> {
        Ok(stream.enter()?)
    }

    #[inline]
    unsafe fn enter_foreign(kernels: &Kernels, stream: u64) -> Result<Entered<'_>, Fault> {
        // SAFETY: the caller promises it.
        Ok(unsafe { Entered::foreign(kernels.context(), stream) }?)
    }

    fn visit<R>(kernels: &Kernels, task: impl FnOnce() -> R) -> Result<R, Fault> {
        let context = kernels.context();
        let _current = context.make_current()?;
        let _relaxed = context.driver().relax_recordings();
        Ok(task())
    }

    #[inline]
    fn admit(entered: &mut Entered<'_>, held: &HeldRegions) -> Result<(), Fault> {
        held.admit(entered)?;
        if entered.is_recording() {
            entered.keep(Arc::new(held.clone()));
        } else if entered.is_foreign() && !held.is_empty() && entered.is_captured()? {
            // Nothing tells when the other library's recording is gone.
            std::mem::forget(held.clone());
        }
        Ok(())
    }

    #[inline]
    unsafe fn launch_words(
        entered: &mut Entered<'_>,
        function: &Function,
        (geometry, form): (Geometry, Form),
        words: &[u64],
    ) -> Result<(), Fault> {
        let context = entered.context();
        if context.is_given_up() {
            let why = "given up after an earlier fault: restart the program".to_owned();
            return Err(Fault::DeviceLost { call: "cuLaunchKernel", why });
        }
        entered.bind()?;
        if entered.is_foreign() {
            function.stay_loaded();
        } else if entered.is_recording() {
            entered.keep(Arc::new(function.clone()));
        }
        // SAFETY: the caller promises that the kernel takes these words, which live until the call returns, and that what it does
        // with them is sound.
        Ok(unsafe { entered.submit(function, geometry, form, None, word_pointers(words)) }?)
    }

    unsafe fn prepare_words(
        function: &Function,
        (geometry, form): (Geometry, Form),
        words: &[u64],
        held: &HeldRegions,
    ) -> Result<Launch, Fault> {
        geometry.check()?;
        let (function, regions, parameters) = (function.clone(), held.clone(), Parameters::Words(words.into()));
        Ok(Launch { function, geometry, parameters, form, window: None, regions })
    }
}

fn program<'p>(text: &'p Generated, options: &'p [String], kernels: &'p Kernels) -> Program<'p> {
    Program { name: SOURCE, source: &text.text, headers: text.headers, options, target: kernels.target() }
}

/// Checks that two contexts are of one device of one copy of the driver: another copy doesn't know our objects.
#[inline]
fn check_device(expected: &Context, given: &Context) -> Result<(), OtherDevice> {
    if given.shares_device_with(expected) { Ok(()) } else { Err(other_device(expected, given)) }
}

#[cold]
fn other_device(expected: &Context, given: &Context) -> OtherDevice {
    let device = |context: &Context| format!("cuda:{}", context.device().number());
    let (expected, mut given) = (device(expected), device(given));
    if given == expected {
        given += " in another copy of the driver";
    }
    OtherDevice { expected, given }
}

impl From<crate::driver::DriverError> for plimsoll_gpu::elementwise::Error {
    fn from(error: crate::driver::DriverError) -> Self {
        Self::Fault(error.into())
    }
}
