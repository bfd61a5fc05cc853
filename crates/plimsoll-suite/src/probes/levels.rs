//! Levels: where a curve over footprint has its plateaus and knees. Shared by `latency` and `footprint`.
