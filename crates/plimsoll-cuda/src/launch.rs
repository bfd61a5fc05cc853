//! What a launch is: a kernel, its geometry, its arguments and its form. Nothing is launched here. A launch that safe code makes was
//! checked by what its kernel states; any other is `unsafe` to make.

use std::ffi::c_void;
use std::sync::Arc;

use plimsoll_core::Fault;
use plimsoll_gen::kernel::{self as parameter, KernelDesc, Number};

use crate::driver::{AccessWindow, Function};
use crate::memory::{DeviceBuffer, Held, Span};

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

/// What an argument was given as.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Memory(Span),
    U64,
    I64,
    U32,
    I32,
    F32,
    F64,
}

impl Kind {
    fn is(self, number: Number) -> bool {
        matches!(
            (self, number),
            (Self::U64 | Self::I64, Number::U64)
                | (Self::U32 | Self::I32, Number::U32)
                | (Self::F32, Number::F32)
                | (Self::F64, Number::F64)
        )
    }
}

/// The arguments of a kernel in order. Memory is given as spans alone: an address is a number like any other.
#[derive(Clone, Copy, Debug)]
pub struct Arguments {
    slots: [[u64; 2]; MOST_PARAMETERS],
    kinds: [Kind; MOST_PARAMETERS],
    count: usize,
    /// Memory that the kernel finds by addresses in other memory.
    followed: Option<Span>,
}

impl Default for Arguments {
    fn default() -> Self {
        Self { slots: [[0; 2]; MOST_PARAMETERS], kinds: [Kind::U64; MOST_PARAMETERS], count: 0, followed: None }
    }
}

impl Arguments {
    /// No arguments yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How many there are, those beyond [`MOST_PARAMETERS`] included, which no launch takes.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    fn push(mut self, bits: u64, kind: Kind) -> Self {
        if self.count < MOST_PARAMETERS {
            (self.slots[self.count][0], self.kinds[self.count]) = (bits, kind);
        }
        self.count += 1;
        self
    }

    /// A pointer to the whole of a buffer.
    #[must_use]
    pub fn buffer(self, buffer: &DeviceBuffer) -> Self {
        self.span(buffer.whole())
    }

    /// A pointer to a part of a buffer.
    #[must_use]
    pub fn span(self, span: Span) -> Self {
        self.push(span.pointer(), Kind::Memory(span))
    }

    /// No argument: memory to which addresses lead that the kernel reads elsewhere, and which the launch holds as well.
    #[must_use]
    pub fn following(mut self, span: Span) -> Self {
        self.followed = Some(span);
        self
    }

    /// An `unsigned long long` or `size_t`.
    #[must_use]
    pub fn u64(self, value: u64) -> Self {
        self.push(value, Kind::U64)
    }

    /// A `long long`.
    #[must_use]
    pub fn i64(self, value: i64) -> Self {
        self.push(value as u64, Kind::I64)
    }

    /// An `unsigned`.
    #[must_use]
    pub fn u32(self, value: u32) -> Self {
        self.push(u64::from(value), Kind::U32)
    }

    /// An `int`.
    #[must_use]
    pub fn i32(self, value: i32) -> Self {
        self.push(u64::from(value as u32), Kind::I32)
    }

    /// A `float`.
    #[must_use]
    pub fn f32(self, value: f32) -> Self {
        self.push(u64::from(value.to_bits()), Kind::F32)
    }

    /// A `double`.
    #[must_use]
    pub fn f64(self, value: f64) -> Self {
        self.push(value.to_bits(), Kind::F64)
    }

    /// The memory among them.
    fn held(&self, function: &Function) -> Result<Held, Fault> {
        let given = self.kinds[..self.count.min(MOST_PARAMETERS)].iter();
        let spans = given.filter_map(|kind| if let Kind::Memory(span) = kind { Some(*span) } else { None });
        let regions = spans.chain(self.followed).map(Span::region).collect::<Result<Vec<_>, Fault>>()?;
        regions.iter().for_each(|region| region.share(function.context()));
        Ok(Held::new(regions))
    }
}

/// A kernel with what it states of itself, by which its launches are checked.
#[derive(Clone, Debug)]
pub(crate) struct Kernel {
    function: Function,
    stated: Arc<KernelDesc>,
}

impl Kernel {
    /// A kernel compiled from the text of its description.
    ///
    /// # Errors
    /// [`Fault::Unavailable`] where it takes other parameters than it states.
    pub(crate) fn new(function: Function, stated: &KernelDesc) -> Result<Self, Fault> {
        let sizes: Vec<u64> = stated.parameters.iter().map(|parameter| parameter.bytes(stated)).collect();
        function.takes(&sizes)?;
        Ok(Self { function, stated: Arc::new(stated.clone()) })
    }

    /// The kernel itself.
    pub(crate) fn function(&self) -> &Function {
        &self.function
    }

    fn wrong(&self, why: String) -> Fault {
        Fault::Invalid(format!("{}: {why}", self.stated.name))
    }

    /// Whether arguments are of the number, the kinds and the extents that the kernel states.
    fn accepts(&self, geometry: Geometry, arguments: &Arguments) -> Result<(), Fault> {
        let (stated, count) = (&*self.stated, arguments.count());
        if count != stated.parameters.len() {
            return Err(self.wrong(format!("takes {} arguments and was given {count}", stated.parameters.len())));
        }
        let product = |sides: [u32; 3]| sides.iter().map(|side| u64::from(*side)).product();
        let (blocks, threads): (u64, u64) = (product(geometry.grid), product(geometry.block));
        if stated.threads_fixed && threads > u64::from(stated.threads) {
            return Err(self.wrong(format!("is compiled for blocks of {} threads, not {threads}", stated.threads)));
        }
        let number = |name: &str| {
            let place = stated.parameters.iter().position(|parameter| parameter.name == name)?;
            (!matches!(arguments.kinds[place], Kind::Memory(_))).then_some(arguments.slots[place][0])
        };
        for (place, parameter) in stated.parameters.iter().enumerate() {
            let (name, given) = (parameter.name, arguments.kinds[place]);
            match (parameter.kind, given) {
                (parameter::Kind::Array { align, extent }, Kind::Memory(span)) => {
                    let needed = extent.bytes(stated, (blocks, threads), number);
                    if needed.is_none_or(|needed| needed > span.bytes()) {
                        let needed = needed.map_or("more than any memory".to_owned(), |bytes| bytes.to_string());
                        return Err(self.wrong(format!("{name} needs {needed} bytes and was given {}", span.bytes())));
                    }
                    if !span.pointer().is_multiple_of(u64::from(align.max(1))) {
                        return Err(self.wrong(format!("{name} is no multiple of {align} bytes")));
                    }
                }
                _ if parameter.number(stated).is_some_and(|number| given.is(number)) => {}
                _ => return Err(self.wrong(format!("{name} is {:?} and was given as {given:?}", parameter.kind))),
            }
        }
        Ok(())
    }
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
        geometry.launches()?;
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
        geometry.launches()?;
        kernel.accepts(geometry, &arguments)?;
        Self::with(&kernel.function, geometry, arguments)
    }

    /// A plain launch of a kernel of which nothing is known but its compiled parameters.
    ///
    /// # Safety
    /// The kernel must take these arguments, of these types and in this order, and touch only memory of the spans among them, inside
    /// of their extents, whenever it is launched: in any form that it is given, and by any stream and graph.
    ///
    /// # Errors
    /// [`Fault::Invalid`] for too many arguments, memory that was freed, or an empty geometry; [`Fault::Unavailable`] where the
    /// compiled kernel, as far as that can be told, takes another number of arguments or larger ones.
    pub unsafe fn raw(function: &Function, geometry: Geometry, arguments: Arguments) -> Result<Self, Fault> {
        let count = arguments.count();
        if count > MOST_PARAMETERS {
            return Err(Fault::Invalid(format!("{count} arguments, where {MOST_PARAMETERS} fit")));
        }
        let bytes = |kind: &Kind| if matches!(kind, Kind::U32 | Kind::I32 | Kind::F32) { 4 } else { 8 };
        let sizes: Vec<u64> = arguments.kinds[..count].iter().map(bytes).collect();
        function.takes(&sizes)?;
        geometry.launches()?;
        Self::with(function, geometry, arguments)
    }

    fn with(function: &Function, geometry: Geometry, arguments: Arguments) -> Result<Self, Fault> {
        let (function, kept) = (function.clone(), arguments.held(function)?);
        let given = Given::Slots(arguments.slots);
        Ok(Self { function, geometry, given, form: Form::default(), window: None, kept })
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

#[cfg(test)]
mod tests;
