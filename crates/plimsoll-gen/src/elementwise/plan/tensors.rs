//! The tensors of a launch: which are contiguous, and which need coordinates, with which strides.

use plimsoll_expr::Graph;

use super::Indexing;
use crate::elementwise::spec::element_bytes;

/// One tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// Bytes of an element.
    pub bytes: u32,
    /// Address of the element of index 0, modulo 32.
    pub phase: u32,
    /// Read or written at all.
    pub used: bool,
    /// Written.
    pub output: bool,
    /// One element for all.
    pub uniform: bool,
    /// Contiguous in row-major order.
    pub linear: bool,
    /// Stride in elements along each dimension.
    pub strides: Vec<i64>,
}

/// All tensors and their common extents, with at least one dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensors {
    /// Inputs, then outputs.
    pub all: Vec<Tensor>,
    /// Elements along each dimension.
    pub extents: Vec<u64>,
    /// Number of elements.
    pub elements: u64,
}

impl Tensors {
    /// The tensors of an [`Indexing`].
    pub fn new(graph: &Graph, indexing: &Indexing) -> Self {
        let scalar = indexing.extents.is_empty();
        let extents = if scalar { vec![1] } else { indexing.extents.clone() };
        let reads = graph.reads();
        // A single element is treated as contiguous, so that it uses the same kernel as longer tensors.
        let several = extents.iter().any(|&extent| extent > 1);
        let tensor = |(place, (access, bytes)): (usize, (&super::Access, u32))| {
            let output = place >= reads.len();
            let strides = if scalar { vec![i64::from(output)] } else { access.strides.clone() };
            Tensor {
                bytes,
                phase: access.phase,
                used: output || reads[place],
                output,
                uniform: several
                    && !output
                    && strides.iter().zip(&extents).all(|(&stride, &extent)| stride == 0 || extent == 1),
                linear: is_linear(&strides, &extents),
                strides,
            }
        };
        let all = indexing.accesses.iter().zip(element_bytes(graph)).enumerate().map(tensor).collect();
        Self { all, elements: indexing.elements(), extents }
    }

    /// Used tensors that aren't a single element for all.
    pub fn moving(&self) -> impl Iterator<Item = &Tensor> {
        self.all.iter().filter(|tensor| tensor.used && !tensor.uniform)
    }

    /// Bytes of the smallest element among those.
    pub fn narrowest(&self) -> u32 {
        self.moving().map(|tensor| tensor.bytes).min().unwrap_or(1)
    }

    /// True if every tensor is contiguous or a single element.
    pub fn flat(&self) -> bool {
        self.moving().all(|tensor| tensor.linear)
    }

    /// Number of distinct elements of a tensor that are accessed.
    fn distinct_elements(&self, tensor: &Tensor) -> u64 {
        let dimensions = tensor.strides.iter().zip(&self.extents).filter(|(stride, _)| **stride != 0);
        dimensions.map(|(_, extent)| extent).product()
    }

    /// Bytes that a launch moves: each accessed element once.
    pub fn bytes_moved(&self) -> u64 {
        let moved = |tensor: &Tensor| self.distinct_elements(tensor).saturating_mul(tensor.bytes.into());
        self.all.iter().filter(|tensor| tensor.used).map(moved).fold(0, u64::saturating_add)
    }

    /// True if the tensor is broadcast such that less than a quarter of the accesses are to new elements.
    pub fn comes_from_cache(&self, tensor: &Tensor) -> bool {
        self.distinct_elements(tensor).saturating_mul(4) < self.elements
    }

    /// Number of inputs that come from memory.
    pub fn streamed_inputs(&self) -> u32 {
        self.moving().filter(|tensor| !tensor.output && !self.comes_from_cache(tensor)).count() as u32
    }

    /// True if every index, even `tile` beyond the last, and every offset fits into 31 bits.
    pub fn small(&self, tile: u64) -> bool {
        let most = i128::from(i32::MAX);
        let reach = |tensor: &Tensor| -> i128 {
            let far = tensor.strides.iter().zip(&self.extents);
            far.map(|(stride, extent)| i128::from(stride.unsigned_abs()) * i128::from(extent - 1)).sum()
        };
        i128::from(self.elements) + i128::from(tile) <= most && self.moving().all(|tensor| reach(tensor) <= most)
    }
}

/// Whether the strides are row-major and contiguous; dimensions of extent 1 don't matter.
fn is_linear(strides: &[i64], extents: &[u64]) -> bool {
    let mut expected = 1_i128;
    for (&stride, &extent) in strides.iter().zip(extents).rev() {
        if extent != 1 && i128::from(stride) != expected {
            return false;
        }
        expected *= i128::from(extent);
    }
    true
}
