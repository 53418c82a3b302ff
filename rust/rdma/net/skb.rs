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
use core::ops::Deref;
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
        let raw = NonNull::new(raw).ok_or(ENOMEM)?;
        Ok(Skb(Packet { raw }))
    }
}

impl Drop for SkbPool {
    fn drop(&mut self) {
        // SAFETY: The pool is ours by the invariant.
        unsafe { sib_bindings::sib_helper_skb_pool_free(self.raw.as_ptr()) }
    }
}

/// A packet, as far as it is to be read.
///
/// Dropping frees it and counts it as lost; [`Skb::consume`] and [`Received::consume`] free it without. Both are allowed
/// in any context.
///
/// # Invariants
///
/// `raw` is a packet that nobody else has a reference to, and whose data nobody else writes to.
pub struct Packet {
    raw: NonNull<bindings::sk_buff>,
}

// SAFETY: A packet may be handed from context to context.
unsafe impl Send for Packet {}
// SAFETY: The methods that take `&self` only read.
unsafe impl Sync for Packet {}

impl Packet {
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

    /// The size of the datagrams, apart from the last one, that the stack cuts this packet into or has put together into
    /// it; its length if it is one datagram.
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

    /// The number of datagrams that this packet is.
    #[inline]
    pub fn datagrams(&self) -> usize {
        self.len().div_ceil(self.datagram_len().max(1))
    }

    #[inline]
    fn data(&self) -> *const u8 {
        // SAFETY: Live by the invariant.
        unsafe { (*self.raw.as_ptr()).data }
    }

    /// Gives the packet away.
    fn into_raw(self) -> *mut bindings::sk_buff {
        ManuallyDrop::new(self).raw.as_ptr()
    }

    /// Frees a packet that has served its purpose.
    #[inline]
    fn consume(self) {
        // SAFETY: The reference is ours by the invariant.
        unsafe { sib_bindings::sib_helper_skb_consume(self.into_raw()) }
    }
}

impl Drop for Packet {
    fn drop(&mut self) {
        // SAFETY: The reference is ours by the invariant.
        unsafe { sib_bindings::sib_helper_skb_free(self.raw.as_ptr()) }
    }
}

/// A packet to send: made by [`SkbPool::alloc`] or [`Self::alloc`] with room for all of it, and filled by the `append`
/// methods.
///
/// # Invariants
///
/// The packet is linear, with room for the headers below, and nobody else has its data.
pub struct Skb(Packet);

impl Deref for Skb {
    type Target = Packet;

    #[inline]
    fn deref(&self) -> &Packet {
        &self.0
    }
}

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
        let raw = NonNull::new(raw).ok_or(ENOMEM)?;
        Ok(Self(Packet { raw }))
    }

    /// Takes over a packet.
    ///
    /// # Safety
    ///
    /// `raw` comes from [`Self::into_raw`], and is taken over once.
    pub(super) unsafe fn from_raw(raw: NonNull<bindings::sk_buff>) -> Self {
        // INVARIANT: It was one.
        Self(Packet { raw })
    }

    /// Gives the packet to C code.
    pub(super) fn into_raw(self) -> *mut bindings::sk_buff {
        self.0.into_raw()
    }

    /// Frees a packet that is not to be sent after all.
    #[inline]
    pub fn consume(self) {
        self.0.consume();
    }

    /// How many bytes can be appended.
    #[inline]
    pub fn room(&self) -> usize {
        // SAFETY: Live by the invariant.
        unsafe { sib_bindings::sib_helper_skb_tailroom(self.0.raw.as_ptr()) as usize }
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
        let end = self.0.data().wrapping_add(self.len());
        let start = end.cast_mut().cast::<MaybeUninit<u8>>();
        // SAFETY: The packet is linear by the invariant, so that many writable bytes follow its data, and nobody else has
        // access to them.
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
        unsafe { sib_bindings::sib_helper_skb_set_gso(self.0.raw.as_ptr(), size) };
        Some(())
    }

    /// Lengthens the packet by `len` bytes, which are not initialised, and returns where they are.
    ///
    /// # Safety
    ///
    /// There is room for them.
    #[inline]
    unsafe fn put(&mut self, len: usize) -> Option<*mut u8> {
        let len = u32::try_from(len).ok()?;
        // SAFETY: There is room by the promise above, and the packet is linear by the invariant.
        Some(unsafe { sib_bindings::sib_helper_skb_put(self.0.raw.as_ptr(), len) }.cast())
    }
}

/// A packet that a socket has received: the payload of a datagram, or of several, see [`Packet::datagram_len`].
///
/// # Invariants
///
/// The packet has the headers that it came with.
pub struct Received(Packet);

impl Received {
    /// Takes over a packet.
    ///
    /// # Safety
    ///
    /// `raw` is a packet that a UDP socket has received, and whose only reference is the caller's. Clones may share its
    /// data, which nobody writes to.
    pub(super) unsafe fn from_raw(raw: NonNull<bindings::sk_buff>) -> Self {
        // INVARIANT: Promised by the caller.
        Self(Packet { raw })
    }

    /// Frees a packet that has served its purpose.
    #[inline]
    pub fn consume(self) {
        self.0.consume();
    }

    /// Whether this packet has never left this kernel: its bytes are where a socket of this module has written them, in
    /// memory of an [`SkbPool`], and nothing on their way has completed their checksum.
    ///
    /// False if that is not known, as of what was copied or merged.
    #[inline]
    pub fn is_as_sent(&self) -> bool {
        // SAFETY: Live, and with the headers of IP and UDP, by the invariants.
        unsafe { sib_bindings::sib_helper_udp_is_as_sent(self.0.raw.as_ptr()) }
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
    ) -> Result<Skb> {
        from.checked_add(len)
            .filter(|end| *end <= self.len())
            .ok_or(EINVAL)?;
        let mut copy = pool.alloc(len, cx, irqs).or_else(|_| Skb::alloc(len))?;
        copy.append_with(len, |tail| tail.write_packet(self, from, len))
            .ok_or(EINVAL)?;
        Ok(copy)
    }
}

impl Deref for Received {
    type Target = Packet;

    #[inline]
    fn deref(&self) -> &Packet {
        &self.0
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
    fn write_packet(&mut self, packet: &Packet, from: usize, len: usize) -> Option<()> {
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

#[kunit_tests(sib_rdma_skb)]
mod tests {
    use super::*;
    use crate::sync::test_context;

    #[test]
    fn a_pool_has_nothing_larger_than_its_pages() -> Result {
        let (mut cx, sleepable) = test_context();
        let pool = SkbPool::new()?;
        for len in [1 << 15, 1 << 31, u32::MAX as usize, usize::MAX] {
            assert!(pool.alloc(len, &mut cx, sleepable.irqs_on()).is_err());
        }
        Ok(())
    }

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
