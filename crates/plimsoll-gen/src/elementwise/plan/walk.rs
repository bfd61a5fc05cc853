//! The tensors of one launch as a planner sees them: common extents, strides, and how their addresses are aligned.

use plimsoll_expr::layout::{self, Shape};
use plimsoll_expr::{Graph, LayoutError, Space};

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

    /// Elements that are visited; as many as a number can say where there are more.
    #[must_use]
    pub fn elements(&self) -> u64 {
        if self.extents.contains(&0) {
            0
        } else {
            self.extents.iter().fold(1, |all, &extent| all.saturating_mul(extent))
        }
    }

    /// That the bytes of its elements, and those that each of its tensors spans, stay below 2⁶³: so what plans and kernels compute
    /// of them fits. Tensors have elements of so many bytes.
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

    /// Numbers at which arithmetic goes wrong, if it does.
    fn edge() -> impl Strategy<Value = u64> {
        prop_oneof![
            4 => 0..5_u64,
            2 => (0..64_u32, 0..3_u64).prop_map(|(bit, off)| (1_u64 << bit).wrapping_add(off).wrapping_sub(1)),
            1 => any::<u64>(),
        ]
    }

    proptest! {
        #[test]
        fn any_walk_is_planned_or_refused(
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
                let walk = Walk { extents: extents.clone(), accesses };
                if graph.least_rank() <= extents.len() {
                    let _ = plan(&graph, &walk, &device, &Table::default(), &Choose::default());
                }
            }
        }
    }

    #[test]
    fn walks_of_more_than_a_number_can_say_have_no_plan() {
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
            let walk = Walk { extents, accesses: vec![access(&x), access(&[8, 1])] };
            let refused = plan(&graph, &walk, &device, &Table::default(), &Choose::default());
            assert!(matches!(refused, Err(PlanError::Layout(_))), "{walk:?}");
        }
        let none = Walk { extents: vec![1 << 40, 1 << 40, 0], accesses: vec![access(&[1, 1, 1]); 2] };
        assert_eq!(none.elements(), 0);
        let refused = plan(&graph, &none, &device, &Table::default(), &Choose::default());
        assert!(matches!(refused, Err(PlanError::Empty)));
    }
}
