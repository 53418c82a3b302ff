// SPDX-License-Identifier: GPL-2.0

//! Cables that are made by themselves.
//!
//! The switch of an underlay tells all hosts of its layer 2 by a beacon where it listens: a datagram to the
//! IPv6 group of all nodes, from the address of the link that every IPv6 interface has. Who hears one of a
//! switch that no cable leads to plugs a cable to it; the other end does the same, since it hears beacons too.
//!
//! A cable that was made so is pulled out when its other end has been gone for long, or when a configured one
//! leads to the same switch. Beacons are not authenticated: what strangers can do with them is have Hellos said to
//! nobody, by [`PENDING`] cables at a time, and keep others from being heard, for as long as they go on.

use super::account::Dropped;
use super::cable::Origin;
use super::udp::Way;
use super::{
    now,
    Fabric,
    State, //
};
use crate::hca::MAX_PORTS;
use crate::params;
use core::net::{
    IpAddr,
    Ipv6Addr,
    SocketAddr, //
};
use kernel::new_mutex;
use kernel::prelude::*;
use kernel::sync::{
    Arc,
    Mutex, //
};
use proto::time::{
    Duration,
    Instant, //
};
use rdma::net::{
    NetDevice,
    Path,
    Skb, //
};
use rdma::new_work;
use rdma::sync::{
    Cx,
    IrqsOn,
    Sleepable,
    Unlocked, //
};
use rdma::work::{
    Queue,
    Run,
    Work, //
};
use wire::outer::control::Beacon;
use wire::outer::{
    self,
    Kind,
    Outer, //
};
use wire::PortNum;

/// All nodes of a link (RFC 4291, 2.7.1).
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// A beacon does not leave its link.
const HOPS: u8 = 1;

/// The time between two beacons.
const INTERVAL: Duration = Duration::from_millis(1000);

/// How long the other end of a cable that a beacon made may be gone.
const PATIENCE: Duration = Duration::from_millis(10_000);

/// Beacons in a row that cannot leave before the log says so: an address of the link takes two seconds to be one.
const UNSENT: u32 = 10;

/// Ports of the switch that no beacon takes, so that one more HCA finds room.
const SPARE: usize = MAX_PORTS as usize;

/// Cables without another end that beacons may have made.
const PENDING: usize = 8;

/// Neighbours that wait for their cables. Who finds no room tells again.
const HEARD: usize = 16;

/// What the lock of the fabric guards.
pub(super) struct Search {
    /// To all neighbours.
    way: Way,
    /// When the next beacon is due.
    next: Instant,
    /// Beacons in a row that could not leave.
    unsent: u32,
    /// Neighbours that no cable leads to.
    heard: [Option<SocketAddr>; HEARD],
    /// Whether there is one that nobody sees to yet.
    news: bool,
}

impl Search {
    /// When there is something to do: the next beacon, or at once a neighbour to see to.
    pub(super) fn due(&self) -> Instant {
        if self.news {
            Instant::from_nanos(0)
        } else {
            self.next
        }
    }
}

/// What plugs the cables.
#[pin_data]
pub(super) struct Lookout {
    /// `None` if there are to be no beacons.
    queue: Option<Queue>,
    /// The underlay, for as long as cables may be plugged.
    #[pin]
    underlay: Mutex<Option<NetDevice>>,
    #[pin]
    work: Work<Fabric, 1>,
}

impl Lookout {
    /// An initialiser of one that does nothing yet.
    pub(super) fn new(sleepable: Sleepable<'_>) -> Result<impl PinInit<Self, Error>> {
        let queue = match params::beacons() {
            true => Some(Queue::slow(c"sib_beacon", sleepable)?),
            false => None,
        };
        Ok(try_pin_init!(Self {
            queue,
            underlay <- new_mutex!(None, "Lookout::underlay"),
            work <- new_work!("Lookout::work"),
        }? Error))
    }
}

/// The datagram of a beacon.
fn datagram(beacon: &Beacon) -> Option<Skb> {
    let mut body = [0; outer::LEN + Beacon::LEN];
    let (head, rest) = body.split_at_mut_checked(outer::LEN)?;
    let outer = Outer {
        kind: Kind::Beacon,
        flags: 0,
        stride: 0,
        cookie: 0,
    };
    outer.emit(head).ok()?;
    beacon.emit(rest).ok()?;
    let mut skb = Skb::alloc(body.len()).ok()?;
    skb.append(&body)?;
    Some(skb)
}

/// Whether a beacon from there may be believed to come from this link.
fn is_neighbour(from: SocketAddr) -> bool {
    matches!(from.ip(), IpAddr::V6(ip) if ip.is_unicast_link_local())
}

impl Fabric {
    /// Begins to tell the neighbours, and to listen for them, if a parameter wants that. An underlay without IPv6
    /// has none.
    pub(super) fn open_beacons(
        self: &Arc<Self>,
        cx: &mut Cx<'_, Unlocked>,
        sleepable: Sleepable<'_>,
        underlay: &NetDevice,
    ) -> Result {
        if self.lookout.queue.is_none() {
            return Ok(());
        }
        let all = SocketAddr::new(IpAddr::V6(ALL_NODES), params::udp_port());
        let endpoint = match self.endpoint(cx, sleepable, underlay, all) {
            Ok(endpoint) => endpoint,
            Err(ENOMEM) => return Err(ENOMEM),
            Err(error) => {
                let switch = self.base.switch().get();
                pr_info!(
                    "switch {switch:#018x}: no beacons, since there is no IPv6 socket: {error:?}\n"
                );
                return Ok(());
            }
        };
        let path = Arc::new(Path::new(all, HOPS, Some(underlay))?, GFP_KERNEL)?;
        *self.lookout.underlay.lock() = Some(underlay.clone());
        cx.lock(&self.state).search = Some(Search {
            way: Way {
                endpoint,
                path,
                segments: false,
            },
            next: now(),
            unsent: 0,
            heard: [None; HEARD],
            news: false,
        });
        self.rearm(cx);
        Ok(())
    }

    /// Ends what [`Self::open_beacons`] began. No cable is plugged by a beacon after the return.
    pub(super) fn end_beacons(&self, cx: &mut Cx<'_, Unlocked>) {
        let underlay = self.lookout.underlay.lock().take();
        let search = cx.lock(&self.state).search.take();
        drop((underlay, search));
    }

    /// Waits until nothing of the search runs any more.
    pub(super) fn close_beacons(&self, cx: &mut Cx<'_, Unlocked>, sleepable: Sleepable<'_>) {
        self.lookout.work.cancel(cx, sleepable);
    }

    /// Tells the neighbours, if that is due, and has cables plugged and pulled out.
    pub(super) fn tell_neighbours(self: &Arc<Self>, cx: &mut Cx<'_, Unlocked>, irqs: IrqsOn<'_>) {
        let now = now();
        let (way, wanted) = {
            let mut state = cx.lock(&self.state);
            let due = state
                .search
                .as_ref()
                .is_some_and(|search| search.next <= now);
            let stale = due && state.stale_cable(now).is_some();
            let Some(search) = &mut state.search else {
                return;
            };
            if due {
                search.next = now.after(INTERVAL);
            }
            search.news = false;
            let way = due.then(|| search.way.try_clone()).flatten();
            (way, stale || search.heard.iter().any(Option::is_some))
        };
        if let Some(queue) = self.lookout.queue.as_ref().filter(|_| wanted) {
            // One that is queued already sees what it is wanted for.
            let _ = queue.enqueue(&self.lookout.work, self.clone());
        }
        let Some(way) = way else { return };
        let beacon = Beacon {
            guid: self.base.switch(),
            udp_port: params::udp_port(),
        };
        if let Some(skb) = datagram(&beacon) {
            let sent = way.endpoint.socket.send(skb, &way.path, cx, irqs);
            self.note_beacon(cx, sent);
        }
    }

    /// Has the log say that no beacons leave, when that lasts: an interface that is down, or has no address yet, sends
    /// none.
    fn note_beacon(&self, cx: &mut Cx<'_, Unlocked>, sent: Result) {
        let unsent = {
            let mut state = cx.lock(&self.state);
            let Some(search) = &mut state.search else {
                return;
            };
            search.unsent = match sent {
                Ok(()) => 0,
                Err(_) => search.unsent.saturating_add(1),
            };
            search.unsent
        };
        if let (UNSENT, Err(error)) = (unsent, sent) {
            let switch = self.base.switch().get();
            pr_info!("switch {switch:#018x}: no beacons leave the underlay: {error:?}\n");
        }
    }

    /// Takes a beacon.
    pub(super) fn take_beacon(
        &self,
        cx: &mut Cx<'_, Unlocked>,
        body: &[u8],
        from: SocketAddr,
    ) -> Result<(), Dropped> {
        let beacon = Beacon::parse(body)?;
        if beacon.guid == self.base.switch() {
            return Ok(());
        }
        // It is sent from where its sender listens, to where this host does. Another port may be any program's.
        let port = params::udp_port();
        if !is_neighbour(from) || from.port() != port || beacon.udp_port != port {
            return Err(Dropped::Stranger);
        }
        let mut state = cx.lock(&self.state);
        let known = state.cable_to(from).is_some() || state.leads_to(beacon.guid);
        if known || !state.has_room() {
            return Ok(());
        }
        if state
            .search
            .as_mut()
            .is_some_and(|search| search.note(from))
        {
            self.timer.arm(now().nanos());
        }
        Ok(())
    }

    /// Plugs cables to the neighbours that were heard, and pulls out those that lead nowhere.
    fn look(self: &Arc<Self>, cx: &mut Cx<'_, Unlocked>, sleepable: Sleepable<'_>) {
        let guard = self.lookout.underlay.lock();
        let Some(underlay) = &*guard else {
            return;
        };
        while self.pull(cx, sleepable.irqs_on(), |state| state.stale_cable(now())) {}
        loop {
            let heard = cx.lock(&self.state).next_neighbour();
            let Some(remote) = heard else { break };
            // What fails now is tried again after the next beacon.
            let _ = self.plug(cx, sleepable, underlay, remote, Origin::Beacon, None);
        }
    }
}

impl Search {
    /// Remembers a neighbour. Returns whether it is a new one.
    fn note(&mut self, remote: SocketAddr) -> bool {
        if self.heard.contains(&Some(remote)) {
            return false;
        }
        let free = self.heard.iter_mut().find(|slot| slot.is_none());
        let noted = free.map(|slot| *slot = Some(remote)).is_some();
        self.news |= noted;
        noted
    }
}

impl State {
    /// Whether there is a port for one more cable.
    fn has_room(&self) -> bool {
        // A port that is disabled keeps its cable, and waits for nobody.
        let pending = self.cables().filter(|(port, cable)| {
            let looks = self.switch.offer(*port).is_some();
            looks && cable.origin == Origin::Beacon && cable.line.peer().is_none()
        });
        pending.count() < PENDING && self.free_ports().count() > SPARE
    }

    /// The next neighbour to plug a cable to, while there is room.
    fn next_neighbour(&mut self) -> Option<SocketAddr> {
        let room = self.has_room();
        let heard = &mut self.search.as_mut()?.heard;
        let next = heard.iter_mut().find_map(Option::take);
        next.filter(|_| room)
    }

    /// A port whose cable was made by a beacon, and is not worth its port any more.
    fn stale_cable(&self, now: Instant) -> Option<PortNum> {
        self.cables().find_map(|(port, cable)| {
            let stale = cable.origin == Origin::Beacon
                && match cable.line.peer() {
                    Some(peer) => self.is_configured(peer),
                    // A port that is disabled keeps its cable, or the next one would be enabled.
                    None => {
                        cable.silent_since.after(PATIENCE) < now
                            && self.switch.offer(port).is_some()
                    }
                };
            stale.then_some(port)
        })
    }
}

impl Run<1> for Fabric {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>, mut cx: Cx<'_, Unlocked>, sleepable: Sleepable<'_>) {
        this.look(&mut cx, sleepable);
    }
}
