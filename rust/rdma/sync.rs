// SPDX-License-Identifier: GPL-2.0

//! Locks in a fixed order, tokens of context, and revocable references.
//!
//! # The lock order
//!
//! `FabricLock → DevLock → QpLock → DevSched → SrqLock → PdLock → CqLock → DevWq`, outermost first. Any
//! level may be skipped; a level is never taken inside itself or inside a later one. The order is checked
//! by the compiler: [`Cx::lock`] needs a token of an outer level. With `CONFIG_PROVE_LOCKING` it is checked
//! by lockdep too, see [`prime`].
//!
//! Two objects of one level are never locked together: take what is needed from the first, release it, and
//! hand the work to the second.
//!
//! # Contexts
//!
//! | token | means |
//! |---|---|
//! | [`Cx<'_, Unlocked>`](Cx) | no lock of the order is held |
//! | [`Cx<'_, L, Off>`](Cx) | `L` is the innermost lock held, interrupts are off |
//! | [`IrqsOn`] | interrupts were on when the context was entered: packets may be sent |
//! | [`Sleepable`] | a task: it may sleep while it holds no lock |
//!
//! Tokens are made by the trampolines of this crate alone. What needs one takes it as a parameter, so that
//! an upcall under a lock or a sleep in `post_send` do not compile.

mod anchor;
mod atomic;
mod cx;
mod gate;
mod level;
mod lock;
mod no_io;
mod tracked;

pub(crate) use anchor::lend;
pub use anchor::Anchor;
pub use atomic::{
    smp_mb,
    Atomic, //
};
#[cfg(CONFIG_KUNIT = "y")]
pub use cx::test_context;
pub use cx::{
    Any,
    Cx,
    Irq,
    IrqsOn,
    Off,
    Sleepable, //
};
pub use gate::{
    Gate,
    Pass, //
};
pub use level::{
    prime,
    After,
    CqLock,
    DevLock,
    DevSched,
    DevWq,
    FabricLock,
    Level,
    PdLock,
    QpLock,
    SrqLock,
    Unlocked, //
};
pub use lock::{
    Guard,
    LevelLock, //
};
pub use no_io::{
    NoIo,
    NoIoGuard,
    NoIoMutex, //
};
pub use tracked::{
    Held,
    Tracked,
    Watch, //
};
