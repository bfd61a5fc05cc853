//! The unsafe core of elementwise expressions: loops over tiles that fit L1, one per operation and instruction set, and the
//! machine that runs a list of them over all tiles of some tensors, on the threads of a team.
//!
//! The list is [`Code`], checked when it is made: every step's places exist and have the widths that its loop expects. The
//! order in which tensors are indexed is a [`Tiling`], checked against their memory when a [`Machine`] is bound to it. So code
//! outside this folder can't make it access foreign memory. `crate::elementwise` compiles expressions to steps.

mod ahead;
mod code;
mod elements;
mod integer;
#[cfg(target_arch = "x86_64")]
mod lookup;
mod loops;
mod machine;
mod moves;
pub(crate) mod operation;
mod power;
mod quotient;
mod small;
mod tile_run;
mod tiling;

pub(crate) use code::{Code, Place, Step};
pub(crate) use loops::Set;
pub(crate) use machine::{Machine, MachineError, Memory};
pub(crate) use tiling::{Access, Tiling, TilingError};
