// SPDX-License-Identifier: GPL-2.0

//! The transport machines of `proto`, which are generic over storage and surroundings.

use proto::time::Instant;
use proto::transport::{
    Access,
    AtomicOp,
    AttrMask,
    Env,
    InvalidateError,
    ModifyError,
    Payload,
    PlaceError,
    Placement,
    PostError,
    Qp,
    QpConfig,
    QpEvent,
    QpState,
    QpType,
    RecvSlot,
    RecvWqe,
    RemoteError,
    RemoteFault,
    Resource,
    RxDrop,
    SendEntry,
    SendSlot,
    SendWqe,
    TxLimits,
    TxSegment,
    Wc,
    WcStatus, //
};
use wire::grh::Grh;
use wire::header::Header;
use wire::{
    Key,
    PortNum, //
};

/// Surroundings that the optimiser cannot see through.
pub struct Opaque {
    pub recv: fn() -> Option<RecvWqe>,
    pub place: fn(u32, u32) -> Result<(), PlaceError>,
    pub remote: fn(u64, u32) -> Result<(), RemoteFault>,
    pub value: fn(u64, AtomicOp) -> Result<u64, RemoteError>,
    pub access: fn(u64, u32) -> Result<(), RemoteError>,
    pub wc: fn(Wc),
    pub event: fn(QpEvent),
    pub heard: fn(),
    pub port: fn() -> PortNum,
}

impl Env for Opaque {
    fn in_port(&mut self) -> PortNum {
        (self.port)()
    }
    fn take_recv(&mut self) -> Option<RecvWqe> {
        (self.recv)()
    }
    fn recv_count(&mut self) -> u32 {
        (self.recv)().map_or(0, |recv| recv.len)
    }
    fn place_recv(&mut self, _: RecvSlot, offset: u32, len: u32) -> Result<(), PlaceError> {
        (self.place)(offset, len)
    }
    fn place_grh(&mut self, _: RecvSlot, _: Option<&Grh>) -> Result<(), PlaceError> {
        (self.place)(0, 40)
    }
    fn check_remote(&mut self, _: Key, va: u64, len: u32, _: Access) -> Result<(), RemoteFault> {
        (self.remote)(va, len)
    }
    fn place_remote(&mut self, _: Key, va: u64, len: u32) -> Result<(), RemoteError> {
        (self.access)(va, len)
    }
    fn atomic(&mut self, _: Key, va: u64, op: AtomicOp) -> Result<u64, RemoteError> {
        (self.value)(va, op)
    }
    fn atomic_write(&mut self, _: Key, va: u64) -> Result<(), RemoteError> {
        (self.access)(va, 8)
    }
    fn flush(
        &mut self,
        _: Key,
        range: Option<(u64, u32)>,
        _: Placement,
    ) -> Result<(), RemoteFault> {
        let (va, len) = range.unwrap_or_default();
        (self.remote)(va, len)
    }
    fn invalidate(&mut self, rkey: Key) -> Result<(), InvalidateError> {
        (self.remote)(0, rkey.get()).map_err(|_| InvalidateError::Busy)
    }
    fn place_local(&mut self, _: SendSlot, offset: u32, len: u32) -> Result<(), PlaceError> {
        (self.place)(offset, len)
    }
    fn place_local_u64(&mut self, slot: SendSlot, _: u64) -> Result<(), PlaceError> {
        (self.place)(slot.get(), 8)
    }
    fn complete_send(&mut self, wc: Wc) {
        (self.wc)(wc);
    }
    fn complete_recv(&mut self, _: RecvSlot, wc: Wc) {
        (self.wc)(wc);
    }
    fn event(&mut self, event: QpEvent) {
        (self.event)(event);
    }
    fn heard(&mut self) {
        (self.heard)();
    }
}

pub type AnyQp<'a> = Qp<&'a mut [SendEntry], &'a mut [Resource]>;

pub fn new<'a>(
    qp_type: QpType,
    sends: &'a mut [SendEntry],
    resources: &'a mut [Resource],
) -> AnyQp<'a> {
    Qp::new(qp_type, sends, resources)
}

pub fn modify(
    qp: &mut AnyQp<'_>,
    now: Instant,
    to: QpState,
    mask: AttrMask,
    config: &QpConfig,
    env: &mut Opaque,
) -> Result<(), ModifyError> {
    qp.modify(now, to, mask, config, env)
}

pub fn post(qp: &mut AnyQp<'_>, wqe: SendWqe) -> Result<SendSlot, PostError> {
    qp.post_send(wqe)
}

pub fn transmit(
    qp: &mut AnyQp<'_>,
    now: Instant,
    limits: &TxLimits,
    env: &mut Opaque,
) -> Option<TxSegment> {
    if let Some(reply) = qp.poll_reply(limits.max_payload, limits) {
        return Some(reply);
    }
    let segment = qp.poll_transmit(now, limits);
    if qp.transmitted(env) && segment.is_none() {
        return qp.poll_transmit(now, limits);
    }
    segment
}

pub fn local(qp: &mut AnyQp<'_>, env: &mut Opaque) {
    if let Some(slot) = qp.local_request() {
        qp.local_done(slot, WcStatus::Success, env);
        qp.local_done(slot, WcStatus::MwBindErr, env);
    }
}

pub fn gather_failed(qp: &mut AnyQp<'_>, payload: &Payload, env: &mut Opaque) {
    qp.gather_failed(payload, WcStatus::LocProtErr, env);
}

pub fn receive(
    qp: &mut AnyQp<'_>,
    now: Instant,
    header: &Header,
    span: u32,
    len: u32,
    env: &mut Opaque,
) -> Result<(), RxDrop> {
    qp.on_packet(now, header, span, len, env)
}

pub fn defer(
    qp: &mut AnyQp<'_>,
    now: Instant,
    header: &Header,
    span: u32,
    env: &mut Opaque,
) -> bool {
    let kept = qp.defer(now, header, span, env);
    if !kept {
        qp.lose(header);
    }
    qp.resume(now);
    kept
}

pub fn put_back(qp: &mut AnyQp<'_>, payload: &Payload) {
    qp.put_back(payload);
}

pub fn timeout(qp: &mut AnyQp<'_>, now: Instant, env: &mut Opaque) -> Option<Instant> {
    qp.on_timeout(now, env);
    qp.next_deadline()
}

pub fn end(qp: &mut AnyQp<'_>, env: &mut Opaque) {
    qp.to_error(env);
}
