// SPDX-License-Identifier: GPL-2.0

//! What the manager has in debugfs: `/sys/kernel/debug/sib_cm`.

use crate::tables::Shared;
use kernel::fmt;
use kernel::prelude::*;
use kernel::sync::Arc;
use rdma::debugfs::{
    Control,
    ControlFile,
    Dir, //
};
use rdma::sync::{
    Cx,
    Sleepable,
    Unlocked, //
};

/// The files of the manager.
pub(crate) struct Files {
    _datagrams: ControlFile<Datagrams>,
    _connections: ControlFile<Connections>,
    _dir: Dir,
}

impl Files {
    /// Makes the files.
    pub(crate) fn new(shared: Arc<Shared>) -> Result<Self> {
        let dir = Dir::new(c"sib_cm");
        Ok(Self {
            _datagrams: ControlFile::new(&dir, c"datagrams", Datagrams(shared.clone()))?,
            _connections: ControlFile::new(&dir, c"connections", Connections(shared))?,
            _dir: dir,
        })
    }
}

/// `datagrams`: how many were left to ib_cm, and how many taken.
struct Datagrams(Arc<Shared>);

impl Control for Datagrams {
    fn show(
        &self,
        _cx: Cx<'_, Unlocked>,
        _s: Sleepable<'_>,
        f: &mut fmt::Formatter<'_>,
    ) -> fmt::Result {
        let (passed, consumed) = self.0.tally.get();
        writeln!(f, "passed {passed}")?;
        writeln!(f, "consumed {consumed}")
    }

    fn store(&self, _cx: Cx<'_, Unlocked>, _s: Sleepable<'_>, _text: &str) -> Result {
        Err(EPERM)
    }
}

/// `connections`: how many there are.
struct Connections(Arc<Shared>);

impl Control for Connections {
    fn show(
        &self,
        _cx: Cx<'_, Unlocked>,
        _s: Sleepable<'_>,
        f: &mut fmt::Formatter<'_>,
    ) -> fmt::Result {
        writeln!(f, "{}", self.0.count())
    }

    fn store(&self, _cx: Cx<'_, Unlocked>, _s: Sleepable<'_>, _text: &str) -> Result {
        Err(EPERM)
    }
}
