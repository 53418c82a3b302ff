// SPDX-License-Identifier: GPL-2.0

//! Address handles.
//!
//! Source: IBA "Address Handles". User work requests name a handle by its number, which is looked
//! up in the protection domain of the queue pair; kernel ones refer to it.

use crate::{
    hca::Hca,
    pd::Pd,
    query,
    quota::Share,
    table::{
        AhLayout,
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
    GrhAv,
    PathAv, //
};
use rdma::{
    ib::{
        AhAttr,
        NewAh, //
    },
    random,
    sync::{
        After,
        Atomic,
        Cx,
        Irq,
        LevelLock,
        PdLock,
        Sleepable,
        Unlocked, //
    }, //
};
use wire::{
    Gid,
    Lid,
    PortNum,
    Sl, //
};

/// The highest service level.
const MAX_SL: u8 = 15;

/// What the lock of an address handle guards.
#[derive(Clone, Copy)]
struct State {
    attr: AhAttr,
    av: PathAv,
}

/// An address handle.
#[pin_data]
pub(crate) struct Ah {
    pd: Arc<Pd>,
    /// Its number in the table of the domain; 0 for handles of kernel clients, which are in none.
    number: Atomic<u32>,
    #[pin]
    state: LevelLock<State, PdLock>,
    /// Of a handle of a program. Those of the kernel are not counted: programs cannot keep it from answering.
    _share: Option<Share>,
}

/// The way that `attr` names, with the source GID that its index names now.
///
/// # Errors
///
/// `EINVAL` for a port, service level or GID index that does not exist.
pub(crate) fn resolve(cx: &mut Cx<'_, Unlocked>, hca: &Hca, attr: &AhAttr) -> Result<PathAv> {
    let port = u8::try_from(attr.port).map_err(|_| EINVAL)?;
    if !(1..=hca.ports()).contains(&port) || attr.sl > MAX_SL {
        return Err(EINVAL);
    }
    let grh = match &attr.grh {
        None => None,
        Some(route) => Some(GrhAv {
            sgid_index: route.sgid_index,
            sgid: query::gid(cx, hca, PortNum::new(port), route.sgid_index.into())?,
            dgid: Gid::new(route.dgid),
            flow_label: route.flow_label,
            hop_limit: route.hop_limit,
            traffic_class: route.traffic_class,
        }),
    };
    Ok(PathAv {
        dlid: Lid::new(attr.dlid),
        sl: Sl::new(attr.sl),
        src_path_bits: attr.src_path_bits,
        static_rate: attr.static_rate,
        grh,
    })
}

/// Makes an address handle, of a user if it may sleep.
///
/// # Errors
///
/// `EINVAL` for an address that cannot be, `ENOMEM`, also if the programs of the device have as many as they may have.
pub(crate) fn create(
    cx: &mut Cx<'_, Unlocked>,
    pd: &Arc<Pd>,
    attr: &AhAttr,
    user: Option<Sleepable<'_>>,
) -> Result<NewAh<Arc<Ah>>> {
    let state = State {
        attr: *attr,
        av: resolve(cx, &pd.hca, attr)?,
    };
    let share = match user {
        Some(_) => Some(pd.hca.ahs.take()?),
        None => None,
    };
    let ah = Arc::pin_init(
        try_pin_init!(Ah {
            pd: pd.clone(),
            number: Atomic::new(0),
            state <- LevelLock::new(state),
            _share: share,
        }),
        if user.is_some() {
            GFP_KERNEL_ACCOUNT
        } else {
            GFP_ATOMIC
        },
    )?;
    if let Some(sleepable) = user {
        let number = enter(cx, sleepable, pd, ah.clone())?;
        ah.number.store(number, Relaxed);
    }
    let number = ah.number.load(Relaxed);
    Ok(NewAh { ah, number })
}

/// Enters a handle into the table of its protection domain.
fn enter(
    cx: &mut Cx<'_, Unlocked>,
    _sleepable: Sleepable<'_>,
    pd: &Pd,
    ah: Arc<Ah>,
) -> Result<u32> {
    let mut ah = ah;
    loop {
        let wanted = {
            let mut tables = cx.lock(&pd.tables);
            match tables.ahs.insert(random::u32(), ah) {
                Ok(number) => return Ok(number),
                Err(back) => ah = back,
            }
            tables.ahs.wanted()?
        };
        let storage = Table::<_, AhLayout>::allocate(wanted)?;
        let old = cx.lock(&pd.tables).ahs.grow(storage);
        drop(old);
    }
}

/// The address of a handle.
pub(crate) fn query(cx: &mut Cx<'_, Unlocked>, ah: &Ah) -> AhAttr {
    cx.lock(&ah.state).attr
}

/// Changes the address of a handle. Work requests posted before keep the old one.
///
/// # Errors
///
/// `EINVAL` for an address that cannot be.
pub(crate) fn modify(cx: &mut Cx<'_, Unlocked>, ah: &Ah, attr: &AhAttr) -> Result {
    let av = resolve(cx, &ah.pd.hca, attr)?;
    let attr = *attr;
    *cx.lock(&ah.state) = State { attr, av };
    Ok(())
}

/// Forgets the number of a handle.
pub(crate) fn destroy(cx: &mut Cx<'_, Unlocked>, ah: &Ah) {
    let number = ah.number.load(Relaxed);
    if number != 0 {
        let entry = cx.lock(&ah.pd.tables).ahs.remove(number);
        drop(entry);
    }
}

impl Ah {
    /// The way to go, from the GID that its index names now.
    pub(crate) fn av<L, I: Irq>(&self, mut cx: Cx<'_, L, I>) -> PathAv
    where
        PdLock: After<L>,
    {
        let State { attr, mut av } = *cx.lock(&self.state);
        if let Some(grh) = &mut av.grh {
            let port = PortNum::new(attr.port as u8);
            grh.sgid = self.pd.hca.gid(port, grh.sgid_index).unwrap_or(grh.sgid);
        }
        av
    }

    /// Whether the handle belongs to `pd`.
    pub(crate) fn is_of(&self, pd: &Arc<Pd>) -> bool {
        Arc::ptr_eq(&self.pd, pd)
    }
}
