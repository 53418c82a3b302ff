// SPDX-License-Identifier: GPL-2.0

//! The clock that all timers of the driver run by.
//!
//! C header: [`include/linux/timekeeping.h`](srctree/include/linux/timekeeping.h)

use kernel::bindings;

/// Nanoseconds since boot, without the time spent in suspend. Callable in any context.
#[inline]
pub fn now_ns() -> u64 {
    // SAFETY: Callable in any context once the kernel is up.
    let now = unsafe { bindings::ktime_get() };
    // Monotonic time starts at zero, so it is never negative.
    now.unsigned_abs()
}
