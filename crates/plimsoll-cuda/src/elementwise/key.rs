//! By what a call finds the plan that was made for tensors like its own: a hash of layouts, alignments and what was chosen by
//! hand, and the key that tells apart what hashes alike. Nothing allocates but making a key.

use std::hash::{BuildHasher, Hash, Hasher};

use plimsoll_expr::Layout;
use plimsoll_gen::elementwise::Choose;

use super::operand::{Extent, Raw};

/// What a plan was made for.
pub(super) struct Key {
    pub(super) choose: Choose,
    extents: Vec<(OwnedExtent, u8)>,
}

enum OwnedExtent {
    Flat(u64),
    Laid(Layout),
}

/// How an address is aligned, as far as plans tell.
fn phase(tensor: &Raw<'_>) -> u8 {
    (tensor.start() % 32) as u8
}

impl Key {
    /// For tensors as they are and what was chosen.
    pub(super) fn of(tensors: &[Raw<'_>], choose: &Choose) -> Self {
        let extent = |tensor: &Raw<'_>| match tensor.extent {
            Extent::Flat(length) => (OwnedExtent::Flat(length), phase(tensor)),
            Extent::Laid(layout) => (OwnedExtent::Laid(layout.clone()), phase(tensor)),
        };
        Self { choose: *choose, extents: tensors.iter().map(extent).collect() }
    }

    /// Whether it is of tensors like these, whatever was chosen.
    pub(super) fn is_of(&self, tensors: &[Raw<'_>]) -> bool {
        let same = |((own, own_phase), tensor): (&(OwnedExtent, u8), &Raw<'_>)| {
            *own_phase == phase(tensor)
                && match (own, tensor.extent) {
                    (OwnedExtent::Flat(own), Extent::Flat(length)) => *own == length,
                    (OwnedExtent::Laid(own), Extent::Laid(layout)) => own == layout,
                    _ => false,
                }
        };
        self.extents.len() == tensors.len() && self.extents.iter().zip(tensors).all(same)
    }
}

/// Multiply and rotate (Firefox's `FxHasher`): layouts come from the program itself.
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

/// Hashes are made by [`hash`]; the map takes them as they are.
#[derive(Clone, Copy, Default)]
pub(super) struct AsIs;

impl BuildHasher for AsIs {
    type Hasher = Mix;

    fn build_hasher(&self) -> Mix {
        Mix(0)
    }
}

/// The same for calls with tensors like these.
pub(super) fn hash(tensors: &[Raw<'_>], choose: &Choose) -> u64 {
    let mut mix = Mix(0);
    // Few programs choose by hand, and those that do are told apart by the key.
    let Choose { dependent, cached, tier, .. } = *choose;
    mix.write_u64(u64::from(dependent) | u64::from(cached) << 1 | (tier as u64) << 2);
    if *choose != (Choose { dependent, cached, tier, ..Choose::default() }) {
        choose.hash(&mut mix);
    }
    for tensor in tensors {
        match tensor.extent {
            Extent::Flat(length) => mix.write_u64(length),
            Extent::Laid(layout) => layout.hash(&mut mix),
        }
        mix.write_u64(phase(tensor).into());
    }
    mix.finish()
}
