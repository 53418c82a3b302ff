// SPDX-License-Identifier: GPL-2.0

//! The orders of consumers: the ioctls of `/dev/sib_cm`, and the functions of `include/rdma/sib_cm.h`.

mod attributes;
pub(crate) mod of_file;
mod sidr;

use crate::abi::{
    self,
    fact,
    ServiceKind, //
};
use crate::connection::Connection;
use crate::consumer::{
    Consumer,
    Identifier,
    Purpose, //
};
use crate::device::Device;
use crate::manager::identity;
use crate::tables::Listener;
use kernel::prelude::*;
use kernel::sync::Arc;
use proto::cm::{
    Conn,
    Event,
    LapTiming,
    Order,
    Resolution,
    SidrState,
    State, //
};
use rdma::call::Call;
use rdma::sync::{
    Cx,
    Sleepable,
    Unlocked, //
};
use wire::mad::cm::{
    service_type,
    Kind,
    Path,
    Rep,
    Req, //
};
use wire::{
    PKey,
    Psn,
    Qpn, //
};

/// Carries out an order of an identifier; `find` finds those by their numbers, which mean nothing in the kernel.
pub(crate) fn run<I: Identifier>(
    find: impl Fn(u32) -> I,
    cx: Cx<'_, Unlocked>,
    s: Sleepable<'_>,
    call: Call<'_>,
) -> Result<isize> {
    /// Reads the structure, and carries out the order with that.
    macro_rules! order {
        ($name:ident $(, $more:expr)*) => {{
            let it = call.read()?;
            desk(find(abi::Named::id(&it)), cx, s).$name(&it $(, $more)*)?;
        }};
    }
    /// As above, and returns the structure.
    macro_rules! ask {
        ($name:ident) => {{
            let mut it = call.read()?;
            desk(find(abi::Named::id(&it)), cx, s).$name(&mut it)?;
            call.write(&it)?;
        }};
    }
    match call.number() {
        abi::ATTR_ID => ask!(attr_id),
        abi::LISTEN => order!(listen),
        abi::NOTIFY => order!(notify),
        abi::SEND_REQ => order!(send_req),
        abi::SEND_REP => order!(send_rep),
        abi::SEND_RTU => order!(send, Kind::Rtu, Order::Ready),
        abi::SEND_REJ => order!(send_rej),
        abi::SEND_MRA => order!(send_mra),
        abi::SEND_DREQ => order!(send, Kind::Dreq, Order::Disconnect),
        abi::SEND_DREP => order!(send, Kind::Drep, Order::Depart),
        abi::SEND_LAP => order!(send_lap),
        abi::SEND_APR => order!(send_apr),
        abi::SEND_SIDR_REQ => order!(send_sidr_req),
        abi::SEND_SIDR_REP => order!(send_sidr_rep),
        abi::INIT_QP_ATTR => ask!(init_qp_attr),
        _ => return Err(ENOTTY),
    }
    Ok(0)
}

fn desk<'a, I: Identifier>(ident: I, cx: Cx<'a, Unlocked>, s: Sleepable<'a>) -> Desk<'a, I> {
    Desk { ident, cx, s }
}

/// The private data of a message of this kind.
fn private(data: &[u8], len: usize, kind: Kind) -> Result<&[u8]> {
    if len > kind.private_len() {
        return Err(EINVAL);
    }
    within(data, len)
}

/// The first `len` bytes; the others must be zero.
fn within(data: &[u8], len: usize) -> Result<&[u8]> {
    let (data, rest) = data.split_at_checked(len).ok_or(EINVAL)?;
    zero(rest)?;
    Ok(data)
}

fn zero(bytes: &[u8]) -> Result {
    if bytes.iter().any(|byte| *byte != 0) {
        return Err(EINVAL);
    }
    Ok(())
}

/// A number that has to fit into `bits` bits of a message.
fn bits(value: u32, bits: u32) -> Result {
    if value.checked_shr(bits).unwrap_or(0) != 0 {
        return Err(EINVAL);
    }
    Ok(())
}

fn flag(value: u8) -> Result<bool> {
    match value {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(EINVAL),
    }
}

/// Bits of a queue pair number, and of a PSN.
const QPN_BITS: u32 = 24;
/// Bits of a time code.
const TIME_BITS: u32 = 5;

/// The service IDs that other managers give away: those of the RDMA IP CM service, and of the Sockets Direct
/// Protocol (IBA annexes "RDMA IP CM Service" and "Sockets Direct Protocol"), and of ib_cm.
fn is_taken(service_id: u64) -> bool {
    const AGENCY: u64 = 0xff << 56;
    const LOCAL: u64 = 0x02 << 56;
    const OURS: u64 = 0x02ff << 48;
    const IETF: u64 = 0x01 << 24;
    const SDP: u64 = 0x01 << 16;

    if service_id & AGENCY == LOCAL {
        return service_id >> 48 != OURS >> 48;
    }
    service_id & !0xff_ffff == IETF || service_id & !0xffff == SDP
}

/// Somebody who gives orders.
struct Desk<'a, I> {
    ident: I,
    cx: Cx<'a, Unlocked>,
    s: Sleepable<'a>,
}

impl<I: Identifier> Desk<'_, I> {
    /// As [`Identifier::with`], as long as the HCA is there.
    ///
    /// # Errors
    ///
    /// `ENODEV` if it is not, whatever the identifier stands for.
    fn with<R>(
        &self,
        f: impl FnOnce(&Arc<Device>, Consumer, &mut Purpose) -> Result<R>,
    ) -> Result<R> {
        self.ident.with(|device, consumer, purpose| {
            device.check()?;
            f(device, consumer, purpose)
        })
    }

    fn attr_id(&mut self, attr: &mut abi::AttrId) -> Result {
        *attr = abi::AttrId {
            id: attr.id,
            state: abi::State::Idle as u32,
            service_id: 0,
            local_comm_id: 0,
            remote_comm_id: 0,
            remote_qpn: 0,
            has_alternate: 0,
            primary: abi::Path::NONE,
            alternate: abi::Path::NONE,
        };
        self.ident.with(|_, _, purpose| {
            match purpose {
                Purpose::Nothing => {}
                Purpose::Listener((service_id, _)) => {
                    attr.state = abi::State::Listen as u32;
                    attr.service_id = *service_id;
                }
                Purpose::Connection(connection) => {
                    connection.inspect(|conn| describe(conn, attr));
                }
                Purpose::Question(question) => {
                    question.inspect(|it| describe_question(it, attr));
                }
            }
            Ok(())
        })
    }

    fn listen(&mut self, listen: &abi::Listen) -> Result {
        let kind = ServiceKind::new(listen.kind).ok_or(EINVAL)?;
        if is_taken(listen.service_id) {
            return Err(EACCES);
        }
        let shared = self.ident.shared();
        self.with(|device, consumer, purpose| {
            let Purpose::Nothing = purpose else {
                return Err(EINVAL);
            };
            let device = device.clone();
            let service = (listen.service_id, kind);
            shared.listen(service, Listener { consumer, device })?;
            *purpose = Purpose::Listener(service);
            Ok(())
        })
    }

    /// Has the identifier, if it stands for nothing yet, stand for something.
    ///
    /// # Errors
    ///
    /// `EBUSY` if it does already.
    fn occupy(&self, new: Purpose) -> Result<Consumer> {
        self.with(|_, consumer, purpose| {
            let Purpose::Nothing = purpose else {
                return Err(EBUSY);
            };
            *purpose = new;
            Ok(consumer)
        })
    }

    /// The connection of the identifier.
    fn connection(&self) -> Result<Arc<Connection>> {
        self.with(|_, _, purpose| match purpose {
            Purpose::Connection(connection) => Ok(connection.clone()),
            Purpose::Nothing | Purpose::Listener(_) | Purpose::Question(_) => Err(EINVAL),
        })
    }

    /// Gives an order to the connection of the identifier.
    fn order(&mut self, order: Order<'_>) -> Result {
        self.step(Event::Order(order))
    }

    fn step(&mut self, event: Event<'_>) -> Result {
        let connection = self.connection()?;
        connection.step(&mut self.cx, self.s, event, None)
    }

    fn notify(&mut self, notify: &abi::Notify) -> Result {
        let event = match notify.fact {
            fact::COMM_EST => Event::Order(Order::Established),
            fact::PATH_MIG => {
                let connection = self.connection()?;
                return connection.told_of_migration(&mut self.cx, self.s);
            }
            fact::PATH_CONFIRMED => Event::Order(Order::Confirmed),
            fact::PATH_UNLOADED => Event::Order(Order::Unload),
            _ => return Err(EINVAL),
        };
        self.step(event)
    }

    fn send_req(&mut self, it: &abi::SendReq) -> Result {
        zero(&it.reserved)?;
        let data = private(&it.private_data, it.private_data_len.into(), Kind::Req)?;
        bits(it.qpn, QPN_BITS)?;
        bits(it.starting_psn, QPN_BITS)?;
        bits(it.remote_response_timeout.into(), TIME_BITS)?;
        bits(it.local_response_timeout.into(), TIME_BITS)?;
        bits(it.retry_count.into(), 3)?;
        bits(it.rnr_retry_count.into(), 3)?;
        bits(it.max_cm_retries.into(), 4)?;
        if !matches!(it.service_type, service_type::RC | service_type::UC)
            || wire::Mtu::from_code(it.path_mtu).is_none()
        {
            return Err(EINVAL);
        }
        let primary = it.primary.get().ok_or(EINVAL)?;
        let alternate = it.alternate.get().ok_or(EINVAL)?;
        let req = Req {
            service_id: it.service_id,
            local_qpn: Qpn::new(it.qpn),
            starting_psn: Psn::new(it.starting_psn),
            pkey: PKey::new(it.pkey),
            transport_service_type: it.service_type,
            path_mtu: it.path_mtu,
            responder_resources: it.responder_resources,
            initiator_depth: it.initiator_depth,
            remote_cm_response_timeout: it.remote_response_timeout,
            local_cm_response_timeout: it.local_response_timeout,
            retry_count: it.retry_count,
            rnr_retry_count: it.rnr_retry_count,
            max_cm_retries: it.max_cm_retries,
            end_to_end_flow_control: flag(it.flow_control)?,
            srq: flag(it.srq)?,
            primary,
            alternate,
            ..Req::default()
        };
        if flag(it.has_alternate)? != req.has_alternate() {
            return Err(EINVAL);
        }
        let connection = self.requester(&req)?;
        let order = Event::Order(Order::Connect(&req, data));
        connection.step(&mut self.cx, self.s, order, None)
    }

    /// The connection of an identifier that asks for one: made at the first try.
    fn requester(&mut self, req: &Req) -> Result<Arc<Connection>> {
        let shared = &self.ident.shared();
        let (device, present) = self.with(|device, _, purpose| {
            let present = match purpose {
                Purpose::Nothing => None,
                Purpose::Connection(connection) => Some(connection.clone()),
                Purpose::Listener(_) | Purpose::Question(_) => return Err(EINVAL),
            };
            Ok((device.clone(), present))
        })?;
        let ends = device.ends(&mut self.cx, self.s);
        let check = |path: &Path| {
            let port = ends.port_of(path).ok_or(EINVAL)?;
            device.adapter.pkey_index(port, req.pkey.get())
        };
        check(&req.primary)?;
        if req.has_alternate() {
            check(&req.alternate)?;
        }
        if let Some(connection) = present {
            return Ok(connection);
        }
        let conn = Conn::new(identity(shared, &device));
        let connection = Connection::new(shared, &device, conn, false, req.pkey.get())?;
        let inserted = shared.insert(&connection).and_then(|()| {
            let purpose = Purpose::Connection(connection.clone());
            connection.belong(self.occupy(purpose)?);
            Ok(())
        });
        match inserted {
            Ok(()) => Ok(connection),
            Err(err) => {
                connection.discard(&mut self.cx, self.s);
                Err(err)
            }
        }
    }

    fn send_rep(&mut self, it: &abi::SendRep) -> Result {
        zero(&it.reserved)?;
        let data = private(&it.private_data, it.private_data_len.into(), Kind::Rep)?;
        bits(it.qpn, QPN_BITS)?;
        bits(it.starting_psn, QPN_BITS)?;
        bits(it.target_ack_delay.into(), TIME_BITS)?;
        bits(it.failover_accepted.into(), 2)?;
        bits(it.rnr_retry_count.into(), 3)?;
        let rep = Rep {
            local_qpn: Qpn::new(it.qpn),
            starting_psn: Psn::new(it.starting_psn),
            responder_resources: it.responder_resources,
            initiator_depth: it.initiator_depth,
            target_ack_delay: it.target_ack_delay,
            failover_accepted: it.failover_accepted,
            end_to_end_flow_control: flag(it.flow_control)?,
            rnr_retry_count: it.rnr_retry_count,
            srq: flag(it.srq)?,
            ..Rep::default()
        };
        self.order(Order::Accept(&rep, data))
    }

    fn send<'d>(
        &mut self,
        it: &'d abi::Send,
        kind: Kind,
        order: impl FnOnce(&'d [u8]) -> Order<'d>,
    ) -> Result {
        let len = usize::try_from(it.private_data_len).map_err(|_| EINVAL)?;
        let data = private(&it.private_data, len, kind)?;
        self.order(order(data))
    }

    fn send_rej(&mut self, it: &abi::SendRej) -> Result {
        let info = within(&it.info, it.info_len.into())?;
        let data = private(&it.private_data, it.private_data_len.into(), Kind::Rej)?;
        self.order(Order::Reject(it.reason, info, data))
    }

    fn send_mra(&mut self, it: &abi::SendMra) -> Result {
        zero(&it.reserved)?;
        bits(it.service_timeout.into(), TIME_BITS)?;
        let data = private(&it.private_data, it.private_data_len.into(), Kind::Mra)?;
        self.order(Order::Delay(it.service_timeout, data))
    }

    fn send_lap(&mut self, it: &abi::SendLap) -> Result {
        bits(it.response_timeout.into(), TIME_BITS)?;
        if it.reserved != 0 {
            return Err(EINVAL);
        }
        let data = private(&it.private_data, it.private_data_len.into(), Kind::Lap)?;
        let path = it.path.get().ok_or(EINVAL)?;
        let timing = LapTiming {
            response: it.response_timeout,
            retries: it.retries,
        };
        self.order(Order::Load(&path, timing, data))
    }

    fn send_apr(&mut self, it: &abi::SendApr) -> Result {
        zero(&it.reserved)?;
        let info = within(&it.info, it.info_len.into())?;
        let data = private(&it.private_data, it.private_data_len.into(), Kind::Apr)?;
        let order = Order::Answer(it.generation, it.status, info, data);
        self.order(order)
    }
}

/// What a program is told of a connection.
fn describe(conn: &Conn, attr: &mut abi::AttrId) {
    attr.state = match conn.state() {
        State::Idle => abi::State::Idle,
        State::ReqSent
        | State::MraReqRcvd
        | State::ReqRcvd
        | State::MraReqSent
        | State::RepSent
        | State::MraRepRcvd
        | State::RepRcvd
        | State::MraRepSent => abi::State::Connecting,
        State::Established(_) => abi::State::Established,
        State::DreqSent | State::DreqRcvd => abi::State::Disconnecting,
        State::Timewait => abi::State::Timewait,
    } as u32;
    (attr.local_comm_id, attr.remote_comm_id) = conn.comm_ids();
    attr.remote_qpn = conn.peer().1.get();
    attr.primary = abi::Path::new(conn.primary());
    if let Some(alternate) = conn.alternate() {
        attr.has_alternate = 1;
        attr.alternate = abi::Path::new(alternate);
    }
}

/// What a program is told of a question.
fn describe_question(it: &Resolution, attr: &mut abi::AttrId) {
    attr.state = match it.state() {
        SidrState::Asking | SidrState::Asked => abi::State::Resolving,
        SidrState::Idle | SidrState::Answered => abi::State::Idle,
    } as u32;
    attr.service_id = it.service_id();
    attr.local_comm_id = it.request_id();
    attr.primary = abi::Path::new(it.path());
}
