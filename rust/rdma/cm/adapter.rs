// SPDX-License-Identifier: GPL-2.0

//! Devices as the connection manager has them.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use super::agent::{
    Agent,
    Way, //
};
use super::paths::{
    self,
    PathCount,
    PathState,
    QpPeer, //
};
use crate::ib::{
    AhAttr,
    GlobalRoute,
    PortCaps,
    PortModify,
    MAD_SIZE, //
};
use crate::sync::{
    Cx,
    Held,
    Sleepable,
    Tracked,
    Unlocked,
    Watch, //
};
use core::convert::Infallible;
use kernel::error::to_result;
use kernel::prelude::*;
use sib_bindings as bindings;

/// A device, and what the manager has there.
///
/// # Invariants
///
/// `raw` is registered. There is one agent for each port, in order.
pub(super) struct Link {
    raw: *mut bindings::ib_device,
    agents: KVec<Agent>,
    /// What receives, of a dedicated device.
    _receivers: KVec<Agent>,
}

// SAFETY: The device is used by thread-safe functions alone, and only while it is registered.
unsafe impl Send for Link {}
// SAFETY: As above.
unsafe impl Sync for Link {}

impl Link {
    /// Registers agents for all ports.
    ///
    /// # Safety
    ///
    /// The device is one of this driver, and stays registered until the owner has been dropped.
    pub(super) unsafe fn new(raw: *mut bindings::ib_device) -> Result<Tracked<Self>> {
        // SAFETY: The device is alive by the promise, and the number of its ports never changes.
        let ports = unsafe { (*raw).phys_port_cnt };
        // SAFETY: The device is one of this driver, and in use for the call.
        let is_dedicated = unsafe { paths::is_dedicated_to_manager(raw) };
        let mut agents = KVec::new();
        let mut receivers = KVec::new();
        for port in 1..=ports {
            // SAFETY: By the promise.
            agents.push(unsafe { Agent::new(raw, port) }?, GFP_KERNEL)?;
            if is_dedicated {
                // SAFETY: By the promise.
                receivers.push(unsafe { Agent::receiver(raw, port) }?, GFP_KERNEL)?;
            }
        }
        // INVARIANT: As promised, with the agents made above.
        Tracked::new::<Infallible>(Self {
            raw,
            agents,
            _receivers: receivers,
        })
    }

    fn agent(&self, port: u32) -> Result<&Agent> {
        let index = port.checked_sub(1).ok_or(EINVAL)?;
        self.agents.get(index as usize).ok_or(EINVAL)
    }
}

/// What a port is called.
#[derive(Clone, Copy, Debug)]
pub struct PortNames {
    /// The base LID; 0 if it has none yet.
    pub lid: u16,
    /// The LID mask control: how many low bits of LIDs are the port's own.
    pub lmc: u8,
    /// Its GID, that of index 0.
    pub gid: [u8; 16],
    /// It is active: what others send to it arrives.
    pub is_active: bool,
}

/// A device, until the manager has let go of it. After that all calls fail with `ENODEV`.
pub struct Adapter {
    link: Watch<Link>,
    guid: u64,
    ports: u32,
    is_dedicated: bool,
}

impl Adapter {
    pub(super) fn new(link: &Held<Link>) -> Self {
        Self {
            link: link.watcher(),
            // SAFETY: The device is alive while its link is held. Neither of these changes.
            guid: u64::from_be(unsafe { (*link.raw).node_guid }),
            // SAFETY: As above.
            ports: unsafe { (*link.raw).phys_port_cnt },
            // SAFETY: As above; the device is one of this driver.
            is_dedicated: unsafe { paths::is_dedicated_to_manager(link.raw) },
        }
    }

    /// The GUID of the node, in host order.
    pub fn guid(&self) -> u64 {
        self.guid
    }

    /// The number of ports, which are numbered from 1.
    pub fn ports(&self) -> u32 {
        self.ports
    }

    /// Whether ib_cm is kept off the device: then all datagrams of communication management come to this manager, and
    /// what it does not answer nobody does.
    pub fn is_dedicated(&self) -> bool {
        self.is_dedicated
    }

    /// Whether the running task may use the device, by the network namespaces of both.
    pub fn is_accessible(&self) -> bool {
        self.link().is_ok_and(|link| {
            // SAFETY: The device is registered while its link is held.
            unsafe { bindings::sib_helper_ib_device_is_accessible(link.raw) }
        })
    }

    /// Whether `name` is the name of the device now.
    pub fn is_called(&self, name: &[u8]) -> bool {
        self.link().is_ok_and(|link| {
            // SAFETY: The device is registered while its link is held; the C side reads `name.len()` bytes.
            unsafe {
                bindings::sib_helper_ib_device_is_called(link.raw, name.as_ptr().cast(), name.len())
            }
        })
    }

    fn link(&self) -> Result<Held<Link>> {
        self.link.hold().ok_or(ENODEV)
    }

    /// Sends a datagram to QP1 of another port.
    ///
    /// Success says that it has been queued, not that it arrives.
    pub fn send(
        &self,
        _cx: &mut Cx<'_, Unlocked>,
        _s: Sleepable<'_>,
        port: u32,
        way: &Way,
        mad: &[u8; MAD_SIZE],
    ) -> Result {
        self.link()?.agent(port)?.send(port, way, mad)
    }

    /// What a port is called at present.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there is no such port.
    pub fn port_names(
        &self,
        _cx: &mut Cx<'_, Unlocked>,
        _s: Sleepable<'_>,
        port: u32,
    ) -> Result<PortNames> {
        let link = self.link()?;
        let mut attr = bindings::ib_port_attr::default();
        let mut gid = bindings::ib_gid::default();
        // SAFETY: The device is registered while its link is held; ib_core checks the port.
        to_result(unsafe { bindings::ib_query_port(link.raw, port, &mut attr) })?;
        // SAFETY: As above.
        to_result(unsafe { bindings::rdma_query_gid(link.raw, port, 0, &mut gid) })?;
        Ok(PortNames {
            lid: attr.lid as u16,
            lmc: attr.lmc,
            // SAFETY: A GID is just its bytes.
            gid: unsafe { *gid.raw.as_ref() },
            is_active: attr.state == bindings::ib_port_state_IB_PORT_ACTIVE,
        })
    }

    /// How the connected queue pair `qpn` stands.
    ///
    /// # Errors
    ///
    /// `ENOENT` if there is none.
    pub fn path_state(
        &self,
        cx: &mut Cx<'_, Unlocked>,
        s: Sleepable<'_>,
        qpn: u32,
    ) -> Result<PathState> {
        let link = self.link()?;
        // SAFETY: The device is one of this driver, and registered while its link is held.
        unsafe { paths::state_of(link.raw, cx, s, qpn) }
    }

    /// Counts what the manager has to do with alternate paths, at the port where it has; `rdma statistic` shows it.
    pub fn count(&self, port: u32, count: PathCount) {
        if let Ok(link) = self.link() {
            // SAFETY: The device is one of this driver, and registered while its link is held.
            unsafe { paths::count_at(link.raw, port, count) };
        }
    }

    /// Loads an alternate path from `port` on into the queue pair `qpn`, which is connected to `peer`, and asks for
    /// REARM. Its owner does not learn of that; P_Key and ACK timeout are those in use.
    ///
    /// # Errors
    ///
    /// `ENOENT` if there is no such queue pair, `EPERM` if its owner manages paths or it is connected to another one,
    /// `EINVAL` if it is not in RTS, or ARMED, or the path cannot be.
    pub fn load_path(
        &self,
        cx: &mut Cx<'_, Unlocked>,
        s: Sleepable<'_>,
        (qpn, peer): (u32, QpPeer),
        port: u32,
        way: &Way,
    ) -> Result {
        let link = self.link()?;
        let path = AhAttr {
            dlid: way.dlid,
            src_path_bits: way.src_path_bits,
            sl: way.sl,
            static_rate: 0,
            port,
            grh: way.global.map(|global| GlobalRoute {
                dgid: global.dgid,
                flow_label: global.flow_label,
                sgid_index: global.sgid_index,
                hop_limit: global.hop_limit,
                traffic_class: global.traffic_class,
            }),
        };
        // SAFETY: As above.
        unsafe { paths::load_into(link.raw, cx, s, qpn, peer, &path) }
    }

    /// The entry of the port's P_Key table that has `pkey`, as a full or a limited member.
    pub fn pkey_index(&self, port: u32, pkey: u16) -> Result<u16> {
        let link = self.link()?;
        let mut index = 0;
        // SAFETY: As above.
        to_result(unsafe { bindings::ib_find_cached_pkey(link.raw, port, pkey, &mut index) })?;
        Ok(index)
    }

    /// Changes what the port says of itself to the subnet.
    pub fn change_caps(
        &self,
        cx: &mut Cx<'_, Unlocked>,
        s: Sleepable<'_>,
        port: u32,
        set: PortCaps,
        clear: PortCaps,
    ) -> Result {
        let link = self.link()?;
        let change = PortModify {
            set_caps: set,
            clear_caps: clear,
            shutdown: false,
            init_type: None,
            reset_qkey_counter: false,
        };
        // SAFETY: The device is one of this driver, and registered while its link is held.
        unsafe { paths::change_port(link.raw, cx, s, port, &change) }
    }
}
