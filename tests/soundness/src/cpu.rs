//! Unsound uses of the CPU backend that don't compile.
