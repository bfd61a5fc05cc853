//! Fleets: many devices of one model, each measured by its own process, judged against each other and against what their model
//! should reach.

pub mod file;
pub mod launcher;
pub mod rule;
pub mod spread;

#[cfg(test)]
mod simulation;
