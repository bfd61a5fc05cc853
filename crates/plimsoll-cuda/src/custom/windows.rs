//! The buffers of a kernel that is timed. Each is an array of windows, one per launch of a rotation, so that launches find nothing in a
//! cache. Behind each window is a guard whose pattern shows whether the kernel wrote beyond the window's end.

use std::sync::Arc;

use plimsoll_core::Fault;
use plimsoll_core::sample::Check;
use plimsoll_gen::custom::{Arguments, Buffer, Fill, Role};

use crate::driver::Stream;
use crate::memory::{DeviceBuffer, Span, Transfer as _, free};
use crate::wait;

/// Most launches of a rotation.
const MOST_WINDOWS: u64 = 8192;
/// Windows begin at multiples of this many bytes.
const GRAIN: u64 = 4096;
/// Fewest bytes of a guard, and the pattern in it.
const GUARD: u64 = 256;
const PATTERN: u8 = 0xa5;
/// Content that doesn't depend on an element's place is made once for this many bytes and then repeated.
const BLOCK: u64 = 32 << 20;
/// Most bytes of content that are made at once.
const PIECE: u64 = 4 << 20;
/// Most windows of a buffer whose guards are checked.
const CHECKED: u64 = 8;

/// How many windows each buffer has.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    buffers: Vec<Buffer>,
    is_cold: bool,
    pub(super) windows: u64,
}

impl Layout {
    /// The windows of a cold rotation, which together touch at least `window` bytes of the largest buffer; one window if `window` is
    /// `None`. A second window of buffers that are larger than `window` is left out if it doesn't fit into `free` bytes.
    pub(super) fn new(arguments: &Arguments, window: Option<u64>, free: u64) -> Self {
        let buffers: Vec<Buffer> = arguments.buffers().copied().collect();
        let largest = buffers.iter().map(Buffer::bytes).max().unwrap_or(0);
        let windows =
            window.filter(|_| largest > 0).map_or(1, |window| window.div_ceil(largest).clamp(1, MOST_WINDOWS));
        let layout = Self { buffers, is_cold: window.is_some(), windows };
        let two = Self { windows: 2, ..layout.clone() };
        if layout.is_cold && largest > 0 && windows == 1 && two.bytes() <= free { two } else { layout }
    }

    /// Distance between the windows of a buffer, bytes.
    fn pitch(buffer: &Buffer) -> u64 {
        buffer.bytes().saturating_add(GUARD).checked_next_multiple_of(GRAIN).unwrap_or(u64::MAX)
    }

    /// Bytes of a whole array.
    fn array_bytes(&self, buffer: &Buffer) -> u64 {
        Self::pitch(buffer).saturating_mul(self.windows)
    }

    /// Bytes of all arrays, with a copy of the content that launches overwrite.
    pub(super) fn bytes(&self) -> u64 {
        let copy = |buffer: &Buffer| if buffer.role == Role::InOut { buffer.bytes() } else { 0 };
        let bytes = |buffer: &Buffer| self.array_bytes(buffer).saturating_add(copy(buffer));
        self.buffers.iter().map(bytes).fold(0, u64::saturating_add)
    }

    /// Bytes of the largest buffer that a whole rotation touches; 0 if every launch uses the same data.
    pub(super) fn touched(&self) -> u64 {
        let largest = self.buffers.iter().map(Buffer::bytes).max().unwrap_or(0);
        if self.is_cold { largest.saturating_mul(self.windows) } else { 0 }
    }
}

/// Allocated buffers with their content.
#[derive(Debug)]
pub(super) struct Windows {
    layout: Layout,
    arrays: Vec<DeviceBuffer>,
    /// The content of each buffer that launches overwrite.
    originals: Vec<Option<DeviceBuffer>>,
}

impl Windows {
    /// Allocates the buffers and fills them.
    ///
    /// # Errors
    /// [`Fault::OutOfMemory`].
    pub(super) fn new(stream: &Arc<Stream>, layout: Layout, seed: u64) -> Result<Self, Fault> {
        let context = stream.context();
        let (free, _) = free(context)?;
        if layout.bytes() > free {
            return Err(Fault::OutOfMemory { asked: layout.bytes(), free: Some(free) });
        }
        let allocate = |bytes: u64| DeviceBuffer::new(context, bytes);
        let arrays = layout.buffers.iter().map(|buffer| allocate(layout.array_bytes(buffer)));
        let arrays = arrays.collect::<Result<Vec<_>, Fault>>()?;
        let original = |buffer: &Buffer| (buffer.role == Role::InOut).then(|| allocate(buffer.bytes())).transpose();
        let originals = layout.buffers.iter().map(original).collect::<Result<Vec<_>, Fault>>()?;
        let all = Self { layout, arrays, originals };
        for place in 0..all.arrays.len() {
            all.fill(stream, place, seed.wrapping_add(place as u64))?;
        }
        wait::stream(stream)?;
        Ok(all)
    }

    /// The span of a buffer in a window.
    fn span(&self, place: usize, window: u64) -> Result<Span, Fault> {
        let buffer = &self.layout.buffers[place];
        self.arrays[place].part(window * Layout::pitch(buffer), buffer.bytes())
    }

    /// The buffers of one launch.
    pub(super) fn set(&self, window: u64) -> Result<Vec<Span>, Fault> {
        (0..self.arrays.len()).map(|place| self.span(place, window)).collect()
    }

    /// Writes the guards and the content of a buffer, into all windows.
    fn fill(&self, stream: &Arc<Stream>, place: usize, seed: u64) -> Result<(), Fault> {
        stream.context().bind()?;
        self.arrays[place].whole().fill(stream, PATTERN)?;
        let first = self.span(place, 0)?;
        fill_one(stream, &self.layout.buffers[place], first, seed)?;
        if let Some(original) = &self.originals[place] {
            original.whole().copy_from(stream, first)?;
        }
        (1..self.layout.windows).try_for_each(|window| self.span(place, window)?.copy_from(stream, first))
    }

    /// The copies (to, from) that restore the content that launches overwrite.
    pub(super) fn restoring_copies(&self) -> Result<Vec<(Span, Span)>, Fault> {
        let mut copies = Vec::new();
        for (place, original) in self.originals.iter().enumerate() {
            let Some(original) = original else { continue };
            for window in 0..self.layout.windows {
                copies.push((self.span(place, window)?, original.whole()));
            }
        }
        Ok(copies)
    }

    /// Checks the guards of some windows, including the first and the last.
    pub(super) fn check_guards(&self, stream: &Arc<Stream>) -> Result<Check, Fault> {
        let last = self.layout.windows - 1;
        let checked = self.layout.windows.min(CHECKED);
        for (array, buffer) in self.arrays.iter().zip(&self.layout.buffers) {
            let (pitch, bytes) = (Layout::pitch(buffer), buffer.bytes());
            for number in 0..checked {
                let window = number * last / (checked - 1).max(1);
                let mut guard = vec![0; (pitch - bytes) as usize];
                array.part(window * pitch + bytes, pitch - bytes)?.download(stream, &mut guard)?;
                if let Some(beyond) = guard.iter().position(|byte| *byte != PATTERN) {
                    return Ok(Check::Failed(format!(
                        "the kernel wrote {beyond} bytes beyond the end of the buffer {buffer}"
                    )));
                }
            }
        }
        Ok(Check::Passed)
    }
}

/// Fills one window.
fn fill_one(stream: &Arc<Stream>, buffer: &Buffer, window: Span, seed: u64) -> Result<(), Fault> {
    if buffer.fill == Fill::Zeros {
        return window.fill(stream, 0);
    }
    let made = if buffer.fill == Fill::Iota { window.bytes() } else { window.bytes().min(BLOCK) };
    let (mut content, mut piece, mut done) = (buffer.content(seed), Vec::new(), 0);
    while done < made {
        content.write(&mut piece, PIECE.min(made - done));
        if piece.is_empty() {
            break;
        }
        window.part(done, piece.len() as u64)?.upload(stream, &piece)?;
        done += piece.len() as u64;
    }
    while done < window.bytes() {
        let next = done.min(window.bytes() - done);
        window.part(done, next)?.copy_from(stream, window.part(0, next)?)?;
        done += next;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(text: &str, window: Option<u64>, free: u64) -> Layout {
        Layout::new(&text.parse().unwrap(), window, free)
    }

    #[test]
    fn buffers_rotate_through_the_window_and_at_least_twice_if_that_fits() {
        let cold = |text: &str, free| layout(text, Some(512 << 20), free).windows;
        assert_eq!(cold("in:f32:1Mi out:f32:1Mi", u64::MAX), 128);
        assert_eq!(cold("in:u8:1", u64::MAX), MOST_WINDOWS);
        assert_eq!(cold("in:u8:1Gi", 3 << 30), 2);
        assert_eq!(cold("in:u8:1Gi", 2 << 30), 1);
        assert_eq!(cold("u64:5", u64::MAX), 1);
        assert_eq!(layout("in:f32:1Mi", None, u64::MAX).windows, 1);
    }

    #[test]
    fn arrays_have_room_for_guards_and_a_copy_of_what_is_overwritten() {
        assert_eq!(layout("in:u8:4096", None, 0).bytes(), 8192);
        assert_eq!(layout("inout:u8:3840", None, 0).bytes(), 4096 + 3840);
        let cold = layout("in:u8:1Mi out:u8:4", Some(4 << 20), u64::MAX);
        assert_eq!((cold.windows, cold.bytes(), cold.touched()), (4, 4 * ((1 << 20) + 4096) + 4 * 4096, 4 << 20));
        assert_eq!(layout("in:u8:1Mi", None, 0).touched(), 0);
        let most = "scratch:u8:4611686018427387903";
        assert_eq!(layout(&[most; 5].join(" "), Some(1), 0).bytes(), u64::MAX);
    }
}
