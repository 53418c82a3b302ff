// SPDX-License-Identifier: GPL-2.0

//! Two hosts, a queue pair on each, and a link between them in virtual time that loses, doubles, delays and
//! cuts what it carries.

use crate::host::{
    Host,
    MEMORY_BASE,
    MEMORY_KEY, //
};
use proto::time::{
    Duration,
    Instant, //
};
use proto::transport::{
    AccessFlags,
    AttrMask,
    ModifyError,
    PathAv,
    Payload,
    Qp,
    QpConfig,
    QpState,
    QpType,
    Resource,
    RxDrop,
    SendEntry,
    SendFlags,
    SendOp,
    SendSlot,
    SendWqe,
    TxLimits,
    TxSegment,
    WcStatus, //
};
use std::collections::{
    BTreeMap,
    VecDeque, //
};
use wire::aeth::Syndrome;
use wire::feth::{
    self,
    Feth,
    Selectivity, //
};
use wire::header::Header;
use wire::icrc::SoftCrc32;
use wire::opcode::{
    Opcode,
    Operation, //
};
use wire::packet::{
    self,
    Packet, //
};
use wire::{
    Lid,
    Mtu,
    PKey,
    PortNum,
    Psn,
    QKey,
    Qpn, //
};

/// A small generator of numbers that look random, the same for the same seed.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound.max(1)
    }

    /// True in `percent` of all cases.
    pub(crate) fn percent(&mut self, percent: u8) -> bool {
        self.below(100) < u64::from(percent)
    }
}

/// What the link does to what it carries.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults {
    pub(crate) drop_percent: u8,
    pub(crate) duplicate_percent: u8,
    /// Of segments that are late by up to [`LATE_NANOS`].
    pub(crate) reorder_percent: u8,
    /// Of segments that are cut into packets.
    pub(crate) cut_percent: u8,
    /// Of segments whose memory is not there when they are to be sent, or to be taken.
    pub(crate) absent_percent: u8,
    /// Of segments that come whose memory stays away for [`Self::away_nanos`].
    pub(crate) away_percent: u8,
    pub(crate) away_nanos: u64,
    /// Packets of the longest segment that a sender may emit.
    pub(crate) longest_span: u32,
    /// What the link takes for each segment; others wait meanwhile, however many.
    pub(crate) pace_nanos: u64,
    /// Of segments after which their sender is busy with something else, for [`STALL_NANOS`] at most.
    pub(crate) stall_percent: u8,
}

/// Transit time of the link.
const TRANSIT_NANOS: u64 = 5_000;

/// Less than the ACK timeout.
const STALL_NANOS: u64 = 500_000;

/// How late reordered segments are at most.
const LATE_NANOS: u64 = 100_000;

pub(crate) type SimQp = Qp<Vec<SendEntry>, Vec<Resource>>;

/// One end of the link.
pub(crate) struct Node {
    pub(crate) qp: SimQp,
    pub(crate) host: Host,
    pub(crate) alive: bool,
    /// The time of the world.
    now: u64,
    /// Segments that have come and wait for memory.
    waiting: VecDeque<Flight>,
    /// When that memory is there.
    memory_at: Option<u64>,
}

/// A segment on its way.
struct Flight {
    to: usize,
    header: Header,
    span: u32,
    payload: Vec<u8>,
}

/// Sees each segment that leaves a node, and may change it; it is lost if that returns false.
pub(crate) type Spoil = Box<dyn FnMut(&mut Header, &mut Vec<u8>) -> bool>;

pub(crate) struct World {
    pub(crate) nodes: [Node; 2],
    pub(crate) faults: Faults,
    pub(crate) now: u64,
    pub(crate) dice: Dice,
    flights: BTreeMap<(u64, u64), Flight>,
    launched: u64,
    /// When the link to each node will be free.
    free: [u64; 2],
    /// Until when each node is busy with something else.
    stalled: [u64; 2],
    /// Why packets were dropped by who got them, in order.
    pub(crate) drops: Vec<RxDrop>,
    /// Partition of the last segment that left a node.
    pub(crate) last_pkey: PKey,
    /// Everything that left a node, in order: who, opcode, PSN, span.
    pub(crate) trace: Vec<(usize, Operation, Psn, u32)>,
    /// All NAKs and RNR NAKs that left a node, in order.
    pub(crate) refusals: Vec<(usize, Syndrome)>,
    /// Ports of nodes at which nothing arrives any more.
    pub(crate) severed: Vec<(usize, PortNum)>,
    /// What happens to segments beside `faults`.
    pub(crate) spoil: Option<Spoil>,
    /// How many segments may wait for memory at each node.
    pub(crate) room: usize,
}

/// Work requests that a send queue of the simulation holds.
pub(crate) const DEPTH: usize = 32;

/// The ports of a node: each is linked to the same port of the other one.
pub(crate) const PRIMARY: PortNum = PortNum::new(1);
pub(crate) const ALTERNATE: PortNum = PortNum::new(2);

/// The LIDs of all ports [`ALTERNATE`] are from here on.
const ALTERNATE_LIDS: u16 = 20;

pub(crate) fn lid(node: usize, port: PortNum) -> Lid {
    let base = if port == ALTERNATE {
        ALTERNATE_LIDS
    } else {
        10
    };
    Lid::new(base + node as u16)
}

/// The port that a packet comes by.
fn port_of(header: &Header) -> PortNum {
    if header.lrh.dlid.get() >= ALTERNATE_LIDS {
        ALTERNATE
    } else {
        PRIMARY
    }
}

pub(crate) fn config(node: usize) -> QpConfig {
    let other = 1 - node;
    QpConfig {
        qpn: Qpn::new(0x100 + node as u32),
        dest_qpn: Qpn::new(0x100 + other as u32),
        path: PathAv {
            dlid: lid(other, PRIMARY),
            ..PathAv::default()
        },
        port: PRIMARY,
        follow_unarmed: true,
        pardon_late: true,
        mtu: Mtu::B256,
        pkey: PKey::DEFAULT,
        qkey: QKey::new(0x1111),
        // Both directions cross the wrap of the number space early.
        sq_psn: Psn::new(0xff_fff0 + node as u32),
        rq_psn: Psn::new(0xff_fff0 + other as u32),
        timeout: 8,
        retry_cnt: 7,
        rnr_retry: 7,
        min_rnr_timer: 1,
        max_rd_atomic: 4,
        max_dest_rd_atomic: 4,
        max_unacked: 16,
        access: AccessFlags {
            remote_write: true,
            remote_read: true,
            remote_atomic: true,
            flush_global: true,
            flush_persistent: true,
        },
        ..QpConfig::default()
    }
}

/// The attributes that the way from one state to another takes.
pub(crate) fn mask(qp_type: QpType, to: QpState) -> AttrMask {
    let names: &[AttrMask] = match (to, qp_type) {
        (QpState::Init, QpType::Rc | QpType::Uc) => {
            &[AttrMask::PKEY_INDEX, AttrMask::PORT, AttrMask::ACCESS_FLAGS]
        }
        (QpState::Init, QpType::Ud) => &[AttrMask::PKEY_INDEX, AttrMask::PORT, AttrMask::QKEY],
        (QpState::Init, _) => &[AttrMask::PKEY_INDEX, AttrMask::QKEY],
        (QpState::Rtr, QpType::Rc) => &[
            AttrMask::AV,
            AttrMask::PATH_MTU,
            AttrMask::DEST_QPN,
            AttrMask::RQ_PSN,
            AttrMask::MAX_DEST_RD_ATOMIC,
            AttrMask::MIN_RNR_TIMER,
        ],
        (QpState::Rtr, QpType::Uc) => &[
            AttrMask::AV,
            AttrMask::PATH_MTU,
            AttrMask::DEST_QPN,
            AttrMask::RQ_PSN,
        ],
        (QpState::Rts, QpType::Rc) => &[
            AttrMask::TIMEOUT,
            AttrMask::RETRY_CNT,
            AttrMask::RNR_RETRY,
            AttrMask::SQ_PSN,
            AttrMask::MAX_QP_RD_ATOMIC,
        ],
        (QpState::Rts, _) => &[AttrMask::SQ_PSN],
        _ => &[],
    };
    names
        .iter()
        .fold(AttrMask::STATE, |mask, &name| mask.with(name))
}

impl Node {
    fn new(qp_type: QpType, memory: usize) -> Self {
        Self::with_depth(qp_type, memory, DEPTH)
    }

    /// One whose send queue holds `depth` work requests, a power of two.
    pub(crate) fn with_depth(qp_type: QpType, memory: usize, depth: usize) -> Self {
        Self {
            qp: Qp::new(
                qp_type,
                vec![SendEntry::default(); depth],
                vec![Resource::default(); 16],
            ),
            host: Host::new(memory, depth),
            alive: true,
            now: 0,
            waiting: VecDeque::new(),
            memory_at: None,
        }
    }

    /// Brings the queue pair up, to RTS.
    pub(crate) fn connect(&mut self, config: &QpConfig) {
        self.connect_to(config, QpState::Rts);
    }

    /// Brings the queue pair up as far as a state on that way.
    pub(crate) fn connect_to(&mut self, config: &QpConfig, last: QpState) {
        for to in [QpState::Init, QpState::Rtr, QpState::Rts] {
            let mask = mask(self.qp.qp_type(), to);
            self.modify(to, mask, config).unwrap();
            if to == last {
                break;
            }
        }
    }

    pub(crate) fn go(&mut self, to: QpState) {
        let config = *self.qp.config();
        let mask = AttrMask::STATE;
        self.modify(to, mask, &config).unwrap();
    }

    /// Has the queue pair take over attributes.
    pub(crate) fn modify(
        &mut self,
        to: QpState,
        mask: AttrMask,
        config: &QpConfig,
    ) -> Result<(), ModifyError> {
        let now = Instant::from_nanos(self.now);
        self.qp.modify(now, to, mask, config, &mut self.host)
    }

    /// Has the queue pair say whether a packet is to be kept.
    pub(crate) fn defer(&mut self, packet: &(TxSegment, Vec<u8>)) -> bool {
        self.defer_segment(&packet.0.header, packet.0.span)
    }

    fn defer_segment(&mut self, header: &Header, span: u32) -> bool {
        let now = Instant::from_nanos(self.now);
        self.host.in_port = port_of(header);
        self.qp.defer(now, header, span, &mut self.host)
    }

    /// Posts a work request with these bytes as its buffer; its place in the stream is its `wr_id`.
    pub(crate) fn post(&mut self, wqe: SendWqe, buffer: Vec<u8>) -> SendSlot {
        let slot = self.qp.post_send(wqe).unwrap();
        self.host.send_buffers[slot.get() as usize] = buffer;
        slot
    }

    /// What the queue pair sends next, one packet at a time, with its payload.
    pub(crate) fn poll(&mut self, now: u64) -> Option<(TxSegment, Vec<u8>)> {
        let config = self.qp.config();
        let limits = TxLimits {
            max_payload: config.mtu.bytes() as u32,
            lid: lid((config.qpn.get() & 1) as usize, config.port),
            lmc: 0,
            mtu: Mtu::B1024,
        };
        let has_output = self.qp.has_output();
        loop {
            let segment = self.qp.poll_transmit(Instant::from_nanos(now), &limits)?;
            assert!(has_output);
            match self.gather(&segment.payload) {
                Ok(payload) => return Some((segment, payload)),
                Err(status) => self
                    .qp
                    .gather_failed(&segment.payload, status, &mut self.host),
            }
        }
    }

    /// Flushes all that is to be flushed.
    pub(crate) fn flush(&mut self) {
        while self.qp.transmitted(&mut self.host) {}
    }

    /// All that the queue pair sends now.
    pub(crate) fn poll_all(&mut self, now: u64) -> Vec<(TxSegment, Vec<u8>)> {
        let mut all = Vec::new();
        loop {
            all.extend(std::iter::from_fn(|| self.poll(now)));
            if !self.qp.transmitted(&mut self.host) {
                return all;
            }
        }
    }

    /// Whether something that has come waits for memory.
    pub(crate) fn waits(&self) -> bool {
        self.memory_at.is_some()
    }

    /// Hands a packet to the queue pair.
    pub(crate) fn take(&mut self, now: u64, packet: &(TxSegment, Vec<u8>)) -> Result<(), RxDrop> {
        self.take_segment(now, &packet.0.header, packet.0.span, &packet.1)
    }

    pub(crate) fn take_segment(
        &mut self,
        now: u64,
        header: &Header,
        span: u32,
        payload: &[u8],
    ) -> Result<(), RxDrop> {
        self.host.packet = payload.to_vec();
        self.host.in_port = port_of(header);
        let (now, len) = (Instant::from_nanos(now), payload.len() as u32);
        self.qp.on_packet(now, header, span, len, &mut self.host)
    }

    pub(crate) fn gather(&mut self, payload: &Payload) -> Result<Vec<u8>, WcStatus> {
        match *payload {
            Payload::None => Ok(Vec::new()),
            Payload::Wqe { .. } if self.host.bad_buffers => Err(WcStatus::LocProtErr),
            Payload::Wqe { slot, .. } if self.host.bad_slot == Some(slot) => {
                Err(WcStatus::LocProtErr)
            }
            Payload::Wqe { slot, offset, len } => {
                let buffer = &self.host.send_buffers[slot.get() as usize];
                let bytes = offset as usize..offset as usize + len as usize;
                buffer
                    .get(bytes)
                    .map(<[u8]>::to_vec)
                    .ok_or(WcStatus::LocProtErr)
            }
            Payload::Remote { rkey, va, len } => match self.host.remote(rkey, va, len) {
                Ok(bytes) => Ok(bytes.to_vec()),
                Err(_) => Err(WcStatus::LocProtErr),
            },
        }
    }
}

/// A work request of a given kind that names the peer's memory from `at` on.
pub(crate) fn wqe(wr_id: u64, op: SendOp, len: usize, at: usize) -> SendWqe {
    SendWqe {
        wr_id,
        op,
        flags: SendFlags {
            signaled: true,
            ..SendFlags::default()
        },
        length: len as u32,
        remote_va: MEMORY_BASE + at as u64,
        rkey: MEMORY_KEY,
        imm: wr_id as u32,
        flush: Feth {
            selectivity: Selectivity::Range as u8,
            placement: feth::GLOBAL_VISIBILITY,
        },
        ..SendWqe::default()
    }
}

/// How long a key is in use, between two looks.
const BUSY_NANOS: u64 = 50_000;

/// Bytes of a response that may go ahead of a request.
const SHORT: u32 = 64;

impl World {
    pub(crate) fn new(qp_type: QpType, memory: usize, faults: Faults, seed: u64) -> Self {
        let mut nodes = [Node::new(qp_type, memory), Node::new(qp_type, memory)];
        for (i, node) in nodes.iter_mut().enumerate() {
            node.connect(&config(i));
        }
        Self {
            nodes,
            faults,
            now: 0,
            dice: Dice::new(seed),
            flights: BTreeMap::new(),
            launched: 0,
            free: [0; 2],
            stalled: [0; 2],
            drops: Vec::new(),
            last_pkey: PKey::INVALID,
            trace: Vec::new(),
            refusals: Vec::new(),
            severed: Vec::new(),
            spoil: None,
            room: usize::MAX,
        }
    }

    fn limits(&mut self, node: usize) -> TxLimits {
        let config = self.nodes[node].qp.config();
        let (mtu, port) = (config.mtu, config.port);
        let span = 1 + self.dice.below(u64::from(self.faults.longest_span.max(1)));
        TxLimits {
            max_payload: span as u32 * mtu.bytes() as u32,
            lid: lid(node, port),
            lmc: 0,
            mtu: Mtu::B1024,
        }
    }

    /// Has both nodes send what they may send now; true if anything was sent.
    pub(crate) fn transmit(&mut self) -> bool {
        let mut any = false;
        for from in 0..2 {
            if !self.nodes[from].alive || self.stalled[from] > self.now {
                continue;
            }
            loop {
                let limits = self.limits(from);
                let now = Instant::from_nanos(self.now);
                let node = &mut self.nodes[from];
                let has_output = node.qp.has_output();
                // A driver may take a short response ahead of a request.
                let reply = if self.now & 1 == 0 {
                    node.qp.poll_reply(SHORT, &limits)
                } else {
                    None
                };
                let segment = reply.or_else(|| node.qp.poll_transmit(now, &limits));
                let Some(segment) = segment else {
                    if !self.execute_local(from) {
                        break;
                    }
                    any = true;
                    continue;
                };
                assert!(has_output);
                any = true;
                if !segment.payload.is_empty() && self.dice.percent(self.faults.absent_percent) {
                    node.qp.put_back(&segment.payload);
                    continue;
                }
                match node.gather(&segment.payload) {
                    Ok(payload) => {
                        self.launch(from, segment, payload);
                        if self.dice.percent(self.faults.stall_percent) {
                            self.stalled[from] = self.now + 1 + self.dice.below(STALL_NANOS);
                            break;
                        }
                    }
                    Err(status) => {
                        node.qp
                            .gather_failed(&segment.payload, status, &mut node.host);
                    }
                }
            }
            let node = &mut self.nodes[from];
            any |= node.qp.transmitted(&mut node.host);
        }
        any
    }

    /// Executes the local operation that a node has arrived at, or sees that it has to wait; true if there is
    /// one.
    fn execute_local(&mut self, node: usize) -> bool {
        let waits = self.dice.percent(20);
        let node = &mut self.nodes[node];
        let Some(slot) = node.qp.local_request() else {
            return false;
        };
        if !waits {
            let status = node.host.execute(slot);
            node.qp.local_done(slot, status, &mut node.host);
        }
        true
    }

    fn launch(&mut self, from: usize, segment: TxSegment, mut payload: Vec<u8>) {
        let mut header = segment.header;
        self.last_pkey = header.bth.pkey;
        self.trace.push((
            from,
            header.bth.opcode.operation(),
            header.bth.psn,
            segment.span,
        ));
        let mtu = self.nodes[from].qp.config().mtu;
        if !header.bth.opcode.has_deth() {
            assert_eq!(segment.span, mtu.packets(payload.len() as u32));
        }
        if let Some(aeth) = header.aeth {
            if !matches!(aeth.syndrome, Syndrome::Ack { .. }) {
                self.refusals.push((from, aeth.syndrome));
            }
        }
        if let Some(spoil) = &mut self.spoil {
            if !spoil(&mut header, &mut payload) {
                return;
            }
        }
        if segment.span > 1 && self.dice.percent(self.faults.cut_percent) {
            for (header, payload) in cut(&header, segment.span, &payload, mtu.bytes()) {
                self.fly(1 - from, header, 1, payload);
            }
        } else {
            self.fly(1 - from, header, segment.span, payload);
        }
    }

    fn fly(&mut self, to: usize, header: Header, span: u32, payload: Vec<u8>) {
        if span == 1 {
            assert_wire(&header, &payload);
        }
        if self.severed.contains(&(to, port_of(&header))) {
            return;
        }
        let copies = if self.dice.percent(self.faults.duplicate_percent) {
            2
        } else {
            1
        };
        for _ in 0..copies {
            if self.dice.percent(self.faults.drop_percent) {
                continue;
            }
            self.free[to] = self.free[to].max(self.now) + self.faults.pace_nanos;
            let mut at = self.free[to] + TRANSIT_NANOS;
            if self.dice.percent(self.faults.reorder_percent) {
                at += self.dice.below(LATE_NANOS);
            }
            self.launched += 1;
            let flight = Flight {
                to,
                header,
                span,
                payload: payload.clone(),
            };
            self.flights.insert((at, self.launched), flight);
        }
    }

    /// Lets the next thing happen; false if nothing ever will.
    pub(crate) fn step(&mut self) -> bool {
        let deadline = self
            .nodes
            .iter()
            .filter(|node| node.alive)
            .filter_map(|node| node.qp.next_deadline())
            .map(Instant::nanos)
            .min();
        let arrival = self.flights.keys().next().map(|&(at, _)| at);
        let memory = self.nodes.iter().filter_map(|node| node.memory_at).min();
        let stalled = self.stalled.iter().copied().filter(|&at| at > self.now);
        let stalled = stalled.min();
        let Some(next) = [deadline, arrival, memory, stalled]
            .into_iter()
            .flatten()
            .min()
        else {
            return false;
        };
        self.now = self.now.max(next);
        let now = Instant::from_nanos(self.now);
        for node in &mut self.nodes {
            node.now = self.now;
        }
        for node in 0..self.nodes.len() {
            self.supply(node);
        }
        for node in self.nodes.iter_mut().filter(|node| node.alive) {
            node.qp.on_timeout(now, &mut node.host);
        }
        // What arrives together is one burst.
        while let Some(entry) = self.flights.first_entry() {
            if entry.key().0 > self.now {
                break;
            }
            let flight = entry.remove();
            if self.nodes[flight.to].alive {
                self.arrive(flight);
            }
        }
        true
    }

    /// Lets a segment arrive at its node, where it may have to wait.
    fn arrive(&mut self, flight: Flight) {
        let to = flight.to;
        let waits = self.nodes[to].memory_at.is_some();
        let mut until = self.now;
        if !waits {
            let outcome = self.offer(&flight);
            let Some(nanos) = self.wait_of(outcome) else {
                return;
            };
            until += nanos;
        }
        let node = &mut self.nodes[to];
        if node.defer_segment(&flight.header, flight.span) {
            if node.waiting.len() < self.room {
                node.waiting.push_back(flight);
            } else {
                node.qp.lose(&flight.header);
            }
        }
        if !waits {
            node.memory_at = Some(until);
        }
    }

    /// Has a segment arrive that nobody has sent.
    pub(crate) fn inject(&mut self, to: usize, header: Header, span: u32, payload: Vec<u8>) {
        self.arrive(Flight {
            to,
            header,
            span,
            payload,
        });
    }

    /// How long what had this outcome has to wait, if it has to.
    fn wait_of(&self, outcome: Result<(), RxDrop>) -> Option<u64> {
        match outcome {
            Err(RxDrop::Absent) => Some(self.faults.away_nanos),
            Err(RxDrop::Busy) => Some(BUSY_NANOS),
            _ => None,
        }
    }

    /// Gives the machine a segment; memory may be absent for a moment, or for longer.
    fn offer(&mut self, flight: &Flight) -> Result<(), RxDrop> {
        let now = Instant::from_nanos(self.now);
        let node = &mut self.nodes[flight.to];
        let (header, span, len) = (&flight.header, flight.span, flight.payload.len() as u32);
        node.host.packet.clone_from(&flight.payload);
        node.host.in_port = port_of(header);
        let away = self.dice.percent(self.faults.away_percent);
        let result = loop {
            node.host.absent = away || self.dice.percent(self.faults.absent_percent);
            let result = node.qp.on_packet(now, header, span, len, &mut node.host);
            if away || result != Err(RxDrop::Absent) {
                break result;
            }
        };
        node.host.absent = false;
        // Who keeps nothing is not to have memory come.
        assert!(!result.is_err_and(RxDrop::waits) || node.qp.state().receives());
        self.drops.extend(result.err().filter(|drop| !drop.waits()));
        result
    }

    /// Gives the machine what has waited for memory that is there by now.
    fn supply(&mut self, node: usize) {
        if self.nodes[node].memory_at.is_none_or(|at| at > self.now) {
            return;
        }
        while let Some(flight) = self.nodes[node].waiting.pop_front() {
            if !self.nodes[node].alive {
                continue;
            }
            let outcome = self.offer(&flight);
            if let Some(nanos) = self.wait_of(outcome) {
                self.nodes[node].waiting.push_front(flight);
                self.nodes[node].memory_at = Some(self.now + nanos);
                return;
            }
        }
        self.nodes[node].memory_at = None;
        self.nodes[node].qp.resume(Instant::from_nanos(self.now));
    }

    /// Runs until nothing more happens, or for a virtual time that no scenario needs.
    pub(crate) fn run(&mut self) {
        let end = self.now + Duration::from_millis(600_000).nanos();
        loop {
            while self.transmit() {}
            if !self.step() {
                break;
            }
            assert!(self.now < end, "no end: {:?}", self.trace.last());
        }
    }

    /// Takes the first segment under way away that `which` names.
    pub(crate) fn lose(&mut self, which: impl Fn(&Header) -> bool) {
        let found = self
            .flights
            .iter()
            .find(|(_, flight)| which(&flight.header));
        let key = *found.expect("nothing of the kind is under way").0;
        self.flights.remove(&key);
    }

    /// Takes everything under way away.
    pub(crate) fn lose_all(&mut self) {
        self.flights.clear();
    }

    pub(crate) fn kill(&mut self, node: usize) {
        self.nodes[node].alive = false;
    }
}

/// The packets of a segment.
fn cut(header: &Header, span: u32, payload: &[u8], mtu: usize) -> Vec<(Header, Vec<u8>)> {
    let packets = cut_apart(header, span, payload, mtu);
    let mut joined = packets[0].0;
    for (i, (packet, _)) in packets.iter().enumerate().skip(1) {
        joined = TxSegment::joined_header(&joined, i as u32, packet).unwrap();
    }
    assert_eq!(joined, *header);
    packets
}

fn cut_apart(header: &Header, span: u32, payload: &[u8], mtu: usize) -> Vec<(Header, Vec<u8>)> {
    let opcode = header.bth.opcode;
    let last = span as usize - 1;
    let packets: Vec<_> = payload
        .chunks(mtu)
        .enumerate()
        .map(|(i, bytes)| {
            let starts = opcode.starts() && i == 0;
            let ends = opcode.ends() && i == last;
            let operation = packet_operation(opcode.operation(), starts, ends);
            let opcode = Opcode::new(opcode.service(), operation).unwrap();
            let mut packet = *header;
            packet.bth.opcode = opcode;
            packet.bth.psn = header.bth.psn.add(i as u32);
            packet.bth.ack_req = header.bth.ack_req && i == last;
            packet.bth.se = header.bth.se && ends;
            packet.reth = header.reth.filter(|_| opcode.has_reth());
            packet.aeth = header
                .aeth
                .or(Some(Default::default()))
                .filter(|_| opcode.has_aeth());
            packet.imm = header.imm.filter(|_| opcode.has_imm());
            packet.ieth = header.ieth.filter(|_| opcode.has_ieth());
            let known = TxSegment::packet_header(header, span, i as u32);
            assert_eq!(known, Some(packet));
            (packet, bytes.to_vec())
        })
        .collect();
    let headers: usize = packets.iter().map(|(packet, _)| packet.len()).sum();
    assert_eq!(TxSegment::headers_len(header, span), headers as u64);
    packets
}

fn packet_operation(operation: Operation, starts: bool, ends: bool) -> Operation {
    use Operation::*;
    let [first, middle, last, only] = match operation {
        SendFirst | SendMiddle | SendLast | SendOnly => [SendFirst, SendMiddle, SendLast, SendOnly],
        SendLastImm | SendOnlyImm => [SendFirst, SendMiddle, SendLastImm, SendOnlyImm],
        SendLastInv | SendOnlyInv => [SendFirst, SendMiddle, SendLastInv, SendOnlyInv],
        WriteFirst | WriteMiddle | WriteLast | WriteOnly => {
            [WriteFirst, WriteMiddle, WriteLast, WriteOnly]
        }
        WriteLastImm | WriteOnlyImm => [WriteFirst, WriteMiddle, WriteLastImm, WriteOnlyImm],
        ReadRespFirst | ReadRespMiddle | ReadRespLast | ReadRespOnly => {
            [ReadRespFirst, ReadRespMiddle, ReadRespLast, ReadRespOnly]
        }
        other => [other; 4],
    };
    match (starts, ends) {
        (true, true) => only,
        (true, false) => first,
        (false, true) => last,
        (false, false) => middle,
    }
}

/// The headers make a packet, and the packet makes the headers.
fn assert_wire(header: &Header, payload: &[u8]) {
    let mut sealed = *header;
    let mut bytes = vec![0; 8192];
    let len = packet::build::<SoftCrc32>(&mut sealed, payload, &mut bytes).unwrap();
    let parsed = Packet::parse_checked::<SoftCrc32>(&bytes[..len]).unwrap();
    assert_eq!(parsed.header, sealed);
    assert_eq!(parsed.payload, payload);
}
