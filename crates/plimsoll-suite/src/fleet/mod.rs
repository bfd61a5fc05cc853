//! Fleets: many devices of one model, each measured by its own process, judged against each other and against what their model
//! should reach.

pub mod collect;
pub mod complete;
pub mod device;
pub mod file;
pub mod launcher;
pub mod read;
mod reasons;
pub mod rule;
pub mod spread;
pub mod strata;
pub mod votes;

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
