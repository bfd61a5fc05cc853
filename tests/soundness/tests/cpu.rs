//! Unsound uses of the CPU backend that are typed errors.
#![forbid(unsafe_code)]
