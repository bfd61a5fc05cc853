//! Copies between the host and the device, and within the device.

use std::sync::Arc;

use ash::vk;
use plimsoll_core::Fault;
use plimsoll_gpu::Span;

use crate::core::{Core, lock};
use crate::memory::{Region, Staging};
use crate::stream::{Keep, Stream};

/// Bytes that go through the host's memory at once.
const CHUNK: u64 = 8 << 20;

/// Which way bytes go.
enum Way<'h> {
    Up(&'h [u8]),
    Down(&'h mut [u8]),
}

impl Way<'_> {
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
    /// [`Fault::Invalid`] where they don't fit or the memory was freed; [`Fault::Hung`]; the driver's.
    pub(crate) fn upload(&self, to: Span, from: &[u8]) -> Result<(), Fault> {
        self.transfer(to, Way::Up(from))
    }

    /// Copies the first bytes of a span to the host, after the stream's earlier work, and waits.
    ///
    /// # Errors
    /// Those of [`Stream::upload`].
    pub(crate) fn download(&self, from: Span, to: &mut [u8]) -> Result<(), Fault> {
        self.transfer(from, Way::Down(to))
    }

    fn transfer(&self, span: Span, mut way: Way<'_>) -> Result<(), Fault> {
        let span = span.first(way.bytes() as u64)?;
        let region = Region::find(self.core(), span)?;
        let Some((buffer, begin)) = region.place(span) else { return self.wait() };
        let keep = region as Keep;
        let mut staging = lock(&self.inner().staging);
        // Nothing that an earlier fault left may still use it.
        self.wait()?;
        let staging = match &mut *staging {
            Some(staging) => staging,
            none => none.insert(Staging::new(self.core(), CHUNK)?),
        };
        let mut done = 0;
        while done < way.bytes() {
            let part = done..way.bytes().min(done + CHUNK as usize);
            let (inner, outer) = (staging.buffer(), begin + done as u64);
            let region = vk::BufferCopy::default().size(part.len() as u64);
            if let Way::Up(from) = &way {
                // SAFETY: all that used it was waited for.
                let content = unsafe { staging.content() };
                content[..part.len()].copy_from_slice(&from[part.clone()]);
                self.copy_buffer(&[Arc::clone(&keep)], inner, buffer, region.dst_offset(outer))?;
            } else {
                self.copy_buffer(&[Arc::clone(&keep)], buffer, inner, region.src_offset(outer))?;
            }
            self.wait()?;
            if let Way::Down(to) = &mut way {
                // SAFETY: as above.
                let content = unsafe { staging.content() };
                to[part.clone()].copy_from_slice(&content[..part.len()]);
            }
            done = part.end;
        }
        Ok(())
    }

    /// Records a copy and that what comes later waits for it. The region lies inside both, and they don't overlap in it.
    fn copy_buffer(
        &self,
        keep: &[Keep],
        from: vk::Buffer,
        to: vk::Buffer,
        region: vk::BufferCopy,
    ) -> Result<(), Fault> {
        let record = |core: &Core, commands| {
            // SAFETY: buffers of this device, which the batch or the stream holds; callers found the region inside.
            unsafe {
                core.raw().cmd_copy_buffer(commands, from, to, &[region]);
                core.barrier(commands);
            }
        };
        self.inner().record(keep.iter().map(Arc::clone), record).map(drop)
    }

    /// Sets every byte of whole words, in the stream's order.
    ///
    /// # Errors
    /// [`Fault::Invalid`] where they aren't whole words or the memory was freed; the driver's.
    pub(crate) fn fill(&self, span: Span, value: u8) -> Result<(), Fault> {
        let region = Region::find(self.core(), span)?;
        if !span.pointer().is_multiple_of(4) || !span.bytes().is_multiple_of(4) {
            return Err(Fault::Invalid(format!("{span:?} is no whole words to be filled")));
        }
        let Some((buffer, begin)) = region.place(span).filter(|_| span.bytes() > 0) else { return Ok(()) };
        let word = u32::from_ne_bytes([value; 4]);
        let record = |core: &Core, commands| {
            // SAFETY: the span lies inside the buffer, which the batch holds, and is whole words.
            unsafe {
                core.raw().cmd_fill_buffer(commands, buffer, begin, span.bytes(), word);
                core.barrier(commands);
            }
        };
        self.inner().record(Some(region as Keep), record).map(drop)
    }

    /// Copies one span to another of the same size, in the stream's order.
    ///
    /// # Errors
    /// [`Fault::Invalid`] where the sizes differ, the spans overlap or memory was freed; the driver's.
    pub(crate) fn copy(&self, to: Span, from: Span) -> Result<(), Fault> {
        if to.bytes() != from.bytes() {
            return Err(Fault::Invalid(format!("{} bytes are copied to {}", from.bytes(), to.bytes())));
        }
        let (target, source) = (Region::find(self.core(), to)?, Region::find(self.core(), from)?);
        if to.region() == from.region() && to.pointer().abs_diff(from.pointer()) < to.bytes() {
            return Err(Fault::Invalid("a span is copied to one that overlaps it".to_owned()));
        }
        let (Some(target_place), Some(source_place)) = (target.place(to), source.place(from)) else { return Ok(()) };
        if to.bytes() == 0 {
            return Ok(());
        }
        let region = vk::BufferCopy::default().size(to.bytes()).src_offset(source_place.1).dst_offset(target_place.1);
        self.copy_buffer(&[target as Keep, source as Keep], source_place.0, target_place.0, region)
    }
}
