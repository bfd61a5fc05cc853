//! A stand-in for libcuda.so.1 with fault injection, for tests.
