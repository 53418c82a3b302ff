// SPDX-License-Identifier: GPL-2.0

//! The CRC of Ethernet and InfiniBand, by the fastest code that the CPU has.
//!
//! C header: [`include/linux/crc32.h`](srctree/include/linux/crc32.h)

/// Continues a CRC-32 with the reflected polynomial 0xedb88320 over `data`. Callable in any context.
///
/// Neither the seed nor the result is inverted: that is up to the caller.
#[inline]
pub fn crc32_le(crc: u32, data: &[u8]) -> u32 {
    // SAFETY: The function reads `data.len()` bytes at `data`.
    unsafe { sib_bindings::crc32_le(crc, data.as_ptr().cast(), data.len()) }
}
