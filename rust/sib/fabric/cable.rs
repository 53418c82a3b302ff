// SPDX-License-Identifier: GPL-2.0

//! Cables to the switches of other underlays: sockets, control messages, and links that follow them.

use super::line::{
    Change,
    Line,
    Message,
    Oneself, //
};
use super::now;
use super::udp::{
    self,
    Dropped,
    Endpoint,
    Hook,
    Own,
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
use proto::fabric::link::Phy;
use proto::time::Instant;
use rdma::net::{
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
use wire::outer::control::{
    Bye,
    ByeReason,
    Hello,
    Keepalive, //
};
use wire::outer::{
    self,
    Kind,
    Outer, //
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

/// The longest control message.
const CONTROL_LEN: usize = outer::LEN + Hello::LEN;

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
    /// Since when the other end has not been there, if it is not.
    pub(super) silent_since: Instant,
}

/// The largest payload of a packet that `underlay` carries in a datagram to `remote`.
fn mtu(underlay: &NetDevice, remote: SocketAddr) -> Result<Mtu> {
    let ip = if remote.is_ipv4() { IPV4_LEN } else { IPV6_LEN };
    let around = ip + UDP_LEN + outer::LEN + header::MAX_LEN + icrc::LEN;
    let room = (underlay.mtu() as usize).checked_sub(around);
    room.and_then(Mtu::fitting).ok_or(EMSGSIZE)
}

/// The datagram of a control message for who has the cookie `cookie`.
fn datagram(message: &Message, cookie: u64) -> Option<Skb> {
    let mut body = [0; CONTROL_LEN];
    let (head, rest) = body.split_at_mut_checked(outer::LEN)?;
    let (kind, len) = match message {
        Message::Hello(hello) => (Kind::Hello, hello.emit(rest)),
        Message::HelloAck(hello) => (Kind::HelloAck, hello.emit(rest)),
        Message::Keepalive(keepalive) => (Kind::Keepalive, keepalive.emit(rest)),
        Message::Bye(reason) => (Kind::Bye, Bye { reason: *reason }.emit(rest)),
    };
    let outer = Outer {
        kind,
        flags: 0,
        cookie,
    };
    let len = outer.emit(head).ok()?.checked_add(len.ok()?)?;
    let mut skb = Skb::alloc(len).ok()?;
    skb.append(body.get(..len)?)?;
    Some(skb)
}

/// A message on its way out: where, for which cookie, what.
type Parcel = (Way, u64, Message);

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
        let endpoint = self.keep(Endpoint { socket })?;
        let own = Own {
            way: Way { endpoint, path },
            secret: udp::cookie(PortNum::MANAGEMENT),
        };
        cx.lock(&self.state).own = Some(own);
        Ok(())
    }

    /// Keeps an endpoint until the fabric is closed.
    fn keep(&self, endpoint: Endpoint) -> Result<Held<Endpoint>> {
        let endpoint = Tracked::new(endpoint)?;
        let held = endpoint.hold().ok_or(ENODEV)?;
        self.endpoints.lock().push(endpoint, GFP_KERNEL)?;
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
        let endpoint = self.keep(Endpoint { socket })?;
        let listening = endpoint.try_clone().ok_or(EBUSY)?;
        if let Some(slot) = cx.lock(&self.state).listening.get_mut(slot) {
            *slot = Some(listening);
        }
        Ok(endpoint)
    }

    /// Plugs a cable to the switch at `remote` into a free port, which is returned. The administrator takes over
    /// what a beacon has plugged.
    ///
    /// # Errors
    ///
    /// `EEXIST` if there is a cable to `remote`; `ENOSPC` without a free port; `EMSGSIZE` if the underlay
    /// carries no packets at all; what the network layer has against the socket.
    pub(crate) fn plug(
        self: &Arc<Self>,
        cx: &mut Cx<'_, Unlocked>,
        sleepable: Sleepable<'_>,
        underlay: &NetDevice,
        remote: SocketAddr,
        origin: Origin,
    ) -> Result<PortNum> {
        let mtu = mtu(underlay, remote)?;
        let endpoint = self.endpoint(cx, sleepable, underlay, remote)?;
        let path = Arc::new(Path::new(remote, HOPS, Some(underlay))?, GFP_KERNEL)?;
        let way = Way { endpoint, path };
        let port = {
            let mut guard = cx.lock(&self.state);
            let state = &mut *guard;
            if let Some(port) = state.cable_to(remote) {
                let cable = state.cable(port).ok_or(EEXIST)?;
                if cable.origin == Origin::Configured || origin == Origin::Beacon {
                    return Err(EEXIST);
                }
                cable.origin = origin;
                return Ok(port);
            }
            let port = state.free_ports().next().ok_or(ENOSPC)?;
            self.new_generation();
            let oneself = Oneself {
                guid: self.base.switch(),
                port,
                mtu,
            };
            let line = Line::new(oneself, udp::cookie(port), udp::cookie(port));
            state.switch.set_mtu_cap(port, mtu);
            let cable = Cable {
                way,
                line,
                origin,
                silent_since: now(),
            };
            state.set_end(port, End::Cable(cable));
            port
        };
        self.rearm(cx);
        Ok(port)
    }

    /// Pulls the cable out of `port`, after a word to the other end.
    pub(crate) fn unplug(&self, cx: &mut Cx<'_, Unlocked>, irqs: IrqsOn<'_>, port: PortNum) {
        self.pull(cx, irqs, |_| Some(port));
    }

    /// The same for the port that `choose` names under the lock; false if that is none.
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
            self.new_generation();
            state.switch.link_down(port, now());
            state.set_end(port, End::Open)
        };
        if let End::Cable(mut cable) = end {
            let cookie = cable.line.peer_cookie();
            if let Some(message) = cable.line.leave(ByeReason::Shutdown) {
                self.send_message(cx, irqs, &(cable.way, cookie, message));
            }
        }
        self.rearm(cx);
        true
    }

    /// Closes all sockets; cables that are plugged in are dead from then on.
    pub(crate) fn detach(&self, cx: &mut Cx<'_, Unlocked>, sleepable: Sleepable<'_>) {
        let irqs = sleepable.irqs_on();
        self.end_beacons(cx);
        let ports = cx.lock(&self.state).switch.port_count();
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
        let endpoints = core::mem::take(&mut *self.endpoints.lock());
        for endpoint in &endpoints {
            endpoint.close(cx, sleepable);
        }
        drop(endpoints);
    }

    fn send_message(&self, cx: &mut Cx<'_, Unlocked>, irqs: IrqsOn<'_>, parcel: &Parcel) {
        let (way, cookie, message) = parcel;
        match datagram(message, *cookie) {
            Some(skb) => self.send_skb(cx, irqs, way, skb),
            None => self.drops.count(Dropped::Unsendable),
        }
    }

    /// Takes a control message.
    pub(super) fn take_control(
        &self,
        cx: &mut Cx<'_, Unlocked>,
        irqs: IrqsOn<'_>,
        body: &[u8],
        from: SocketAddr,
        outer: &Outer,
    ) -> Result<(), Dropped> {
        let parcel = {
            let mut guard = cx.lock(&self.state);
            let state = &mut *guard;
            let port = state.cable_to(from).ok_or(Dropped::Stranger)?;
            state.on_control(port, outer, body)?
        };
        if let Some(parcel) = parcel {
            self.send_message(cx, irqs, &parcel);
        }
        self.rearm(cx);
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

    /// Tells the other end of the cable of `port` that its link has been taken down.
    pub(super) fn hang_up(&self, cx: &mut Cx<'_, Unlocked>, irqs: IrqsOn<'_>, port: PortNum) {
        let parcel = {
            let mut guard = cx.lock(&self.state);
            guard.cable(port).and_then(|cable| {
                let cookie = cable.line.peer_cookie();
                let message = cable.line.leave(ByeReason::Disabled)?;
                cable.line.on_bye();
                Some((cable.way.try_clone()?, cookie, message))
            })
        };
        if let Some(parcel) = parcel {
            self.send_message(cx, irqs, &parcel);
        }
    }
}

impl State {
    /// The cable of `port`.
    fn cable(&mut self, port: PortNum) -> Option<&mut Cable> {
        match self.ends.get_mut(usize::from(port.get()))? {
            End::Cable(cable) => Some(cable),
            _ => None,
        }
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

    /// Whether the switch `guid` is at the other end of some cable.
    pub(super) fn leads_to(&self, guid: Guid) -> bool {
        self.cables()
            .any(|(_, cable)| cable.line.peer() == Some(guid))
    }

    /// The same, of a cable that was configured.
    pub(super) fn is_configured(&self, guid: Guid) -> bool {
        let mut cables = self.cables();
        cables
            .any(|(_, cable)| cable.origin == Origin::Configured && cable.line.peer() == Some(guid))
    }

    /// A control message has come over the cable of `port`. What to answer.
    fn on_control(
        &mut self,
        port: PortNum,
        outer: &Outer,
        body: &[u8],
    ) -> Result<Option<Parcel>, Dropped> {
        let wanted = self.switch.offer(port).is_some();
        let oneself = self.switch.identity().node;
        let cable = self.cable(port).ok_or(Dropped::Stranger)?;
        if outer.kind != Kind::Hello && outer.cookie != cable.line.cookie() {
            return Err(Dropped::Stranger);
        }
        let mut answer = None;
        let change = match outer.kind {
            Kind::Hello => {
                let hello = Hello::parse(body)?;
                if hello.guid == oneself {
                    return Err(Dropped::Stranger);
                }
                if !wanted && !cable.line.is_up() {
                    return Ok(None);
                }
                let (change, message) = cable.line.on_hello(&hello, now());
                answer = Some(message);
                change
            }
            Kind::HelloAck => cable.line.on_hello_ack(&Hello::parse(body)?, now()),
            Kind::Keepalive => {
                cable.line.on_keepalive(&Keepalive::parse(body)?, now());
                Change::None
            }
            Kind::Bye => {
                Bye::parse(body)?;
                cable.line.on_bye()
            }
            _ => Change::None,
        };
        let parcel = answer
            .and_then(|message| Some((cable.way.try_clone()?, cable.line.peer_cookie(), message)));
        self.follow(port, change);
        Ok(parcel)
    }

    /// What is due for the cable of `port`, if there is one.
    fn poll_cable(&mut self, port: PortNum) -> Option<Parcel> {
        let wanted = self.switch.offer(port).is_some();
        let cable = self.cable(port)?;
        let cookie = cable.line.peer_cookie();
        let (change, message) = cable.line.poll(now());
        let message = message.filter(|message| wanted || !matches!(message, Message::Hello(_)));
        let parcel = message.and_then(|message| Some((cable.way.try_clone()?, cookie, message)));
        self.follow(port, change);
        parcel
    }

    /// The link of `port` follows its cable.
    fn follow(&mut self, port: PortNum, change: Change) {
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
        let switch = self.switch.identity().node.get();
        if let Some(cable) = self.cable(port) {
            cable.silent_since = now();
            let (port, remote) = (port.get(), cable.way.path.remote());
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
