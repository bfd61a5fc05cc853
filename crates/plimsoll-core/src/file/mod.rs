//! Files named by the user or the environment: read up to a size limit, and written completely or not at all.

mod read;
mod unnamed;
mod write;

pub use read::{Accept, FileError, read, read_beginning, read_text};
pub use write::Target;
