//! The least time of an expression on any machine of the catalogue, from published peaks alone.

use plimsoll_core::model::Cache;
use plimsoll_expr::cost::least_operations;
use plimsoll_expr::{DType, Problem};
use plimsoll_suite::machines::{LookupError, Machine};
use plimsoll_suite::model;

pub use plimsoll_suite::model::{Bound, BoundPart, Limit, Operations, Work};

/// Finds the published figures of a machine by its name: `B200`, `AMD Instinct MI355X`, `EPYC 9654`.
///
/// # Errors
/// [`LookupError`] for a name that matches no machine, or several.
pub fn find_sheet(name: &str) -> Result<&'static Machine, LookupError> {
    model::sheet(name)
}

/// The least time of a launch on `machine`, whatever the kernel: a bound, not a prediction.
#[must_use]
pub fn bound_problem(machine: &Machine, problem: &Problem, cache: Cache) -> Bound {
    let graph = problem.graph();
    let least = |carrier| {
        let least = least_operations(graph, problem.inputs(), problem.elements(), carrier);
        Operations { sums: least.sums, products: least.products, multiply_adds: least.multiply_adds }
    };
    let work = Work {
        bytes: problem.traffic().total(),
        updates: graph.outputs().iter().any(|output| output.in_place.is_some()),
        cache,
        single: least(DType::F32),
        double: least(DType::F64),
    };
    model::bound(machine, &work)
}

#[cfg(test)]
mod tests {
    use plimsoll_core::model::LaunchForm;
    use plimsoll_expr::{Names, parse};
    use plimsoll_suite::machines::MACHINES;

    use super::super::{Choose, KnownMachineError, find_machine, predict_problem};
    use super::*;

    fn problem(text: &str, dtype: DType, bytes: u64) -> Problem {
        Problem::flat(&parse(text, &Names::with_default(dtype)).unwrap(), bytes / dtype.bytes(), &[]).unwrap()
    }

    #[test]
    fn every_machine_of_the_catalogue_has_a_bound_or_a_prediction() {
        for sheet in MACHINES {
            assert_eq!(find_sheet(sheet.name).unwrap().name, sheet.name);
            for (text, dtype) in [("x + 42", DType::F32), ("a*x + y", DType::Bf16), ("erf(x)", DType::F64)] {
                let problem = problem(text, dtype, 1 << 28);
                let bound = bound_problem(sheet, &problem, Cache::Cold);
                let least = problem.traffic().total() as f64 / sheet.peak_bandwidth();
                assert!(bound.seconds().unwrap() >= least, "{}: {bound:?}", sheet.name);
            }
            match find_machine(sheet.name) {
                Ok(known) => {
                    let choose = Choose::default();
                    let problem = problem("x + 42", DType::F32, 1 << 28);
                    for launch in [known.launch(false), LaunchForm::Graph] {
                        predict_problem(&known, &problem, &choose, (Cache::Cold, launch), None).unwrap();
                    }
                }
                Err(error) => assert!(matches!(error, KnownMachineError::NotCuda(_)), "{}: {error}", sheet.name),
            }
        }
    }

    #[test]
    fn predictions_are_not_below_their_bounds() {
        for name in ["H200", "A100 40GB", "A100 80GB", "H100 PCIe", "H100 SXM", "L4", "A10", "V100"] {
            let (sheet, known) = (find_sheet(name).unwrap(), find_machine(name).unwrap());
            for text in ["x + 42", "a*x + y", "exp(x)", "erf(x)*x + x*y"] {
                for (bytes, cache) in [(1 << 16, Cache::Cold), (1 << 28, Cache::Cold), (1 << 28, Cache::Hot)] {
                    let problem = problem(text, DType::F32, bytes);
                    let form = (cache, known.launch(false));
                    let predicted = predict_problem(&known, &problem, &Choose::default(), form, None).unwrap();
                    let bound = bound_problem(sheet, &problem, cache).seconds().unwrap_or_default();
                    let total = predicted.prediction.total.unwrap().value;
                    assert!(total >= bound, "{name}, {text}, {bytes} {cache:?}: {total} and {bound}");
                }
            }
        }
    }

    #[test]
    fn arithmetic_sets_the_bound_of_long_expressions() {
        let text = "let s = x; iterate 500: s = s*s + 0.25; s";
        let bound = bound_problem(find_sheet("B200").unwrap(), &problem(text, DType::F32, 1 << 28), Cache::Cold);
        // 500 multiply-adds for each of 2^26 elements at 75 TFLOP/s.
        let expected = 2.0 * 500.0 * (1_u64 << 26) as f64 / 75e12;
        assert!((bound.seconds().unwrap() / expected - 1.0).abs() < 1e-9, "{bound:?}");
    }
}
