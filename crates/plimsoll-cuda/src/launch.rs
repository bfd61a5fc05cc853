//! What a launch is: a kernel, its geometry, its arguments and its form. Nothing is launched here.

use std::ffi::c_void;
use std::sync::Arc;

use plimsoll_core::Fault;

use crate::driver::{AccessWindow, Function};
use crate::memory::{DeviceBuffer, Span};

/// Most parameters of a kernel.
pub const MOST_PARAMETERS: usize = 24;
/// Room for each parameter, bytes: no scalar or pointer of CUDA C++ is larger.
pub const SLOT_BYTES: usize = 16;

/// Blocks, threads and dynamic shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Blocks, x y z.
    pub grid: [u32; 3],
    /// Threads per block, x y z.
    pub block: [u32; 3],
    /// Dynamic shared memory per block, bytes.
    pub shared: u32,
}

impl Geometry {
    /// `blocks` of `threads` in a row.
    #[must_use]
    pub const fn linear(blocks: u32, threads: u32) -> Self {
        Self { grid: [blocks, 1, 1], block: [threads, 1, 1], shared: 0 }
    }

    /// Whether there is anything to launch.
    fn launches(&self) -> Result<(), Fault> {
        let empty = self.grid.contains(&0) || self.block.contains(&0);
        if empty { Err(Fault::Invalid(format!("an empty launch: {self:?}"))) } else { Ok(()) }
    }
}

/// How a launch differs from a plain one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Form {
    /// May begin before the stream's last kernel has ended (compute capability 9.0, driver 11.8).
    pub dependent: bool,
    /// All blocks are resident at once and may synchronise.
    pub cooperative: bool,
    /// Blocks per cluster in x; 0 and 1 mean none (compute capability 9.0).
    pub cluster: u32,
}

/// The arguments of a kernel in order, as bytes.
#[derive(Clone, Copy, Debug)]
pub struct Arguments {
    slots: [[u64; 2]; MOST_PARAMETERS],
    count: usize,
}

impl Default for Arguments {
    fn default() -> Self {
        Self { slots: [[0; 2]; MOST_PARAMETERS], count: 0 }
    }
}

impl Arguments {
    /// No arguments yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How many there are, those beyond [`MOST_PARAMETERS`] included, which [`Launch::new`] refuses.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    fn push(mut self, bits: u64) -> Self {
        if let Some(slot) = self.slots.get_mut(self.count) {
            slot[0] = bits;
        }
        self.count += 1;
        self
    }

    /// A pointer to the whole of a buffer.
    #[must_use]
    pub fn buffer(self, buffer: &DeviceBuffer) -> Self {
        self.push(buffer.pointer())
    }

    /// A pointer to a part of a buffer.
    #[must_use]
    pub fn span(self, span: Span) -> Self {
        self.push(span.pointer())
    }

    /// An `unsigned long long` or `size_t`.
    #[must_use]
    pub fn u64(self, value: u64) -> Self {
        self.push(value)
    }

    /// A `long long`.
    #[must_use]
    pub fn i64(self, value: i64) -> Self {
        self.push(value as u64)
    }

    /// An `unsigned`.
    #[must_use]
    pub fn u32(self, value: u32) -> Self {
        self.push(u64::from(value))
    }

    /// An `int`.
    #[must_use]
    pub fn i32(self, value: i32) -> Self {
        self.push(u64::from(value as u32))
    }

    /// A `float`.
    #[must_use]
    pub fn f32(self, value: f32) -> Self {
        self.push(u64::from(value.to_bits()))
    }

    /// A `double`.
    #[must_use]
    pub fn f64(self, value: f64) -> Self {
        self.push(value.to_bits())
    }
}

/// What a launch gives to its kernel.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "a box more per launch would be in the timed loop")]
pub(crate) enum Given {
    /// One argument per parameter.
    Slots(Arguments),
    /// One block of words for the kernel's only parameter.
    Words(Arc<[u64]>),
}

impl Given {
    /// One pointer per parameter, for the driver, which reads through them and writes nothing.
    pub(crate) fn pointers(&self) -> [*mut c_void; MOST_PARAMETERS] {
        match self {
            Self::Slots(list) => std::array::from_fn(|place| (&raw const list.slots[place]).cast_mut().cast()),
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

/// A kernel whose only parameter is a block of so many words, by value. Where a driver before 12.4 can't tell, that is
/// promised by who made the kernel.
#[derive(Clone, Debug)]
pub struct WordKernel {
    pub(crate) function: Function,
    words: usize,
}

impl WordKernel {
    /// Checks that the kernel's parameter is such a block.
    ///
    /// # Errors
    /// [`Fault::Unavailable`] where it takes another number of words; the driver's.
    pub fn new(function: &Function, words: usize) -> Result<Self, Fault> {
        if let Some(bytes) = function.parameter_bytes(0)?
            && bytes != 8 * words
        {
            let why = format!("it takes {bytes} bytes of parameters and {} were to be given", 8 * words);
            let mend = "This is an error of plimsoll: please report it".to_owned();
            return Err(Fault::Unavailable { what: "kernel", why, mend });
        }
        Ok(Self { function: function.clone(), words })
    }

    /// The kernel itself.
    #[must_use]
    pub fn function(&self) -> &Function {
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
    /// # Errors
    /// [`Fault::Invalid`] for another number of words or an empty geometry.
    pub fn launch(&self, geometry: Geometry, words: &[u64]) -> Result<Launch, Fault> {
        self.takes(words)?;
        geometry.launches()?;
        let given = Given::Words(words.into());
        Ok(Launch { function: self.function.clone(), geometry, given, form: Form::default(), window: None })
    }
}

/// A kernel, ready to be launched.
#[derive(Clone, Debug)]
pub struct Launch {
    pub(crate) function: Function,
    pub(crate) geometry: Geometry,
    pub(crate) given: Given,
    pub(crate) form: Form,
    pub(crate) window: Option<AccessWindow>,
}

impl Launch {
    /// A plain launch.
    ///
    /// # Errors
    /// [`Fault::Invalid`] for too many arguments or an empty geometry; the driver's, where the kernel takes fewer.
    pub fn new(function: &Function, geometry: Geometry, arguments: Arguments) -> Result<Self, Fault> {
        let count = arguments.count();
        if count > MOST_PARAMETERS {
            return Err(Fault::Invalid(format!("{count} arguments, where {MOST_PARAMETERS} fit")));
        }
        function.takes(count)?;
        geometry.launches()?;
        let given = Given::Slots(arguments);
        Ok(Self { function: function.clone(), geometry, given, form: Form::default(), window: None })
    }

    /// The same in another form.
    #[must_use]
    pub fn with_form(mut self, form: Form) -> Self {
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
