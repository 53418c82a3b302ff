// SPDX-License-Identifier: GPL-2.0

//! Making and removing queue pairs.

use super::{
    absence::Absence,
    env::{
        Events,
        Withheld, //
    },
    leave::take_leave,
    recv::{
        RecvEntry,
        RecvQueue, //
    },
    send::{
        self,
        SendQueue, //
    },
    transmit::Transmitter,
    Qp,
    State, //
};
use crate::{
    breaks::Since,
    driver::Sib,
    hca::Hca,
    payload::{
        Source,
        MAX_INLINE,
        MAX_SGE, //
    },
    pd::Pd,
    query::{
        MAX_QP_WR,
        MAX_RD_ATOMIC, //
    },
    steering::Course,
    table::{
        QpnLayout,
        Table, //
    }, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::Relaxed,
        Arc, //
    },
};
use proto::transport::{
    self as machine,
    AttrMask,
    QpConfig,
    QpState,
    Resource,
    SendEntry, //
};
use rdma::{
    ib::{
        abi,
        NewQp,
        QpAttr,
        QpCap,
        QpInit,
        QpType,
        QpUpcall, //
    },
    mem::BulkVec,
    new_work,
    random,
    ring::{
        Consumer,
        Ring, //
    },
    sync::{
        Atomic,
        Cx,
        Held,
        LevelLock,
        Off,
        QpLock,
        Sleepable,
        Tracked,
        Unlocked, //
    },
    timer::Timer, //
};

/// The number of SMI queue pairs.
const SMI_QPN: u32 = 0;
/// The number of GSI queue pairs.
const GSI_QPN: u32 = 1;
/// Numbers from 0 on that no other queue pair gets.
const RESERVED: core::ops::RangeInclusive<u32> = 0..=1;

/// The machine's type of a queue pair.
fn machine_type(ty: QpType) -> machine::QpType {
    match ty {
        QpType::Smi => machine::QpType::Smi,
        QpType::Gsi => machine::QpType::Gsi,
        QpType::Rc => machine::QpType::Rc,
        QpType::Uc => machine::QpType::Uc,
        QpType::Ud => machine::QpType::Ud,
    }
}

/// Makes a queue pair in RESET.
///
/// # Errors
///
/// `EINVAL` for sizes beyond what the device offers, `ENOMEM`, `EBUSY` if the port has the special
/// queue pair already.
pub(crate) fn create(
    cx: &mut Cx<'_, Unlocked>,
    sleepable: Sleepable<'_>,
    pd: &Arc<Pd>,
    upcall: QpUpcall,
    init: &QpInit<'_, Sib>,
    user: bool,
) -> Result<NewQp<Tracked<Qp>>> {
    let mut cap = check(&init.cap, init.srq.is_some())?;
    let mut sq_ring = None;
    if user {
        let element = abi::send_wqe_size(cap.max_send_sge, cap.max_inline_data);
        let ring = Ring::new(cap.max_send_wr, element)?;
        cap.max_send_wr = ring.capacity();
        sq_ring = Some(ring);
    }
    let (recvs, rq_ring) = if init.srq.is_some() {
        (RecvQueue::none(), None)
    } else {
        let (queue, granted, ring) = RecvQueue::new(cap.max_recv_wr, cap.max_recv_sge, user)?;
        cap.max_recv_wr = granted;
        (queue, ring)
    };
    let state = state(init.ty, cap, sq_ring.clone(), recvs);
    let special = matches!(init.ty, QpType::Smi | QpType::Gsi);
    let port = if special { init.port } else { 0 };
    let srq = match init.srq {
        Some(srq) => Some(srq.hold().ok_or(ENODEV)?),
        None => None,
    };
    let qp = Tracked::new(try_pin_init!(Qp {
        hca: pd.hca.try_clone().ok_or(ENODEV)?,
        pd: pd.clone(),
        send_cq: init.send_cq.hold().ok_or(ENODEV)?,
        recv_cq: init.recv_cq.hold().ok_or(ENODEV)?,
        srq,
        user,
        upcall,
        ty: init.ty,
        sig_all: init.sig_all,
        cap,
        qpn: Atomic::new(0),
        since: Since::new(),
        serial: pd.serial(),
        port: Atomic::new(port),
        state <- LevelLock::new(state),
        work <- new_work!("Qp::work"),
        waits: Atomic::new(false),
        memory <- new_work!("Qp::memory"),
        timer <- Timer::new(),
    }? Error))?;
    qp.timer
        .attach(qp.hold().ok_or(ENODEV)?)
        .map_err(|_| EBUSY)?;
    let entered = enter(cx, &pd.hca, qp.hold().ok_or(ENODEV)?);
    let qpn = match entered {
        Ok(qpn) => qpn,
        Err(error) => {
            qp.timer.shutdown(cx, sleepable);
            return Err(error);
        }
    };
    Ok(NewQp {
        qp,
        qpn,
        cap,
        sq_map: sq_ring,
        rq_map: rq_ring,
    })
}

/// An initialiser of what the lock of a queue pair guards, which is too large to be made on the stack.
fn state(
    ty: QpType,
    cap: QpCap,
    sq_ring: Option<Arc<Ring>>,
    recvs: RecvQueue,
) -> impl Init<State, Error> {
    let slots = send::slots(cap.max_send_wr);
    let resources = match ty {
        QpType::Rc => MAX_RD_ATOMIC as usize,
        _ => 1,
    };
    try_init!(State {
        machine: machine::Qp::new(
            machine_type(ty),
            BulkVec::from_elem(SendEntry::default(), slots, GFP_KERNEL_ACCOUNT)?,
            BulkVec::from_elem(Resource::default(), resources, GFP_KERNEL_ACCOUNT)?,
        ),
        sends: SendQueue::new(ty, &cap, slots, sq_ring.map(Consumer::new))?,
        recvs,
        entry: RecvEntry::new(),
        absence: Absence::new(),
        events: Events::default(),
        unanswered: 0,
        withheld: Withheld::new(slots)?,
        transmitter: Some(Transmitter::new()?),
        is_far: false,
        in_convoy: false,
        halted: false,
        course: Course::default(),
        attr: attributes(cap),
        alarm: None,
        idle: 0,
        is_managed: false,
        is_lent: false,
    }? Error)
}

/// The attributes of a queue pair in RESET.
fn attributes(cap: QpCap) -> QpAttr {
    QpAttr {
        cap,
        ..QpAttr::default()
    }
}

/// The sizes that a queue pair gets, from what was asked for.
fn check(asked: &QpCap, shared: bool) -> Result<QpCap> {
    let mut cap = *asked;
    if shared {
        cap.max_recv_wr = 0;
        cap.max_recv_sge = 0;
    } else {
        cap.max_recv_wr = cap.max_recv_wr.max(1);
        cap.max_recv_sge = cap.max_recv_sge.max(1);
    }
    cap.max_send_wr = cap.max_send_wr.max(1);
    cap.max_send_sge = cap.max_send_sge.max(1);
    let max_sge = MAX_SGE as u32;
    if cap.max_send_wr > MAX_QP_WR
        || cap.max_recv_wr > MAX_QP_WR
        || cap.max_send_sge > max_sge
        || cap.max_recv_sge > max_sge
        || cap.max_inline_data > MAX_INLINE as u32
    {
        return Err(EINVAL);
    }
    Ok(cap)
}

/// Enters a queue pair into the tables of its device, and gives it its number.
fn enter(cx: &mut Cx<'_, Unlocked>, hca: &Hca, qp: Held<Qp>) -> Result<u32> {
    if matches!(qp.ty, QpType::Smi | QpType::Gsi) {
        let qpn = if matches!(qp.ty, QpType::Smi) {
            SMI_QPN
        } else {
            GSI_QPN
        };
        qp.qpn.store(qpn, Relaxed);
        let port = usize::from(qp.port().get());
        let mut state = cx.lock(&hca.state);
        let slot = state
            .special
            .get_mut(port.wrapping_sub(1))
            .and_then(|pair| pair.get_mut(qpn as usize))
            .ok_or(EINVAL)?;
        if slot.is_some() {
            return Err(EBUSY);
        }
        *slot = Some(qp);
        return Ok(qpn);
    }
    let mut qp = qp;
    loop {
        let wanted = {
            let mut state = cx.lock(&hca.state);
            match state.qps.insert(random::u32(), qp) {
                Ok(qpn) if RESERVED.contains(&qpn) => match state.qps.remove(qpn) {
                    Some(back) => {
                        qp = back;
                        continue;
                    }
                    None => return Err(EINVAL),
                },
                Ok(qpn) => {
                    if let Some(qp) = state.qps.get(qpn) {
                        qp.qpn.store(qpn, Relaxed);
                    }
                    return Ok(qpn);
                }
                Err(back) => qp = back,
            }
            state.qps.wanted()?
        };
        let storage = Table::<_, QpnLayout>::allocate(wanted)?;
        let old = cx.lock(&hca.state).qps.grow(storage);
        drop(old);
    }
}

/// Removes a queue pair: nothing finds it any more, its work requests are forgotten, and when this
/// returns nobody works on it. It is in no multicast group: before, ib_core has ended all memberships, or refused.
pub(crate) fn destroy(cx: &mut Cx<'_, Unlocked>, sleepable: Sleepable<'_>, qp: &Tracked<Qp>) {
    let found = {
        let mut state = cx.lock(&qp.hca.state);
        if matches!(qp.ty, QpType::Smi | QpType::Gsi) {
            state
                .special
                .get_mut(usize::from(qp.port().get()).wrapping_sub(1))
                .and_then(|pair| pair.get_mut(qp.qpn() as usize))
                .and_then(Option::take)
        } else {
            state.qps.remove(qp.qpn())
        }
    };
    drop(found);
    drop(take_leave(cx, sleepable, qp, |state, cx| {
        reset(state, cx, qp)
    }));
    qp.timer.shutdown(cx, sleepable);
    qp.work.cancel(cx, sleepable);
    qp.memory.cancel(cx, sleepable);
    qp.close(cx, sleepable);
    let absence = {
        let mut guard = cx.lock(&qp.state);
        let (state, cx) = guard.split();
        reset(state, cx, qp)
    };
    drop(absence);
    for cq in [&qp.send_cq, &qp.recv_cq] {
        cq.purge(cx.reborrow(), qp);
    }
    // The work item that was to tell what was completed last may have been cancelled. Completions of a client in the
    // kernel are gone, and it is not to be called from within its own call.
    if qp.user {
        qp.tell(cx, sleepable.irqs_on(), Events::default());
    }
}

/// Puts the machine back to RESET, and forgets all work. What is returned may let go of much when it is dropped, which
/// is to be done without the lock.
pub(super) fn reset(state: &mut State, cx: Cx<'_, QpLock, Off>, qp: &Qp) -> Absence {
    let config = QpConfig {
        srq: qp.srq.is_some(),
        ..QpConfig::default()
    };
    // Every state has a way to RESET, so there is no error to handle.
    let _ = state.with_machine(qp, cx, Source::Bytes(&[]), |machine, env| {
        let now = crate::fabric::now();
        machine.modify(now, QpState::Reset, AttrMask::STATE, &config, env)
    });
    state.attr = attributes(qp.cap);
    state.is_managed = false;
    state.is_lent = false;
    qp.port.store(u32::from(qp.port().get()), Relaxed);
    state.forget()
}

impl State {
    /// Forgets what the machine forgets at a reset, and returns what waited.
    pub(super) fn forget(&mut self) -> Absence {
        self.sends.clear();
        self.recvs.clear();
        self.withheld.clear();
        self.events.failed = false;
        self.in_convoy = false;
        self.idle = 0;
        core::mem::replace(&mut self.absence, Absence::new())
    }
}
