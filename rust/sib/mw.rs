// SPDX-License-Identifier: GPL-2.0

//! Memory windows. What they are bound to is in the table of [`crate::keys`].
//!
//! Source: IBA "Memory Windows".

use crate::{
    keys::Entry,
    pd::Pd,
    quota::Share, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Relaxed,
            Release, //
        },
        Arc, //
    }, //
};
use rdma::{
    ib::{
        MwType,
        NewMw, //
    },
    sync::{
        Atomic,
        Cx,
        Held,
        Sleepable,
        Tracked,
        Unlocked, //
    }, //
};

/// A memory window.
#[pin_data]
pub(crate) struct Mw {
    pd: Arc<Pd>,
    /// Its first key.
    key: Atomic<u32>,
    /// Accesses through it that are under way.
    uses: Atomic<u32>,
    _share: Share,
}

/// Makes a window that is bound to nothing.
///
/// # Errors
///
/// `ENOMEM`, also if the device has as many as it may have.
pub(crate) fn alloc(
    cx: &mut Cx<'_, Unlocked>,
    sleepable: Sleepable<'_>,
    pd: &Arc<Pd>,
    ty: MwType,
) -> Result<NewMw<Tracked<Mw>>> {
    let share = pd.hca.mws.take()?;
    let mw = Tracked::new(try_pin_init!(Mw {
        pd: pd.clone(),
        key: Atomic::new(0),
        uses: Atomic::new(0),
        _share: share,
    }))?;
    let entry = Entry::window(mw.hold().ok_or(ENODEV)?, ty);
    let rkey = pd.add_key(cx, sleepable, entry)?;
    mw.key.store(rkey, Relaxed);
    Ok(NewMw { mw, rkey })
}

/// Forgets the key of a window. Accesses that go on may go on; the drop of `mw` waits for them.
pub(crate) fn dealloc(cx: &mut Cx<'_, Unlocked>, mw: &Tracked<Mw>) {
    let entry = cx.lock(&mw.pd.tables).keys.remove(mw.key.load(Relaxed));
    drop(entry);
}

impl Mw {
    /// Whether no access is under way. What the last one did happens before the answer.
    pub(crate) fn is_idle(&self) -> bool {
        self.uses.load(Acquire) == 0
    }
}

/// An access through a window.
pub(crate) struct Use(Held<Mw>);

impl Use {
    /// Counts an access.
    pub(crate) fn new(mw: Held<Mw>) -> Self {
        mw.uses.fetch_add(1, Relaxed);
        Self(mw)
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        self.0.uses.fetch_sub(1, Release);
    }
}
