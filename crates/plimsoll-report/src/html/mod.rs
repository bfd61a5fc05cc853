//! The HTML report: one file that needs no other, no network and no script. The template says how it looks; this file
//! fills it. Everything is escaped by the template but the pictures, which escape their own texts.

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
/// Never for any record: the template is part of the program and holds no operation that data can make fail.
#[must_use]
pub fn render(report: &Report<'_>) -> String {
    let mut environment = Environment::new();
    // The name's ending turns escaping on.
    environment.add_template("report.html", TEMPLATE).expect("the template is part of the program");
    let template = environment.get_template("report.html").expect("added a line above");
    let style = Value::from_safe_string(format!("{PALETTE}{STYLE}{PAGE}"));
    let page = view::page(report);
    template.render(context! { style, ..Value::from(Serde(&page)) }).expect("plain data")
}
