// SPDX-License-Identifier: GPL-2.0

//! Protection domains: the keys and address handles that their queue pairs may name.
//!
//! Keys are looked up in the protection domain of the queue pair that uses them, so one domain
//! cannot reach the memory of another, whatever it guesses.

use crate::{
    ah::Ah,
    hca::Hca,
    mr::Mr,
    payload::Piece,
    table::{
        AhLayout,
        KeyLayout,
        Table, //
    }, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use proto::transport::{
    Access,
    Placement,
    WcStatus, //
};
use rdma::{
    ib::{
        AccessFlags,
        Sge, //
    },
    mem::KernelSpace,
    random,
    sync::{
        After,
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

/// The key by which kernel clients name all memory, by its virtual address.
pub(crate) const LOCAL_DMA_LKEY: u32 = 0;

/// What the lock of a protection domain guards.
pub(crate) struct Tables {
    /// Memory regions by key.
    pub(crate) mrs: Table<Held<Mr>, KeyLayout>,
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
}

/// Makes a protection domain.
///
/// # Errors
///
/// `ENOMEM`; `ENODEV` if the device is going away.
pub(crate) fn alloc(hca: Held<Hca>) -> Result<Arc<Pd>> {
    let tables = Tables {
        mrs: Table::new(),
        ahs: Table::new(),
    };
    Arc::pin_init(
        try_pin_init!(Pd {
            hca,
            tables <- LevelLock::new(tables),
        }),
        GFP_KERNEL,
    )
}

impl Pd {
    /// Enters a region and returns its key. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn add_mr(
        &self,
        cx: &mut Cx<'_, Unlocked>,
        _sleepable: Sleepable<'_>,
        mr: Held<Mr>,
    ) -> Result<u32> {
        let mut mr = mr;
        loop {
            let wanted = {
                let mut guard = cx.lock(&self.tables);
                match guard.mrs.insert(random::u32(), mr) {
                    Ok(key) => return Ok(key),
                    Err(back) => mr = back,
                }
                guard.mrs.wanted()?
            };
            let storage = Table::<_, KeyLayout>::allocate(wanted, GFP_KERNEL)?;
            let old = cx.lock(&self.tables).mrs.grow(storage);
            drop(old);
        }
    }

    /// `len` bytes from `skip` on of a local scatter or gather entry. `space` is there for kernel
    /// clients alone.
    ///
    /// # Errors
    ///
    /// [`WcStatus::LocProtErr`]: the key is unknown, or does not allow it.
    pub(crate) fn local<L, I: Irq>(
        &self,
        mut cx: Cx<'_, L, I>,
        space: Option<&KernelSpace>,
        sge: &Sge,
        (skip, len): (u32, u32),
        write: bool,
    ) -> Result<Piece, WcStatus>
    where
        PdLock: After<L>,
    {
        let va = sge
            .addr
            .checked_add(u64::from(skip))
            .ok_or(WcStatus::LocProtErr)?;
        if sge.lkey == LOCAL_DMA_LKEY {
            let space = space.ok_or(WcStatus::LocProtErr)?;
            return Ok(Piece::kernel(space.range(va, len as usize)));
        }
        let mr = cx
            .lock(&self.tables)
            .mrs
            .get(sge.lkey)
            .and_then(Held::try_clone)
            .ok_or(WcStatus::LocProtErr)?;
        if write && !mr.allows(AccessFlags::LOCAL_WRITE) {
            return Err(WcStatus::LocProtErr);
        }
        Mr::piece(mr, va, len).ok_or(WcStatus::LocProtErr)
    }

    /// The memory that a remote peer names. The right of the queue pair is the caller's to check.
    pub(crate) fn remote<L, I: Irq>(
        &self,
        mut cx: Cx<'_, L, I>,
        rkey: Key,
        va: u64,
        len: u32,
        access: Access,
    ) -> Option<Piece>
    where
        PdLock: After<L>,
    {
        let needed = match access {
            Access::Read => AccessFlags::REMOTE_READ,
            Access::Write => AccessFlags::REMOTE_WRITE,
            Access::Atomic => AccessFlags::REMOTE_ATOMIC,
        };
        let mr = cx
            .lock(&self.tables)
            .mrs
            .get(rkey.get())
            .and_then(Held::try_clone)?;
        if !mr.allows(needed) {
            return None;
        }
        Mr::piece(mr, va, len)
    }

    /// Whether a remote peer may FLUSH a range, or all, of what a key names. The right of the queue
    /// pair is the caller's to check.
    pub(crate) fn may_flush<L, I: Irq>(
        &self,
        mut cx: Cx<'_, L, I>,
        rkey: Key,
        range: Option<(u64, u32)>,
        placement: Placement,
    ) -> bool
    where
        PdLock: After<L>,
    {
        let tables = cx.lock(&self.tables);
        let Some(mr) = tables.mrs.get(rkey.get()) else {
            return false;
        };
        (!placement.global || mr.allows(AccessFlags::FLUSH_GLOBAL))
            && (!placement.persistent || mr.allows(AccessFlags::FLUSH_PERSISTENT))
            && range.is_none_or(|(va, len)| mr.covers(va, len))
    }

    /// The address handle of `number`.
    pub(crate) fn ah<L, I: Irq>(&self, mut cx: Cx<'_, L, I>, number: u32) -> Option<Arc<Ah>>
    where
        PdLock: After<L>,
    {
        cx.lock(&self.tables).ahs.get(number).cloned()
    }
}
