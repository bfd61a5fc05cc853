//! Whatever text is given, a thread with a stack of 64 KiB reads, prints and evaluates it, in builds without optimisation too.

use plimsoll_expr::parse::MAX_NESTING;
use plimsoll_expr::{DType, In, Names, Problem, Value, parse, trace};

/// Runs on a thread with the smallest stack that is common (musl's was 80 KiB for long).
fn on_a_small_stack(body: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().stack_size(64 << 10).spawn(body).unwrap().join().unwrap();
}

/// `prefix` so often, then the middle, then `suffix` as often.
fn nested(times: usize, (prefix, suffix): (&str, &str)) -> String {
    prefix.repeat(times) + "x" + &suffix.repeat(times)
}

/// Every level holds an operator of each strength open.
const EVERY_STRENGTH: (&str, &str) = ("x | x ^ x & x << x + x * -(", ")");
const DEEP: [(&str, &str); 6] =
    [("(", ")"), ("-", ""), ("~(", ")"), ("max(x, ", ")"), EVERY_STRENGTH, ("select(x < y, x, y - abs(", "))")];

#[test]
fn nesting_of_every_kind_is_read_printed_and_evaluated() {
    for parts in DEEP {
        on_a_small_stack(move || {
            let levels = parts.0.matches(['(', '-', '~']).count();
            let text = nested(MAX_NESTING / levels, parts);
            let graph = parse(&text, &Names::all(DType::I32)).unwrap();
            let again = parse(&graph.to_string(), &Names::default()).unwrap();
            assert_eq!(graph, again, "{text}");
            let problem = Problem::flat(&graph, 8, &[]).unwrap();
            assert_eq!(problem.elements(), 8);
            drop((graph.with_plain_names(), problem));
        });
    }
}

#[test]
fn deeper_nesting_is_an_error_however_deep_it_is() {
    for parts in DEEP {
        for times in [MAX_NESTING + 1, 30_000] {
            on_a_small_stack(move || {
                let error = parse(&nested(times, parts), &Names::all(DType::I32)).unwrap_err().to_string();
                assert!(error.contains("nested deeper than 128"), "{error}");
                // What is open and never closed.
                assert!(parse(&parts.0.repeat(times), &Names::all(DType::I32)).is_err());
            });
        }
    }
}

#[test]
fn expressions_as_deep_as_graphs_may_be_are_read_and_dropped() {
    on_a_small_stack(|| {
        let text = "let t = x\niterate 1000: t = (t + y)*x - abs(t)\nout = t";
        let graph = parse(text, &Names::all(DType::F32)).unwrap();
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
