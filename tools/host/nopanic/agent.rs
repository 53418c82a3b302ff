// SPDX-License-Identifier: GPL-2.0

//! Subnet administration of `proto`, which is generic over its storage.

use core::marker::PhantomData;
use proto::fabric::Mad;
use proto::sa::{
    Address,
    Agent,
    Config,
    Group,
    Member,
    Next,
    Pending,
    Report,
    Request,
    Service,
    Stock,
    Storage,
    Subscription,
    Transfer, //
};
use proto::sm::Manager;
use proto::time::Instant;
use wire::Lid;

/// Storage that somebody lends.
pub struct Lent<'a>(PhantomData<&'a ()>);

impl<'a> Storage for Lent<'a> {
    type Groups = &'a mut [Group];
    type Members = &'a mut [Member];
    type Services = &'a mut [Service];
    type Subscriptions = &'a mut [Subscription];
    type Reports = &'a mut [Pending];
    type Requests = &'a mut [Request];
    type Transfers = &'a mut [Transfer];
    type Tables = &'a mut [u8];
}

pub fn new(stock: Stock<Lent<'_>>) -> Agent<Lent<'_>> {
    Agent::new(Config::new(), stock)
}

pub fn poll(
    agent: &mut Agent<Lent<'_>>,
    manager: &mut Manager<crate::sm::Lent<'_>>,
    now: Instant,
) -> Next {
    let next = agent.poll(manager, now);
    if !manager.is_steady() {
        agent.renew();
    }
    next
}

pub fn on_gmp(agent: &mut Agent<Lent<'_>>, mad: &Mad, from: Address, now: Instant) -> bool {
    agent.on_gmp(mad, from, now)
}

pub fn look(agent: &Agent<Lent<'_>>, mlid: Lid, each: fn(&Group, &Member)) -> Report {
    for group in agent.groups() {
        for member in agent.members(mlid) {
            each(group, member);
        }
    }
    *agent.report()
}
