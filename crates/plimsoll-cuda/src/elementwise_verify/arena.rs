//! Tensors on the device with what they hold on the host: awkward values, poison, and margins that must stay as they were.

use plimsoll_core::Fault;
use plimsoll_core::stats::Rng;
use plimsoll_expr::function::mix;
use plimsoll_expr::random::value;
use plimsoll_expr::{DType, Layout, Value};

use crate::CudaDevice;
use crate::elementwise::Operand;
use crate::memory::DeviceBuffer;

/// Bytes before and behind every tensor.
const MARGIN: u64 = 256;
/// What margins, gaps and outputs hold before.
const POISON: u8 = 0xa5;
/// What all random draws follow from: every run on every machine checks the same.
pub(super) const SEED: u64 = 0x70;
/// Values of a type that elements are taken from.
const POOL: usize = 509;

/// A tensor with margins, on both sides of the bus.
pub(super) struct Tensor {
    buffer: DeviceBuffer,
    /// What the device's memory held when it was filled.
    held: Vec<u8>,
    pub(super) dtype: DType,
    pub(super) layout: Layout,
}

impl Tensor {
    /// A tensor of random values, or of poison where there is no generator.
    pub(super) fn new(
        device: &CudaDevice,
        dtype: DType,
        layout: Layout,
        random: Option<&mut Rng>,
    ) -> Result<Self, Fault> {
        let bytes = dtype.bytes();
        let elements = layout.span().map_or(0, |(_, last)| last + 1);
        let mut held = vec![POISON; usize::try_from(2 * MARGIN + elements * bytes).unwrap_or(usize::MAX)];
        if let Some(rng) = random {
            let pool: Vec<u64> = (0..POOL).map(|_| dtype.encode(value(dtype, rng))).collect();
            let seed = mix(pool.iter().fold(elements, |seed, bits| mix(seed ^ bits)));
            let inside = held[MARGIN as usize..].chunks_exact_mut(bytes as usize).take(elements as usize);
            for (place, element) in (0_u64..).zip(inside) {
                let bits = pool[mix(seed ^ place) as usize % POOL];
                element.copy_from_slice(&bits.to_le_bytes()[..bytes as usize]);
            }
        }
        let buffer = DeviceBuffer::new(&device.context, held.len() as u64)?;
        buffer.upload(&device.stream, &held)?;
        Ok(Self { buffer, held, dtype, layout })
    }

    /// Fills it as it was.
    pub(super) fn restore(&self, device: &CudaDevice) -> Result<(), Fault> {
        self.buffer.upload(&device.stream, &self.held)
    }

    pub(super) fn operand(&self) -> Result<Operand, Fault> {
        let inside = self.buffer.part(MARGIN, self.held.len() as u64 - 2 * MARGIN)?;
        Ok(Operand::new(inside, self.dtype, self.layout.clone()))
    }

    /// Its element as it was filled.
    pub(super) fn element(&self, offset: u64) -> Option<Value> {
        self.dtype.read(&self.held[MARGIN as usize..], offset)
    }

    /// What the device's memory holds now.
    pub(super) fn now(&self, device: &CudaDevice) -> Result<Now<'_>, Fault> {
        let mut bytes = vec![0; self.held.len()];
        self.buffer.download(&device.stream, &mut bytes)?;
        Ok(Now { tensor: self, bytes })
    }
}

/// A tensor after a launch.
pub(super) struct Now<'t> {
    tensor: &'t Tensor,
    bytes: Vec<u8>,
}

impl Now<'_> {
    /// Its element at an offset.
    pub(super) fn element(&self, offset: u64) -> Option<Value> {
        self.tensor.dtype.read(&self.bytes[MARGIN as usize..], offset)
    }

    /// The first byte, from the tensor's start on, that is not as it was and belongs to no element of `written`.
    pub(super) fn stray(&self, written: &[u64]) -> Option<i64> {
        let size = self.tensor.dtype.bytes() as usize;
        let mut ours = vec![false; self.bytes.len()];
        for &offset in written {
            let start = MARGIN as usize + offset as usize * size;
            ours[start..start + size].fill(true);
        }
        let differs = |place: &usize| !ours[*place] && self.bytes[*place] != self.tensor.held[*place];
        (0..self.bytes.len()).find(differs).map(|place| place as i64 - MARGIN as i64)
    }
}
