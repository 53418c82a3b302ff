// SPDX-License-Identifier: GPL-2.0

//! One packet of each message of communication management. A guest has Wireshark read the same bytes.

use std::fmt::Write;
use wire::header::Header;
use wire::icrc::SoftCrc32;
use wire::mad::cm::{
    self,
    Cm, //
};
use wire::opcode::{
    Opcode,
    Operation,
    Service, //
};
use wire::packet::{
    self,
    Packet, //
};
use wire::*;

/// The packets, a line of hexadecimal digits each, in the order of the attribute IDs.
const PACKETS: &str = include_str!("../../vm/packets/cm.hex");

const LOCAL_COMM_ID: u32 = 0xc1c2_c3c4;
const REMOTE_COMM_ID: u32 = 0xd1d2_d3d4;
const SERVICE_ID: u64 = 0x1000_cea0_1234_5678;
const CA_GUID: Guid = Guid::new(0x0210_20ff_fe30_4050);
const QPN: Qpn = Qpn::new(0x00_1a2b);
const QKEY: QKey = QKey::new(0x1122_3344);
const PSN: Psn = Psn::new(0x65_4321);
const PRIVATE: [u8; 4] = *b"sib!";

fn path(lid: u16) -> cm::Path {
    cm::Path {
        local_lid: Lid::new(lid),
        remote_lid: Lid::new(lid + 1),
        local_gid: Gid::from_parts(Gid::DEFAULT_PREFIX, Guid::new(u64::from(lid))),
        remote_gid: Gid::from_parts(Gid::DEFAULT_PREFIX, Guid::new(u64::from(lid) + 1)),
        flow_label: 0xa_bcde,
        traffic_class: 0x21,
        hop_limit: 0x40,
        rate: 7,
        sl: Sl::new(3),
        subnet_local: true,
        ack_timeout: 15,
    }
}

fn info() -> [u8; 72] {
    let mut info = [0; 72];
    info[..2].copy_from_slice(&[0xab, 0xcd]);
    info
}

fn datagram<T: cm::Message>(message: &T) -> Cm {
    let attr_id = T::KIND.attr();
    let mut cm = Cm::new(attr_id, 0x7465_7374_0000_0000 | u64::from(attr_id));
    cm.set_message(message);
    cm.set_private_data(&PRIVATE);
    cm
}

fn datagrams() -> [Cm; 11] {
    let (local_comm_id, remote_comm_id) = (LOCAL_COMM_ID, REMOTE_COMM_ID);
    [
        datagram(&cm::Req {
            local_comm_id,
            vendor_id: 0x00_2c90,
            service_id: SERVICE_ID,
            local_ca_guid: CA_GUID,
            local_qkey: QKEY,
            local_qpn: QPN,
            responder_resources: 4,
            local_eecn: 0x00_0e0c,
            initiator_depth: 5,
            remote_eecn: 0x00_0e0d,
            remote_cm_response_timeout: 20,
            transport_service_type: cm::service_type::UC,
            end_to_end_flow_control: true,
            starting_psn: PSN,
            local_cm_response_timeout: 19,
            retry_count: 6,
            pkey: PKey::new(0x8005),
            path_mtu: 4,
            rdc_exists: true,
            rnr_retry_count: 3,
            max_cm_retries: 15,
            srq: true,
            extended_transport_type: cm::extended_type::XRC,
            primary: path(0x11),
            alternate: path(0x21),
            sap_supported: true,
        }),
        datagram(&cm::Mra {
            local_comm_id,
            remote_comm_id,
            message_mraed: cm::mraed::LAP,
            service_timeout: 22,
        }),
        datagram(&cm::Rej {
            local_comm_id,
            remote_comm_id,
            message_rejected: cm::rejected::REP,
            reject_info_length: 2,
            reason: cm::reason::INVALID_ALT_LID,
            info: info(),
        }),
        datagram(&cm::Rep {
            local_comm_id,
            remote_comm_id,
            local_qkey: QKEY,
            local_qpn: QPN,
            vendor_id_h: 0x01,
            local_eecn: 0x00_0e0c,
            vendor_id_m: 0x2c,
            starting_psn: PSN,
            vendor_id_l: 0x90,
            responder_resources: 4,
            initiator_depth: 5,
            target_ack_delay: 17,
            failover_accepted: cm::failover::REJECTED,
            end_to_end_flow_control: true,
            rnr_retry_count: 6,
            srq: true,
            local_ca_guid: CA_GUID,
        }),
        datagram(&cm::Rtu {
            local_comm_id,
            remote_comm_id,
        }),
        datagram(&cm::Dreq {
            local_comm_id,
            remote_comm_id,
            remote_qpn: QPN,
        }),
        datagram(&cm::Drep {
            local_comm_id,
            remote_comm_id,
        }),
        datagram(&cm::SidrReq {
            request_id: LOCAL_COMM_ID,
            pkey: PKey::new(0x8005),
            service_id: SERVICE_ID,
        }),
        datagram(&cm::SidrRep {
            request_id: LOCAL_COMM_ID,
            status: cm::sidr_status::REDIRECT,
            info_length: 2,
            vendor_id_h: 0x012c,
            qpn: QPN,
            vendor_id_l: 0x90,
            service_id: SERVICE_ID,
            qkey: QKEY,
            info: info(),
        }),
        datagram(&cm::Lap {
            local_comm_id,
            remote_comm_id,
            remote_qpn: QPN,
            remote_cm_response_timeout: 16,
            path: path(0x31),
        }),
        datagram(&cm::Apr {
            local_comm_id,
            remote_comm_id,
            info_length: 2,
            ap_status: cm::ap_status::INVALID_LID,
            info: info(),
        }),
    ]
}

/// The packet of a datagram from LRH through ICRC.
fn packet(cm: &Cm) -> Vec<u8> {
    let mut header = Header::default();
    header.lrh.slid = Lid::new(0x11);
    header.lrh.dlid = Lid::new(0x12);
    header.bth.opcode = Opcode::new(Service::Ud, Operation::SendOnly).unwrap();
    header.bth.dest_qp = Qpn::GSI;
    header.bth.pkey = PKey::DEFAULT;
    header.deth = Some(deth::Deth {
        qkey: QKey::GSI,
        src_qp: Qpn::GSI,
    });
    let mut buf = [0; 512];
    let len = packet::build::<SoftCrc32>(&mut header, cm.as_bytes(), &mut buf).unwrap();
    buf[..len].to_vec()
}

fn bytes(line: &str) -> Vec<u8> {
    let digits = |at| u8::from_str_radix(&line[at..at + 2], 16).unwrap();
    (0..line.len()).step_by(2).map(digits).collect()
}

#[test]
fn messages_are_written_as_wireshark_reads_them() {
    let mut written = String::new();
    for cm in datagrams() {
        for byte in packet(&cm) {
            write!(written, "{byte:02x}").unwrap();
        }
        written.push('\n');
    }
    assert!(
        written == PACKETS,
        "tests/vm/packets/cm.hex is not\n{written}"
    );
}

#[test]
fn messages_are_read_as_they_were_written() {
    fn same<T: cm::Message + PartialEq + core::fmt::Debug>(read: &Cm, written: &Cm) {
        assert_eq!(read.message::<T>(), written.message());
        assert_eq!(read.private_data()[..4], PRIVATE);
        assert!(read.private_data()[4..].iter().all(|byte| *byte == 0));
    }
    let mut kinds = 0;
    for (line, written) in PACKETS.lines().zip(datagrams()) {
        let packet = bytes(line);
        let packet = Packet::parse_checked::<SoftCrc32>(&packet).unwrap();
        let read = Cm::from_bytes(packet.payload.try_into().unwrap());
        assert_eq!(read.header(), written.header());
        match cm::Kind::from_attr(read.attr_id()).unwrap() {
            cm::Kind::Req => same::<cm::Req>(read, &written),
            cm::Kind::Mra => same::<cm::Mra>(read, &written),
            cm::Kind::Rej => same::<cm::Rej>(read, &written),
            cm::Kind::Rep => same::<cm::Rep>(read, &written),
            cm::Kind::Rtu => same::<cm::Rtu>(read, &written),
            cm::Kind::Dreq => same::<cm::Dreq>(read, &written),
            cm::Kind::Drep => same::<cm::Drep>(read, &written),
            cm::Kind::SidrReq => same::<cm::SidrReq>(read, &written),
            cm::Kind::SidrRep => same::<cm::SidrRep>(read, &written),
            cm::Kind::Lap => same::<cm::Lap>(read, &written),
            cm::Kind::Apr => same::<cm::Apr>(read, &written),
        }
        kinds += 1;
    }
    assert_eq!(kinds, 11);
}
