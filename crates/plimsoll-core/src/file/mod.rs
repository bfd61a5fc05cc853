//! Files that a user or the environment names: read up to a limit, and written whole or not at all.

mod read;
mod unnamed;
mod write;

pub use read::{Accept, FileError, read, read_text};
pub use write::Target;
