//! Unsound uses of the CUDA backend that don't compile.
