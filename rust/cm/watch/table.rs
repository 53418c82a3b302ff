// SPDX-License-Identifier: GPL-2.0

//! The connections that are watched, by their names.

use crate::device::Device;
use kernel::fmt;
use kernel::prelude::*;
use kernel::rbtree::RBTree;
use kernel::sync::Arc;
use proto::cm::watch::{
    Stage,
    Watched,
    Way, //
};
use proto::time::{
    Duration,
    Instant, //
};
use wire::mad::cm::{
    attr,
    Cm, //
};
use wire::Qpn;

/// The most connections that are known at a time.
pub(super) const MAX_WATCHED: usize = 4096;

/// How long a connection is known that has not been established, or has ended: ib_cm may repeat its datagrams.
const LINGER: Duration = Duration::from_millis(90_000);

/// How a connection is found: by the GUID of its HCA, and its communication ID there, or that of the peer with the
/// peer's GUID, as long as there is no other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Name {
    Ours(u64, u32),
    Theirs(u64, u32, u64),
}

/// A connection.
pub(super) struct Entry {
    pub(super) device: Arc<Device>,
    pub(super) watched: Watched,
    pub(super) pkey: u16,
    /// When it has become what it is.
    pub(super) since: Instant,
    /// When its queue pair was looked for.
    pub(super) checked: Instant,
}

/// What the mutex guards.
pub(super) struct Table {
    pub(super) entries: RBTree<Name, KBox<Entry>>,
    pub(super) count: usize,
}

impl Table {
    /// Nothing is watched.
    pub(super) fn new() -> Self {
        Self {
            entries: RBTree::new(),
            count: 0,
        }
    }

    pub(super) fn insert(&mut self, name: Name, entry: KBox<Entry>) -> Result {
        if self.count >= MAX_WATCHED {
            return Err(ENOSPC);
        }
        let old = self
            .entries
            .try_create_and_insert(name, entry, GFP_KERNEL)?;
        if old.is_none() {
            self.count = self.count.saturating_add(1);
        }
        Ok(())
    }

    pub(super) fn remove(&mut self, name: Name) -> Option<KBox<Entry>> {
        let entry = self.entries.remove(&name)?;
        self.count = self.count.saturating_sub(1);
        Some(entry)
    }

    /// Some connection that `is_it` is true of.
    pub(super) fn find(&self, is_it: impl Fn(&Entry) -> bool) -> Option<Name> {
        let mut entries = self.entries.iter();
        entries
            .find(|(_, entry)| is_it(entry))
            .map(|(name, _)| *name)
    }

    /// The connection of a queue pair, and that of the peer.
    pub(super) fn of_qp(
        &mut self,
        device: &Arc<Device>,
        (ours, theirs): (u32, u32),
    ) -> Option<&mut KBox<Entry>> {
        let qpns = (Qpn::new(ours), Qpn::new(theirs));
        let name = self.find(|entry| {
            entry.watched.qpns() == qpns
                && entry.watched.stage() != Stage::Ending
                && Arc::ptr_eq(&entry.device, device)
        })?;
        self.entries.get_mut(&name)
    }

    /// A queue pair is not connected any more.
    pub(super) fn qp_is_gone(&mut self, device: &Arc<Device>, qpn: u32, now: Instant) {
        for entry in self.entries.values_mut() {
            if entry.watched.qpns().0 == Qpn::new(qpn)
                && entry.watched.stage() != Stage::Ending
                && Arc::ptr_eq(&entry.device, device)
            {
                entry.watched.gone();
                entry.since = now;
            }
        }
    }

    /// Forgets all connections that `is_it` is true of.
    pub(super) fn forget_where(&mut self, is_it: impl Fn(&Entry) -> bool) {
        while let Some(name) = self.find(&is_it) {
            self.remove(name);
        }
    }

    /// The connection that a datagram of ib_cm is about.
    pub(super) fn about(&self, guid: u64, mad: &Cm, way: Way) -> Option<Name> {
        let (ours, theirs) = match way {
            Way::Sent => (mad.local_comm_id(), mad.remote_comm_id()),
            Way::Received => (mad.remote_comm_id(), mad.local_comm_id()),
        };
        let name = Name::Ours(guid, ours);
        if self.entries.get(&name).is_some() {
            return Some(name);
        }
        // An answer to a REQ, which the peer alone has named yet.
        let is_first = matches!(mad.attr_id(), attr::REP | attr::REJ) && way == Way::Sent;
        if !is_first {
            return None;
        }
        self.find(|entry| {
            entry.watched.stage() == Stage::Asked
                && entry.watched.comm_ids() == (0, theirs)
                && entry.device.adapter.guid() == guid
        })
    }

    /// Forgets what has been over for long.
    pub(super) fn sweep(&mut self, now: Instant) {
        self.forget_where(|entry| {
            entry.watched.stage() != Stage::Established && now > entry.since.after(LINGER)
        });
    }
}

/// What there is to see of a connection.
pub(super) fn line(f: &mut fmt::Formatter<'_>, entry: &Entry) -> fmt::Result {
    let watched = &entry.watched;
    let (ours, theirs) = watched.comm_ids();
    let (local_qpn, remote_qpn) = watched.qpns();
    let path = watched.primary();
    write!(
        f,
        "{:016x} {ours:#010x} {theirs:#010x} {:?} {:?} qp {:#08x} to {:#08x} path {} to {}",
        entry.device.adapter.guid(),
        watched.role(),
        watched.stage(),
        local_qpn.get(),
        remote_qpn.get(),
        path.local_lid.get(),
        path.remote_lid.get(),
    )?;
    match watched.alternate() {
        Some(path) => write!(
            f,
            " alternate {} to {}",
            path.local_lid.get(),
            path.remote_lid.get()
        )?,
        None => write!(f, " alternate none")?,
    }
    if watched.is_foreign() {
        write!(f, " left to its owner")?;
    }
    writeln!(f)
}
