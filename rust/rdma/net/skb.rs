// SPDX-License-Identifier: GPL-2.0

//! Packets.
//!
//! C header: [`include/linux/skbuff.h`](srctree/include/linux/skbuff.h)

use core::mem::ManuallyDrop;
use core::ptr::NonNull;
use kernel::bindings;
use kernel::prelude::*;

/// The largest packet that is allocated in one piece.
const MAX_LINEAR: u32 = 1 << 16;

/// The largest number of datagrams that one packet is cut into, `UDP_MAX_SEGMENTS`.
const MAX_SEGMENTS: usize = 128;

/// A packet.
///
/// A packet to send is made by [`Self::alloc`] with room for all of it, and filled by the `append` methods. One
/// that was received holds the payload of a datagram, or of several: see [`Self::datagram_len`].
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
        unsafe { sib_bindings::sib_helper_skb_len(self.raw.as_ptr()) as usize }
    }

    /// Whether there are no bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All bytes, contiguous; `None` if there is no memory to bring them together.
    #[inline]
    pub fn linear(&mut self) -> Option<&[u8]> {
        let len = self.len();
        self.gather(len)?;
        // SAFETY: As many bytes are linear, and `self` is borrowed, so nothing moves them.
        Some(unsafe { core::slice::from_raw_parts(self.data(), len) })
    }

    /// Drops the first `len` bytes; `None` and nothing happens if there are fewer.
    #[inline]
    pub fn pull(&mut self, len: usize) -> Option<()> {
        let len = self.gather(len)?;
        // SAFETY: As many bytes are linear.
        unsafe { sib_bindings::sib_helper_skb_pull(self.raw.as_ptr(), len) };
        Some(())
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
        let tail = self.put(data.len())?;
        // SAFETY: Both have `data.len()` bytes, and the packet is ours alone.
        unsafe { core::ptr::copy_nonoverlapping(data.as_ptr(), tail, data.len()) };
        Some(())
    }

    /// Appends `len` zero bytes and lends them.
    #[inline]
    pub fn append_zeroed(&mut self, len: usize) -> Option<&mut [u8]> {
        let tail = self.put(len)?;
        // SAFETY: The packet has `len` writable bytes at `tail`.
        unsafe { core::ptr::write_bytes(tail, 0, len) };
        // SAFETY: They are initialised now, and `self` is borrowed.
        Some(unsafe { core::slice::from_raw_parts_mut(tail, len) })
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

    /// Makes the first `len` bytes linear.
    #[inline]
    fn gather(&mut self, len: usize) -> Option<u32> {
        let len = u32::try_from(len).ok()?;
        // SAFETY: The packet is ours, so its data may move.
        unsafe { sib_bindings::sib_helper_skb_may_pull(self.raw.as_ptr(), len) }.then_some(len)
    }

    #[inline]
    fn data(&self) -> *const u8 {
        // SAFETY: Live by the invariant.
        unsafe { sib_bindings::sib_helper_skb_data(self.raw.as_ptr()) }
            .cast_const()
            .cast()
    }

    /// Lengthens the packet by `len` bytes, which are not initialised, and returns where they are.
    #[inline]
    fn put(&mut self, len: usize) -> Option<*mut u8> {
        if len > self.room() {
            return None;
        }
        let len = u32::try_from(len).ok()?;
        // SAFETY: There is room. A packet with room is linear, and a received one is private to us from its
        // tail on, as clones have their own length.
        Some(unsafe { sib_bindings::sib_helper_skb_put(self.raw.as_ptr(), len) }.cast())
    }
}

impl Drop for Skb {
    fn drop(&mut self) {
        // SAFETY: The reference is ours by the invariant.
        unsafe { sib_bindings::sib_helper_skb_free(self.raw.as_ptr()) }
    }
}
