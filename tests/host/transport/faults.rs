// SPDX-License-Identifier: GPL-2.0

//! What each side sees of each fault: the tables of `Documentation/errors.rst`, row by row.
//!
//! Two work requests that are right come before the faulty one, and two behind it, but for datagrams. The tables
//! of the manual have to say the same as those here, and as that of `tests/user/errors.c`.

use crate::world::{
    wqe,
    Faults,
    World, //
};
use proto::transport::{
    PathAv,
    QpEvent,
    QpState,
    QpType,
    RxDrop,
    SendOp,
    SendWqe,
    UdDest,
    WcStatus, //
};
use std::cmp::Ordering;
use wire::aeth::{
    NakCode,
    Syndrome, //
};
use wire::header::Header;
use wire::opcode::{
    Opcode,
    Operation,
    Service, //
};
use wire::{
    Key,
    Lid,
    PKey,
    QKey,
    Qpn,
    Vl, //
};

/// A fault, and what it looks like on both sides.
struct Row {
    name: &'static str,
    service: QpType,
    op: SendOp,
    prepare: fn(&mut World, &mut SendWqe),
    /// Status of the work request.
    sent: WcStatus,
    /// What the responder says, beside ACKs.
    says: Option<Syndrome>,
    /// Why packets are dropped, if the fault shows in nothing else.
    drops: Option<RxDrop>,
    /// Status of the first receive, but for a flush.
    received: Option<WcStatus>,
    event: Option<QpEvent>,
    states: [QpState; 2],
}

const LEN: usize = 600;

/// Nobody notices.
const REPAIRED: Row = Row {
    name: "",
    service: QpType::Rc,
    op: SendOp::Write,
    prepare: |_, _| {},
    sent: WcStatus::Success,
    says: None,
    drops: None,
    received: None,
    event: None,
    states: [QpState::Rts, QpState::Rts],
};

const LOCAL: Row = Row {
    sent: WcStatus::LocProtErr,
    states: [QpState::Err, QpState::Rts],
    ..REPAIRED
};

const ACCESS: Row = Row {
    sent: WcStatus::RemAccessErr,
    says: Some(Syndrome::Nak(NakCode::RemoteAccessError)),
    event: Some(QpEvent::AccessErr),
    states: [QpState::Err, QpState::Err],
    ..REPAIRED
};

const INVALID: Row = Row {
    sent: WcStatus::RemInvReqErr,
    says: Some(Syndrome::Nak(NakCode::InvalidRequest)),
    event: Some(QpEvent::ReqErr),
    states: [QpState::Err, QpState::Err],
    ..REPAIRED
};

const SILENCE: Row = Row {
    sent: WcStatus::RetryExcErr,
    states: [QpState::Err, QpState::Rts],
    ..REPAIRED
};

const BAD_ANSWER: Row = Row {
    sent: WcStatus::BadRespErr,
    op: SendOp::Read,
    states: [QpState::Err, QpState::Rts],
    ..REPAIRED
};

const UC: Row = Row {
    service: QpType::Uc,
    op: SendOp::Send,
    ..REPAIRED
};

const UD: Row = Row {
    service: QpType::Ud,
    op: SendOp::Send,
    ..REPAIRED
};

const MISSING: Option<Syndrome> = Some(Syndrome::Nak(NakCode::PsnSequenceError));
const NOT_READY: Option<Syndrome> = Some(Syndrome::Rnr { timer: 1 });
const ONLY_SENDS_ENDED: [QpState; 2] = [QpState::Sqe, QpState::Rts];
const ONLY_PEER_ENDED: [QpState; 2] = [QpState::Rts, QpState::Err];

/// Changes, or loses, packets of a kind: the first one, or each.
fn spoil(
    world: &mut World,
    which: Operation,
    once: bool,
    change: impl Fn(&mut Header, &mut Vec<u8>) -> bool + 'static,
) {
    let mut done = false;
    world.spoil = Some(Box::new(move |header, payload| {
        if header.bth.opcode.operation() != which || (once && done) {
            return true;
        }
        done = true;
        change(header, payload)
    }));
}

fn lose(world: &mut World, which: Operation) {
    spoil(world, which, true, |_, _| false);
}

fn become_operation(header: &mut Header, operation: Operation) {
    header.bth.opcode = Opcode::new(Service::Rc, operation).unwrap();
    header.reth = header.reth.filter(|_| header.bth.opcode.has_reth());
    header.atomic_ack = None;
    header.aeth = header.aeth.filter(|_| header.bth.opcode.has_aeth());
}

fn become_reserved(header: &mut Header) {
    header.bth.opcode = Opcode::from_byte(0x1f).unwrap();
    header.reth = None;
}

/// Has the responder's first receive be of `len` bytes.
fn receive_of(world: &mut World, len: u32) {
    world.nodes[1].host.recv_queue.clear();
    world.nodes[1].host.recv_buffers.clear();
    world.nodes[1].host.post_recv(len);
    world.nodes[1].host.post_recv(len);
}

fn no_receive(world: &mut World) {
    world.nodes[1].host.recv_queue.clear();
}

fn share_receives(world: &mut World) {
    world.nodes[1].qp.config_mut().srq = true;
}

#[rustfmt::skip]
const ROWS: &[Row] = &[
    // The requester's own.
    Row { name: "work request that the driver finds bad", sent: WcStatus::LocQpOpErr,
        prepare: |_, wqe| wqe.fault = Some(WcStatus::LocQpOpErr), ..LOCAL },
    Row { name: "message of more than 2^31 bytes", sent: WcStatus::LocLenErr,
        prepare: |_, wqe| wqe.length = (1 << 31) + 1, ..LOCAL },
    Row { name: "READ without leave for any", op: SendOp::Read, sent: WcStatus::LocQpOpErr,
        prepare: |world, _| world.nodes[0].qp.config_mut().max_rd_atomic = 0, ..LOCAL },
    Row { name: "WRITE from no memory",
        prepare: |world, _| world.nodes[0].host.bad_buffers = true, ..LOCAL },
    Row { name: "READ into no memory", op: SendOp::Read,
        prepare: |world, _| world.nodes[0].host.bad_buffers = true, ..LOCAL },
    Row { name: "atomic operation with its result into no memory", op: SendOp::FetchAdd,
        prepare: |world, _| world.nodes[0].host.bad_buffers = true, ..LOCAL },
    Row { name: "local operation that fails", op: SendOp::BindMw, sent: WcStatus::MwBindErr,
        prepare: |world, _| world.nodes[0].host.bad_operations = true, ..LOCAL },

    // Remote access.
    Row { name: "WRITE with a wrong key", prepare: |_, wqe| wqe.rkey = Key::new(1), ..ACCESS },
    Row { name: "WRITE over the end of the region", prepare: |_, wqe| wqe.remote_va += 1 << 16, ..ACCESS },
    Row { name: "READ with a wrong key", op: SendOp::Read,
        prepare: |_, wqe| wqe.rkey = Key::new(1), ..ACCESS },
    Row { name: "READ over the end of the region", op: SendOp::Read,
        prepare: |_, wqe| wqe.remote_va += (1 << 16) - 599, ..ACCESS },
    Row { name: "READ of memory that goes meanwhile", op: SendOp::Read,
        prepare: |world, _| world.nodes[1].host.leaves = true, ..ACCESS },
    Row { name: "atomic operation with a wrong key", op: SendOp::FetchAdd,
        prepare: |_, wqe| wqe.rkey = Key::new(1), ..ACCESS },
    Row { name: "atomic operation over the end of the region", op: SendOp::CompareSwap,
        prepare: |_, wqe| wqe.remote_va += 1 << 16, ..ACCESS },
    Row { name: "ATOMIC WRITE with a wrong key", op: SendOp::AtomicWrite,
        prepare: |_, wqe| wqe.rkey = Key::new(1), ..ACCESS },
    Row { name: "FLUSH with a wrong key", op: SendOp::Flush,
        prepare: |_, wqe| wqe.rkey = Key::new(1), ..ACCESS },
    Row { name: "FLUSH of more than the region", op: SendOp::Flush,
        prepare: |_, wqe| wqe.length = (1 << 16) + 1, ..ACCESS },
    Row { name: "WRITE with immediate to memory that goes meanwhile", op: SendOp::WriteImm, event: None,
        received: Some(WcStatus::LocAccessErr),
        prepare: |world, wqe| {
            world.nodes[1].host.leaves = true;
            wqe.length = 100;
        }, ..ACCESS },
    Row { name: "SEND that invalidates a wrong key", op: SendOp::SendInv, event: None,
        received: Some(WcStatus::LocAccessErr),
        prepare: |world, _| world.nodes[1].host.bad_operations = true, ..ACCESS },

    // Invalid requests.
    Row { name: "WRITE that the queue pair does not allow",
        prepare: |world, _| world.nodes[1].qp.config_mut().access.remote_write = false, ..INVALID },
    Row { name: "READ that the queue pair does not allow", op: SendOp::Read,
        prepare: |world, _| world.nodes[1].qp.config_mut().access.remote_read = false, ..INVALID },
    Row { name: "atomic operation that the queue pair does not allow", op: SendOp::FetchAdd,
        prepare: |world, _| world.nodes[1].qp.config_mut().access.remote_atomic = false, ..INVALID },
    Row { name: "ATOMIC WRITE that the queue pair does not allow", op: SendOp::AtomicWrite,
        prepare: |world, _| world.nodes[1].qp.config_mut().access.remote_write = false, ..INVALID },
    Row { name: "FLUSH that the queue pair does not allow", op: SendOp::Flush,
        prepare: |world, _| world.nodes[1].qp.config_mut().access.flush_global = false, ..INVALID },
    Row { name: "READ from a peer that answers none", op: SendOp::Read,
        prepare: |world, _| world.nodes[1].qp.config_mut().max_dest_rd_atomic = 0, ..INVALID },
    Row { name: "READ beyond those that the peer answers at a time", op: SendOp::Read,
        prepare: |world, _| {
            world.nodes[1].qp.config_mut().max_dest_rd_atomic = 1;
            let mut good = wqe(9, SendOp::Read, LEN, 0);
            good.flags.signaled = false;
            world.nodes[0].post(good, vec![0; LEN]);
        }, ..INVALID },
    Row { name: "READ of more than 2^31 bytes", op: SendOp::Read,
        prepare: |world, _| spoil(world, Operation::ReadRequest, false, |header, _| {
            header.reth.as_mut().unwrap().dma_len = (1 << 31) + 1;
            true
        }), ..INVALID },
    Row { name: "atomic operation on an odd address", op: SendOp::CompareSwap,
        prepare: |_, wqe| wqe.remote_va |= 1, ..INVALID },
    Row { name: "ATOMIC WRITE to an odd address", op: SendOp::AtomicWrite,
        prepare: |_, wqe| wqe.remote_va |= 4, ..INVALID },
    Row { name: "FLUSH to nowhere", op: SendOp::Flush,
        prepare: |_, wqe| wqe.flush.placement = 0, ..INVALID },
    Row { name: "FLUSH of an unknown selectivity", op: SendOp::Flush,
        prepare: |_, wqe| wqe.flush.selectivity = 2, ..INVALID },
    Row { name: "WRITE of fewer bytes than it announces",
        prepare: |world, _| spoil(world, Operation::WriteFirst, false, |header, _| {
            header.reth.as_mut().unwrap().dma_len = 601;
            true
        }), ..INVALID },
    Row { name: "packet of more bytes than the path MTU", op: SendOp::Send,
        prepare: |world, _| spoil(world, Operation::SendFirst, false, |_, payload| {
            payload.push(0);
            true
        }), ..INVALID },
    Row { name: "message without a beginning", op: SendOp::Send,
        prepare: |world, _| spoil(world, Operation::SendFirst, false, |header, _| {
            become_operation(header, Operation::SendMiddle);
            true
        }), ..INVALID },
    Row { name: "message within a message", op: SendOp::Send, event: None,
        received: Some(WcStatus::RemInvReqErr),
        prepare: |world, _| spoil(world, Operation::SendMiddle, false, |header, _| {
            become_operation(header, Operation::SendFirst);
            true
        }), ..INVALID },
    Row { name: "packet of a reserved opcode",
        prepare: |world, _| spoil(world, Operation::WriteFirst, false, |header, _| {
            become_reserved(header);
            true
        }), ..INVALID },
    Row { name: "packet of a reserved opcode within a message", op: SendOp::Send, event: None,
        received: Some(WcStatus::RemInvReqErr),
        prepare: |world, _| spoil(world, Operation::SendMiddle, false, |header, _| {
            become_reserved(header);
            true
        }), ..INVALID },
    Row { name: "SEND that is longer than the receive", op: SendOp::Send, event: None,
        received: Some(WcStatus::LocLenErr),
        prepare: |world, _| receive_of(world, 599), ..INVALID },

    // Operational errors.
    Row { name: "SEND to a receive without memory", op: SendOp::Send,
        sent: WcStatus::RemOpErr, says: Some(Syndrome::Nak(NakCode::RemoteOperationalError)),
        received: Some(WcStatus::LocProtErr), event: None,
        prepare: |world, _| world.nodes[1].host.bad_buffers = true, ..ACCESS },

    // Not there, not ready.
    Row { name: "peer that is gone", prepare: |world, _| world.kill(1), ..SILENCE },
    Row { name: "peer in the error state", drops: Some(RxDrop::State),
        states: [QpState::Err, QpState::Err],
        prepare: |world, _| world.nodes[1].go(QpState::Err), ..SILENCE },
    Row { name: "peer that was reset", drops: Some(RxDrop::State),
        states: [QpState::Err, QpState::Reset],
        prepare: |world, _| world.nodes[1].go(QpState::Reset), ..SILENCE },
    Row { name: "peer in another partition", drops: Some(RxDrop::PKey),
        prepare: |world, _| world.nodes[1].qp.config_mut().pkey = PKey::new(0x8001), ..SILENCE },
    Row { name: "peer that expects another source", drops: Some(RxDrop::Source),
        prepare: |world, _| world.nodes[1].qp.config_mut().path.dlid = Lid::new(99), ..SILENCE },
    Row { name: "packet that is lost each time", says: MISSING,
        prepare: |world, _| spoil(world, Operation::WriteMiddle, false, |_, _| false), ..SILENCE },
    Row { name: "no receive, however often it is asked for", op: SendOp::Send,
        sent: WcStatus::RnrRetryExcErr, says: NOT_READY, drops: Some(RxDrop::NoRecv),
        prepare: |world, _| {
            world.nodes[0].qp.config_mut().rnr_retry = 3;
            no_receive(world);
        }, ..SILENCE },
    Row { name: "key that is in use", op: SendOp::SendInv,
        received: Some(WcStatus::Success),
        prepare: |world, _| world.nodes[1].host.busy = 1, ..REPAIRED },

    // Lost and repaired.
    Row { name: "request that is lost", says: MISSING, drops: Some(RxDrop::OutOfSequence),
        prepare: |world, _| lose(world, Operation::WriteMiddle), ..REPAIRED },
    Row { name: "request that comes twice", op: SendOp::Send, received: Some(WcStatus::Success),
        prepare: |world, _| world.faults.duplicate_percent = 100, ..REPAIRED },
    Row { name: "ACK that is lost", op: SendOp::Send, received: Some(WcStatus::Success),
        prepare: |world, _| lose(world, Operation::Ack), ..REPAIRED },
    Row { name: "answer that is lost before others", op: SendOp::Read, drops: Some(RxDrop::OutOfSequence),
        prepare: |world, _| lose(world, Operation::ReadRespMiddle), ..REPAIRED },
    Row { name: "result that is lost", op: SendOp::FetchAdd,
        prepare: |world, _| lose(world, Operation::AtomicAck), ..REPAIRED },
    Row { name: "ACK of what was not sent", op: SendOp::Send, received: Some(WcStatus::Success),
        prepare: |world, _| spoil(world, Operation::Ack, true, |header, _| {
            header.bth.psn = header.bth.psn.add(100);
            true
        }), ..REPAIRED },

    // Answers that make no sense.
    Row { name: "READ that is answered with too few bytes",
        prepare: |world, _| spoil(world, Operation::ReadRespLast, true, |_, payload| {
            payload.pop();
            true
        }), ..BAD_ANSWER },
    Row { name: "atomic operation that is answered like a READ", op: SendOp::FetchAdd,
        prepare: |world, _| spoil(world, Operation::AtomicAck, true, |header, _| {
            become_operation(header, Operation::ReadRespOnly);
            true
        }), ..BAD_ANSWER },
    Row { name: "READ that is answered like an atomic operation",
        prepare: |world, _| spoil(world, Operation::ReadRespFirst, true, |header, payload| {
            become_operation(header, Operation::AtomicAck);
            header.atomic_ack = Some(Default::default());
            payload.clear();
            true
        }), ..BAD_ANSWER },

    // Unreliable connections.
    Row { name: "UC: operation that it lacks", op: SendOp::Read,
        sent: WcStatus::LocQpOpErr, states: ONLY_SENDS_ENDED, ..UC },
    Row { name: "UC: SEND from no memory", sent: WcStatus::LocProtErr, states: ONLY_SENDS_ENDED,
        prepare: |world, _| world.nodes[0].host.bad_buffers = true, ..UC },
    Row { name: "UC: packet that is lost", drops: Some(RxDrop::OutOfSequence),
        prepare: |world, _| lose(world, Operation::SendMiddle), ..UC },
    Row { name: "UC: packet that comes twice", drops: Some(RxDrop::Duplicate),
        received: Some(WcStatus::Success),
        prepare: |world, _| world.faults.duplicate_percent = 100, ..UC },
    Row { name: "UC: WRITE with a wrong key", op: SendOp::Write, drops: Some(RxDrop::Refused),
        prepare: |_, wqe| wqe.rkey = Key::new(1), ..UC },
    Row { name: "UC: WRITE that the queue pair does not allow", op: SendOp::Write,
        drops: Some(RxDrop::Refused),
        prepare: |world, _| world.nodes[1].qp.config_mut().access.remote_write = false, ..UC },
    Row { name: "UC: no receive", drops: Some(RxDrop::NoRecv),
        prepare: |world, _| no_receive(world), ..UC },
    Row { name: "UC: SEND that is longer than the receive", drops: Some(RxDrop::TooLong),
        prepare: |world, _| receive_of(world, 599), ..UC },
    Row { name: "UC: SEND to a receive without memory", drops: Some(RxDrop::Refused),
        received: Some(WcStatus::LocProtErr), states: ONLY_PEER_ENDED,
        prepare: |world, _| world.nodes[1].host.bad_buffers = true, ..UC },
    Row { name: "UC: packet that is lost, of a SEND to a shared receive queue",
        drops: Some(RxDrop::OutOfSequence), received: Some(WcStatus::RemInvReqErr),
        prepare: |world, _| {
            share_receives(world);
            lose(world, Operation::SendMiddle);
        }, ..UC },
    Row { name: "UC: SEND that is longer than the receive, which was shared",
        drops: Some(RxDrop::TooLong), received: Some(WcStatus::LocLenErr),
        prepare: |world, _| {
            share_receives(world);
            receive_of(world, 599);
        }, ..UC },

    // Datagrams.
    Row { name: "UD: operation that it lacks", op: SendOp::Write,
        sent: WcStatus::LocQpOpErr, states: ONLY_SENDS_ENDED, ..UD },
    Row { name: "UD: more bytes than the port's MTU",
        sent: WcStatus::LocLenErr, states: ONLY_SENDS_ENDED,
        prepare: |_, wqe| wqe.length = 1025, ..UD },
    Row { name: "UD: no address", sent: WcStatus::LocQpOpErr, states: ONLY_SENDS_ENDED,
        prepare: |_, wqe| wqe.ud = None, ..UD },
    Row { name: "UD: SEND from no memory", sent: WcStatus::LocProtErr, states: ONLY_SENDS_ENDED,
        prepare: |world, _| world.nodes[0].host.bad_buffers = true, ..UD },
    Row { name: "UD: wrong Q_Key", drops: Some(RxDrop::QKey),
        prepare: |_, wqe| wqe.ud.as_mut().unwrap().qkey = QKey::new(0x2222), ..UD },
    Row { name: "UD: another partition", drops: Some(RxDrop::PKey),
        prepare: |world, _| world.nodes[1].qp.config_mut().pkey = PKey::new(0x8001), ..UD },
    Row { name: "UD: lane of the subnet management", drops: Some(RxDrop::Source),
        prepare: |world, _| spoil(world, Operation::SendOnly, true, |header, _| {
            header.lrh.vl = Vl::MANAGEMENT;
            true
        }), ..UD },
    Row { name: "UD: no receive", drops: Some(RxDrop::NoRecv),
        prepare: |world, _| no_receive(world), ..UD },
    Row { name: "UD: datagram that is longer than the receive", drops: Some(RxDrop::TooLong),
        prepare: |world, _| receive_of(world, 639), ..UD },
    Row { name: "UD: datagram that is longer than the receive, which was shared",
        drops: Some(RxDrop::TooLong), received: Some(WcStatus::LocLenErr),
        prepare: |world, _| {
            share_receives(world);
            receive_of(world, 639);
        }, ..UD },
    Row { name: "UD: datagram to a receive without memory", drops: Some(RxDrop::Refused),
        received: Some(WcStatus::LocProtErr), states: ONLY_PEER_ENDED,
        prepare: |world, _| world.nodes[1].host.bad_buffers = true, ..UD },
];

fn statuses_of_sends(world: &World) -> Vec<(u64, WcStatus)> {
    let sent = world.nodes[0].host.sent.iter();
    sent.map(|wc| (wc.wr_id, wc.status)).collect()
}

fn post_write(world: &mut World, wr_id: u64) {
    world.nodes[0].post(wqe(wr_id, SendOp::Write, LEN, 0), vec![1; LEN]);
}

/// What went over the link, and what both sides saw.
fn check(row: &Row) {
    let name = row.name;
    let mut world = World::new(row.service, 1 << 16, Faults::default(), 1);
    let is_datagram = row.service == QpType::Ud;
    let around = if is_datagram { 0 } else { 2 };
    receive_of(&mut world, LEN as u32 + if is_datagram { 40 } else { 0 });
    for wr_id in 0..around {
        post_write(&mut world, wr_id);
    }
    world.run();
    world.trace.clear();
    world.drops.clear();

    let mut bad = wqe(around, row.op, LEN, 0);
    bad.flags.signaled = row.sent == WcStatus::Success;
    if is_datagram {
        bad.ud = Some(UdDest {
            qpn: Qpn::new(0x101),
            qkey: QKey::new(0x1111),
            pkey: None,
            av: PathAv {
                dlid: Lid::new(11),
                ..PathAv::default()
            },
        });
    }
    (row.prepare)(&mut world, &mut bad);
    world.nodes[0].post(bad, vec![2; LEN]);
    for wr_id in 0..around {
        post_write(&mut world, around + 1 + wr_id);
    }
    world.run();

    let after = match row.sent {
        WcStatus::Success => WcStatus::Success,
        _ => WcStatus::WrFlushErr,
    };
    let expected: Vec<_> = (0..2 * around + 1)
        .map(|wr_id| match wr_id.cmp(&around) {
            Ordering::Less => (wr_id, WcStatus::Success),
            Ordering::Equal => (wr_id, row.sent),
            Ordering::Greater => (wr_id, after),
        })
        .collect();
    assert_eq!(statuses_of_sends(&world), expected, "{name}");

    let mut says: Vec<_> = world
        .refusals
        .iter()
        .map(|&(_, syndrome)| syndrome)
        .collect();
    says.dedup();
    assert!(world.refusals.iter().all(|&(from, _)| from == 1), "{name}");
    assert_eq!(says, Vec::from_iter(row.says), "{name}");
    if let Some(drop) = row.drops {
        assert!(world.drops.contains(&drop), "{name}: {:?}", world.drops);
    }

    let [requester, responder] = &world.nodes;
    let received: Vec<_> = responder
        .host
        .received
        .iter()
        .map(|(_, wc)| wc.status)
        .collect();
    let mut expected = Vec::from_iter(row.received);
    if row.states[1] == QpState::Err {
        expected.resize(responder.host.recv_buffers.len(), WcStatus::WrFlushErr);
    }
    assert_eq!(received, expected, "{name}");
    assert_eq!(responder.host.events, Vec::from_iter(row.event), "{name}");
    assert_eq!(requester.host.events, [], "{name}");
    let states = [requester.qp.state(), responder.qp.state()];
    assert_eq!(states, row.states, "{name}");
}

#[test]
fn both_sides_see_what_the_tables_say() {
    for row in ROWS {
        check(row);
    }
}

/// The tables of the manual with the class `class`: their rows as cells.
fn documented(class: &str) -> Vec<Vec<String>> {
    let document = include_str!("../../../Documentation/errors.rst");
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut wanted = false;
    for line in document.lines() {
        let text = line.trim_start();
        if line.starts_with(".. list-table::") {
            wanted = false;
        } else if text == format!(":class: {class}") {
            wanted = true;
        } else if let Some(cell) = text.strip_prefix("* - ").filter(|_| wanted) {
            rows.push(vec![cell.to_string()]);
        } else if let Some(cell) = text.strip_prefix("- ").filter(|_| wanted) {
            rows.last_mut().unwrap().push(cell.to_string());
        }
    }
    rows.retain(|cells| cells[0] != "fault");
    rows
}

fn status_cell(status: WcStatus) -> &'static str {
    match status {
        WcStatus::Success => "success",
        WcStatus::LocLenErr => "LOC_LEN_ERR",
        WcStatus::LocAccessErr => "LOC_ACCESS_ERR",
        WcStatus::LocQpOpErr => "LOC_QP_OP_ERR",
        WcStatus::LocProtErr => "LOC_PROT_ERR",
        WcStatus::MwBindErr => "MW_BIND_ERR",
        WcStatus::BadRespErr => "BAD_RESP_ERR",
        WcStatus::RemInvReqErr => "REM_INV_REQ_ERR",
        WcStatus::RemAccessErr => "REM_ACCESS_ERR",
        WcStatus::RemOpErr => "REM_OP_ERR",
        WcStatus::RetryExcErr => "RETRY_EXC_ERR",
        WcStatus::RnrRetryExcErr => "RNR_RETRY_EXC_ERR",
        other => panic!("no row has {other:?}"),
    }
}

fn state_cell(state: QpState) -> &'static str {
    match state {
        QpState::Reset => "RESET",
        QpState::Rts => "RTS",
        QpState::Sqe => "SQE",
        QpState::Err => "ERR",
        other => panic!("no row has {other:?}"),
    }
}

impl Row {
    fn cells(&self) -> Vec<String> {
        let says = match (self.says, self.drops) {
            (Some(Syndrome::Rnr { .. }), _) => "RNR NAK",
            (Some(Syndrome::Nak(NakCode::PsnSequenceError)), _) => "NAK 0",
            (Some(Syndrome::Nak(NakCode::InvalidRequest)), _) => "NAK 1",
            (Some(Syndrome::Nak(NakCode::RemoteAccessError)), _) => "NAK 2",
            (Some(Syndrome::Nak(NakCode::RemoteOperationalError)), _) => "NAK 3",
            (Some(other), _) => panic!("no row has {other:?}"),
            (None, Some(_)) => "dropped",
            (None, None) => "",
        };
        let event = match self.event {
            Some(QpEvent::AccessErr) => "QP_ACCESS_ERR",
            Some(QpEvent::ReqErr) => "QP_REQ_ERR",
            Some(other) => panic!("no row has {other:?}"),
            None => "",
        };
        let [requester, responder] = self.states.map(state_cell);
        [
            self.name,
            status_cell(self.sent),
            says,
            self.received.map_or("", status_cell),
            event,
            requester,
            responder,
        ]
        .into_iter()
        .map(|cell| if cell.is_empty() { "none" } else { cell }.to_string())
        .collect()
    }
}

#[test]
fn the_manual_has_these_rows() {
    let rows: Vec<_> = ROWS.iter().map(Row::cells).collect();
    assert_eq!(documented("host"), rows);
}

/// The rows of the table in a program: their names and the words that follow, with macros expanded.
fn rows_of(source: &str) -> Vec<(&str, Vec<&str>)> {
    let words = |text| {
        let words = str::split(text, |c: char| !c.is_alphanumeric() && c != '_');
        words.filter(|word| !word.is_empty())
    };
    let macros: Vec<_> = source
        .lines()
        .filter_map(|line| line.strip_prefix("#define ")?.split_once(' '))
        .collect();
    let rows = source.split("\n\t{ \"").skip(1).map(|text| {
        let text = &text[..text.find('}').unwrap()];
        let (name, rest) = text.split_once('"').unwrap();
        let expanded = words(rest).flat_map(|word| {
            let body = macros.iter().find(|(name, _)| *name == word);
            words(body.map_or(word, |(_, body)| *body))
        });
        (name, expanded.collect())
    });
    rows.collect()
}

/// The names of the rows in a table of the manual.
fn documented_names(class: &str) -> Vec<String> {
    let rows = documented(class).into_iter();
    rows.map(|cells| cells[0].clone()).collect()
}

#[test]
fn the_manual_has_the_rows_of_errors_c() {
    let rows = rows_of(include_str!("../../user/errors.c"));
    let rows: Vec<Vec<String>> = rows
        .into_iter()
        .map(|(name, words)| {
            let of_kind = |prefix: &'static str| {
                let values = words
                    .iter()
                    .filter_map(move |word| word.strip_prefix(prefix));
                values.filter(|value| *value != "WR_FLUSH_ERR")
            };
            let mut statuses = of_kind("IBV_WC_");
            let fate = words
                .iter()
                .find_map(|word| match *word {
                    "FATAL" => Some("ERR"),
                    "UNHARMED" => Some("RTS"),
                    "DOWN" => Some("as it was"),
                    _ => None,
                })
                .unwrap();
            [
                name,
                statuses.next().unwrap(),
                statuses.next().unwrap_or("none"),
                of_kind("IBV_EVENT_").next().unwrap_or("none"),
                fate,
            ]
            .map(String::from)
            .to_vec()
        })
        .collect();
    assert_eq!(documented("errors"), rows);
}

#[test]
fn the_manual_has_the_rows_of_the_other_programs() {
    for (class, source) in [
        ("placement", include_str!("../../user/placement.c")),
        ("window", include_str!("../../user/window.c")),
        ("flush", include_str!("../../user/flush.c")),
        ("events", include_str!("../../user/events.c")),
    ] {
        let names: Vec<_> = rows_of(source).into_iter().map(|(name, _)| name).collect();
        assert_ne!(names, [""; 0], "{class}");
        assert_eq!(documented_names(class), names, "{class}");
    }
}
