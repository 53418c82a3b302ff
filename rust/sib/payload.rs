// SPDX-License-Identifier: GPL-2.0

//! The bytes of a segment on their way from the memory of one work request to that of another.
//!
//! Within a host they are copied once: the sender's gather list resolves to pieces of pinned
//! memory, a [`Gather`], and the receiver's scatter list takes the bytes from there.

use crate::kept::Kept;
use crate::mr::Mr;
use crate::mw;
use core::cmp::min;
use rdma::mem::{
    AccessError,
    KernelRange,
    PagesUse,
    PresentUse,
    Region, //
};
use rdma::net::Tail;
use rdma::sync::Held;

/// Entries of one scatter or gather list.
pub(crate) const MAX_SGE: usize = 32;

/// Bytes of inline data of one send.
pub(crate) const MAX_INLINE: usize = 512;

/// Memory that stays in place while this exists.
enum Memory {
    /// Within a memory region, from an offset on.
    Mr(Held<Mr>, usize),
    /// Within a memory region, through a window.
    Window {
        _through: mw::Use,
        mr: Held<Mr>,
        offset: usize,
    },
    /// Within a region for fast registration, which stays until the use of its pages has ended.
    Fast {
        pages: PagesUse,
        _mr: Held<Mr>,
        offset: usize,
    },
    /// Within a region whose pages come and go, which stays until the access to them has ended, be it through a
    /// window.
    OnDemand {
        pages: PresentUse,
        _mr: Held<Mr>,
        _through: Option<mw::Use>,
    },
    /// Of a kernel client, within a region of all memory if there is one.
    Kernel {
        range: KernelRange,
        _mr: Option<Held<Mr>>,
    },
}

/// A run of bytes that a work request or a peer names.
pub(crate) struct Piece {
    memory: Memory,
    len: usize,
}

impl Piece {
    /// `len` bytes at `offset` of a region.
    pub(crate) fn of(mr: Held<Mr>, offset: usize, len: usize) -> Self {
        Self {
            memory: Memory::Mr(mr, offset),
            len,
        }
    }

    /// `len` bytes at `offset` of a region, through a window.
    pub(crate) fn through(window: mw::Use, mr: Held<Mr>, offset: usize, len: usize) -> Self {
        Self {
            memory: Memory::Window {
                _through: window,
                mr,
                offset,
            },
            len,
        }
    }

    /// `len` bytes at `offset` of a region for fast registration.
    pub(crate) fn fast(pages: PagesUse, mr: Held<Mr>, offset: usize, len: usize) -> Self {
        Self {
            memory: Memory::Fast {
                pages,
                _mr: mr,
                offset,
            },
            len,
        }
    }

    /// Bytes of a region whose pages come and go, through a window if there is one.
    pub(crate) fn on_demand(pages: PresentUse, mr: Held<Mr>, through: Option<mw::Use>) -> Self {
        Self {
            len: pages.region().len(),
            memory: Memory::OnDemand {
                pages,
                _mr: mr,
                _through: through,
            },
        }
    }

    /// The bytes of a kernel client, within a region of all memory if there is one.
    pub(crate) fn kernel(range: KernelRange, mr: Option<Held<Mr>>) -> Self {
        Self {
            len: range.len(),
            memory: Memory::Kernel { range, _mr: mr },
        }
    }

    /// The bytes as a window of memory.
    pub(crate) fn region(&self) -> Option<Region<'_>> {
        match &self.memory {
            Memory::Mr(mr, offset) | Memory::Window { mr, offset, .. } => {
                mr.region()?.slice(*offset, self.len)
            }
            Memory::Fast { pages, offset, .. } => pages.region().slice(*offset, self.len),
            Memory::OnDemand { pages, .. } => Some(pages.region()),
            Memory::Kernel { range, .. } => Some(Region::from(range)),
        }
    }
}

/// A gather list, resolved: the payload of one segment.
pub(crate) struct Gather {
    pieces: [Option<Piece>; MAX_SGE],
    count: usize,
    len: usize,
}

impl Gather {
    /// No bytes.
    pub(crate) const fn new() -> Self {
        Self {
            pieces: [const { None }; MAX_SGE],
            count: 0,
            len: 0,
        }
    }

    /// Forgets all pieces.
    pub(crate) fn clear(&mut self) {
        for piece in self.pieces.iter_mut().take(self.count) {
            *piece = None;
        }
        self.count = 0;
        self.len = 0;
    }

    /// Appends a piece; `false` if there are as many as there can be.
    pub(crate) fn push(&mut self, piece: Piece) -> bool {
        let Some(slot) = self.pieces.get_mut(self.count) else {
            return false;
        };
        self.len = self.len.saturating_add(piece.len);
        *slot = Some(piece);
        self.count = self.count.wrapping_add(1);
        true
    }

    /// Calls `f` with the windows that together are the `len` bytes from `skip` on.
    fn walk(
        &self,
        mut skip: usize,
        mut len: usize,
        mut f: impl FnMut(Region<'_>) -> Result<(), AccessError>,
    ) -> Result<(), AccessError> {
        for piece in self.pieces.iter().take(self.count).flatten() {
            if len == 0 {
                break;
            }
            if skip >= piece.len {
                skip = skip.wrapping_sub(piece.len);
                continue;
            }
            let part = min(len, piece.len.wrapping_sub(skip));
            let region = piece.region().ok_or(AccessError::OutOfBounds)?;
            f(region.slice(skip, part).ok_or(AccessError::OutOfBounds)?)?;
            len = len.wrapping_sub(part);
            skip = 0;
        }
        if len == 0 {
            Ok(())
        } else {
            Err(AccessError::OutOfBounds)
        }
    }
}

/// How packets of one length stand in a buffer: so many in a row, then a gap, and so on.
#[derive(Clone, Copy)]
pub(crate) struct Rows {
    /// The distance from one packet of a row to the next.
    pub(crate) stride: usize,
    /// Packets of a row.
    pub(crate) each: usize,
    /// Bytes between two rows.
    pub(crate) gap: usize,
}

impl Rows {
    /// The distance from the packet at place `first` of its row to the `number`th after it.
    #[inline]
    pub(crate) fn distance(&self, first: usize, number: usize) -> usize {
        let row = |place: usize| place.checked_div(self.each).unwrap_or(0);
        let gaps = row(first.wrapping_add(number)).wrapping_sub(row(first));
        let within = number.wrapping_mul(self.stride);
        within.wrapping_add(gaps.wrapping_mul(self.gap))
    }
}

/// The payload of packets that are one segment and stand in one buffer.
pub(crate) struct Packets<'a> {
    /// The payload of the first, and what follows.
    bytes: &'a [u8],
    /// How the packets stand there.
    rows: Rows,
    /// The place of the first one in its row.
    first: usize,
    /// Bytes of each but the last, which may be shorter.
    each: usize,
    /// Bytes of all.
    len: usize,
    /// How many there are.
    count: usize,
}

impl<'a> Packets<'a> {
    /// One, of `len` bytes.
    pub(crate) fn new(bytes: &'a [u8], rows: Rows, first: usize, len: usize) -> Self {
        Self {
            bytes,
            rows,
            first,
            each: len,
            len,
            count: 1,
        }
    }

    /// Whether the next one may have `len` bytes.
    pub(crate) fn may_extend(&self, len: usize) -> bool {
        let full = self.each.checked_mul(self.count) == Some(self.len);
        full && self.each != 0 && len <= self.each
    }

    /// The distance from the first packet to the next one.
    pub(crate) fn distance(&self) -> usize {
        self.rows.distance(self.first, self.count)
    }

    /// The next one has `len` bytes.
    pub(crate) fn extend(&mut self, len: usize) {
        self.len = self.len.saturating_add(len);
        self.count = self.count.saturating_add(1);
    }

    /// Calls `f` with the runs of bytes that together are the `len` bytes from `skip` on.
    fn walk(
        &self,
        mut skip: usize,
        len: usize,
        mut f: impl FnMut(&[u8]) -> Result<(), AccessError>,
    ) -> Result<(), AccessError> {
        let end = skip.checked_add(len).ok_or(AccessError::OutOfBounds)?;
        if end > self.len {
            return Err(AccessError::OutOfBounds);
        }
        while skip < end {
            // There are bytes, so `each` is not zero; the rest is within `bytes`, or is refused.
            let number = skip.checked_div(self.each).unwrap_or(0);
            let within = skip.wrapping_sub(number.wrapping_mul(self.each));
            let part = min(end.wrapping_sub(skip), self.each.wrapping_sub(within));
            let from = self.rows.distance(self.first, number).wrapping_add(within);
            let run = self.bytes.get(from..from.wrapping_add(part));
            f(run.ok_or(AccessError::OutOfBounds)?)?;
            skip = skip.wrapping_add(part);
        }
        Ok(())
    }
}

/// Where the bytes of an arriving segment are.
#[derive(Clone, Copy)]
pub(crate) enum Source<'a> {
    /// In memory of this kernel: inline data, management datagrams.
    Bytes(&'a [u8]),
    /// In the memory of a sender on this host.
    Gather(&'a Gather),
    /// In packets that have arrived together.
    Packets(&'a Packets<'a>),
    /// In a copy, since they could not be placed when they came.
    Kept(&'a Kept),
}

impl Source<'_> {
    /// The number of bytes.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Gather(gather) => gather.len,
            Self::Packets(packets) => packets.len,
            Self::Kept(kept) => kept.len(),
        }
    }

    /// Copies `len` bytes from `skip` on to `at` of `to`.
    ///
    /// # Errors
    ///
    /// If either side is shorter, or `to` is not writable.
    pub(crate) fn copy_to(
        &self,
        skip: usize,
        to: &Region<'_>,
        at: usize,
        len: usize,
    ) -> Result<(), AccessError> {
        match self {
            Self::Bytes(bytes) => {
                let end = skip.checked_add(len).ok_or(AccessError::OutOfBounds)?;
                let bytes = bytes.get(skip..end).ok_or(AccessError::OutOfBounds)?;
                to.copy_in(at, bytes)
            }
            Self::Gather(gather) => {
                let mut at = at;
                gather.walk(skip, len, |from| {
                    from.copy_to(0, to, at, from.len())?;
                    at = at.saturating_add(from.len());
                    Ok(())
                })
            }
            Self::Packets(packets) => {
                let mut at = at;
                packets.walk(skip, len, |bytes| {
                    to.copy_in(at, bytes)?;
                    at = at.saturating_add(bytes.len());
                    Ok(())
                })
            }
            Self::Kept(kept) => {
                let mut at = at;
                kept.walk(skip, len, |bytes| {
                    to.copy_in(at, bytes)?;
                    at = at.saturating_add(bytes.len());
                    Ok(())
                })
            }
        }
    }

    /// Appends `len` bytes from `skip` on to a packet; `None` if there are fewer, or there is no room.
    pub(crate) fn append_to(&self, skip: usize, len: usize, tail: &mut Tail<'_>) -> Option<()> {
        let write = |bytes: &[u8]| tail.write(bytes).ok_or(AccessError::OutOfBounds);
        match self {
            Self::Bytes(bytes) => tail.write(bytes.get(skip..skip.checked_add(len)?)?),
            Self::Gather(gather) => {
                let write = |from: Region<'_>| {
                    let written = tail.write_region(&from);
                    written.ok_or(AccessError::OutOfBounds)
                };
                gather.walk(skip, len, write).ok()
            }
            Self::Packets(packets) => packets.walk(skip, len, write).ok(),
            Self::Kept(kept) => kept.walk(skip, len, write).ok(),
        }
    }

    /// Copies the bytes from `skip` on to `out`, which they fill.
    ///
    /// # Errors
    ///
    /// If there are fewer.
    pub(crate) fn copy_out(&self, skip: usize, out: &mut [u8]) -> Result<(), AccessError> {
        match self {
            Self::Bytes(bytes) => {
                let end = skip
                    .checked_add(out.len())
                    .ok_or(AccessError::OutOfBounds)?;
                let bytes = bytes.get(skip..end).ok_or(AccessError::OutOfBounds)?;
                out.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
                Ok(())
            }
            Self::Gather(gather) => {
                let mut rest = out;
                gather.walk(skip, rest.len(), |from| {
                    let all = core::mem::take(&mut rest);
                    let (head, tail) = all
                        .split_at_mut_checked(from.len())
                        .ok_or(AccessError::OutOfBounds)?;
                    rest = tail;
                    from.copy_out(0, head)
                })
            }
            Self::Packets(packets) => {
                let mut at = 0;
                packets.walk(skip, out.len(), |bytes| append(out, &mut at, bytes))
            }
            Self::Kept(kept) => {
                let mut at = 0;
                kept.walk(skip, out.len(), |bytes| append(out, &mut at, bytes))
            }
        }
    }
}

/// Copies `bytes` to `*at` of `out`, and counts on.
fn append(out: &mut [u8], at: &mut usize, bytes: &[u8]) -> Result<(), AccessError> {
    let end = at
        .checked_add(bytes.len())
        .ok_or(AccessError::OutOfBounds)?;
    let to = out.get_mut(*at..end).ok_or(AccessError::OutOfBounds)?;
    to.copy_from_slice(bytes);
    *at = end;
    Ok(())
}
