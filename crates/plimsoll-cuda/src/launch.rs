//! What a launch is: a kernel, its geometry, its arguments and its form. Nothing is launched here. A launch that safe code makes was
//! checked by what its kernel states; any other is `unsafe` to make.

use std::ffi::c_void;
use std::sync::Arc;

use plimsoll_core::Fault;
use plimsoll_gpu::Trust;
pub use plimsoll_gpu::launch::{Arguments, Form, Geometry, MOST_PARAMETERS};

use crate::Cuda;
use crate::driver::{AccessWindow, Function};
use crate::memory::{Held, Region};

/// Room for each parameter, bytes: no scalar or pointer of CUDA C++ is larger.
pub const SLOT_BYTES: usize = 16;

/// A kernel with what it states of itself, by which its launches are checked.
pub(crate) type Kernel = plimsoll_gpu::Kernel<Cuda>;

// SAFETY: the kernels that this crate launches by it are those of plimsoll-gen, which keep to their descriptions: `cargo xtask
// sass` and the sanitizer hold them to it.
pub(crate) const TRUST: Trust = unsafe { Trust::new() };

/// The memory that arguments name.
fn held(arguments: &Arguments, function: &Function) -> Result<Held, Fault> {
    let regions = arguments.spans().map(Region::find).collect::<Result<Vec<_>, Fault>>()?;
    regions.iter().for_each(|region| region.share(function.context()));
    Ok(Held::new(regions))
}

/// What a launch gives to its kernel.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "a box more per launch would be in the timed loop")]
pub(crate) enum Given {
    /// One argument per parameter.
    Slots([[u64; 2]; MOST_PARAMETERS]),
    /// One block of words for the kernel's only parameter.
    Words(Arc<[u64]>),
}

impl Given {
    /// One pointer per parameter, for the driver, which reads through them and writes nothing.
    pub(crate) fn pointers(&self) -> [*mut c_void; MOST_PARAMETERS] {
        match self {
            Self::Slots(list) => std::array::from_fn(|place| (&raw const list[place]).cast_mut().cast()),
            Self::Words(words) => only(words),
        }
    }
}

/// A block of words as the only parameter.
pub(crate) fn only(words: &[u64]) -> [*mut c_void; MOST_PARAMETERS] {
    let mut pointers = [std::ptr::null_mut(); MOST_PARAMETERS];
    pointers[0] = words.as_ptr().cast_mut().cast();
    pointers
}

/// A kernel whose only parameter is a block of so many words, by value.
#[derive(Clone, Debug)]
pub(crate) struct WordKernel {
    function: Function,
    words: usize,
}

impl WordKernel {
    /// Checks that the kernel's parameter is such a block.
    ///
    /// # Errors
    /// [`Fault::Unavailable`] where it takes another number of words; the driver's.
    pub(crate) fn new(function: &Function, words: usize) -> Result<Self, Fault> {
        function.takes(&[8 * words as u64])?;
        Ok(Self { function: function.clone(), words })
    }

    /// The kernel itself.
    pub(crate) fn function(&self) -> &Function {
        &self.function
    }

    /// Whether this is as many words as it takes.
    ///
    /// # Errors
    /// [`Fault::Invalid`] where it isn't.
    pub(crate) fn takes(&self, words: &[u64]) -> Result<(), Fault> {
        let wrong = || Fault::Invalid(format!("{} words for a kernel that takes {}", words.len(), self.words));
        (words.len() == self.words).then_some(()).ok_or_else(wrong)
    }

    /// A launch that keeps its words.
    ///
    /// # Safety
    /// What the kernel does with these words must be sound as long as `held` is there.
    ///
    /// # Errors
    /// [`Fault::Invalid`] for another number of words or an empty geometry.
    pub(crate) unsafe fn launch(&self, geometry: Geometry, words: &[u64], held: &Held) -> Result<Launch, Fault> {
        self.takes(words)?;
        geometry.check()?;
        let given = Given::Words(words.into());
        let (function, kept) = (self.function.clone(), held.clone());
        Ok(Launch { function, geometry, given, form: Form::default(), window: None, kept })
    }
}

/// A kernel, ready to be launched. It holds the memory that it was given.
#[derive(Clone, Debug)]
pub struct Launch {
    pub(crate) function: Function,
    pub(crate) geometry: Geometry,
    pub(crate) given: Given,
    pub(crate) form: Form,
    pub(crate) window: Option<AccessWindow>,
    pub(crate) kept: Held,
}

impl Launch {
    /// A plain launch of a kernel, checked by what it states.
    ///
    /// # Errors
    /// [`Fault::Invalid`] for arguments of another number, kind or extent than the kernel states, for memory that was freed, for
    /// more threads than are compiled in, or an empty geometry.
    pub(crate) fn new(kernel: &Kernel, geometry: Geometry, arguments: Arguments) -> Result<Self, Fault> {
        kernel.launch(geometry, Form::default(), &arguments)
    }

    /// A plain launch of a kernel of which nothing is known but its compiled parameters.
    ///
    /// # Safety
    /// The kernel must take these arguments, of these types and in this order, and touch only memory of the spans among them, inside
    /// of their extents, whenever it is launched by any stream and graph.
    ///
    /// # Errors
    /// [`Fault::Invalid`] for too many arguments, memory that was freed, or an empty geometry; [`Fault::Unavailable`] where the
    /// compiled kernel, as far as that can be told, takes another number of arguments or larger ones.
    pub unsafe fn raw(function: &Function, geometry: Geometry, arguments: Arguments) -> Result<Self, Fault> {
        let count = arguments.count();
        if count > MOST_PARAMETERS {
            return Err(Fault::Invalid(format!("{count} arguments, where {MOST_PARAMETERS} fit")));
        }
        let sizes: Vec<u64> = arguments.kinds().iter().map(|kind| kind.bytes()).collect();
        function.takes(&sizes)?;
        geometry.check()?;
        Self::from_arguments(function, geometry, Form::default(), &arguments)
    }

    /// A launch whose arguments were checked, or promised to fit.
    pub(crate) fn from_arguments(
        function: &Function,
        geometry: Geometry,
        form: Form,
        arguments: &Arguments,
    ) -> Result<Self, Fault> {
        let (function, kept) = (function.clone(), held(arguments, function)?);
        Ok(Self { function, geometry, given: Given::Slots(*arguments.slots()), form, window: None, kept })
    }

    /// The same in another form.
    ///
    /// # Safety
    /// The kernel must be written for that form: one that is dependent waits for the kernel before it before it touches memory.
    #[must_use]
    pub unsafe fn with_form(mut self, form: Form) -> Self {
        self.form = form;
        self
    }

    /// The same with an access policy window, in a stream and in a graph alike.
    #[must_use]
    pub fn with_window(mut self, window: AccessWindow) -> Self {
        self.window = Some(window);
        self
    }

    /// Blocks, threads and shared memory.
    #[must_use]
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }
}

#[cfg(test)]
mod tests;
