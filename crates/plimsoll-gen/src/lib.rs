//! Everything about GPU kernels that needs no GPU: sources, descriptions, the SASS reader.
#![forbid(unsafe_code)]
