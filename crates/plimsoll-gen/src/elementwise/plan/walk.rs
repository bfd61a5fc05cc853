//! The tensors of one launch as a planner sees them: common extents, strides, and how their addresses are aligned.

use plimsoll_expr::{Graph, Space};

use super::PlanError;
use crate::elementwise::spec::element_bytes;

/// Addresses are told apart modulo this many bytes, the widest access of any device.
pub const ALIGNMENT: u32 = 32;

/// How one tensor is walked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Access {
    /// Elements from one index to the next, one per dimension.
    pub strides: Vec<i64>,
    /// The address of the element of index 0, modulo 32.
    pub phase: u32,
}

/// Extents, slowest dimension first, and how each tensor is walked: inputs in order, then outputs. Equal walks of an
/// expression have equal plans, so it is the key of a cache of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Walk {
    /// Elements along each dimension.
    pub extents: Vec<u64>,
    /// Inputs, then outputs.
    pub accesses: Vec<Access>,
}

impl Walk {
    /// The walk over `space`, whose tensors are the inputs in order, then the outputs, in as few dimensions as the expression
    /// allows. `starts` are the addresses of their elements of index 0: the memory's plus the offset's.
    ///
    /// # Errors
    /// If there aren't as many tensors as the expression has, or an address isn't aligned to its element.
    pub fn new(graph: &Graph, space: &Space, starts: &[u64]) -> Result<Self, PlanError> {
        let bytes = element_bytes(graph);
        if starts.len() != bytes.len() || space.accesses().len() != bytes.len() {
            let scalars = graph.scalars().len();
            return Err(PlanError::Count { tensors: bytes.len(), scalars, given: (starts.len(), scalars) });
        }
        for (tensor, (&start, &bytes)) in starts.iter().zip(&bytes).enumerate() {
            if start % u64::from(bytes) != 0 {
                return Err(PlanError::Misaligned { tensor, start, bytes });
            }
        }
        // Coordinates are those of the dimensions as they are; places only need their order.
        let space = match (graph.least_rank(), graph.depends_on_place()) {
            (0, false) => space.ordered_by(graph.inputs().len()).collapsed(),
            (0, true) => space.collapsed(),
            _ => space.clone(),
        };
        let phase = |start: &u64| (start % u64::from(ALIGNMENT)) as u32;
        let access = |(access, start): (&plimsoll_expr::layout::Access, &u64)| Access {
            strides: access.strides.clone(),
            phase: phase(start),
        };
        Ok(Self {
            extents: space.extents().to_vec(),
            accesses: space.accesses().iter().zip(starts).map(access).collect(),
        })
    }

    /// Elements that are visited.
    #[must_use]
    pub fn elements(&self) -> u64 {
        self.extents.iter().product()
    }
}
