//! Tensors on the device with a copy of their initial content on the host: awkward values, poison, and margins that must not
//! change.

use std::sync::Arc;

use plimsoll_core::Fault;
use plimsoll_core::stats::Rng;
use plimsoll_expr::function::mix;
use plimsoll_expr::random::value;
use plimsoll_expr::{DType, Layout, Value};

use crate::Memory as _;
use crate::elementwise::{Elementwise, Operand};

/// Bytes before and after every tensor.
const MARGIN: u64 = 256;
/// Initial bytes of margins, gaps and outputs.
const POISON: u8 = 0xa5;
/// The fixed seed of all random draws: every run on every machine checks the same cases.
pub(super) const SEED: u64 = 0x70;
/// Number of different values per tensor, from which elements are taken.
const POOL: usize = 509;

/// A tensor with margins on the device, and its initial content on the host.
pub(super) struct Tensor<G: Elementwise> {
    stream: Arc<G::Stream>,
    buffer: G::Buffer,
    initial: Vec<u8>,
    pub(super) dtype: DType,
    pub(super) layout: Layout,
}

impl<G: Elementwise> Tensor<G> {
    /// A tensor of random values, or of poison if `random` is `None`.
    pub(super) fn new(
        stream: &Arc<G::Stream>,
        dtype: DType,
        layout: Layout,
        random: Option<&mut Rng>,
    ) -> Result<Self, Fault> {
        let bytes = dtype.bytes();
        let elements = layout.span().map_or(0, |(_, last)| last + 1);
        let mut initial = vec![POISON; usize::try_from(2 * MARGIN + elements * bytes).unwrap_or(usize::MAX)];
        if let Some(rng) = random {
            let pool: Vec<u64> = (0..POOL).map(|_| dtype.encode(value(dtype, rng))).collect();
            let seed = mix(pool.iter().fold(elements, |seed, bits| mix(seed ^ bits)));
            let inside = initial[MARGIN as usize..].chunks_exact_mut(bytes as usize).take(elements as usize);
            for (place, element) in (0_u64..).zip(inside) {
                let bits = pool[mix(seed ^ place) as usize % POOL];
                element.copy_from_slice(&bits.to_le_bytes()[..bytes as usize]);
            }
        }
        Self::from_initial(stream, dtype, layout, initial)
    }

    /// A tensor whose elements have these bytes.
    pub(super) fn with_content(
        stream: &Arc<G::Stream>,
        dtype: DType,
        layout: Layout,
        content: &[u8],
    ) -> Result<Self, Fault> {
        let margin = [POISON; MARGIN as usize];
        Self::from_initial(stream, dtype, layout, [&margin, content, &margin].concat())
    }

    fn from_initial(stream: &Arc<G::Stream>, dtype: DType, layout: Layout, initial: Vec<u8>) -> Result<Self, Fault> {
        let buffer = G::allocate(stream, initial.len() as u64)?;
        G::upload(stream, buffer.whole(), &initial)?;
        Ok(Self { stream: Arc::clone(stream), buffer, initial, dtype, layout })
    }

    /// Restores its initial content.
    pub(super) fn restore(&self) -> Result<(), Fault> {
        G::upload(&self.stream, self.buffer.whole(), &self.initial)
    }

    pub(super) fn operand(&self) -> Result<Operand<G>, Fault> {
        let inside = self.buffer.part(MARGIN, self.initial.len() as u64 - 2 * MARGIN)?;
        Ok(Operand::new(inside, self.dtype, self.layout.clone()))
    }

    /// The initial value of an element.
    pub(super) fn element(&self, offset: u64) -> Option<Value> {
        self.dtype.read(&self.initial[MARGIN as usize..], offset)
    }

    /// Reads its current content from the device.
    pub(super) fn download(&self) -> Result<Downloaded<'_, G>, Fault> {
        let mut bytes = vec![0; self.initial.len()];
        G::download(&self.stream, self.buffer.whole(), &mut bytes)?;
        Ok(Downloaded { tensor: self, bytes })
    }
}

/// A tensor's content after a launch.
pub(super) struct Downloaded<'t, G: Elementwise> {
    tensor: &'t Tensor<G>,
    bytes: Vec<u8>,
}

impl<G: Elementwise> Downloaded<'_, G> {
    /// The element at an offset.
    pub(super) fn element(&self, offset: u64) -> Option<Value> {
        self.tensor.dtype.read(&self.bytes[MARGIN as usize..], offset)
    }

    /// The first byte, relative to the tensor's start, that has changed and belongs to no element of `written`.
    pub(super) fn find_stray_write(&self, written: &[u64]) -> Option<i64> {
        let size = self.tensor.dtype.bytes() as usize;
        let mut expected = vec![false; self.bytes.len()];
        for &offset in written {
            let start = MARGIN as usize + offset as usize * size;
            expected[start..start + size].fill(true);
        }
        let differs = |place: &usize| !expected[*place] && self.bytes[*place] != self.tensor.initial[*place];
        (0..self.bytes.len()).find(differs).map(|place| place as i64 - MARGIN as i64)
    }
}
