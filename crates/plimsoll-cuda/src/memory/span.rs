//! Spans: parts of device-accessible memory, as kernels and copies take them.

use std::sync::Arc;

use plimsoll_core::Fault;

pub use plimsoll_gpu::Span;

use super::Region;
use crate::driver::{Context, Entered, Handle, Stream};
use crate::wait;

/// Most bytes per copy through our staging buffer.
const STAGE: usize = 4 << 20;

/// Operations of streams on spans.
pub trait Transfer: Copy {
    /// Copies host bytes to its start and waits.
    ///
    /// # Errors
    /// [`Fault::Invalid`] if they don't fit, or while the stream is recording; [`Fault::Hung`].
    fn upload(self, stream: &Stream, from: &[u8]) -> Result<(), Fault>;
    /// Copies its first bytes to the host and waits.
    ///
    /// # Errors
    /// Those of [`Transfer::upload`].
    fn download(self, stream: &Stream, to: &mut [u8]) -> Result<(), Fault>;
    /// Sets every byte, in the stream's order.
    ///
    /// # Errors
    /// [`Fault::Invalid`] if the memory was freed.
    fn fill(self, stream: &Stream, value: u8) -> Result<(), Fault>;
    /// Copies from a span of the same size on another device, in the order of a stream of either device.
    ///
    /// # Errors
    /// [`Fault::Invalid`] if the sizes differ or memory was freed.
    fn copy_from_peer(self, stream: &Stream, from: Self) -> Result<(), Fault>;
    /// Copies from another span of the same size, in the stream's order.
    ///
    /// # Errors
    /// [`Fault::Invalid`] if the sizes differ or memory was freed.
    fn copy_from(self, stream: &Stream, from: Self) -> Result<(), Fault>;
}

impl Transfer for Span {
    fn upload(self, stream: &Stream, from: &[u8]) -> Result<(), Fault> {
        transfer(self, from.len(), stream, |to, context, handle| {
            let copy = |to: u64, from: &[u8]| -> Result<(), Fault> {
                // SAFETY: there is room for `from` at `to`, and the region holds its memory until the wait of `transfer`. The host
                // memory is pageable, so the driver has read it when the call returns.
                let answer = unsafe { context.call().copy_up(to, from.as_ptr().cast(), from.len(), handle) };
                Ok(context.watch(answer)?)
            };
            if is_pageable(context, from)? {
                return copy(to.pointer(), from);
            }
            for (place, chunk) in from.chunks(STAGE).enumerate() {
                // A copy that no device can access.
                let staged = chunk.to_vec();
                copy(to.pointer() + (place * STAGE) as u64, &staged)?;
            }
            Ok(())
        })
    }

    fn download(self, stream: &Stream, to: &mut [u8]) -> Result<(), Fault> {
        transfer(self, to.len(), stream, |from, context, handle| {
            // A copy into pageable memory returns only when it is done, so first wait, with a deadline, for the stream's earlier
            // work.
            wait::stream(stream)?;
            let copy = |from: u64, to: &mut [u8]| -> Result<(), Fault> {
                // SAFETY: there are as many bytes as `to` has at `from`, and the region holds its memory. `to` is exclusively ours
                // and pageable, so the driver has written it when the call returns.
                let answer = unsafe { context.call().copy_down(to.as_mut_ptr().cast(), from, to.len(), handle) };
                Ok(context.watch(answer)?)
            };
            if is_pageable(context, to)? {
                return copy(from.pointer(), to);
            }
            let mut stage = vec![0; to.len().min(STAGE)];
            for (place, chunk) in to.chunks_mut(STAGE).enumerate() {
                let stage = &mut stage[..chunk.len()];
                copy(from.pointer() + (place * STAGE) as u64, stage)?;
                chunk.copy_from_slice(stage);
            }
            Ok(())
        })
    }

    fn fill(self, stream: &Stream, value: u8) -> Result<(), Fault> {
        if self.bytes() == 0 {
            return Ok(());
        }
        let entered = stream.enter()?;
        keep(self, stream, &entered)?;
        let context = stream.context();
        // SAFETY: inside live memory, which is freed only after the work submitted now, or kept by the graph.
        Ok(context.watch(unsafe { context.call().fill_bytes(self.pointer(), value, size(self), stream.handle()) })?)
    }

    fn copy_from_peer(self, stream: &Stream, from: Self) -> Result<(), Fault> {
        same_size(self.bytes(), from.bytes())?;
        let entered = stream.enter()?;
        let (to, bytes) = (keep(self, stream, &entered)?, size(self));
        let peer = keep(from, stream, &entered)?;
        let (own, theirs, context) = (to.context().handle(), peer.context().handle(), stream.context());
        // SAFETY: inside live memory of the two devices, which is freed only after the work submitted now, or kept by the graph;
        // both contexts live.
        let answer =
            unsafe { context.call().copy_peer(self.pointer(), own, from.pointer(), theirs, bytes, stream.handle()) };
        Ok(context.watch(answer)?)
    }

    fn copy_from(self, stream: &Stream, from: Self) -> Result<(), Fault> {
        same_size(self.bytes(), from.bytes())?;
        if self.bytes() == 0 {
            return Ok(());
        }
        let entered = stream.enter()?;
        keep(self, stream, &entered)?;
        keep(from, stream, &entered)?;
        let context = stream.context();
        let call = context.call();
        // SAFETY: as in `fill`, for both spans.
        let answer = unsafe { call.copy_across(self.pointer(), from.pointer(), size(self), stream.handle()) };
        Ok(context.watch(answer)?)
    }
}

/// Lets a stream's work use a span, and keeps the span's region for a recording.
fn keep(span: Span, stream: &Stream, entered: &Entered<'_>) -> Result<Arc<Region>, Fault> {
    let region = Region::find(span)?;
    region.share(stream.context());
    entered.admit(&region)?;
    Ok(region)
}

pub(super) fn size(span: Span) -> usize {
    usize::try_from(span.bytes()).unwrap_or(usize::MAX)
}

/// Copies the first `bytes` of a span from or to the host while its memory is held, and waits for the stream.
fn transfer(
    span: Span,
    bytes: usize,
    stream: &Stream,
    copy: impl FnOnce(Span, &Context, Handle) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let span = span.first(bytes as u64)?;
    if bytes == 0 {
        return Ok(());
    }
    let entered = enter_waitable(stream)?;
    let _held = keep(span, stream, &entered)?;
    stream.context().bind()?;
    copy(span, stream.context(), stream.handle())?;
    wait::stream(stream)
}

/// Enters a stream that can be waited for: one that isn't recording.
fn enter_waitable(stream: &Stream) -> Result<Entered<'_>, Fault> {
    let entered = stream.enter()?;
    let why = "the host can't wait for a stream while a graph is being recorded: copy before or after";
    if entered.is_recording() { Err(Fault::Invalid(why.to_owned())) } else { Ok(entered) }
}

/// Whether no device can access the first or the last of some host bytes: then the driver is done with them when a copy's call
/// returns. Memory that a device can access is copied asynchronously, and may be read or written after a wait has given up.
fn is_pageable(context: &Context, bytes: &[u8]) -> Result<bool, Fault> {
    for end in [bytes.first(), bytes.last()].into_iter().flatten() {
        if !context.is_pageable(end)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn same_size(to: u64, from: u64) -> Result<(), Fault> {
    if to == from { Ok(()) } else { Err(Fault::Invalid(format!("a copy of {from} bytes into {to}"))) }
}
