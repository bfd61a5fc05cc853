//! `plimsoll schema`: what a line of a record may hold.

use super::exit::{Exit, Failure};
use super::output;

pub(crate) fn run() -> Result<Exit, Failure> {
    output::print(&plimsoll_report::json::text(&plimsoll::core::record::schema()))?;
    Ok(Exit::Success)
}
