//! The engine room of elementwise expressions: loops over tiles that fit into the first cache, one per operation and
//! instruction set, and the machine that runs a list of them over all tiles of some tensors, on the threads of a team.
//!
//! A list is [`Code`], checked when it is made: every step's places exist and have the widths that its loop works on. Where
//! tensors are walked is a [`Walk`], checked against their memory when a [`Machine`] is bound to it. So nothing outside this
//! folder can make it touch what it doesn't own. What the steps of an expression are, is `crate::elementwise`'s business.

mod code;
mod elements;
mod loops;
mod machine;
mod moves;
pub(crate) mod operation;
mod quotient;
mod small;
mod walk;

pub(crate) use code::{Code, Place, Step};
pub(crate) use loops::Set;
pub(crate) use machine::{Machine, MachineError, Memory};
pub(crate) use walk::{Access, Walk, WalkError};
