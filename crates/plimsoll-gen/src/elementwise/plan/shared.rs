//! What an element takes if several elements of a thread share loads and arithmetic.

use plimsoll_expr::Graph;

use super::cost::{L1_BYTES, PER_ACCESS, PER_THREAD, accesses_of, coordinates, overlapped};
use super::tensors::{Tensor, Tensors};
use crate::elementwise::body;
use crate::elementwise::count::{Slots, count, count_where};
use crate::elementwise::spec::Tier;
use crate::elementwise::weight::{BYTES, busiest};

/// Work of an element: what each one needs by itself, and what several share; of both, instructions and bytes through L1.
pub struct Shared {
    slots: [Slots; 2],
    through_l1: [f64; 2],
    /// Clocks of memory.
    memory: f64,
}

impl Shared {
    /// For threads with vectors of `lanes` elements in the same columns of several rows. They share inputs that satisfy `same`.
    pub fn between_rows(
        graph: &Graph,
        tensors: &Tensors,
        tier: Tier,
        lanes: u32,
        same: impl Fn(&Tensor) -> bool,
    ) -> Self {
        let mut shared = Self::new(graph, tensors, tier, (lanes, 1), same);
        shared.slots[0].other += around(tensors, lanes);
        shared
    }

    /// For vectors of `lanes` elements inside rows. Their elements share inputs that are the same along rows, and the vector's coordinates.
    pub fn inside_vectors(graph: &Graph, tensors: &Tensors, tier: Tier, lanes: u32) -> Self {
        let same = |tensor: &Tensor| !tensor.uniform && tensor.strides.last() == Some(&0);
        let mut shared = Self::new(graph, tensors, tier, (lanes, lanes), same);
        shared.slots[1].other += around(tensors, lanes);
        shared
    }

    /// With vectors of `lanes` elements. Arithmetic on shared inputs is done once for `sharing` elements.
    fn new(
        graph: &Graph,
        tensors: &Tensors,
        tier: Tier,
        (lanes, sharing): (u32, u32),
        same: impl Fn(&Tensor) -> bool,
    ) -> Self {
        let program = body::program(graph, tier);
        let each = count_where(&program, |slot| !tensors.all.get(slot).is_some_and(&same)).element;
        let all_share = count(&program).element.plus_times(each, -1.0);
        let mut slots = [each, Slots::default().plus_times(all_share, 1.0 / f64::from(sharing))];
        let mut through_l1 = [0.0; 2];
        let per_lane = 1.0 / f64::from(lanes);
        for tensor in tensors.moving() {
            let (count, bytes) = accesses_of(tensor, lanes);
            let side = usize::from(same(tensor));
            slots[side].other += f64::from(count) * PER_ACCESS * per_lane;
            through_l1[side] += f64::from(bytes) * per_lane;
        }
        let memory = tensors.bytes_moved() as f64 / tensors.elements as f64 / BYTES;
        Self { slots, through_l1, memory }
    }

    /// By how much less time so many sharing take than `from`, as a fraction.
    pub fn gain(&self, sharing: u32, from: u32) -> f64 {
        1.0 - self.clocks(sharing) / self.clocks(from)
    }

    /// Clocks of an element on an SM, if so many share.
    fn clocks(&self, sharing: u32) -> f64 {
        let share = 1.0 / f64::from(sharing);
        let slots = self.slots[0].plus_times(self.slots[1], share);
        let through_l1 = (self.through_l1[0] + self.through_l1[1] * share) / L1_BYTES;
        overlapped([self.memory, busiest(&slots), through_l1, 0.0])
    }
}

/// Instructions of coordinates and of a thread, by element.
fn around(tensors: &Tensors, lanes: u32) -> f64 {
    let sets = tensors.moving().filter(|tensor| !tensor.linear).count() as u32;
    (coordinates(tensors.extents.len() as u32, sets) + PER_THREAD) / f64::from(lanes)
}
