//! Copies without regard to type: an element that is only copied can be copied as an integer.

use super::{Graph, Kind, NodeId};
use crate::dtype::DType;

impl Graph {
    /// The same expression with unsigned integers of the same width in place of the types of inputs that are only copied, and of
    /// the outputs that they are copied to. Copies of f16, bf16 and i16 then share one kernel and keep the bits of NaN. `bool`
    /// is unchanged, as every true value is stored as 1.
    #[must_use]
    pub fn with_raw_copies(&self) -> Self {
        let mut raw = self.clone();
        let uses = self.uses();
        for (place, (node, &uses)) in self.nodes.iter().zip(&uses).enumerate() {
            let Kind::Input(slot) = node.kind else { continue };
            let id = NodeId(place as u32);
            let stores = |output: &&mut super::Output| output.node == id && output.dtype == node.dtype;
            let copies = raw.outputs.iter_mut().filter(stores).count();
            let Some(bits) = unsigned(node.dtype).filter(|_| copies as u32 == uses) else { continue };
            raw.outputs.iter_mut().filter(stores).for_each(|output| output.dtype = bits);
            raw.nodes[place].dtype = bits;
            raw.inputs[slot as usize].dtype = bits;
        }
        raw
    }
}

/// The unsigned integer type of the same width; `None` for `bool`.
const fn unsigned(dtype: DType) -> Option<DType> {
    match dtype {
        DType::Bool => None,
        _ => match dtype.bytes() {
            8 => Some(DType::U64),
            4 => Some(DType::U32),
            2 => Some(DType::U16),
            _ => Some(DType::U8),
        },
    }
}

#[cfg(test)]
mod tests {
    use crate::{DType, Names, parse};

    fn dtypes(text: &str) -> Vec<DType> {
        let graph = parse(text, &Names::default()).unwrap_or_else(|error| panic!("{text}: {error}")).with_raw_copies();
        let inputs = graph.inputs().iter().map(|input| input.dtype);
        inputs.chain(graph.outputs().iter().map(|output| output.dtype)).collect()
    }

    #[test]
    fn inputs_that_are_only_copied_become_unsigned_integers() {
        assert_eq!(dtypes("in x: bf16\ny = x"), [DType::U16, DType::U16]);
        assert_eq!(dtypes("in x: f64\ny = x\nz = x"), [DType::U64; 3]);
        assert_eq!(dtypes("in x: f8e4m3, a: f32\ny = x\nz = a + 1"), [DType::U8, DType::F32, DType::U8, DType::F32]);
    }

    #[test]
    fn inputs_that_are_computed_with_or_converted_keep_their_type() {
        assert_eq!(dtypes("in x: bf16\ny = x\nz = x + 1"), [DType::Bf16; 3]);
        assert_eq!(dtypes("in x: bf16\ny: f16 = x"), [DType::Bf16, DType::F16]);
        assert_eq!(dtypes("in x: bool\ny = x"), [DType::Bool; 2]);
    }
}
