//! The table of `docs/derivatives.md`.

use plimsoll_expr::oracle::Precision;

use super::{expression, gradient, outputs};

/// A row: the expression, the values of x and z, and the derivatives by them.
fn row(line: &str) -> Option<(String, Vec<f64>, Vec<f64>)> {
    let [expression, at, derivatives] =
        line.strip_prefix("| `")?.strip_suffix(" |")?.split(" | ").collect::<Vec<_>>()[..]
    else {
        return None;
    };
    let number = |text: &str| text.parse().unwrap_or_else(|_| panic!("{line}: {text}"));
    let at = at.split(", ").map(|part| number(part.split_once(" = ").map_or(part, |(_, value)| value))).collect();
    Some((expression.trim_end_matches('`').to_owned(), at, derivatives.split(", ").map(number).collect()))
}

#[test]
fn points_without_a_derivative_have_the_results_of_the_page() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/derivatives.md");
    let page = std::fs::read_to_string(path).expect("docs/derivatives.md");
    let rows: Vec<_> = page.lines().filter_map(row).collect();
    assert!(rows.len() > 50, "{} rows", rows.len());
    for (text, mut at, expected) in rows {
        let declared = ["in x: f64", "in x: f64, z: f64"][at.len() - 1];
        let graph = expression(&format!("{declared}\ny = {text}"));
        let derivative = gradient(&graph);
        at.push(1.0);
        let found = outputs(&derivative, &at, Precision::Carried);
        assert_eq!(found.len(), expected.len(), "{text}");
        let agree = found.iter().zip(&expected).all(|(a, b)| a == b || (a.is_nan() && b.is_nan()));
        assert!(agree, "{text} at {at:?}: {found:?}, not {expected:?}");
    }
}

#[test]
fn a_run_time_scalar_is_a_bound_and_a_tensor_is_an_equal() {
    let tie = |text: &str, inputs: &[f64]| outputs(&gradient(&expression(text)), inputs, Precision::Carried);
    // The scalar is 0.375.
    assert_eq!(tie("in x: f64\nscalar a: f64\ny = max(a, x)", &[0.375, 1.0]), [1.0]);
    assert_eq!(tie("in x: f64\nscalar a: f64\ny = fmin(a*2.0, x)", &[0.75, 1.0]), [1.0]);
    assert_eq!(tie("in x: f64, z: f64\ny = min(x, z)", &[0.375, 0.375, 1.0]), [0.5, 0.5]);
    // The index is 8.
    assert_eq!(tie("in x: f64\ny = min(x, f64(index()))", &[8.0, 1.0]), [0.5]);
}

#[test]
fn the_example_of_the_page_is_what_the_library_prints() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/derivatives.md");
    let page = std::fs::read_to_string(path).expect("docs/derivatives.md");
    let printed = gradient(&expression("in x: bf16, z: bf16\ny = silu(x)*z")).to_string();
    assert!(page.contains(&format!("```\n{printed}\n```")), "{printed}");
}
