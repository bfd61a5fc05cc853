//! What a walk's tensors look like: which are one run, which are found by coordinates and with which strides.

use plimsoll_expr::Graph;

use super::Walk;
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
    /// One run in the order of the walk.
    pub linear: bool,
    /// Elements from one index to the next.
    pub strides: Vec<i64>,
}

/// All tensors with the extents of their walk, at least one dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensors {
    /// Inputs, then outputs.
    pub all: Vec<Tensor>,
    /// Elements along each dimension.
    pub extents: Vec<u64>,
    /// All elements.
    pub elements: u64,
}

impl Tensors {
    /// Those of a walk.
    pub fn new(graph: &Graph, walk: &Walk) -> Self {
        let scalar = walk.extents.is_empty();
        let extents = if scalar { vec![1] } else { walk.extents.clone() };
        let reads = graph.reads();
        // A single element is as good as a run of one: it takes the kernel of longer ones.
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
        let all = walk.accesses.iter().zip(element_bytes(graph)).enumerate().map(tensor).collect();
        Self { all, elements: walk.elements(), extents }
    }

    /// Tensors whose elements differ from place to place.
    pub fn moving(&self) -> impl Iterator<Item = &Tensor> {
        self.all.iter().filter(|tensor| tensor.used && !tensor.uniform)
    }

    /// Bytes of the smallest element among those.
    pub fn narrowest(&self) -> u32 {
        self.moving().map(|tensor| tensor.bytes).min().unwrap_or(1)
    }

    /// True where every tensor is one run or one element.
    pub fn flat(&self) -> bool {
        self.moving().all(|tensor| tensor.linear)
    }

    /// Elements of one of them that are reached.
    fn reached(&self, tensor: &Tensor) -> u64 {
        let walked = tensor.strides.iter().zip(&self.extents).filter(|(stride, _)| **stride != 0);
        walked.map(|(_, extent)| extent).product()
    }

    /// Bytes that a launch moves: each element that is reached, once.
    pub fn bytes_moved(&self) -> u64 {
        let moved = |tensor: &Tensor| self.reached(tensor).saturating_mul(tensor.bytes.into());
        self.all.iter().filter(|tensor| tensor.used).map(moved).fold(0, u64::saturating_add)
    }

    /// True of tensors that are broadcast so that less than a quarter of the visits find new elements.
    pub fn comes_from_cache(&self, tensor: &Tensor) -> bool {
        self.reached(tensor).saturating_mul(4) < self.elements
    }

    /// Inputs that come from memory.
    pub fn streamed_inputs(&self) -> u32 {
        self.moving().filter(|tensor| !tensor.output && !self.comes_from_cache(tensor)).count() as u32
    }

    /// True where 32 bits do for every place, a block of `tile` further on too, and for every offset.
    pub fn small(&self, tile: u64) -> bool {
        let most = i128::from(i32::MAX);
        let reach = |tensor: &Tensor| -> i128 {
            let far = tensor.strides.iter().zip(&self.extents);
            far.map(|(stride, extent)| i128::from(stride.unsigned_abs()) * i128::from(extent - 1)).sum()
        };
        i128::from(self.elements) + i128::from(tile) <= most && self.moving().all(|tensor| reach(tensor) <= most)
    }
}

/// Extents of 1 have no say.
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
