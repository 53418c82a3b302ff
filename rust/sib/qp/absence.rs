// SPDX-License-Identifier: GPL-2.0

//! Memory that is not there when a queue pair needs it.
//!
//! Pages of on-demand regions come and go, and having them come may sleep, as no context that handles segments
//! may. So a worker does it:
//!
//! - A segment that has come and cannot be placed is not taken by the machine. It waits, in a copy, and so do all
//!   that come after it, since the machine is to see them in order. To the peer the answer is late; if it asks
//!   again meanwhile, the machine has it pause. A message waits as well whose key is still in use by the answer
//!   to an earlier READ.
//! - A segment that is to be sent goes back into the machine. The worker has it polled again.
//!
//! What does not come, since the owner of the memory may not access it either, is remembered, and the machine
//! learns of an error at the next attempt.

use super::{
    Arrival,
    Qp,
    State, //
};
use crate::{
    fabric::Segment,
    kept::Kept,
    keys::Miss,
    mr::{
        Absent,
        Place, //
    },
    payload::Source,
    run::RunQueue, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::Relaxed,
        Arc, //
    },
    time::Delta, //
};
use proto::transport::{
    PlaceError,
    RemoteError,
    RxDrop,
    WcStatus, //
};
use rdma::{
    sync::{
        Atomic,
        Cx,
        Held,
        IrqsOn,
        Off,
        QpLock,
        Sleepable,
        Unlocked, //
    },
    work::Run, //
};
use wire::{
    header::Header,
    PortNum, //
};

/// The work item that has memory come.
pub(super) const WORK: u64 = 1;

/// Segments that wait at most: more than the packets of a whole window. What is beyond that is lost.
const MAX_WAITING: usize = 512;

/// Bytes of their payload: more than those of a window of requests; answers to READs may be more.
const MAX_WAITING_BYTES: usize = 8 << 20;

/// Memory that what waits takes at most for all queue pairs of users of an HCA.
const MAX_WAITING_ALL: usize = 64 << 20;

/// The same with the first segment of each, which is not to be lost since others have many. A key is in use for so short a
/// time that the first one that waits for it takes room in any case.
const MAX_WAITING_FIRST: usize = 128 << 20;

/// Before the second look at a key that is in use: sending what uses it takes a few microseconds, unless the processor
/// is taken away that does it. So the pause doubles, so often at most.
const BUSY_PAUSE_US: i64 = 50;
const BUSY_DOUBLINGS: u32 = 5;

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    Nothing,
    /// Memory, which may take as long as its owner likes.
    Memory,
    /// A key that is in use.
    Key,
}

/// Memory that what waits for the queue pairs of an HCA takes.
pub(crate) struct Room(Atomic<usize>);

impl Room {
    /// Nothing waits.
    pub(crate) const fn new() -> Self {
        Self(Atomic::new(0))
    }
}

/// A part of the room of an HCA, in bytes, until it is dropped.
struct Part {
    room: Arc<Room>,
    bytes: usize,
}

impl Part {
    /// Takes a part for a segment with so many bytes of payload that waits for `wait`, the first one of its queue pair or
    /// not, if there is one. Those of the kernel take none.
    fn take(qp: &Qp, payload: usize, wait: Wait, is_first: bool) -> Option<Self> {
        let room = &qp.hca.waiting;
        let bytes = if qp.user {
            payload.saturating_add(size_of::<Waiting>())
        } else {
            0
        };
        let part = Self {
            room: room.clone(),
            bytes,
        };
        let taken = room.0.fetch_add(bytes, Relaxed);
        let most = match (is_first, wait) {
            (true, Wait::Key) => usize::MAX,
            (true, _) => MAX_WAITING_FIRST,
            (false, _) => MAX_WAITING_ALL,
        };
        (bytes == 0 || taken.saturating_add(bytes) <= most).then_some(part)
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.room.0.fetch_sub(self.bytes, Relaxed);
    }
}

/// A segment that waits.
struct Waiting {
    _part: Part,
    header: Header,
    span: u32,
    port: PortNum,
    pkey_index: Option<u16>,
    payload: Kept,
}

/// One side of a queue pair, which needs memory.
pub(super) struct Need {
    /// What was not there.
    absent: Option<Absent>,
    /// What of the same segment was not there either: to come at once, as far as there is room to remember it.
    others: KVec<Absent>,
    /// What did not come.
    refused: Option<Place>,
    /// Whether a worker has had memory come for it: one in whose place it was put meanwhile is not to be told.
    supplied: bool,
}

impl Need {
    /// Nothing.
    const fn new() -> Self {
        Self {
            absent: None,
            others: KVec::new(),
            refused: None,
            supplied: false,
        }
    }

    /// Forgets what was not there for an attempt that nobody waits for, or an earlier one: it holds its region.
    #[inline]
    pub(super) fn forget(&mut self) {
        if self.absent.is_some() {
            self.absent = None;
            self.others.clear();
        }
    }

    /// What becomes of an access that has missed, which fails with `fault` if it is not allowed.
    fn miss<E>(&mut self, miss: Miss, fault: E, absent: E) -> E {
        let Miss::Absent(missing) = miss else {
            return fault;
        };
        if self.refused == Some(missing.place()) {
            self.refused = None;
            return fault;
        }
        if self.absent.is_none() {
            self.absent = Some(missing);
        } else {
            let _ = self.others.push(missing, GFP_ATOMIC);
        }
        absent
    }

    /// The error of an access to memory of a work request.
    pub(super) fn local(&mut self, miss: Miss) -> PlaceError {
        let fault = PlaceError::Failed(WcStatus::LocProtErr);
        self.miss(miss, fault, PlaceError::Absent)
    }

    /// The error of an access to memory that the peer names.
    pub(super) fn remote(&mut self, miss: Miss) -> RemoteError {
        self.miss(miss, RemoteError::Fault, RemoteError::Absent)
    }
}

/// What a queue pair waits for.
pub(super) struct Absence {
    /// Segments that have come, in order.
    waiting: KVec<KBox<Waiting>>,
    /// The bytes of their payload.
    bytes: usize,
    /// How often in a row the oldest of them was not taken since its key is in use.
    busy: u32,
    /// How often in a row an operation of this side was not executed since a key is in use.
    stalled: u32,
    /// Whether segments that come have to wait: a worker is due.
    waits: bool,
    /// For the segment that has come.
    pub(super) taking: Need,
    /// For the segment that is to be sent.
    pub(super) sending: Need,
}

impl Absence {
    /// Nothing.
    pub(super) const fn new() -> Self {
        Self {
            waiting: KVec::new(),
            bytes: 0,
            busy: 0,
            stalled: 0,
            waits: false,
            taking: Need::new(),
            sending: Need::new(),
        }
    }

    /// Whether segments that come have to wait.
    #[inline]
    pub(super) fn is_waiting(&self) -> bool {
        self.waits
    }

    /// What segments that have come wait for.
    pub(super) fn wait(&self) -> Wait {
        match (self.waits, self.busy) {
            (false, _) => Wait::Nothing,
            (true, 0) => Wait::Memory,
            (true, _) => Wait::Key,
        }
    }

    /// The oldest segment was not taken, for this reason.
    pub(super) fn refuse(&mut self, reason: RxDrop) {
        self.busy = match reason {
            RxDrop::Busy => self.busy.saturating_add(1),
            _ => 0,
        };
    }

    /// An operation of this side was not executed since a key is in use, or nothing is left of that.
    pub(super) fn stall(&mut self, waits: bool) {
        self.stalled = if waits {
            self.stalled.saturating_add(1)
        } else {
            0
        };
    }

    /// Lets a segment wait; false if there is no room for it.
    pub(super) fn keep(&mut self, qp: &Qp, arrival: &Arrival<'_>) -> bool {
        self.waits = true;
        self.store(qp, arrival).is_ok()
    }

    fn store(&mut self, qp: &Qp, arrival: &Arrival<'_>) -> Result {
        let segment = &arrival.segment;
        let bytes = self.bytes.saturating_add(segment.source.len());
        if self.waiting.len() >= MAX_WAITING || bytes > MAX_WAITING_BYTES {
            return Err(ENOMEM);
        }
        let is_first = self.waiting.is_empty();
        let part = Part::take(qp, segment.source.len(), self.wait(), is_first);
        let waiting = Waiting {
            _part: part.ok_or(ENOMEM)?,
            header: *segment.header,
            span: segment.span,
            port: arrival.port,
            pkey_index: arrival.pkey_index,
            payload: Kept::new(segment.source, GFP_ATOMIC)?,
        };
        let waiting = KBox::new(waiting, GFP_ATOMIC)?;
        self.waiting.push(waiting, GFP_ATOMIC)?;
        self.bytes = bytes;
        Ok(())
    }
}

impl State {
    /// Gives the machine the oldest segment that waits; false if there is none, or if it has to wait on.
    fn take_waiting(&mut self, qp: &Qp, cx: Cx<'_, QpLock, Off>) -> bool {
        let Ok(waiting) = self.absence.waiting.remove(0) else {
            self.absence.waits = false;
            self.absence.bytes = 0;
            self.absence.busy = 0;
            self.machine.resume(crate::fabric::now());
            return false;
        };
        let arrival = Arrival {
            segment: Segment {
                header: &waiting.header,
                span: waiting.span,
                source: &Source::Kept(&waiting.payload),
                damage: None,
                hops: 0,
            },
            port: waiting.port,
            pkey_index: waiting.pkey_index,
        };
        let busy = self.is_busy();
        let outcome = self.offer(busy, qp, cx, &arrival);
        if let Err(reason @ (RxDrop::Absent | RxDrop::Busy)) = outcome {
            self.absence.refuse(reason);
            if reason == RxDrop::Busy {
                // All its memory was there.
                self.absence.taking.refused = None;
            }
            // Where it was there is room.
            let _ = self.absence.waiting.insert_within_capacity(0, waiting);
            return false;
        }
        self.absence.taking.refused = None;
        self.absence.busy = 0;
        self.absence.bytes = self.absence.bytes.saturating_sub(waiting.payload.len());
        true
    }
}

impl Qp {
    /// Has a worker see to what is waited for. One for a key is another than those for memory: they may be held up by
    /// users, and may need what storage clients do by keys.
    pub(super) fn attend(qp: &Held<Self>, wait: Wait) {
        match wait {
            Wait::Nothing => {}
            Wait::Memory => Self::await_memory(qp),
            Wait::Key => {
                if let Some(qp) = qp.try_clone() {
                    Self::schedule(qp);
                }
            }
        }
    }

    /// Pauses if an operation of this side, or the oldest segment that waits, does so for a key that is in use; then
    /// looks again at the segment. The operation is looked at by the next run of the worker.
    pub(super) fn await_key(qp: &Held<Self>, cx: &mut Cx<'_, Unlocked>, sleepable: Sleepable<'_>) {
        let (stalled, busy, sends) = {
            let state = cx.lock(&qp.state);
            let absence = &state.absence;
            (absence.stalled, absence.busy, state.machine.has_output())
        };
        let doublings = match (stalled.checked_sub(1), busy.checked_sub(1)) {
            (None, None) => return,
            (Some(times), _) => times,
            // What is still to be sent may be what uses the key.
            (None, Some(_)) if sends => 0,
            (None, Some(times)) => times,
        };
        let pause = BUSY_PAUSE_US.wrapping_shl(doublings.min(BUSY_DOUBLINGS));
        sleepable.pause(cx, Delta::from_micros(pause));
        if busy == 0 {
            return;
        }
        Self::take_all(qp, cx, sleepable.irqs_on());
        let wait = cx.lock(&qp.state).absence.wait();
        Self::attend(qp, wait);
    }

    /// Gives the machine all segments that wait, as far as they need not wait on.
    fn take_all(qp: &Held<Self>, cx: &mut Cx<'_, Unlocked>, irqs: IrqsOn<'_>) {
        let mut more = true;
        while more {
            let (has_output, events) = {
                let mut guard = cx.lock(&qp.state);
                let (state, cx) = guard.split();
                more = state.take_waiting(qp, cx);
                qp.watch(state);
                let events = core::mem::take(&mut state.events);
                (state.machine.has_output() && !state.is_busy(), events)
            };
            RunQueue::with(cx, irqs, |cx, run| {
                if has_output {
                    run.push(qp);
                }
                Self::deliver(qp, cx, irqs, events);
            });
        }
    }

    /// Has a worker see to memory that is not there.
    pub(super) fn await_memory(qp: &Held<Self>) {
        if let Some(pointer) = qp.try_clone() {
            // A queued item runs after this, so a refusal is as good.
            let _ = qp.hca.memory.enqueue(&qp.memory, pointer);
        }
    }

    /// Has the memory come that one side needs; false if it needs none.
    fn supply(
        &self,
        cx: &mut Cx<'_, Unlocked>,
        sleepable: Sleepable<'_>,
        side: impl Fn(&mut Absence) -> &mut Need,
    ) -> bool {
        let (absent, others) = {
            let mut state = cx.lock(&self.state);
            let need = side(&mut state.absence);
            need.supplied = true;
            (need.absent.take(), core::mem::take(&mut need.others))
        };
        let Some(absent) = absent else {
            return false;
        };
        for absent in Iterator::chain(core::iter::once(&absent), &others) {
            match absent.fault(cx, sleepable) {
                // What changes all the time will have its turn.
                Ok(()) | Err(EBUSY) => {}
                Err(_) => {
                    let mut state = cx.lock(&self.state);
                    let need = side(&mut state.absence);
                    if need.supplied {
                        need.refused = Some(absent.place());
                    }
                    break;
                }
            }
        }
        true
    }
}

impl Run<WORK> for Qp {
    type Pointer = Held<Qp>;

    fn run(this: Held<Qp>, mut cx: Cx<'_, Unlocked>, sleepable: Sleepable<'_>) {
        let irqs = sleepable.irqs_on();
        this.supply(&mut cx, sleepable, |absence| &mut absence.taking);
        Qp::take_all(&this, &mut cx, irqs);
        if this.supply(&mut cx, sleepable, |absence| &mut absence.sending) {
            RunQueue::with(&mut cx, irqs, |cx, run| Qp::transmit(&this, cx, irqs, run));
        }
        let (wait, sends) = {
            let state = cx.lock(&this.state);
            (state.absence.wait(), state.absence.sending.absent.is_some())
        };
        if sends {
            Qp::await_memory(&this);
        }
        Qp::attend(&this, wait);
    }
}
