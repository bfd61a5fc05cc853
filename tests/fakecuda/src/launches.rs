//! Calls for launches, single and in graphs, with the names and types of cuda.h.

// Names and arguments are those of cuda.h, used or not.
#![allow(non_snake_case, unused_variables)]

use std::ffi::{c_int, c_uint, c_void};

use crate::call::{Answer, Code, Handle, INVALID_CONTEXT, INVALID_HANDLE, calls, check_handle};
use crate::kernels::run;
use crate::memory::give;
use crate::state::{Node, State};
use crate::thread;

/// A node with the kernel of a launch and copies of its parameters.
fn build_node(state: &State, function: Handle, parameters: *mut *mut c_void) -> Result<Node, Code> {
    let kernel = state.functions.get(&function).ok_or(INVALID_HANDLE)?;
    let sizes = kernel.sizes.clone().unwrap_or_default();
    let copy = |(index, size): (usize, &usize)| {
        let mut bytes = vec![0_u8; *size];
        // SAFETY: the caller gives one pointer per parameter, each to at least its size.
        unsafe { std::ptr::copy_nonoverlapping((*parameters.add(index)).cast::<u8>(), bytes.as_mut_ptr(), *size) };
        bytes
    };
    Ok(Node { function, parameters: sizes.iter().enumerate().map(copy).collect() })
}

fn launch(state: &mut State, function: Handle, stream: Handle, parameters: *mut *mut c_void) -> Answer {
    if thread::CURRENT.get() != thread::CONTEXT {
        return Err(INVALID_CONTEXT);
    }
    check_handle(state.is_stream(stream))?;
    let node = build_node(state, function, parameters)?;
    state.last_stream = stream;
    match state.recorded.get_mut(&stream) {
        Some(nodes) => nodes.push(node),
        None => {
            state.add_work(stream, words(&node));
            run(state, &node)?;
        }
    }
    Ok(())
}

/// The 64-bit words of a kernel's parameters, some of which are addresses.
fn words(node: &Node) -> impl Iterator<Item = usize> {
    let chunks = node.parameters.iter().flat_map(|bytes| bytes.as_chunks::<8>().0);
    chunks.map(|word| usize::from_le_bytes(*word))
}

calls! {
    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
        state, blocks: *mut c_int, function: Handle, threads: c_int, shared: usize
    ) {
        check_handle(state.functions.contains_key(&function))?;
        give(blocks, 2_048 / threads.max(64))
    }
    fn cuOccupancyMaxActiveClusters(state, count: *mut c_int, function: Handle, config: *const LaunchConfig) {
        check_handle(state.functions.contains_key(&function))?;
        give(count, 8)
    }
    fn cuLaunchKernel(
        state, function: Handle, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint,
        block_z: c_uint, shared: c_uint, stream: Handle, parameters: *mut *mut c_void, extra: *mut *mut c_void
    ) {
        launch(state, function, stream, parameters)
    }
    fn cuLaunchKernelEx(
        state, config: *const LaunchConfig, function: Handle, parameters: *mut *mut c_void, extra: *mut *mut c_void
    ) {
        // SAFETY: a live structure by the caller's contract.
        let stream = unsafe { (*config).stream };
        launch(state, function, stream, parameters)
    }
    fn cuGraphCreate(state, graph: *mut Handle, flags: c_uint) {
        let handle = state.handle();
        state.graphs.insert(handle, Vec::new());
        give(graph, handle)
    }
    fn cuGraphDestroy(state, graph: Handle) {
        check_handle(state.graphs.remove(&graph).is_some())
    }
    fn cuGraphAddKernelNode(
        state, to: *mut Handle, graph: Handle, after: *const Handle, count: usize, parameters: *const KernelNodeParams
    ) {
        // SAFETY: a live structure by the caller's contract.
        let (function, parameters) = unsafe { ((*parameters).function, (*parameters).parameters) };
        let node = build_node(state, function, parameters)?;
        state.graphs.get_mut(&graph).ok_or(INVALID_HANDLE)?.push(node);
        let handle = state.handle();
        give(to, handle)
    }
    fn cuGraphAddDependencies_v2(
        state, graph: Handle, from: *const Handle, to: *const Handle, edges: *const c_void, count: usize
    ) {
        check_handle(state.graphs.contains_key(&graph))
    }
    fn cuGraphInstantiateWithFlags(state, executable: *mut Handle, graph: Handle, flags: u64) {
        let nodes = state.graphs.get(&graph).ok_or(INVALID_HANDLE)?.clone();
        let handle = state.handle();
        state.graphs.insert(handle, nodes);
        give(executable, handle)
    }
    fn cuGraphUpload(state, executable: Handle, stream: Handle) {
        check_handle(state.graphs.contains_key(&executable) && state.streams.contains(&stream))
    }
    fn cuGraphLaunch(state, executable: Handle, stream: Handle) {
        check_handle(state.streams.contains(&stream))?;
        let nodes = state.graphs.get(&executable).ok_or(INVALID_HANDLE)?.clone();
        state.add_work(stream, nodes.iter().flat_map(words));
        nodes.iter().try_for_each(|node| run(state, node))
    }
    fn cuGraphExecDestroy(state, executable: Handle) {
        check_handle(state.graphs.remove(&executable).is_some())
    }
}

/// The part of `CUlaunchConfig` that is used.
#[derive(Debug)]
#[repr(C)]
pub struct LaunchConfig {
    words: [c_uint; 7],
    stream: Handle,
}

/// The part of `CUDA_KERNEL_NODE_PARAMS_v1` that is used.
#[derive(Debug)]
#[repr(C)]
pub struct KernelNodeParams {
    function: Handle,
    words: [c_uint; 7],
    parameters: *mut *mut c_void,
}
