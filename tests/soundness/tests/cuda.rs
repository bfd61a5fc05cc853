//! Unsound uses of the CUDA backend that are typed errors, tried with the stand-in driver.
#![forbid(unsafe_code)]
