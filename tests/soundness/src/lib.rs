//! Safe code that tries each unsound use of the library from outside. What the compiler refuses is a `compile_fail` example in
//! the module of its backend, with a twin that compiles, so that it fails for the reason it names. What is checked at run time
//! is a test in `tests/`.
#![forbid(unsafe_code)]

#[cfg(doctest)]
mod cpu;
#[cfg(doctest)]
mod cuda;
#[cfg(doctest)]
mod vulkan;
