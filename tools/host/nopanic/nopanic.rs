// SPDX-License-Identifier: GPL-2.0

//! Calls of what the pure crates declare generic or inline, which has no machine code of its own.
//!
//! Nobody runs this: `tools/host/no-panic` compiles it as the kernel would and looks for panics.

#![no_std]
#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "the names are those of what is called")]

pub mod agent;
pub mod sm;
pub mod transport;

use core::net::SocketAddr;
use proto::fabric::line::{
    Destination,
    Fault,
    Heard,
    Line,
    Mac,
    Message, //
};
use proto::time::Instant;
use wire::header::Header;
use wire::icrc::{
    Crc32,
    Icrc, //
};
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
    Sa, //
};
use wire::mad::smp::{
    self,
    trap::TrapDetails,
    Smp, //
};
use wire::mad::{
    MadHeader,
    DETAILS_LEN,
    MAD_LEN, //
};
use wire::opcode::{
    Opcode,
    Operation,
    Service, //
};
use wire::outer::control::TAG_LEN;
use wire::outer::Outer;
use wire::packet::{
    self,
    Packet, //
};
use wire::{
    Gid,
    Mtu,
    PortNum,
    Psn,
    WireError, //
};

/// A CRC whose code the optimiser cannot see through.
pub enum Opaque {}

impl Crc32 for Opaque {
    #[inline(never)]
    fn update(crc: u32, data: &[u8]) -> u32 {
        wire::icrc::SoftCrc32::update(crc, data)
    }
}

pub fn parse_packet(buf: &[u8]) -> Result<Packet<'_>, WireError> {
    Packet::parse_checked::<Opaque>(buf)
}

pub fn build_packet(
    header: &mut Header,
    payload: &[u8],
    buf: &mut [u8],
) -> Result<usize, WireError> {
    packet::build::<Opaque>(header, payload, buf)
}

pub fn finish_packet(header: &Header, buf: &mut [u8]) -> Result<usize, WireError> {
    packet::finish::<Opaque>(header, buf)
}

pub fn pieces(head: &[u8], tail: &[u8]) -> Option<[u8; 4]> {
    let mut icrc = Icrc::<Opaque>::start(head).ok()?;
    icrc.update(tail);
    Some(icrc.finish())
}

pub fn outer(buf: &[u8]) -> Result<(Outer, &[u8]), WireError> {
    Outer::parse(buf)
}

pub fn emit_outer(outer: &Outer, buf: &mut [u8]) -> Result<usize, WireError> {
    outer.emit(buf)
}

pub fn emit_header(header: &Header, buf: &mut [u8]) -> Result<usize, WireError> {
    header.emit(buf)
}

pub fn mad_header(buf: &mut [u8]) -> Result<usize, WireError> {
    MadHeader::parse(buf)?.emit(buf)
}

pub fn opcode(service: Service, operation: Operation, byte: u8) -> Option<(Opcode, Opcode)> {
    Some((Opcode::new(service, operation)?, Opcode::from_byte(byte)?))
}

pub fn psn(a: Psn, b: Psn, count: u32) -> (Psn, Psn, u32, i32, bool) {
    (
        a.add(count),
        a.back(count),
        a.sub(b),
        a.diff(b),
        a.is_after(b),
    )
}

pub fn numbers(mtu: Mtu, bytes: u32, code: u8, gid: Gid) -> (u32, u64, u64, u8, Option<u16>, bool) {
    (
        mtu.packets(bytes),
        wire::timer::rnr_delay_ns(code),
        wire::timer::exponential_ns(code),
        wire::aeth::credit_code(bytes),
        wire::aeth::credits(code),
        gid.is_multicast(),
    )
}

pub fn smp_path(bytes: &mut [u8; MAD_LEN], hop: u8, port: PortNum) -> Option<PortNum> {
    let smp = Smp::from_bytes_mut(bytes);
    smp.set_return_path(hop, port)?;
    smp.set_initial_path(hop, port)?;
    smp.set_hop_ptr(smp.hop_cnt());
    smp.set_returning(!smp.is_returning());
    smp.set_status(smp.status());
    smp.return_path(hop).and(smp.initial_path(hop))
}

fn smp_attribute<T: smp::Attribute>(smp: &mut Smp) {
    let value: T = smp.attribute();
    smp.set_attribute(&value);
}

pub fn smp_attributes(smp: &mut Smp) {
    smp_attribute::<smp::NodeInfo>(smp);
    smp_attribute::<smp::NodeDescription>(smp);
    smp_attribute::<smp::SwitchInfo>(smp);
    smp_attribute::<smp::PortInfo>(smp);
    smp_attribute::<smp::GuidInfo>(smp);
    smp_attribute::<smp::PKeyTable>(smp);
    smp_attribute::<smp::SlToVl>(smp);
    smp_attribute::<smp::VlArb>(smp);
    smp_attribute::<smp::LinearForwardingTable>(smp);
    smp_attribute::<smp::MulticastForwardingTable>(smp);
    smp_attribute::<smp::SmInfo>(smp);
    smp_attribute::<smp::LedInfo>(smp);
    smp_attribute::<wire::mad::Notice>(smp);
}

fn perf_attribute<T: perf::Attribute>(mad: &mut PerfMad) {
    let value: T = mad.attribute();
    mad.set_attribute(&value);
}

pub fn perf_attributes(mad: &mut PerfMad) {
    perf_attribute::<wire::mad::ClassPortInfo>(mad);
    perf_attribute::<perf::PortCounters>(mad);
    perf_attribute::<perf::PortCountersExtended>(mad);
}

fn sa_record<T: sa::Record>(mad: &mut Sa) {
    let value: T = mad.record();
    mad.set_record(&value);
}

pub fn sa_records(bytes: &mut [u8; MAD_LEN]) {
    let mad = Sa::from_bytes_mut(bytes);
    mad.set_rmpp(&mad.rmpp());
    sa_record::<wire::mad::ClassPortInfo>(mad);
    sa_record::<sa::InformInfo>(mad);
    sa_record::<sa::McMemberRecord>(mad);
    sa_record::<sa::NodeRecord>(mad);
    sa_record::<sa::PathRecord>(mad);
    sa_record::<sa::PortInfoRecord>(mad);
    sa_record::<sa::ServiceRecord>(mad);
    let (notice, issuer) = sa::notice(mad.data());
    sa::set_notice(mad.data_mut(), &notice, issuer);
}

fn cm_message<T: cm::Message>(mad: &mut Cm) {
    let value: T = mad.message();
    mad.set_message(&value);
}

pub fn cm_messages(mad: &mut Cm, private: &[u8]) -> u32 {
    cm_message::<cm::Req>(mad);
    cm_message::<cm::Mra>(mad);
    cm_message::<cm::Rej>(mad);
    cm_message::<cm::Rep>(mad);
    cm_message::<cm::Rtu>(mad);
    cm_message::<cm::Dreq>(mad);
    cm_message::<cm::Drep>(mad);
    cm_message::<cm::SidrReq>(mad);
    cm_message::<cm::SidrRep>(mad);
    cm_message::<cm::Lap>(mad);
    cm_message::<cm::Apr>(mad);
    mad.set_private_data(private);
    mad.local_comm_id() ^ mad.remote_comm_id()
}

fn trap<T: TrapDetails>(details: &mut [u8; DETAILS_LEN]) {
    *details = T::parse(details).emit();
}

pub fn traps(details: &mut [u8; DETAILS_LEN], path: &[u8]) {
    trap::<smp::trap::LinkStateChange>(details);
    trap::<smp::trap::LinkErrors>(details);
    trap::<smp::trap::CapabilityChange>(details);
    trap::<smp::trap::SystemImageGuidChange>(details);
    trap::<smp::trap::BadPKey>(details);
    trap::<smp::trap::BadQKey>(details);
    trap::<smp::trap::BadPKeySwitch>(details);
    *details = smp::trap::BadMKey::parse(details).emit_with_path(path);
}

/// A fabric key whose code the optimiser cannot see through.
pub struct OpaqueKey(u8);

impl Mac for OpaqueKey {
    #[inline(never)]
    fn tag(&self, covered: &[u8]) -> [u8; TAG_LEN] {
        [covered.len() as u8 ^ self.0; TAG_LEN]
    }

    #[inline(never)]
    fn verify(&self, covered: &[u8], tag: &[u8; TAG_LEN]) -> bool {
        self.tag(covered) == *tag
    }
}

pub fn hear(
    line: &mut Line,
    datagram: &[u8],
    key: Option<&OpaqueKey>,
    to: Destination,
    now: Instant,
) -> Result<Heard, Fault> {
    line.take(datagram, key, to, true, now)
}

pub fn say(
    message: &Message,
    key: Option<&OpaqueKey>,
    (to, far): (SocketAddr, SocketAddr),
    buf: &mut [u8],
) -> Result<usize, WireError> {
    message.emit(1, key, Destination::new(to, far), buf)
}
