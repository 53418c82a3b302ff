// SPDX-License-Identifier: GPL-2.0

//! Random numbers.
//!
//! C header: [`include/linux/random.h`](srctree/include/linux/random.h)

use kernel::bindings;

/// A random number that nobody can predict. Callable in any context.
#[inline]
pub fn u32() -> u32 {
    // SAFETY: Callable in any context.
    unsafe { bindings::get_random_u32() }
}
