// SPDX-License-Identifier: GPL-2.0

//! Whom listeners, connections and questions belong to: open files of `/dev/sib_cm` ([`crate::session`]), and other
//! modules of the kernel ([`crate::client`]). What they give orders by are identifiers.

use crate::abi::Event;
use crate::client::Client;
use crate::connection::Connection;
use crate::device::Device;
use crate::question::Question;
use crate::session::Owner;
use crate::tables::{
    Listener,
    Service,
    Shared, //
};
use kernel::prelude::*;
use kernel::sync::Arc;
use proto::cm::{
    Event as ConnEvent,
    Order,
    SidrEvent,
    SidrOrder, //
};
use rdma::sync::{
    Cx,
    Sleepable,
    Unlocked, //
};
use wire::mad::cm::Cm;

/// Requests of peers that wait for a listener. What is more is lost, and repeated by the peer.
pub(crate) const BACKLOG: usize = 1024;

/// What an identifier stands for.
pub(crate) enum Purpose {
    /// Nothing yet.
    Nothing,
    /// A listener.
    Listener(Service),
    /// A connection.
    Connection(Arc<Connection>),
    /// A question for a queue pair.
    Question(Arc<Question>),
}

impl Purpose {
    /// Nobody wants it any more. `device` is that of the identifier.
    pub(crate) fn end(
        self,
        cx: &mut Cx<'_, Unlocked>,
        s: Sleepable<'_>,
        shared: &Shared,
        device: &Arc<Device>,
    ) {
        match self {
            Self::Nothing => {}
            Self::Listener(service) => shared.unlisten(service, device),
            Self::Connection(connection) => {
                let _ = connection.step(cx, s, ConnEvent::Order(Order::Destroy), None);
            }
            Self::Question(question) => {
                let order = SidrEvent::Order(SidrOrder::Destroy);
                let _ = question.step(cx, s, order, None);
            }
        }
    }
}

/// What orders are given by.
pub(crate) trait Identifier {
    /// What all have in common.
    fn shared(&self) -> Arc<Shared>;

    /// Calls `f` with its HCA, who is told of it, and what it stands for, which nobody changes meanwhile.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there is none, or what `f` returns.
    fn with<R>(
        &self,
        f: impl FnOnce(&Arc<Device>, Consumer, &mut Purpose) -> Result<R>,
    ) -> Result<R>;
}

/// Who is told.
#[derive(Clone)]
pub(crate) enum Consumer {
    /// The program that has a file.
    File(Owner),
    /// A module of the kernel.
    Kernel(Arc<Client>),
}

impl Consumer {
    /// Tells of an event.
    pub(crate) fn tell(&self, event: Event) {
        match self {
            Self::File(owner) => owner.tell(event),
            Self::Kernel(client) => client.tell(event),
        }
    }

    /// Tells that the HCA of a listener is gone, which somebody may destroy meanwhile.
    pub(crate) fn tell_removed(&self) {
        let event = crate::events::removed();
        match self {
            Self::File(owner) => owner.tell_if_there(event),
            Self::Kernel(client) => client.tell(event),
        }
    }

    /// What the identifier is called in an event.
    fn id(&self) -> u32 {
        match self {
            Self::File(owner) => owner.id,
            Self::Kernel(_) => 0,
        }
    }

    /// Whether one more request may wait.
    fn has_room(&self) -> bool {
        match self {
            Self::File(owner) => owner.session.has_room(),
            Self::Kernel(client) => client.has_room(),
        }
    }

    /// Makes an identifier for what a peer has asked this one for, and gives that to it by `belong`, before anybody
    /// else knows the identifier.
    fn adopt(
        &self,
        device: &Arc<Device>,
        purpose: Purpose,
        belong: impl FnOnce(Consumer),
    ) -> Result {
        match self {
            Self::File(owner) => owner.adopt(device, purpose, belong),
            Self::Kernel(client) => client.adopt(device, purpose, belong),
        }
    }
}

/// Gives a listener a connection that a peer has asked for.
pub(crate) fn welcome(
    shared: &Shared,
    cx: &mut Cx<'_, Unlocked>,
    s: Sleepable<'_>,
    listener: &Listener,
    connection: &Arc<Connection>,
    mad: &Cm,
) {
    let consumer = &listener.consumer;
    let insert = || {
        shared.insert(connection)?;
        let purpose = Purpose::Connection(connection.clone());
        consumer.adopt(connection.device(), purpose, |owner| {
            connection.belong(owner);
            connection.announce(mad, consumer.id());
        })
    };
    if !matches!(consumer.has_room().then(insert), Some(Ok(()))) {
        connection.discard(cx, s);
    }
}

/// Gives a listener a question that a peer asks.
pub(crate) fn consider(
    shared: &Shared,
    cx: &mut Cx<'_, Unlocked>,
    s: Sleepable<'_>,
    listener: &Listener,
    question: &Arc<Question>,
    mad: &Cm,
) {
    let consumer = &listener.consumer;
    let insert = || {
        shared.insert_question(question)?;
        let purpose = Purpose::Question(question.clone());
        consumer.adopt(question.device(), purpose, |owner| {
            question.belong(owner);
            question.announce(mad, consumer.id());
        })
    };
    if !matches!(consumer.has_room().then(insert), Some(Ok(()))) {
        question.discard(cx, s);
    }
}
