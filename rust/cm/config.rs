// SPDX-License-Identifier: GPL-2.0

//! What the administrator wants of HCAs: `/sys/kernel/config/sib_cm`.
//!
//! A folder is an HCA, by its name, be it there or not. Its files:
//!
//! | file   | what                                                                       |
//! |--------|----------------------------------------------------------------------------|
//! | `mode` | `shared` with ib_cm, or `dedicated`: counts from when the HCA is made       |

use crate::policy::{
    Mode,
    Policy, //
};
use crate::tables::Shared;
#[allow(
    unused_imports,
    reason = "`configfs_attrs!` wants THIS_MODULE in scope, but not that of kernel 7.3"
)]
use crate::*;
use kernel::configfs::{
    AttributeOperations,
    Group,
    GroupOperations,
    Subsystem, //
};
use kernel::configfs_attrs;
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;
use kernel::str::CString;
use kernel::sync::Arc;

/// The folder of all HCAs.
pub(crate) struct Hcas(Arc<Shared>);

/// The folder of an HCA.
pub(crate) struct Hca {
    shared: Arc<Shared>,
    policy: Arc<Policy>,
}

/// Makes `/sys/kernel/config/sib_cm`.
pub(crate) fn register(shared: Arc<Shared>) -> Result<Pin<KBox<Subsystem<Hcas>>>> {
    let kind = configfs_attrs! {
        container: Subsystem<Hcas>,
        data: Hcas,
        child: Hca,
        attributes: [],
    };
    KBox::pin_init(
        Subsystem::new(c"sib_cm", kind, Ok::<_, Error>(Hcas(shared))),
        GFP_KERNEL,
    )
}

#[vtable]
impl GroupOperations for Hcas {
    type Child = Hca;

    fn make_group(&self, name: &CStr) -> Result<impl PinInit<Group<Hca>, Error>> {
        let kind = configfs_attrs! {
            container: Group<Hca>,
            data: Hca,
            attributes: [
                mode: 0,
            ],
        };
        let shared = self.0.clone();
        let mode = match shared.device_called(name.to_bytes()) {
            Some(device) => Mode::new(device.adapter.is_dedicated()),
            None => shared.policies.mode_of(name.to_bytes()),
        };
        let policy = Policy::new(name.to_bytes(), mode)?;
        shared.policies.add(policy.clone())?;
        let hca = Hca { shared, policy };
        Ok(Group::new(
            CString::try_from(name)?,
            kind,
            Ok::<_, Error>(hca),
        ))
    }
}

impl Drop for Hca {
    fn drop(&mut self) {
        self.shared.policies.remove(&self.policy);
    }
}

/// What was written, without the end of the line.
fn line(page: &[u8]) -> Result<&str> {
    Ok(core::str::from_utf8(page).map_err(|_| EINVAL)?.trim())
}

/// Writes a line to `page`.
fn show(page: &mut [u8; PAGE_SIZE], text: &str) -> usize {
    let line = Iterator::chain(text.bytes(), [b'\n']);
    page.iter_mut()
        .zip(line)
        .map(|(to, from)| *to = from)
        .count()
}

#[vtable]
impl AttributeOperations<0> for Hca {
    type Data = Hca;

    fn show(hca: &Hca, page: &mut [u8; PAGE_SIZE]) -> Result<usize> {
        Ok(show(page, hca.policy.mode().name()))
    }

    fn store(hca: &Hca, page: &[u8]) -> Result {
        let mode = Mode::named(line(page)?).ok_or(EINVAL)?;
        let device = hca.shared.device_called(hca.policy.name());
        if device.is_some_and(|device| Mode::new(device.adapter.is_dedicated()) != mode) {
            return Err(EBUSY);
        }
        hca.policy.set_mode(mode);
        Ok(())
    }
}
