// SPDX-License-Identifier: GPL-2.0

//! What the manager has in debugfs: `/sys/kernel/debug/sib_cm`.

use crate::policy::Mode;
use crate::tables::Shared;
use crate::watch::Level;
use kernel::fmt;
use kernel::prelude::*;
use kernel::str::parse_int::ParseInt;
use kernel::str::BStr;
use kernel::sync::Arc;
use proto::cm::{
    Conn,
    Resolution, //
};
use rdma::debugfs::{
    Control,
    ControlFile,
    Dir,
    Show,
    View,
    Viewed, //
};
use rdma::sync::{
    Cx,
    Sleepable,
    Unlocked, //
};

/// The files of the manager.
pub(crate) struct Files {
    _views: [ControlFile<View<Shared>>; 5],
    _comm_ids: ControlFile<CommIds>,
    _dir: Dir,
}

impl Files {
    /// Makes the files.
    pub(crate) fn new(shared: Arc<Shared>) -> Result<Self> {
        let dir = Dir::new(c"sib_cm")?;
        let view =
            |name, show: Show<Shared>| ControlFile::new(&dir, name, View::new(&shared, show));
        Ok(Self {
            _views: [
                view(c"datagrams", datagrams)?,
                view(c"connections", connections)?,
                view(c"questions", questions)?,
                view(c"watched", watched)?,
                view(c"hcas", hcas)?,
            ],
            _comm_ids: ControlFile::new(&dir, c"comm_ids", CommIds(shared.clone()))?,
            _dir: dir,
        })
    }
}

impl Viewed for Shared {
    const MODULE: &'static ThisModule = &crate::MODULE;
}

/// How many datagrams were left to ib_cm, and how many taken.
fn datagrams(
    shared: &Shared,
    _cx: Cx<'_, Unlocked>,
    _s: Sleepable<'_>,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    let (passed, consumed) = shared.tally.get();
    writeln!(f, "passed {passed}")?;
    writeln!(f, "consumed {consumed}")
}

/// What there is to see of a connection: the GUID of its HCA, both ends' names for it and their queue pairs, its
/// state, and its paths by LIDs.
fn line(f: &mut fmt::Formatter<'_>, guid: u64, conn: &Conn) -> fmt::Result {
    let (ours, theirs) = conn.comm_ids();
    let (_, remote_qpn) = conn.peer();
    let path = conn.primary();
    write!(
        f,
        "{guid:016x} {ours:#010x} {theirs:#010x} {:?} {:?} qp {:#08x} to {:#08x} path {} to {}",
        conn.role(),
        conn.state(),
        conn.local_qpn().get(),
        remote_qpn.get(),
        path.local_lid.get(),
        path.remote_lid.get(),
    )?;
    match conn.alternate() {
        Some(path) => writeln!(
            f,
            " alternate {} to {}",
            path.local_lid.get(),
            path.remote_lid.get(),
        ),
        None => writeln!(f, " alternate none"),
    }
}

/// The connections, a line each.
fn connections(
    shared: &Shared,
    _cx: Cx<'_, Unlocked>,
    _s: Sleepable<'_>,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    for connection in shared.connections().map_err(|_| fmt::Error)? {
        let guid = connection.device().adapter.guid();
        connection.inspect(|conn| line(f, guid, conn))?;
    }
    Ok(())
}

/// What has been done for connections of ib_cm, and one line for each of them.
fn watched(
    shared: &Shared,
    cx: Cx<'_, Unlocked>,
    s: Sleepable<'_>,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    shared.watch.show(cx, s, f)
}

/// HCAs by their GUIDs, in which mode they are, and what is done for connections of ib_cm.
fn hcas(
    shared: &Shared,
    _cx: Cx<'_, Unlocked>,
    _s: Sleepable<'_>,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    shared.each_device(|device| {
        let mode = Mode::new(device.adapter.is_dedicated()).name();
        let level = Level::of(device).name();
        writeln!(f, "{:016x} {mode} watch {level}", device.adapter.guid())
    })
}

fn question_line(f: &mut fmt::Formatter<'_>, it: &Resolution) -> fmt::Result {
    writeln!(
        f,
        "{:#010x} {:?} service {:#018x}",
        it.request_id(),
        it.state(),
        it.service_id(),
    )
}

/// The questions that are asked, here or by a peer, a line each.
fn questions(
    shared: &Shared,
    _cx: Cx<'_, Unlocked>,
    _s: Sleepable<'_>,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    for question in shared.questions().map_err(|_| fmt::Error)? {
        question.inspect(|it| question_line(f, it))?;
    }
    Ok(())
}

/// `comm_ids`: the communication IDs that the next connections get, of this side, a line each: 0 is any. For tests, as
/// two connection managers of an HCA can have the same by chance.
struct CommIds(Arc<Shared>);

impl Control for CommIds {
    const MODULE: &'static ThisModule = &crate::MODULE;

    fn show(
        &self,
        _cx: Cx<'_, Unlocked>,
        _s: Sleepable<'_>,
        f: &mut fmt::Formatter<'_>,
    ) -> fmt::Result {
        for id in self.0.ordered_ids().map_err(|_| fmt::Error)? {
            writeln!(f, "{id:#010x}")?;
        }
        Ok(())
    }

    fn store(&self, _cx: Cx<'_, Unlocked>, _s: Sleepable<'_>, text: &str) -> Result {
        let mut ids = KVec::new();
        for word in text.split_ascii_whitespace() {
            ids.push(
                u32::from_str(BStr::from_bytes(word.as_bytes()))?,
                GFP_KERNEL,
            )?;
        }
        self.0.order_ids(ids);
        Ok(())
    }
}
