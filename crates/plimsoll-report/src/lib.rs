//! Reports from records: terminal, CSV, Markdown, JSON, SVG and HTML. A [`Report`] arranges one or more runs. Each format has
//! its own module with a `render` function; all pictures are built by [`chart`]. A report reads nothing but records, and
//! `plimsoll-probes` knows what they mean. All text in records is untrusted: [`text`] cleans it and each format escapes it.
#![forbid(unsafe_code)]

pub mod chart;
pub mod compared;
mod content;
pub mod csv;
mod faults;
pub mod fleet;
pub mod html;
pub mod json;
pub mod markdown;
pub mod svg;
pub mod terminal;
pub mod text;

#[cfg(test)]
mod extremes;
#[cfg(test)]
mod synthetic;

pub use content::{Case, Entry, Report, Section, Source};
pub use faults::faults;
