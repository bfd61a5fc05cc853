//! Expressions whose caller gave one tensor for several inputs.

use plimsoll_expr::{Graph, Names, parse};

fn graph(text: &str) -> Graph {
    parse(text, &Names::default()).unwrap()
}

#[test]
fn merged_inputs_give_the_graph_that_was_written_with_one() {
    for (text, input, kept, expected) in [
        ("in x: f32, y: f32\nz = x*2 + y", 1, 0, "in x: f32\nz = x*2 + x"),
        ("in x: f32, y: f32\nz = x*2 + y", 0, 1, "in y: f32\nz = y*2 + y"),
        ("in x: f32, y: f32, w: f64\nz = x*2 + y*2\nv = w", 0, 1, "in y: f32, w: f64\nz = y*2 + y*2\nv = w"),
        ("in m: f32, g: f32\nm = 0.9*m + g", 1, 0, "in m: f32\nm = 0.9*m + m"),
        ("in g: f32, m: f32\nm = 0.9*m + g", 0, 1, "in m: f32\nm = 0.9*m + m"),
        (
            "in x: f32, y: f32; scalar a: f32\nz = select(x < y, a*x, y)",
            1,
            0,
            "in x: f32; scalar a: f32\nz = select(x < x, a*x, x)",
        ),
    ] {
        assert_eq!(graph(text).with_input_merged(input, kept), Some(graph(expected)), "{text}: {input} is {kept}");
    }
}

#[test]
fn inputs_of_other_types_written_inputs_and_missing_ones_stay() {
    let given = graph("in x: f32, y: f64, z: f32\nx = x + z + f32(y)");
    for (input, kept) in [(1, 0), (0, 2), (2, 2), (3, 0), (2, 3)] {
        assert_eq!(given.with_input_merged(input, kept), None, "{input} is {kept}");
    }
    assert!(given.with_input_merged(2, 0).is_some());
}
