//! Looks up the plan for a call: a hash of layouts, alignments and forced choices, and a key that resolves hash collisions. Only
//! creating a key allocates.

use std::hash::{BuildHasher, Hash, Hasher};

use plimsoll_expr::{DType, Layout, LayoutError};
use plimsoll_gen::elementwise::Choose;

use super::backend::Elementwise;
use super::operand::{Extent, TensorRef};

/// The layouts, types, alignments and choices that a plan was made for.
pub(super) struct Key {
    pub(super) choose: Choose,
    tensors: Vec<(OwnedExtent, (DType, u8))>,
}

enum OwnedExtent {
    Flat(u64),
    Laid(Layout),
}

/// The type, and the alignment of the address as far as plans depend on it.
fn element<G: Elementwise>(tensor: &TensorRef<'_, G>) -> (DType, u8) {
    (tensor.dtype, alignment(tensor))
}

/// Alignment of an address, as far as plans depend on it: its offset within 32 bytes.
fn alignment<G: Elementwise>(tensor: &TensorRef<'_, G>) -> u8 {
    (tensor.start() % 32) as u8
}

impl Key {
    /// The key of these tensors and choices.
    ///
    /// # Errors
    /// An invalid layout.
    pub(super) fn new<G: Elementwise>(tensors: &[TensorRef<'_, G>], choose: &Choose) -> Result<Self, LayoutError> {
        let extent = |tensor: &TensorRef<'_, G>| {
            let extent = match tensor.extent {
                Extent::Flat(length) => OwnedExtent::Flat(length),
                other => OwnedExtent::Laid(other.layout()?),
            };
            Ok((extent, element(tensor)))
        };
        Ok(Self { choose: *choose, tensors: tensors.iter().map(extent).collect::<Result<_, _>>()? })
    }

    /// Whether these tensors have the same layouts, types and alignments; choices are not compared.
    pub(super) fn matches<G: Elementwise>(&self, tensors: &[TensorRef<'_, G>]) -> bool {
        let same = |((own, own_element), tensor): (&(OwnedExtent, (DType, u8)), &TensorRef<'_, G>)| {
            *own_element == element(tensor)
                && match (own, tensor.extent) {
                    (OwnedExtent::Flat(own), Extent::Flat(length)) => *own == length,
                    (OwnedExtent::Laid(own), Extent::Laid(layout)) => own == layout,
                    (OwnedExtent::Laid(own), Extent::Foreign(tensor)) => tensor.has_layout(own),
                    _ => false,
                }
        };
        self.tensors.len() == tensors.len() && self.tensors.iter().zip(tensors).all(same)
    }
}

/// Multiplies and rotates like Firefox's `FxHasher`. It needn't resist attacks, since layouts come from the program itself.
pub(super) struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for word in bytes.chunks(8) {
            self.write_u64(word.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)));
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
    }

    fn write_u32(&mut self, word: u32) {
        self.write_u64(word.into());
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }
}

/// The hash builder of maps whose keys are hashes made by [`hash`].
#[derive(Clone, Copy, Default)]
pub(super) struct Prehashed;

impl BuildHasher for Prehashed {
    type Hasher = Mix;

    fn build_hasher(&self) -> Mix {
        Mix(0)
    }
}

/// A hash that is equal for calls with equal layouts, alignments and choices.
pub(super) fn hash<G: Elementwise>(tensors: &[TensorRef<'_, G>], choose: &Choose) -> u64 {
    let mut mix = Mix(0);
    // Most programs force no choices, so the full hash of the choices is rarely needed.
    let Choose { dependent, cached, tier, .. } = *choose;
    mix.write_u64(u64::from(dependent) | u64::from(cached) << 1 | (tier as u64) << 2);
    if *choose != (Choose { dependent, cached, tier, ..Choose::default() }) {
        choose.hash(&mut mix);
    }
    for tensor in tensors {
        match tensor.extent {
            Extent::Flat(length) => mix.write_u64(length),
            Extent::Laid(layout) => layout.hash(&mut mix),
            Extent::Foreign(tensor) => {
                mix.write_usize(tensor.shape.len());
                tensor.shape.iter().for_each(|extent| mix.write_u64(*extent));
                tensor.strides.iter().for_each(|stride| mix.write_u64(stride.cast_unsigned()));
            }
        }
        mix.write_u64(alignment(tensor).into());
    }
    mix.finish()
}
