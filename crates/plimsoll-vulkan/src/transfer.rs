//! Copies between the host and the device, and within the device.

use std::sync::Arc;

use ash::vk;
use plimsoll_core::Fault;
use plimsoll_gpu::Span;

use crate::core::{Core, lock};
use crate::memory::{Region, Staging};
use crate::stream::{SharedResource, Stream};

/// Bytes of the staging memory.
const CHUNK: u64 = 8 << 20;

/// The direction of a transfer.
enum Direction<'h> {
    Up(&'h [u8]),
    Down(&'h mut [u8]),
}

impl Direction<'_> {
    fn bytes(&self) -> usize {
        match self {
            Self::Up(from) => from.len(),
            Self::Down(to) => to.len(),
        }
    }
}

impl Stream {
    /// Copies host bytes to the beginning of a span, after the stream's earlier work, and waits.
    ///
    /// # Errors
    /// [`Fault::Invalid`] if they don't fit or the memory was freed; [`Fault::Hung`].
    pub(crate) fn upload(&self, to: Span, from: &[u8]) -> Result<(), Fault> {
        self.transfer(to, Direction::Up(from))
    }

    /// Copies the first bytes of a span to the host, after the stream's earlier work, and waits.
    ///
    /// # Errors
    /// Those of [`Stream::upload`].
    pub(crate) fn download(&self, from: Span, to: &mut [u8]) -> Result<(), Fault> {
        self.transfer(from, Direction::Down(to))
    }

    fn transfer(&self, span: Span, mut direction: Direction<'_>) -> Result<(), Fault> {
        let span = span.first(direction.bytes() as u64)?;
        let region = Region::find(self.core(), span)?;
        let Some((buffer, begin)) = region.locate(span) else { return self.wait() };
        let keep = region as SharedResource;
        let mut staging = lock(&self.inner().staging);
        // Work left over from an earlier fault must not use the staging memory any more.
        self.wait()?;
        let staging = match &mut *staging {
            Some(staging) => staging,
            none => none.insert(Staging::new(self.core(), CHUNK)?),
        };
        let mut done = 0;
        while done < direction.bytes() {
            let part = done..direction.bytes().min(done + CHUNK as usize);
            let (inner, outer) = (staging.buffer(), begin + done as u64);
            let region = vk::BufferCopy::default().size(part.len() as u64);
            if let Direction::Up(from) = &direction {
                // SAFETY: all work that used it was waited for.
                let content = unsafe { staging.content() };
                content[..part.len()].copy_from_slice(&from[part.clone()]);
                self.copy_buffer(&[Arc::clone(&keep)], inner, buffer, region.dst_offset(outer))?;
            } else {
                self.copy_buffer(&[Arc::clone(&keep)], buffer, inner, region.src_offset(outer))?;
            }
            self.wait()?;
            if let Direction::Down(to) = &mut direction {
                // SAFETY: as above.
                let content = unsafe { staging.content() };
                to[part.clone()].copy_from_slice(&content[..part.len()]);
            }
            done = part.end;
        }
        Ok(())
    }

    /// Records a copy and a barrier. The region must be inside both buffers and must not overlap itself.
    fn copy_buffer(
        &self,
        keep: &[SharedResource],
        from: vk::Buffer,
        to: vk::Buffer,
        region: vk::BufferCopy,
    ) -> Result<(), Fault> {
        let record = |core: &Core, commands| {
            // SAFETY: buffers of this device, which the batch or the stream keeps alive; callers checked the region.
            unsafe {
                core.raw().cmd_copy_buffer(commands, from, to, &[region]);
                core.barrier(commands);
            }
        };
        self.inner().record(keep.iter().map(Arc::clone), record).map(drop)
    }

    /// Sets every byte of a span of whole words, in stream order.
    ///
    /// # Errors
    /// [`Fault::Invalid`] if the span isn't whole words or the memory was freed.
    pub(crate) fn fill(&self, span: Span, value: u8) -> Result<(), Fault> {
        let region = Region::find(self.core(), span)?;
        if !span.pointer().is_multiple_of(4) || !span.bytes().is_multiple_of(4) {
            return Err(Fault::Invalid(format!("{span:?} can't be filled: it isn't whole 4-byte words")));
        }
        let Some((buffer, begin)) = region.locate(span).filter(|_| span.bytes() > 0) else { return Ok(()) };
        let word = u32::from_ne_bytes([value; 4]);
        let record = |core: &Core, commands| {
            // SAFETY: the span is whole words inside the buffer, which the batch keeps alive.
            unsafe {
                core.raw().cmd_fill_buffer(commands, buffer, begin, span.bytes(), word);
                core.barrier(commands);
            }
        };
        self.inner().record(Some(region as SharedResource), record).map(drop)
    }

    /// Copies one span to another of the same size, in stream order.
    ///
    /// # Errors
    /// [`Fault::Invalid`] if the sizes differ, the spans overlap or memory was freed.
    pub(crate) fn copy(&self, to: Span, from: Span) -> Result<(), Fault> {
        if to.bytes() != from.bytes() {
            return Err(Fault::Invalid(format!(
                "{} bytes can't be copied to a span of {} bytes",
                from.bytes(),
                to.bytes()
            )));
        }
        let (target, source) = (Region::find(self.core(), to)?, Region::find(self.core(), from)?);
        if to.region() == from.region() && to.pointer().abs_diff(from.pointer()) < to.bytes() {
            return Err(Fault::Invalid("a span can't be copied to one that overlaps it".to_owned()));
        }
        let (Some(target_place), Some(source_place)) = (target.locate(to), source.locate(from)) else { return Ok(()) };
        if to.bytes() == 0 {
            return Ok(());
        }
        let region = vk::BufferCopy::default().size(to.bytes()).src_offset(source_place.1).dst_offset(target_place.1);
        self.copy_buffer(&[target as SharedResource, source as SharedResource], source_place.0, target_place.0, region)
    }
}
