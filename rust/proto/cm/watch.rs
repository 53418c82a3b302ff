// SPDX-License-Identifier: GPL-2.0

//! Connections that another manager makes, and knows no alternate paths for.
//!
//! A [`Watched`] sees the datagrams of that manager, sent and received, and learns from them what there is to know
//! of one connection. When that is established, a [`Conn`] is made of it, and LAP, MRA and APR of the connection are
//! answered here: a path that is agreed on is loaded at once, by [`Hands`], and the owner of the queue pair knows
//! nothing of it.
//!
//! The end that has asked for the connection may offer paths ([`Watched::tick`]): it asks the manager at the other
//! end first, by [`Survey`], whether it knows the connection too, by what ports its HCA can be reached, and whether it
//! has followed the last migration.

use super::adopt::Adoption;
use super::event::{
    Action,
    Count,
    Env,
    Event,
    LapTiming,
    Notice,
    Order,
    Refusal,
    Slot,
    Source,
    Ways, //
};
use super::state::{
    Ap,
    Role,
    State, //
};
use super::{
    is_way_of,
    Conn,
    Identity, //
};
use crate::time::{
    Duration,
    Instant, //
};
use wire::mad::cm::{
    ap_status,
    attr,
    failover,
    mraed,
    service_type,
    Cm,
    Dreq,
    Mra,
    Path,
    Rep,
    Req, //
};
use wire::mad::survey::{
    Survey,
    SurveyPort,
    SurveyPorts, //
};
use wire::{
    Gid,
    Guid,
    Lid,
    PortNum,
    Qpn, //
};

/// How long a connection must have lasted before it is given a path: many end sooner.
pub const START: Duration = Duration::from_millis(200);

/// How soon it is tried again when there is no port for a path, or the peer has not followed yet.
pub const PERIOD: Duration = Duration::from_millis(1000);

/// How soon it is tried again when the peer does not know what is wanted of it.
pub const PAUSE: Duration = Duration::from_millis(10_000);

/// How long an answer to a question may take, and how often a question is repeated.
pub const PATIENCE: Duration = Duration::from_millis(500);
/// See [`PATIENCE`].
pub const REPEATS: u8 = 3;

/// Which way a datagram has gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From here to the peer.
    Sent,
    /// From the peer to here.
    Received,
}

/// What is wanted of the paths that are offered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wishes {
    /// The one to offer, while it is there and not in use.
    pub choice: Option<Choice>,
    /// How long an answer may take.
    pub timing: LapTiming,
}

/// A path, by its ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The port of this HCA.
    pub local: PortNum,
    /// The port of the peer.
    pub remote: End,
}

/// A port of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By its LID.
    Lid(Lid),
    /// By its GID.
    Gid(Gid),
}

impl End {
    fn is(&self, port: &SurveyPort) -> bool {
        match self {
            Self::Lid(lid) => port.lid == *lid,
            Self::Gid(gid) => port.gid == *gid,
        }
    }
}

/// How far a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// There has been a REQ.
    Asked,
    /// And a REP.
    Answered,
    /// And an RTU, or a LAP, which stands for one that was lost.
    Established,
    /// A DREQ or a DREP: no more paths.
    Ending,
}

/// What a datagram has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Nothing that others need to know.
    None,
    /// The communication ID of this end is known now.
    Named,
    /// It is established.
    Established,
    /// It ends.
    Ending,
    /// It never comes to be.
    Over,
}

/// What a connection has done for it.
pub trait Hands {
    /// Sends a datagram of the connection.
    fn send(&mut self, conn: &Conn, slot: Slot);
    /// Counts something of the connection.
    fn count(&mut self, conn: &Conn, count: Count);
    /// Loads an alternate path into the queue pair of this end, the first of `qpns`, and asks for REARM. It is to be in
    /// RTS, and connected to the second one by the path in use: programs need not have told the truth to each other.
    /// Returns whether that has been done.
    fn load(&mut self, conn: &Conn, qpns: (Qpn, Qpn), path: &Path) -> bool;
    /// Sends a question along the path in use.
    fn ask(&mut self, conn: &Conn, question: &Survey);
}

/// A question that waits for its answer.
#[derive(Clone, Copy, Debug)]
struct Question {
    tid: u64,
    due: Instant,
    left: u8,
}

/// A connection that is watched.
pub struct Watched {
    identity: Identity,
    known: Adoption,
    stage: Stage,
    req_tid: u64,
    conn: Option<Conn>,
    question: Option<Question>,
    /// When a path is tried to be offered next.
    next: Instant,
    /// Somebody else manages the paths of the queue pair.
    is_foreign: bool,
}

impl Watched {
    /// What is known of a connection from its REQ; `None` if that is none, or one for a connection that has no
    /// alternate paths or brings its own. `identity` is that of the HCA: the communication ID is learnt.
    pub fn new(identity: Identity, mad: &Cm, way: Way, now: Instant) -> Option<Self> {
        if mad.attr_id() != attr::REQ {
            return None;
        }
        let req: Req = mad.message();
        let is_connected = matches!(
            req.transport_service_type,
            service_type::RC | service_type::UC
        );
        if !is_connected || req.has_alternate() {
            return None;
        }
        let known = match way {
            Way::Sent => Adoption {
                role: Role::Active,
                local_qpn: req.local_qpn,
                primary: req.primary,
                response: req.remote_cm_response_timeout,
                ..Adoption::default()
            },
            Way::Received => Adoption {
                role: Role::Passive,
                remote_id: req.local_comm_id,
                remote_guid: req.local_ca_guid,
                remote_qpn: req.local_qpn,
                primary: req.primary.reversed(),
                response: req.local_cm_response_timeout,
                ..Adoption::default()
            },
        };
        let comm_id = match way {
            Way::Sent => req.local_comm_id,
            Way::Received => 0,
        };
        Some(Self {
            identity: Identity {
                comm_id,
                ..identity
            },
            known: Adoption {
                pkey: req.pkey,
                max_retries: req.max_cm_retries,
                ..known
            },
            stage: Stage::Asked,
            req_tid: mad.tid(),
            conn: None,
            question: None,
            next: now,
            is_foreign: false,
        })
    }

    /// How far it is.
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// Who began.
    pub fn role(&self) -> Role {
        self.known.role
    }

    /// The communication IDs of this end and of the peer; 0 if they are not known yet.
    pub fn comm_ids(&self) -> (u32, u32) {
        (self.identity.comm_id, self.known.remote_id)
    }

    /// The queue pairs of this end and of the peer; 0 if they are not known yet.
    pub fn qpns(&self) -> (Qpn, Qpn) {
        (self.known.local_qpn, self.known.remote_qpn)
    }

    /// GUID of the peer's HCA.
    pub fn remote_guid(&self) -> Guid {
        self.known.remote_guid
    }

    /// The path in use.
    pub fn primary(&self) -> &Path {
        self.conn
            .as_ref()
            .map_or(&self.known.primary, Conn::primary)
    }

    /// The alternate path, if there is one.
    pub fn alternate(&self) -> Option<&Path> {
        self.conn.as_ref().and_then(Conn::alternate)
    }

    /// Whether somebody else manages the paths of the queue pair.
    pub fn is_foreign(&self) -> bool {
        self.is_foreign
    }

    /// Where the exchange of paths is.
    pub fn state(&self) -> State {
        self.conn.as_ref().map_or(State::Idle, Conn::state)
    }

    /// Whether a datagram has both communication IDs, as far as they are known here.
    fn is_about(&self, mad: &Cm, way: Way) -> bool {
        let (ours, theirs) = match way {
            Way::Sent => (mad.local_comm_id(), mad.remote_comm_id()),
            Way::Received => (mad.remote_comm_id(), mad.local_comm_id()),
        };
        (ours, theirs) == self.comm_ids()
    }

    /// The peer is to have no say in paths, and gets none: what it offers is refused. Counts for connections that are
    /// not established yet; the peer is known when this has been [`Progress::Named`].
    pub fn forbid(&mut self) {
        self.known.can_fail_over = false;
    }

    /// Looks at a datagram of the other manager.
    pub fn observe(&mut self, mad: &Cm, way: Way, now: Instant) -> Progress {
        match mad.attr_id() {
            attr::REP => self.answered(mad, way),
            attr::RTU => self.completed(mad, way, now),
            attr::REJ => self.rejected(mad, way),
            attr::DREQ => {
                let names_us =
                    way == Way::Sent || mad.message::<Dreq>().remote_qpn == self.known.local_qpn;
                if names_us {
                    self.ended(mad, way)
                } else {
                    Progress::None
                }
            }
            attr::DREP => self.ended(mad, way),
            _ => Progress::None,
        }
    }

    fn answered(&mut self, mad: &Cm, way: Way) -> Progress {
        if self.stage != Stage::Asked || mad.tid() != self.req_tid {
            return Progress::None;
        }
        let rep: Rep = mad.message();
        match (self.known.role, way) {
            (Role::Active, Way::Received) if rep.remote_comm_id == self.identity.comm_id => {
                self.known.remote_id = rep.local_comm_id;
                self.known.remote_guid = rep.local_ca_guid;
                self.known.remote_qpn = rep.local_qpn;
            }
            (Role::Passive, Way::Sent) if rep.remote_comm_id == self.known.remote_id => {
                self.identity.comm_id = rep.local_comm_id;
                self.known.local_qpn = rep.local_qpn;
            }
            (Role::Active | Role::Passive, Way::Sent | Way::Received) => return Progress::None,
        }
        self.known.can_fail_over = rep.failover_accepted != failover::NOT_SUPPORTED;
        self.stage = Stage::Answered;
        Progress::Named
    }

    fn completed(&mut self, mad: &Cm, way: Way, now: Instant) -> Progress {
        let is_its = match self.known.role {
            Role::Active => way == Way::Sent,
            Role::Passive => way == Way::Received,
        };
        if self.stage != Stage::Answered || !is_its || !self.is_about(mad, way) {
            return Progress::None;
        }
        self.establish(now);
        Progress::Established
    }

    fn establish(&mut self, now: Instant) {
        self.conn = Some(Conn::adopted(self.identity, &self.known));
        self.stage = Stage::Established;
        self.next = now.after(START);
    }

    /// One of the peer ends a connection for its manager even if that is established: the peer has waited in vain for the
    /// RTU. It sends none itself then.
    fn rejected(&mut self, mad: &Cm, way: Way) -> Progress {
        let (ours, theirs) = match way {
            Way::Sent => (mad.local_comm_id(), mad.remote_comm_id()),
            Way::Received => (mad.remote_comm_id(), mad.local_comm_id()),
        };
        let fits = |id: u32, known: u32| id == known || id == 0 || known == 0;
        let (our_id, their_id) = self.comm_ids();
        match self.stage {
            Stage::Asked | Stage::Answered if fits(ours, our_id) && fits(theirs, their_id) => {
                Progress::Over
            }
            Stage::Established if way == Way::Received => self.ended(mad, way),
            Stage::Asked | Stage::Answered | Stage::Established | Stage::Ending => Progress::None,
        }
    }

    fn ended(&mut self, mad: &Cm, way: Way) -> Progress {
        match self.stage {
            Stage::Answered | Stage::Established if self.is_about(mad, way) => {
                self.stage = Stage::Ending;
                self.question = None;
                Progress::Ending
            }
            Stage::Asked | Stage::Answered | Stage::Established | Stage::Ending => Progress::None,
        }
    }

    /// The queue pair of this end is not connected any more: no more paths.
    pub fn gone(&mut self) {
        self.stage = Stage::Ending;
        self.question = None;
    }

    /// The owner of the queue pair manages its paths himself: it is left alone for good.
    pub fn leave(&mut self) {
        self.is_foreign = true;
        self.question = None;
    }

    /// Whether `mad` is the REQ that it is known by.
    pub fn is_request(&self, mad: &Cm) -> bool {
        mad.attr_id() == attr::REQ && mad.tid() == self.req_tid
    }

    /// Whether a LAP, an MRA or an APR that was received is about this connection, which nobody else answers then.
    pub fn is_concerned(&self, mad: &Cm) -> bool {
        let is_about_paths = match mad.attr_id() {
            attr::LAP | attr::APR => true,
            attr::MRA => mad.message::<Mra>().message_mraed == mraed::LAP,
            _ => false,
        };
        is_about_paths && self.stage != Stage::Asked && self.is_about(mad, Way::Received)
    }

    /// Takes a datagram that it [is concerned](Self::is_concerned) by.
    pub fn receive(&mut self, mad: &Cm, source: Source, env: &Env<'_>, hands: &mut dyn Hands) {
        if self.is_foreign {
            return;
        }
        if self.stage == Stage::Answered
            && self.known.role == Role::Passive
            && mad.attr_id() == attr::LAP
        {
            // Whoever sends it is established: the RTU was lost.
            self.establish(env.now);
        }
        if self.stage == Stage::Established {
            let _ = self.drive(Event::Received(mad, source), env, hands);
        }
    }

    /// Steps the machine, as its consumer.
    fn drive(
        &mut self,
        event: Event<'_>,
        env: &Env<'_>,
        hands: &mut dyn Hands,
    ) -> Result<(), Refusal> {
        let qpns = self.qpns();
        let Some(conn) = &mut self.conn else {
            return Err(Refusal::Invalid);
        };
        let actions = conn.step(event, env)?;
        for action in actions.iter() {
            match action {
                Action::Send(slot) => hands.send(conn, slot),
                Action::Count(count) => hands.count(conn, count),
                Action::Tell(Notice::LapReceived(generation, path)) => {
                    let status = if hands.load(conn, qpns, &path) {
                        ap_status::LOADED
                    } else {
                        ap_status::REJECTED
                    };
                    let answer = Order::Answer(generation, status, &[], &[]);
                    let replies = conn.step(Event::Order(answer), env)?;
                    for reply in replies.iter() {
                        match reply {
                            Action::Send(slot) => hands.send(conn, slot),
                            Action::Count(count) => hands.count(conn, count),
                            Action::Tell(_) | Action::Free => {}
                        }
                    }
                }
                Action::Tell(Notice::AprReceived(status, path)) => {
                    if status != ap_status::LOADED {
                        self.next = env.now.after(PAUSE);
                    } else if !hands.load(conn, qpns, &path) {
                        conn.step(Event::Order(Order::Unload), env)?;
                        self.next = env.now.after(PAUSE);
                    }
                }
                Action::Tell(Notice::LapError(_)) => self.next = env.now.after(PAUSE),
                // All else is the business of the other manager.
                Action::Tell(
                    Notice::ReqReceived
                    | Notice::RepReceived
                    | Notice::RtuReceived
                    | Notice::MraReceived
                    | Notice::RejReceived
                    | Notice::DreqReceived
                    | Notice::DrepReceived
                    | Notice::ReqError
                    | Notice::RepError
                    | Notice::DreqError
                    | Notice::TimewaitExit
                    | Notice::Established
                    | Notice::Migrated(_)
                    | Notice::RepStale
                    | Notice::Stale
                    | Notice::Removed,
                )
                | Action::Free => {}
            }
        }
        Ok(())
    }

    /// The queue pair has gone over, and has these paths now. Returns whether it was to a path that was loaded here, and
    /// not by somebody else who manages them. It is no news that the path in use is the one that is known: that has been
    /// seen with an earlier migration, or the migration was one of an earlier connection.
    pub fn migrated(&mut self, ways: &Ways, env: &Env<'_>, hands: &mut dyn Hands) -> bool {
        if is_way_of(&ways.primary, self.primary()) {
            return false;
        }
        let conn = self.conn.as_ref();
        let is_ours = conn.is_some_and(|conn| conn.known(&ways.primary).is_some());
        let followed = is_ours && self.drive(Event::Moved(ways), env, hands).is_ok();
        // Somebody else who manages the paths may go to one that is known here.
        self.is_foreign |= !followed;
        self.next = env.now.after(START);
        self.question = None;
        !self.is_foreign
    }

    /// The peer has been heard on the path that the queue pair has gone over to.
    pub fn confirmed(&mut self, env: &Env<'_>, hands: &mut dyn Hands) {
        let _ = self.drive(Event::Confirmed, env, hands);
    }

    /// Whether it is this end that offers paths, and one is wanted.
    fn wants_path(&self) -> bool {
        !self.is_foreign
            && self.stage == Stage::Established
            && self.known.role == Role::Active
            && self.known.can_fail_over
            && self.state() == State::Established(Ap::Idle)
            && self.alternate().is_none()
    }

    /// When [`Self::tick`] is due.
    pub fn deadline(&self, offers: bool) -> Option<Instant> {
        let conn = match self.stage {
            Stage::Established => self.conn.as_ref().and_then(Conn::deadline),
            Stage::Asked | Stage::Answered | Stage::Ending => None,
        };
        let own = (offers && self.wants_path())
            .then(|| self.question.map_or(self.next, |question| question.due));
        match (conn, own) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        }
    }

    /// Time has passed. `offers` says whether paths may be offered now, `tid` is the transaction of a new question.
    pub fn tick(&mut self, offers: bool, tid: u64, env: &Env<'_>, hands: &mut dyn Hands) {
        if self.stage != Stage::Established {
            return;
        }
        let _ = self.drive(Event::Tick, env, hands);
        if !offers || !self.wants_path() {
            self.question = None;
            self.next = self.next.max(env.now.after(PERIOD));
            return;
        }
        self.question = match self.question {
            Some(question) if env.now < question.due => return,
            None if env.now < self.next => return,
            Some(question) => question.left.checked_sub(1).map(|left| Question {
                left,
                due: env.now.after(PATIENCE),
                ..question
            }),
            None => Some(Question {
                tid,
                due: env.now.after(PATIENCE),
                left: REPEATS,
            }),
        };
        match (self.question, &self.conn) {
            (Some(question), Some(conn)) => {
                let (asker_id, asked_id) = conn.comm_ids();
                hands.ask(
                    conn,
                    &Survey {
                        tid: question.tid,
                        asker_id,
                        asked_id,
                        ..Survey::default()
                    },
                );
            }
            _ => self.next = env.now.after(PAUSE),
        }
    }

    /// Answers a question about this connection: `None` if it is about another.
    pub fn reply(&self, question: &Survey, ports: &SurveyPorts) -> Option<Survey> {
        let is_its = (question.asked_id, question.asker_id) == self.comm_ids();
        let is_up = matches!(self.stage, Stage::Answered | Stage::Established);
        (is_its && is_up && !self.is_foreign).then_some(Survey {
            is_answer: true,
            takes_paths: self.known.can_fail_over,
            is_known: true,
            lid: self.primary().local_lid,
            gid: self.primary().local_gid,
            ports: *ports,
            ..*question
        })
    }

    /// Takes the answer to its question, and offers a path if there is one. `ports` are those of this HCA that are
    /// active.
    pub fn on_answer(
        &mut self,
        answer: &Survey,
        source: &Source,
        ports: &SurveyPorts,
        wishes: &Wishes,
        env: &Env<'_>,
        hands: &mut dyn Hands,
    ) {
        let primary = *self.primary();
        let is_asked = self
            .question
            .is_some_and(|question| question.tid == answer.tid);
        if !is_asked || source.slid != primary.remote_lid || !self.wants_path() {
            return;
        }
        self.question = None;
        if answer.status != 0 || !answer.takes_paths || !answer.is_known {
            self.next = env.now.after(PAUSE);
            return;
        }
        self.next = env.now.after(PERIOD);
        if (answer.lid, answer.gid) != (primary.remote_lid, primary.remote_gid) {
            return;
        }
        self.confirmed(env, hands);
        if let Some(conn) = &mut self.conn {
            conn.forgive();
        }
        if let Some(path) = other_path(&primary, ports, &answer.ports, wishes.choice) {
            let order = Order::Load(&path, wishes.timing, &[]);
            let _ = self.drive(Event::Order(order), env, hands);
        }
    }

    /// Whether a datagram that the other manager has sent ends the connection, and must reach the peer.
    pub fn is_end(&self, mad: &Cm) -> bool {
        matches!(mad.attr_id(), attr::DREQ | attr::DREP) && self.is_about(mad, Way::Sent)
    }

    /// The path in use, if such a datagram has been sent by another one, from the port of the GID `from` to `dlid`:
    /// the other manager does not know of migrations.
    pub fn detour(&self, mad: &Cm, (from, dlid): (Gid, Lid)) -> Option<&Path> {
        let primary = self.conn.as_ref()?.primary();
        let is_by_it = (from, dlid) == (primary.local_gid, primary.remote_lid);
        (self.is_end(mad) && !is_by_it).then_some(primary)
    }
}

/// A path by other ports of both ends, in the same subnets: the one that was chosen, if it is there. Otherwise ports of
/// the same number are preferred, as they are more likely to be on one rail. Rails may have LIDs in common.
fn other_path(
    primary: &Path,
    local: &SurveyPorts,
    remote: &SurveyPorts,
    choice: Option<Choice>,
) -> Option<Path> {
    let others = |ports: &SurveyPorts, gid: Gid, lid: Lid| {
        let ports = *ports;
        // Only the first GID of each port is known, and the path in use may have another one.
        let is_first = ports.iter().any(|port| port.gid == gid);
        ports.into_iter().filter(move |port| {
            let is_used = match is_first {
                true => port.gid == gid,
                false => port.lid == lid,
            };
            port.number.get() != 0 && !is_used && port.gid.prefix() == gid.prefix()
        })
    };
    let near = || others(local, primary.local_gid, primary.local_lid);
    let far = || others(remote, primary.remote_gid, primary.remote_lid);
    let pairs = || near().flat_map(|near| far().map(move |far| (near, far)));
    let is_chosen = |near: &SurveyPort, far: &SurveyPort| {
        choice.is_some_and(|choice| choice.local == near.number && choice.remote.is(far))
    };
    let (near, far) = pairs()
        .find(|(near, far)| is_chosen(near, far))
        .or_else(|| pairs().find(|(near, far)| near.number == far.number))
        .or_else(|| pairs().next())?;
    Some(Path {
        local_lid: near.lid,
        remote_lid: far.lid,
        local_gid: near.gid,
        remote_gid: far.gid,
        ..*primary
    })
}
