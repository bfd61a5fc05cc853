//! What this machine is made of, as far as a measurement must know.

mod cgroup;
mod headroom;
mod pages;
pub(crate) mod text;

pub use headroom::Headroom;
pub use pages::{HugePages, Transparent, page_size};
