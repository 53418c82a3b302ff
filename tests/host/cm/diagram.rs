// SPDX-License-Identifier: GPL-2.0

//! The diagram of states on the page about connection management: it is what the machine does.

use crate::ends::{
    active,
    env,
    passive,
    path,
    reply,
    request,
    source,
    PASSIVE_ID, //
};
use proto::cm::{
    Conn,
    Event,
    LapTiming,
    Order,
    Role,
    Slot,
    Source, //
};
use proto::time::Instant;
use proto::transport::MigState;
use std::collections::{
    BTreeMap,
    VecDeque, //
};
use std::fmt::Write;
use wire::mad::cm::{
    mraed,
    reason,
    rejected,
    Apr,
    Cm,
    Drep,
    Dreq,
    Lap,
    Message,
    Mra,
    Path,
    Rej,
    Rep,
    Rtu, //
};

const PAGE: &str = include_str!("../../../Documentation/cm.rst");
const BEGIN: &str = ".. The next table is what tests/host/cm/diagram.rs says.\n\n";
const END: &str = "\n.. Here it ends.\n";

/// What may happen, and what it is called.
#[derive(Clone, Copy)]
enum Happens {
    Connect,
    Accept,
    Ready,
    Reject,
    Delay,
    Established,
    Disconnect,
    Depart,
    Load,
    Answer,
    Destroy,
    Req,
    Mra(u8),
    Rej,
    Rep,
    Rtu,
    Dreq,
    Drep,
    Lap,
    Apr,
    Time,
    Migrated,
    Stale,
    Gone,
}

const ALL: [(Happens, &str); 26] = [
    (Happens::Connect, "SEND_REQ"),
    (Happens::Accept, "SEND_REP"),
    (Happens::Ready, "SEND_RTU"),
    (Happens::Reject, "SEND_REJ"),
    (Happens::Delay, "SEND_MRA"),
    (Happens::Established, "NOTIFY"),
    (Happens::Disconnect, "SEND_DREQ"),
    (Happens::Depart, "SEND_DREP"),
    (Happens::Load, "SEND_LAP"),
    (Happens::Answer, "SEND_APR"),
    (Happens::Destroy, "DESTROY_ID"),
    (Happens::Req, "REQ"),
    (Happens::Mra(mraed::REQ), "MRA of REQ"),
    (Happens::Mra(mraed::REP), "MRA of REP"),
    (Happens::Mra(mraed::LAP), "MRA of LAP"),
    (Happens::Rej, "REJ"),
    (Happens::Rep, "REP"),
    (Happens::Rtu, "RTU"),
    (Happens::Dreq, "DREQ"),
    (Happens::Drep, "DREP"),
    (Happens::Lap, "LAP"),
    (Happens::Apr, "APR"),
    (Happens::Time, "time"),
    (Happens::Migrated, "migration"),
    (Happens::Stale, "stale"),
    (Happens::Gone, "no HCA"),
];

/// Connections that are kept of each kind, to see what happens to them: they have come there by several ways.
const KEPT: usize = 12;

/// An end and the time there.
#[derive(Clone, PartialEq)]
struct End {
    conn: Conn,
    now: Instant,
}

impl End {
    fn key(&self) -> (u8, String, bool) {
        let role = u8::from(self.conn.role() == Role::Passive);
        let state = format!("{:?}", self.conn.state());
        (role, state, self.conn.alternate().is_some())
    }

    fn step(&mut self, event: Event<'_>) {
        // What is refused changes nothing.
        let _ = self.conn.step(event, &env(self.now, MigState::Rearm));
    }

    /// The peer's port.
    fn peer(&self) -> Source {
        Source {
            slid: self.conn.primary().remote_lid,
            ..source(true, 0)
        }
    }

    /// A message of the peer, about the connection.
    fn hear<M: Message>(&mut self, tid: u64, message: &M) {
        let mut mad = Cm::new(M::KIND.attr(), tid);
        mad.set_message(message);
        let from = self.peer();
        self.step(Event::Received(&mad, from));
    }

    /// Has something happen.
    fn meet(&mut self, what: Happens, req: &Cm) {
        let (remote_comm_id, known) = self.conn.comm_ids();
        let local_comm_id = if known == 0 { PASSIVE_ID } else { known };
        let remote_qpn = self.conn.local_qpn();
        // The answer to what was sent last.
        let tid = self.conn.datagram(Slot::Request).tid();
        let order = |end: &mut Self, order: Order<'_>| end.step(Event::Order(order));
        let (offered, request): (Path, _) = (path(1), request());
        match what {
            Happens::Connect => order(self, Order::Connect(&request, &[])),
            Happens::Accept => order(self, Order::Accept(&reply(), &[])),
            Happens::Ready => order(self, Order::Ready(&[])),
            Happens::Reject => order(self, Order::Reject(reason::CONSUMER_DEFINED, &[], &[])),
            Happens::Delay => order(self, Order::Delay(18, &[])),
            Happens::Established => order(self, Order::Established),
            Happens::Disconnect => order(self, Order::Disconnect(&[])),
            Happens::Depart => order(self, Order::Depart(&[])),
            Happens::Load => order(self, Order::Load(&offered, LapTiming::default(), &[])),
            Happens::Answer => (1..4).for_each(|it| order(self, Order::Answer(it, 0, &[], &[]))),
            Happens::Destroy => order(self, Order::Destroy),
            Happens::Req => self.step(Event::Received(req, source(true, 0))),
            Happens::Mra(message_mraed) => self.hear(
                tid,
                &Mra {
                    local_comm_id,
                    remote_comm_id,
                    message_mraed,
                    service_timeout: 16,
                },
            ),
            Happens::Rej => self.hear(
                tid,
                &Rej {
                    local_comm_id,
                    remote_comm_id,
                    message_rejected: rejected::OTHER,
                    reason: reason::CONSUMER_DEFINED,
                    ..Rej::default()
                },
            ),
            Happens::Rep => self.hear(
                tid,
                &Rep {
                    local_comm_id,
                    remote_comm_id,
                    ..reply()
                },
            ),
            Happens::Rtu => self.hear(
                req.tid(),
                &Rtu {
                    local_comm_id,
                    remote_comm_id,
                },
            ),
            Happens::Dreq => self.hear(
                9,
                &Dreq {
                    local_comm_id,
                    remote_comm_id,
                    remote_qpn,
                },
            ),
            Happens::Drep => self.hear(
                tid,
                &Drep {
                    local_comm_id,
                    remote_comm_id,
                },
            ),
            Happens::Lap => self.hear(
                // Later than any that has come.
                1 << 32 | self.conn.datagram(Slot::Reply).tid().wrapping_add(100) & 0xffff,
                &Lap {
                    local_comm_id,
                    remote_comm_id,
                    remote_qpn,
                    remote_cm_response_timeout: 16,
                    path: offered,
                },
            ),
            Happens::Apr => self.hear(
                tid,
                &Apr {
                    local_comm_id,
                    remote_comm_id,
                    ..Apr::default()
                },
            ),
            Happens::Time => {
                let before = self.conn.state();
                while let Some(deadline) = self.conn.deadline() {
                    self.now = deadline;
                    self.step(Event::Tick);
                    if self.conn.state() != before {
                        break;
                    }
                }
            }
            Happens::Migrated => self.step(Event::Migrated),
            Happens::Stale => self.step(Event::Stale(self.peer())),
            Happens::Gone => self.step(Event::Gone),
        }
    }
}

/// What each state is left by, and to where: for the requester and for the responder.
pub(crate) type Diagram = BTreeMap<String, [Vec<(&'static str, String)>; 2]>;

pub(crate) fn explore() -> Diagram {
    let now = Instant::default();
    let idle = End {
        conn: Conn::new(active()),
        now,
    };
    let mut asking = idle.clone();
    asking.meet(Happens::Connect, &Cm::new(0, 0));
    let req = asking.conn.datagram(Slot::Request).clone();
    let asked = End {
        conn: Conn::incoming(passive(), &req, source(true, 0)),
        now,
    };
    let mut diagram = Diagram::new();
    let mut known: BTreeMap<_, Vec<End>> = BTreeMap::new();
    let mut todo = VecDeque::from([idle, asked]);
    // The shortest ways first.
    while let Some(end) = todo.pop_front() {
        let kept = known.entry(end.key()).or_default();
        if kept.len() >= KEPT || kept.contains(&end) {
            continue;
        }
        kept.push(end.clone());
        let (role, state, _) = end.key();
        for (what, name) in ALL {
            let mut next = end.clone();
            next.meet(what, &req);
            let (_, to, _) = next.key();
            let edges = &mut diagram.entry(state.clone()).or_default()[usize::from(role)];
            if to != state && !edges.contains(&(name, to.clone())) {
                edges.push((name, to));
            }
            // Nobody gives orders any more to one that has been let go of.
            if !matches!(what, Happens::Destroy) {
                todo.push_back(next);
            }
        }
    }
    diagram
}

/// The states as the page has them, in the order of a connection's life.
pub(crate) const STATES: [&str; 17] = [
    "Idle",
    "ReqSent",
    "MraReqRcvd",
    "ReqRcvd",
    "MraReqSent",
    "RepSent",
    "MraRepRcvd",
    "RepRcvd",
    "MraRepSent",
    "Established(Idle)",
    "Established(LapSent)",
    "Established(MraLapRcvd)",
    "Established(LapRcvd)",
    "Established(MraLapSent)",
    "DreqSent",
    "DreqRcvd",
    "Timewait",
];

/// Where edges lead, and what each of these states is come to by.
pub(crate) fn by_state(edges: &[(&'static str, String)]) -> Vec<(String, String)> {
    let mut by_state: Vec<(&String, Vec<&str>)> = Vec::new();
    for (_, name) in ALL {
        for (_, to) in edges.iter().filter(|(event, _)| *event == name) {
            match by_state.iter_mut().find(|(known, _)| *known == to) {
                Some((_, events)) => events.push(name),
                None => by_state.push((to, vec![name])),
            }
        }
    }
    let joined = by_state.into_iter().map(|(to, mut events)| {
        // Those of both roles.
        events.dedup();
        (to.clone(), events.join(", "))
    });
    joined.collect()
}

fn cell(edges: &[(&'static str, String)]) -> String {
    let lines = by_state(edges)
        .into_iter()
        .map(|(to, events)| format!("| {events} → {to}"));
    lines.collect::<Vec<_>>().join("\n       ")
}

fn page() -> String {
    let diagram = explore();
    assert_eq!(diagram.len(), STATES.len(), "{:?}", diagram.keys());
    let mut page = String::from(
        ".. list-table::\n   :header-rows: 1\n   :widths: 24 38 38\n\n   * - state\n     - requester\n     - responder\n",
    );
    for state in STATES {
        let [requester, responder] = &diagram[state];
        writeln!(page, "   * - {state}").unwrap();
        for edges in [requester, responder] {
            let cell = cell(edges);
            let space = if cell.is_empty() { "" } else { " " };
            writeln!(page, "     -{space}{cell}").unwrap();
        }
    }
    page
}

#[test]
fn the_page_shows_what_the_machine_does() {
    let begin = PAGE.find(BEGIN).expect("no table") + BEGIN.len();
    let end = PAGE[begin..].find(END).expect("no end of the table") + begin;
    let want = page();
    assert!(
        PAGE[begin..end] == want,
        "put this into Documentation/cm.rst:\n{want}"
    );
}
