//! The compiled part of the Python package `plimsoll`: expressions on the memory of other libraries' arrays, and the command.
//! `docs/python.md` describes the package.

#[allow(unsafe_code)]
mod callable;
#[allow(unsafe_code)]
mod dlpack;
mod error;
mod expression;
mod interface;
#[allow(unsafe_code)]
mod invoke;
#[allow(unsafe_code)]
mod library;
#[allow(unsafe_code)]
mod many;
mod number;
#[allow(unsafe_code)]
mod numpy;
mod specialised;
mod tensor;

use std::ffi::OsString;

use plimsoll::core::unit::Unit;
use pyo3::prelude::*;

/// Runs the command and returns its exit code. The first argument is the command's name.
#[pyfunction]
fn run_command(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| plimsoll_cli::run(arguments))
}

/// A figure with its interval as the command prints it: "4.26 TB/s ± 0.01".
#[pyfunction]
fn format_figure(value: f64, interval: [f64; 2], unit: String) -> String {
    Unit::from(unit).format_with_interval(value, interval)
}

/// The compiled part of plimsoll.
#[pymodule(gil_used = false)]
fn _plimsoll(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("Expression", callable::kind(py)?)?;
    module.add_function(wrap_pyfunction!(expression::compile, module)?)?;
    module.add_function(wrap_pyfunction!(run_command, module)?)?;
    module.add_function(wrap_pyfunction!(format_figure, module)?)?;
    module.add("ExpressionError", py.get_type::<error::ExpressionError>())?;
    module.add("ShapeError", py.get_type::<error::ShapeError>())?;
    module.add("DeviceError", py.get_type::<error::DeviceError>())?;
    module.add("__version__", plimsoll::VERSION)
}
