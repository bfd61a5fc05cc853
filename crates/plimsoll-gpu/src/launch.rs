//! Launches: a kernel with its geometry, arguments and form. A launch that safe code makes is checked against the description of
//! its kernel.

use std::fmt;
use std::sync::Arc;

use plimsoll_core::Fault;
use plimsoll_gen::kernel::{KernelDesc, Number};

use crate::accept::{Touched, accept};
use crate::{Gpu, Memory, Span};

/// The largest number of parameters of a kernel.
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
    /// `blocks` blocks of `threads` threads, in one dimension.
    #[must_use]
    pub const fn linear(blocks: u32, threads: u32) -> Self {
        Self { grid: [blocks, 1, 1], block: [threads, 1, 1], shared: 0 }
    }

    /// Refuses an empty launch.
    ///
    /// # Errors
    /// [`Fault::Invalid`] if a dimension of the grid or of a block is 0.
    pub fn check(&self) -> Result<(), Fault> {
        let empty = self.grid.contains(&0) || self.block.contains(&0);
        if empty { Err(Fault::Invalid(format!("an empty launch: {self:?}"))) } else { Ok(()) }
    }
}

/// How a launch differs from a plain one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Form {
    /// May begin before the kernel before it in the stream has ended (CUDA: compute capability 9.0, driver 11.8).
    pub dependent: bool,
    /// All blocks are resident at once and may synchronise with each other.
    pub cooperative: bool,
    /// Blocks per cluster in x; 0 and 1 mean none (CUDA: compute capability 9.0).
    pub cluster: u32,
}

/// What a launch of a kernel consists of.
#[derive(Clone, Copy, Debug)]
pub struct Setup<'a> {
    /// Blocks, threads and shared memory.
    pub geometry: Geometry,
    /// How it differs from a plain launch.
    pub form: Form,
    /// The kernel's arguments.
    pub arguments: &'a Arguments,
}

/// The type of a passed argument.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// A pointer to device memory.
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
    /// Whether an argument of this type fits a parameter of that number type.
    pub(crate) fn is_number(self, number: Number) -> bool {
        matches!(
            (self, number),
            (Self::U64 | Self::I64, Number::U64)
                | (Self::U32 | Self::I32, Number::U32)
                | (Self::F32, Number::F32)
                | (Self::F64, Number::F64)
        )
    }

    /// Bytes of an argument of this type.
    #[must_use]
    pub fn bytes(self) -> u64 {
        if matches!(self, Self::U32 | Self::I32 | Self::F32) { 4 } else { 8 }
    }
}

/// The arguments of a kernel, in order. Memory must be passed as spans: an address passed as a number is only a number.
#[derive(Clone, Copy, Debug)]
pub struct Arguments {
    slots: [Slot; MOST_PARAMETERS],
    kinds: [Kind; MOST_PARAMETERS],
    count: usize,
    /// Memory that the kernel reaches through addresses stored in other memory.
    indirect: Option<Span>,
}

impl Default for Arguments {
    fn default() -> Self {
        Self { slots: [[0; 2]; MOST_PARAMETERS], kinds: [Kind::U64; MOST_PARAMETERS], count: 0, indirect: None }
    }
}

impl Arguments {
    /// No arguments yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How many arguments there are, including those beyond [`MOST_PARAMETERS`], which no launch accepts.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// The bits of the arguments, one slot each.
    #[must_use]
    pub fn slots(&self) -> &[Slot; MOST_PARAMETERS] {
        &self.slots
    }

    /// The types of the first [`MOST_PARAMETERS`] arguments.
    #[must_use]
    pub fn kinds(&self) -> &[Kind] {
        &self.kinds[..self.count.min(MOST_PARAMETERS)]
    }

    /// All memory that the arguments refer to, directly or through [`Arguments::with_indirect`].
    pub fn spans(&self) -> impl Iterator<Item = Span> {
        let kinds = self.kinds().iter();
        kinds.filter_map(|kind| if let Kind::Memory(span) = kind { Some(*span) } else { None }).chain(self.indirect)
    }

    fn push(mut self, bits: u64, kind: Kind) -> Self {
        if self.count < MOST_PARAMETERS {
            (self.slots[self.count][0], self.kinds[self.count]) = (bits, kind);
        }
        self.count += 1;
        self
    }

    /// Adds a pointer to a whole buffer.
    #[must_use]
    pub fn buffer(self, buffer: &impl Memory) -> Self {
        self.span(buffer.whole())
    }

    /// Adds a pointer to a part of a buffer.
    #[must_use]
    pub fn span(self, span: Span) -> Self {
        self.push(span.pointer(), Kind::Memory(span))
    }

    /// Names memory that the kernel reaches through addresses stored elsewhere. This adds no argument, but the launch keeps the
    /// memory alive.
    #[must_use]
    pub fn with_indirect(mut self, span: Span) -> Self {
        self.indirect = Some(span);
        self
    }

    /// Adds an `unsigned long long` or `size_t`.
    #[must_use]
    pub fn u64(self, value: u64) -> Self {
        self.push(value, Kind::U64)
    }

    /// Adds a `long long`.
    #[must_use]
    pub fn i64(self, value: i64) -> Self {
        self.push(value as u64, Kind::I64)
    }

    /// Adds an `unsigned`.
    #[must_use]
    pub fn u32(self, value: u32) -> Self {
        self.push(u64::from(value), Kind::U32)
    }

    /// Adds an `int`.
    #[must_use]
    pub fn i32(self, value: i32) -> Self {
        self.push(u64::from(value as u32), Kind::I32)
    }

    /// Adds a `float`.
    #[must_use]
    pub fn f32(self, value: f32) -> Self {
        self.push(u64::from(value.to_bits()), Kind::F32)
    }

    /// Adds a `double`.
    #[must_use]
    pub fn f64(self, value: f64) -> Self {
        self.push(value.to_bits(), Kind::F64)
    }
}

/// A kernel that is loaded on a device, with the description that its launches are checked against.
pub struct Kernel<G: Gpu> {
    function: G::Function,
    description: Arc<KernelDesc>,
}

impl<G: Gpu> Clone for Kernel<G> {
    fn clone(&self) -> Self {
        Self { function: self.function.clone(), description: Arc::clone(&self.description) }
    }
}

impl<G: Gpu> fmt::Debug for Kernel<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Kernel").field(&self.description.name).finish()
    }
}

impl<G: Gpu> Kernel<G> {
    /// Combines a function with its description.
    ///
    /// # Safety
    /// The function must be compiled from the described source and keep to the description: with arguments of the stated kinds and
    /// ranges it touches only the stated extents of its arrays, in the stated way, and, where no extent is stated, only the memory
    /// its probe passes.
    #[allow(unsafe_code)]
    pub unsafe fn new(function: G::Function, description: &KernelDesc) -> Self {
        Self { function, description: Arc::new(description.clone()) }
    }

    /// The backend's function.
    #[must_use]
    pub fn function(&self) -> &G::Function {
        &self.function
    }

    /// Checks the arguments and returns what a launch with them does with each array.
    ///
    /// # Errors
    /// [`Fault::Invalid`] for arguments whose number, kind, range, alignment or extent differs from the description, for an output
    /// that overlaps another array, for more threads than the kernel is compiled for, or for an empty geometry.
    pub fn touched(&self, geometry: Geometry, form: Form, arguments: &Arguments) -> Result<Vec<Touched>, Fault> {
        accept(&self.description, geometry, form, arguments)
    }

    /// Prepares a launch, checked against the kernel's description.
    ///
    /// # Errors
    /// Those of [`Kernel::touched`]; [`Fault::Invalid`] for memory that was freed.
    pub fn launch(&self, geometry: Geometry, form: Form, arguments: &Arguments) -> Result<G::Launch, Fault> {
        self.touched(geometry, form, arguments)?;
        // SAFETY: the check above found the number, kinds, ranges and extents of the arguments to be those that the kernel states.
        #[allow(unsafe_code)]
        unsafe {
            G::prepare(&self.function, Setup { geometry, form, arguments })
        }
    }
}
