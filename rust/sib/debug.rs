// SPDX-License-Identifier: GPL-2.0

//! What an HCA has in debugfs: `/sys/kernel/debug/sib/DEVICE/PORT` with `faults`, `capture` and `packets`.

use crate::fabric::{
    CaptureSwitch,
    Packets,
    Rules, //
};
use crate::hca::Hca;
use crate::registry;
use kernel::prelude::*;
use kernel::str::CString;
use rdma::debugfs::{
    ControlFile,
    Dir,
    StreamFile, //
};
use rdma::sync::Held;
use wire::PortNum;

/// The files of a port.
struct PortFiles {
    _rules: ControlFile<Rules>,
    _capture: ControlFile<CaptureSwitch>,
    _packets: StreamFile<Packets>,
}

/// The files of an HCA. They refer to it, so they have to go before it does.
pub(crate) struct Files {
    dir: Dir,
    _ports: KVec<PortFiles>,
}

impl Files {
    /// Makes the files of `hca`, which is called `name`. May sleep.
    pub(crate) fn new(hca: &Held<Hca>, name: &CStr) -> Result<Self> {
        let dir = registry::debug_dir()?.subdir(name)?;
        let mut ports = KVec::new();
        for number in 1..=hca.ports() {
            let dir = dir.subdir(&CString::try_from_fmt(fmt!("{number}"))?)?;
            let port = PortNum::new(number);
            let held = || hca.try_clone().ok_or(ENODEV);
            let files = PortFiles {
                _rules: ControlFile::new(&dir, c"faults", Rules::new(held()?, port))?,
                _capture: ControlFile::new(&dir, c"capture", CaptureSwitch::new(held()?, port))?,
                _packets: StreamFile::new(&dir, c"packets", Packets::new(held()?, port))?,
            };
            ports.push(files, GFP_KERNEL)?;
        }
        Ok(Self { dir, _ports: ports })
    }

    /// The HCA is called `name` now. May sleep.
    pub(crate) fn rename(&self, name: &CStr) {
        self.dir.rename(name);
    }
}
