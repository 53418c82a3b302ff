// SPDX-License-Identifier: GPL-2.0

//! Any 256 bytes as a management datagram.

#![no_main]

use libfuzzer_sys::fuzz_target;
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
    Smp, //
};
use wire::mad::{
    ClassPortInfo,
    Notice,
    MAD_LEN, //
};

fn smp_attribute<T: smp::Attribute + PartialEq + core::fmt::Debug>(smp: &Smp) {
    let value: T = smp.attribute();
    let mut copy = smp.clone();
    copy.set_attribute(&value);
    assert_eq!(copy.attribute::<T>(), value);
}

fn perf_attribute<T: perf::Attribute + PartialEq + core::fmt::Debug>(mad: &PerfMad) {
    let value: T = mad.attribute();
    let mut copy = mad.clone();
    copy.set_attribute(&value);
    assert_eq!(copy.attribute::<T>(), value);
}

fn sa_record<T: sa::Record + PartialEq + core::fmt::Debug>(mad: &Sa) {
    let value: T = mad.record();
    let mut copy = mad.clone();
    copy.set_record(&value);
    assert_eq!(copy.record::<T>(), value);
}

fn cm_message<T: cm::Message + PartialEq + core::fmt::Debug>(mad: &Cm) {
    let value: T = mad.message();
    let mut copy = mad.clone();
    copy.set_message(&value);
    assert_eq!(copy.message::<T>(), value);
    assert_eq!(copy.private_data(), mad.private_data());
}

fuzz_target!(|bytes: [u8; MAD_LEN]| {
    let smp = Smp::from_bytes(&bytes);
    let _ = smp.initial_path(smp.hop_ptr());
    let _ = smp.return_path(smp.hop_ptr().wrapping_add(1));
    smp_attribute::<smp::NodeInfo>(smp);
    smp_attribute::<smp::SwitchInfo>(smp);
    smp_attribute::<smp::PortInfo>(smp);
    smp_attribute::<smp::GuidInfo>(smp);
    smp_attribute::<smp::PKeyTable>(smp);
    smp_attribute::<smp::SlToVl>(smp);
    smp_attribute::<smp::VlArb>(smp);
    smp_attribute::<smp::MulticastForwardingTable>(smp);
    smp_attribute::<smp::SmInfo>(smp);
    smp_attribute::<Notice>(smp);

    let mad = PerfMad::from_bytes(&bytes);
    perf_attribute::<ClassPortInfo>(mad);
    perf_attribute::<perf::PortCounters>(mad);
    perf_attribute::<perf::PortCountersExtended>(mad);

    let mad = Sa::from_bytes(&bytes);
    let _ = mad.rmpp().is_active();
    sa_record::<ClassPortInfo>(mad);
    sa_record::<sa::InformInfo>(mad);
    sa_record::<sa::McMemberRecord>(mad);
    sa_record::<sa::NodeRecord>(mad);
    sa_record::<sa::PathRecord>(mad);
    sa_record::<sa::PortInfoRecord>(mad);
    sa_record::<sa::ServiceRecord>(mad);

    let mad = Cm::from_bytes(&bytes);
    match cm::Kind::from_attr(mad.attr_id()) {
        Some(cm::Kind::Req) => cm_message::<cm::Req>(mad),
        Some(cm::Kind::Mra) => cm_message::<cm::Mra>(mad),
        Some(cm::Kind::Rej) => cm_message::<cm::Rej>(mad),
        Some(cm::Kind::Rep) => cm_message::<cm::Rep>(mad),
        Some(cm::Kind::Rtu) => cm_message::<cm::Rtu>(mad),
        Some(cm::Kind::Dreq) => cm_message::<cm::Dreq>(mad),
        Some(cm::Kind::Drep) => cm_message::<cm::Drep>(mad),
        Some(cm::Kind::SidrReq) => cm_message::<cm::SidrReq>(mad),
        Some(cm::Kind::SidrRep) => cm_message::<cm::SidrRep>(mad),
        Some(cm::Kind::Lap) => cm_message::<cm::Lap>(mad),
        Some(cm::Kind::Apr) => cm_message::<cm::Apr>(mad),
        None => assert!(mad.private_data().is_empty()),
    }
});
