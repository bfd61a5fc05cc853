//! Reports from records: terminal, CSV, Markdown, JSON, SVG and HTML. A [`Report`] arranges one or more runs; each format is
//! one file with a `render` of it, and one [`chart`] code feeds all pictures. Records are read, and nothing else; what
//! they mean is `plimsoll-probes`'. All text in them is untrusted: [`text`] and each format's escaping stand between.
#![forbid(unsafe_code)]

pub mod chart;
mod content;
pub mod csv;
mod faults;
pub mod html;
pub mod json;
pub mod markdown;
pub mod svg;
pub mod terminal;
pub mod text;

#[cfg(test)]
mod extremes;
#[cfg(test)]
mod made;

pub use content::{Case, Entry, Report, Section, Source};
pub use faults::faults;
