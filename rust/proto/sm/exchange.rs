// SPDX-License-Identifier: GPL-2.0

//! Requests on their way: a bounded number, each repeated until it is answered or given up.

use super::multicast::Part;
use crate::time::{
    Duration,
    Instant, //
};
use core::ops::DerefMut;

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
    /// P_KeyTable.
    Keys,
    /// To take a P_KeyTable.
    SetKeys,
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

/// Room for a request on its way.
#[derive(Clone, Copy, Debug, Default)]
pub struct Slot(Option<Request>);

impl Slot {
    /// No request.
    pub const fn new() -> Self {
        Self(None)
    }
}

#[derive(Clone, Copy, Debug)]
struct Request {
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
pub(super) struct Exchange<T> {
    slots: T,
    tid: u32,
    timeout: Duration,
    tries: u8,
}

impl<T: DerefMut<Target = [Slot]>> Exchange<T> {
    /// Requests that are repeated after `timeout`, and given up when sent `tries` times in vain.
    pub(super) fn new(mut slots: T, timeout: Duration, tries: u8) -> Self {
        slots.fill(Slot::new());
        Self {
            slots,
            tid: 0,
            timeout,
            tries,
        }
    }

    fn requests(&self) -> impl Iterator<Item = &Request> {
        self.slots.iter().filter_map(|slot| slot.0.as_ref())
    }

    /// The largest number of requests on their way.
    pub(super) fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// The number of requests on their way.
    pub(super) fn len(&self) -> usize {
        self.requests()
            .fold(0, |count: usize, _| count.saturating_add(1))
    }

    /// Forgets all requests; their answers will be nobody's.
    pub(super) fn clear(&mut self) {
        self.slots.fill(Slot::new());
    }

    /// Remembers a request that is sent now. Returns its transaction; `None` if too many are on their way.
    pub(super) fn start(&mut self, errand: Errand, now: Instant) -> Option<u32> {
        let slot = self.slots.iter_mut().find(|slot| slot.0.is_none())?;
        self.tid = self.tid.wrapping_add(1);
        slot.0 = Some(Request {
            errand,
            tid: self.tid,
            due: now.after(self.timeout),
            tries_left: self.tries.saturating_sub(1),
        });
        Some(self.tid)
    }

    /// The request of the transaction `tid`.
    pub(super) fn errand(&self, tid: u32) -> Option<Errand> {
        let request = self.requests().find(|request| request.tid == tid)?;
        Some(request.errand)
    }

    /// The request that an answer with the transaction `tid` is for; it is done.
    pub(super) fn finish(&mut self, tid: u32) -> Option<Errand> {
        let slot = self
            .slots
            .iter_mut()
            .find(|slot| slot.0.is_some_and(|request| request.tid == tid))?;
        slot.0.take().map(|request| request.errand)
    }

    /// A request whose answer is overdue at `now`.
    pub(super) fn due(&mut self, now: Instant) -> Option<Due> {
        let late = self
            .slots
            .iter_mut()
            .find(|slot| slot.0.is_some_and(|request| request.due <= now))?;
        let request = late.0.as_mut()?;
        if request.tries_left == 0 {
            return late.0.take().map(|request| Due::Lost(request.errand));
        }
        request.tries_left = request.tries_left.wrapping_sub(1);
        request.due = now.after(self.timeout);
        Some(Due::Repeat(request.errand, request.tid))
    }

    /// When [`Self::due`] will next have something.
    pub(super) fn next(&self) -> Option<Instant> {
        self.requests().map(|request| request.due).min()
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
        let mut slots = [Slot::new(); 8];
        let mut exchange = Exchange::new(&mut slots[..], Duration::from_millis(100), 2);
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
        let mut slots = [Slot::new(); 8];
        let mut exchange = Exchange::new(&mut slots[..], Duration::from_millis(100), 1);
        let mut tids = [0; 8];
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
