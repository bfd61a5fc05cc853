//! Descriptions of launches: a kernel, its geometry, its arguments and its form. Nothing is launched here. A launch made by safe
//! code is checked against its kernel's description; any other is `unsafe` to make.

use std::ffi::c_void;
use std::sync::Arc;

use plimsoll_core::Fault;
pub use plimsoll_gpu::launch::{Arguments, Form, Geometry, MOST_PARAMETERS};
use plimsoll_gpu::{Setup, Trust};

use crate::Cuda;
use crate::driver::{AccessWindow, Function};
use crate::memory::{HeldRegions, Region, Span};

/// Bytes reserved for each parameter: no scalar or pointer of CUDA C++ is larger.
pub const SLOT_BYTES: usize = 16;

/// A kernel with its description, against which its launches are checked.
pub(crate) type Kernel = plimsoll_gpu::Kernel<Cuda>;

// SAFETY: the kernels that this crate launches with it come from plimsoll-gen and keep to their descriptions: `cargo xtask sass`
// and the sanitizer check them.
pub(crate) const TRUST: Trust = unsafe { Trust::new() };

/// The memory that arguments name.
fn find_regions(spans: impl Iterator<Item = Span>, function: &Function) -> Result<HeldRegions, Fault> {
    let regions = spans.map(Region::find).collect::<Result<Vec<_>, Fault>>()?;
    regions.iter().for_each(|region| region.share(function.context()));
    Ok(HeldRegions::new(regions))
}

/// The parameters that a launch passes to its kernel.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "a box would cost an indirection per launch in the timed loop")]
pub(crate) enum Parameters {
    /// One argument per parameter.
    Slots([[u64; 2]; MOST_PARAMETERS]),
    /// One block of words for the kernel's only parameter.
    Words(Arc<[u64]>),
    /// A block of words with parameters at these offsets in bytes, as many as the kernel takes.
    Packed(Arc<[u64]>, Arc<[usize]>),
}

/// One pointer per parameter.
pub(crate) enum Pointers {
    /// Those of most kernels.
    Few([*mut c_void; MOST_PARAMETERS]),
    /// Those of users' kernels with more parameters.
    Many(Vec<*mut c_void>),
}

impl AsMut<[*mut c_void]> for Pointers {
    fn as_mut(&mut self) -> &mut [*mut c_void] {
        match self {
            Self::Few(pointers) => pointers,
            Self::Many(pointers) => pointers,
        }
    }
}

impl Parameters {
    /// One pointer per parameter, for the driver, which only reads through them.
    pub(crate) fn pointers(&self) -> Pointers {
        let few = match self {
            Self::Slots(list) => std::array::from_fn(|place| (&raw const list[place]).cast_mut().cast()),
            Self::Words(words) => word_pointers(words),
            Self::Packed(words, offsets) => {
                let pointer = |offset: usize| words.as_ptr().cast_mut().cast::<u8>().wrapping_add(offset).cast();
                if offsets.len() > MOST_PARAMETERS {
                    return Pointers::Many(offsets.iter().copied().map(pointer).collect());
                }
                std::array::from_fn(|place| offsets.get(place).copied().map_or(std::ptr::null_mut(), pointer))
            }
        };
        Pointers::Few(few)
    }
}

/// Parameter pointers with a block of words as the only parameter.
pub(crate) fn word_pointers(words: &[u64]) -> [*mut c_void; MOST_PARAMETERS] {
    let mut pointers = [std::ptr::null_mut(); MOST_PARAMETERS];
    pointers[0] = words.as_ptr().cast_mut().cast();
    pointers
}

/// A kernel ready to be launched. It keeps the memory of its arguments alive.
#[derive(Clone, Debug)]
pub struct Launch {
    pub(crate) function: Function,
    pub(crate) geometry: Geometry,
    pub(crate) parameters: Parameters,
    pub(crate) form: Form,
    pub(crate) window: Option<AccessWindow>,
    pub(crate) regions: HeldRegions,
}

impl Launch {
    /// A plain launch of a kernel, checked against the kernel's description.
    ///
    /// # Errors
    /// [`Fault::Invalid`] if the arguments differ from the kernel's description in number, kind or extent, for freed memory,
    /// for more threads than the kernel is compiled for, or an empty geometry.
    pub(crate) fn new(kernel: &Kernel, geometry: Geometry, arguments: Arguments) -> Result<Self, Fault> {
        kernel.launch(geometry, Form::default(), &arguments)
    }

    /// A plain launch of a kernel without a description, checked only against its compiled parameters.
    ///
    /// # Safety
    /// The kernel must take these arguments, of these types and in this order, and access only memory inside the spans among them,
    /// whenever any stream or graph launches it.
    ///
    /// # Errors
    /// [`Fault::Invalid`] for too many arguments, freed memory, or an empty geometry; [`Fault::Unavailable`] if the compiled
    /// kernel is known to take another number of arguments or larger ones.
    pub unsafe fn raw(function: &Function, geometry: Geometry, arguments: Arguments) -> Result<Self, Fault> {
        let count = arguments.count();
        if count > MOST_PARAMETERS {
            return Err(Fault::Invalid(format!("{count} arguments, but at most {MOST_PARAMETERS} are supported")));
        }
        let sizes: Vec<u64> = arguments.kinds().iter().map(|kind| kind.bytes()).collect();
        function.check_parameters(&sizes)?;
        geometry.check()?;
        Self::from_setup(function, Setup { geometry, form: Form::default(), arguments: &arguments })
    }

    /// A launch whose arguments were checked, or which the caller guarantees to fit.
    pub(crate) fn from_setup(function: &Function, setup: Setup<'_>) -> Result<Self, Fault> {
        let Setup { geometry, form, arguments } = setup;
        let (function, regions) = (function.clone(), find_regions(arguments.spans(), function)?);
        let parameters = Parameters::Slots(*arguments.slots());
        Ok(Self { function, geometry, parameters, form, window: None, regions })
    }

    /// A plain launch with parameters at these offsets in a block of words.
    ///
    /// # Safety
    /// The kernel must take as many parameters, at these offsets, which with their sizes lie inside the block. What it does with
    /// these words must be sound whenever any stream or graph launches it, as long as the memory of `spans` lives.
    ///
    /// # Errors
    /// [`Fault::Invalid`] for freed memory or an empty geometry.
    pub(crate) unsafe fn packed(
        function: &Function,
        geometry: Geometry,
        (words, offsets): (Vec<u64>, Vec<usize>),
        spans: &[Span],
    ) -> Result<Self, Fault> {
        geometry.check()?;
        let regions = find_regions(spans.iter().copied(), function)?;
        let parameters = Parameters::Packed(words.into(), offsets.into());
        Ok(Self { function: function.clone(), geometry, parameters, form: Form::default(), window: None, regions })
    }

    /// The same launch in another form.
    ///
    /// # Safety
    /// The kernel must be written for that form: a dependent one waits for the preceding kernel before it accesses memory.
    #[must_use]
    pub unsafe fn with_form(mut self, form: Form) -> Self {
        self.form = form;
        self
    }

    /// The same launch with an access policy window, both in streams and in graphs.
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
