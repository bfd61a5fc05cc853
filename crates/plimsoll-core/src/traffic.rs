//! Placeholder.
pub struct Traffic;
