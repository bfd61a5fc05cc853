//! Tensors on the device with a copy of their initial content on the host: awkward values, poison, and margins that must not
//! change.

use plimsoll_core::Fault;
use plimsoll_core::stats::Rng;
use plimsoll_expr::function::mix;
use plimsoll_expr::random::value;
use plimsoll_expr::{DType, Layout, Value};

use crate::CudaDevice;
use crate::elementwise::Operand;
use crate::memory::DeviceBuffer;

/// Bytes before and after every tensor.
const MARGIN: u64 = 256;
/// Initial bytes of margins, gaps and outputs.
const POISON: u8 = 0xa5;
/// The fixed seed of all random draws: every run on every machine checks the same cases.
pub(super) const SEED: u64 = 0x70;
/// Number of different values per tensor, from which elements are taken.
const POOL: usize = 509;

/// A tensor with margins on the device, and its initial content on the host.
pub(super) struct Tensor {
    buffer: DeviceBuffer,
    initial: Vec<u8>,
    pub(super) dtype: DType,
    pub(super) layout: Layout,
}

impl Tensor {
    /// A tensor of random values, or of poison if `random` is `None`.
    pub(super) fn new(
        device: &CudaDevice,
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
        let buffer = DeviceBuffer::new(&device.context, initial.len() as u64)?;
        buffer.upload(&device.stream, &initial)?;
        Ok(Self { buffer, initial, dtype, layout })
    }

    /// Restores its initial content.
    pub(super) fn restore(&self, device: &CudaDevice) -> Result<(), Fault> {
        self.buffer.upload(&device.stream, &self.initial)
    }

    pub(super) fn operand(&self) -> Result<Operand, Fault> {
        let inside = self.buffer.part(MARGIN, self.initial.len() as u64 - 2 * MARGIN)?;
        Ok(Operand::new(inside, self.dtype, self.layout.clone()))
    }

    /// The initial value of an element.
    pub(super) fn element(&self, offset: u64) -> Option<Value> {
        self.dtype.read(&self.initial[MARGIN as usize..], offset)
    }

    /// Reads its current content from the device.
    pub(super) fn download(&self, device: &CudaDevice) -> Result<Downloaded<'_>, Fault> {
        let mut bytes = vec![0; self.initial.len()];
        self.buffer.download(&device.stream, &mut bytes)?;
        Ok(Downloaded { tensor: self, bytes })
    }
}

/// A tensor's content after a launch.
pub(super) struct Downloaded<'t> {
    tensor: &'t Tensor,
    bytes: Vec<u8>,
}

impl Downloaded<'_> {
    /// The element at an offset.
    pub(super) fn element(&self, offset: u64) -> Option<Value> {
        self.tensor.dtype.read(&self.bytes[MARGIN as usize..], offset)
    }

    /// The first byte, relative to the tensor's start, that has changed and belongs to no element of `written`.
    pub(super) fn stray_write(&self, written: &[u64]) -> Option<i64> {
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
