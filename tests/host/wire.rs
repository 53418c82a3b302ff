// SPDX-License-Identifier: GPL-2.0

//! Properties of `wire`: no bytes make a parser panic, and what is written is what is read.

#[path = "wire/messages.rs"]
mod messages;

use proptest::collection::vec;
use proptest::prelude::*;
use wire::aeth::{
    Aeth,
    Syndrome, //
};
use wire::atomic::{
    AtomicAckEth,
    AtomicEth, //
};
use wire::bth::Bth;
use wire::deth::Deth;
use wire::feth::Feth;
use wire::grh::Grh;
use wire::header::Header;
use wire::icrc::{
    Icrc,
    SoftCrc32, //
};
use wire::ieth::Ieth;
use wire::imm::ImmDt;
use wire::lrh::Lrh;
use wire::mad::cm::{
    self,
    Cm, //
};
use wire::mad::perf::{
    self,
    PerfMad, //
};
use wire::mad::sa::{
    self,
    Record,
    Sa, //
};
use wire::mad::smp::{
    self,
    trap::{
        self,
        TrapDetails, //
    },
    Smp, //
};
use wire::mad::{
    MadHeader,
    Notice,
    DETAILS_LEN,
    MAD_LEN, //
};
use wire::opcode::{
    Opcode,
    Service, //
};
use wire::outer::{
    self,
    control,
    Kind,
    Outer, //
};
use wire::packet::{
    self,
    Packet, //
};
use wire::reth::Reth;
use wire::*;

/// Opcodes that a packet may have: all that are known but those of reliable datagram.
fn opcode() -> impl Strategy<Value = Opcode> {
    any::<u8>().prop_filter_map("an opcode in use", |byte| {
        Opcode::from_byte(byte).filter(|opcode| opcode.service() != Service::Rd)
    })
}

fn lrh() -> impl Strategy<Value = Lrh> {
    any::<(u8, u8, u16, u16)>().prop_map(|(vl, sl, dlid, slid)| Lrh {
        vl: Vl::new(vl),
        sl: Sl::new(sl),
        dlid: Lid::new(dlid),
        slid: Lid::new(slid),
        ..Lrh::default()
    })
}

fn grh() -> impl Strategy<Value = Grh> {
    any::<(u8, u32, u8, [u8; 16], [u8; 16])>().prop_map(
        |(traffic_class, flow_label, hop_limit, sgid, dgid)| Grh {
            traffic_class,
            flow_label: flow_label & 0xf_ffff,
            hop_limit,
            sgid: Gid::new(sgid),
            dgid: Gid::new(dgid),
            ..Grh::default()
        },
    )
}

fn bth() -> impl Strategy<Value = Bth> {
    (opcode(), any::<([bool; 5], u16, u32, u32)>()).prop_map(
        |(opcode, ([se, migreq, fecn, becn, ack_req], pkey, dest_qp, psn))| Bth {
            opcode,
            se,
            migreq,
            fecn,
            becn,
            ack_req,
            pkey: PKey::new(pkey),
            dest_qp: Qpn::new(dest_qp),
            psn: Psn::new(psn),
            ..Bth::default()
        },
    )
}

fn aeth() -> impl Strategy<Value = Aeth> {
    (any::<u8>(), 0..1u32 << 24).prop_filter_map("a syndrome with a meaning", |(byte, msn)| {
        let syndrome = Syndrome::from_byte(byte).ok()?;
        Some(Aeth { syndrome, msn })
    })
}

/// Headers with the extensions that their opcode wants.
fn header() -> impl Strategy<Value = Header> {
    let numbers = any::<(u32, u32, u64, u32, u32, u64, u64, u32, u8)>();
    (lrh(), proptest::option::of(grh()), bth(), aeth(), numbers).prop_map(
        |(lrh, grh, bth, aeth, (qkey, qpn, va, key, len, a, b, imm, flush))| {
            let opcode = bth.opcode;
            let rkey = Key::new(key);
            Header {
                lrh,
                grh,
                bth,
                deth: opcode.has_deth().then_some(Deth {
                    qkey: QKey::new(qkey),
                    src_qp: Qpn::new(qpn),
                }),
                reth: opcode.has_reth().then_some(Reth {
                    va,
                    rkey,
                    dma_len: len,
                }),
                aeth: opcode.has_aeth().then_some(aeth),
                atomic: opcode.has_atomic_eth().then_some(AtomicEth {
                    va,
                    rkey,
                    swap_add: a,
                    compare: b,
                }),
                atomic_ack: opcode
                    .has_atomic_ack()
                    .then_some(AtomicAckEth { original: a }),
                imm: opcode.has_imm().then_some(ImmDt::from_u32(imm)),
                ieth: opcode.has_ieth().then_some(Ieth { rkey }),
                feth: opcode.has_feth().then_some(Feth {
                    selectivity: flush & 3,
                    placement: flush >> 4,
                }),
            }
        },
    )
}

/// Packets that came from [`packet::build`], with what they were built of.
fn built() -> impl Strategy<Value = (Header, Vec<u8>, Vec<u8>)> {
    (header(), vec(any::<u8>(), 0..600)).prop_map(|(mut header, mut payload)| {
        if !header.bth.opcode.has_payload() {
            payload.clear();
        }
        let mut buf = vec![0xee; 1024];
        let len = packet::build::<SoftCrc32>(&mut header, &payload, &mut buf).unwrap();
        buf.truncate(len);
        (header, payload, buf)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn packets_round_trip((header, payload, bytes) in built()) {
        prop_assert_eq!(bytes.len() % 4, 0);
        prop_assert_eq!(bytes.len(), header.packet_len());
        prop_assert_eq!(header.payload_len(), payload.len());
        let packet = Packet::parse_checked::<SoftCrc32>(&bytes);
        prop_assert_eq!(packet, Ok(Packet { header, payload: &payload }));
    }

    #[test]
    fn a_header_alone_is_enough((header, _, bytes) in built()) {
        let (head, _) = bytes.split_at(header.len());
        prop_assert_eq!(Header::parse_head(head, bytes.len()), Ok((header, header.len())));
        let (cut, _) = bytes.split_at(header.len() - 1);
        prop_assert_eq!(Header::parse_head(cut, bytes.len()), Err(WireError::Truncated));
    }

    #[test]
    fn no_truncation_is_a_packet((_, _, bytes) in built(), at in any::<prop::sample::Index>()) {
        let (cut, _) = bytes.split_at(at.index(bytes.len()));
        prop_assert!(Packet::parse(cut).is_err());
    }

    /// The ICRC sees every change of one bit outside the fields that switches and routers may change.
    #[test]
    fn flipped_bits_are_seen((header, _, mut bytes) in built(), at in any::<prop::sample::Index>()) {
        let bit = at.index(bytes.len() * 8);
        bytes[bit / 8] ^= 0x80 >> (bit % 8);
        let bth = header.len() - header.bth.opcode.ext_len() - wire::bth::LEN;
        let variant = match bit / 8 {
            0 => bit < 4,
            byte if byte == bth + 4 => true,
            byte if header.grh.is_some() => byte < 8 || bit > 67 && byte < 12 || byte == 15,
            _ => false,
        };
        if !variant {
            prop_assert!(Packet::parse_checked::<SoftCrc32>(&bytes).is_err());
        } else if let Ok(packet) = Packet::parse_checked::<SoftCrc32>(&bytes) {
            prop_assert_eq!(packet.header.bth.psn, header.bth.psn);
        }
    }

    #[test]
    fn icrc_of_any_pieces((_, _, bytes) in built(), a in any::<prop::sample::Index>()) {
        let (covered, icrc) = bytes.split_at(bytes.len() - 4);
        let at = 20 + a.index(covered.len() - 19);
        let (head, tail) = covered.split_at(at);
        if let Ok(mut crc) = Icrc::<SoftCrc32>::start(head) {
            crc.update(tail);
            prop_assert_eq!(crc.finish(), icrc);
        } else {
            prop_assert!(at < 60);
        }
    }

    #[test]
    fn any_bytes_are_safe(bytes in vec(any::<u8>(), 0..300)) {
        let _ = Packet::parse_checked::<SoftCrc32>(&bytes);
        if let Ok((header, offset)) = Header::parse(&bytes) {
            prop_assert!(offset + header.payload_len() + 4 <= bytes.len());
        }
        if let Ok((outer, body)) = Outer::parse(&bytes) {
            let mut out = [0; outer::LEN];
            prop_assert_eq!(outer.emit(&mut out), Ok(outer::LEN));
            prop_assert_eq!(Outer::parse(&out).map(|(outer, _)| outer), Ok(outer));
            prop_assert_eq!(body.len(), bytes.len() - outer::LEN);
        }
        let _ = control::Hello::parse(&bytes);
        let _ = control::Keepalive::parse(&bytes);
        let _ = control::Bye::parse(&bytes);
        let _ = control::Refuse::parse(&bytes);
        let _ = control::Beacon::parse(&bytes);
        let _ = MadHeader::parse(&bytes);
    }

    /// Bytes with valid LRH and GRH get as far as the transport headers.
    #[test]
    fn almost_packets_are_safe(
        (_, _, mut bytes) in built(),
        changes in vec(any::<(prop::sample::Index, u8)>(), 1..8),
    ) {
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(packet) = Packet::parse(&bytes) {
            let mut header = packet.header;
            let mut out = vec![0; bytes.len()];
            prop_assert_eq!(header.emit(&mut out), Ok(header.len()));
            prop_assert_eq!(
                Header::parse_head(&out, bytes.len()),
                Ok((header, header.len()))
            );
            prop_assert_eq!(header.set_payload_len(packet.payload.len()), Ok(()));
        }
    }

    #[test]
    fn too_small_buffers((mut header, payload, bytes) in built(), at in any::<prop::sample::Index>()) {
        let mut buf = vec![0; at.index(bytes.len())];
        let got = packet::build::<SoftCrc32>(&mut header, &payload, &mut buf);
        prop_assert_eq!(got, Err(WireError::NoSpace));
    }

    #[test]
    fn outer_headers_round_trip(kind in 0..7u8, flags: u8, stride: u16, cookie: u64, body in vec(any::<u8>(), 0..8)) {
        let mut bytes = vec![0; outer::LEN];
        Outer { kind: Kind::Data, flags, stride, cookie }.emit(&mut bytes).unwrap();
        bytes[4] = kind;
        bytes.extend_from_slice(&body);
        let (outer, rest) = Outer::parse(&bytes).unwrap();
        prop_assert_eq!(outer.kind as u8, kind);
        prop_assert_eq!((outer.flags, outer.stride, outer.cookie, rest), (flags, stride, cookie, &body[..]));
    }

    #[test]
    fn psn_arithmetic(a: u32, b: u32, n: u32) {
        let (a, b) = (Psn::new(a), Psn::new(b));
        prop_assert_eq!(b.add(a.sub(b)), a);
        prop_assert_eq!(a.add(n).back(n), a);
        prop_assert_eq!(a.diff(b).rem_euclid(1 << 24) as u32, a.sub(b));
        // At the farthest distance each is before the other.
        let farthest = a.sub(b) == Psn::WINDOW;
        prop_assert_eq!(a.is_after(b), b.is_before(a) && !farthest);
    }

    #[test]
    fn credits_never_exceed_what_there_is(available: u32) {
        let granted = wire::aeth::credits(wire::aeth::credit_code(available)).unwrap();
        prop_assert!(u32::from(granted) <= available);
    }
}

/// A parsed attribute, written and read again, is the same; so are its bytes from then on.
fn stable<T: smp::Attribute + PartialEq + core::fmt::Debug>(data: &[u8; smp::DATA_LEN]) {
    let value = T::parse(data);
    let mut once = [0xee; smp::DATA_LEN];
    value.emit(&mut once);
    assert_eq!(T::parse(&once), value);
    let mut twice = [0x11; smp::DATA_LEN];
    value.emit(&mut twice);
    assert_eq!(once, twice);
}

fn stable_perf<T: perf::Attribute + PartialEq + core::fmt::Debug>(data: &[u8; perf::DATA_LEN]) {
    let value = T::parse(data);
    let mut once = [0xee; perf::DATA_LEN];
    value.emit(&mut once);
    assert_eq!(T::parse(&once), value);
}

fn stable_record<T: Record + PartialEq + core::fmt::Debug>(data: &[u8; sa::DATA_LEN]) {
    let value = T::parse(data);
    let mut once = [0xee; sa::DATA_LEN];
    value.emit(&mut once);
    assert_eq!(T::parse(&once), value);
    assert_eq!(once[T::SIZE..], [0xee; sa::DATA_LEN][T::SIZE..]);
    let mut twice = [0x11; sa::DATA_LEN];
    value.emit(&mut twice);
    assert_eq!(once[..T::SIZE], twice[..T::SIZE]);
    for end in 0..T::SIZE {
        T::parse(&data[..end]).emit(&mut twice[..end]);
    }
}

fn stable_message<T: cm::Message + PartialEq + core::fmt::Debug>(data: &[u8; cm::DATA_LEN]) {
    let value = T::parse(data);
    let private = cm::DATA_LEN - T::KIND.private_len();
    let mut once = [0xee; cm::DATA_LEN];
    value.emit(&mut once);
    assert_eq!(T::parse(&once), value);
    assert_eq!(once[private..], [0xee; cm::DATA_LEN][private..]);
    let mut twice = *data;
    value.emit(&mut twice);
    assert_eq!(once[..private], twice[..private]);
    assert_eq!(twice[private..], data[private..]);
}

fn stable_trap<T: TrapDetails + PartialEq + core::fmt::Debug>(details: &[u8; DETAILS_LEN]) {
    let value = T::parse(details);
    assert_eq!(T::parse(&value.emit()), value);
}

proptest! {
    #[test]
    fn subnet_management_attributes(bytes in vec(any::<u8>(), MAD_LEN)) {
        let bytes: [u8; MAD_LEN] = bytes.try_into().unwrap();
        let smp = Smp::from_bytes(&bytes);
        prop_assert_eq!(smp.as_bytes(), &bytes);
        let data = smp.data();
        stable::<smp::NodeInfo>(data);
        stable::<smp::NodeDescription>(data);
        stable::<smp::SwitchInfo>(data);
        stable::<smp::PortInfo>(data);
        stable::<smp::GuidInfo>(data);
        stable::<smp::PKeyTable>(data);
        stable::<smp::SlToVl>(data);
        stable::<smp::VlArb>(data);
        stable::<smp::LinearForwardingTable>(data);
        stable::<smp::MulticastForwardingTable>(data);
        stable::<smp::SmInfo>(data);
        stable::<smp::LedInfo>(data);
        stable::<Notice>(data);
    }

    #[test]
    fn subnet_management_headers(bytes in vec(any::<u8>(), MAD_LEN), hop: u8, port: u8) {
        let mut bytes: [u8; MAD_LEN] = bytes.try_into().unwrap();
        let before = bytes;
        let smp = Smp::from_bytes_mut(&mut bytes);
        smp.set_status(smp.status());
        smp.set_hop_ptr(smp.hop_ptr());
        smp.set_hop_cnt(smp.hop_cnt());
        smp.set_mkey(smp.mkey());
        smp.set_dr_slid(smp.dr_slid());
        smp.set_dr_dlid(smp.dr_dlid());
        prop_assert_eq!(smp.as_bytes(), &before);
        let set = smp.set_return_path(hop, PortNum::new(port));
        prop_assert_eq!(set.is_some(), hop < 64);
        prop_assert_eq!(smp.return_path(hop), set.map(|()| PortNum::new(port)));
        prop_assert_eq!(smp.data().as_slice(), &before[64..128]);
    }

    #[test]
    fn performance_attributes(bytes in vec(any::<u8>(), MAD_LEN)) {
        let bytes: [u8; MAD_LEN] = bytes.try_into().unwrap();
        let data = PerfMad::from_bytes(&bytes).data();
        stable_perf::<wire::mad::ClassPortInfo>(data);
        stable_perf::<perf::PortCounters>(data);
        stable_perf::<perf::PortCountersExtended>(data);
    }

    #[test]
    fn administration_datagrams_of_any_bytes(bytes: [u8; MAD_LEN]) {
        let sa = Sa::from_bytes(&bytes);
        let mut copy = sa.clone();
        copy.set_header(&sa.header());
        copy.set_rmpp(&sa.rmpp());
        copy.set_sm_key(sa.sm_key());
        copy.set_attribute_offset(sa.attribute_offset());
        copy.set_component_mask(sa.component_mask());
        let mut want = bytes;
        want[18..20].fill(0);
        prop_assert_eq!(copy.as_bytes(), &want);
        let data = sa.data();
        stable_record::<wire::mad::ClassPortInfo>(data);
        stable_record::<sa::InformInfo>(data);
        stable_record::<sa::McMemberRecord>(data);
        stable_record::<sa::MultiPathRecord>(data);
        stable_record::<sa::NodeRecord>(data);
        stable_record::<sa::PathRecord>(data);
        stable_record::<sa::PortInfoRecord>(data);
        stable_record::<sa::ServiceRecord>(data);
        let (notice, issuer) = sa::notice(data);
        sa::set_notice(copy.data_mut(), &notice, issuer);
        prop_assert_eq!(sa::notice(copy.data()), (notice, issuer));
    }

    #[test]
    fn communication_messages_of_any_bytes(bytes: [u8; MAD_LEN]) {
        let mad = Cm::from_bytes(&bytes);
        prop_assert_eq!(mad.as_bytes(), &bytes);
        prop_assert_eq!(Ok(mad.header()), MadHeader::parse(&bytes));
        let data = mad.data();
        stable_message::<cm::Req>(data);
        stable_message::<cm::Mra>(data);
        stable_message::<cm::Rej>(data);
        stable_message::<cm::Rep>(data);
        stable_message::<cm::Rtu>(data);
        stable_message::<cm::Dreq>(data);
        stable_message::<cm::Drep>(data);
        stable_message::<cm::SidrReq>(data);
        stable_message::<cm::SidrRep>(data);
        stable_message::<cm::Lap>(data);
        stable_message::<cm::Apr>(data);
    }

    #[test]
    fn private_data_of_messages(
        (attr_id, tid) in (prop_oneof![cm::attr::REQ..=cm::attr::SPR, any::<u16>()], any::<u64>()),
        bytes: [u8; MAD_LEN],
        private in vec(any::<u8>(), 0..300),
    ) {
        let mut mad = Cm::new(attr_id, tid);
        mad.data_mut().copy_from_slice(&bytes[24..]);
        let len = cm::Kind::from_attr(attr_id).map_or(0, cm::Kind::private_len);
        prop_assert_eq!(mad.private_data(), &bytes[MAD_LEN - len..]);
        mad.set_private_data(&private);
        let mut want = private;
        want.resize(len, 0);
        prop_assert_eq!(mad.private_data(), &want);
        let message = cm::DATA_LEN - len;
        prop_assert_eq!(&mad.data()[..message], &bytes[24..][..message]);
        prop_assert_eq!((mad.attr_id(), mad.tid()), (attr_id, tid));
    }

    #[test]
    fn trap_details(bytes in vec(any::<u8>(), DETAILS_LEN)) {
        let details: [u8; DETAILS_LEN] = bytes.try_into().unwrap();
        stable_trap::<trap::LinkStateChange>(&details);
        stable_trap::<trap::LinkErrors>(&details);
        stable_trap::<trap::CapabilityChange>(&details);
        stable_trap::<trap::SystemImageGuidChange>(&details);
        stable_trap::<trap::BadMKey>(&details);
        stable_trap::<trap::BadPKey>(&details);
        stable_trap::<trap::BadQKey>(&details);
        stable_trap::<trap::BadPKeySwitch>(&details);
    }
}
