//! The text grammar: meaning, errors with their positions, and round trips through printing.

use plimsoll_expr::graph::{Kind, MAX_NODES};
use plimsoll_expr::oracle::{Element, Precision, evaluate};
use plimsoll_expr::parse::MAX_TEXT;
use plimsoll_expr::strategy::{Expressions, graphs};
use plimsoll_expr::{Builder, DType, Graph, Names, Value, parse};
use proptest::prelude::*;

fn graph(text: &str) -> Graph {
    parse(text, &Names::with_default(DType::F32)).unwrap_or_else(|error| panic!("{error}"))
}

fn refusal(text: &str) -> String {
    match parse(text, &Names::with_default(DType::F32)) {
        Ok(graph) => panic!("'{text}' is accepted as\n{graph}"),
        Err(error) => error.to_string(),
    }
}

fn assert_round_trips(graph: &Graph) {
    let text = graph.to_string();
    let again = parse(&text, &Names::default()).unwrap_or_else(|error| panic!("{error}\nof\n{text}"));
    assert_eq!(&again, graph, "{text}");
}

#[test]
fn operators_bind_as_in_rust() {
    for (text, same) in [
        ("d = a*b + c", "d = (a*b) + c"),
        ("d = a - b - c", "d = (a - b) - c"),
        ("d = -a*b", "d = (-a)*b"),
        ("d = a + b < c*2.0", "d = (a + b) < (c*2.0)"),
        ("d = a < b && b < c || c < a", "d = ((a < b) && (b < c)) || (c < a)"),
        ("d = i32(a) & 3 << 1 | 1", "d = (i32(a) & (3 << 1)) | 1"),
        ("d = a // b % c", "d = (a // b) % c"),
        ("d = ~i8(a)", "d = !i8(a)"),
    ] {
        assert_eq!(graph(text), graph(same), "{text}");
    }
    assert_ne!(graph("d = a - (b - c)"), graph("d = a - b - c"));
}

#[test]
fn equal_values_share_one_node_and_unused_values_have_none() {
    let g = graph("let u = a*b; let v = b*a; let w = exp(a); d = u + v");
    assert_eq!(g.nodes().len(), 4, "{g}");
    assert_eq!(g.uses(), [1, 1, 2, 1]);
}

#[test]
fn constants_fold_and_take_the_type_of_the_other_operand() {
    let g = graph("d = x * (1/3 + 2*pi)");
    let constant = g.nodes().iter().find_map(|node| node.constant().map(|value| (value.as_f64(), node.dtype)));
    let expected = f64::from((1.0 / 3.0 + 2.0 * std::f64::consts::PI) as f32);
    assert_eq!(constant, Some((expected, DType::F32)));
    assert_eq!(g.nodes().len(), 3);
}

#[test]
fn a_name_that_is_read_and_assigned_is_written_in_place() {
    let g = graph("y = tanh(a*x + y)");
    assert_eq!(g.outputs()[0].in_place, Some(2));
    assert_eq!(graph("d = a + b").outputs()[0].in_place, None);
}

#[test]
fn assigned_names_mean_the_new_value_afterwards() {
    assert_eq!(graph("m = m*0.9 + g; p = p - m"), graph("let n = m*0.9 + g; m = n; p = p - n"));
    let swap = graph("in x: f32, y: f32; let old = x; x = y; y = old");
    assert_eq!(
        swap.outputs().iter().map(|o| (o.in_place, o.node.index())).collect::<Vec<_>>(),
        [(Some(0), 0), (Some(1), 1)]
    );
    assert_round_trips(&swap);
}

#[test]
fn iterations_are_unrolled_and_use_all_values_of_the_step_before() {
    let twice = "let a = x; let b = y; iterate 2: a, b = a*b, a + b; d = a - b";
    assert_eq!(graph(twice), graph("let a = x*y; let b = x + y; d = a*b - (a + b)"));
    assert_eq!(graph("let a = x; iterate 1: a = a*a; a"), graph("x*x"));
    // Mandelbrot set: the number of steps until the value leaves the circle of radius 2.
    let set = "let a = x*0; let b = y*0; let n = x*0\n\
               iterate 50: n, a, b = n + select(a*a + b*b <= 4, 1, 0), a*a - b*b + x, 2*a*b + y\nn";
    let steps = |x: f64, y: f64| {
        let set = graph(set);
        let inputs = [Value::Float(x), Value::Float(y)];
        let element = Element { inputs: &inputs, scalars: &[], coordinates: &[], place: 0 };
        evaluate(&set, element, Precision::Carried).unwrap()[0].as_f64()
    };
    assert_eq!((steps(0.0, 0.0), steps(-1.0, 0.0)), (50.0, 50.0));
    // 0, 1, 2, 5: the third value is on the circle, the fourth is outside.
    assert_eq!((steps(1.0, 0.0), steps(3.0, 0.0)), (3.0, 1.0));
    assert_eq!(graph("d = iterate + 1").inputs()[0].name, "iterate");
}

#[test]
fn invalid_iterations_are_refused() {
    for (text, message) in [
        ("iterate 5: a = a + 1; d = a", "'a' has no value yet"),
        ("let a = x; iterate 0: a = a + 1; d = a", "from 1 to 1024"),
        ("let a = x; iterate 1025: a = a + 1; d = a", "from 1 to 1024"),
        ("let a = x; iterate 5: a, a = a, a; d = a", "twice"),
        ("let a = x; let b = y; iterate 5: a, b = a; d = a", "as many values"),
        ("let a = x; iterate 5: a = a, a; d = a", "found ','"),
        ("let a = x; iterate 5 a = a; d = a", "':'"),
        ("iterate 5: x = x + 1", "'x' has no value yet"),
    ] {
        assert!(refusal(text).contains(message), "{text}: {}", refusal(text));
    }
    // Only constants: they fold, so only the text is long.
    let long = format!("let a = 0; iterate 1024: a = a{}; d = a + x", " * 1".repeat(200));
    assert!(refusal(&long).contains("too many steps"), "{}", refusal(&long));
}

#[test]
fn declarations_casts_outputs_and_scalars_have_types() {
    let text = "in x: bf16, g: f32 # two tensors\nscalar a: f64\nd = a*x\ne: f16 = g\nf = f32(x) * g";
    let g = parse(text, &Names::default()).unwrap();
    let types: Vec<DType> = g.outputs().iter().map(|output| output.dtype).collect();
    assert_eq!(types, [DType::Bf16, DType::F16, DType::F32]);
    assert_eq!(g.scalars().len(), 1);
    assert_round_trips(&g);
}

#[test]
fn lines_end_statements_except_inside_parentheses_or_after_operators() {
    assert_eq!(graph("d = fma(a,\n b,\n c)\n\n\ne = a +\n b"), graph("d = fma(a, b, c); e = a + b"));
}

#[test]
fn expressions_that_differ_only_in_names_are_equal_with_plain_names() {
    let (one, other) = (graph("w = w - rate*grad; old = w"), graph("q = q - b*c; x0 = q"));
    assert_ne!(one, other);
    assert_eq!(one.with_plain_names(), other.with_plain_names());
    assert_round_trips(&one.with_plain_names());
}

#[test]
fn printed_text_is_readable() {
    let text = "in a: f32, b: f32, c: f32\nd = a*b + 0.1 - max(-c, 2.0)*exp(a)";
    assert_eq!(graph(text).to_string(), text);
    let text = "in x: i8\nt: f32 = x";
    assert!(parse(text, &Names::default()).unwrap().to_string().ends_with("t = f32(x)"));
}

#[test]
fn constants_round_trip_bit_for_bit() {
    for text in [
        "in x: bf16\nscalar a: bf16\nd = a*0.1\ne = x + -0.0\nf = x*nan\ng = -inf < x\nh = -(1.5bf16)*x",
        "in x: i8\nd = x + -128i8\ne = x & 0x7f\nf = select(x > 3, 1, 0)\ng = x/3",
        "in x: f64\nd = x*0.1\ne = x*f64(0.1f32)\nf = x + 5e-324",
        "in x: bool\nd = x & true\ne = select(x, 1.0, 0.5)*2.0\nf = select(true, x, !x)",
        "in x: u64\nd = x - 18446744073709551615u64\ne = index(2) + x",
        "d = 1.5\ne = 3\nf = true\ng: bf16 = 0.1\nh: i8 = 200.0",
        "in x: f8e4m3\nscalar a: i64\nd = a*x + 1f8e4m3\ne = exp(0.5f16)*x",
    ] {
        assert_round_trips(&parse(text, &Names::default()).unwrap_or_else(|error| panic!("{error}")));
    }
}

#[test]
fn errors_have_a_caret_and_a_hint() {
    let error = refusal("y = a*x +\n  tanhh(y)");
    assert_eq!(error, "2:3: there is no function 'tanhh'. Did you mean 'tanh'?\n    tanhh(y)\n    ^^^^^");
    for (text, message, column) in [
        ("d = a ** 2", "write pow(a, b)", 7),
        ("d = a < b < c", "comparisons don't chain", 11),
        ("d = (a + b", "the text ends where ')'", 11),
        ("d = a +", "the text ends where a value", 8),
        ("d = a b", "found 'b' where an operator", 7),
        ("d = a $ b", "'$' has no meaning here", 7),
        ("d = fma(a, b)", "'fma' takes 3 arguments but has 2", 5),
        ("d = 1.5q7", "'q7' is not a type for a number", 5),
        ("d = a & b", "'&' takes no f32: cast it to an integer", 7),
        ("d = select(a, b, c)", "a condition must be bool, not f32", 5),
        ("d = u8(a) + 300", "300 is out of range for u8", 11),
        ("d: f33 = a", "there is no type 'f33'. Did you mean 'f32'?", 4),
        ("d = index(9)", "no dimension 9", 5),
        ("let t = a", "nothing is stored", 10),
        ("a*b; c*d", "each needs a name", 6),
        ("d = a; d = b", "'d' is already in use", 8),
        ("in = a", "found '=' where a name", 4),
        ("d = 1e999", "out of range for f64", 5),
        ("d = ..5", "'.' has no meaning here", 5),
        ("y: f16 = y", "holds f32 and can't be written in place as f16", 1),
        ("", "nothing is stored", 1),
    ] {
        let error = refusal(text);
        assert!(error.contains(message), "{text}: {error}");
        assert!(error.starts_with(&format!("1:{column}: ")), "{text}: {error}");
    }
}

#[test]
fn undeclared_names_are_refused_without_a_default_type() {
    let error = parse("in weight: f32\nd = weigth", &Names::default()).unwrap_err();
    assert_eq!(error.message(), "'weigth' is not declared. Did you mean 'weight'?");
    assert_eq!(error.line_and_column(), (2, 5));
}

#[test]
fn errors_show_no_control_characters() {
    let error = refusal("d = a \u{202e} \u{1b}[31m b");
    assert!(!error.contains(['\u{202e}', '\u{1b}']), "{error:?}");
}

#[test]
fn long_sums_are_accepted_and_deep_nesting_is_refused_without_stack_overflow() {
    let sum = format!("d = x{}", " + x*0.5 - y".repeat(3_000));
    let g = graph(&sum);
    assert_round_trips(&g);
    for (open, close) in [("(", ")"), ("-", ""), ("exp(", ")"), ("!", ""), ("a + (", ")")] {
        let text = format!("d = {}a{}", open.repeat(10_000), close.repeat(10_000));
        assert!(refusal(&text).contains("nested deeper than"), "{open}");
    }
    let many = format!("d = x{}", (0..MAX_NODES).map(|i| format!(" + {i}.5")).collect::<String>());
    assert!(refusal(&many).contains("more than 16384 operations"));
    for long in ["a", "1", "_", "0x"] {
        let error = refusal(&format!("d = {}", long.repeat(200_000)));
        assert!(error.len() < 2_000, "{} bytes of error for '{long}…'", error.len());
    }
    assert!(refusal(&" ".repeat(MAX_TEXT + 1)).contains("bytes of text"));
    let mut deep = "let t0 = x".to_owned();
    for i in 1..10_000 {
        deep += &format!("\nlet t{i} = exp(t{})", i - 1);
    }
    assert_round_trips(&graph(&(deep + "\nd = t9999")));
}

#[test]
fn nodes_are_in_canonical_order() {
    let mut builder = Builder::new();
    let y = builder.input("y", DType::F32).unwrap();
    let x = builder.input("x", DType::F32).unwrap();
    let product = builder.binary(plimsoll_expr::op::Binary::Mul, x, y).unwrap();
    builder.output("d", product, None).unwrap();
    let graph = builder.finish().unwrap();
    assert_eq!(graph.nodes()[0].kind, Kind::Input(1));
    assert_eq!(graph, parse("in y: f32, x: f32\nd = x*y", &Names::default()).unwrap());
}

proptest! {
    #[test]
    fn printed_graphs_parse_to_the_same_graph(graph in graphs(&Expressions::default())) {
        assert_round_trips(&graph);
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in "\\PC{0,80}") {
        let _ = parse(&text, &Names::with_default(DType::F16)).map_err(|error| error.to_string());
    }

    #[test]
    fn no_tokens_make_the_parser_panic(words in prop::collection::vec(prop::sample::select(vec![
        "a", "y", "=", "+", "-", "(", ")", ",", ":", ";", "\n", "in ", "scalar ", "let ", "f32", "u8", "1", "0.5", "300u8",
        "0x", "<", "<<", "&", "&&", "select", "fma", "index", "exp", "min", "nan", "inf", "e", ".", "#", "\u{0}", "é", "\t",
    ]), 0..30)) {
        if let Ok(graph) = parse(&words.concat(), &Names::with_default(DType::I16)) {
            assert_round_trips(&graph);
        }
    }

    #[test]
    fn no_bytes_make_the_parser_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        let _ = parse(&String::from_utf8_lossy(&bytes), &Names::with_default(DType::Bool)).map_err(|error| error.to_string());
    }
}

#[test]
fn an_output_moves_over_an_input_of_its_type_that_no_other_output_overwrites() {
    let graph = |text: &str| parse(text, &Names::default()).unwrap();
    let separate = graph("in x: f32, z: f64\ny = x + 1\nw = z*2");
    let moved = separate.with_output_in_place(0, 0).unwrap();
    assert_eq!(moved.outputs()[0].name, "x");
    assert_eq!(moved.outputs()[0].in_place, Some(0));
    assert_eq!(moved, graph("in x: f32, z: f64\nx = x + 1\nw = z*2"));
    for (output, input) in [(0, 1), (2, 0), (0, 2)] {
        assert_eq!(separate.with_output_in_place(output, input), None, "{output} over {input}");
    }
    assert_eq!(moved.with_output_in_place(0, 0), None, "it is in place already");
    let taken = graph("in x: f32\ny = x + 1\nx = x*2");
    assert_eq!(taken.with_output_in_place(0, 0), None, "another output overwrites x");
}
