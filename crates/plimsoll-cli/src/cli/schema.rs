//! `plimsoll schema`: prints the JSON Schema of one line of a record.

use super::exit::{Exit, Failure};
use super::output;

pub(crate) fn run() -> Result<Exit, Failure> {
    output::print(&plimsoll_report::json::to_text(&plimsoll::core::record::schema()))?;
    Ok(Exit::Success)
}
