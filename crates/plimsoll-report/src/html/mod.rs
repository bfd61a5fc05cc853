//! The HTML report: one self-contained file that needs no network. The template defines the layout; this module fills it. The
//! template escapes everything except pictures and rows of tables, which escape their own texts. A small script adds what a page
//! can do without: figures under the pointer, legends that hide lines, sorting, larger pictures.

mod compare;
mod machine;
mod overview;
mod pieces;
mod policy;
mod probe;
mod table;
mod view;

#[cfg(test)]
mod tests;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, Value};
use minijinja::{Environment, context};

use crate::Report;
use crate::svg::{PALETTE, STYLE};

pub(crate) use policy::policy as build_policy;

const TEMPLATE: &str = include_str!("report.html");
pub(crate) const PAGE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// The whole page.
///
/// # Panics
/// Never, whatever the record holds: the template is compiled in, and data can't make any of its operations fail.
#[must_use]
pub fn render(report: &Report<'_>) -> String {
    let mut environment = Environment::new();
    // A line that only has a block leaves no empty line.
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    environment.set_syntax(syntax.expect("the standard delimiters"));
    // The extension .html turns escaping on.
    environment.add_template("report.html", TEMPLATE).expect("the template is compiled in");
    let template = environment.get_template("report.html").expect("added a line above");
    let style = Value::from_safe_string(format!("{PALETTE}{STYLE}{PAGE}"));
    let page = view::build_page(report);
    let script = Value::from_safe_string(SCRIPT.to_owned());
    let policy = Value::from_safe_string(policy::policy(SCRIPT));
    template.render(context! { style, script, policy, ..Value::from(Serde(&page)) }).expect("plain data")
}
