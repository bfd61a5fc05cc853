//! `plimsoll schema`: what a line of a record may hold.

use super::exit::{Exit, Failure};
use super::{output, sheet};

pub(crate) fn run() -> Result<Exit, Failure> {
    output::print(&sheet::json(&plimsoll::core::record::schema()))?;
    Ok(Exit::Success)
}
