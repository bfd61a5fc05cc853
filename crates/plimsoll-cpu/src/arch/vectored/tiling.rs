//! The order in which tensors are indexed: tiles of rows and columns in the two fastest dimensions, divided among threads.

use std::ops::Range;

/// Most dimensions in addition to rows and columns.
pub(super) const OUTER: usize = 6;

/// One tensor's strides and offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    /// Elements from the start of the memory to the first one.
    pub(crate) offset: u64,
    /// Elements from one index to the next, per dimension.
    pub(crate) strides: Vec<i64>,
    /// Bytes of an element.
    pub(crate) width: u8,
}

/// An invalid tiling.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TilingError {
    #[error("there are too many dimensions ({0}), or not one stride for each")]
    Rank(usize),
    #[error("the tensors exceed the address space")]
    TooLarge,
}

/// A stream's strides in bytes, and the part of its memory that it reaches.
#[derive(Clone, Debug)]
pub(super) struct Stream {
    pub offset: isize,
    pub outer: [isize; OUTER],
    pub row: isize,
    pub column: isize,
    pub width: usize,
    /// The first byte that it reaches and the end of the last one, from the start of the memory; equal if it has no elements.
    pub reach: (isize, isize),
    /// No two indices share an element.
    pub apart: bool,
}

/// Extents, tiles and streams. Dimensions are outer ones, then rows, then columns.
#[derive(Clone, Debug)]
pub(crate) struct Tiling {
    pub(super) rank: usize,
    pub(super) outer: [usize; OUTER],
    pub(super) rows: usize,
    pub(super) columns: usize,
    /// Rows and columns of a tile.
    pub(super) tile: (usize, usize),
    /// The number of tiles.
    count: usize,
    pub(super) streams: Vec<Stream>,
}

/// One tile's position.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tile {
    pub outer: [usize; OUTER],
    pub row: usize,
    pub column: usize,
}

impl Tiling {
    /// `tile`: rows and columns, limited to the extents. `accesses` are the inputs', then the outputs'.
    pub(crate) fn new(extents: &[u64], accesses: &[Access], tile: (usize, usize)) -> Result<Self, TilingError> {
        let rank = extents.len();
        if rank > OUTER + 2 || accesses.iter().any(|access| access.strides.len() != rank) {
            return Err(TilingError::Rank(rank));
        }
        // This check keeps all counts of tiles and elements in range, and the sums of strides times extents within i128.
        let product = |product: u64, &extent: &u64| product.checked_mul(extent);
        let most = if extents.contains(&0) { Some(0) } else { extents.iter().try_fold(1, product) };
        most.and_then(|most| isize::try_from(most).ok()).ok_or(TilingError::TooLarge)?;
        let extent = |extent: u64| usize::try_from(extent).map_err(|_| TilingError::TooLarge);
        let mut outer = [1; OUTER];
        for (place, &length) in outer.iter_mut().zip(&extents[..rank.saturating_sub(2)]) {
            *place = extent(length)?;
        }
        let [rows, columns] = [2, 1].map(|back| rank.checked_sub(back).map_or(1, |i| extents[i]));
        let (rows, columns) = (extent(rows)?, extent(columns)?);
        let streams = accesses.iter().map(|access| Stream::new(extents, access)).collect::<Result<_, _>>()?;
        let tile = (tile.0.clamp(1, rows.max(1)), tile.1.clamp(1, columns.max(1)));
        let mut tiling = Self { rank, outer, rows, columns, tile, count: 0, streams };
        if !tiling.is_empty() {
            tiling.count = outer.iter().product::<usize>() * tiling.blocks().0 * tiling.blocks().1;
        }
        Ok(tiling)
    }

    /// Whether there are no elements.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows == 0 || self.columns == 0 || self.outer.contains(&0)
    }

    /// The most elements of a tile.
    pub(crate) fn tile_elements(&self) -> usize {
        self.tile.0 * self.tile.1
    }

    /// Whether every tile of a stream is contiguous in memory, in order.
    pub(super) fn is_dense(&self, stream: usize) -> bool {
        let Stream { row, column, width, .. } = self.streams[stream];
        let unit = column == width as isize || self.tile.1 == 1;
        let whole = self.tile.1 == self.columns && row == (self.columns * width) as isize;
        self.is_empty() || (unit && (self.tile.0 == 1 || whole))
    }

    fn blocks(&self) -> (usize, usize) {
        (self.rows.div_ceil(self.tile.0), self.columns.div_ceil(self.tile.1))
    }

    /// The number of tiles.
    pub(crate) fn tiles(&self) -> usize {
        self.count
    }

    /// The tiles of thread `rank` of `members`.
    pub(super) fn share(&self, rank: usize, members: usize) -> Range<usize> {
        let (each, extra) = (self.tiles() / members, self.tiles() % members);
        let begin = |rank: usize| rank * each + rank.min(extra);
        begin(rank)..begin(rank + 1)
    }

    /// The tile with a number below [`Tiling::tiles`].
    pub(super) fn tile(&self, number: usize) -> Tile {
        if number == 0 {
            return Tile { outer: [0; OUTER], row: 0, column: 0 };
        }
        let (down, across) = self.blocks();
        let (mut rest, column) = (number / across, number % across * self.tile.1);
        let row = rest % down * self.tile.0;
        rest /= down;
        let mut outer = [0; OUTER];
        for (index, &extent) in outer.iter_mut().zip(&self.outer).rev() {
            *index = rest % extent;
            rest /= extent;
        }
        Tile { outer, row, column }
    }

    /// Advances to the next tile.
    pub(super) fn next(&self, tile: &mut Tile) {
        tile.column += self.tile.1;
        if tile.column < self.columns {
            return;
        }
        tile.column = 0;
        tile.row += self.tile.0;
        if tile.row < self.rows {
            return;
        }
        tile.row = 0;
        for (index, &extent) in tile.outer.iter_mut().zip(&self.outer).rev() {
            *index += 1;
            if *index < extent {
                return;
            }
            *index = 0;
        }
    }

    /// Rows and columns of a tile, fewer at the edges.
    pub(super) fn size(&self, tile: &Tile) -> (usize, usize) {
        (self.tile.0.min(self.rows - tile.row), self.tile.1.min(self.columns - tile.column))
    }
}

impl Stream {
    fn new(extents: &[u64], access: &Access) -> Result<Self, TilingError> {
        let width = i128::from(access.width);
        let empty = extents.contains(&0);
        let (mut low, mut high) = (i128::from(access.offset), i128::from(access.offset));
        // With fewer than 2^63 elements the sum is less than 2^126; an empty tiling reaches no memory.
        for (&extent, &stride) in extents.iter().zip(&access.strides).filter(|_| !empty) {
            let far = i128::from(extent - 1) * i128::from(stride);
            if far < 0 { low += far } else { high += far }
        }
        let bytes = |elements: i128| {
            let bytes = elements.checked_mul(width).and_then(|bytes| isize::try_from(bytes).ok());
            bytes.ok_or(TilingError::TooLarge)
        };
        let reach = if empty { (0, 0) } else { (bytes(low)?, bytes(high + 1)?) };
        // Strides of dimensions with one element are never used and may have any value.
        let stride = |i: usize| if extents[i] > 1 && !empty { bytes(access.strides[i].into()) } else { Ok(0) };
        let rank = extents.len();
        let mut outer = [0; OUTER];
        for (i, place) in outer.iter_mut().enumerate().take(rank.saturating_sub(2)) {
            *place = stride(i)?;
        }
        let fast = |back: usize| rank.checked_sub(back).map_or(Ok(0), stride);
        let offset = if empty { 0 } else { bytes(access.offset.into())? };
        let apart = empty || is_apart(extents, &access.strides);
        Ok(Self { offset, outer, row: fast(2)?, column: fast(1)?, width: usize::from(access.width), reach, apart })
    }

    /// Bytes from the start of the memory to the tile's first element.
    #[inline]
    pub(super) fn start(&self, tile: &Tile) -> isize {
        let mut start = self.offset + self.row * tile.row as isize + self.column * tile.column as isize;
        for (stride, &index) in self.outer.iter().zip(&tile.outer) {
            start += stride * index as isize;
        }
        start
    }
}

/// Whether no two indices share an element: each stride exceeds the reach of all smaller ones.
fn is_apart(extents: &[u64], strides: &[i64]) -> bool {
    let mut steps: Vec<(u64, u64)> = strides.iter().zip(extents).map(|(s, &e)| (s.unsigned_abs(), e)).collect();
    steps.retain(|&(_, extent)| extent > 1);
    steps.sort_unstable();
    let mut reach = 0_u64;
    for (stride, extent) in steps {
        if stride <= reach {
            return false;
        }
        reach = reach.saturating_add(stride.saturating_mul(extent - 1));
    }
    true
}
