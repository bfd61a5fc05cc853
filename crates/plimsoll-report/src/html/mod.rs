//! The HTML report: one self-contained file that needs no network and no script. The template defines the layout; this
//! module fills it. The template escapes everything except the pictures, which escape their own texts.

mod view;

#[cfg(test)]
mod tests;

use minijinja::value::{Serde, Value};
use minijinja::{Environment, context};

use crate::Report;
use crate::svg::{PALETTE, STYLE};

const TEMPLATE: &str = include_str!("report.html");
const PAGE: &str = include_str!("page.css");

/// The whole page.
///
/// # Panics
/// Never, whatever the record holds: the template is compiled in, and data can't make any of its operations fail.
#[must_use]
pub fn render(report: &Report<'_>) -> String {
    let mut environment = Environment::new();
    // The extension .html turns escaping on.
    environment.add_template("report.html", TEMPLATE).expect("the template is compiled in");
    let template = environment.get_template("report.html").expect("added a line above");
    let style = Value::from_safe_string(format!("{PALETTE}{STYLE}{PAGE}"));
    let page = view::build_page(report);
    template.render(context! { style, ..Value::from(Serde(&page)) }).expect("plain data")
}
