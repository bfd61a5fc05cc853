//! What a launch is: a kernel, its geometry, its arguments and its form. A launch that safe code makes is checked by what its
//! kernel states.

use std::fmt;
use std::sync::Arc;

use plimsoll_core::Fault;
use plimsoll_gen::kernel::{KernelDesc, Number};

use crate::accept::{Touched, accept};
use crate::{Gpu, Memory, Span};

/// Most parameters of a kernel.
pub const MOST_PARAMETERS: usize = 24;

/// Room for one argument: no scalar or pointer of a kernel is larger than 16 bytes.
pub type Slot = [u64; 2];

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

    /// Refuses a launch of nothing.
    ///
    /// # Errors
    /// [`Fault::Invalid`] where a side of the grid or of a block is 0.
    pub fn check(&self) -> Result<(), Fault> {
        let empty = self.grid.contains(&0) || self.block.contains(&0);
        if empty { Err(Fault::Invalid(format!("an empty launch: {self:?}"))) } else { Ok(()) }
    }
}

/// How a launch differs from a plain one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Form {
    /// May begin before the stream's last kernel has ended (CUDA: compute capability 9.0, driver 11.8).
    pub dependent: bool,
    /// All blocks are resident at once and may synchronise.
    pub cooperative: bool,
    /// Blocks per cluster in x; 0 and 1 mean none (CUDA: compute capability 9.0).
    pub cluster: u32,
}

/// What an argument was given as.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Memory of the device.
    Memory(Span),
    /// `unsigned long long`.
    U64,
    /// `long long`.
    I64,
    /// `unsigned`.
    U32,
    /// `int`.
    I32,
    /// `float`.
    F32,
    /// `double`.
    F64,
}

impl Kind {
    pub(crate) fn is(self, number: Number) -> bool {
        matches!(
            (self, number),
            (Self::U64 | Self::I64, Number::U64)
                | (Self::U32 | Self::I32, Number::U32)
                | (Self::F32, Number::F32)
                | (Self::F64, Number::F64)
        )
    }

    /// Bytes of such an argument.
    #[must_use]
    pub fn bytes(self) -> u64 {
        if matches!(self, Self::U32 | Self::I32 | Self::F32) { 4 } else { 8 }
    }
}

/// The arguments of a kernel in order. Memory is given as spans alone: an address is a number like any other.
#[derive(Clone, Copy, Debug)]
pub struct Arguments {
    slots: [Slot; MOST_PARAMETERS],
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

    /// Their bits, one slot each.
    #[must_use]
    pub fn slots(&self) -> &[Slot; MOST_PARAMETERS] {
        &self.slots
    }

    /// What each was given as, of the first [`MOST_PARAMETERS`].
    #[must_use]
    pub fn kinds(&self) -> &[Kind] {
        &self.kinds[..self.count.min(MOST_PARAMETERS)]
    }

    /// The memory among them, and what they lead to.
    pub fn spans(&self) -> impl Iterator<Item = Span> {
        let given = self.kinds().iter();
        given.filter_map(|kind| if let Kind::Memory(span) = kind { Some(*span) } else { None }).chain(self.followed)
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
    pub fn buffer(self, buffer: &impl Memory) -> Self {
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
}

/// A kernel that is ready on a device, with what it states of itself, by which its launches are checked.
pub struct Kernel<G: Gpu> {
    function: G::Function,
    stated: Arc<KernelDesc>,
}

impl<G: Gpu> Clone for Kernel<G> {
    fn clone(&self) -> Self {
        Self { function: self.function.clone(), stated: Arc::clone(&self.stated) }
    }
}

impl<G: Gpu> fmt::Debug for Kernel<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Kernel").field(&self.stated.name).finish()
    }
}

impl<G: Gpu> Kernel<G> {
    /// A function with its description.
    ///
    /// # Safety
    /// The function must be compiled from what the description says, and keep to it: with arguments of the stated kinds and ranges it
    /// touches only the stated extents of its arrays, in the stated way, and, where no extent is stated, only what its probe gives it.
    #[allow(unsafe_code)]
    pub unsafe fn new(function: G::Function, stated: &KernelDesc) -> Self {
        Self { function, stated: Arc::new(stated.clone()) }
    }

    /// The function itself.
    #[must_use]
    pub fn function(&self) -> &G::Function {
        &self.function
    }

    /// What a launch with these arguments does with each array, as the kernel states.
    ///
    /// # Errors
    /// [`Fault::Invalid`] for arguments of another number, kind, range, alignment or extent than the kernel states, for memory that is
    /// written and read as another array, for more threads than are compiled in, or an empty geometry.
    pub fn touched(&self, geometry: Geometry, form: Form, arguments: &Arguments) -> Result<Vec<Touched>, Fault> {
        accept(&self.stated, geometry, form, arguments)
    }

    /// A launch, checked by what the kernel states.
    ///
    /// # Errors
    /// Those of [`Kernel::touched`]; [`Fault::Invalid`] for memory that was freed.
    pub fn launch(&self, geometry: Geometry, form: Form, arguments: &Arguments) -> Result<G::Launch, Fault> {
        self.touched(geometry, form, arguments)?;
        // SAFETY: the arguments are of the number, kinds, ranges and extents that the kernel keeps to.
        #[allow(unsafe_code)]
        unsafe {
            G::prepare(&self.function, geometry, form, arguments)
        }
    }
}
