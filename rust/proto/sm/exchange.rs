// SPDX-License-Identifier: GPL-2.0

//! Requests on their way: a bounded number, each repeated until it is answered or given up.

use super::multicast::Part;
use crate::time::{
    Duration,
    Instant, //
};

/// What is asked of a node or port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    /// NodeInfo of the subnet manager's own node.
    Own,
    /// NodeDescription.
    Describe,
    /// SwitchInfo.
    Switch,
    /// To clear SwitchInfo:PortStateChange.
    ClearChange,
    /// PortInfo.
    Info,
    /// NodeInfo of whoever is at the other end of the port.
    Probe,
    /// Whether something has changed at a switch.
    Light,
    /// To take the addresses and the properties of the link.
    SetPort,
    /// To take the highest LID.
    SetSwitch,
    /// To take a block of the linear forwarding table.
    SetTable(u16),
    /// To take ports out of a part of the multicast forwarding table.
    Prune(Part),
    /// To take a part of the multicast forwarding table as it is to be.
    Graft(Part),
    /// To become Armed.
    Arm,
    /// To become Active.
    Activate,
    /// SMInfo.
    Manager,
    /// To take over as the master.
    Handover,
    /// To know that the subnet manager has taken over.
    Acknowledge,
}

/// A request: what is asked, and of which port (index).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Errand {
    pub(super) ask: Ask,
    pub(super) port: u32,
}

/// The largest number of requests on their way.
pub(super) const SLOTS: usize = 32;

#[derive(Clone, Copy, Debug)]
struct Slot {
    errand: Errand,
    tid: u32,
    due: Instant,
    tries_left: u8,
}

/// What [`Exchange::due`] has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// To be sent again under this transaction.
    Repeat(Errand, u32),
    /// Given up.
    Lost(Errand),
}

/// The requests on their way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exchange {
    slots: [Option<Slot>; SLOTS],
    tid: u32,
    timeout: Duration,
    tries: u8,
}

impl Exchange {
    /// Requests that are repeated after `timeout`, and given up when sent `tries` times in vain.
    pub(super) const fn new(timeout: Duration, tries: u8) -> Self {
        Self {
            slots: [None; SLOTS],
            tid: 0,
            timeout,
            tries,
        }
    }

    /// The number of requests on their way.
    pub(super) fn len(&self) -> usize {
        let slots = self.slots.iter().flatten();
        slots.fold(0, |count: usize, _| count.saturating_add(1))
    }

    /// Forgets all requests; their answers will be nobody's.
    pub(super) fn clear(&mut self) {
        self.slots = [None; SLOTS];
    }

    /// Remembers a request that is sent now. Returns its transaction; `None` if too many are on their way.
    pub(super) fn start(&mut self, errand: Errand, now: Instant) -> Option<u32> {
        let slot = self.slots.iter_mut().find(|slot| slot.is_none())?;
        self.tid = self.tid.wrapping_add(1);
        *slot = Some(Slot {
            errand,
            tid: self.tid,
            due: now.after(self.timeout),
            tries_left: self.tries.saturating_sub(1),
        });
        Some(self.tid)
    }

    /// The request of the transaction `tid`.
    pub(super) fn errand(&self, tid: u32) -> Option<Errand> {
        let slot = self.slots.iter().flatten().find(|slot| slot.tid == tid)?;
        Some(slot.errand)
    }

    /// The request that an answer with the transaction `tid` is for; it is done.
    pub(super) fn finish(&mut self, tid: u32) -> Option<Errand> {
        let slot = self
            .slots
            .iter_mut()
            .find(|slot| slot.is_some_and(|slot| slot.tid == tid))?;
        slot.take().map(|slot| slot.errand)
    }

    /// A request whose answer is overdue at `now`.
    pub(super) fn due(&mut self, now: Instant) -> Option<Due> {
        let late = self
            .slots
            .iter_mut()
            .find(|slot| slot.is_some_and(|slot| slot.due <= now))?;
        let slot = late.as_mut()?;
        if slot.tries_left == 0 {
            return late.take().map(|slot| Due::Lost(slot.errand));
        }
        slot.tries_left = slot.tries_left.wrapping_sub(1);
        slot.due = now.after(self.timeout);
        Some(Due::Repeat(slot.errand, slot.tid))
    }

    /// When [`Self::due`] will next have something.
    pub(super) fn next(&self) -> Option<Instant> {
        self.slots.iter().flatten().map(|slot| slot.due).min()
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_proto_sm_exchange))]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(0).after(Duration::from_millis(millis))
    }

    const ERRAND: Errand = Errand {
        ask: Ask::Info,
        port: 7,
    };

    #[test]
    fn repeats_and_gives_up() {
        let mut exchange = Exchange::new(Duration::from_millis(100), 2);
        let tid = exchange.start(ERRAND, at(0)).unwrap_or_default();
        assert_eq!(exchange.due(at(99)), None);
        assert_eq!(exchange.next(), Some(at(100)));
        assert_eq!(exchange.due(at(100)), Some(Due::Repeat(ERRAND, tid)));
        assert_eq!(exchange.due(at(199)), None);
        assert_eq!(exchange.due(at(200)), Some(Due::Lost(ERRAND)));
        assert_eq!(exchange.len(), 0);
        assert_eq!(exchange.finish(tid), None);
    }

    #[test]
    fn answers_find_their_requests() {
        let mut exchange = Exchange::new(Duration::from_millis(100), 1);
        let mut tids = [0; SLOTS];
        for tid in &mut tids {
            *tid = exchange.start(ERRAND, at(0)).unwrap_or_default();
        }
        assert_eq!(exchange.start(ERRAND, at(0)), None);
        for tid in tids {
            assert_eq!(exchange.finish(tid), Some(ERRAND));
            assert_eq!(exchange.finish(tid), None);
        }
        assert_eq!(exchange.len(), 0);
    }
}
