//! The order in which tensors are indexed: which dimensions are merged, their order, the size of a tile, and whether stores
//! bypass the caches.

use plimsoll_expr::graph::MAX_RANK;
use plimsoll_expr::layout::Shape;
use plimsoll_expr::{Graph, Layout, LayoutError, Space};

use super::error::Error;
use crate::arch::vectored::{Access, Tiling, TilingError};
use crate::arch::{Isa, best};

/// Bytes of scratch memory for a tile: an L1 of 32 KiB or more, less room for the streams.
const SCRATCH: usize = 20 << 10;
/// Fewest and most elements of a tile. Fewer, and the calls cost time; more bring no gain.
const TILE: (usize, usize) = (256, 4096);
/// Rows shorter than this share a tile.
const ROW: u64 = 256;
/// Rows of a block, for tensors that are contiguous along another dimension: their elements fill a cache line or two.
const BLOCK_ROWS: usize = 32;
/// Smallest extent for which blocks are worthwhile.
const LEAST_BLOCK: u64 = 8;

/// When stores bypass the caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorePolicy {
    /// Never.
    Ordinary,
    /// Always, if the instruction set has such stores.
    NonTemporal,
    /// If the outputs are larger than this many bytes (the size of the last-level cache).
    Beyond(u64),
}

/// Options for preparing a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct How {
    /// Most members of the teams that will run it, at least 1.
    pub threads: usize,
    /// The instruction set.
    pub isa: Isa,
    /// When stores bypass the caches.
    pub stores: StorePolicy,
}

impl How {
    /// The widest instruction set, and ordinary stores.
    #[must_use]
    pub fn for_threads(threads: usize) -> Self {
        Self { threads, isa: best(), stores: StorePolicy::Ordinary }
    }
}

/// The common index space of the tensors, and its tiles.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    space: Space,
    shape: Tiles,
    widths: Vec<u8>,
    inputs: usize,
    /// Stores bypass the caches.
    pub nontemporal: bool,
}

/// The shape of tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tiles {
    /// Parts of one row.
    Row,
    /// Whole rows.
    Rows,
    /// Some rows by some columns.
    Block,
}

impl Plan {
    /// Checks layouts against each other and orders their dimensions.
    pub(super) fn new(graph: &Graph, inputs: &[Layout], outputs: &[Layout], how: &How) -> Result<Self, Error> {
        check_layouts(graph, inputs, outputs)?;
        let layouts: Vec<Layout> = inputs.iter().chain(outputs).cloned().collect();
        let whole = Space::with_shape(outputs[0].shape(), &layouts)?;
        let fixed = graph.depends_on_place();
        let space = if fixed { whole } else { whole.ordered_by(inputs.len()).collapsed() };
        let across = if fixed { None } else { find_contiguous_dimension(&space) };
        let space = match across {
            Some(dimension) => move_next_to_last(&space, dimension)?,
            None => space,
        };
        let fastest = space.extents().last().copied().unwrap_or(1);
        let shape = match across {
            Some(_) => Tiles::Block,
            None if fastest < ROW && space.extents().len() > 1 => Tiles::Rows,
            None => Tiles::Row,
        };
        let types = graph.inputs().iter().map(|input| input.dtype);
        let types = types.chain(graph.outputs().iter().map(|output| output.dtype));
        let stored = graph.outputs().iter().map(|output| output.dtype.bytes().saturating_mul(space.elements()));
        let written = stored.fold(0, u64::saturating_add);
        let nontemporal = how.isa.has_nontemporal()
            && match how.stores {
                StorePolicy::Ordinary => false,
                StorePolicy::NonTemporal => true,
                StorePolicy::Beyond(bytes) => written > bytes,
            };
        let widths = types.map(|dtype| dtype.bytes() as u8).collect();
        Ok(Self { space, shape, widths, inputs: inputs.len(), nontemporal })
    }

    /// Whether every tile of a stream (inputs, then outputs) is contiguous.
    pub(super) fn is_dense(&self, stream: usize) -> bool {
        let strides = &self.space.accesses()[stream].strides;
        let extents = self.space.extents();
        let unit = strides.last().is_none_or(|&stride| stride == 1) || extents.last() == Some(&1);
        let rank = extents.len();
        let whole = || {
            let next = strides.get(rank.wrapping_sub(2)).is_none_or(|&stride| stride as u64 == extents[rank - 1]);
            next || extents[rank - 2] == 1
        };
        match self.shape {
            Tiles::Row => unit,
            Tiles::Rows => unit && whole(),
            Tiles::Block => false,
        }
    }

    /// Bytes of an element of each input, and of each output.
    pub(super) fn widths(&self) -> (&[u8], &[u8]) {
        self.widths.split_at(self.inputs)
    }

    /// The tiling for slots that take `bytes_per_element`.
    pub(super) fn build_tiling(&self, bytes_per_element: usize) -> Result<Tiling, Error> {
        let fitting = (SCRATCH / bytes_per_element.max(1)).clamp(TILE.0, TILE.1);
        let tile = 1 << fitting.ilog2();
        let fastest = self.space.extents().last().copied().unwrap_or(1);
        let fastest = usize::try_from(fastest).unwrap_or(usize::MAX);
        let tile = match self.shape {
            Tiles::Row => (1, tile),
            Tiles::Rows => (tile / fastest.max(1), fastest),
            Tiles::Block => (BLOCK_ROWS.min(tile), tile / BLOCK_ROWS.min(tile)),
        };
        let accesses: Vec<Access> = self
            .space
            .accesses()
            .iter()
            .zip(&self.widths)
            .map(|(access, &width)| Access { offset: access.offset, strides: access.strides.clone(), width })
            .collect();
        Tiling::new(self.space.extents(), &accesses, tile).map_err(|fault| match fault {
            TilingError::TooLarge => LayoutError::TooLarge(Shape(self.space.extents().to_vec())).into(),
            TilingError::Rank(_) => Error::Internal(fault.to_string()),
        })
    }
}

/// All checks of layouts that don't need memory.
fn check_layouts(graph: &Graph, inputs: &[Layout], outputs: &[Layout]) -> Result<(), Error> {
    let counts = [("inputs", graph.inputs().len(), inputs.len()), ("outputs", graph.outputs().len(), outputs.len())];
    for (what, expected, given) in counts {
        if expected != given {
            return Err(Error::Count { what, expected, given });
        }
    }
    let shape = outputs[0].shape();
    let (needed, given) = (graph.least_rank(), shape.len());
    if needed > given || given > MAX_RANK {
        return Err(Error::Rank { needed, given });
    }
    let named = graph.inputs().iter().map(|input| (&input.name, input.dtype));
    let named = named.chain(graph.outputs().iter().map(|output| (&output.name, output.dtype)));
    for ((name, dtype), layout) in named.zip(inputs.iter().chain(outputs)) {
        layout.memory(dtype.bytes()).map_err(|fault| Error::Memory { name: name.clone(), fault })?;
    }
    for (output, layout) in graph.outputs().iter().zip(outputs) {
        if layout.shape() != shape {
            let (given, expected) = (Shape(layout.shape().to_vec()), Shape(shape.to_vec()));
            let first = graph.outputs()[0].name.clone();
            return Err(Error::Shape { name: output.name.clone(), given, first, expected });
        }
        if layout.may_overlap_itself() {
            return Err(Error::SharedElements(output.name.clone()));
        }
        if let Some(input) = output.in_place
            && inputs.get(input as usize) != Some(layout)
        {
            return Err(Error::InPlace(output.name.clone()));
        }
    }
    for (input, layout) in graph.inputs().iter().zip(inputs) {
        if let Err(fault) = layout.broadcast_to(shape) {
            return Err(Error::Input { name: input.name.clone(), fault });
        }
    }
    Ok(())
}

/// The dimension along which some tensor is contiguous, if that isn't the fastest one.
fn find_contiguous_dimension(space: &Space) -> Option<usize> {
    let extents = space.extents();
    let last = extents.len().checked_sub(1).filter(|&last| last > 0 && extents[last] >= LEAST_BLOCK)?;
    let across = |strides: &[i64]| {
        let gaps = strides[last].unsigned_abs() > 1;
        let unit = (0..last).find(|&d| strides[d].unsigned_abs() == 1 && extents[d] >= LEAST_BLOCK);
        unit.filter(|_| gaps)
    };
    space.accesses().iter().find_map(|access| across(&access.strides))
}

/// The same space with `dimension` moved to the last but one.
fn move_next_to_last(space: &Space, dimension: usize) -> Result<Space, Error> {
    let last = space.extents().len() - 1;
    let mut order: Vec<usize> = (0..last).filter(|&other| other != dimension).collect();
    order.extend([dimension, last]);
    let pick = |values: &[i64]| -> Vec<i64> { order.iter().map(|&dimension| values[dimension]).collect() };
    let extents: Vec<u64> = order.iter().map(|&dimension| space.extents()[dimension]).collect();
    let layouts =
        space.accesses().iter().map(|access| Layout::strided(&extents, &pick(&access.strides), access.offset));
    Ok(Space::with_shape(&extents, &layouts.collect::<Result<Vec<_>, _>>()?)?)
}
