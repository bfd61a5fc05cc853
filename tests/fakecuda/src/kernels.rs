//! The kernels that this driver implements. Any other does nothing, for the time set by `kernel`.

use crate::call::ILLEGAL_ADDRESS;
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
    let name = kernel.name.clone();
    match &*name {
        "plimsoll_spin" => spin(state, node),
        // Stores a byte at an offset from an address.
        "store_byte" => store(state, word(node, 0).wrapping_add(word(node, 1)), &[0x5b]),
        // Stores its parameters, after the first, at the address that the first one is.
        "store_parameters" => store(state, word(node, 0), &node.parameters[1..].concat()),
        _ => Ok(()),
    }
}

fn spin(state: &mut State, node: &Node) -> Result<(), u32> {
    let nanoseconds = word(node, 1);
    state.now += nanoseconds;
    let cycles = (nanoseconds as f64 * 1.98) as u64;
    store(state, word(node, 0), [cycles, nanoseconds].map(u64::to_le_bytes).as_flattened())
}

/// Writes to memory as a kernel does: outside of allocations, the device is lost.
fn store(state: &mut State, address: u64, bytes: &[u8]) -> Result<(), u32> {
    let address = address as usize;
    if !state.holds(address, bytes.len()) {
        state.sticky = Some(ILLEGAL_ADDRESS);
        return Err(ILLEGAL_ADDRESS);
    }
    // SAFETY: inside an allocation of ours.
    unsafe {
        std::ptr::with_exposed_provenance_mut::<u8>(address).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len())
    };
    Ok(())
}
