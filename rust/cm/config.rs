// SPDX-License-Identifier: GPL-2.0

//! What the administrator wants of HCAs: `/sys/kernel/config/sib_cm`.
//!
//! A folder is an HCA, by its name, be it there or not. Its files:
//!
//! | file          | what                                                                           |
//! |---------------|--------------------------------------------------------------------------------|
//! | `mode`        | `shared` with ib_cm, or `dedicated`: counts when the HCA is made                 |
//! | `watch`       | what is done for connections of ib_cm: `off`, `respond` or `full`                |
//! | `peers`       | for which of them: those to `any` peer, or to those that are `listed`            |
//! | `lap_timeout` | 0 to 21, how long a peer may take to take a path, as in LAP: 4.096 us * 2^value   |
//! | `lap_retries` | 0 to 15, how often it is asked again                                             |
//!
//! A folder in it lists a peer, by the node GUID of its HCA: 16 digits, with colons or without. Its file:
//!
//! | file        | what                                                                             |
//! |-------------|----------------------------------------------------------------------------------|
//! | `alternate` | `PORT LID` or `PORT GID`: the ends of the alternate path to it, here and there; `auto` |

use crate::policy::{
    Mode,
    Policy, //
};
use crate::tables::Shared;
use crate::watch::Level;
#[allow(
    unused_imports,
    reason = "`configfs_attrs!` wants THIS_MODULE in scope, but not that of kernel 7.3"
)]
use crate::*;
use core::net::Ipv6Addr;
use core::str::FromStr;
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
use proto::cm::watch::{
    Choice,
    End, //
};
use proto::cm::LONGEST;
use rdma::configfs::{
    self,
    show, //
};
use rdma::module;
use wire::{
    Gid,
    Lid,
    PortNum, //
};

/// The most retries that a LAP has: four bits, as REQ has for all others.
const MAX_RETRIES: u8 = 15;

/// The folder of all HCAs.
pub(crate) struct Hcas(Arc<Shared>);

/// The folder of an HCA.
pub(crate) struct Hca {
    shared: Arc<Shared>,
    policy: Arc<Policy>,
}

/// The folder of a peer.
pub(crate) struct Peer {
    policy: Arc<Policy>,
    guid: u64,
}

/// Makes `/sys/kernel/config/sib_cm`.
pub(crate) fn register(shared: Arc<Shared>) -> Result<Pin<KBox<Subsystem<Hcas>>>> {
    let kind = configfs_attrs! {
        container: Subsystem<Hcas>,
        data: Hcas,
        child: Hca,
        attributes: [],
    };
    configfs::register(c"sib_cm", kind, Hcas(shared))
}

#[vtable]
impl GroupOperations for Hcas {
    type Child = Hca;

    fn make_group(&self, name: &CStr) -> Result<impl PinInit<Group<Hca>, Error>> {
        module::check_loaded(&crate::MODULE)?;
        let kind = configfs_attrs! {
            container: Group<Hca>,
            data: Hca,
            child: Peer,
            attributes: [
                mode: 0,
                watch: 1,
                peers: 2,
                lap_timeout: 3,
                lap_retries: 4,
            ],
        };
        let shared = self.0.clone();
        let bytes = name.to_bytes();
        let (mode, level) = match shared.device_called(bytes) {
            Some(device) => (Mode::new(device.adapter.is_dedicated()), Level::of(&device)),
            None => (shared.policies.mode_of(bytes), Level::default()),
        };
        let policy = Policy::new(bytes, mode, level)?;
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

#[vtable]
impl GroupOperations for Hca {
    type Child = Peer;

    fn make_group(&self, name: &CStr) -> Result<impl PinInit<Group<Peer>, Error>> {
        let kind = configfs_attrs! {
            container: Group<Peer>,
            data: Peer,
            attributes: [
                alternate: 0,
            ],
        };
        let guid = configfs::guid(name.to_bytes()).inspect_err(|_| {
            pr_err!("configfs: a peer is named by its node GUID, 16 digits\n");
        })?;
        self.policy.list(guid)?;
        let peer = Peer {
            policy: self.policy.clone(),
            guid,
        };
        Ok(Group::new(
            CString::try_from(name)?,
            kind,
            Ok::<_, Error>(peer),
        ))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.policy.unlist(self.guid);
    }
}

/// `PORT LID`, `PORT GID` or `auto`.
fn choice(text: &str) -> Result<Option<Choice>> {
    if text == "auto" {
        return Ok(None);
    }
    let (port, end) = text.split_once(' ').ok_or(EINVAL)?;
    let port = u8::from_str(port).map_err(|_| EINVAL)?;
    let remote = match (u16::from_str(end), Ipv6Addr::from_str(end)) {
        (Ok(lid), _) => End::Lid(Lid::new(lid)),
        (_, Ok(gid)) => End::Gid(Gid::new(gid.octets())),
        (Err(_), Err(_)) => return Err(EINVAL),
    };
    let local = PortNum::new(port);
    if port == 0 {
        return Err(EINVAL);
    }
    Ok(Some(Choice { local, remote }))
}

/// What was written, without the end of the line.
fn line(page: &[u8]) -> Result<&str> {
    Ok(core::str::from_utf8(page)
        .map_err(|_| misfit("...", "text"))?
        .trim())
}

/// Has the log say why `text` is refused.
fn misfit(text: &str, wanted: &str) -> Error {
    pr_err!("configfs: \"{text:.60}\" is not {wanted}\n");
    EINVAL
}

/// A number up to `most`.
fn number(page: &[u8], most: u8) -> Result<u8> {
    let text = line(page)?;
    let number = u8::from_str(text).ok().filter(|number| *number <= most);
    number.ok_or_else(|| {
        pr_err!("configfs: \"{text:.60}\" is not a number from 0 to {most}\n");
        EINVAL
    })
}

#[vtable]
impl AttributeOperations<0> for Hca {
    type Data = Hca;

    fn show(hca: &Hca, page: &mut [u8; PAGE_SIZE]) -> Result<usize> {
        let mode = hca.policy.with(|wanted| wanted.mode);
        show(page, fmt!("{}\n", mode.name()))
    }

    fn store(hca: &Hca, page: &[u8]) -> Result {
        let text = line(page)?;
        let mode = Mode::named(text).ok_or_else(|| misfit(text, "shared or dedicated"))?;
        let device = hca.shared.device_called(hca.policy.name());
        if device.is_some_and(|device| Mode::new(device.adapter.is_dedicated()) != mode) {
            pr_err!("configfs: an HCA that is there has its mode until it is removed\n");
            return Err(EBUSY);
        }
        hca.policy.with(|wanted| wanted.mode = mode);
        Ok(())
    }
}

#[vtable]
impl AttributeOperations<1> for Hca {
    type Data = Hca;

    fn show(hca: &Hca, page: &mut [u8; PAGE_SIZE]) -> Result<usize> {
        let level = hca.policy.with(|wanted| wanted.level);
        show(page, fmt!("{}\n", level.name()))
    }

    fn store(hca: &Hca, page: &[u8]) -> Result {
        let text = line(page)?;
        let level = Level::named(text).ok_or_else(|| misfit(text, "off, respond or full"))?;
        hca.policy.with(|wanted| wanted.level = level);
        if let Some(device) = hca.shared.device_called(hca.policy.name()) {
            level.set(&device);
            // It forgets connections of HCAs where nothing is done any more.
            hca.shared.watch.poke();
        }
        Ok(())
    }
}

#[vtable]
impl AttributeOperations<2> for Hca {
    type Data = Hca;

    fn show(hca: &Hca, page: &mut [u8; PAGE_SIZE]) -> Result<usize> {
        let is_listed_only = hca.policy.with(|wanted| wanted.is_listed_only);
        let word = if is_listed_only { "listed" } else { "any" };
        show(page, fmt!("{word}\n"))
    }

    fn store(hca: &Hca, page: &[u8]) -> Result {
        let is_listed_only = match line(page)? {
            "any" => false,
            "listed" => true,
            other => return Err(misfit(other, "any or listed")),
        };
        hca.policy
            .with(|wanted| wanted.is_listed_only = is_listed_only);
        Ok(())
    }
}

#[vtable]
impl AttributeOperations<3> for Hca {
    type Data = Hca;

    fn show(hca: &Hca, page: &mut [u8; PAGE_SIZE]) -> Result<usize> {
        let timing = hca.policy.with(|wanted| wanted.timing);
        show(page, fmt!("{}\n", timing.response))
    }

    fn store(hca: &Hca, page: &[u8]) -> Result {
        let response = number(page, LONGEST)?;
        hca.policy.with(|wanted| wanted.timing.response = response);
        Ok(())
    }
}

#[vtable]
impl AttributeOperations<4> for Hca {
    type Data = Hca;

    fn show(hca: &Hca, page: &mut [u8; PAGE_SIZE]) -> Result<usize> {
        let timing = hca.policy.with(|wanted| wanted.timing);
        show(page, fmt!("{}\n", timing.retries))
    }

    fn store(hca: &Hca, page: &[u8]) -> Result {
        let retries = number(page, MAX_RETRIES)?;
        hca.policy.with(|wanted| wanted.timing.retries = retries);
        Ok(())
    }
}

#[vtable]
impl AttributeOperations<0> for Peer {
    type Data = Peer;

    fn show(peer: &Peer, page: &mut [u8; PAGE_SIZE]) -> Result<usize> {
        match peer.policy.choice(peer.guid) {
            None => show(page, fmt!("auto\n")),
            Some(Choice { local, remote }) => match remote {
                End::Lid(lid) => show(page, fmt!("{} {}\n", local.get(), lid.get())),
                End::Gid(gid) => {
                    let gid = Ipv6Addr::from(gid.get());
                    show(page, core::format_args!("{} {gid}\n", local.get()))
                }
            },
        }
    }

    fn store(peer: &Peer, page: &[u8]) -> Result {
        let text = line(page)?;
        let choice = choice(text).map_err(|_| misfit(text, "auto, PORT LID or PORT GID"))?;
        peer.policy.choose(peer.guid, choice);
        Ok(())
    }
}
