// SPDX-License-Identifier: GPL-2.0

//! Cables to the switches of other underlays: sockets, control messages, and links that follow them.

use super::account::Dropped;
use super::key::Key;
use super::now;
use super::udp::{
    self,
    Endpoint,
    Hook,
    Own,
    Reader,
    Way, //
};
use super::{
    End,
    Fabric,
    State, //
};
use crate::params;
use core::net::{
    IpAddr,
    Ipv4Addr,
    SocketAddr, //
};
use kernel::prelude::*;
use kernel::sync::Arc;
use proto::fabric::line::{
    self,
    Capacity,
    Change,
    Destination,
    Line,
    Message,
    Obstacle,
    Oneself, //
};
use proto::fabric::link::Phy;
use proto::time::{
    Duration,
    Instant, //
};
use rdma::errno;
use rdma::net::{
    Ends,
    NetDevice,
    Path,
    Skb,
    UdpSocket,
    Version, //
};
use rdma::sync::{
    Cx,
    Held,
    IrqsOn,
    Sleepable,
    Tracked,
    Unlocked, //
};
use wire::header;
use wire::icrc;
use wire::outer;
use wire::outer::control::{
    ByeReason,
    RefuseReason, //
};
use wire::{
    Guid,
    Mtu,
    PortNum, //
};

/// Time to live of the datagrams of a cable.
const HOPS: u8 = 64;

/// The sizes of an IPv4, an IPv6 and a UDP header.
const IPV4_LEN: usize = 20;
const IPV6_LEN: usize = 40;
const UDP_LEN: usize = 8;

/// The time between two complaints in the log about cables that beacons have made: who is on the layer 2 can have
/// any number of them wait.
const COMPLAINT: Duration = Duration::from_millis(600_000);

/// Who has plugged a cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The administrator.
    Configured,
    /// A beacon of the switch at the other end.
    Beacon,
}

/// A cable whose other end is not a port of an HCA here.
pub(super) struct Cable {
    pub(super) way: Way,
    pub(super) line: Line,
    pub(super) origin: Origin,
    /// The fabric key that the other end has to have, if there is one.
    pub(super) key: Option<Arc<Key>>,
    /// It is for this cable alone, and not the one of all others.
    pub(super) own_key: bool,
    /// The underlay carries the smallest packets at least. The cable waits until it does.
    pub(super) fits: bool,
    /// Since when the other end has not been there, if it is not.
    pub(super) silent_since: Instant,
}

/// What `underlay` carries in a datagram to `remote`.
fn capacity(underlay: &NetDevice, remote: SocketAddr) -> Result<Capacity> {
    const AROUND: usize = outer::LEN + header::MAX_LEN + icrc::LEN;
    let ip = if remote.is_ipv4() { IPV4_LEN } else { IPV6_LEN };
    let room = (underlay.mtu() as usize).saturating_sub(ip + UDP_LEN);
    let mtu = room.checked_sub(AROUND).and_then(Mtu::fitting);
    Ok(Capacity {
        mtu: mtu.ok_or(EMSGSIZE)?,
        room: match params::bundles() {
            true => u16::try_from(room).unwrap_or(u16::MAX),
            false => 0,
        },
    })
}

/// Why a cable could not be plugged in, if [`Fabric::plug`] failed with an `error` that has a reason of its own.
pub(crate) fn refusal(error: Error) -> Option<&'static str> {
    Some(match error {
        EEXIST => "the switch has a cable to that remote",
        ENOSPC => "the switch has no free port",
        EMSGSIZE => "the MTU of the netdev is too small",
        _ if error == errno::address_not_available() => "the remote is an address of this host",
        _ if error == errno::address_in_use() => "another program has the UDP port",
        _ => return None,
    })
}

/// Why a cable waits.
pub(super) const fn reason(obstacle: Obstacle) -> &'static str {
    match obstacle {
        Obstacle::Key => "its other end has not the fabric key of this one",
        Obstacle::Refused(RefuseReason::Key) => "its other end has another fabric key",
        Obstacle::Refused(_) => "its other end refuses it",
    }
}

/// The datagram of a message.
fn datagram(parcel: &Parcel) -> Option<Skb> {
    let mut buf = [0; line::MAX_LEN];
    let (message, remote) = (&parcel.message, parcel.way.path.remote());
    let to = Destination::new(remote, remote);
    let len = message.emit(parcel.cookie, parcel.key.as_deref(), to, &mut buf);
    let bytes = buf.get(..len.ok()?)?;
    let mut skb = Skb::alloc(bytes.len()).ok()?;
    skb.append(bytes)?;
    Some(skb)
}

/// A message on its way out.
pub(super) struct Parcel {
    way: Way,
    cookie: u64,
    message: Message,
    key: Option<Arc<Key>>,
}

impl Cable {
    /// Who reads at its other end.
    pub(super) fn reader(&self) -> Reader {
        Reader {
            cookie: self.line.peer_cookie(),
            room: self.line.room(),
        }
    }

    /// `message` for the cookie `cookie`.
    pub(super) fn parcel(&self, cookie: u64, message: Message) -> Option<Parcel> {
        Some(Parcel {
            way: self.way.try_clone()?,
            cookie,
            message,
            key: self.key.clone(),
        })
    }
}

/// The sockets of a fabric.
pub(super) type Endpoints = KVec<Tracked<Endpoint>>;

impl Fabric {
    /// Opens the way from the switch to itself.
    pub(super) fn open_own(
        self: &Arc<Self>,
        cx: &mut Cx<'_, Unlocked>,
        sleepable: Sleepable<'_>,
        underlay: &NetDevice,
    ) -> Result {
        let hook = Arc::new(Hook(self.clone()), GFP_KERNEL)?;
        let socket = UdpSocket::open(underlay, Version::V4, 0, false, hook, cx, sleepable)?;
        let remote = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), socket.port());
        let path = Arc::new(Path::new(remote, HOPS, None)?, GFP_KERNEL)?;
        let endpoint = Endpoint {
            socket,
            account: self.account.clone(),
        };
        let endpoint = Self::keep(&mut self.endpoints.lock(), endpoint)?;
        let own = Own {
            way: Way {
                endpoint,
                path,
                segments: true,
            },
            secret: udp::cookie(PortNum::MANAGEMENT),
            room: capacity(underlay, remote).map_or(0, |capacity| capacity.room),
        };
        cx.lock(&self.state).own = Some(own);
        Ok(())
    }

    /// Keeps an endpoint until the fabric is closed or has lost its underlay, after which there is none.
    fn keep(kept: &mut Option<Endpoints>, endpoint: Endpoint) -> Result<Held<Endpoint>> {
        let endpoint = Tracked::new(endpoint)?;
        let kept = kept.as_mut().ok_or(ENODEV)?;
        // Whoever is held must not be dropped, as it would be if there were no room for it.
        kept.reserve(1, GFP_KERNEL)?;
        let held = endpoint.hold().ok_or(ENODEV)?;
        kept.push(endpoint, GFP_KERNEL)?;
        Ok(held)
    }

    /// The socket for cables to addresses of the version of `remote`.
    pub(super) fn endpoint(
        self: &Arc<Self>,
        cx: &mut Cx<'_, Unlocked>,
        sleepable: Sleepable<'_>,
        underlay: &NetDevice,
        remote: SocketAddr,
    ) -> Result<Held<Endpoint>> {
        let slot = usize::from(remote.is_ipv6());
        // Who comes meanwhile finds what is opened here.
        let mut kept = self.endpoints.lock();
        // Until then the underlay stays in its namespace, since it waits for the sockets to be closed.
        if kept.is_none() {
            return Err(ENODEV);
        }
        let known = cx.lock(&self.state).listening.get(slot).and_then(|known| {
            let known = known.as_ref()?;
            known.try_clone()
        });
        if let Some(endpoint) = known {
            return Ok(endpoint);
        }
        let version = if remote.is_ipv4() {
            Version::V4
        } else {
            Version::V6
        };
        let hook = Arc::new(Hook(self.clone()), GFP_KERNEL)?;
        let port = params::udp_port();
        let socket = UdpSocket::open(underlay, version, port, true, hook, cx, sleepable)?;
        let endpoint = Endpoint {
            socket,
            account: self.account.clone(),
        };
        let endpoint = Self::keep(&mut kept, endpoint)?;
        let listening = endpoint.try_clone().ok_or(EBUSY)?;
        let mut state = cx.lock(&self.state);
        if state.detached {
            return Err(ENODEV);
        }
        if let Some(slot) = state.listening.get_mut(slot) {
            *slot = Some(listening);
        }
        drop(state);
        Ok(endpoint)
    }

    /// Plugs a cable to the switch at `remote` into a free port, which is returned. `key` is for this cable alone;
    /// without one the key of the fabric counts. The administrator takes over what a beacon has plugged.
    ///
    /// # Errors
    ///
    /// `EADDRNOTAVAIL` if `remote` is an address of this host; `EEXIST` if there is a cable to it; `ENOSPC` without a
    /// free port; `EMSGSIZE` if the underlay carries no packets at all; `ENODEV` if it is gone; what the network layer has
    /// against the socket, as `EADDRINUSE`.
    pub(crate) fn plug(
        self: &Arc<Self>,
        cx: &mut Cx<'_, Unlocked>,
        sleepable: Sleepable<'_>,
        underlay: &NetDevice,
        remote: SocketAddr,
        origin: Origin,
        key: Option<Arc<Key>>,
    ) -> Result<PortNum> {
        capacity(underlay, remote)?;
        if underlay.is_local(remote) {
            return Err(errno::address_not_available());
        }
        let endpoint = self.endpoint(cx, sleepable, underlay, remote)?;
        let path = Arc::new(Path::new(remote, HOPS, Some(underlay))?, GFP_KERNEL)?;
        let way = Way {
            endpoint,
            path,
            segments: underlay.segments_datagrams(),
        };
        let known = {
            let mut guard = cx.lock(&self.state);
            let state = &mut *guard;
            if let Some(port) = state.cable_to(remote) {
                let cable = state.cable(port).ok_or(EEXIST)?;
                if cable.origin == Origin::Configured || origin == Origin::Beacon {
                    return Err(EEXIST);
                }
                cable.origin = origin;
                Some(port)
            } else {
                None
            }
        };
        if let Some(port) = known {
            self.set_cable_key(cx, sleepable.irqs_on(), port, key);
            return Ok(port);
        }
        let port = {
            let mut guard = cx.lock(&self.state);
            let state = &mut *guard;
            if state.detached {
                return Err(ENODEV);
            }
            if state.cable_to(remote).is_some() {
                return Err(EEXIST);
            }
            let port = state.free_ports().next().ok_or(ENOSPC)?;
            // Read under the lock: of a change from now on the cable is told.
            let capacity = capacity(underlay, remote)?;
            self.new_generation();
            let oneself = Oneself {
                guid: self.base.switch(),
                port,
                capacity,
            };
            let line = Line::new(oneself, udp::cookie(port), udp::random());
            state.switch.set_mtu_cap(port, capacity.mtu);
            let cable = Cable {
                way,
                line,
                origin,
                own_key: key.is_some(),
                fits: true,
                key: key.or_else(|| state.key.clone()),
                silent_since: now(),
            };
            state.set_end(port, End::Cable(cable));
            port
        };
        self.rearm(cx);
        Ok(port)
    }

    /// The underlay carries packets of another size: the cables begin anew with the largest that it carries now, or
    /// wait if it carries none at all.
    pub(crate) fn resize_cables(
        &self,
        cx: &mut Cx<'_, Unlocked>,
        irqs: IrqsOn<'_>,
        underlay: &NetDevice,
    ) {
        let ports = cx.lock(&self.state).switch.port_count();
        for port in (1..=ports).map(PortNum::new) {
            let bye = {
                let mut guard = cx.lock(&self.state);
                let state = &mut *guard;
                let Some(cable) = state.cable(port) else {
                    continue;
                };
                let capacity = capacity(underlay, cable.way.path.remote());
                cable.fits = capacity.is_ok();
                let (was_up, cookie) = (cable.line.is_up(), cable.line.peer_cookie());
                let bye = match capacity {
                    Ok(capacity) => cable.line.resize(capacity, udp::cookie(port), now()),
                    Err(_) => cable.line.leave(ByeReason::Mtu),
                };
                let bye = bye.and_then(|bye| cable.parcel(cookie, bye));
                if was_up && !cable.line.is_up() {
                    state.follow(port, Change::Down);
                }
                bye
            };
            if let Some(bye) = bye {
                self.send_message(cx, irqs, &bye);
            }
        }
        self.rearm(cx);
    }

    /// Pulls the cable out of `port`, after a word to the other end.
    pub(crate) fn unplug(&self, cx: &mut Cx<'_, Unlocked>, irqs: IrqsOn<'_>, port: PortNum) {
        self.pull(cx, irqs, |_| Some(port));
    }

    /// The same for the port that `choose` names under the lock; false if that is none, or has no cable.
    pub(super) fn pull(
        &self,
        cx: &mut Cx<'_, Unlocked>,
        irqs: IrqsOn<'_>,
        choose: impl FnOnce(&State) -> Option<PortNum>,
    ) -> bool {
        let end = {
            let mut guard = cx.lock(&self.state);
            let state = &mut *guard;
            let Some(port) = choose(state) else {
                return false;
            };
            // It may have gone with the underlay, and an HCA that came too late have found its port free.
            if state.cable(port).is_none() {
                return false;
            }
            self.new_generation();
            state.switch.link_down(port, now());
            state.set_end(port, End::Open)
        };
        if let End::Cable(mut cable) = end {
            let cookie = cable.line.peer_cookie();
            let bye = cable.line.leave(ByeReason::Shutdown);
            if let Some(bye) = bye.and_then(|bye| cable.parcel(cookie, bye)) {
                self.send_message(cx, irqs, &bye);
            }
        }
        self.rearm(cx);
        true
    }

    /// Closes all sockets; cables that are plugged in are dead from then on.
    pub(crate) fn detach(&self, cx: &mut Cx<'_, Unlocked>, sleepable: Sleepable<'_>) {
        let irqs = sleepable.irqs_on();
        self.end_beacons(cx);
        let ports = {
            let mut state = cx.lock(&self.state);
            state.detached = true;
            state.switch.port_count()
        };
        for port in (1..=ports).map(PortNum::new) {
            let is_cable = cx.lock(&self.state).cable(port).is_some();
            if is_cable {
                self.unplug(cx, irqs, port);
            }
        }
        let (own, listening) = {
            let mut guard = cx.lock(&self.state);
            let state = &mut *guard;
            (state.own.take(), core::mem::take(&mut state.listening))
        };
        drop((own, listening));
        let endpoints = self.endpoints.lock().take();
        for endpoint in endpoints.iter().flatten() {
            endpoint.close(cx, sleepable);
        }
        drop(endpoints);
    }

    pub(super) fn send_message(
        &self,
        cx: &mut Cx<'_, Unlocked>,
        irqs: IrqsOn<'_>,
        parcel: &Parcel,
    ) {
        match datagram(parcel) {
            Some(skb) => parcel.way.send(cx, irqs, skb, None),
            None => self.account.dropped(Dropped::Unsendable),
        }
    }

    /// Takes a control message, from the outer header on.
    pub(super) fn take_control(
        &self,
        cx: &mut Cx<'_, Unlocked>,
        irqs: IrqsOn<'_>,
        datagram: &[u8],
        ends: Ends,
    ) -> Result<(), Dropped> {
        let reaction = {
            let mut guard = cx.lock(&self.state);
            let state = &mut *guard;
            let port = state.cable_to(ends.from).ok_or(Dropped::Stranger)?;
            state.on_control(port, datagram, ends.to)?
        };
        for parcel in reaction.parcels.iter().flatten() {
            self.send_message(cx, irqs, parcel);
        }
        self.rearm(cx);
        if reaction.refused {
            return Err(Dropped::Key);
        }
        Ok(())
    }

    /// Does what is due for the cables.
    pub(super) fn tend_cables(&self, cx: &mut Cx<'_, Unlocked>, irqs: IrqsOn<'_>) {
        let ports = cx.lock(&self.state).switch.port_count();
        for port in (1..=ports).map(PortNum::new) {
            let parcel = cx.lock(&self.state).poll_cable(port);
            if let Some(parcel) = parcel {
                self.send_message(cx, irqs, &parcel);
            }
        }
    }
}

/// What a control message leads to.
struct Reaction {
    parcels: [Option<Parcel>; 2],
    /// It had not the tag of the fabric key.
    refused: bool,
}

impl State {
    /// The cable of `port`.
    pub(super) fn cable(&mut self, port: PortNum) -> Option<&mut Cable> {
        match self.ends.get_mut(usize::from(port.get()))? {
            End::Cable(cable) => Some(cable),
            _ => None,
        }
    }

    /// The link of `port` has been taken down: its cable, if it has one, begins anew. Returns what to tell the other end.
    pub(super) fn hang_up(&mut self, port: PortNum) -> Option<Parcel> {
        let cable = self.cable(port)?;
        cable.silent_since = now();
        let cookie = cable.line.peer_cookie();
        let bye = cable.line.leave(ByeReason::Disabled)?;
        cable.parcel(cookie, bye)
    }

    /// Whether the cable of `port` is to look for its other end.
    fn wants_link(&mut self, port: PortNum) -> bool {
        let wanted = self.switch.offer(port).is_some();
        wanted && self.cable(port).is_some_and(|cable| cable.fits)
    }

    /// The cables and their ports.
    pub(super) fn cables(&self) -> impl Iterator<Item = (PortNum, &Cable)> + '_ {
        let ends = self.ends.iter().zip(0u8..);
        ends.filter_map(|(end, port)| match end {
            End::Cable(cable) => Some((PortNum::new(port), cable)),
            _ => None,
        })
    }

    /// The port whose cable leads to `remote`.
    pub(super) fn cable_to(&self, remote: SocketAddr) -> Option<PortNum> {
        let mut cables = self.cables();
        let found = cables.find(|(_, cable)| udp::same(cable.way.path.remote(), remote));
        found.map(|(port, _)| port)
    }

    /// Whether the switch `guid` is at the other end of some cable, or was before the port of that was disabled: who
    /// takes a link away does not want another one.
    pub(super) fn leads_to(&self, guid: Guid) -> bool {
        self.cables().any(|(port, cable)| {
            let disabled = self.switch.offer(port).is_none();
            cable.line.peer() == Some(guid) || (disabled && cable.line.known() == Some(guid))
        })
    }

    /// The same, of a cable that was configured.
    pub(super) fn is_configured(&self, guid: Guid) -> bool {
        let mut cables = self.cables();
        cables
            .any(|(_, cable)| cable.origin == Origin::Configured && cable.line.peer() == Some(guid))
    }

    /// A control message has come over the cable of `port`, sent `to` there. What that leads to.
    fn on_control(
        &mut self,
        port: PortNum,
        datagram: &[u8],
        to: SocketAddr,
    ) -> Result<Reaction, Dropped> {
        let wanted = self.wants_link(port);
        let cable = self.cable(port).ok_or(Dropped::Stranger)?;
        let to = Destination::new(to, cable.way.path.remote());
        let heard = cable
            .line
            .take(datagram, cable.key.as_deref(), to, wanted, now())?;
        let answer = heard.answer;
        let parcels = [
            answer.and_then(|(cookie, message)| cable.parcel(cookie, message)),
            heard.question.and_then(|hello| cable.parcel(0, hello)),
        ];
        if let Some(obstacle) = heard.obstacle {
            self.complain(port, obstacle);
        }
        self.follow(port, heard.change);
        Ok(Reaction {
            parcels,
            refused: heard.refused,
        })
    }

    /// Tells why the cable of `port` waits.
    fn complain(&mut self, port: PortNum, obstacle: Obstacle) {
        let reason = reason(obstacle);
        let now = now();
        let recent = self.complained.is_some_and(|at| now < at.after(COMPLAINT));
        let switch = self.switch.identity().node.get();
        let Some(cable) = self.cable(port) else {
            return;
        };
        let automatic = cable.origin == Origin::Beacon;
        if automatic && recent {
            return;
        }
        let (port, remote) = (port.get(), cable.way.path.remote());
        pr_info!(
            "switch {switch:#018x}: {}\n",
            core::format_args!("the cable of port {port} to {remote} waits: {reason}")
        );
        if automatic {
            self.complained = Some(now);
        }
    }

    /// What is due for the cable of `port`, if there is one.
    fn poll_cable(&mut self, port: PortNum) -> Option<Parcel> {
        let wanted = self.wants_link(port);
        let cable = self.cable(port)?;
        let cookie = cable.line.peer_cookie();
        let (change, message) = cable.line.poll(now());
        let message = message.filter(|message| wanted || !matches!(message, Message::Hello(_)));
        let parcel = message.and_then(|message| cable.parcel(cookie, message));
        self.follow(port, change);
        parcel
    }

    /// The link of `port` follows its cable.
    pub(super) fn follow(&mut self, port: PortNum, change: Change) {
        let words = match change {
            Change::None => return,
            Change::Up(mtu) => {
                self.switch.set_mtu_cap(port, mtu);
                self.switch.link_up(port, Phy::SUPPORTED, now());
                "up"
            }
            Change::Down => {
                self.switch.link_down(port, now());
                "down"
            }
        };
        self.ways.renew();
        let switch = self.switch.identity().node.get();
        let missed = self.lines.admit(now());
        if let Some(cable) = self.cable(port) {
            cable.silent_since = now();
            let (port, remote) = (port.get(), cable.way.path.remote());
            let Some(missed) = missed else { return };
            if missed > 0 {
                pr_info!("switch {switch:#018x}: {missed} changes of its cables were not told\n");
            }
            pr_info!(
                "switch {switch:#018x}: {}\n",
                core::format_args!("the cable of port {port} to {remote} is {words}")
            );
        }
    }

    /// When the next cable has something to say.
    pub(super) fn next_cable(&self) -> Option<Instant> {
        self.cables().map(|(_, cable)| cable.line.due()).min()
    }
}
