// SPDX-License-Identifier: GPL-2.0

//! Completion queues.
//!
//! A completion is added under the lock of its queue pair, so completions of one queue pair cannot
//! overtake each other. The client is told later, by [`Cq::notify`], when no lock is held.

use crate::{
    breaks::{
        Breaks,
        Mark, //
    },
    hca::Hca,
    qp::Qp,
    query::MAX_CQE,
    quota::Share, //
};
use kernel::{
    alloc::KVVec,
    prelude::*,
    sync::{
        atomic::Relaxed,
        Arc, //
    }, //
};
use rdma::{
    ib::{
        abi::UverbsWc,
        CqInit,
        CqUpcall,
        Detail,
        NewCq,
        Notify,
        QpRef,
        Wc,
        WcOut, //
    },
    ring::{
        Producer,
        Ring, //
    },
    sync::{
        After,
        Atomic,
        CqLock,
        Cx,
        Irq,
        IrqsOn,
        LevelLock,
        Sleepable,
        Tracked,
        Unlocked, //
    }, //
};
use zerocopy::IntoBytes;

/// Completions of a kernel client: a ring that the lock guards.
struct List {
    entries: KVVec<Option<Wc>>,
    head: usize,
    len: usize,
}

impl List {
    fn new(capacity: usize) -> Result<Self> {
        let mut entries = KVVec::with_capacity(capacity, GFP_KERNEL)?;
        for _ in 0..capacity {
            entries.push(None, GFP_KERNEL)?;
        }
        Ok(Self {
            entries,
            head: 0,
            len: 0,
        })
    }

    fn place(&self, index: usize) -> usize {
        let at = self.head.wrapping_add(index);
        if at >= self.entries.len() {
            at.wrapping_sub(self.entries.len())
        } else {
            at
        }
    }

    fn push(&mut self, wc: Wc) -> bool {
        if self.len >= self.entries.len() {
            return false;
        }
        let at = self.place(self.len);
        if let Some(slot) = self.entries.get_mut(at) {
            *slot = Some(wc);
            self.len = self.len.wrapping_add(1);
        }
        true
    }

    fn pop(&mut self) -> Option<Wc> {
        if self.len == 0 {
            return None;
        }
        let wc = self.entries.get_mut(self.head)?.take();
        self.head = self.place(1);
        self.len = self.len.wrapping_sub(1);
        wc
    }

    /// Removes the completions of a queue pair; the others keep their order.
    fn purge(&mut self, of: &QpRef) {
        let count = self.len;
        for _ in 0..count {
            if let Some(wc) = self.pop() {
                if wc.qp.as_ref().is_none_or(|qp| !qp.ptr_eq(of)) {
                    self.push(wc);
                }
            }
        }
    }
}

/// Where completions go.
enum Entries {
    User(Producer),
    Kernel(List),
}

/// What a client waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Armed {
    No,
    Solicited,
    Any,
}

/// What the lock of a completion queue guards.
struct State {
    entries: Entries,
    armed: Armed,
    overrun: bool,
}

impl State {
    /// Completions that nobody has polled.
    fn pending(&self) -> u32 {
        match &self.entries {
            Entries::User(producer) => producer.pending(),
            Entries::Kernel(list) => list.len as u32,
        }
    }

    /// The side of a user's ring that is filled; `EINVAL` if the queue is not a user's.
    fn producer(&mut self) -> Result<&mut Producer> {
        match &mut self.entries {
            Entries::User(producer) => Ok(producer),
            Entries::Kernel(_) => Err(EINVAL),
        }
    }
}

/// A completion queue.
#[pin_data]
pub(crate) struct Cq {
    upcall: CqUpcall,
    /// The client is to be told of a completion.
    due: Atomic<bool>,
    /// The client is to be told that the queue has overrun.
    failed: Atomic<bool>,
    /// Since when it is in error.
    pub(crate) mark: Mark,
    #[pin]
    state: LevelLock<State, CqLock>,
    _share: Share,
}

/// Makes a completion queue.
///
/// # Errors
///
/// `EINVAL` for a size that is not offered; `ENOMEM`, also if the device has as many as it may have.
pub(crate) fn create(
    hca: &Hca,
    upcall: CqUpcall,
    init: &CqInit,
    user: bool,
) -> Result<NewCq<Tracked<Cq>>> {
    if !(1..=MAX_CQE).contains(&init.entries) {
        return Err(EINVAL);
    }
    let share = hca.cqs.take()?;
    let mut shared = None;
    let (entries, granted) = if user {
        let ring = Ring::new(init.entries, size_of::<UverbsWc>())?;
        shared = Some(ring.clone());
        let granted = ring.capacity();
        (Entries::User(Producer::new(ring)), granted)
    } else {
        let list = List::new(init.entries as usize)?;
        (Entries::Kernel(list), init.entries)
    };
    let state = State {
        entries,
        armed: Armed::No,
        overrun: false,
    };
    let cq = Tracked::new(try_pin_init!(Cq {
        upcall,
        due: Atomic::new(false),
        failed: Atomic::new(false),
        mark: Mark::new(),
        state <- LevelLock::new(state),
        _share: share,
    }))?;
    Ok(NewCq {
        cq,
        entries: granted,
        map: shared,
    })
}

/// Moves what a user's queue holds to a ring of another size, which `publish` tells the user of before. Returns the
/// number of entries.
///
/// # Errors
///
/// `EINVAL` for a size that is not offered, or is too small for what the queue holds; `EBUSY` if it is resized by somebody
/// else meanwhile, or filled faster than it is copied; `ENOMEM`; what `publish` says.
pub(crate) fn resize(
    cx: &mut Cx<'_, Unlocked>,
    cq: &Cq,
    entries: u32,
    publish: impl FnOnce(&Arc<Ring>) -> Result,
) -> Result<u32> {
    if !(1..=MAX_CQE).contains(&entries) {
        return Err(EINVAL);
    }
    let ring = Ring::new(entries, size_of::<UverbsWc>())?;
    publish(&ring)?;
    let mut transfer = cx.lock(&cq.state).producer()?.transfer(&ring)?;
    loop {
        transfer.copy();
        let mut state = cx.lock(&cq.state);
        if state.producer()?.replace(&mut transfer)? {
            return Ok(ring.capacity());
        }
    }
}

/// Moves completions of a kernel client into `out`.
pub(crate) fn poll(cx: &mut Cx<'_, Unlocked>, cq: &Cq, out: &mut WcOut<'_>) -> Result {
    let mut state = cx.lock(&cq.state);
    let Entries::Kernel(list) = &mut state.entries else {
        return Err(EINVAL);
    };
    while out.room() > 0 {
        let Some(wc) = list.pop() else {
            break;
        };
        // There is room; a completion of a queue pair that goes away is dropped by the push.
        let _ = out.push(&wc);
    }
    Ok(())
}

/// Arms the notification; tells whether completions are there, if that is asked for.
pub(crate) fn req_notify(cx: &mut Cx<'_, Unlocked>, cq: &Cq, notify: Notify) -> bool {
    let mut state = cx.lock(&cq.state);
    if notify.solicited_only {
        if state.armed == Armed::No {
            state.armed = Armed::Solicited;
        }
    } else {
        state.armed = Armed::Any;
    }
    notify.report_missed && state.pending() > 0
}

impl Cq {
    /// Waits until a client in the kernel has handled the completions that it was told of.
    pub(crate) fn flush(&self, cx: &mut Cx<'_, Unlocked>, sleepable: Sleepable<'_>) {
        self.upcall.flush(cx, sleepable);
    }

    /// Tells details.
    pub(crate) fn show(&self, cx: &mut Cx<'_, Unlocked>, detail: &mut Detail<'_>) -> Result {
        let (pending, armed, overrun) = {
            let state = cx.lock(&self.state);
            (state.pending(), state.armed as u8, state.overrun)
        };
        detail.number(c"pending", u64::from(pending))?;
        detail.number(c"armed", u64::from(armed))?;
        detail.number(c"overrun", u64::from(overrun))
    }

    /// Whether there are completions that nobody has polled.
    pub(crate) fn has_pending<L, I: Irq>(&self, mut cx: Cx<'_, L, I>) -> bool
    where
        CqLock: After<L>,
    {
        cx.lock(&self.state).pending() > 0
    }

    /// Adds a completion; `false` if it is lost. `solicited` is whether a client that waits for solicited ones wants it.
    ///
    /// A queue that has overrun stays in error and takes no more: what came after the gap would mislead.
    #[must_use]
    pub(crate) fn push<L, I: Irq>(&self, mut cx: Cx<'_, L, I>, wc: Wc, solicited: bool) -> bool
    where
        CqLock: After<L>,
    {
        let mut state = cx.lock(&self.state);
        let added = !state.overrun
            && match &mut state.entries {
                Entries::User(producer) => producer.push(UverbsWc::new(&wc).as_bytes()).is_ok(),
                Entries::Kernel(list) => list.push(wc),
            };
        if !added {
            if !core::mem::replace(&mut state.overrun, true) {
                self.failed.store(true, Relaxed);
            }
            return false;
        }
        let wanted = match state.armed {
            Armed::No => false,
            Armed::Solicited => solicited,
            Armed::Any => true,
        };
        if wanted {
            state.armed = Armed::No;
            self.due.store(true, Relaxed);
        }
        true
    }

    /// Tells the client what there is to tell, and returns whether the queue has overrun just now: then its
    /// queue pairs have to go to the error state.
    pub(crate) fn notify(
        &self,
        cx: &mut Cx<'_, Unlocked>,
        irqs: IrqsOn<'_>,
        breaks: &Breaks,
    ) -> bool {
        if self.due.load(Relaxed) {
            // Nobody else tells the client of what is added meanwhile.
            irqs.undisturbed(cx, |cx, irqs| {
                if self.due.xchg(false, Relaxed) {
                    self.upcall.complete(cx, irqs);
                }
            });
        }
        let failed = self.failed.load(Relaxed) && self.failed.xchg(false, Relaxed);
        if failed {
            self.mark.set(breaks);
            self.upcall.error(cx, irqs);
        }
        failed
    }

    /// Forgets the completions of a queue pair of a kernel client, which must not see it again.
    pub(crate) fn purge<L, I: Irq>(&self, mut cx: Cx<'_, L, I>, qp: &Qp)
    where
        CqLock: After<L>,
    {
        // Its number may be another one's already.
        let Some(of) = qp.reference() else { return };
        if let Entries::Kernel(list) = &mut cx.lock(&self.state).entries {
            list.purge(&of);
        }
    }
}
