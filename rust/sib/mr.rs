// SPDX-License-Identifier: GPL-2.0

//! Memory regions.
//!
//! Source: IBA "Memory Management".

use crate::{
    keys::{
        is_variant,
        Entry,
        Extent, //
    },
    mw,
    payload::Piece,
    pd::Pd,
    quota::Share, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::Relaxed,
        Arc, //
    }, //
};
use rdma::{
    ib::{
        self,
        AccessFlags,
        Advice,
        Detail,
        NewMr,
        PageList,
        Sge, //
    },
    mem::{
        FastPages,
        KernelSpace,
        OnDemand,
        Region,
        UserMemory, //
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

/// Pages of one fast registration.
pub(crate) const MAX_FAST_PAGES: u32 = 512;

/// What a region refers to.
enum Backing {
    /// Memory of a user.
    User(UserMemory),
    /// All memory of the kernel, by its virtual addresses.
    Kernel(KernelSpace),
    /// What a kernel client gives it from time to time.
    Fast(FastPages),
}

/// A memory region.
#[pin_data]
pub(crate) struct Mr {
    pd: Arc<Pd>,
    backing: Backing,
    /// The addresses and rights of what is registered for as long as it exists.
    extent: Extent,
    access: AccessFlags,
    /// Its first key.
    key: Atomic<u32>,
    /// Windows that are bound to it.
    windows: Atomic<u32>,
    _share: Share,
}

/// Access rights that this device gives to a region; the others are refused, since nobody tests
/// them.
const KNOWN: AccessFlags = AccessFlags::from_bits(
    AccessFlags::LOCAL_WRITE.bits()
        | AccessFlags::REMOTE_WRITE.bits()
        | AccessFlags::REMOTE_READ.bits()
        | AccessFlags::REMOTE_ATOMIC.bits()
        | AccessFlags::FLUSH_GLOBAL.bits()
        | AccessFlags::MW_BIND.bits()
        | AccessFlags::ON_DEMAND.bits()
        | AccessFlags::HUGETLB.bits()
        | AccessFlags::OPTIONAL.bits(),
);

/// Registers memory of a user, which keys name from `iova` on.
///
/// # Errors
///
/// `EOPNOTSUPP` for access rights that the device does not have, `EOVERFLOW` if the addresses wrap
/// around, `ENOMEM`, also if the device has as many regions as it may have.
pub(crate) fn reg_user(
    cx: &mut Cx<'_, Unlocked>,
    sleepable: Sleepable<'_>,
    pd: &Arc<Pd>,
    memory: UserMemory,
    iova: u64,
    access: AccessFlags,
) -> Result<NewMr<Tracked<Mr>>> {
    let extent = Extent {
        start: iova,
        length: memory.size() as u64,
    };
    register(cx, sleepable, pd, Backing::User(memory), extent, access)
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
    let extent = Extent {
        start: 0,
        length: u64::MAX,
    };
    register(cx, sleepable, pd, Backing::Kernel(space), extent, access)
}

/// Makes a region for fast registration, which is to have `pages`, with a key that allows nothing yet.
///
/// # Errors
///
/// `ENOMEM`, also if the device has as many regions as it may have.
pub(crate) fn alloc_fast(
    cx: &mut Cx<'_, Unlocked>,
    sleepable: Sleepable<'_>,
    pd: &Arc<Pd>,
    pages: FastPages,
) -> Result<NewMr<Tracked<Mr>>> {
    let extent = Extent {
        start: 0,
        length: 0,
    };
    let access = AccessFlags::NONE;
    register(cx, sleepable, pd, Backing::Fast(pages), extent, access)
}

/// Gives a region for fast registration the pages of its next registration. Those that it has stay until then, as the
/// key of the one before may be valid. Does not sleep.
///
/// # Errors
///
/// `EINVAL` if it is no such region, and those of [`FastPages::map`].
pub(crate) fn map(mr: &Mr, list: &mut PageList<'_>) -> Result {
    match &mr.backing {
        Backing::Fast(pages) => pages.map(list),
        Backing::User(_) | Backing::Kernel(_) => Err(EINVAL),
    }
}

fn register(
    cx: &mut Cx<'_, Unlocked>,
    sleepable: Sleepable<'_>,
    pd: &Arc<Pd>,
    backing: Backing,
    extent: Extent,
    access: AccessFlags,
) -> Result<NewMr<Tracked<Mr>>> {
    if !KNOWN.contains(access) {
        return Err(ib::unsupported());
    }
    extent.start.checked_add(extent.length).ok_or(EOVERFLOW)?;
    let share = pd.hca.mrs.take()?;
    let is_fast = matches!(backing, Backing::Fast(_));
    let mr = Tracked::new(try_pin_init!(Mr {
        pd: pd.clone(),
        backing,
        extent,
        access,
        key: Atomic::new(0),
        windows: Atomic::new(0),
        _share: share,
    }))?;
    let held = mr.hold().ok_or(ENODEV)?;
    let entry = if is_fast {
        Entry::fast(held)
    } else {
        Entry::region(held)
    };
    let key = pd.add_key(cx, sleepable, entry)?;
    mr.key.store(key, Relaxed);
    Ok(NewMr {
        mr,
        lkey: key,
        rkey: key,
    })
}

/// Forgets the key of a region. Work that uses the region already goes on; the drop of `mr` waits
/// for it.
///
/// # Errors
///
/// `EBUSY` while windows are bound to the region.
pub(crate) fn dereg(cx: &mut Cx<'_, Unlocked>, mr: &Tracked<Mr>) -> Result {
    let entry = {
        let mut tables = cx.lock(&mr.pd.tables);
        if mr.windows.load(Relaxed) != 0 {
            return Err(EBUSY);
        }
        tables.keys.remove(mr.key.load(Relaxed))
    };
    drop(entry);
    Ok(())
}

/// `len` bytes at `offset` of a region, through a window if there is one; the caller has checked the bounds, and
/// the right to `write` if that is wanted.
///
/// # Errors
///
/// If they are not there now.
pub(crate) fn piece(
    mr: Held<Mr>,
    through: Option<mw::Use>,
    offset: u64,
    len: u32,
    write: bool,
) -> Result<Piece, Absent> {
    match &mr.backing {
        // Addresses of this one count from 0.
        Backing::Kernel(space) => {
            let range = space.range(offset, len as usize, write);
            Ok(Piece::kernel(range, Some(mr)))
        }
        Backing::User(UserMemory::OnDemand(memory)) => {
            match memory.enter(offset as usize, len as usize, write) {
                Some(pages) => Ok(Piece::on_demand(pages, mr, through)),
                None => Err(Absent {
                    mr,
                    offset,
                    len,
                    write,
                }),
            }
        }
        Backing::User(UserMemory::Pinned(_)) | Backing::Fast(_) => Ok(match through {
            None => Piece::of(mr, offset as usize, len as usize),
            Some(window) => Piece::through(window, mr, offset as usize, len as usize),
        }),
    }
}

/// Bytes of a region that are not there now.
pub(crate) struct Absent {
    mr: Held<Mr>,
    offset: u64,
    len: u32,
    write: bool,
}

/// What tells absent bytes from others: the first key of their region, where they begin in it, and whether they
/// are to be written.
pub(crate) type Place = (u32, u64, bool);

impl Absent {
    /// What they are.
    pub(crate) fn place(&self) -> Place {
        (self.mr.key.load(Relaxed), self.offset, self.write)
    }

    /// Has them come.
    ///
    /// # Errors
    ///
    /// Those of [`OnDemand::fault`].
    pub(crate) fn fault(&self, cx: &mut Cx<'_, Unlocked>, sleepable: Sleepable<'_>) -> Result {
        let (offset, len) = (self.offset as usize, self.len as usize);
        match self.mr.on_demand() {
            Some(memory) => memory.fault(offset, len, self.write, cx, sleepable),
            None => Ok(()),
        }
    }
}

/// Has memory of a region come ahead of its use.
///
/// # Errors
///
/// `EINVAL` for a key or a range that is not one of a region whose pages come and go, `EPERM` if it is to be
/// written and may not, and those of [`OnDemand::fault`].
fn prefetch(
    cx: &mut Cx<'_, Unlocked>,
    sleepable: Sleepable<'_>,
    pd: &Pd,
    advice: Advice,
    sge: &Sge,
) -> Result {
    let mr = cx.lock(&pd.tables).region(sge.lkey).ok_or(EINVAL)?;
    let memory = mr.on_demand().ok_or(EINVAL)?;
    let len = u64::from(sge.length);
    let offset = mr.extent.offset(sge.addr, len).ok_or(EINVAL)? as usize;
    if advice == Advice::PrefetchWrite && !mr.access.contains(AccessFlags::LOCAL_WRITE) {
        return Err(EPERM);
    }
    let len = sge.length as usize;
    match advice {
        _ if len == 0 => Ok(()),
        Advice::Prefetch => memory.fault(offset, len, false, cx, sleepable),
        Advice::PrefetchWrite => memory.fault(offset, len, true, cx, sleepable),
        Advice::PrefetchNoFault => memory.snapshot(offset, len, cx, sleepable),
    }
}

/// Follows an advice about memory. Without `flush` nobody wants to know what became of it, but for what is wrong
/// with the advice itself.
///
/// # Errors
///
/// As [`prefetch`].
pub(crate) fn advise(
    cx: &mut Cx<'_, Unlocked>,
    sleepable: Sleepable<'_>,
    pd: &Pd,
    advice: Advice,
    flush: bool,
    list: &[Sge],
) -> Result {
    for sge in list {
        match prefetch(cx, sleepable, pd, advice, sge) {
            Err(error) if flush || error == EINVAL || error == EPERM => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// `len` bytes at `offset` of a region for fast registration; the caller has checked the bounds.
/// `None` while it gets new pages.
pub(crate) fn fast_piece(mr: Held<Mr>, offset: u64, len: u32) -> Option<Piece> {
    let pages = match &mr.backing {
        Backing::Fast(pages) => pages.enter()?,
        Backing::User(_) | Backing::Kernel(_) => return None,
    };
    Some(Piece::fast(pages, mr, offset as usize, len as usize))
}

impl Mr {
    /// What is allowed for as long as it is registered.
    pub(crate) fn access(&self) -> AccessFlags {
        self.access
    }

    /// Its addresses.
    pub(crate) fn extent(&self) -> Extent {
        self.extent
    }

    /// Whether `key` is one of its keys, but for the bits that consumers choose.
    pub(crate) fn is_named_by(&self, key: u32) -> bool {
        is_variant(key, self.key.load(Relaxed))
    }

    /// A window is bound to it. The protection domain is locked.
    pub(crate) fn count_window(&self) {
        self.windows.fetch_add(1, Relaxed);
    }

    /// A window is not bound to it any more. The protection domain is locked, or the window gone.
    pub(crate) fn forget_window(&self) {
        self.windows.fetch_sub(1, Relaxed);
    }

    /// Whether it is of memory of a user.
    pub(crate) fn is_of_user(&self) -> bool {
        matches!(self.backing, Backing::User(_))
    }

    /// Whether it is for fast registration and has pages for one of `length` bytes, which are its present ones from now
    /// on. No key of it is valid.
    pub(crate) fn has_pages(&self, length: u64) -> bool {
        let Backing::Fast(pages) = &self.backing else {
            return false;
        };
        if pages.advance().is_err() {
            return false;
        }
        let pages = pages.enter();
        pages.is_some_and(|pages| pages.region().len() as u64 >= length)
    }

    /// Whether no access to the pages of a fast registration is under way.
    pub(crate) fn is_idle(&self) -> bool {
        match &self.backing {
            Backing::Fast(pages) => pages.is_idle(),
            Backing::User(_) | Backing::Kernel(_) => true,
        }
    }

    /// The memory, if it is pinned memory of a user.
    pub(crate) fn region(&self) -> Option<Region<'_>> {
        match &self.backing {
            Backing::User(UserMemory::Pinned(umem)) => Some(umem.region()),
            _ => None,
        }
    }

    /// The memory, if its pages come and go.
    fn on_demand(&self) -> Option<&OnDemand> {
        match &self.backing {
            Backing::User(UserMemory::OnDemand(memory)) => Some(memory),
            _ => None,
        }
    }
}

/// Tells details.
pub(crate) fn show(mr: &Mr, detail: &mut Detail<'_>) -> Result {
    let pinned = matches!(mr.backing, Backing::User(UserMemory::Pinned(_)));
    detail.hex(c"iova", mr.extent.start)?;
    detail.hex(c"access", u64::from(mr.access.bits()))?;
    detail.number(c"pinned", u64::from(pinned))
}
