// SPDX-License-Identifier: GPL-2.0

//! Shared receive queues.
//!
//! Source: IBA "Shared Receive Queue".

use crate::{
    breaks::{
        Breaks,
        Mark, //
    },
    payload::MAX_SGE,
    pd::Pd,
    qp::recv::{
        RecvEntry,
        RecvQueue,
        Taken, //
    },
    query::MAX_QP_WR,
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
        abi,
        Detail,
        NewSrq,
        RecvWr,
        SrqAttr,
        SrqEvent,
        SrqModify,
        SrqUpcall, //
    },
    random,
    ring::Ring,
    sync::{
        After,
        Atomic,
        Cx,
        Irq,
        IrqsOn,
        LevelLock,
        SrqLock,
        Tracked,
        Unlocked, //
    }, //
};

/// What the lock of a shared receive queue guards.
struct State {
    queue: RecvQueue,
    max_wr: u32,
    /// Below so many work requests the client wants an event; 0 for never.
    limit: u32,
    /// A work request could not be read. What follows it in a ring that was overwritten is no better.
    broken: bool,
}

/// A shared receive queue.
#[pin_data]
pub(crate) struct Srq {
    upcall: SrqUpcall,
    /// What the keys of its receives are of, whichever queue pair takes them.
    pub(crate) pd: Arc<Pd>,
    max_sge: u32,
    /// The client is to be told that the limit is reached.
    due: Atomic<bool>,
    /// The client is to be told that the queue is broken.
    failed: Atomic<bool>,
    /// Since when it is in error.
    pub(crate) mark: Mark,
    #[pin]
    state: LevelLock<State, SrqLock>,
    _share: Share,
}

/// Numbers of shared receive queues have 24 bits. Without XRC nobody names a queue by its number.
const SRQN_MASK: u32 = 0xff_ffff;

/// Makes a shared receive queue, without a limit: that of `init` has no meaning (the manual of `ibv_create_srq`).
///
/// # Errors
///
/// `EINVAL` for a size that is not offered; `ENOMEM`, also if the device has as many as it may have.
pub(crate) fn create(
    pd: &Arc<Pd>,
    upcall: SrqUpcall,
    init: &SrqAttr,
    user: bool,
) -> Result<NewSrq<Tracked<Srq>>> {
    if !(1..=MAX_QP_WR).contains(&init.max_wr) || init.max_sge > MAX_SGE as u32 {
        return Err(EINVAL);
    }
    let share = pd.hca.srqs.take()?;
    let max_sge = init.max_sge.max(1);
    let (queue, max_wr, ring) = RecvQueue::new(init.max_wr, max_sge, user)?;
    let state = State {
        queue,
        max_wr,
        limit: 0,
        broken: false,
    };
    let srq = Tracked::new(try_pin_init!(Srq {
        upcall,
        pd: pd.clone(),
        max_sge,
        due: Atomic::new(false),
        failed: Atomic::new(false),
        mark: Mark::new(),
        state <- LevelLock::new(state),
        _share: share,
    }? Error))?;
    Ok(NewSrq {
        srq,
        srqn: random::u32() & SRQN_MASK,
        attr: SrqAttr {
            max_wr,
            max_sge,
            limit: 0,
        },
        map: ring,
    })
}

/// Changes the size of a user's queue, whose new ring `publish` tells the user of before, or the limit.
///
/// # Errors
///
/// `EINVAL` for a size that is not offered or too small for what the queue holds, for a limit beyond
/// the size, old or new, and for the size of a kernel client's queue; `EBUSY` if it is resized by somebody else meanwhile,
/// or filled faster than it is copied; `ENOMEM`; what `publish` says.
pub(crate) fn modify(
    cx: &mut Cx<'_, Unlocked>,
    srq: &Srq,
    change: &SrqModify,
    user: bool,
    publish: impl FnOnce(&Arc<Ring>) -> Result,
) -> Result {
    let ring = match change.max_wr {
        Some(max_wr) if user && (1..=MAX_QP_WR).contains(&max_wr) => {
            let ring = Ring::new(max_wr, abi::recv_wqe_size(srq.max_sge))?;
            publish(&ring)?;
            Some(ring)
        }
        Some(_) => return Err(EINVAL),
        None => None,
    };
    let mut transfer = match &ring {
        Some(ring) => Some(cx.lock(&srq.state).queue.ring()?.transfer(ring)?),
        None => None,
    };
    loop {
        if let Some(transfer) = &mut transfer {
            transfer.copy();
        }
        let mut state = cx.lock(&srq.state);
        let max_wr = ring.as_ref().map_or(state.max_wr, |ring| ring.capacity());
        let limit = change.limit.unwrap_or(state.limit);
        // Nothing changes unless all does.
        if limit > max_wr {
            return Err(EINVAL);
        }
        if let Some(transfer) = &mut transfer {
            if !state.queue.ring()?.replace(transfer)? {
                continue;
            }
        }
        state.max_wr = max_wr;
        state.limit = limit;
        return Ok(());
    }
}

/// The attributes.
pub(crate) fn query(cx: &mut Cx<'_, Unlocked>, srq: &Srq) -> SrqAttr {
    let state = cx.lock(&srq.state);
    SrqAttr {
        max_wr: state.max_wr,
        max_sge: srq.max_sge,
        limit: state.limit,
    }
}

/// Tells details.
pub(crate) fn show(cx: &mut Cx<'_, Unlocked>, srq: &Srq, detail: &mut Detail<'_>) -> Result {
    let (max_wr, limit, pending) = {
        let state = cx.lock(&srq.state);
        (state.max_wr, state.limit, state.queue.len())
    };
    detail.number(c"max_wr", u64::from(max_wr))?;
    detail.number(c"max_sge", u64::from(srq.max_sge))?;
    detail.number(c"limit", u64::from(limit))?;
    detail.number(c"recvs", u64::from(pending))
}

/// Takes a receive work request of a kernel client.
///
/// # Errors
///
/// `EINVAL` for too many buffers, `ENOMEM` if the queue is full.
pub(crate) fn post_recv(cx: &mut Cx<'_, Unlocked>, srq: &Srq, wr: &RecvWr<'_>) -> Result {
    cx.lock(&srq.state).queue.post(wr)
}

impl Srq {
    /// Takes the oldest work request. What is taken of a queue that is broken is spoilt.
    pub(crate) fn take<L, I: Irq>(&self, mut cx: Cx<'_, L, I>, entry: &mut RecvEntry) -> Taken
    where
        SrqLock: After<L>,
    {
        let mut state = cx.lock(&self.state);
        if state.broken {
            return Taken::Spoilt;
        }
        let taken = state.queue.take(entry);
        if taken == Taken::Spoilt {
            state.broken = true;
            self.failed.store(true, Relaxed);
            return taken;
        }
        // Also if there was none: all may have been taken before the limit was set, and the client posts when it is told.
        if state.limit != 0 && state.queue.len() < state.limit {
            // The event comes once for each time that the limit is set.
            state.limit = 0;
            self.due.store(true, Relaxed);
        }
        taken
    }

    /// Tells the client what there is to tell, and returns whether the queue has broken just now: then its
    /// queue pairs have to go to the error state.
    pub(crate) fn notify(
        &self,
        cx: &mut Cx<'_, Unlocked>,
        irqs: IrqsOn<'_>,
        breaks: &Breaks,
    ) -> bool {
        if self.due.load(Relaxed) && self.due.xchg(false, Relaxed) {
            self.upcall.event(cx, irqs, SrqEvent::LimitReached);
        }
        let failed = self.failed.load(Relaxed) && self.failed.xchg(false, Relaxed);
        if failed {
            self.mark.set(breaks);
            self.upcall.event(cx, irqs, SrqEvent::Error);
        }
        failed
    }
}
