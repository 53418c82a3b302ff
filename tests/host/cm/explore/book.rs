// SPDX-License-Identifier: GPL-2.0

//! Connections and datagrams by number, so that a state is small, and each step is made once.

use super::{
    number_of,
    A,
    P, //
};
use crate::ends::{
    env,
    path,
    source, //
};
use proto::cm::{
    Action,
    Conn,
    Count,
    Event,
    LapTiming,
    Notice,
    Order,
    Refusal,
    Slot,
    State,
    Ways, //
};
use proto::time::Instant;
use proto::transport::MigState;
use std::collections::HashMap;
use std::hash::Hash;
use std::rc::Rc;
use wire::mad::cm::{
    attr,
    Cm, //
};

/// A connection in some state.
pub(super) type ConnId = u32;
/// A datagram.
pub(super) type MadId = u16;

/// What happens to a connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Happening {
    /// An order.
    Load(u8),
    Unload,
    Answer(u32, u8),
    Disconnect,
    Depart,
    /// A datagram comes, by the path of this number.
    Received(MadId, u8),
    Tick,
    /// The queue pair has these paths, and may have heard its peer by the first.
    Moved(u8, Option<u8>, bool),
    Confirmed,
}

/// What a connection does.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Deed {
    Sent(MadId),
    Told(Notice),
    Freed,
    /// Something came too late, or again, and always will have.
    Dropped,
}

/// A step: what becomes of the connection, and what it does, or why not.
pub(super) struct Step {
    pub(super) conn: ConnId,
    pub(super) deeds: Result<Vec<Deed>, Refusal>,
}

/// Things by number.
struct Catalogue<T> {
    list: Vec<T>,
    numbers: HashMap<T, usize>,
}

impl<T: Clone + Eq + Hash> Catalogue<T> {
    fn new() -> Self {
        Self {
            list: Vec::new(),
            numbers: HashMap::new(),
        }
    }

    fn number(&mut self, it: T) -> usize {
        let next = self.list.len();
        *self.numbers.entry(it).or_insert_with_key(|it| {
            self.list.push(it.clone());
            next
        })
    }
}

/// All of them.
pub(super) struct Book {
    conns: Catalogue<(usize, Conn)>,
    mads: Catalogue<[u8; 256]>,
    steps: HashMap<(ConnId, Happening, u8), Rc<Step>>,
    /// Older LAPs are dropped.
    monotonic: bool,
}

impl Book {
    pub(super) fn new(monotonic: bool) -> Self {
        let mut book = Self {
            conns: Catalogue::new(),
            mads: Catalogue::new(),
            steps: HashMap::new(),
            monotonic,
        };
        // So that 0 is none.
        let _ = book.mad([0; 256]);
        book
    }

    pub(super) fn conn(&self, id: ConnId) -> &Conn {
        &self.conns.list[id as usize].1
    }

    pub(super) fn state(&self, id: ConnId) -> State {
        self.conn(id).state()
    }

    fn mad(&mut self, bytes: [u8; 256]) -> MadId {
        MadId::try_from(self.mads.number(bytes)).expect("few datagrams")
    }

    pub(super) fn mad_of(&self, id: MadId) -> &Cm {
        Cm::from_bytes(&self.mads.list[usize::from(id)])
    }

    /// The number of a connection. Where its last datagram came from is of no matter here, as it decides but which way
    /// replies go; so it is as if one without a meaning had come by the path in use.
    pub(super) fn number(&mut self, end: usize, mut conn: Conn) -> ConnId {
        let (ours, theirs) = conn.comm_ids();
        let mut nothing = Cm::new(attr::SAP, 0);
        nothing.data_mut()[..4].copy_from_slice(&theirs.to_be_bytes());
        nothing.data_mut()[4..8].copy_from_slice(&ours.to_be_bytes());
        let from = source(end == P, number_of(conn.primary()));
        let event = Event::Received(&nothing, from);
        let done = conn.step(event, &env(Instant::default(), MigState::Migrated));
        assert_eq!(done.map(|done| done.iter().count()), Ok(0));
        self.conns.number((end, conn)) as ConnId
    }

    /// Steps a connection whose queue pair is in this state of migration.
    pub(super) fn step(
        &mut self,
        id: ConnId,
        happening: Happening,
        migration: MigState,
    ) -> Rc<Step> {
        let key = (id, happening, migration as u8);
        if let Some(step) = self.steps.get(&key) {
            return step.clone();
        }
        let step = Rc::new(self.make(id, happening, migration));
        self.steps.insert(key, step.clone());
        step
    }

    fn make(&mut self, id: ConnId, happening: Happening, migration: MigState) -> Step {
        let (end, mut conn) = self.conns.list[id as usize].clone();
        let timing = LapTiming {
            response: 16,
            retries: 1,
        };
        let seen = |number: u8| {
            if end == A {
                path(number)
            } else {
                path(number).reversed()
            }
        };
        let mut now = Instant::default();
        let (lap, ways, mad);
        let event = match happening {
            Happening::Load(number) => {
                lap = path(number);
                Event::Order(Order::Load(&lap, timing, &[]))
            }
            Happening::Unload => Event::Order(Order::Unload),
            Happening::Answer(generation, status) => {
                Event::Order(Order::Answer(generation, status, &[], &[]))
            }
            Happening::Disconnect => Event::Order(Order::Disconnect(&[])),
            Happening::Depart => Event::Order(Order::Depart(&[])),
            Happening::Received(number, by) => {
                let told = self.mad_of(number);
                mad = if self.monotonic {
                    told.clone()
                } else {
                    unordered(told)
                };
                Event::Received(&mad, source(end == P, by))
            }
            Happening::Tick => {
                now = conn.deadline().unwrap_or_default();
                Event::Tick
            }
            Happening::Moved(primary, alternate, is_heard) => {
                ways = Ways {
                    primary: seen(primary),
                    alternate: alternate.map(seen),
                    is_heard,
                };
                Event::Moved(&ways)
            }
            Happening::Confirmed => Event::Confirmed,
        };
        match conn.step(event, &env(now, migration)) {
            Ok(actions) => {
                let mut deeds = Vec::new();
                for action in actions.iter() {
                    deeds.push(match action {
                        Action::Send(slot) => Deed::Sent(self.send(&conn, slot)),
                        Action::Tell(notice) => Deed::Told(notice),
                        Action::Free => Deed::Freed,
                        Action::Count(Count::LapStale | Count::AprStale | Count::AprDuplicate) => {
                            Deed::Dropped
                        }
                        Action::Count(_) => continue,
                    });
                }
                Step {
                    conn: self.number(end, conn),
                    deeds: Ok(deeds),
                }
            }
            Err(refusal) => Step {
                conn: id,
                deeds: Err(refusal),
            },
        }
    }

    fn send(&mut self, conn: &Conn, slot: Slot) -> MadId {
        self.mad(*conn.datagram(slot).as_bytes())
    }

    /// Whether a datagram under way will be dropped whenever it comes: it is too old, or has come, and transaction IDs grow.
    pub(super) fn is_dead(&mut self, id: ConnId, mad: MadId) -> bool {
        if !self.monotonic {
            return false;
        }
        let by = number_of(self.conn(id).primary());
        let step = self.step(id, Happening::Received(mad, by), MigState::Migrated);
        step.deeds
            .as_ref()
            .is_ok_and(|deeds| deeds.contains(&Deed::Dropped))
    }
}

/// The datagram with a transaction ID that is as unique as its own, but does not grow: what the passive end makes
/// of it is what it would if IDs had no order.
fn unordered(mad: &Cm) -> Cm {
    let mut bytes = *mad.as_bytes();
    let low = u32::from_be_bytes([bytes[12], bytes[13], bytes[14], bytes[15]]);
    let high = u32::from_be_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]);
    match (mad.attr_id(), low) {
        (attr::LAP, _) => bytes[8..12].copy_from_slice(&(low + 0x100).to_be_bytes()),
        (attr::APR | attr::MRA, _) if high > 0x100 => {
            bytes[8..12].copy_from_slice(&1u32.to_be_bytes())
        }
        _ => {}
    }
    Cm::from_bytes(&bytes).clone()
}
