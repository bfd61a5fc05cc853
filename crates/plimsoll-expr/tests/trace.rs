//! Closures give the same graphs as text; handles used outside their closure are errors.

use std::cell::Cell;

use half::{bf16, f16};
use plimsoll_expr::trace::{coordinate, place};
use plimsoll_expr::{ExprError, Graph, In, InOut, Names, Scalar, parse, trace};

fn text(text: &str) -> Graph {
    parse(text, &Names::default()).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn a_closure_and_its_text_give_the_same_graph() {
    let traced = trace(|a: Scalar<f32>, x: In<bf16>, y: In<bf16>| (a * x + y).tanh()).unwrap();
    assert_eq!(*traced.graph(), text("in x0: bf16, x1: bf16\nscalar a0: f32\ny0 = tanh(a0*x0 + x1)"));
    let traced =
        trace(|x: In<f32>, n: In<i32>| (x.max(0.5).clamp(0, n), (n / 2).cast::<f16>(), !(n >> 1) & 3)).unwrap();
    let same = "in x0: f32, x1: i32\ny0 = clamp(max(x0, 0.5), 0, x1)\ny1 = f16(x1/2)\ny2 = !(x1 >> 1) & 3";
    assert_eq!(*traced.graph(), text(same));
    let traced = trace(|x: In<f64>| 1.0 / x.gt(0.0).select(x, 2.0 - x).mul_add(x, 3)).unwrap();
    assert_eq!(*traced.graph(), text("in x0: f64\ny0 = 1/fma(select(x0 > 0, x0, 2 - x0), x0, 3)"));
    let traced = trace(|| (place() + coordinate(1) * 2, coordinate(0).atan2(1.0))).unwrap();
    assert_eq!(*traced.graph(), text("y0 = index() + index(1)*2\ny1 = atan2(index(0), 1.0)"));
}

#[test]
fn tensors_are_updated_in_place() {
    let step = trace(|lr: Scalar<f32>, g: In<bf16>, p: InOut<f32>, m: InOut<f32>| {
        let momentum = m.get() * 0.9 + 0.1 * g;
        m.set(momentum);
        p.set(p.get() - lr * momentum);
        p.get().cast::<bf16>()
    });
    let step = step.unwrap();
    let outputs: Vec<_> = step.graph().outputs().iter().map(|o| (o.name.as_str(), o.in_place)).collect();
    assert_eq!(outputs, [("x2", Some(2)), ("x1", Some(1)), ("y2", None)]);
    let printed = step.graph().to_string();
    assert_eq!(text(&printed), *step.graph(), "{printed}");
}

#[test]
fn loops_unroll_and_equal_closures_are_equal_graphs() {
    let mandelbrot = || {
        trace(|cr: In<f32>, ci: In<f32>| {
            let (mut zr, mut zi) = (cr * 0.0, ci * 0.0);
            for _ in 0..50 {
                (zr, zi) = (zr * zr - zi * zi + cr, 2.0 * zr * zi + ci);
            }
            (zr * zr + zi * zi).lt(4.0)
        })
    };
    assert_eq!(mandelbrot().unwrap().graph(), mandelbrot().unwrap().graph());
    assert!(mandelbrot().unwrap().graph().nodes().len() > 300);
}

#[test]
fn a_handle_of_another_closure_is_an_error() {
    let leaked = Cell::new(None);
    trace(|x: In<f32>| {
        leaked.set(Some(x));
        x
    })
    .unwrap();
    let foreign = leaked.get().unwrap();
    let _ = foreign * 2.0; // outside of any closure: nothing happens
    assert_eq!(trace(|x: In<f32>| x + foreign).unwrap_err(), ExprError::ForeignHandle);
    assert_eq!(trace(|_: In<f32>| foreign).unwrap_err(), ExprError::ForeignHandle);
    let inner_uses_outer = trace(|x: In<f32>| {
        assert_eq!(trace(|y: In<f32>| y + x).unwrap_err(), ExprError::ForeignHandle);
        x
    });
    assert!(inner_uses_outer.is_ok());
}

#[test]
fn errors_in_a_closure_are_returned_by_trace() {
    assert!(matches!(trace(|x: In<f32>| x << 1), Err(ExprError::Domain { op: "<<", .. })));
    assert!(matches!(trace(|x: In<u8>| x + 300), Err(ExprError::Range { .. })));
    assert!(matches!(trace(|_: In<f32>| ()), Err(ExprError::NoOutput)));
    let twice = trace(|x: InOut<f32>| {
        x.set(x.get() + 1);
        x.set(x.get() + 2);
    });
    assert_eq!(twice.unwrap_err(), ExprError::SetTwice);
    let endless = trace(|x: In<f32>| (0..20_000).fold(x, |sum, i| sum + f64::from(i)));
    assert_eq!(endless.unwrap_err(), ExprError::TooManyNodes);
}

#[test]
fn a_closure_that_panics_leaves_nothing_behind() {
    let panics = || trace(|x: In<f32>| if true { panic!("in the closure") } else { x });
    assert!(std::panic::catch_unwind(panics).is_err());
    assert!(trace(|x: In<f32>| x).is_ok());
}
