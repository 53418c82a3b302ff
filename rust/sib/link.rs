// SPDX-License-Identifier: GPL-2.0

//! `rdma link add NAME type sib netdev UNDERLAY`, and the end of what it made.

use crate::debug::Files;
use crate::driver::Sib;
use crate::fabric::Berth;
use crate::hca::Hca;
use crate::params;
use crate::registry::{
    self,
    Enlisted,
    Lease,
    User, //
};
use kernel::cpu;
use kernel::pr_err_once;
use kernel::prelude::*;
use rdma::cm;
use rdma::ib::{
    DeviceInit,
    Registrar,
    UnregisteredDevice, //
};
use rdma::net::NetDevice;
use rdma::sync::{
    Cx,
    Sleepable,
    Tracked,
    Unlocked,
    Watch, //
};

/// Completion vectors beside those of the CPUs: vector 0, which has none.
const ANY_CPU_VECTORS: u32 = 1;

/// Makes an HCA on the fabric of `netdev` and registers it as `name`.
///
/// # Errors
///
/// `EEXIST` when the name is taken; `EINVAL` for one that is no name of a folder, or has a `%`; `ENOSPC` when the switch
/// has no more ports; `ENODEV` when `netdev` goes away meanwhile; `ENOMEM`.
pub(crate) fn add(
    cx: &mut Cx<'_, Unlocked>,
    sleepable: Sleepable<'_>,
    registrar: &Registrar<Sib>,
    name: &CStr,
    netdev: &NetDevice,
) -> Result {
    let bytes = name.to_bytes();
    if bytes.contains(&b'/') || bytes == b"." || bytes == b".." {
        return Err(EINVAL);
    }
    // One that is being made, or is another driver's, ib_core knows.
    if registry::hca(bytes).is_ok() {
        return Err(EEXIST);
    }
    let lease = registry::acquire(cx, sleepable, netdev, User::Hca(None))?;
    let made = lease
        .fabric
        .reserve(cx, params::ports())
        .inspect_err(|error| {
            if *error == ENOSPC {
                pr_err_once!("{}: no free port on the switch\n", netdev.name());
            }
        })
        .and_then(|berth| {
            make(sleepable, registrar, name, &lease, berth)
                .inspect_err(|_| lease.fabric.leave(cx, &berth))
        });
    let (device, hca) = match made {
        Ok(made) => made,
        Err(error) => {
            registry::release(cx, sleepable, &lease.fabric, lease.ticket);
            return Err(error);
        }
    };
    let watch = match start(cx, &hca, name) {
        Ok(watch) => watch,
        Err(error) => {
            removed(cx, sleepable, &hca);
            return Err(error);
        }
    };
    let device = device
        .register(cx.reborrow(), sleepable, name, hca)
        .map_err(|error| if error == ENFILE { EEXIST } else { error })?;
    // QP0 is there from now on.
    lease.fabric.stir(cx);
    let enlisted = Enlisted { device, hca: watch };
    registry::enlist(&lease.fabric, lease.ticket, enlisted).map_err(|device| {
        device.unregister_queued(cx, sleepable);
        ENODEV
    })
}

/// Makes an HCA and what ib_core needs for it.
fn make<'a>(
    sleepable: Sleepable<'_>,
    registrar: &'a Registrar<Sib>,
    name: &CStr,
    lease: &Lease,
    berth: Berth,
) -> Result<(UnregisteredDevice<'a, Sib>, Tracked<Hca>)> {
    let guids = lease.fabric.base().hca(berth.number());
    let mut description = [0; 64];
    for (to, from) in description.iter_mut().zip(name.to_bytes()) {
        *to = *from;
    }
    let device = UnregisteredDevice::new(
        registrar,
        &DeviceInit {
            ports: u32::from(berth.ports()),
            node_guid: guids.node().get(),
            node_desc: description,
            num_comp_vectors: cpu::nr_cpu_ids().saturating_add(ANY_CPU_VECTORS),
            parent: Some(&lease.parent),
        },
    )?;
    let is_dedicated = cm::claims(name.to_bytes());
    let upcall = device.upcall();
    let hca = Hca::new(lease, berth, description, is_dedicated, upcall, sleepable)?;
    Ok((device, Tracked::new(hca)?))
}

/// Plugs an HCA in.
fn start(cx: &mut Cx<'_, Unlocked>, hca: &Tracked<Hca>, name: &CStr) -> Result<Watch<Hca>> {
    let held = hca.hold().ok_or(ENODEV)?;
    hca.fabric.join(cx, &held)?;
    let files = Files::new(&held, name)?;
    *hca.debug.lock() = Some(files);
    let other = held.try_clone().ok_or(ENODEV)?;
    hca.fault_clock.attach(other).map_err(|_| EBUSY)?;
    let other = held.try_clone().ok_or(ENODEV)?;
    hca.convoy.begin(other)?;
    let watch = held.watcher();
    hca.clock.attach(held).map_err(|_| EBUSY)?;
    Ok(watch)
}

/// Unplugs an HCA that ib_core does not know any more, and gives its place back.
pub(crate) fn removed(cx: &mut Cx<'_, Unlocked>, sleepable: Sleepable<'_>, hca: &Tracked<Hca>) {
    hca.end_rails(cx, sleepable);
    hca.fabric.part(cx, &hca.berth);
    let files = hca.debug.lock().take();
    drop(files);
    hca.fault_clock.shutdown(cx, sleepable);
    hca.clock.shutdown(cx, sleepable);
    hca.convoy.end(cx, sleepable);
    hca.close(cx, sleepable);
    hca.fabric.leave(cx, &hca.berth);
    registry::release(cx, sleepable, &hca.fabric, hca.ticket);
}
