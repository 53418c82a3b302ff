// SPDX-License-Identifier: GPL-2.0

//! Work requests on their way into a queue pair.

use super::{
    send::{
        self,
        Fetched,
        Local, //
    },
    Qp,
    State, //
};
use crate::{
    convoy::{
        Convoy,
        Freight, //
    },
    driver::Sib,
    fabric,
    pace::Load,
    payload::MAX_INLINE,
    query,
    relief::Relief,
    run::RunQueue, //
};
use kernel::prelude::*;
use proto::time::{
    Duration,
    Instant, //
};
use proto::transport::{
    PostError,
    QpState,
    SendWqe,
    WcStatus, //
};
use rdma::{
    ib::{
        abi::{
            UserData,
            UserSend, //
        },
        KernelData,
        LocalSge,
        QpType,
        RecvWr,
        SendOp,
        SendWr, //
    },
    sync::{
        Cx,
        Held,
        IrqsOn,
        Off,
        QpLock,
        Sleepable,
        Tracked,
        Unlocked, //
    },
    trace, //
};

/// How long a doorbell waits for who answers the peer: somewhat longer than an acknowledgement takes.
const MAX_WAIT: Duration = Duration::from_nanos(100_000);

/// Who has posted so many messages since the last answer, and posts one more, does not wait for any of them.
const PATIENCE: u32 = 8;

/// So many work requests are fetched at once, with interrupts off.
const FETCH_BATCH: u32 = 256;

/// A longer message takes longer to copy than to send.
const MAX_SHORT: u32 = 4096;

/// What has come of a doorbell so far.
#[derive(Default)]
struct Doorbell {
    visit: Option<Visit>,
    /// Whether there may be more to fetch.
    more: bool,
}

/// A doorbell for messages that another processor may send.
struct Visit {
    /// When it was rung.
    from: Instant,
    /// One message of this kind was sent at once, and by this processor.
    sent: Option<Load>,
    /// What was not sent at once.
    left_over: Option<Freight>,
}

/// What was fetched.
#[derive(Clone, Copy, Default)]
struct Brought {
    /// Bytes of the longest message.
    longest: u32,
    /// Whether one has more of an answer than an acknowledgement.
    fetches: bool,
}

impl Brought {
    /// The same and another one.
    fn with(self, wqe: &SendWqe) -> Self {
        Self {
            longest: self.longest.max(wqe.length),
            fetches: self.fetches | wqe.op.is_fetch(),
        }
    }
}

/// A user has put work requests into the ring of the send queue: fetches them, and transmits in the
/// task of the user, or leaves that to the [`Convoy`] or to [another processor](Relief): see [`crate::pace`].
///
/// # Errors
///
/// `EINVAL` if the queue pair does not take work requests in its state; they are gone then.
pub(crate) fn doorbell(
    cx: &mut Cx<'_, Unlocked>,
    sleepable: Sleepable<'_>,
    qp: &Tracked<Qp>,
) -> Result {
    let irqs = sleepable.irqs_on();
    let qp = qp.hold().ok_or(EINVAL)?;
    let mut bell = Doorbell::default();
    let mut patient = matches!(qp.ty, QpType::Rc);
    loop {
        let early = RunQueue::in_task(cx, irqs, |cx, irqs, run| {
            ring(cx, irqs, run, &qp, patient, &mut bell)
        })?;
        if !early {
            break;
        }
        await_answer(cx, &qp);
        patient = false;
    }
    if let Some(visit) = bell.visit {
        qp.pd.pace.leave(visit.from, fabric::now(), visit.sent);
    }
    Ok(())
}

/// Fetches what a doorbell has brought, and sends it or leaves that to others. Returns whether there is more, and who
/// answers the peer is to be waited for before, for somebody who is `patient`.
fn ring(
    cx: &mut Cx<'_, Unlocked>,
    irqs: IrqsOn<'_>,
    run: &mut RunQueue,
    qp: &Held<Qp>,
    patient: bool,
    bell: &mut Doorbell,
) -> Result<bool> {
    // What is posted meanwhile has doorbells of its own.
    for _ in 0..qp.cap.max_send_wr.div_ceil(FETCH_BATCH) {
        let mut early = false;
        Qp::transmit_after(qp, cx, irqs, run, |state, cx| {
            early = patient && state.is_answered() && state.only_answers();
            if early {
                return Ok(false);
            }
            take_in(state, cx, qp, bell)
        })?;
        if early {
            return Ok(true);
        }
        if !bell.more {
            break;
        }
    }
    if let Some(Visit {
        from,
        left_over: Some(freight),
        ..
    }) = bell.visit
    {
        let patience = qp.pd.pace.patience(from);
        Convoy::join(cx, irqs, run, qp, freight, &patience);
    }
    Ok(false)
}

/// Waits until who answers the peer has done so, for a short time.
///
/// A program that has got a message answers it while that is being acknowledged. If its peer is in the same
/// kernel, the processor of that is the one that acknowledges. It would find the answer, send it and have it received, so
/// that one processor works for both programs, and each waits for all that.
fn await_answer(cx: &mut Cx<'_, Unlocked>, qp: &Qp) {
    let limit = fabric::now().after(MAX_WAIT);
    while cx.lock(&qp.state).only_answers() && fabric::now() < limit {
        core::hint::spin_loop();
    }
}

/// Fetches what a doorbell has brought, or a part of that. Returns whether it is sent at once.
#[inline]
fn take_in(
    state: &mut State,
    cx: &mut Cx<'_, QpLock, Off>,
    qp: &Held<Qp>,
    bell: &mut Doorbell,
) -> Result<bool> {
    let before = state.machine.backlog();
    let Brought { longest, fetches } = fetch(state, cx, qp, &mut bell.more)?;
    let waiting = state.machine.backlog();
    let is_datagram = matches!(qp.ty, QpType::Ud);
    let may_wait = is_datagram || matches!(qp.ty, QpType::Rc);
    let is_sending = may_wait && matches!(state.machine.state(), QpState::Rts);
    // One that brings nothing says nothing about who rings it.
    if !is_sending || waiting == before {
        return Ok(true);
    }
    let brought = waiting.wrapping_sub(before);
    if !state.is_far {
        // A part before that was left to the convoy, for a peer elsewhere, may not get there any more.
        state.in_convoy = false;
        return Ok(is_datagram || stays(state, cx, qp, (brought, longest), &mut bell.visit));
    }
    let now = fabric::now();
    let is_single = is_datagram || state.machine.config().mtu.packets(longest) <= 1;
    let load = if is_single { Load::Single } else { Load::Bulk };
    let is_busy = state.is_busy();
    if is_busy && load == Load::Bulk {
        state.in_convoy = false;
        return Ok(true);
    }
    let unanswered = state.unanswered;
    state.unanswered = unanswered.saturating_add(brought);
    let waits = match is_datagram {
        true => unanswered < PATIENCE,
        // Who leaves completions unseen does not wait for them.
        false => {
            unanswered == 0 && (load == Load::Single || !qp.send_cq.has_pending(cx.reborrow()))
        }
    };
    let hurried = !waits && qp.pd.pace.is_hurried(now, load);
    if hurried && load == Load::Bulk {
        state.course.offer();
    }
    let at_once = !hurried || load == Load::Bulk;
    if !at_once {
        Relief::note(now);
    }
    state.in_convoy = !at_once;
    let by_itself = !is_busy && waiting == 1 && state.course.of_requests().is_none();
    bell.visit = Some(Visit {
        from: now,
        sent: (!hurried && by_itself).then_some(load),
        left_over: (!at_once).then_some(Freight {
            messages: brought,
            portable: !is_datagram && !fetches,
        }),
    });
    Ok(at_once)
}

/// Whether this processor transmits what has been brought for a peer in this host: so many messages, the longest of so
/// many bytes.
fn stays(
    state: &mut State,
    cx: &mut Cx<'_, QpLock, Off>,
    qp: &Held<Qp>,
    (brought, longest): (u32, u32),
    visit: &mut Option<Visit>,
) -> bool {
    let unanswered = state.unanswered;
    state.unanswered = unanswered.saturating_add(brought);
    if unanswered < PATIENCE || longest > MAX_SHORT {
        return true;
    }
    let now = fabric::now();
    Relief::note(now);
    if state.is_busy() {
        return true;
    }
    let hurried = qp.pd.pace.is_hurried(now, Load::Near);
    *visit = Some(Visit {
        from: now,
        sent: (!hurried).then_some(Load::Near),
        left_over: None,
    });
    let taken_over = hurried && Relief::share(cx, qp, now);
    if taken_over {
        qp.pd.pace.fade(Load::Near);
    }
    !taken_over
}

/// Moves work requests from the ring of the user to the machine, which has room for all of them, but at most
/// [`FETCH_BATCH`]: otherwise there may be `more`.
fn fetch(
    state: &mut State,
    cx: &mut Cx<'_, QpLock, Off>,
    qp: &Qp,
    more: &mut bool,
) -> Result<Brought> {
    let mut fetched = state.sends.room().ok_or(EINVAL)?;
    let mut result = Ok(Brought::default());
    *more = true;
    for _ in 0..FETCH_BATCH {
        let Ok(brought) = result else {
            break;
        };
        if state.machine.send_space() == 0 || !state.sends.fetch(&mut fetched) {
            *more = false;
            break;
        }
        result = push_user(state, cx, qp, &fetched, brought);
    }
    state.sends.give_back(fetched);
    if result.is_err() {
        state.sends.clear();
    }
    result
}

/// Gives one work request of a user to the machine, and adds it to what was brought.
fn push_user(
    state: &mut State,
    cx: &mut Cx<'_, QpLock, Off>,
    qp: &Qp,
    fetched: &Fetched,
    brought: Brought,
) -> Result<Brought> {
    let (mut wqe, request) = state.sends.decode(fetched);
    wqe.flags.signaled |= qp.sig_all;
    if let Some(request) = &request {
        match length(request) {
            Some(length) => wqe.length = length,
            None => wqe.fault = Some(WcStatus::LocLenErr),
        }
        if let SendOp::Send { to: Some(to), .. } = &request.op {
            let av = qp
                .pd
                .ah(cx.reborrow(), to.ah)
                .map(|ah| ah.av(cx.reborrow()));
            match (av, &mut wqe.ud) {
                (Some(av), Some(ud)) => ud.av = av,
                _ => wqe.fault = Some(WcStatus::LocQpOpErr),
            }
        }
    }
    let slot = state.machine.post_send(wqe).map_err(errno)?;
    trace::post(qp.qpn(), wqe.wr_id, wqe.length);
    match &request {
        Some(request) => match Local::of(&request.op) {
            Some(local) => state.sends.store_local(slot, local),
            None => state.sends.store_user(slot, &request.data),
        },
        None => state.sends.store_list(slot, &[]),
    }
    Ok(brought.with(&wqe))
}

/// Bytes of a message, or to flush; `None` for more than a message may have.
fn length(request: &UserSend<'_>) -> Option<u32> {
    match (&request.op, &request.data) {
        (SendOp::Flush { length, .. }, _) => Some(*length),
        (_, UserData::Inline(bytes)) => u32::try_from(bytes.len()).ok(),
        (_, UserData::Gather(list)) => list.length().filter(|len| *len <= send::MAX_MESSAGE),
    }
}

/// Takes a work request of a kernel client. It is carried out by a worker, once [`posted`] is
/// called: the client may hold locks and have interrupts off.
///
/// # Errors
///
/// `EINVAL` for what the queue pair cannot do, in its state or at all; `ENOMEM` if the queue is
/// full.
pub(crate) fn post_send(cx: &mut Cx<'_, Unlocked>, qp: &Qp, wr: &SendWr<'_, Sib>) -> Result {
    let mut wqe = send::translate(wr.wr_id, wr.flags, &wr.op);
    if matches!(wr.op, SendOp::RegMr { mr, key, .. } if !mr.is_named_by(key)) {
        return Err(EINVAL);
    }
    wqe.flags.signaled |= qp.sig_all;
    address(cx, qp, wr, &mut wqe)?;
    let mut room = [0; MAX_INLINE];
    let (inline, entries): (&[u8], usize) = match &wr.data {
        KernelData::Inline(data) => {
            let bytes = data.copy_to(&mut room)?;
            wqe.length = bytes.len() as u32;
            (bytes, data.entries())
        }
        KernelData::Gather(list) => {
            wqe.length = sum(list)?;
            (&[], list.len())
        }
    };
    let mut state = cx.lock(&qp.state);
    if inline.len() > state.sends.max_inline() || entries > state.sends.max_sge() {
        return Err(EINVAL);
    }
    let slot = state.machine.post_send(wqe).map_err(errno)?;
    trace::post(qp.qpn(), wqe.wr_id, wqe.length);
    match (Local::of(&wr.op), &wr.data) {
        (Some(local), _) => state.sends.store_local(slot, local),
        (None, KernelData::Inline(_)) => state.sends.store_inline(slot, inline),
        (None, KernelData::Gather(list)) => state.sends.store_list(slot, list),
    }
    Ok(())
}

/// Fills in where a datagram goes.
fn address(cx: &mut Cx<'_, Unlocked>, qp: &Qp, wr: &SendWr<'_, Sib>, wqe: &mut SendWqe) -> Result {
    let (SendOp::Send { to: Some(to), .. }, Some(ud)) = (&wr.op, &mut wqe.ud) else {
        return Ok(());
    };
    if !to.ah.is_of(&qp.pd) {
        return Err(EINVAL);
    }
    ud.av = to.ah.av(cx.reborrow());
    if matches!(qp.ty, QpType::Gsi) {
        ud.pkey = Some(query::pkey(cx, &qp.hca, qp.port(), to.pkey_index)?);
    }
    Ok(())
}

fn sum(list: &[LocalSge]) -> Result<u32> {
    list.iter()
        .try_fold(0u32, |sum, sge| sum.checked_add(sge.length))
        .filter(|len| *len <= send::MAX_MESSAGE)
        .ok_or(EINVAL)
}

fn errno(error: PostError) -> Error {
    match error {
        PostError::State => EINVAL,
        PostError::Full => ENOMEM,
    }
}

/// Has a worker carry out what a kernel client has posted.
pub(crate) fn posted(qp: &Tracked<Qp>) {
    if let Some(qp) = qp.hold() {
        Qp::schedule(qp);
    }
}

/// Takes a receive work request of a kernel client.
///
/// # Errors
///
/// `EINVAL` in RESET, for too many buffers, or with a shared receive queue; `ENOMEM` if the queue is
/// full.
pub(crate) fn post_recv(cx: &mut Cx<'_, Unlocked>, qp: &Tracked<Qp>, wr: &RecvWr<'_>) -> Result {
    let waited_for = {
        let mut state = cx.lock(&qp.state);
        if matches!(state.machine.state(), QpState::Reset) {
            return Err(EINVAL);
        }
        state.recvs.post(wr)?;
        let recvs = state.recvs.len();
        matches!(state.machine.state(), QpState::Err) || state.machine.receives_posted(recvs)
    };
    if waited_for {
        posted(qp);
    }
    Ok(())
}
