// SPDX-License-Identifier: GPL-2.0

//! Protection domains: the keys and address handles that their queue pairs may name.
//!
//! Keys are looked up in the protection domain of the queue pair that uses them, and those of receives in that of
//! their queue, so one domain cannot reach the memory of another, whatever it guesses.

use crate::{
    ah::Ah,
    hca::Hca,
    keys::{
        Entry,
        Miss, //
    },
    pace::Pace,
    payload::Piece,
    quota::Share,
    table::{
        AhLayout,
        KeyLayout,
        Table, //
    }, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::Relaxed,
        Arc, //
    }, //
};
use proto::transport::{
    Access,
    Placement, //
};
use rdma::{
    ib::{
        AccessFlags,
        LocalSge, //
    },
    random,
    sync::{
        After,
        Atomic,
        Cx,
        Held,
        Irq,
        LevelLock,
        PdLock,
        Sleepable,
        Unlocked, //
    }, //
};
use wire::Key;

/// What the lock of a protection domain guards.
pub(crate) struct Tables {
    /// Memory regions and windows by key.
    pub(crate) keys: Table<Entry, KeyLayout>,
    /// Address handles of user clients by number.
    pub(crate) ahs: Table<Arc<Ah>, AhLayout>,
}

/// A protection domain.
#[pin_data]
pub(crate) struct Pd {
    /// Its device.
    pub(crate) hca: Held<Hca>,
    /// What its queue pairs may name.
    #[pin]
    pub(crate) tables: LevelLock<Tables, PdLock>,
    serials: Atomic<u64>,
    /// How fast its owner posts to its queue pairs.
    pub(crate) pace: Pace,
    _share: Share,
}

/// Makes a protection domain.
///
/// # Errors
///
/// `ENOMEM`, also if the device has as many as it may have.
pub(crate) fn alloc(hca: Held<Hca>) -> Result<Arc<Pd>> {
    let share = hca.pds.take()?;
    let tables = Tables {
        keys: Table::new(),
        ahs: Table::new(),
    };
    Arc::pin_init(
        try_pin_init!(Pd {
            hca,
            tables <- LevelLock::new(tables),
            serials: Atomic::new(0),
            pace: Pace::new(),
            _share: share,
        }),
        GFP_KERNEL_ACCOUNT,
    )
}

impl Pd {
    /// A serial number for a queue pair of this domain, which no other one ever had.
    pub(crate) fn serial(&self) -> u64 {
        self.serials.fetch_add(1, Relaxed)
    }

    /// Enters what a new key is to name, and returns the key. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn add_key(
        &self,
        cx: &mut Cx<'_, Unlocked>,
        _sleepable: Sleepable<'_>,
        entry: Entry,
    ) -> Result<u32> {
        let mut entry = entry;
        loop {
            let wanted = {
                let mut guard = cx.lock(&self.tables);
                match guard.keys.insert(random::u32(), entry) {
                    Ok(key) => {
                        if let Some(entry) = guard.keys.get_mut(key) {
                            entry.set_key(key);
                        }
                        return Ok(key);
                    }
                    Err(back) => entry = back,
                }
                guard.keys.wanted()?
            };
            let storage = Table::<_, KeyLayout>::allocate(wanted)?;
            let old = cx.lock(&self.tables).keys.grow(storage);
            drop(old);
        }
    }

    /// `len` bytes from `skip` on of a local scatter or gather entry.
    ///
    /// # Errors
    ///
    /// See [`Miss`].
    pub(crate) fn local<L, I: Irq>(
        &self,
        mut cx: Cx<'_, L, I>,
        sge: &LocalSge,
        (skip, len): (u32, u32),
        write: bool,
    ) -> Result<Piece, Miss>
    where
        PdLock: After<L>,
    {
        if let Some(range) = sge.range(skip, len, write) {
            return Ok(Piece::kernel(range, None));
        }
        let va = sge.addr.checked_add(u64::from(skip)).ok_or(Miss::Fault)?;
        let rights = if write {
            AccessFlags::LOCAL_WRITE
        } else {
            AccessFlags::NONE
        };
        cx.lock(&self.tables)
            .piece(sge.lkey, None, (va, len), rights)
    }

    /// The memory that a remote peer names, through the queue pair with the serial number `via`,
    /// whose own rights are the caller's to check.
    ///
    /// # Errors
    ///
    /// See [`Miss`].
    pub(crate) fn remote<L, I: Irq>(
        &self,
        mut cx: Cx<'_, L, I>,
        via: u64,
        rkey: Key,
        (va, len): (u64, u32),
        access: Access,
    ) -> Result<Piece, Miss>
    where
        PdLock: After<L>,
    {
        cx.lock(&self.tables)
            .piece(rkey.get(), Some(via), (va, len), right_to(access))
    }

    /// Whether there is such memory, be it there now or not. As for [`Self::remote`].
    pub(crate) fn may_access<L, I: Irq>(
        &self,
        mut cx: Cx<'_, L, I>,
        via: u64,
        rkey: Key,
        range: (u64, u32),
        access: Access,
    ) -> bool
    where
        PdLock: After<L>,
    {
        cx.lock(&self.tables)
            .grants(rkey.get(), via, Some(range), right_to(access))
    }

    /// Whether a remote peer may FLUSH a range, or all, of what a key names. As for [`Self::remote`].
    pub(crate) fn may_flush<L, I: Irq>(
        &self,
        mut cx: Cx<'_, L, I>,
        via: u64,
        rkey: Key,
        range: Option<(u64, u32)>,
        placement: Placement,
    ) -> bool
    where
        PdLock: After<L>,
    {
        let right = |wanted, right| if wanted { right } else { AccessFlags::NONE };
        let rights = right(placement.global, AccessFlags::FLUSH_GLOBAL)
            | right(placement.persistent, AccessFlags::FLUSH_PERSISTENT);
        cx.lock(&self.tables).grants(rkey.get(), via, range, rights)
    }

    /// The address handle of `number`.
    pub(crate) fn ah<L, I: Irq>(&self, mut cx: Cx<'_, L, I>, number: u32) -> Option<Arc<Ah>>
    where
        PdLock: After<L>,
    {
        cx.lock(&self.tables).ahs.get(number).cloned()
    }
}

/// The right that an access of a peer needs.
fn right_to(access: Access) -> AccessFlags {
    match access {
        Access::Read => AccessFlags::REMOTE_READ,
        Access::Write => AccessFlags::REMOTE_WRITE,
        Access::Atomic => AccessFlags::REMOTE_ATOMIC,
    }
}
