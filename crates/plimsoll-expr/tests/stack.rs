//! A thread with a stack of 64 KiB parses, prints, evaluates and differentiates any text, also in unoptimized builds.

use plimsoll_expr::parse::MAX_NESTING;
use plimsoll_expr::{DType, In, Names, Problem, Value, parse, trace};

/// Runs `body` on a thread with a 64 KiB stack, smaller than any common default (musl's was 80 KiB for a long time).
fn on_a_small_stack(body: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().stack_size(64 << 10).spawn(body).unwrap().join().unwrap();
}

/// `prefix` repeated `times` times, then `x`, then `suffix` as often.
fn nested(times: usize, (prefix, suffix): (&str, &str)) -> String {
    prefix.repeat(times) + "x" + &suffix.repeat(times)
}

/// Every level leaves an operator of each precedence open.
const EVERY_STRENGTH: (&str, &str) = ("x | x ^ x & x << x + x * -(", ")");
const DEEP: [(&str, &str); 6] =
    [("(", ")"), ("-", ""), ("~(", ")"), ("max(x, ", ")"), EVERY_STRENGTH, ("select(x < y, x, y - abs(", "))")];

#[test]
fn nesting_of_every_kind_is_parsed_printed_and_evaluated() {
    for parts in DEEP {
        on_a_small_stack(move || {
            let levels = parts.0.matches(['(', '-', '~']).count();
            let text = nested(MAX_NESTING / levels, parts);
            let graph = parse(&text, &Names::with_default(DType::I32)).unwrap();
            let again = parse(&graph.to_string(), &Names::default()).unwrap();
            assert_eq!(graph, again, "{text}");
            let problem = Problem::flat(&graph, 8, &[]).unwrap();
            assert_eq!(problem.elements(), 8);
            drop((graph.with_plain_names(), problem));
        });
    }
}

#[test]
fn deeper_nesting_is_an_error_at_any_depth() {
    for parts in DEEP {
        for times in [MAX_NESTING + 1, 30_000] {
            on_a_small_stack(move || {
                let error = parse(&nested(times, parts), &Names::with_default(DType::I32)).unwrap_err().to_string();
                assert!(error.contains("nested deeper than 128"), "{error}");
                // Opened and never closed.
                assert!(parse(&parts.0.repeat(times), &Names::with_default(DType::I32)).is_err());
            });
        }
    }
}

#[test]
fn expressions_as_deep_as_the_graph_limit_are_parsed_and_dropped() {
    on_a_small_stack(|| {
        let text = "let t = x\niterate 1000: t = (t + y)*x - abs(t)\nout = t";
        let graph = parse(text, &Names::with_default(DType::F32)).unwrap();
        assert!(graph.nodes().len() > 3000);
        let again = parse(&graph.to_string(), &Names::default()).unwrap();
        assert_eq!(graph, again);
        let element = plimsoll_expr::oracle::Element {
            inputs: &[Value::Float(0.5), Value::Float(0.25)],
            scalars: &[],
            coordinates: &[0],
            place: 0,
        };
        plimsoll_expr::oracle::evaluate(&graph, element, plimsoll_expr::oracle::Precision::Carried).unwrap();
        assert!(graph.gradient(&[0, 1]).unwrap().nodes().len() > 6000);
    });
}

#[test]
fn closures_are_traced_on_a_small_stack() {
    on_a_small_stack(|| {
        let traced = trace(|x: In<f32>, y: In<f32>| {
            let mut sum = x + y;
            for _ in 0..1000 {
                sum = (sum * x).exp() - y;
            }
            sum
        });
        assert!(traced.unwrap().graph().nodes().len() > 2000);
    });
}
