// SPDX-License-Identifier: GPL-2.0

//! Memory regions.
//!
//! Source: IBA "Memory Management".

use crate::{
    payload::Piece,
    pd::Pd, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    }, //
};
use rdma::{
    ib::{
        self,
        AccessFlags,
        Detail,
        NewMr, //
    },
    mem::{
        KernelSpace,
        Region,
        Umem, //
    },
    sync::{
        Cx,
        Held,
        Sleepable,
        Tracked,
        Unlocked, //
    }, //
};

/// What a region refers to.
enum Backing {
    /// Pinned memory of a user.
    User(Umem),
    /// All memory of the kernel, by its virtual addresses.
    Kernel(KernelSpace),
}

/// A memory region.
#[pin_data]
pub(crate) struct Mr {
    pd: Arc<Pd>,
    backing: Backing,
    iova: u64,
    length: u64,
    access: AccessFlags,
    key: Atomic<u32>,
}

/// Access rights that this device gives to a region; the others are refused, since nobody tests
/// them.
const KNOWN: AccessFlags = AccessFlags::from_bits(
    AccessFlags::LOCAL_WRITE.bits()
        | AccessFlags::REMOTE_WRITE.bits()
        | AccessFlags::REMOTE_READ.bits()
        | AccessFlags::REMOTE_ATOMIC.bits()
        | AccessFlags::FLUSH_GLOBAL.bits()
        | AccessFlags::HUGETLB.bits()
        | AccessFlags::RELAXED_ORDERING.bits(),
);

/// Registers pinned memory, which keys name from `iova` on.
///
/// # Errors
///
/// `EOPNOTSUPP` for access rights that the device does not have, `EOVERFLOW` if the addresses wrap
/// around, `ENOMEM`.
pub(crate) fn reg_user(
    cx: &mut Cx<'_, Unlocked>,
    sleepable: Sleepable<'_>,
    pd: &Arc<Pd>,
    umem: Umem,
    length: u64,
    iova: u64,
    access: AccessFlags,
) -> Result<NewMr<Tracked<Mr>>> {
    register(cx, sleepable, pd, Backing::User(umem), iova, length, access)
}

/// Registers all memory of the kernel.
///
/// # Errors
///
/// As [`reg_user`].
pub(crate) fn get_dma(
    cx: &mut Cx<'_, Unlocked>,
    sleepable: Sleepable<'_>,
    pd: &Arc<Pd>,
    space: KernelSpace,
    access: AccessFlags,
) -> Result<NewMr<Tracked<Mr>>> {
    register(
        cx,
        sleepable,
        pd,
        Backing::Kernel(space),
        0,
        u64::MAX,
        access,
    )
}

fn register(
    cx: &mut Cx<'_, Unlocked>,
    sleepable: Sleepable<'_>,
    pd: &Arc<Pd>,
    backing: Backing,
    iova: u64,
    length: u64,
    access: AccessFlags,
) -> Result<NewMr<Tracked<Mr>>> {
    if !KNOWN.contains(access) {
        return Err(ib::unsupported());
    }
    iova.checked_add(length).ok_or(EOVERFLOW)?;
    let mr = Tracked::new(try_pin_init!(Mr {
        pd: pd.clone(),
        backing,
        iova,
        length,
        access,
        key: Atomic::new(0),
    }))?;
    let key = pd.add_mr(cx, sleepable, mr.hold().ok_or(ENODEV)?)?;
    mr.key.store(key, Relaxed);
    Ok(NewMr {
        mr,
        lkey: key,
        rkey: key,
    })
}

/// Forgets the key of a region. Work that uses the region already goes on; the drop of `mr` waits
/// for it.
pub(crate) fn dereg(cx: &mut Cx<'_, Unlocked>, mr: &Tracked<Mr>) {
    let held = cx.lock(&mr.pd.tables).mrs.remove(mr.key.load(Relaxed));
    drop(held);
}

impl Mr {
    /// Whether all of `access` is allowed.
    pub(crate) fn allows(&self, access: AccessFlags) -> bool {
        self.access.contains(access)
    }

    /// The offset of the `len` bytes at the address `va`; `None` if they are not all in the region.
    fn offset(&self, va: u64, len: u32) -> Option<u64> {
        let offset = va.checked_sub(self.iova)?;
        let end = offset.checked_add(u64::from(len))?;
        (end <= self.length).then_some(offset)
    }

    /// Whether the `len` bytes at the address `va` are all in the region.
    pub(crate) fn covers(&self, va: u64, len: u32) -> bool {
        self.offset(va, len).is_some()
    }

    /// The `len` bytes at the address `va`; `None` if they are not all in the region.
    pub(crate) fn piece(mr: Held<Mr>, va: u64, len: u32) -> Option<Piece> {
        let offset = mr.offset(va, len)?;
        Some(match &mr.backing {
            Backing::User(_) => Piece::of(mr, offset as usize, len as usize),
            Backing::Kernel(space) => Piece::kernel(space.range(va, len as usize)),
        })
    }

    /// The memory, if it is of a user.
    pub(crate) fn region(&self) -> Option<Region<'_>> {
        match &self.backing {
            Backing::User(umem) => Some(umem.region()),
            Backing::Kernel(_) => None,
        }
    }
}

/// Tells details.
pub(crate) fn show(mr: &Mr, detail: &mut Detail<'_>) -> Result {
    let pinned = matches!(mr.backing, Backing::User(_));
    detail.hex(c"iova", mr.iova)?;
    detail.hex(c"access", u64::from(mr.access.bits()))?;
    detail.number(c"pinned", u64::from(pinned))
}
