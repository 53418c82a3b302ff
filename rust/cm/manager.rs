// SPDX-License-Identifier: GPL-2.0

//! What the driver asks of the manager: HCAs that come and go, and datagrams.
//!
//! A datagram is taken if it is for a listener or a connection of this manager. All else is ib_cm's, which answers
//! what nobody knows.

use crate::abi::ServiceKind;
use crate::connection::{
    Connection,
    PeerKey, //
};
use crate::consumer;
use crate::device::{
    back,
    source_of,
    Device, //
};
use crate::policy::Mode;
use crate::question;
use crate::tables::{
    Listener,
    Shared, //
};
use kernel::prelude::*;
use kernel::sync::Arc;
use proto::cm::{
    stale_refusal,
    transport_refusal,
    unknown_answer,
    Conn,
    Event,
    Identity,
    Source, //
};
use rdma::cm::{
    Adapter,
    Manager,
    QpEvent,
    Sent,
    Verdict, //
};
use rdma::ib::{
    Mad,
    MadSource,
    PortCaps, //
};
use rdma::sync::{
    Cx,
    Sleepable,
    Unlocked, //
};
use wire::mad::cm::{
    attr,
    reason,
    Cm,
    Rej,
    Rep,
    Req, //
};
use wire::mad::{
    class,
    method,
    CLASS_VERSION_2, //
};
use wire::Guid;

// What the agents of dedicated devices receive is what is understood here.
const _: () = assert!(rdma::cm::CLASS_VERSION == CLASS_VERSION_2);

/// The manager as the driver knows it.
pub(crate) struct Desk(pub(crate) Arc<Shared>);

impl Manager for Desk {
    type Device = Arc<Device>;

    fn claims(&self, name: &[u8]) -> bool {
        self.0.policies.mode_of(name) == Mode::Dedicated
    }

    fn add(
        &self,
        mut cx: Cx<'_, Unlocked>,
        s: Sleepable<'_>,
        adapter: Adapter,
    ) -> Result<Arc<Device>> {
        let device = Arc::new(Device::new(adapter), GFP_KERNEL)?;
        self.0.add_device(device.clone())?;
        // From here on who changes it finds the device.
        self.0.policies.level_of(&device.adapter).set(&device);
        let announced = device.announce(&mut cx, s, PortCaps::CM, PortCaps::NONE);
        if announced.is_err() {
            // Programs may have found it meanwhile.
            self.remove(cx, s, &device);
        }
        announced.map(|()| device)
    }

    fn remove(&self, mut cx: Cx<'_, Unlocked>, s: Sleepable<'_>, device: &Arc<Device>) {
        self.0.remove_device(device);
        self.0.watch.forget(&mut cx, device);
        let _ = device.announce(&mut cx, s, PortCaps::NONE, PortCaps::CM);
        while let Some(listener) = self.0.take_listener_on(device) {
            listener.consumer.tell_removed();
        }
        while let Some(connection) = self.0.any_on(Some(device)) {
            connection.abandon(&mut cx, s);
        }
        while let Some(question) = self.0.any_question_on(Some(device)) {
            question.abandon(&mut cx, s);
        }
    }

    fn receive(
        &self,
        mut cx: Cx<'_, Unlocked>,
        s: Sleepable<'_>,
        device: &Arc<Device>,
        mad: &Mad<'_>,
    ) -> Verdict {
        let Some(source) = mad.source else {
            return Verdict::Pass;
        };
        let is_ours = if Cm::from_bytes(mad.request).header().mgmt_class == class::CM {
            let is_ours = if self.take(&mut cx, s, device, mad, &source) {
                true
            } else if device.adapter.is_dedicated() {
                answer_unknown(&mut cx, s, device, mad, &source);
                true
            } else {
                self.0.watch.receive(&mut cx, s, device, mad, &source)
            };
            self.0.tally.count(is_ours);
            is_ours
        } else {
            self.0.watch.survey(&mut cx, s, device, mad, &source)
        };
        if is_ours {
            Verdict::Consumed
        } else {
            Verdict::Pass
        }
    }

    fn qp_event(
        &self,
        mut cx: Cx<'_, Unlocked>,
        s: Sleepable<'_>,
        device: &Arc<Device>,
        qpn: u32,
        event: QpEvent,
    ) -> Verdict {
        match event {
            QpEvent::Migrated => match self.0.connection_of(device, qpn) {
                Some(connection) => {
                    connection.migrated(&mut cx, s);
                    Verdict::Pass
                }
                None => self.0.watch.migrated(&mut cx, s, device, qpn),
            },
            QpEvent::MigrationFailed => self.0.watch.verdict(&mut cx, s, device, qpn),
            QpEvent::Gone => {
                // A program of this manager says itself when its connection is to end.
                if let Some(connection) = self.0.connection_of(device, qpn) {
                    connection.bound.part(qpn);
                }
                self.0.watch.gone(&mut cx, device, qpn);
                Verdict::Pass
            }
            QpEvent::Heard => {
                match self.0.connection_of(device, qpn) {
                    Some(connection) => {
                        let _ = connection.step(&mut cx, s, Event::Confirmed, None);
                    }
                    None => self.0.watch.heard(&mut cx, s, device, qpn),
                }
                Verdict::Pass
            }
        }
    }

    fn sent(&self, mut cx: Cx<'_, Unlocked>, device: &Arc<Device>, datagram: &Sent<'_>) {
        self.0.watch.sent(&mut cx, device, datagram);
    }
}

impl Desk {
    /// Takes a datagram, if it is for somebody here.
    fn take(
        &self,
        cx: &mut Cx<'_, Unlocked>,
        s: Sleepable<'_>,
        device: &Arc<Device>,
        offered: &Mad<'_>,
        from: &MadSource,
    ) -> bool {
        let mad = Cm::from_bytes(offered.request);
        let header = mad.header();
        if header.class_version != CLASS_VERSION_2 || header.method != method::SEND {
            return false;
        }
        let source = source_of(offered, from);
        let found = match mad.attr_id() {
            attr::REQ => {
                let req: Req = mad.message();
                let known = self.0.incoming((
                    device.adapter.guid(),
                    req.local_ca_guid.get(),
                    req.local_comm_id,
                ));
                match known {
                    Some(connection) if !connection.inspect(|conn| conn.concerns(mad)) => {
                        // A new request by an old name. Another manager of the peer may have the same name for a
                        // connection by chance, of which this one's knows nothing.
                        let is_ours =
                            connection.is_on(device) && self.listener(device, &req).is_some();
                        if is_ours {
                            refuse_stale(cx, s, &connection, mad, source, from.pkey_index);
                        }
                        return is_ours;
                    }
                    Some(connection) => Some(connection),
                    None => return self.welcome(cx, s, device, mad, source, from.pkey_index),
                }
            }
            attr::REJ if mad.remote_comm_id() == 0 => {
                requester(device, mad).and_then(|peer| self.0.incoming(peer))
            }
            attr::MRA
            | attr::REJ
            | attr::REP
            | attr::RTU
            | attr::DREQ
            | attr::DREP
            | attr::LAP
            | attr::APR => self.0.connection(mad.remote_comm_id()),
            attr::SIDR_REQ | attr::SIDR_REP => {
                let pkey_index = from.pkey_index;
                return question::take(&self.0, cx, s, device, mad, source, pkey_index);
            }
            _ => None,
        };
        let is_its = |connection: &Arc<Connection>| {
            connection.is_on(device) && connection.inspect(|conn| conn.concerns(mad))
        };
        match found.filter(is_its) {
            Some(connection) => {
                if !replied_stale(cx, s, &connection, mad, source) {
                    let _ = connection.step(cx, s, Event::Received(mad, source), Some(mad));
                }
                true
            }
            None => false,
        }
    }

    /// Who listens on this HCA for what a REQ asks for.
    fn listener(&self, device: &Arc<Device>, req: &Req) -> Option<Listener> {
        let service = (req.service_id, ServiceKind::Connections);
        let listener = self.0.listener(service)?;
        Arc::ptr_eq(&listener.device, device).then_some(listener)
    }

    /// Makes a connection of a REQ, if somebody listens for it, it is reliable or unreliable and has an MTU that there is,
    /// its queue pair has no other, and its paths begin here. One that there is no room for is lost; the peer repeats it.
    fn welcome(
        &self,
        cx: &mut Cx<'_, Unlocked>,
        s: Sleepable<'_>,
        device: &Arc<Device>,
        mad: &Cm,
        source: Source,
        pkey_index: u16,
    ) -> bool {
        let req: Req = mad.message();
        let Some(listener) = self.listener(device, &req) else {
            return false;
        };
        if refuse_transport(cx, s, device, mad, &source, pkey_index) {
            return true;
        }
        let conn = Conn::incoming(identity(&self.0, device), mad, source);
        let made = Connection::new(&self.0, device, conn, true, req.pkey.get());
        if let Ok(connection) = made {
            match connection.claim(req.local_ca_guid, req.local_qpn) {
                Ok(None) if connection.refuse_stray(cx, s) => connection.discard(cx, s),
                Ok(None) => consumer::welcome(&self.0, cx, s, &listener, &connection, mad),
                Ok(Some(old)) => {
                    connection.discard(cx, s);
                    refuse_stale(cx, s, &old, mad, source, pkey_index);
                }
                Err(_) => connection.discard(cx, s),
            }
        }
        true
    }
}

/// Tells the sender of a datagram that nobody here knows what it is about.
fn answer_unknown(
    cx: &mut Cx<'_, Unlocked>,
    s: Sleepable<'_>,
    device: &Device,
    offered: &Mad<'_>,
    from: &MadSource,
) {
    if let Some(answer) = unknown_answer(Cm::from_bytes(offered.request)) {
        let source = source_of(offered, from);
        reply(cx, s, device, &source, from.pkey_index, &answer);
    }
}

/// Sends an answer that is no connection's.
fn reply(
    cx: &mut Cx<'_, Unlocked>,
    s: Sleepable<'_>,
    device: &Device,
    source: &Source,
    pkey_index: u16,
    answer: &Cm,
) {
    if let Some((port, way)) = back(source, pkey_index) {
        let _ = device.adapter.send(cx, s, port, &way, answer.as_bytes());
    }
}

/// Refuses a REQ for another transport service than connections here have, or without an MTU; returns whether it does.
///
/// What it needs of the stack is not to be part of its caller's frame.
#[inline(never)]
fn refuse_transport(
    cx: &mut Cx<'_, Unlocked>,
    s: Sleepable<'_>,
    device: &Device,
    mad: &Cm,
    source: &Source,
    pkey_index: u16,
) -> bool {
    let Some(rej) = transport_refusal(mad) else {
        return false;
    };
    reply(cx, s, device, source, pkey_index, &rej);
    true
}

/// Refuses a REQ that shows that its peer has lost a connection, and ends that.
fn refuse_stale(
    cx: &mut Cx<'_, Unlocked>,
    s: Sleepable<'_>,
    old: &Arc<Connection>,
    mad: &Cm,
    source: Source,
    pkey_index: u16,
) {
    let rej = stale_refusal(mad);
    reply(cx, s, old.device(), &source, pkey_index, &rej);
    let _ = old.step(cx, s, Event::Stale(source), None);
}

/// Whether `mad` is the REP that a connection waits for, and names a queue pair that has another connection, which
/// is ended. Otherwise the queue pair is the connection's.
fn replied_stale(
    cx: &mut Cx<'_, Unlocked>,
    s: Sleepable<'_>,
    connection: &Arc<Connection>,
    mad: &Cm,
    source: Source,
) -> bool {
    if !connection.inspect(|conn| conn.awaits(mad, &source)) {
        return false;
    }
    let rep: Rep = mad.message();
    match connection.claim(rep.local_ca_guid, rep.local_qpn) {
        Ok(None) => false,
        Ok(Some(old)) => {
            let _ = connection.step(cx, s, Event::StaleRep(mad, source), Some(mad));
            let _ = old.step(cx, s, Event::Stale(source), None);
            true
        }
        // The peer repeats it.
        Err(_) => true,
    }
}

/// What a new connection is called.
pub(crate) fn identity(shared: &Shared, device: &Device) -> Identity {
    Identity {
        comm_id: shared.comm_id(),
        guid: Guid::new(device.adapter.guid()),
        tid_high: shared.tid_high(),
    }
}

/// Who takes back a REQ whose answer has not reached it: its CA GUID is in the additional information.
fn requester(device: &Device, mad: &Cm) -> Option<PeerKey> {
    let rej: Rej = mad.message();
    if rej.reason != reason::TIMEOUT {
        return None;
    }
    let guid = rej.info.first_chunk()?;
    Some((
        device.adapter.guid(),
        u64::from_be_bytes(*guid),
        mad.local_comm_id(),
    ))
}
