//! Expressions whose caller gave one tensor for several inputs.

use super::{Builder, Graph, Kind, Output};

impl Graph {
    /// The same expression that reads input number `kept` in place of input number `input`, which it no longer has: for a caller
    /// who gives one tensor for both. `None` if their types differ, `input` is written in place, or there is no such input.
    #[must_use]
    pub fn with_input_merged(&self, input: usize, kept: usize) -> Option<Self> {
        let (merged, other) = (self.inputs.get(input)?, self.inputs.get(kept)?);
        let is_written = self.outputs.iter().any(|output| output.in_place == u32::try_from(input).ok());
        if input == kept || merged.dtype != other.dtype || is_written {
            return None;
        }
        let renumber = |slot: u32| {
            let slot = if slot as usize == input { kept } else { slot as usize };
            (slot - usize::from(slot > input)) as u32
        };
        let mut builder = Builder::new();
        (builder.inputs, builder.scalars) = (self.inputs.clone(), self.scalars.clone());
        builder.inputs.remove(input);
        let mut ids = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            let kind = match node.kind {
                Kind::Input(slot) => Kind::Input(renumber(slot)),
                kind => kind.map(|id| ids[id.index()]),
            };
            ids.push(builder.push(kind, node.dtype, node.strength).ok()?);
        }
        let outputs = self.outputs.iter().map(|output| Output {
            node: ids[output.node.index()],
            in_place: output.in_place.map(renumber),
            ..output.clone()
        });
        builder.outputs = outputs.collect();
        builder.finish().ok()
    }
}
