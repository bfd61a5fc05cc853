//! Spans that safe code can make, for the tests of every GPU backend.

use plimsoll_gpu::Span;

/// Spans that name the allocation of `whole`, a span of 4096 bytes, but don't lie inside it.
pub fn spans_outside(whole: Span) -> [Span; 4] {
    [
        Span::new(whole.region(), whole.pointer(), 4100),
        Span::new(whole.region(), whole.pointer() - 4, 8),
        Span::new(whole.region(), u64::MAX - 3, 8),
        Span::new(whole.region(), 0, 8),
    ]
}
