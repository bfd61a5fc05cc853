//! Users' own kernels, as far as they need no GPU: the kernels of a [`Cubin`] with their parameters, the [`Arguments`] that a launch
//! passes, whether they fit the machine code, and the description of a launch for the cost model.

mod argument;
mod cubin;
mod describe;
mod fit;
mod parse;

pub use crate::sass::{Parameter, Signature};
pub use argument::{Argument, Arguments, Buffer, Content, Fill, Role};
pub use cubin::{Cubin, CubinError};
pub use describe::{Described, Occupied, describe};
pub use fit::{Misfit, check, check_sizes};
pub use parse::{GRAMMAR, ParseArgumentError};
