// SPDX-License-Identifier: GPL-2.0

//! What arrives: answers, traps, and what other subnet managers ask.

use super::compose::subject;
use super::exchange::{
    Ask,
    Errand, //
};
use super::topology::NONE;
use super::{
    Manager,
    Phase,
    Storage,
    Transmit, //
};
use crate::fabric::switch::Lrh;
use crate::fabric::Mad;
use crate::time::Instant;
use core::ops::DerefMut;
use wire::mad::smp::{
    attr,
    trap,
    PortInfo,
    PortState,
    SmState,
    Smp,
    SwitchInfo, //
};
use wire::mad::{
    self,
    class,
    method,
    status,
    Notice,
    BASE_VERSION,
    CLASS_VERSION, //
};
use wire::Lid;

/// An answer that waits to be sent; or none.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reply(Option<Transmit>);

impl Reply {
    /// No answer.
    pub const fn new() -> Self {
        Self(None)
    }
}

/// Answers and the like that wait to be sent.
pub(super) struct Replies<P> {
    places: P,
}

impl<P: DerefMut<Target = [Reply]>> Replies<P> {
    pub(super) fn new(mut places: P) -> Self {
        places.fill(Reply::new());
        Self { places }
    }

    /// Has this sent, if there is room. Who gets no answer asks again.
    fn push(&mut self, transmit: Transmit) {
        if let Some(place) = self.places.iter_mut().find(|place| place.0.is_none()) {
            *place = Reply(Some(transmit));
        }
    }

    pub(super) fn pop(&mut self) -> Option<Transmit> {
        self.places.iter_mut().find_map(|place| place.0.take())
    }
}

impl<S: Storage> Manager<S> {
    /// Takes a datagram that has arrived at QP0 with the addresses `lrh` and that no agent has answered. Returns
    /// whether it was for a subnet manager.
    pub fn on_mad(&mut self, mad: &Mad, lrh: Lrh, now: Instant) -> bool {
        let smp = Smp::from_bytes(mad);
        let header = smp.header();
        if header.base_version != BASE_VERSION
            || header.class_version != CLASS_VERSION
            || !matches!(header.mgmt_class, class::SUBN_LID | class::SUBN_DR)
        {
            return false;
        }
        match (header.method, header.attr_id) {
            (method::GET_RESP, attr_id) => self.on_answer(header.tid as u32, attr_id, smp, now),
            (method::GET | method::SET, attr::SM_INFO) => self.answer(smp.clone(), lrh, now),
            (method::TRAP, mad::attr::NOTICE) => self.on_trap(smp, lrh, now),
            _ => return false,
        }
        true
    }

    fn on_answer(&mut self, tid: u32, attr_id: u16, smp: &Smp, now: Instant) {
        let fits = |errand: Errand| subject(errand.ask).0 == attr_id;
        if !self.exchange.errand(tid).is_some_and(fits) {
            return;
        }
        let Some(errand) = self.exchange.finish(tid) else {
            return;
        };
        if smp.status() != status::OK {
            // A port refuses to become Active again: the answer to the first request was lost, or data came before it.
            let again = errand.ask == Ask::Activate && smp.status() == status::INVALID_FIELD;
            if !again {
                self.lost(errand, now);
            }
            return;
        }
        let port = errand.port;
        match errand.ask {
            Ask::Light => {
                if smp.attribute::<SwitchInfo>().port_state_change {
                    self.request_sweep(now);
                }
            }
            Ask::Keys => self.keys_told(port, &smp.attribute()),
            Ask::SetKeys => self.keys_set(port, &smp.attribute()),
            Ask::SetPort | Ask::Arm | Ask::Activate => self.port_set(errand, smp),
            Ask::SetSwitch => {
                let node = self.topology.port(port).map_or(NONE, |port| port.node);
                if let Some(node) = self.topology.node_mut(node) {
                    node.switch = smp.attribute();
                }
            }
            Ask::SetTable(block) => {
                let row = self.row_of(port);
                self.tables.mark(row, usize::from(block), false);
            }
            Ask::Prune(part) | Ask::Graft(part) => {
                let row = self.row_of(port);
                if self.multicast.told(row, part, &smp.attribute()) {
                    self.keeps_trees(port);
                }
            }
            Ask::Manager => self.rival_told(port, &smp.attribute(), now),
            Ask::Handover => self.start_standby(port, now),
            Ask::Acknowledge => {}
            ask => self.discovered(ask, port, smp),
        }
    }

    /// The row in the tables of the switch of a port.
    fn row_of(&self, port: u32) -> u32 {
        self.topology.node_of(port).map_or(NONE, |node| node.row)
    }

    fn port_set(&mut self, errand: Errand, smp: &Smp) {
        let state = smp.attribute::<PortInfo>().port_state;
        if let Some(port) = self.topology.port_mut(errand.port) {
            port.set_info(smp.data());
            port.returned = false;
        }
        let reached = match errand.ask {
            Ask::Arm => state >= PortState::Armed as u8,
            Ask::Activate => state == PortState::Active as u8,
            _ => true,
        };
        self.report.trouble |= !reached;
    }

    /// A request was given up, or refused.
    pub(super) fn lost(&mut self, errand: Errand, now: Instant) {
        match errand.ask {
            Ask::Light => self.request_sweep(now),
            Ask::Manager if self.state == SmState::Standby => self.rediscover(now),
            // One that does not answer is no subnet manager.
            Ask::Manager | Ask::Acknowledge => {}
            Ask::Handover => {
                self.spurned = true;
                self.report.trouble = true;
            }
            Ask::Prune(part) | Ask::Graft(part) => {
                let row = self.row_of(errand.port);
                self.multicast.doubt(row, part);
                self.multicast.failed = true;
                // One that was pruned has a part of the new trees, whatever it has taken since.
                if matches!(errand.ask, Ask::Prune(_)) {
                    self.keeps_trees(errand.port);
                }
            }
            Ask::Keys | Ask::SetKeys => {
                self.partitions.close(errand.port);
                self.report.trouble = true;
            }
            _ => self.report.trouble = true,
        }
    }

    /// Answers another subnet manager.
    fn answer(&mut self, mut smp: Smp, lrh: Lrh, now: Instant) {
        let status = self.on_sm_info(&mut smp, now);
        smp.set_method(method::GET_RESP);
        smp.set_status(status);
        smp.set_returning(smp.is_directed());
        self.replies.push(Transmit {
            mad: *smp.as_bytes(),
            lrh: Lrh {
                slid: lrh.dlid,
                dlid: lrh.slid,
            },
        });
    }

    /// An agent tells that something has happened.
    fn on_trap(&mut self, smp: &Smp, lrh: Lrh, now: Instant) {
        if self.state != SmState::Master || lrh.slid == Lid::PERMISSIVE {
            return;
        }
        let notice: Notice = smp.attribute();
        let mut repress = smp.clone();
        repress.set_method(method::TRAP_REPRESS);
        repress.set_mkey(self.config.mkey);
        self.replies.push(Transmit {
            mad: *repress.as_bytes(),
            lrh: Lrh {
                slid: self.lid(),
                dlid: lrh.slid,
            },
        });
        self.notices.push(&notice, lrh.slid);
        let changes = matches!(
            notice.trap,
            trap::LINK_STATE_CHANGE | trap::CAPABILITY_CHANGE | trap::SYSTEM_IMAGE_GUID_CHANGE
        );
        if notice.is_generic && changes {
            self.request_sweep(now);
        }
    }

    /// The master has been found: it is watched from now on.
    pub(super) fn start_watch(&mut self, now: Instant) {
        self.poll_at = Some(now.after(self.config.poll));
    }

    /// Another one has taken over.
    fn start_standby(&mut self, port: u32, now: Instant) {
        self.stand_by(port);
        self.start_watch(now);
    }

    /// Asks the master whether it is there.
    pub(super) fn ask_master(&mut self, now: Instant) {
        self.poll_at = Some(now.after(self.config.poll));
        if let Some(errand) = self.watch(now) {
            self.phase = Phase::Watch(Some(errand.port));
        }
    }
}
