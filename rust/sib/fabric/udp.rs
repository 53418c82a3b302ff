// SPDX-License-Identifier: GPL-2.0

//! Packets over UDP: how they leave, and what becomes of a datagram.
//!
//! A datagram is the outer header and one packet or several, from the LRH through the ICRC. The cookie in the outer
//! header is the receiver's: its low byte names a port of the receiver's switch, the rest is random, so that
//! only who was told it can send. A datagram that is not as it should be is counted and dropped.

use super::account::{
    Account,
    Dropped, //
};
use super::batch::{
    Train,
    BATCH_BYTES, //
};
use super::landing::Landing;
use super::route::Segment;
use super::{
    End,
    Fabric,
    State, //
};
use crate::hca::Hca;
use crate::payload::{
    Rows,
    Source, //
};
use crate::run::RunQueue;
use core::net::SocketAddr;
use kernel::cpu::CpuId;
use kernel::sync::Arc;
use rdma::net::{
    Arrivals,
    Ends,
    Path,
    Receive,
    Received,
    Skb,
    SkbPool,
    UdpSocket, //
};
use rdma::random;
use rdma::sync::{
    Cx,
    Held,
    IrqsOn,
    Unlocked, //
};
use wire::header::Header;
use wire::icrc::Crc32;
use wire::outer::{
    self,
    Kind,
    Outer, //
};
use wire::{
    packet,
    PortNum, //
};

/// The CRC of the kernel.
pub(super) enum KernelCrc {}

impl Crc32 for KernelCrc {
    fn update(crc: u32, data: &[u8]) -> u32 {
        rdma::net::crc32_le(crc, data)
    }
}

/// Who gets the datagrams of a socket.
///
/// It names no type, since the fabric itself refers to its sockets.
pub(super) struct Hook(pub(super) Arc<dyn Receive>);

impl Receive for Hook {
    fn receive(&self, arrivals: &mut Arrivals<'_>, cx: Cx<'_, Unlocked>, irqs: IrqsOn<'_>) {
        self.0.receive(arrivals, cx, irqs);
    }

    fn unsent(&self, datagrams: usize) {
        self.0.unsent(datagrams);
    }
}

/// A socket of a fabric.
pub(crate) struct Endpoint {
    pub(super) socket: UdpSocket<Arc<Hook>>,
    /// That of the fabric.
    pub(super) account: Arc<Account>,
}

/// The way of datagrams to one receiver.
pub(crate) struct Way {
    /// It goes before the endpoint, for which the network namespace waits: routes that it remembers are of that.
    pub(super) path: Arc<Path>,
    pub(super) endpoint: Held<Endpoint>,
    /// Whether the underlay cuts batches into datagrams, and not the processor before it.
    pub(super) segments: bool,
}

/// Who reads datagrams at the end of a way.
#[derive(Clone, Copy)]
pub(crate) struct Reader {
    /// The cookie that it wants to see.
    pub(super) cookie: u64,
    /// The bytes of packets, with the outer header, that it takes in one datagram; 0 if it takes one packet.
    pub(super) room: u16,
}

impl Way {
    pub(super) fn try_clone(&self) -> Option<Self> {
        Some(Self {
            endpoint: self.endpoint.try_clone()?,
            path: self.path.clone(),
            segments: self.segments,
        })
    }

    /// Whether both lead from the same socket to the same receiver.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.endpoint.ptr_eq(&other.endpoint) && Arc::ptr_eq(&self.path, &other.path)
    }

    /// Whether the receiver is known to be in this kernel.
    pub(crate) fn is_inside(&self) -> bool {
        self.path.is_inside()
    }

    /// Whether packets wait for `cpu` to send them.
    pub(super) fn is_waited_for(&self, cpu: CpuId) -> bool {
        self.endpoint.socket.is_waited_for(cpu)
    }

    /// Sends a packet of the network layer, or has `cpu` do that.
    pub(super) fn send(
        &self,
        cx: &mut Cx<'_, Unlocked>,
        irqs: IrqsOn<'_>,
        skb: Skb,
        cpu: Option<CpuId>,
    ) {
        let Endpoint { socket, account } = &*self.endpoint;
        let datagrams = account.sent(&skb);
        let sent = match cpu {
            Some(cpu) => socket.send_from(cpu, skb, self.path.clone(), cx, irqs),
            None => socket.send(skb, &self.path, cx, irqs),
        };
        if sent.is_err() {
            account.unsent(datagrams);
        }
    }
}

/// A random number.
pub(super) fn random() -> u64 {
    u64::from(random::u32()) << 32 | u64::from(random::u32())
}

/// A cookie that names `port`: the rest is random.
pub(super) fn cookie(port: PortNum) -> u64 {
    random() & !0xff | u64::from(port.get())
}

/// The port that `cookie` names.
fn port_of(cookie: u64) -> PortNum {
    PortNum::new(cookie as u8)
}

/// Whether both are the same UDP endpoint; the scope of an address of the link is not compared, since the
/// socket is bound to the device.
pub(super) fn same(a: SocketAddr, b: SocketAddr) -> bool {
    a.ip() == b.ip() && a.port() == b.port()
}

/// Where packets arrive.
struct Dest {
    place: Place,
    /// Packets of one message may be handed on as one segment.
    whole: bool,
}

/// Where a datagram with a packet arrives.
enum Place {
    /// A port of an HCA.
    Hca(Held<Hca>, PortNum),
    /// A port of the switch.
    Switch(PortNum),
}

impl Fabric {
    /// Sends a segment as datagrams, at the latest at the end of the call chain.
    pub(super) fn send_packets(
        &self,
        cx: &mut Cx<'_, Unlocked>,
        irqs: IrqsOn<'_>,
        run: &mut RunQueue,
        way: (&Way, Reader),
        segment: Segment<'_>,
    ) {
        if run.post(cx, irqs, way, &segment).is_none() {
            self.account.dropped(Dropped::Unsendable);
        }
    }

    /// Takes a batch of datagrams apart, which is one datagram as a rule.
    ///
    /// What the network layer has put together here is in many pieces, and more than memory has in one: it is taken
    /// in parts, each copied to `pool`.
    fn take_batch(
        &self,
        cx: &mut Cx<'_, Unlocked>,
        irqs: IrqsOn<'_>,
        run: &mut RunQueue,
        (batch, pool): (&Received, &SkbPool),
        ends: Ends,
    ) {
        let stride = batch.datagram_len();
        let origin = Origin {
            ends,
            stride,
            as_sent: batch.is_as_sent(),
        };
        if let Some(bytes) = batch.contiguous() {
            return self.take_part(cx, irqs, run, bytes, &origin);
        }
        let whole = BATCH_BYTES.checked_div(stride).unwrap_or_default();
        let most = whole.max(1).saturating_mul(stride);
        let mut at: usize = 0;
        while at < batch.len() {
            let len = batch.len().wrapping_sub(at).min(most);
            let mut copy = |len| batch.copy(at, len, pool, cx, irqs);
            let Ok(part) = copy(len).or_else(|_| copy(len.min(stride))) else {
                self.account.dropped(Dropped::Memory);
                at = at.saturating_add(stride.max(1));
                continue;
            };
            self.take_part(
                cx,
                irqs,
                run,
                part.contiguous().unwrap_or_default(),
                &origin,
            );
            at = at.saturating_add(part.len().max(1));
            part.consume();
        }
    }

    /// Takes datagrams that follow each other.
    fn take_part(
        &self,
        cx: &mut Cx<'_, Unlocked>,
        irqs: IrqsOn<'_>,
        run: &mut RunQueue,
        bytes: &[u8],
        origin: &Origin,
    ) {
        let stride = origin.stride;
        let mut arrival = Arrival {
            fabric: self,
            irqs,
            origin,
            dest: None,
            hops: 0,
            landing: None,
            train: None,
            run,
        };
        let mut rest = bytes;
        loop {
            let datagram = rest.get(..stride).unwrap_or(rest);
            if let Err(cause) = arrival.take(cx, rest, datagram) {
                self.account.dropped(cause);
            }
            rest = rest.get(stride..).unwrap_or_default();
            if rest.is_empty() {
                break;
            }
        }
        arrival.hand_on(cx);
    }
}

/// Where a batch has come from, and how.
struct Origin {
    /// For control messages, where it went counts as well.
    ends: Ends,
    /// The length of each datagram but the last.
    stride: usize,
    /// It has never left this kernel. A packet in it is as it was when its ICRC was made.
    as_sent: bool,
}

/// A batch that is being taken apart.
struct Arrival<'a> {
    fabric: &'a Fabric,
    irqs: IrqsOn<'a>,
    origin: &'a Origin,
    /// Where the last packet went, by its cookie.
    dest: Option<(u64, Dest)>,
    /// How many cables it had passed then.
    hops: u8,
    /// Where the last one has landed, if it has come over a cable.
    landing: Option<Landing>,
    /// Packets that have not been handed on, since more of their message may follow.
    train: Option<Train<'a>>,
    run: &'a mut RunQueue,
}

impl<'a> Arrival<'a> {
    /// Takes `datagram`, with which `rest` begins.
    fn take(
        &mut self,
        cx: &mut Cx<'_, Unlocked>,
        rest: &'a [u8],
        datagram: &'a [u8],
    ) -> Result<(), Dropped> {
        let (outer, body) = Outer::parse(datagram)?;
        match outer.kind {
            Kind::Data => {
                let rest = rest.get(outer::LEN..).ok_or(Dropped::Truncated)?;
                self.run.hurry(outer.flags & outer::HURRIED != 0);
                self.take_packets(cx, &outer, rest, body)
            }
            Kind::Beacon => self.fabric.take_beacon(cx, body, self.origin.ends.from),
            // One to all would have as many answers as there are hosts.
            _ if !self.origin.ends.alone => Err(Dropped::Stranger),
            _ => {
                // What has come before is of the link as it was then.
                self.hand_on(cx);
                let irqs = self.irqs;
                self.fabric
                    .take_control(cx, irqs, datagram, self.origin.ends)
            }
        }
    }

    /// Takes the packets of a datagram, whose `body` begins `rest`.
    fn take_packets(
        &mut self,
        cx: &mut Cx<'_, Unlocked>,
        outer: &Outer,
        mut rest: &'a [u8],
        mut body: &'a [u8],
    ) -> Result<(), Dropped> {
        let hops = outer.hops().saturating_add(1);
        if hops != self.hops {
            self.hand_on(cx);
            self.hops = hops;
        }
        if !matches!(self.dest, Some((known, _)) if known == outer.cookie) {
            self.hand_on(cx);
            let dest = cx
                .lock(&self.fabric.state)
                .dest(outer.cookie, self.origin)?;
            self.dest = Some((outer.cookie, dest));
        }
        let stride = match outer.stride {
            0 => body.len(),
            stride => usize::from(stride),
        };
        if stride < packet::MIN_LEN {
            return Err(Dropped::Header);
        }
        let rows = Rows {
            stride,
            each: self
                .origin
                .stride
                .saturating_sub(outer::LEN)
                .div_ceil(stride),
            gap: outer::LEN,
        };
        let mut place: usize = 0;
        loop {
            let packet = body.get(..stride).unwrap_or(body);
            if let Err(cause) = self.take_packet(cx, rest, packet, (rows, place)) {
                self.fabric.account.dropped(cause);
            }
            body = body.get(stride..).unwrap_or_default();
            rest = rest.get(stride..).unwrap_or_default();
            place = place.wrapping_add(1);
            if body.is_empty() {
                return Ok(());
            }
        }
    }

    /// Takes `packet`, with which `rest` begins.
    fn take_packet(
        &mut self,
        cx: &mut Cx<'_, Unlocked>,
        rest: &'a [u8],
        packet: &'a [u8],
        place: (Rows, usize),
    ) -> Result<(), Dropped> {
        // It is large, so it is looked at where it is.
        let parsed = Header::parse(packet);
        let (header, offset) = parsed.as_ref().map_err(|error| Dropped::from(*error))?;
        if !self.origin.as_sent {
            packet::verify_icrc::<KernelCrc>(packet)?;
        }
        let whole = matches!(self.dest, Some((_, Dest { whole: true, .. })));
        if whole
            && self
                .train
                .as_mut()
                .is_some_and(|train| train.extend(header, rest, *offset))
        {
            return Ok(());
        }
        self.hand_on(cx);
        self.train = Some(Train::new(header, rest, *offset, place));
        Ok(())
    }

    /// Hands on the packets that have come together.
    fn hand_on(&mut self, cx: &mut Cx<'_, Unlocked>) {
        let (Some(train), Some((_, dest))) = (&self.train, &self.dest) else {
            return;
        };
        let source = Source::Packets(&train.packets);
        let segment = Segment {
            header: &train.header,
            span: train.span,
            source: &source,
            damage: None,
            hops: self.hops,
        };
        let (irqs, run) = (self.irqs, &mut *self.run);
        if run.is_full() {
            run.drain(cx, irqs);
        }
        match &dest.place {
            Place::Hca(hca, port) => hca.receive(cx, irqs, run, *port, segment),
            Place::Switch(port) => match self.fabric.land(cx, &mut self.landing, *port, &segment) {
                Some(landing) => self.fabric.land_at(cx, irqs, run, landing, segment),
                None => self.fabric.carry(cx, irqs, run, *port, segment),
            },
        }
        self.train = None;
    }
}

impl State {
    /// Whether an HCA at this switch has a port where packets may suffer, one by one.
    fn is_watched(&self) -> bool {
        let mut ends = self.ends.iter();
        ends.any(|end| matches!(end, End::Hca(hca, port) if hca.is_watched(*port)))
    }

    /// Who has the cookie, if it came from where it should.
    fn dest(&self, cookie: u64, origin: &Origin) -> Result<Dest, Dropped> {
        let from = origin.ends.from;
        let port = port_of(cookie);
        match self.ends.get(usize::from(port.get())) {
            Some(End::Hca(hca, hca_port)) => {
                let own = self.own.as_ref().ok_or(Dropped::Stranger)?;
                if own.cookie(port) != cookie || !same(own.way.path.remote(), from) {
                    return Err(Dropped::Stranger);
                }
                if origin.as_sent {
                    own.way.path.set_inside();
                }
                let hca = hca.try_clone().ok_or(Dropped::NoLink)?;
                Ok(Dest {
                    whole: !hca.is_watched(*hca_port),
                    place: Place::Hca(hca, *hca_port),
                })
            }
            Some(End::Cable(cable)) => {
                if cable.line.cookie() != cookie || !same(cable.way.path.remote(), from) {
                    return Err(Dropped::Stranger);
                }
                if !cable.line.is_up() {
                    return Err(Dropped::NoLink);
                }
                if origin.as_sent {
                    cable.way.path.set_inside();
                }
                Ok(Dest {
                    whole: !self.is_watched(),
                    place: Place::Switch(port),
                })
            }
            _ => Err(Dropped::Stranger),
        }
    }
}

/// The way from a switch to itself, for the parameter that forces all packets onto it.
pub(super) struct Own {
    pub(super) way: Way,
    /// The cookie of port 0; that of the others differs in the low byte.
    pub(super) secret: u64,
    /// As in [`Reader`].
    pub(super) room: u16,
}

impl Own {
    /// The cookie of `port`.
    pub(super) fn cookie(&self, port: PortNum) -> u64 {
        self.secret & !0xff | u64::from(port.get())
    }

    /// Who reads for `port`.
    pub(super) fn reader(&self, port: PortNum) -> Reader {
        Reader {
            cookie: self.cookie(port),
            room: self.room,
        }
    }
}

impl Receive for Fabric {
    /// What all that has come leads to leaves together.
    fn receive(&self, arrivals: &mut Arrivals<'_>, mut cx: Cx<'_, Unlocked>, irqs: IrqsOn<'_>) {
        let pool = arrivals.pool;
        self.account.looked();
        RunQueue::with(&mut cx, irqs, |cx, run| {
            for (packet, ends) in arrivals {
                self.account.received(&packet);
                self.take_batch(cx, irqs, run, (&packet, pool), ends);
                packet.consume();
            }
        });
    }

    fn unsent(&self, datagrams: usize) {
        self.account.unsent(datagrams);
    }
}
