//! `docs/expressions.md` agrees with the code.

use plimsoll_expr::op::{Binary, Comparison, Unary};
use plimsoll_expr::{DType, Names, parse};

fn page() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/expressions.md");
    std::fs::read_to_string(path).expect("docs/expressions.md")
}

#[test]
fn the_page_has_the_promotion_table() {
    let mut table = String::from("|  |");
    DType::ALL.iter().for_each(|column| table += &format!(" {column} |"));
    table += &format!("\n|{}", " --- |".repeat(DType::ALL.len() + 1));
    for row in DType::ALL {
        table += &format!("\n| **{row}** |");
        DType::ALL.iter().for_each(|&column| table += &format!(" {} |", row.promote(column)));
    }
    assert!(page().contains(&table), "the table should be\n{table}");
}

#[test]
fn the_page_names_every_operation() {
    let page = page();
    let names = Unary::ALL.iter().map(|op| op.name()).chain(Binary::ALL.iter().map(|op| op.name()));
    for name in names.chain(Comparison::ALL.iter().map(|op| op.name())) {
        let escaped = name.replace('|', "\\|");
        let named = page.split(|c: char| c.is_whitespace() || "`(),".contains(c)).any(|w| w == name || w == escaped);
        assert!(named, "docs/expressions.md does not name '{name}'");
    }
}

#[test]
fn the_statements_on_the_page_parse() {
    let page = page();
    let rows = page.lines().skip_while(|line| *line != "| statement | meaning |").skip(2);
    let statements: Vec<&str> = rows.map_while(|row| row.strip_prefix("| `")?.split('`').next()).collect();
    assert!(statements.len() >= 7);
    for statement in statements {
        let text = if statement.contains('=') || !statement.contains(':') {
            statement.to_owned()
        } else {
            format!("{statement}; d = a")
        };
        let stored = if statement.starts_with("let") { format!("{text}; d = t") } else { text };
        assert!(parse(&stored, &Names::with_default(DType::F32)).is_ok(), "{stored}");
    }
}
