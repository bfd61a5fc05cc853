//! Attempts every unsound use of the library from outside, in safe code. Uses that the compiler rejects are `compile_fail`
//! examples in the backend's module, each with a twin that compiles, to show that it fails for the stated reason. Uses that
//! are checked at run time are tests in `tests/`.
#![forbid(unsafe_code)]

#[cfg(doctest)]
mod cpu;
#[cfg(doctest)]
mod cuda;
#[cfg(doctest)]
mod vulkan;
