//! The tensors of one launch as the planner sees them: common extents, strides, and alignment of addresses.

use plimsoll_expr::layout::{self, Shape};
use plimsoll_expr::{Graph, LayoutError, Space};

use super::PlanError;
use crate::elementwise::spec::element_bytes;

/// Plans depend on addresses modulo this many bytes, the widest access of any device.
pub const ALIGNMENT: u32 = 32;

/// How one tensor is indexed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Access {
    /// Stride in elements, one per dimension.
    pub strides: Vec<i64>,
    /// The address of the element of index 0, modulo 32.
    pub phase: u32,
}

/// The iteration space (slowest dimension first) and the indexing of each tensor: inputs in order, then outputs. An expression
/// has the same plan for equal indexing, so this is the key of the cache of plans.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Indexing {
    /// Elements along each dimension.
    pub extents: Vec<u64>,
    /// Inputs, then outputs.
    pub accesses: Vec<Access>,
}

impl Indexing {
    /// The indexing of `space`, whose tensors are the inputs in order, then the outputs; in as few dimensions as the expression
    /// allows. `starts` are the addresses of their elements of index 0: memory plus offset.
    ///
    /// # Errors
    /// If the number of tensors doesn't match the expression, or an address isn't aligned to its element.
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
        // Coordinates refer to the original dimensions; linear indices only need their order.
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

    /// Number of elements visited, saturating.
    #[must_use]
    pub fn elements(&self) -> u64 {
        if self.extents.contains(&0) {
            0
        } else {
            self.extents.iter().fold(1, |all, &extent| all.saturating_mul(extent))
        }
    }

    /// Checks that the bytes of all elements, and the bytes that each tensor spans, stay below 2⁶³, so that plans and kernels
    /// don't overflow. `bytes` are the element sizes of the tensors.
    pub(super) fn check(&self, bytes: &[u32]) -> Result<(), LayoutError> {
        let elements = i128::from(layout::elements(&self.extents)?);
        for (access, &bytes) in self.accesses.iter().zip(bytes).filter(|_| elements > 0) {
            let steps = self.extents.iter().zip(&access.strides);
            let span = steps.map(|(&extent, &stride)| i128::from(extent - 1) * i128::from(stride.unsigned_abs()));
            if span.sum::<i128>().max(elements) >= i128::from(i64::MAX) / i128::from(bytes.max(1)) {
                return Err(LayoutError::Memory(Shape(self.extents.clone()), bytes.into()));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_expr::{Names, parse};
    use proptest::prelude::*;

    use super::super::{Choose, Device, plan};
    use super::*;
    use crate::Target;
    use crate::elementwise::table::Table;

    /// Values at which arithmetic is most likely to overflow.
    fn edge() -> impl Strategy<Value = u64> {
        prop_oneof![
            4 => 0..5_u64,
            2 => (0..64_u32, 0..3_u64).prop_map(|(bit, off)| (1_u64 << bit).wrapping_add(off).wrapping_sub(1)),
            1 => any::<u64>(),
        ]
    }

    proptest! {
        #[test]
        fn planning_any_indexing_succeeds_or_returns_an_error(
            extents in prop::collection::vec(edge(), 0..=3),
            strides in prop::collection::vec((edge(), any::<bool>()), 9),
            capability in prop::sample::select(vec![80_u32, 90, 100]),
        ) {
            let target = Target::plain(capability);
            let device = Device { target, multiprocessors: 132, threads_per_multiprocessor: 2048, l2_bytes: 60 << 20 };
            let row_major: Vec<i64> = (0..extents.len())
                .map(|d| extents[d + 1..].iter().fold(1, |all: i64, &e| all.saturating_mul(e as i64)))
                .collect();
            for text in ["in x: f32, b: f64\ny: i8 = x + b", "in x: bf16, b: i64\ny = x + b + index(0)", "in x: f64\ny = x"] {
                let graph = parse(text, &Names::default()).unwrap();
                let mut accesses: Vec<Access> = strides
                    .chunks(3)
                    .take(graph.inputs().len())
                    .map(|chunk| chunk.iter().map(|&(s, down)| if down { (s as i64).wrapping_neg() } else { s as i64 }))
                    .map(|strides| Access { strides: strides.take(extents.len()).collect(), phase: 0 })
                    .collect();
                accesses.push(Access { strides: row_major.clone(), phase: 0 });
                let indexing = Indexing { extents: extents.clone(), accesses };
                if graph.least_rank() <= extents.len() {
                    let _ = plan(&graph, &indexing, &device, &Table::default(), &Choose::default());
                }
            }
        }
    }

    #[test]
    fn indexing_that_overflows_is_rejected() {
        let graph = parse("in x: f32\ny = x", &Names::default()).unwrap();
        let access = |strides: &[i64]| Access { strides: strides.to_vec(), phase: 0 };
        let device = Device {
            target: Target::plain(90),
            multiprocessors: 132,
            threads_per_multiprocessor: 2048,
            l2_bytes: 60 << 20,
        };
        for (extents, x) in [(vec![1 << 40, 1 << 40], [0, 0]), (vec![2, 8], [1 << 62, 1]), (vec![2, 8], [i64::MIN, 1])]
        {
            let indexing = Indexing { extents, accesses: vec![access(&x), access(&[8, 1])] };
            let refused = plan(&graph, &indexing, &device, &Table::default(), &Choose::default());
            assert!(matches!(refused, Err(PlanError::Layout(_))), "{indexing:?}");
        }
        let none = Indexing { extents: vec![1 << 40, 1 << 40, 0], accesses: vec![access(&[1, 1, 1]); 2] };
        assert_eq!(none.elements(), 0);
        let refused = plan(&graph, &none, &device, &Table::default(), &Choose::default());
        assert!(matches!(refused, Err(PlanError::Empty)));
    }
}
