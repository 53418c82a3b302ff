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
        atomic::{
            Atomic,
            Relaxed, //
        },
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
        Cx,
        Held,
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

/// Bytes of them: those of a whole window as well.
const MAX_WAITING_BYTES: usize = 8 << 20;

/// Bytes that wait at most for all queue pairs of an HCA, whoever they belong to.
const MAX_WAITING_ALL: usize = 64 << 20;

/// Between two looks at a key that is in use: sending what uses it takes a few microseconds, unless the processor is
/// taken away that does it.
const BUSY_PAUSE: Delta = Delta::from_micros(50);

/// Bytes that wait for the queue pairs of an HCA.
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
    /// Takes a part, if there is one.
    fn take(room: &Arc<Room>, bytes: usize) -> Option<Self> {
        let part = Self {
            room: room.clone(),
            bytes,
        };
        let taken = room.0.fetch_add(bytes, Relaxed);
        (taken.saturating_add(bytes) <= MAX_WAITING_ALL).then_some(part)
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
}

impl Need {
    /// Nothing.
    const fn new() -> Self {
        Self {
            absent: None,
            others: KVec::new(),
            refused: None,
        }
    }

    /// Forgets what was not there for an earlier attempt.
    pub(super) fn begin(&mut self) {
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
    /// Their bytes.
    bytes: usize,
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

    /// Lets a segment wait. It is lost if there is no room for it, as it might be in any network.
    pub(super) fn keep(&mut self, room: &Arc<Room>, arrival: &Arrival<'_>) {
        self.waits = true;
        let _ = self.store(room, arrival);
    }

    fn store(&mut self, room: &Arc<Room>, arrival: &Arrival<'_>) -> Result {
        let segment = &arrival.segment;
        let bytes = self.bytes.saturating_add(segment.source.len());
        if self.waiting.len() >= MAX_WAITING || bytes > MAX_WAITING_BYTES {
            return Err(ENOMEM);
        }
        let waiting = Waiting {
            _part: Part::take(room, segment.source.len()).ok_or(ENOMEM)?,
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

/// What has become of the oldest segment that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Oldest {
    /// There is none.
    None,
    /// The machine has it.
    Taken,
    /// It waits on, for memory.
    Absent,
    /// It waits on, for a key that is in use.
    Busy,
}

impl State {
    /// Gives the machine the oldest segment that waits.
    fn take_waiting(&mut self, qp: &Qp, cx: Cx<'_, QpLock, Off>) -> Oldest {
        let Ok(waiting) = self.absence.waiting.remove(0) else {
            self.absence.waits = false;
            self.absence.bytes = 0;
            self.machine.resume();
            return Oldest::None;
        };
        let arrival = Arrival {
            segment: Segment {
                header: &waiting.header,
                span: waiting.span,
                source: &Source::Kept(&waiting.payload),
                damage: None,
            },
            port: waiting.port,
            pkey_index: waiting.pkey_index,
        };
        let busy = self.is_busy();
        let outcome = self.offer(busy, qp, cx, &arrival);
        let oldest = match outcome {
            Err(RxDrop::Absent) => Oldest::Absent,
            Err(RxDrop::Busy) => Oldest::Busy,
            _ => {
                self.absence.taking.refused = None;
                self.absence.bytes = self.absence.bytes.saturating_sub(waiting.payload.len());
                return Oldest::Taken;
            }
        };
        // Where it was there is room.
        let _ = self.absence.waiting.insert_within_capacity(0, waiting);
        oldest
    }
}

impl Qp {
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
                    side(&mut cx.lock(&self.state).absence).refused = Some(absent.place());
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
        let mut oldest = Oldest::Taken;
        while oldest == Oldest::Taken {
            let (has_output, events) = {
                let mut guard = cx.lock(&this.state);
                let (state, cx) = guard.split();
                oldest = state.take_waiting(&this, cx);
                this.watch(state);
                let events = core::mem::take(&mut state.events);
                (state.machine.has_output() && !state.is_busy(), events)
            };
            RunQueue::with(&mut cx, irqs, |cx, run| {
                if has_output {
                    run.push(&this);
                }
                this.deliver(cx, irqs, events);
            });
        }
        if this.supply(&mut cx, sleepable, |absence| &mut absence.sending) {
            RunQueue::with(&mut cx, irqs, |cx, run| Qp::transmit(&this, cx, irqs, run));
        }
        if oldest == Oldest::Busy {
            sleepable.pause(&mut cx, BUSY_PAUSE);
        }
        let again = {
            let state = cx.lock(&this.state);
            state.absence.waits || state.absence.sending.absent.is_some()
        };
        if again {
            Qp::await_memory(&this);
        }
    }
}
