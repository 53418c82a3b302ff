// SPDX-License-Identifier: GPL-2.0

//! The levels of the lock order.

use super::{
    Cx,
    LevelLock, //
};
use crate::sealed::Sealed;
use core::pin::Pin;
use kernel::prelude::*;
use kernel::sync::LockClassKey;

/// A position in the lock order.
///
/// All locks of one level share one lockdep class, named after the level.
pub trait Level: Sealed {
    /// The name that lockdep prints: the same pointer on every call, by which lockdep checks the class.
    fn name() -> &'static CStr;

    /// The lockdep class of the level.
    fn class() -> Pin<&'static LockClassKey>;
}

/// `Self` may be acquired while `L` is the innermost level held.
#[diagnostic::on_unimplemented(
    message = "lock level `{Self}` must not be acquired while `{L}` is held",
    label = "violates the lock order",
    note = "the order is written in rust/rdma/sync/level.rs"
)]
pub trait After<L>: Sealed {}

/// No lock of the hierarchy is held.
pub enum Unlocked {}

/// Declares the levels, outermost first, with the closure of [`After`].
///
/// The impls are spelled out rather than derived from blanket ones: the compiler then lists a few exact
/// types in its errors, and an impl per pair costs nothing.
macro_rules! lock_order {
    ($($(#[$doc:meta])* $level:ident = $name:literal),+ $(,)?) => {
        $(
            $(#[$doc])*
            pub enum $level {}

            impl Sealed for $level {}

            impl Level for $level {
                fn name() -> &'static CStr {
                    // A constant may have a copy, with its own address, in each crate that uses it.
                    static NAME: &CStr = $name;
                    NAME
                }

                fn class() -> Pin<&'static LockClassKey> {
                    kernel::sync::static_lock_class!()
                }
            }

            impl After<Unlocked> for $level {}
        )+

        lock_order!(@closure $($level)+);

        /// Takes one lock of every level in order, so that lockdep knows the whole order from the start.
        ///
        /// With `CONFIG_PROVE_LOCKING` the first inversion anywhere is then reported, without waiting
        /// until the opposite path has run. To be called once, from module init.
        pub fn prime(mut cx: Cx<'_, Unlocked>) {
            lock_order!(@prime cx $($level)+);
        }
    };
    (@closure $first:ident $($rest:ident)*) => {
        $(impl After<$first> for $rest {})*
        lock_order!(@closure $($rest)*);
    };
    (@closure) => {};
    (@prime $cx:ident $first:ident $($rest:ident)*) => {
        pin_init::stack_pin_init!(let lock = LevelLock::<(), $first>::new(()));
        let mut guard = $cx.lock(&lock);
        #[allow(unused_mut, unused_variables)]
        let mut cx = guard.split().1;
        lock_order!(@prime cx $($rest)*);
    };
    (@prime $cx:ident) => {};
}

lock_order! {
    /// A fabric: the switch of an underlay device with its ports and cables.
    FabricLock = c"sib_fabric::lock",
    /// A device: its tables of objects and the states of its ports.
    DevLock = c"sib_dev::lock",
    /// A queue pair.
    QpLock = c"sib_qp::lock",
    /// A device: the queue pairs whose messages wait to leave together.
    DevSched = c"sib_dev::schedule",
    /// A shared receive queue.
    SrqLock = c"sib_srq::lock",
    /// A protection domain: its memory regions and windows.
    PdLock = c"sib_pd::lock",
    /// A completion queue.
    CqLock = c"sib_cq::lock",
    /// The list of a device's deferred work.
    DevWq = c"sib_dev::wq",
}
