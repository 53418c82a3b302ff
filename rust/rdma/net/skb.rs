// SPDX-License-Identifier: GPL-2.0

//! Packets.
//!
//! C header: [`include/linux/skbuff.h`](srctree/include/linux/skbuff.h)

use crate::mem::Region;
use crate::sync::{
    Cx,
    IrqsOn,
    Unlocked, //
};
use core::mem::{
    ManuallyDrop,
    MaybeUninit, //
};
use core::ptr::NonNull;
use kernel::bindings;
use kernel::prelude::*;

/// The largest packet that is allocated in one piece.
const MAX_LINEAR: u32 = 1 << 16;

/// The largest number of datagrams that one packet is cut into, `UDP_MAX_SEGMENTS`.
const MAX_SEGMENTS: usize = 128;

/// Pages for packets to send, which come back when the packets have been freed.
///
/// # Invariants
///
/// `raw` is a live pool of which this is the only owner.
pub struct SkbPool {
    raw: NonNull<sib_bindings::sib_skb_pool>,
}

// SAFETY: A pool may be used and freed by any task.
unsafe impl Send for SkbPool {}
// SAFETY: A pool has a lock of its own.
unsafe impl Sync for SkbPool {}

impl SkbPool {
    /// Makes a pool. May sleep.
    pub fn new() -> Result<Self> {
        // SAFETY: Callable in a task.
        let raw = unsafe { sib_bindings::sib_helper_skb_pool_new() };
        // INVARIANT: Fresh, unless null.
        Ok(Self {
            raw: NonNull::new(raw).ok_or(ENOMEM)?,
        })
    }

    /// Allocates an empty packet with room for `len` bytes and the headers below, and perhaps for more.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, also if `len` exceeds what a page of the pool holds, which is a little less than 32 KiB.
    #[inline]
    pub fn alloc(&self, len: usize, _cx: &mut Cx<'_, Unlocked>, _irqs: IrqsOn<'_>) -> Result<Skb> {
        let len = u32::try_from(len).map_err(|_| ENOMEM)?;
        // SAFETY: The pool is live by the invariant. No lock of the hierarchy is held and interrupts were on at entry,
        // so they are on.
        let raw = unsafe { sib_bindings::sib_helper_skb_pool_alloc(self.raw.as_ptr(), len) };
        // INVARIANT: Fresh, unless null.
        Ok(Skb {
            raw: NonNull::new(raw).ok_or(ENOMEM)?,
        })
    }
}

impl Drop for SkbPool {
    fn drop(&mut self) {
        // SAFETY: The pool is ours by the invariant.
        unsafe { sib_bindings::sib_helper_skb_pool_free(self.raw.as_ptr()) }
    }
}

/// A packet.
///
/// A packet to send is made by [`SkbPool::alloc`] or [`Self::alloc`] with room for all of it, and filled by the
/// `append` methods. One that was received holds the payload of a datagram, or of several: see [`Self::datagram_len`].
///
/// Dropping frees the packet and counts it as lost; [`Self::consume`] frees it without. Both are allowed in
/// any context.
///
/// # Invariants
///
/// `raw` is a packet that nobody else has a reference to; its data may be shared with clones, which are read
/// only.
pub struct Skb {
    raw: NonNull<bindings::sk_buff>,
}

// SAFETY: A packet may be handed from context to context.
unsafe impl Send for Skb {}
// SAFETY: The methods that take `&self` only read.
unsafe impl Sync for Skb {}

impl Skb {
    /// Allocates an empty packet with room for `len` bytes and the headers below. Callable in any context.
    pub fn alloc(len: usize) -> Result<Self> {
        let len = u32::try_from(len).map_err(|_| EMSGSIZE)?;
        if len > MAX_LINEAR {
            return Err(EMSGSIZE);
        }
        // SAFETY: Callable in any context.
        let raw = unsafe { sib_bindings::sib_helper_skb_alloc(len) };
        // INVARIANT: Fresh, unless null.
        Ok(Self {
            raw: NonNull::new(raw).ok_or(ENOMEM)?,
        })
    }

    /// Takes over a packet.
    ///
    /// # Safety
    ///
    /// `raw` is a packet whose only reference is the caller's.
    pub(super) unsafe fn from_raw(raw: NonNull<bindings::sk_buff>) -> Self {
        // INVARIANT: Promised by the caller.
        Self { raw }
    }

    /// Gives the packet to C code.
    pub(super) fn into_raw(self) -> *mut bindings::sk_buff {
        ManuallyDrop::new(self).raw.as_ptr()
    }

    /// Frees a packet that has served its purpose.
    #[inline]
    pub fn consume(self) {
        // SAFETY: The reference is ours by the invariant.
        unsafe { sib_bindings::sib_helper_skb_consume(self.into_raw()) }
    }

    /// The number of bytes.
    #[inline]
    pub fn len(&self) -> usize {
        // SAFETY: Live by the invariant.
        unsafe { (*self.raw.as_ptr()).len as usize }
    }

    /// Whether there are no bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All bytes, if they are contiguous.
    #[inline]
    pub fn contiguous(&self) -> Option<&[u8]> {
        // SAFETY: Live by the invariant.
        if unsafe { (*self.raw.as_ptr()).data_len } != 0 {
            return None;
        }
        // SAFETY: All bytes are linear, and `self` is borrowed, so nothing moves them.
        Some(unsafe { core::slice::from_raw_parts(self.data(), self.len()) })
    }

    /// Whether this packet, which a socket has received, has never left this kernel: its bytes are where a socket of this
    /// module has written them, in memory of an [`SkbPool`], and nothing on their way has completed their checksum.
    ///
    /// False if that is not known, as of what was copied or merged.
    #[inline]
    pub fn is_as_sent(&self) -> bool {
        // SAFETY: Live by the invariant.
        unsafe { sib_bindings::sib_helper_udp_is_as_sent(self.raw.as_ptr()) }
    }

    /// A packet of its own with the `len` bytes from `from` on, contiguous, of `pool` if that has it.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `EMSGSIZE` if they are more than fit one piece, `EINVAL` if there are fewer.
    pub fn copy(
        &self,
        from: usize,
        len: usize,
        pool: &SkbPool,
        cx: &mut Cx<'_, Unlocked>,
        irqs: IrqsOn<'_>,
    ) -> Result<Self> {
        from.checked_add(len)
            .filter(|end| *end <= self.len())
            .ok_or(EINVAL)?;
        let mut copy = pool
            .alloc(len, cx, irqs)
            .or_else(|_| Self::alloc(len))?;
        copy.append_with(len, |tail| tail.write_packet(self, from, len))
            .ok_or(EINVAL)?;
        Ok(copy)
    }

    /// How many bytes can be appended.
    #[inline]
    pub fn room(&self) -> usize {
        // SAFETY: Live by the invariant.
        unsafe { sib_bindings::sib_helper_skb_tailroom(self.raw.as_ptr()) as usize }
    }

    /// Appends `data`; `None` and nothing happens if there is no room.
    #[inline]
    pub fn append(&mut self, data: &[u8]) -> Option<()> {
        if data.len() > self.room() {
            return None;
        }
        // SAFETY: There is room.
        let tail = unsafe { self.put(data.len()) }?;
        // SAFETY: Both have `data.len()` bytes, and the packet is ours alone.
        unsafe { core::ptr::copy_nonoverlapping(data.as_ptr(), tail, data.len()) };
        Some(())
    }

    /// Appends `len` bytes, which `fill` writes, and lends them; `None` and nothing happens if there is no room, or
    /// `fill` returns `None` or writes fewer.
    #[inline]
    pub fn append_with(
        &mut self,
        len: usize,
        fill: impl FnOnce(&mut Tail<'_>) -> Option<()>,
    ) -> Option<&mut [u8]> {
        if len > self.room() {
            return None;
        }
        let end = self.data().wrapping_add(self.len());
        let start = end.cast_mut().cast::<MaybeUninit<u8>>();
        // SAFETY: A packet with room is linear, so that many writable bytes follow its data, and nobody else has
        // access to them: a received packet is private to us from its tail on, as clones have their own length.
        let room = unsafe { core::slice::from_raw_parts_mut(start, len) };
        // INVARIANT: There are none before.
        let mut tail = Tail { room };
        fill(&mut tail)?;
        if !tail.room.is_empty() {
            return None;
        }
        // SAFETY: There is room.
        let bytes = unsafe { self.put(len) }?;
        // SAFETY: The packet has `len` bytes there, which have been written by the invariant of `tail`, and `self` is
        // borrowed.
        Some(unsafe { core::slice::from_raw_parts_mut(bytes, len) })
    }

    /// The size of the datagrams, apart from the last one, that the stack has put together into this packet; its
    /// length if it is one datagram.
    #[inline]
    pub fn datagram_len(&self) -> usize {
        // SAFETY: Live by the invariant.
        let size = unsafe { sib_bindings::sib_helper_skb_gso_size(self.raw.as_ptr()) };
        if size == 0 {
            self.len()
        } else {
            usize::from(size)
        }
    }

    /// Has the stack cut this packet into datagrams of `size` bytes, the last of which may be shorter.
    ///
    /// `None` and nothing happens unless there are at least two and at most as many as the stack allows.
    pub fn segment(&mut self, size: usize) -> Option<()> {
        let count = self
            .len()
            .checked_add(size)?
            .checked_sub(1)?
            .checked_div(size)?;
        if !(2..=MAX_SEGMENTS).contains(&count) {
            return None;
        }
        let size = u16::try_from(size).ok()?;
        // SAFETY: The packet is ours, and `size` is not zero.
        unsafe { sib_bindings::sib_helper_skb_set_gso(self.raw.as_ptr(), size) };
        Some(())
    }

    #[inline]
    fn data(&self) -> *const u8 {
        // SAFETY: Live by the invariant.
        unsafe { (*self.raw.as_ptr()).data }
    }

    /// Lengthens the packet by `len` bytes, which are not initialised, and returns where they are.
    ///
    /// # Safety
    ///
    /// There is room for them.
    #[inline]
    unsafe fn put(&mut self, len: usize) -> Option<*mut u8> {
        let len = u32::try_from(len).ok()?;
        // SAFETY: There is room by the promise above. A packet with room is linear, and a received one is private to us
        // from its tail on, as clones have their own length.
        Some(unsafe { sib_bindings::sib_helper_skb_put(self.raw.as_ptr(), len) }.cast())
    }
}

/// The end of a packet, while it is being written.
///
/// # Invariants
///
/// All bytes before `room` have been written.
pub struct Tail<'a> {
    /// What has not been written yet.
    room: &'a mut [MaybeUninit<u8>],
}

impl Tail<'_> {
    /// Has `write` write the next `len` bytes. If there are fewer, or it returns `None`, all are still to be written.
    #[inline]
    fn fill(
        &mut self,
        len: usize,
        write: impl FnOnce(&mut [MaybeUninit<u8>]) -> Option<()>,
    ) -> Option<()> {
        write(self.room.get_mut(..len)?)?;
        // INVARIANT: So many bytes more have been written.
        (_, self.room) = core::mem::take(&mut self.room).split_at_mut_checked(len)?;
        Some(())
    }

    /// Writes `data`; `None` and nothing happens if there is no room.
    #[inline]
    pub fn write(&mut self, data: &[u8]) -> Option<()> {
        self.fill(data.len(), |bytes| {
            let to = bytes.as_mut_ptr();
            // SAFETY: Both have `data.len()` bytes, and a slice that is borrowed mutably overlaps no other.
            unsafe { sib_bindings::sib_helper_copy(to.cast(), data.as_ptr().cast(), data.len()) };
            Some(())
        })
    }

    /// Writes `len` bytes of `packet` from `from` on; `None` if it has fewer, or there is no room.
    fn write_packet(&mut self, packet: &Skb, from: usize, len: usize) -> Option<()> {
        let from = u32::try_from(from).ok()?;
        self.fill(len, |bytes| {
            let len = u32::try_from(bytes.len()).ok()?;
            let to = bytes.as_mut_ptr().cast();
            // SAFETY: The packet is live by its invariant, and `bytes` are that many, of another packet.
            let all =
                unsafe { sib_bindings::sib_helper_skb_copy(packet.raw.as_ptr(), from, to, len) };
            all.then_some(())
        })
    }

    /// Writes all that `region` holds; `None` if there is no room.
    #[inline]
    pub fn write_region(&mut self, region: &Region<'_>) -> Option<()> {
        self.fill(region.len(), |bytes| region.copy_out_uninit(0, bytes).ok())
    }
}

impl Drop for Skb {
    fn drop(&mut self) {
        // SAFETY: The reference is ours by the invariant.
        unsafe { sib_bindings::sib_helper_skb_free(self.raw.as_ptr()) }
    }
}

#[kunit_tests(sib_rdma_skb)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_written_is_appended() -> Result {
        let mut packet = Skb::alloc(8)?;
        assert!(packet.append_with(8, |_| Some(())).is_none());
        assert!(packet.append_with(8, |tail| tail.write(&[1; 7])).is_none());
        // Nobody looks at what it says.
        let ignored = packet.append_with(8, |tail| {
            let _ = tail.write(&[1; 9]);
            Some(())
        });
        assert!(ignored.is_none());
        assert!(packet.is_empty());
        let again = packet.append_with(8, |tail| {
            let refused = tail.write(&[1; 9]).is_none();
            tail.write(&[2; 8]).filter(|()| refused)
        });
        assert!(again.is_some());
        assert_eq!(packet.contiguous(), Some(&[2; 8][..]));
        Ok(())
    }
}
