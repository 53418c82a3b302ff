// SPDX-License-Identifier: GPL-2.0

//! Datagrams and the management interfaces.

use crate::world::{
    config,
    wqe,
    Dice,
    Faults,
    Node,
    World, //
};
use proto::transport::{
    GrhAv,
    PathAv,
    QpConfig,
    QpState,
    QpType,
    RxDrop,
    SendOp,
    SendWqe,
    UdDest,
    Wc,
    WcStatus, //
};
use wire::{
    Gid,
    Lid,
    PKey,
    QKey,
    Qpn, //
};

const QKEY: QKey = QKey::new(0x1111);

fn dest() -> UdDest {
    UdDest {
        qpn: Qpn::new(0x101),
        qkey: QKEY,
        pkey: None,
        av: PathAv {
            dlid: Lid::new(11),
            ..PathAv::default()
        },
    }
}

fn datagram(wr_id: u64, len: usize) -> SendWqe {
    SendWqe {
        ud: Some(dest()),
        ..wqe(wr_id, SendOp::SendImm, len, 0)
    }
}

fn world(qp_type: QpType) -> World {
    World::new(qp_type, 0, Faults::default(), 1)
}

fn statuses(completions: &[Wc]) -> Vec<WcStatus> {
    completions.iter().map(|wc| wc.status).collect()
}

#[test]
fn a_datagram_arrives_behind_the_room_for_a_grh() {
    let mut world = world(QpType::Ud);
    world.nodes[1].host.post_recv(1064);
    world.nodes[1].host.post_recv(1064);
    let global = GrhAv {
        sgid_index: 0,
        sgid: Gid::new([1; 16]),
        dgid: Gid::new([2; 16]),
        flow_label: 3,
        hop_limit: 4,
        traffic_class: 5,
    };
    let mut with_grh = datagram(1, 10);
    with_grh.ud.as_mut().unwrap().av.grh = Some(global);
    world.nodes[0].post(datagram(0, 1024), vec![7; 1024]);
    world.nodes[0].post(with_grh, vec![8; 10]);
    world.run();
    assert_eq!(statuses(&world.nodes[0].host.sent), [WcStatus::Success; 2]);
    let host = &world.nodes[1].host;
    let [(_, plain), (_, global)] = host.received[..] else {
        panic!("{:?}", host.received);
    };
    assert_eq!(
        (plain.byte_len, plain.grh, plain.imm),
        (1064, false, Some(0))
    );
    assert_eq!(
        (global.byte_len, global.grh, global.imm),
        (50, true, Some(1))
    );
    assert_eq!((plain.src_qp, plain.slid), (Qpn::new(0x100), Lid::new(10)));
    assert_eq!(host.recv_buffers[0][40..], [7; 1024]);
    assert_eq!(host.recv_buffers[1][40..50], [8; 10]);
    assert_eq!(host.recv_buffers[1][8..24], [1; 16]);
}

#[test]
fn what_nobody_can_take_completes_and_is_dropped() {
    let mut world = world(QpType::Ud);
    let mut wrong_qkey = datagram(0, 10);
    wrong_qkey.ud.as_mut().unwrap().qkey = QKey::new(0x2222);
    world.nodes[0].post(wrong_qkey, vec![0; 10]);
    world.nodes[0].post(datagram(1, 10), vec![0; 10]);
    world.run();
    assert_eq!(statuses(&world.nodes[0].host.sent), [WcStatus::Success; 2]);
    assert_eq!(world.drops, [RxDrop::QKey, RxDrop::NoRecv]);
}

#[test]
fn a_long_datagram_leaves_the_receive_for_the_next() {
    let mut world = world(QpType::Ud);
    world.nodes[1].host.post_recv(100);
    world.nodes[1].host.post_recv(100);
    for (wr_id, len) in [(0, 61), (1, 60), (2, 500), (3, 0)] {
        world.nodes[0].post(datagram(wr_id, len), vec![wr_id as u8; len]);
    }
    world.run();
    let host = &world.nodes[1].host;
    let taken: Vec<_> = host
        .received
        .iter()
        .map(|(slot, wc)| (slot.0, wc.imm, wc.byte_len))
        .collect();
    assert_eq!(taken, [(0, Some(1), 100), (1, Some(3), 40)]);
    assert_eq!(world.drops, [RxDrop::TooLong; 2]);
}

/// What libraries for remote procedure calls count on: they post thousands of receives, signal one send in 64, and
/// take each completion of a receive for the next message.
#[test]
fn receives_are_taken_in_their_order_whatever_is_dropped() {
    const RECEIVES: usize = 4096;
    const ROOM: u32 = 200;
    let mut dice = Dice::new(7);
    let mut world = world(QpType::Ud);
    for _ in 0..RECEIVES {
        world.nodes[1].host.post_recv(ROOM);
    }
    let (mut right, mut drops, mut signaled) = (Vec::new(), Vec::new(), Vec::new());
    let mut number = 0;
    while right.len() < RECEIVES {
        let mut wqe = datagram(number, 1 + dice.below(160) as usize);
        wqe.flags.signaled = number % 64 == 63;
        if wqe.flags.signaled {
            signaled.push(number);
        }
        let dest = wqe.ud.as_mut().unwrap();
        match dice.below(4) {
            0 => {
                dest.qkey = QKey::new(0x2222);
                drops.push(RxDrop::QKey);
            }
            1 => {
                wqe.length += ROOM;
                drops.push(RxDrop::TooLong);
            }
            _ => right.push((number as u8, wqe.length)),
        }
        world.nodes[0].post(wqe, vec![number as u8; wqe.length as usize]);
        world.run();
        number += 1;
    }
    let sent = &world.nodes[0].host.sent;
    assert!(sent.iter().all(|wc| wc.status == WcStatus::Success));
    let sent: Vec<_> = sent.iter().map(|wc| wc.wr_id).collect();
    assert_eq!(sent, signaled);
    assert_eq!(world.drops, drops);
    let host = &world.nodes[1].host;
    assert_eq!(host.received.len(), RECEIVES);
    for (at, (&(slot, wc), (byte, len))) in host.received.iter().zip(right).enumerate() {
        assert_eq!((slot.0 as usize, wc.byte_len), (at, len + 40));
        let message = 40..wc.byte_len as usize;
        assert!(host.recv_buffers[at][message].iter().all(|&b| b == byte));
    }
}

#[test]
fn a_controlled_qkey_means_the_queue_pair_s_own() {
    let mut world = world(QpType::Ud);
    world.nodes[1].host.post_recv(100);
    let mut own = datagram(0, 10);
    own.ud.as_mut().unwrap().qkey = QKey::new(0xffff_ffff);
    world.nodes[0].post(own, vec![0; 10]);
    world.run();
    assert_eq!(world.nodes[1].host.received.len(), 1);
}

#[test]
fn partitions_are_kept_apart() {
    for (theirs, ours, passes) in [
        (0x8001, 0x8001, true),
        (0x0001, 0x8001, true),
        (0x0001, 0x0001, false),
        (0x8001, 0x8002, false),
    ] {
        let mut world = world(QpType::Ud);
        world.nodes[1].host.post_recv(100);
        world.nodes[0].qp.config_mut().pkey = PKey::new(theirs);
        world.nodes[1].qp.config_mut().pkey = PKey::new(ours);
        world.nodes[0].post(datagram(0, 10), vec![0; 10]);
        world.run();
        assert_eq!(world.nodes[1].host.received.len() == 1, passes);
    }
}

#[test]
fn too_long_for_the_port_is_a_send_queue_error() {
    let mut world = world(QpType::Ud);
    let no_dest = SendWqe {
        ud: None,
        ..datagram(0, 1)
    };
    for (bad, status) in [
        (datagram(1, 1025), WcStatus::LocLenErr),
        (no_dest, WcStatus::LocQpOpErr),
    ] {
        world.nodes[0].host.sent.clear();
        world.nodes[0].post(datagram(0, 1024), vec![0; 1024]);
        world.nodes[0].post(bad, vec![0; 1025]);
        world.nodes[0].post(datagram(2, 1), vec![0; 1]);
        world.run();
        let expected = [WcStatus::Success, status, WcStatus::WrFlushErr];
        assert_eq!(statuses(&world.nodes[0].host.sent), expected);
        assert_eq!(world.nodes[0].qp.state(), QpState::Sqe);
        world.nodes[0].go(QpState::Rts);
    }
}

#[test]
fn a_buffer_without_memory_is_a_send_queue_error() {
    let mut world = world(QpType::Ud);
    world.nodes[0].post(datagram(0, 10), vec![0; 10]);
    let bad = world.nodes[0].post(datagram(1, 10), vec![0; 10]);
    world.nodes[0].post(datagram(2, 10), vec![0; 10]);
    world.nodes[0].host.bad_slot = Some(bad);
    world.run();
    let expected = [
        WcStatus::Success,
        WcStatus::LocProtErr,
        WcStatus::WrFlushErr,
    ];
    assert_eq!(statuses(&world.nodes[0].host.sent), expected);
    assert_eq!(world.nodes[0].qp.state(), QpState::Sqe);
}

/// A management queue pair on each side, numbered as such.
fn management(qp_type: QpType, qpn: Qpn) -> World {
    let mut world = world(qp_type);
    for (i, node) in world.nodes.iter_mut().enumerate() {
        node.go(QpState::Reset);
        node.connect(&QpConfig {
            qpn,
            qkey: if qp_type == QpType::Gsi {
                QKey::GSI
            } else {
                QKey::new(0)
            },
            ..config(i)
        });
    }
    world
}

fn management_datagram(node: &Node, qpn: Qpn) -> SendWqe {
    let mut wqe = datagram(0, 256);
    let dest = wqe.ud.as_mut().unwrap();
    dest.qpn = qpn;
    dest.qkey = node.qp.config().qkey;
    wqe
}

#[test]
fn subnet_management_has_its_own_lane() {
    let mut world = management(QpType::Smi, Qpn::SMI);
    world.nodes[1].host.post_recv(296);
    let wqe = management_datagram(&world.nodes[0], Qpn::SMI);
    world.nodes[0].post(wqe, vec![1; 256]);
    world.run();
    assert_eq!(world.nodes[1].host.received.len(), 1);
}

#[test]
fn nobody_else_reaches_subnet_management() {
    // A UD queue pair, and one that pretends to be QP0 but sends on an ordinary lane.
    for qpn in [Qpn::new(0x100), Qpn::SMI] {
        let mut world = management(QpType::Smi, Qpn::SMI);
        world.nodes[0] = self::world(QpType::Ud).nodes.into_iter().next().unwrap();
        world.nodes[0].qp.config_mut().qpn = qpn;
        world.nodes[1].host.post_recv(296);
        let wqe = management_datagram(&world.nodes[1], Qpn::SMI);
        world.nodes[0].post(wqe, vec![1; 256]);
        world.run();
        assert_eq!(statuses(&world.nodes[0].host.sent), [WcStatus::Success]);
        assert!(world.nodes[1].host.received.is_empty());
        assert_eq!(world.drops, [RxDrop::Source]);
    }
}

#[test]
fn general_services_choose_their_partition() {
    let mut world = management(QpType::Gsi, Qpn::GSI);
    world.nodes[1].host.post_recv(296);
    let mut wqe = management_datagram(&world.nodes[0], Qpn::GSI);
    wqe.ud.as_mut().unwrap().pkey = Some(PKey::new(0x8123));
    world.nodes[0].post(wqe, vec![1; 256]);
    world.run();
    assert_eq!(world.nodes[1].host.received.len(), 1);
    assert_eq!(world.last_pkey, PKey::new(0x8123));
}

#[test]
fn datagrams_establish_no_communication() {
    let mut world = world(QpType::Ud);
    world.nodes[1].go(QpState::Reset);
    world.nodes[1].connect_to(&config(1), QpState::Rtr);
    world.nodes[1].host.post_recv(140);
    world.nodes[0].post(datagram(0, 100), vec![0; 100]);
    world.run();
    assert_eq!(world.nodes[1].host.received.len(), 1);
    assert_eq!(world.nodes[1].host.events, []);
}
