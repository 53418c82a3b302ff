// SPDX-License-Identifier: GPL-2.0

//! Alternate paths for connections that ib_cm has made, for programs that know nothing of them.
//!
//! What ib_cm sends and receives is looked at, and what there is to know of a connection learnt from it
//! ([`proto::cm::watch`]). Nothing of that is kept from ib_cm, which has no use for LAP, APR and the MRA of a LAP.
//!
//! What ib_cm sends is seen with locks held, and that a queue pair is gone is told while its owner waits: both go to
//! an inbox. Whoever has the table for more than a look at it deals with that first, so that no answer is seen before what
//! it answers.

mod hands;
mod inbox;
mod level;
mod table;

pub(crate) use level::Level;

use crate::connection::now;
use crate::device::{
    back,
    migration_of,
    source_of,
    Device,
    Ends,
    Here, //
};
use crate::policy::Policies;
use hands::Worker;
use inbox::{
    Inbox,
    Item, //
};
use kernel::fmt;
use kernel::new_mutex;
use kernel::prelude::*;
use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};
use kernel::sync::Arc;
use level::withhold;
use proto::cm::watch::{
    Progress,
    Stage,
    Watched,
    Way, //
};
use proto::cm::{
    Env,
    Identity, //
};
use proto::time::Duration;
use rdma::cm::{
    PathState,
    Sent,
    Verdict, //
};
use rdma::ib::{
    Mad,
    MadSource,
    MAD_SIZE, //
};
use rdma::new_work;
use rdma::sync::{
    Cx,
    DevWq,
    IrqsOn,
    LevelLock,
    NoIoMutex,
    Sleepable,
    Unlocked, //
};
use rdma::timer::{
    Expire,
    Timer, //
};
use rdma::work::{
    Queue,
    Run,
    Work, //
};
use table::{
    line,
    Entry,
    Name,
    Table,
    MAX_WATCHED, //
};
use wire::mad::cm::{
    attr,
    Cm,
    Req, //
};
use wire::mad::survey::Survey;
use wire::mad::{
    class,
    method,
    CLASS_VERSION_2, //
};
use wire::{
    Guid,
    Lid, //
};

/// How often what is over is looked for.
const SWEEP: Duration = Duration::from_millis(5_000);

/// A number of events.
pub(super) struct Count(Atomic<u64>);

impl Count {
    const fn new() -> Self {
        Self(Atomic::new(0))
    }

    fn add(&self) {
        self.0.fetch_add(1, Relaxed);
    }
}

/// What has been done.
struct Tally {
    questions: Count,
    answers: Count,
    loads: Count,
    migrations: Count,
    detours: Count,
    lost: Count,
}

/// All that is watched.
#[pin_data]
pub(crate) struct Watch {
    tid_high: u32,
    policies: Arc<Policies>,
    #[pin]
    inbox: LevelLock<Inbox, DevWq>,
    #[pin]
    table: NoIoMutex<Table>,
    tally: Tally,
    queue: Queue,
    #[pin]
    work: Work<Watch>,
    #[pin]
    clock: Timer<Watch>,
}

/// A datagram of communication management, if it is one.
fn as_cm(bytes: &[u8; MAD_SIZE]) -> Option<&Cm> {
    let mad = Cm::from_bytes(bytes);
    let header = mad.header();
    let is_one = header.mgmt_class == class::CM
        && header.class_version == CLASS_VERSION_2
        && header.method == method::SEND;
    is_one.then_some(mad)
}

impl Watch {
    /// Nothing is watched yet, and it has no clock.
    pub(crate) fn new(
        tid_high: u32,
        policies: Arc<Policies>,
        s: Sleepable<'_>,
    ) -> Result<Arc<Self>> {
        let queue = Queue::slow(c"sib_cm_watch", s)?;
        let inbox = Inbox::new()?;
        Arc::pin_init(
            pin_init!(Self {
                tid_high,
                policies,
                inbox <- LevelLock::new(inbox),
                table <- NoIoMutex::new(new_mutex!(
                    Table::new(),
                    "Watch::table"
                )),
                tally: Tally {
                    questions: Count::new(),
                    answers: Count::new(),
                    loads: Count::new(),
                    migrations: Count::new(),
                    detours: Count::new(),
                    lost: Count::new(),
                },
                queue,
                work <- new_work!("Watch::work"),
                clock <- Timer::new(),
            }),
            GFP_KERNEL,
        )
    }

    /// Begins. From now on it stays until [`Self::end`], as its clock refers to it.
    ///
    /// # Errors
    ///
    /// `EBUSY` if it has begun, or ended.
    pub(crate) fn begin(self: &Arc<Self>) -> Result {
        self.clock.attach(self.clone()).map_err(|_| EBUSY)
    }

    /// Whether a connection of ib_cm has this ID on some HCA.
    pub(crate) fn has_id(&self, id: u32) -> bool {
        let table = self.table.lock();
        let mut names = table.entries.keys();
        names.any(|name| matches!(name, Name::Ours(_, known) if *known == id))
    }

    /// Keeps something for later. In any context.
    fn note(self: &Arc<Self>, cx: &mut Cx<'_, Unlocked>, item: Item) {
        let refused = cx.lock(&self.inbox).push(item);
        if refused.is_some() {
            self.tally.lost.add();
        }
        self.poke();
    }

    /// Has the worker look.
    pub(crate) fn poke(self: &Arc<Self>) {
        // An item that is queued already starts after this.
        let _ = self.queue.enqueue(&self.work, self.clone());
    }

    /// Sees a datagram leave QP1, in any context.
    pub(crate) fn sent(
        self: &Arc<Self>,
        cx: &mut Cx<'_, Unlocked>,
        device: &Arc<Device>,
        datagram: &Sent<'_>,
    ) {
        let is_seen = as_cm(datagram.mad).is_some_and(|mad| match mad.attr_id() {
            // That of a connection of this manager is no business of ib_cm's.
            attr::REQ => (mad.tid() >> 32) as u32 != self.tid_high,
            attr::REP | attr::RTU | attr::REJ | attr::DREQ | attr::DREP => true,
            _ => false,
        });
        if is_seen && Level::of(device) != Level::Off {
            let way = (datagram.port, Lid::new(datagram.dlid));
            self.note(cx, Item::Sent(device.clone(), way, *datagram.mad));
        }
    }

    /// A queue pair is not connected any more.
    pub(crate) fn gone(
        self: &Arc<Self>,
        cx: &mut Cx<'_, Unlocked>,
        device: &Arc<Device>,
        qpn: u32,
    ) {
        if Level::of(device) != Level::Off {
            self.note(cx, Item::Gone(device.clone(), qpn));
        }
    }

    /// Deals with what is in the inbox.
    fn drain(&self, cx: &mut Cx<'_, Unlocked>, s: Sleepable<'_>, table: &mut Table) {
        loop {
            let item = cx.lock(&self.inbox).pop();
            match item {
                None => return,
                Some(Item::Sent(device, ..) | Item::Gone(device, _))
                    if Level::of(&device) == Level::Off => {}
                Some(Item::Sent(device, way, bytes)) => {
                    let mad = Cm::from_bytes(&bytes);
                    self.learn(table, &device, mad, Way::Sent);
                    self.lead(cx, s, table, &device, mad, way);
                }
                Some(Item::Gone(device, qpn)) => {
                    table.qp_is_gone(&device, qpn, now());
                }
            }
        }
    }

    /// Learns from a datagram of ib_cm.
    fn learn(&self, table: &mut Table, device: &Arc<Device>, mad: &Cm, way: Way) {
        let guid = device.adapter.guid();
        if mad.attr_id() == attr::REQ {
            self.meet(table, device, mad, way);
            return;
        }
        let Some(name) = table.about(guid, mad, way) else {
            return;
        };
        let Some(entry) = table.entries.get_mut(&name) else {
            return;
        };
        let progress = entry.watched.observe(mad, way, now());
        match progress {
            Progress::None => {}
            Progress::Established | Progress::Ending => entry.since = now(),
            Progress::Over => {
                table.remove(name);
            }
            Progress::Named => {
                entry.since = now();
                let peer = entry.watched.remote_guid().get();
                if !self.policies.allows(&device.adapter, peer) {
                    entry.watched.forbid();
                }
                let renamed = Name::Ours(guid, entry.watched.comm_ids().0);
                if renamed != name {
                    if let Some(entry) = table.remove(name) {
                        // Without memory it is not watched.
                        let _ = table.insert(renamed, entry);
                    }
                }
            }
        }
    }

    /// Learns of a new connection, by its REQ.
    fn meet(&self, table: &mut Table, device: &Arc<Device>, mad: &Cm, way: Way) {
        let req: Req = mad.message();
        let guid = device.adapter.guid();
        let name = match way {
            Way::Sent => Name::Ours(guid, req.local_comm_id),
            Way::Received => Name::Theirs(guid, req.local_comm_id, req.local_ca_guid.get()),
        };
        let is_known = table
            .entries
            .get(&name)
            .is_some_and(|entry| entry.watched.is_request(mad));
        if is_known {
            return;
        }
        let identity = Identity {
            comm_id: 0,
            guid: Guid::new(guid),
            tid_high: self.tid_high,
        };
        let now = now();
        if table.count >= MAX_WATCHED {
            table.sweep(now);
        }
        if let Some(watched) = Watched::new(identity, mad, way, now) {
            let entry = KBox::new(
                Entry {
                    device: device.clone(),
                    watched,
                    pkey: req.pkey.get(),
                    since: now,
                    checked: now,
                },
                GFP_KERNEL,
            );
            // Without memory or room it is not watched.
            let _ = entry.map(|entry| table.insert(name, entry));
        }
    }

    /// Sends what ib_cm sends by a path that the connection has left by the one in use as well.
    fn lead(
        &self,
        cx: &mut Cx<'_, Unlocked>,
        s: Sleepable<'_>,
        table: &Table,
        device: &Arc<Device>,
        mad: &Cm,
        (port, dlid): (u32, Lid),
    ) {
        let name = Name::Ours(device.adapter.guid(), mad.local_comm_id());
        let Some(entry) = table.entries.get(&name) else {
            return;
        };
        if !entry.watched.is_end(mad) {
            return;
        }
        let ends = device.ends(cx, s);
        let from = ends.gid(port).unwrap_or_default();
        let Some(path) = entry.watched.detour(mad, (from, dlid)) else {
            return;
        };
        self.tally.detours.add();
        self.worker(cx, s, entry.pkey, device, &ends)
            .send_along(path, mad.as_bytes());
    }

    fn worker<'a, 'c>(
        &'a self,
        cx: &'a mut Cx<'c, Unlocked>,
        s: Sleepable<'a>,
        pkey: u16,
        device: &'a Device,
        ends: &'a Ends,
    ) -> Worker<'a, 'c> {
        Worker {
            cx,
            s,
            device,
            ends,
            tally: &self.tally,
            pkey,
        }
    }

    /// The connection of a queue pair: of those that are said to be, the one that it is connected to.
    fn of_qp<'t>(
        &self,
        cx: &mut Cx<'_, Unlocked>,
        s: Sleepable<'_>,
        table: &'t mut Table,
        device: &Arc<Device>,
        qpn: u32,
    ) -> Option<&'t mut KBox<Entry>> {
        let state = device.adapter.path_state(cx, s, qpn).ok()?;
        table.of_qp(device, (qpn, state.peer.qpn))
    }

    /// Has a connection do something, with its surroundings as they are.
    fn attend<R>(
        &self,
        cx: &mut Cx<'_, Unlocked>,
        s: Sleepable<'_>,
        entry: &mut Entry,
        ends: &Ends,
        f: impl FnOnce(&mut Watched, &Env<'_>, &mut Worker<'_, '_>, Option<PathState>) -> R,
    ) -> R {
        let device = entry.device.clone();
        let qpn = entry.watched.qpns().0.get();
        let state = device.adapter.path_state(cx, s, qpn).ok();
        let theirs = entry.watched.qpns().1.get();
        // What programs tell each other of queue pairs need not be so.
        if state.is_some_and(|state| state.is_managed || state.is_ready && state.peer.qpn != theirs)
        {
            entry.watched.leave();
        }
        let env = Env {
            now: now(),
            migration: migration_of(state.as_ref()),
            local: &Here {
                device: &device,
                ends,
            },
        };
        let mut worker = self.worker(cx, s, entry.pkey, &device, ends);
        f(&mut entry.watched, &env, &mut worker, state)
    }

    /// Sees a datagram that has come for ib_cm, and takes it if it is about a path.
    pub(crate) fn receive(
        self: &Arc<Self>,
        cx: &mut Cx<'_, Unlocked>,
        s: Sleepable<'_>,
        device: &Arc<Device>,
        offered: &Mad<'_>,
        from: &MadSource,
    ) -> bool {
        if Level::of(device) == Level::Off {
            return false;
        }
        let Some(mad) = as_cm(offered.request) else {
            return false;
        };
        let mut table = self.table.lock();
        self.drain(cx, s, &mut table);
        let name = Name::Ours(device.adapter.guid(), mad.remote_comm_id());
        let entry = table.entries.get_mut(&name);
        if let Some(entry) = entry.filter(|entry| entry.watched.is_concerned(mad)) {
            let ends = device.ends(cx, s);
            self.attend(cx, s, entry, &ends, |watched, env, worker, _| {
                watched.receive(mad, source_of(offered, from), env, worker);
            });
            self.poke();
            return true;
        }
        self.learn(&mut table, device, mad, Way::Received);
        self.poke();
        false
    }

    /// Takes a question about a connection, or an answer.
    pub(crate) fn survey(
        self: &Arc<Self>,
        cx: &mut Cx<'_, Unlocked>,
        s: Sleepable<'_>,
        device: &Arc<Device>,
        offered: &Mad<'_>,
        from: &MadSource,
    ) -> bool {
        if Level::of(device) == Level::Off {
            return false;
        }
        let Some(survey) = Survey::parse(offered.request) else {
            return false;
        };
        let source = source_of(offered, from);
        let guid = device.adapter.guid();
        let ends = device.ends(cx, s);
        let ports = ends.active();
        let mut table = self.table.lock();
        self.drain(cx, s, &mut table);
        if survey.is_answer {
            self.tally.answers.add();
            let name = Name::Ours(guid, survey.asker_id);
            if let Some(entry) = table.entries.get_mut(&name) {
                let peer = entry.watched.remote_guid().get();
                let wishes = self.policies.wishes(&device.adapter, peer);
                self.attend(cx, s, entry, &ends, |watched, env, worker, _| {
                    watched.on_answer(&survey, &source, &ports, &wishes, env, worker);
                });
            }
            self.poke();
            return true;
        }
        let entry = table.entries.get(&Name::Ours(guid, survey.asked_id));
        let reply = entry.and_then(|entry| entry.watched.reply(&survey, &ports));
        drop(table);
        let reply = reply.unwrap_or(Survey {
            is_answer: true,
            takes_paths: true,
            ..survey
        });
        if let Some((port, way)) = back(&source, from.pkey_index) {
            let _ = device.adapter.send(cx, s, port, &way, &reply.emit());
        }
        true
    }

    /// A queue pair has gone over. Returns whether its owner is to be told.
    pub(crate) fn migrated(
        self: &Arc<Self>,
        cx: &mut Cx<'_, Unlocked>,
        s: Sleepable<'_>,
        device: &Arc<Device>,
        qpn: u32,
    ) -> Verdict {
        if Level::of(device) == Level::Off {
            return Verdict::Pass;
        }
        let mut table = self.table.lock();
        self.drain(cx, s, &mut table);
        let Some(entry) = self.of_qp(cx, s, &mut table, device, qpn) else {
            return Verdict::Pass;
        };
        let ends = device.ends(cx, s);
        let followed = self.attend(cx, s, entry, &ends, |watched, env, worker, state| {
            match state.and_then(|state| ends.ways(&state)) {
                Some(ways) => watched.migrated(&ways, env, worker),
                // Nor is there anybody to be told.
                None => false,
            }
        });
        self.poke();
        if !followed {
            return Verdict::Pass;
        }
        self.tally.migrations.add();
        withhold()
    }

    /// The peer of a queue pair has been heard on the path that it has gone over to.
    pub(crate) fn heard(
        self: &Arc<Self>,
        cx: &mut Cx<'_, Unlocked>,
        s: Sleepable<'_>,
        device: &Arc<Device>,
        qpn: u32,
    ) {
        if Level::of(device) == Level::Off {
            return;
        }
        let mut table = self.table.lock();
        self.drain(cx, s, &mut table);
        if let Some(entry) = self.of_qp(cx, s, &mut table, device, qpn) {
            let ends = device.ends(cx, s);
            self.attend(cx, s, entry, &ends, |watched, env, worker, state| {
                // If it has gone over again since that was due, its peer is yet to be heard.
                if !state.is_some_and(|state| state.is_unheard) {
                    watched.confirmed(env, worker);
                }
            });
        }
    }

    /// What becomes of an event of a queue pair that is of no use here.
    pub(crate) fn verdict(
        &self,
        cx: &mut Cx<'_, Unlocked>,
        s: Sleepable<'_>,
        device: &Arc<Device>,
        qpn: u32,
    ) -> Verdict {
        if Level::of(device) == Level::Off {
            return Verdict::Pass;
        }
        let mut table = self.table.lock();
        let Some(entry) = self.of_qp(cx, s, &mut table, device, qpn) else {
            return Verdict::Pass;
        };
        let ends = device.ends(cx, s);
        // Its owner may have named a path since somebody looked last.
        let is_foreign = self.attend(cx, s, entry, &ends, |watched, _, _, _| watched.is_foreign());
        if is_foreign {
            return Verdict::Pass;
        }
        withhold()
    }

    /// Has all connections do what is due, and sets the clock.
    fn attend_all(&self, cx: &mut Cx<'_, Unlocked>, s: Sleepable<'_>) {
        let mut table = self.table.lock();
        self.drain(cx, s, &mut table);
        let now = now();
        table.sweep(now);
        table.forget_where(|entry| Level::of(&entry.device) == Level::Off);
        let mut next = (table.count != 0).then(|| now.after(SWEEP));
        for entry in table.entries.values_mut() {
            let is_full = Level::of(&entry.device) == Level::Full;
            // That a queue pair is gone may have found no room in the inbox.
            let is_looked_for = now >= entry.checked.after(SWEEP);
            let is_due = entry
                .watched
                .deadline(is_full)
                .is_some_and(|due| due <= now);
            if is_looked_for && entry.watched.stage() == Stage::Established || is_due {
                entry.checked = now;
                let tid = u64::from(rdma::random::u32()) << 32 | u64::from(rdma::random::u32());
                let ends = entry.device.ends(cx, s);
                let may_offer = is_full && ends.has_several();
                self.attend(
                    cx,
                    s,
                    entry,
                    &ends,
                    |watched, env, worker, state| match state {
                        Some(state) if is_due => {
                            watched.tick(may_offer && state.is_ready, tid, env, worker);
                        }
                        Some(_) => {}
                        None => watched.gone(),
                    },
                );
                if entry.watched.stage() == Stage::Ending {
                    // What ib_cm still sends is led for as long as that of one whose end was told.
                    entry.since = now;
                }
            }
            next = match (next, entry.watched.deadline(is_full)) {
                (Some(one), Some(other)) => Some(one.min(other)),
                (one, other) => one.or(other),
            };
        }
        if let Some(next) = next {
            self.clock.arm(next.nanos());
        }
    }

    /// Forgets all connections of an HCA.
    pub(crate) fn forget(&self, cx: &mut Cx<'_, Unlocked>, device: &Arc<Device>) {
        let mut table = self.table.lock();
        cx.lock(&self.inbox).forget(device);
        table.forget_where(|entry| Arc::ptr_eq(&entry.device, device));
    }

    /// Ends the clock and the work. Nobody calls any more.
    pub(crate) fn end(&self, cx: &mut Cx<'_, Unlocked>, s: Sleepable<'_>) {
        self.clock.shutdown(cx, s);
        self.queue.flush(cx, s);
    }

    /// What there is to see.
    pub(crate) fn show(
        &self,
        mut cx: Cx<'_, Unlocked>,
        s: Sleepable<'_>,
        f: &mut fmt::Formatter<'_>,
    ) -> fmt::Result {
        for (name, count) in [
            ("questions", &self.tally.questions),
            ("answers", &self.tally.answers),
            ("loads", &self.tally.loads),
            ("migrations", &self.tally.migrations),
            ("detours", &self.tally.detours),
            ("lost", &self.tally.lost),
        ] {
            writeln!(f, "{name} {}", count.0.load(Relaxed))?;
        }
        let mut table = self.table.lock();
        self.drain(&mut cx, s, &mut table);
        for entry in table.entries.values() {
            line(f, entry)?;
        }
        Ok(())
    }
}

impl Expire for Watch {
    type Pointer = Arc<Self>;

    fn expire(this: &Arc<Self>, _cx: Cx<'_, Unlocked>, _irqs: IrqsOn<'_>) {
        this.poke();
    }
}

impl Run for Watch {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>, mut cx: Cx<'_, Unlocked>, s: Sleepable<'_>) {
        this.attend_all(&mut cx, s);
    }
}
