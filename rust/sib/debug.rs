// SPDX-License-Identifier: GPL-2.0

//! What an HCA has in debugfs: `/sys/kernel/debug/sib/DEVICE/PORT/faults`.

use crate::fabric::Rules;
use crate::hca::Hca;
use crate::registry;
use kernel::prelude::*;
use kernel::str::CString;
use rdma::debugfs::ControlFile;
use rdma::sync::Held;
use wire::PortNum;

/// The files of an HCA. They refer to it, so they have to go before it does.
pub(crate) struct Files {
    _rules: KVec<ControlFile<Rules>>,
}

impl Files {
    /// Makes the files of `hca`, which is called `name`. May sleep.
    pub(crate) fn new(hca: &Held<Hca>, name: &CStr) -> Result<Self> {
        let dir = registry::debug_dir().subdir(name);
        let mut rules = KVec::new();
        for port in 1..=hca.ports() {
            let dir = dir.subdir(&CString::try_from_fmt(fmt!("{port}"))?);
            let hca = hca.try_clone().ok_or(ENODEV)?;
            let control = Rules::new(hca, PortNum::new(port));
            rules.push(ControlFile::new(&dir, c"faults", control)?, GFP_KERNEL)?;
        }
        Ok(Self { _rules: rules })
    }
}
