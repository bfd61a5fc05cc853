//! The instruction sets of 64-bit Arm.

pub(crate) mod neon;
