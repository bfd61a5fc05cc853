//! The kernels that this driver implements. Any other does nothing, for the time set by `kernel`.

use crate::state::{Node, State};

fn word(node: &Node, index: usize) -> u64 {
    let bytes = node.parameters.get(index).map(Vec::as_slice).unwrap_or_default();
    let mut word = [0; 8];
    for (to, from) in word.iter_mut().zip(bytes) {
        *to = *from;
    }
    u64::from_le_bytes(word)
}

/// Runs a kernel: updates memory and the device's time. The error is a CUDA result.
pub fn run(state: &mut State, node: &Node) -> Result<(), u32> {
    state.launches += 1;
    state.now += state.settings().kernel;
    let Some(kernel) = state.functions.get(&node.function) else { return Err(400) };
    if kernel.name == "plimsoll_spin" {
        let (out, nanoseconds) = (word(node, 0) as usize, word(node, 1));
        if !state.holds(out, 16) {
            state.sticky = Some(700);
            return Err(700);
        }
        state.now += nanoseconds;
        let cycles = (nanoseconds as f64 * 1.98) as u64;
        // SAFETY: 16 bytes at `out` are inside an allocation of ours.
        unsafe { std::ptr::with_exposed_provenance_mut::<[u64; 2]>(out).write_unaligned([cycles, nanoseconds]) };
    }
    Ok(())
}
