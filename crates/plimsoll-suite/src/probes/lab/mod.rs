//! The lab: questions that a kernel engineer asks of a device, each answered by an experiment with a control and an oracle,
//! and each ending in one sentence of [`advice`] for this device. `measure` runs them where they are asked for.

pub mod advice;
pub mod pic;
pub mod rtm;
pub mod tti;
