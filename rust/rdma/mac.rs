// SPDX-License-Identifier: GPL-2.0

//! Message authentication codes: HMAC-SHA256, as the kernel has it.
//!
//! C header: [`include/crypto/sha2.h`](srctree/include/crypto/sha2.h)

use kernel::prelude::*;

/// The size of a code in bytes.
pub const LEN: usize = sib_bindings::SIB_MAC_LEN as usize;

/// A key, in the form in which codes are made with it. It is wiped from memory when it is dropped.
pub struct Key(sib_bindings::sib_mac_key);

impl Key {
    /// An initialiser of the key that `raw` is, in place, so that no copy of it is left elsewhere.
    pub fn new(raw: &[u8]) -> impl Init<Self> + use<'_> {
        // SAFETY: On success the slot is initialised, as each byte of it is written. There are no failures.
        unsafe {
            pin_init::init_from_closure::<Self, core::convert::Infallible>(|slot| {
                sib_bindings::sib_helper_mac_prepare(slot.cast(), raw.as_ptr(), raw.len());
                Ok(())
            })
        }
    }

    /// The code over `data`. Callable in any context.
    pub fn tag(&self, data: &[u8]) -> [u8; LEN] {
        let mut tag = [0; LEN];
        // SAFETY: The function reads the key and `data.len()` bytes at `data`, and writes `LEN` bytes at `tag`.
        unsafe {
            sib_bindings::sib_helper_mac_tag(&self.0, data.as_ptr(), data.len(), tag.as_mut_ptr());
        }
        tag
    }

    /// Whether `tag` is the code over `data`, in a time that does not depend on how much of it is. Callable in
    /// any context.
    pub fn verify(&self, data: &[u8], tag: &[u8; LEN]) -> bool {
        same(&self.tag(data), tag)
    }

    /// Whether both are the same key, in a time that does not depend on how much of them is.
    pub fn is_same(&self, other: &Self) -> bool {
        same(&self.0.state, &other.0.state)
    }
}

fn same<const N: usize>(a: &[u8; N], b: &[u8; N]) -> bool {
    // SAFETY: The function reads `N` bytes at both.
    unsafe { sib_bindings::sib_helper_same_bytes(a.as_ptr().cast(), b.as_ptr().cast(), N) }
}

impl Drop for Key {
    fn drop(&mut self) {
        let state = &mut self.0.state;
        // SAFETY: The bytes are this value's, and may be zero.
        unsafe { sib_bindings::sib_helper_wipe(state.as_mut_ptr().cast(), state.len()) };
    }
}
