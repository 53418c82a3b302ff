// SPDX-License-Identifier: GPL-2.0

//! Atomics whose accesses are instructions, not calls.
//!
//! Those of [`kernel::sync::atomic`] are functions in C, which Rust can inline only if clang has built the kernel, with
//! `CONFIG_RUST_INLINE_HELPERS`. The data path has a few dozen of them for each message. On x86-64, where C has one
//! instruction for each as well, so has this; elsewhere it calls the kernel's. What orders they give, and to what, is the
//! kernel's to say in either case: all accesses are those of the C functions of the same names
//! (`arch/x86/include/asm/{atomic,barrier,cmpxchg}.h`).
//!
//! Words that no message needs, and those that are pointers, are the kernel's own.

use kernel::bindings;
use kernel::prelude::*;
use kernel::sync::atomic::{
    self as outer,
    ordering::{
        AcquireOrRelaxed,
        Ordering,
        ReleaseOrRelaxed, //
    }, //
};

/// A word that many contexts read and change: [`kernel::sync::atomic::Atomic`], but inlined.
#[repr(transparent)]
pub struct Atomic<T: outer::AtomicType>(outer::Atomic<T>);

impl<T: outer::AtomicType> Atomic<T> {
    /// A word with this value.
    pub const fn new(value: T) -> Self {
        Self(outer::Atomic::new(value))
    }

    /// The word at `ptr`.
    ///
    /// # Safety
    ///
    /// As for [`kernel::sync::atomic::Atomic::from_ptr`].
    pub(crate) unsafe fn from_ptr<'a>(ptr: *mut T) -> &'a Self {
        // SAFETY: Promised by the caller; the layouts are the same.
        unsafe { &*ptr.cast::<Self>() }
    }
}

/// Keeps the compiler from moving accesses to memory across it. That is all that [`Acquire`](outer::Acquire) and
/// [`Release`](outer::Release) need on processors that keep the order of loads, and of stores.
#[cfg(CONFIG_X86_64)]
#[inline(always)]
fn barrier() {
    // SAFETY: No instruction.
    unsafe { core::arch::asm!("") };
}

/// A full barrier between processors: what stands before it is done before what stands behind it. The function of that
/// name in the kernel crate takes an argument in some kernels.
///
/// C header: [`include/asm-generic/barrier.h`](srctree/include/asm-generic/barrier.h)
#[inline]
pub fn smp_mb() {
    // SAFETY: A barrier may stand anywhere.
    unsafe { bindings::smp_mb() };
}

/// Loads and stores.
macro_rules! words {
    ($($word:ty),* $(,)?) => {
        $(
            impl Atomic<$word> {
                /// The value.
                #[inline(always)]
                pub fn load<O: AcquireOrRelaxed>(&self, order: O) -> $word {
                    #[cfg(CONFIG_X86_64)]
                    {
                        let _ = order;
                        // SAFETY: The word is alive, and only ever accessed as a whole. The volatile access is
                        // what `READ_ONCE()` is.
                        let value = unsafe { self.0.as_ptr().read_volatile() };
                        barrier();
                        value
                    }
                    #[cfg(not(CONFIG_X86_64))]
                    self.0.load(order)
                }

                /// Replaces the value.
                #[inline(always)]
                pub fn store<O: ReleaseOrRelaxed>(&self, value: $word, order: O) {
                    #[cfg(CONFIG_X86_64)]
                    {
                        let _ = order;
                        barrier();
                        // SAFETY: As in `load`; this is what `WRITE_ONCE()` is.
                        unsafe { self.0.as_ptr().write_volatile(value) };
                    }
                    #[cfg(not(CONFIG_X86_64))]
                    self.0.store(value, order);
                }

                /// Replaces the value, and returns what it was.
                #[inline(always)]
                pub fn xchg<O: Ordering>(&self, value: $word, order: O) -> $word {
                    self.0.xchg(value, order)
                }
            }
        )*
    };
}

words!(bool, i32, u32, u64, usize);

/// What changes a word by what it was. The instructions are those for the width.
macro_rules! numbers {
    ($($number:ty: $xadd:literal, $cmpxchg:literal, $ax:tt);* $(;)?) => {
        $(
            impl Atomic<$number> {
                /// KASAN looks at what the compiler sees, which is not what such an instruction does.
                #[cfg(CONFIG_X86_64)]
                #[inline(always)]
                fn show(&self) {
                    if cfg!(CONFIG_KASAN) {
                        let _ = self.load(outer::Relaxed);
                    }
                }

                /// Adds, and returns what the value was.
                #[inline(always)]
                pub fn fetch_add<O: Ordering>(&self, amount: $number, order: O) -> $number {
                    #[cfg(CONFIG_X86_64)]
                    {
                        let _ = order;
                        self.show();
                        let mut value = amount;
                        // SAFETY: The word is alive and aligned. A locked instruction orders all.
                        unsafe {
                            core::arch::asm!(
                                $xadd,
                                value = inout(reg) value,
                                at = in(reg) self.0.as_ptr(),
                                options(nostack),
                            );
                        }
                        value
                    }
                    #[cfg(not(CONFIG_X86_64))]
                    self.0.fetch_add(amount, order)
                }

                /// Subtracts, and returns what the value was.
                #[inline(always)]
                pub fn fetch_sub<O: Ordering>(&self, amount: $number, order: O) -> $number {
                    self.fetch_add((0 as $number).wrapping_sub(amount), order)
                }

                /// Replaces the value if it is `old`, and returns that; else what it is.
                #[inline(always)]
                pub fn cmpxchg<O: Ordering>(
                    &self,
                    old: $number,
                    new: $number,
                    order: O,
                ) -> Result<$number, $number> {
                    #[cfg(CONFIG_X86_64)]
                    {
                        let _ = order;
                        self.show();
                        let was;
                        // SAFETY: As in `fetch_add`.
                        unsafe {
                            core::arch::asm!(
                                $cmpxchg,
                                at = in(reg) self.0.as_ptr(),
                                new = in(reg) new,
                                inout($ax) old => was,
                                options(nostack),
                            );
                        }
                        if was == old {
                            Ok(was)
                        } else {
                            Err(was)
                        }
                    }
                    #[cfg(not(CONFIG_X86_64))]
                    self.0.cmpxchg(old, new, order)
                }
            }
        )*
    };
}

numbers! {
    i32: "lock xadd dword ptr [{at}], {value:e}", "lock cmpxchg dword ptr [{at}], {new:e}", "eax";
    u32: "lock xadd dword ptr [{at}], {value:e}", "lock cmpxchg dword ptr [{at}], {new:e}", "eax";
    u64: "lock xadd qword ptr [{at}], {value}", "lock cmpxchg qword ptr [{at}], {new}", "rax";
    usize: "lock xadd qword ptr [{at}], {value}", "lock cmpxchg qword ptr [{at}], {new}", "rax";
}

#[kunit_tests(sib_rdma_atomic)]
mod tests {
    use super::*;
    use outer::{
        Acquire,
        Full,
        Relaxed,
        Release, //
    };

    #[test]
    fn words_are_whole() {
        let flag = Atomic::new(false);
        flag.store(true, Release);
        assert!(flag.load(Acquire));
        assert!(flag.xchg(false, Full));
        assert!(!flag.load(Relaxed));

        let word = Atomic::new(u64::MAX);
        assert_eq!(word.fetch_add(2, Relaxed), u64::MAX);
        assert_eq!(word.load(Relaxed), 1);
        assert_eq!(word.fetch_sub(3, Release), 1);
        assert_eq!(word.load(Acquire), u64::MAX - 1);
    }

    #[test]
    fn neighbours_do_not_change() {
        let words = [Atomic::new(-1i32), Atomic::new(i32::MAX), Atomic::new(-1)];
        let [before, word, after] = &words;
        assert_eq!(word.fetch_add(1, Relaxed), i32::MAX);
        assert_eq!(word.load(Relaxed), i32::MIN);
        assert_eq!(word.cmpxchg(0, 7, Acquire), Err(i32::MIN));
        assert_eq!(word.cmpxchg(i32::MIN, 7, Acquire), Ok(i32::MIN));
        word.store(8, Relaxed);
        assert_eq!(
            [before, word, after].map(|word| word.load(Relaxed)),
            [-1, 8, -1]
        );
    }
}
