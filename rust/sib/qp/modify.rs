// SPDX-License-Identifier: GPL-2.0

//! Attributes and states of queue pairs.
//!
//! The attributes of ib_core refer to tables of the port; the machine works with what they refer
//! to. Which attributes go with which transition is the machine's to check.

use super::{
    create::reset,
    env::forget_alternate,
    fail::flush_out,
    follow::follow,
    leave::{
        settle_drained,
        take_leave, //
    },
    Qp,
    State, //
};
use crate::{
    ah,
    fabric::Passage,
    params,
    payload::Source,
    query, //
};
use kernel::prelude::*;
use proto::{
    time::Duration,
    transport::{
        AccessFlags,
        Alternate,
        AttrMask,
        MigState,
        ModifyError,
        PathAv,
        QpConfig,
        QpState, //
    }, //
};
use rdma::{
    cm::QpPeer,
    ib::{
        self,
        QpAttr,
        QpAttrMask,
        QpType, //
    },
    sync::{
        Cx,
        Off,
        QpLock,
        Sleepable,
        Tracked,
        Unlocked, //
    }, //
};
use wire::{
    Lid,
    Mtu,
    PKey,
    PortNum,
    Psn,
    QKey,
    Qpn, //
};

/// The shortest ACK timeout in effect. A peer on the same host answers within microseconds, unless
/// its processor is busy; and nothing is ever lost on the way to it.
const ACK_TIMEOUT_FLOOR: Duration = Duration::from_nanos(20_000_000);

/// How soon an answer that is overdue is asked for again where packets travel over UDP, which loses some.
const REMINDER_FLOOR: Duration = Duration::from_nanos(1_000_000);

/// Packets that may be under way without acknowledgement, whatever the path MTU.
const MAX_UNACKED: u32 = 256;

/// Highest values of attributes that have fewer bits than their field.
const MAX_TIMEOUT: u8 = 31;
const MAX_RNR_TIMER: u8 = 31;
const MAX_RETRIES: u8 = 7;
const MAX_24_BITS: u32 = 0xff_ffff;

/// The machine's name of a state.
fn state_of(state: ib::QpState) -> QpState {
    match state {
        ib::QpState::Reset => QpState::Reset,
        ib::QpState::Init => QpState::Init,
        ib::QpState::Rtr => QpState::Rtr,
        ib::QpState::Rts => QpState::Rts,
        ib::QpState::Sqd => QpState::Sqd,
        ib::QpState::Sqe => QpState::Sqe,
        ib::QpState::Err => QpState::Err,
    }
}

/// ib_core's name of a state.
fn state_name(state: QpState) -> ib::QpState {
    match state {
        QpState::Reset => ib::QpState::Reset,
        QpState::Init => ib::QpState::Init,
        QpState::Rtr => ib::QpState::Rtr,
        QpState::Rts => ib::QpState::Rts,
        QpState::Sqd => ib::QpState::Sqd,
        QpState::Sqe => ib::QpState::Sqe,
        QpState::Err => ib::QpState::Err,
    }
}

/// Who changes a queue pair.
#[derive(Clone, Copy)]
enum Author {
    /// Whom it belongs to.
    Owner,
    /// The connection manager, which takes it to be connected to this.
    Manager(QpPeer),
}

/// Whether who names these attributes manages paths himself.
fn manages(mask: QpAttrMask) -> bool {
    mask.contains(QpAttrMask::ALT_PATH) || mask.contains(QpAttrMask::PATH_MIG_STATE)
}

/// Whether every attribute that `mask` names is within its range (IBA "Modify Queue Pair").
fn in_range(attr: &QpAttr, mask: QpAttrMask, ports: u8) -> bool {
    let has = |flag| mask.contains(flag);
    let port = |port: u32| (1..=u32::from(ports)).contains(&port);
    !(has(QpAttrMask::PORT) && !port(attr.port)
        || has(QpAttrMask::ALT_PATH)
            && (!port(attr.alt_port)
                || attr.alt_ah.port != attr.alt_port
                || attr.alt_timeout > MAX_TIMEOUT)
        || has(QpAttrMask::TIMEOUT) && attr.timeout > MAX_TIMEOUT
        || has(QpAttrMask::RETRY_CNT) && attr.retry_cnt > MAX_RETRIES
        || has(QpAttrMask::RNR_RETRY) && attr.rnr_retry > MAX_RETRIES
        || has(QpAttrMask::MIN_RNR_TIMER) && attr.min_rnr_timer > MAX_RNR_TIMER
        || has(QpAttrMask::DEST_QPN) && attr.dest_qpn > MAX_24_BITS
        || has(QpAttrMask::MAX_RD_ATOMIC) && u32::from(attr.max_rd_atomic) > query::MAX_RD_ATOMIC
        || has(QpAttrMask::MAX_DEST_RD_ATOMIC)
            && u32::from(attr.max_dest_rd_atomic) > query::MAX_RD_ATOMIC)
}

/// What the tables of the port say about the attributes, looked up before the queue pair is locked.
struct Resolved {
    path: Option<PathAv>,
    /// Whether packets on that way may be lost.
    lossy: bool,
    pkey: Option<PKey>,
    alternate: Option<Alternate>,
}

impl Resolved {
    fn new(cx: &mut Cx<'_, Unlocked>, qp: &Qp, attr: &QpAttr, mask: QpAttrMask) -> Result<Self> {
        let port = if mask.contains(QpAttrMask::PORT) {
            attr.port
        } else {
            u32::from(qp.port().get())
        };
        let path = if mask.contains(QpAttrMask::AV) {
            // The index of the source GID refers to the table of that port.
            if attr.ah.port != port {
                return Err(EINVAL);
            }
            if matches!(qp.ty, QpType::Rc | QpType::Uc) && !Lid::new(attr.ah.dlid).is_unicast() {
                return Err(EINVAL);
            }
            Some(ah::resolve(cx, &qp.hca, &attr.ah)?)
        } else if mask.contains(QpAttrMask::PORT) {
            moved(cx, qp, port)?
        } else {
            None
        };
        let pkey = if mask.contains(QpAttrMask::PKEY_INDEX) {
            let port = PortNum::new(port as u8);
            Some(query::pkey(cx, &qp.hca, port, attr.pkey_index)?)
        } else {
            None
        };
        let lossy = path.is_some_and(|path| is_lossy(cx, qp, PortNum::new(port as u8), &path));
        let alternate = if mask.contains(QpAttrMask::ALT_PATH) {
            Some(alternate(cx, qp, attr)?)
        } else {
            None
        };
        Ok(Self {
            path,
            lossy,
            pkey,
            alternate,
        })
    }
}

/// The way that a queue pair has already, from another port: the index of the source GID refers to the table of that.
fn moved(cx: &mut Cx<'_, Unlocked>, qp: &Qp, port: u32) -> Result<Option<PathAv>> {
    let mut address = cx.lock(&qp.state).attr.ah;
    if address.port == 0 {
        return Ok(None);
    }
    address.port = port;
    ah::resolve(cx, &qp.hca, &address).map(Some)
}

/// Whether packets on a way may be lost.
fn is_lossy(cx: &mut Cx<'_, Unlocked>, qp: &Qp, port: PortNum, path: &PathAv) -> bool {
    qp.hca.passage(cx, port, path.dlid) != Passage::Whole
}

/// How soon an answer is asked for again.
fn reminder_floor(lossy: bool) -> Duration {
    if lossy {
        REMINDER_FLOOR
    } else {
        Duration::ZERO
    }
}

/// The alternate path of the attributes.
fn alternate(cx: &mut Cx<'_, Unlocked>, qp: &Qp, attr: &QpAttr) -> Result<Alternate> {
    if !Lid::new(attr.alt_ah.dlid).is_unicast() {
        return Err(EINVAL);
    }
    let port = PortNum::new(attr.alt_port as u8);
    let path = ah::resolve(cx, &qp.hca, &attr.alt_ah)?;
    Ok(Alternate {
        path,
        port,
        pkey: query::pkey(cx, &qp.hca, port, attr.alt_pkey_index)?,
        pkey_index: attr.alt_pkey_index,
        timeout: attr.alt_timeout,
        reminder_floor: reminder_floor(is_lossy(cx, qp, port, &path)),
    })
}

/// The machine's name of a state of migration.
fn mig_state_of(state: ib::MigState) -> MigState {
    match state {
        ib::MigState::Migrated => MigState::Migrated,
        ib::MigState::Rearm => MigState::Rearm,
        ib::MigState::Armed => MigState::Armed,
    }
}

/// ib_core's name of a state of migration.
pub(super) fn mig_state_name(state: MigState) -> ib::MigState {
    match state {
        MigState::Migrated => ib::MigState::Migrated,
        MigState::Rearm => ib::MigState::Rearm,
        MigState::Armed => ib::MigState::Armed,
    }
}

/// Takes over the attributes that `mask` names.
fn apply(config: &mut QpConfig, attr: &QpAttr, mask: QpAttrMask, resolved: &Resolved) {
    let has = |flag| mask.contains(flag);
    if let Some(path) = resolved.path {
        config.path = path;
        config.reminder_floor = reminder_floor(resolved.lossy);
    }
    if let Some(pkey) = resolved.pkey {
        config.pkey = pkey;
        config.pkey_index = attr.pkey_index;
    }
    if has(QpAttrMask::PORT) {
        config.port = PortNum::new(attr.port as u8);
    }
    if resolved.alternate.is_some() {
        config.alternate = resolved.alternate;
    }
    if has(QpAttrMask::PATH_MIG_STATE) {
        config.mig_state = mig_state_of(attr.mig_state);
    }
    if has(QpAttrMask::QKEY) {
        config.qkey = QKey::new(attr.qkey);
    }
    if has(QpAttrMask::PATH_MTU) {
        config.mtu = Mtu::from_code(attr.path_mtu.raw() as u8).unwrap_or_default();
    }
    if has(QpAttrMask::DEST_QPN) {
        config.dest_qpn = Qpn::new(attr.dest_qpn);
    }
    if has(QpAttrMask::SQ_PSN) {
        config.sq_psn = Psn::new(attr.sq_psn);
    }
    if has(QpAttrMask::RQ_PSN) {
        config.rq_psn = Psn::new(attr.rq_psn);
    }
    if has(QpAttrMask::TIMEOUT) {
        config.timeout = attr.timeout;
    }
    if has(QpAttrMask::RETRY_CNT) {
        config.retry_cnt = attr.retry_cnt;
    }
    if has(QpAttrMask::RNR_RETRY) {
        config.rnr_retry = attr.rnr_retry;
    }
    if has(QpAttrMask::MIN_RNR_TIMER) {
        config.min_rnr_timer = attr.min_rnr_timer;
    }
    if has(QpAttrMask::MAX_RD_ATOMIC) {
        config.max_rd_atomic = attr.max_rd_atomic;
    }
    if has(QpAttrMask::MAX_DEST_RD_ATOMIC) {
        config.max_dest_rd_atomic = attr.max_dest_rd_atomic;
    }
    if has(QpAttrMask::EN_SQD_ASYNC_NOTIFY) {
        config.notify_drained = attr.sqd_async_notify;
    }
    if has(QpAttrMask::ACCESS_FLAGS) {
        config.access = AccessFlags {
            remote_write: attr.access.contains(ib::AccessFlags::REMOTE_WRITE),
            remote_read: attr.access.contains(ib::AccessFlags::REMOTE_READ),
            remote_atomic: attr.access.contains(ib::AccessFlags::REMOTE_ATOMIC),
            flush_global: attr.access.contains(ib::AccessFlags::FLUSH_GLOBAL),
            flush_persistent: attr.access.contains(ib::AccessFlags::FLUSH_PERSISTENT),
        };
    }
}

/// Keeps what `query_qp` answers and the machine does not.
fn remember(kept: &mut QpAttr, attr: &QpAttr, mask: QpAttrMask) {
    let has = |flag| mask.contains(flag);
    if has(QpAttrMask::PORT) {
        kept.port = attr.port;
        if kept.ah.port != 0 {
            kept.ah.port = attr.port;
        }
    }
    if has(QpAttrMask::AV) {
        kept.ah = attr.ah;
    }
    if has(QpAttrMask::ACCESS_FLAGS) {
        kept.access = attr.access;
    }
    if has(QpAttrMask::PATH_MTU) {
        kept.path_mtu = attr.path_mtu;
    }
    if has(QpAttrMask::ALT_PATH) {
        kept.alt_ah = attr.alt_ah;
        kept.alt_port = attr.alt_port;
        kept.alt_pkey_index = attr.alt_pkey_index;
        kept.alt_timeout = attr.alt_timeout;
    }
}

/// Changes attributes, and the state.
///
/// # Errors
///
/// `EINVAL` for a transition that the IBA does not have, or attributes that do not go with it or are out of range, as more
/// outstanding operations than the device has; `EBUSY` while a send queue drains, or if very much work is posted to one in
/// error at the same time; `EIO` for a program whose device goes.
pub(crate) fn modify(
    cx: &mut Cx<'_, Unlocked>,
    sleepable: Sleepable<'_>,
    qp: &Tracked<Qp>,
    attr: &QpAttr,
    mask: QpAttrMask,
) -> Result {
    if mask.unknown() != 0 || mask.contains(QpAttrMask::CAP) {
        return Err(EINVAL);
    }
    if !in_range(attr, mask, qp.hca.ports()) {
        return Err(EINVAL);
    }
    if mask.contains(QpAttrMask::STATE) && matches!(attr.state, ib::QpState::Reset) {
        if mask != QpAttrMask::STATE {
            return Err(EINVAL);
        }
        drop(take_leave(cx, sleepable, qp, |state, cx| {
            reset(state, cx, qp)
        }));
        for cq in [&qp.send_cq, &qp.recv_cq] {
            cq.purge(cx.reborrow(), qp);
        }
        return Ok(());
    }
    let resolved = Resolved::new(cx, qp, attr, mask)?;
    // A send queue in error is not to work again before it is flushed.
    if mask.contains(QpAttrMask::STATE) && matches!(attr.state, ib::QpState::Rts) {
        if let Some(qp) = qp.hold() {
            flush_out(cx, sleepable, &qp);
        }
    }
    let change = |state: &mut State, cx: Cx<'_, QpLock, Off>| {
        change(state, cx, qp, attr, mask, &resolved, Author::Owner)
    };
    let changed = if mask.contains(QpAttrMask::STATE) && matches!(attr.state, ib::QpState::Err) {
        take_leave(cx, sleepable, qp, change)
    } else {
        let mut guard = cx.lock(&qp.state);
        let (state, cx) = guard.split();
        change(state, cx)
    };
    if mask.contains(QpAttrMask::STATE) && matches!(attr.state, ib::QpState::Sqd) {
        settle_drained(cx, sleepable, qp);
    }
    // The index refers to the table of the port.
    let names_entries = [
        QpAttrMask::PKEY_INDEX,
        QpAttrMask::PORT,
        QpAttrMask::AV,
        QpAttrMask::ALT_PATH,
    ];
    if changed.is_ok() && names_entries.into_iter().any(|attr| mask.contains(attr)) {
        follow(cx, qp);
    }
    // What the change leads to, completions of flushed work first of all, is told by a worker: clients are
    // not to be called from within their own call. One that was refused may have kept work from leaving.
    if let Some(qp) = qp.hold() {
        Qp::schedule(qp);
    }
    changed
}

/// What a queue pair is connected to.
pub(super) fn peer(config: &QpConfig) -> QpPeer {
    QpPeer {
        qpn: config.dest_qpn.get(),
        lid: config.path.dlid.get(),
    }
}

/// Changes the alternate path and the state of migration of a queue pair that is somebody else's, and connected to
/// `peer`.
///
/// # Errors
///
/// As [`modify`], and `EPERM` if its owner manages these, or it is connected to another one: what a program tells its
/// peer need not be so.
pub(super) fn modify_paths(
    cx: &mut Cx<'_, Unlocked>,
    qp: &Qp,
    peer: QpPeer,
    attr: &QpAttr,
    mask: QpAttrMask,
) -> Result {
    if !in_range(attr, mask, qp.hca.ports()) {
        return Err(EINVAL);
    }
    let resolved = Resolved::new(cx, qp, attr, mask)?;
    {
        let mut guard = cx.lock(&qp.state);
        let (state, cx) = guard.split();
        change(state, cx, qp, attr, mask, &resolved, Author::Manager(peer))?;
    }
    follow(cx, qp);
    Ok(())
}

/// Has the machine take over the attributes.
fn change(
    state: &mut State,
    cx: Cx<'_, QpLock, Off>,
    qp: &Qp,
    attr: &QpAttr,
    mask: QpAttrMask,
    resolved: &Resolved,
    author: Author,
) -> Result {
    if let Author::Manager(known) = author {
        if state.is_managed || known != peer(state.machine.config()) {
            return Err(EPERM);
        }
    }
    let from = state.machine.state();
    // Nobody would flush its work: see `flush_users`, which looks at queue pairs with this lock held.
    if from == QpState::Reset && qp.user && qp.hca.is_ending() {
        return Err(EIO);
    }
    if mask.contains(QpAttrMask::CUR_STATE) && state_of(attr.cur_state) != from {
        return Err(EINVAL);
    }
    let to = if mask.contains(QpAttrMask::STATE) {
        state_of(attr.state)
    } else {
        from
    };
    if matches!(author, Author::Owner) && mask.contains(QpAttrMask::ALT_PATH) && state.is_lent {
        take_back(state, qp);
    }
    let mut config = *state.machine.config();
    config.qpn = Qpn::new(qp.qpn());
    config.srq = qp.srq.is_some();
    config.timeout_floor = ACK_TIMEOUT_FLOOR;
    config.max_unacked = MAX_UNACKED;
    config.follow_unarmed = params::apm_follow();
    config.pardon_late = params::apm_pardon();
    config.probes = params::apm_probe();
    apply(&mut config, attr, mask, resolved);
    // A migration that this leads to looks at them.
    let before = state.attr.clone();
    remember(&mut state.attr, attr, mask);
    let now = crate::fabric::now();
    let changed = state.with_machine(qp, cx, Source::Bytes(&[]), |machine, env| {
        machine.modify(now, to, AttrMask::from_bits(mask.bits()), &config, env)
    });
    if let Err(error) = changed {
        state.attr = before;
        return Err(errno(error));
    }
    if from == QpState::Reset {
        qp.since.renew(&qp.hca.breaks);
    }
    match author {
        Author::Owner => state.is_managed |= manages(mask),
        Author::Manager(_) => state.is_lent = true,
    }
    if mask.contains(QpAttrMask::PORT) || mask.contains(QpAttrMask::ALT_PATH) {
        qp.set_ports(state.machine.config());
    }
    qp.watch(state);
    Ok(())
}

/// Takes back the path that the manager has loaded, since its owner, who knows nothing of that, names one of his own. He
/// manages paths from now on, even if this one is refused.
fn take_back(state: &mut State, qp: &Qp) {
    state.machine.unload();
    forget_alternate(&mut state.attr);
    qp.set_ports(state.machine.config());
    state.is_lent = false;
    state.is_managed = true;
}

fn errno(error: ModifyError) -> Error {
    match error {
        ModifyError::Transition(_) | ModifyError::Migration | ModifyError::Resources => EINVAL,
        ModifyError::Draining => EBUSY,
    }
}

/// The attributes, and whether all sends are signalled.
pub(crate) fn query(cx: &mut Cx<'_, Unlocked>, qp: &Qp) -> (QpAttr, bool) {
    let state = cx.lock(&qp.state);
    (attributes(&state, qp), qp.sig_all)
}

fn attributes(state: &State, qp: &Qp) -> QpAttr {
    let config = state.machine.config();
    let name = state_name(state.machine.state());
    QpAttr {
        state: name,
        cur_state: name,
        mig_state: mig_state_name(config.mig_state),
        qkey: config.qkey.get(),
        rq_psn: state.machine.rq_psn().get(),
        sq_psn: state.machine.sq_psn().get(),
        dest_qpn: config.dest_qpn.get(),
        cap: qp.cap,
        pkey_index: config.pkey_index,
        sqd_async_notify: config.notify_drained,
        sq_draining: state.machine.is_draining(),
        max_rd_atomic: config.max_rd_atomic,
        max_dest_rd_atomic: config.max_dest_rd_atomic,
        min_rnr_timer: config.min_rnr_timer,
        port: u32::from(qp.port().get()),
        timeout: config.timeout,
        retry_cnt: config.retry_cnt,
        rnr_retry: config.rnr_retry,
        ..state.attr.clone()
    }
}
