// SPDX-License-Identifier: GPL-2.0

//! What keys name, and what may be done through them: memory regions, regions for fast registration,
//! and memory windows.
//!
//! A key that can be invalidated has three states. While *valid*, accesses begin; each is counted
//! until it has ended. To invalidate, no more may begin: the key is *closing*, and becomes *free* when
//! none is left. Who invalidates does not wait for that, since the accesses may be those of a context
//! that this one has interrupted: he is told to come back.
//!
//! Source: IBA "Memory Management", "Memory Windows", "Memory Management Extensions".

use crate::{
    mr::{
        self,
        Absent,
        Mr, //
    },
    mw::{
        self,
        Mw, //
    },
    payload::Piece,
    pd::Tables, //
};
use rdma::{
    ib::{
        AccessFlags,
        Bind,
        MwType, //
    },
    sync::Held, //
};

/// A run of addresses.
#[derive(Clone, Copy)]
pub(crate) struct Extent {
    pub(crate) start: u64,
    pub(crate) length: u64,
}

impl Extent {
    /// How far `len` bytes at `va` are behind the start; `None` if they are not all inside.
    pub(crate) fn offset(&self, va: u64, len: u64) -> Option<u64> {
        let offset = va.checked_sub(self.start)?;
        let end = offset.checked_add(len)?;
        (end <= self.length).then_some(offset)
    }
}

/// A fast registration.
#[derive(Clone, Copy)]
pub(crate) struct Registration {
    /// The new key.
    pub(crate) key: u32,
    pub(crate) access: AccessFlags,
    pub(crate) extent: Extent,
}

/// What a memory window is bound to.
struct Binding {
    mr: Held<Mr>,
    /// The first byte, in the terms of the region.
    addr: u64,
    /// The addresses that peers use.
    extent: Extent,
    access: AccessFlags,
    /// The serial number of the one queue pair that peers have to come through.
    qp: Option<u64>,
}

impl Binding {
    fn new(mr: Held<Mr>, bind: &Bind, qp: Option<u64>) -> Self {
        let zero_based = bind.access.contains(AccessFlags::ZERO_BASED);
        mr.count_window();
        Self {
            mr,
            addr: bind.addr,
            extent: Extent {
                start: if zero_based { 0 } else { bind.addr },
                length: bind.length,
            },
            access: bind.access,
            qp,
        }
    }
}

impl Drop for Binding {
    fn drop(&mut self) {
        self.mr.forget_window();
    }
}

/// The state of a key that can be invalidated.
enum State<T> {
    Free,
    Closing,
    Valid(T),
}

impl<T> State<T> {
    /// Lets no more accesses begin; fails while some are left.
    fn close(&mut self, is_idle: bool) -> Result<(), Refusal> {
        if matches!(self, Self::Free) {
            return Ok(());
        }
        if is_idle {
            *self = Self::Free;
            Ok(())
        } else {
            *self = Self::Closing;
            Err(Refusal::Busy)
        }
    }
}

enum Object {
    Region(Held<Mr>),
    Fast {
        mr: Held<Mr>,
        state: State<Registration>,
    },
    Window {
        mw: Held<Mw>,
        ty: MwType,
        state: State<Binding>,
    },
}

/// What a key names.
pub(crate) struct Entry {
    /// The whole key, with the bits that consumers choose.
    key: u32,
    object: Object,
}

/// Why there is no access by a key.
pub(crate) enum Miss {
    /// It does not allow that.
    Fault,
    /// It does, but the memory is not there now.
    Absent(Absent),
}

/// Why a key is not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It does not allow that.
    Fault,
    /// Accesses are under way. No more begin; to be tried again.
    Busy,
}

/// What a window may be bound with. The right to write locally has no meaning for a window, and programs give
/// it as they do to regions.
const WINDOW_ACCESS: AccessFlags = AccessFlags::from_bits(
    AccessFlags::LOCAL_WRITE.bits()
        | AccessFlags::REMOTE_WRITE.bits()
        | AccessFlags::REMOTE_READ.bits()
        | AccessFlags::REMOTE_ATOMIC.bits()
        | AccessFlags::ZERO_BASED.bits(),
);

/// What a fast registration may allow.
const FAST_ACCESS: AccessFlags = AccessFlags::from_bits(
    AccessFlags::LOCAL_WRITE.bits()
        | AccessFlags::REMOTE_WRITE.bits()
        | AccessFlags::REMOTE_READ.bits()
        | AccessFlags::REMOTE_ATOMIC.bits()
        | AccessFlags::OPTIONAL.bits()
        | AccessFlags::FLUSH_GLOBAL.bits(),
);

/// The rights that change memory.
const WRITES: AccessFlags =
    AccessFlags::from_bits(AccessFlags::REMOTE_WRITE.bits() | AccessFlags::REMOTE_ATOMIC.bits());

/// The same, by whoever.
const STORES: AccessFlags = AccessFlags::from_bits(WRITES.bits() | AccessFlags::LOCAL_WRITE.bits());

/// The rights of peers.
const REMOTE: AccessFlags = AccessFlags::from_bits(WRITES.bits() | AccessFlags::REMOTE_READ.bits());

impl Entry {
    /// A region that is registered as long as it exists.
    pub(crate) fn region(mr: Held<Mr>) -> Self {
        Self::new(Object::Region(mr))
    }

    /// A region for fast registration.
    pub(crate) fn fast(mr: Held<Mr>) -> Self {
        let state = State::Free;
        Self::new(Object::Fast { mr, state })
    }

    /// A memory window.
    pub(crate) fn window(mw: Held<Mw>, ty: MwType) -> Self {
        let state = State::Free;
        Self::new(Object::Window { mw, ty, state })
    }

    fn new(object: Object) -> Self {
        Self { key: 0, object }
    }

    /// Tells the entry its key, when it has one.
    pub(crate) fn set_key(&mut self, key: u32) {
        self.key = key;
    }

    /// The addresses that may be accessed with all of `rights`. `via` is the serial number of the
    /// queue pair that a peer comes through; `None` is for the local side.
    fn extent(&self, via: Option<u64>, rights: AccessFlags) -> Option<Extent> {
        let (access, extent) = match &self.object {
            Object::Region(mr) => (mr.access(), mr.extent()),
            Object::Fast {
                state: State::Valid(registration),
                ..
            } => (registration.access, registration.extent),
            Object::Window {
                state: State::Valid(binding),
                ..
            } if via.is_some() && (binding.qp.is_none() || binding.qp == via) => {
                (binding.access, binding.extent)
            }
            _ => return None,
        };
        access.contains(rights).then_some(extent)
    }

    /// `len` bytes at `va`.
    fn piece(
        &self,
        via: Option<u64>,
        va: u64,
        len: u32,
        rights: AccessFlags,
    ) -> Option<Result<Piece, Absent>> {
        let offset = self.extent(via, rights)?.offset(va, u64::from(len))?;
        let write = rights.intersects(STORES);
        match &self.object {
            Object::Region(mr) => Some(mr::piece(mr.try_clone()?, None, offset, len, write)),
            Object::Fast { mr, .. } => mr::fast_piece(mr.try_clone()?, offset, len).map(Ok),
            Object::Window {
                mw,
                state: State::Valid(binding),
                ..
            } => {
                let at = binding.addr.checked_add(offset)?;
                let offset = binding.mr.extent().offset(at, u64::from(len))?;
                let through = mw::Use::new(mw.try_clone()?);
                let mr = binding.mr.try_clone()?;
                Some(mr::piece(mr, Some(through), offset, len, write))
            }
            Object::Window { .. } => None,
        }
    }
}

/// Whether `new` is `old` but for the bits that consumers choose.
pub(crate) fn is_variant(new: u32, old: u32) -> bool {
    const CONSUMER_MASK: u32 = 0xff;
    (new ^ old) & !CONSUMER_MASK == 0
}

impl Tables {
    fn entry(&self, key: u32) -> Option<&Entry> {
        self.keys.get(key).filter(|entry| entry.key == key)
    }

    fn entry_mut(&mut self, key: u32) -> Option<&mut Entry> {
        self.keys.get_mut(key).filter(|entry| entry.key == key)
    }

    /// `len` bytes at `va`, by a key that allows all of `rights`. `via` is the serial number of the
    /// queue pair that a peer comes through; `None` is for the local side.
    pub(crate) fn piece(
        &self,
        key: u32,
        via: Option<u64>,
        (va, len): (u64, u32),
        rights: AccessFlags,
    ) -> Result<Piece, Miss> {
        let entry = self.entry(key).ok_or(Miss::Fault)?;
        let piece = entry.piece(via, va, len, rights).ok_or(Miss::Fault)?;
        piece.map_err(Miss::Absent)
    }

    /// The region that a key names.
    pub(crate) fn region(&self, key: u32) -> Option<Held<Mr>> {
        match &self.entry(key)?.object {
            Object::Region(mr) => mr.try_clone(),
            Object::Fast { .. } | Object::Window { .. } => None,
        }
    }

    /// Whether a key allows a peer all of `rights` to a range, or at all.
    pub(crate) fn grants(
        &self,
        key: u32,
        via: u64,
        range: Option<(u64, u32)>,
        rights: AccessFlags,
    ) -> bool {
        let extent = self
            .entry(key)
            .and_then(|entry| entry.extent(Some(via), rights));
        extent.is_some_and(|extent| {
            range.is_none_or(|(va, len)| extent.offset(va, u64::from(len)).is_some())
        })
    }

    /// Carries out a fast registration.
    pub(crate) fn register(&mut self, registration: &Registration) -> Result<(), Refusal> {
        let key = registration.key;
        let entry = self.keys.get_mut(key).ok_or(Refusal::Fault)?;
        let Object::Fast { mr, state } = &mut entry.object else {
            return Err(Refusal::Fault);
        };
        let access = registration.access;
        if !matches!(state, State::Free)
            || !FAST_ACCESS.contains(access)
            || (access.intersects(WRITES) && !access.contains(AccessFlags::LOCAL_WRITE))
            || !mr.has_pages(registration.extent.length)
        {
            return Err(Refusal::Fault);
        }
        *state = State::Valid(*registration);
        entry.key = key;
        Ok(())
    }

    /// Invalidates a key for the local side, through the queue pair with the serial number `via`, or
    /// for a `peer`.
    pub(crate) fn invalidate(&mut self, key: u32, via: u64, peer: bool) -> Result<(), Refusal> {
        let entry = self.entry_mut(key).ok_or(Refusal::Fault)?;
        match &mut entry.object {
            Object::Region(_) => Err(Refusal::Fault),
            Object::Fast { mr, state } => {
                let hidden = matches!(state, State::Valid(registration)
                    if !registration.access.intersects(REMOTE));
                if peer && hidden {
                    return Err(Refusal::Fault);
                }
                state.close(mr.is_idle())
            }
            Object::Window { mw, ty, state } => {
                let foreign = matches!(state, State::Valid(binding) if binding.qp != Some(via));
                if *ty != MwType::Type2 || foreign {
                    return Err(Refusal::Fault);
                }
                state.close(mw.is_idle())
            }
        }
    }

    /// Binds a window, through the queue pair with the serial number `via`.
    pub(crate) fn bind(&mut self, bind: &Bind, via: u64) -> Result<(), Refusal> {
        let target = match bind.length {
            0 => None,
            _ => Some(self.bindable(bind).ok_or(Refusal::Fault)?),
        };
        let entry = self.entry_mut(bind.mw_rkey).ok_or(Refusal::Fault)?;
        let Object::Window { mw, ty, state } = &mut entry.object else {
            return Err(Refusal::Fault);
        };
        if !is_variant(bind.rkey, entry.key) || !WINDOW_ACCESS.contains(bind.access) {
            return Err(Refusal::Fault);
        }
        let qp = match ty {
            // A window of type 1 is bound anew as it is. Its addresses are those of the region.
            MwType::Type1 if bind.access.contains(AccessFlags::ZERO_BASED) => {
                return Err(Refusal::Fault)
            }
            MwType::Type1 => {
                state.close(mw.is_idle())?;
                None
            }
            // One of type 2 has to be invalidated before, and cannot be bound to nothing.
            MwType::Type2 if target.is_none() || !matches!(state, State::Free) => {
                return Err(Refusal::Fault)
            }
            MwType::Type2 => Some(via),
        };
        if let Some(mr) = target {
            *state = State::Valid(Binding::new(mr, bind, qp));
        }
        entry.key = bind.rkey;
        Ok(())
    }

    /// The region that a window may be bound to as `bind` says.
    fn bindable(&self, bind: &Bind) -> Option<Held<Mr>> {
        let Object::Region(mr) = &self.entry(bind.mr_lkey)?.object else {
            return None;
        };
        mr.extent().offset(bind.addr, bind.length)?;
        let allowed = mr.access().contains(AccessFlags::MW_BIND)
            && (!bind.access.intersects(WRITES) || mr.access().contains(AccessFlags::LOCAL_WRITE));
        if allowed && mr.is_of_user() {
            mr.try_clone()
        } else {
            None
        }
    }
}
