// SPDX-License-Identifier: GPL-2.0

//! What an HCA says of itself and its ports, and what clients of ib_core may change.

use crate::hca::Hca;
use crate::mcast;
use crate::mr;
use crate::payload;
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;
use proto::fabric::link::{
    LinkState,
    PhysState, //
};
use proto::fabric::sma::HcaPort;
use proto::fabric::tables::{
    GUIDS,
    PKEYS, //
};
use rdma::ib::{
    self,
    AtomicCap,
    DeviceAttr,
    DeviceCaps,
    OdpCaps,
    PortAttr,
    PortImmutable,
    PortModify, //
};
use rdma::sync::{
    Cx,
    Unlocked, //
};
use wire::{
    Gid,
    Mtu,
    PKey,
    PortNum, //
};

/// VendorID of all nodes: a locally administered OUI, since no vendor made them.
pub(crate) const VENDOR: u32 = 0x02_5349;
/// DeviceID of an HCA.
pub(crate) const HCA_DEVICE: u16 = 1;
/// DeviceID of a switch.
pub(crate) const SWITCH_DEVICE: u16 = 2;
/// Revision of all nodes.
pub(crate) const REVISION: u32 = 1;

/// Queue pairs of an HCA.
pub(crate) const MAX_QP: u32 = 16_000;
/// Work requests of a queue. Rings hold one less than a power of two, so that none of this size becomes larger.
pub(crate) const MAX_QP_WR: u32 = 32_767;
/// Completion queues of an HCA.
pub(crate) const MAX_CQ: u32 = 65_535;
/// Entries of a completion queue.
pub(crate) const MAX_CQE: u32 = 524_287;
/// Memory regions of an HCA, all of which one protection domain may have.
pub(crate) const MAX_MR: u32 = 65_535;
/// Memory windows of an HCA. In a protection domain they share the keys with memory regions.
pub(crate) const MAX_MW: u32 = 65_535;
/// Protection domains of an HCA.
pub(crate) const MAX_PD: u32 = 65_535;
/// Shared receive queues of an HCA.
pub(crate) const MAX_SRQ: u32 = 16_000;
/// Address handles of programs on an HCA.
pub(crate) const MAX_AH: u32 = 65_535;
/// RDMA READs and atomics of a queue pair, each way.
pub(crate) const MAX_RD_ATOMIC: u32 = 128;
/// The largest message of any transport.
pub(crate) const MAX_MESSAGE: u32 = 1 << 31;

/// LocalCAACKDelay: 4.096 us << 15, 134 ms. A busy host may take that long to run a softirq.
const ACK_DELAY: u8 = 15;

/// What datagrams do with memory whose pages come and go.
const UD_ODP: OdpCaps =
    OdpCaps::from_bits(OdpCaps::SEND.bits() | OdpCaps::RECV.bits() | OdpCaps::SRQ_RECV.bits());
/// The same of unreliable connections; reliable ones do more.
const UC_ODP: OdpCaps = OdpCaps::from_bits(UD_ODP.bits() | OdpCaps::WRITE.bits());

/// `query_device`.
pub(crate) fn device(hca: &Hca) -> DeviceAttr {
    DeviceAttr {
        fw_ver: 0,
        sys_image_guid: hca.guids.system_image().get(),
        max_mr_size: u64::MAX,
        page_size_cap: PAGE_SIZE as u64,
        vendor_id: VENDOR,
        vendor_part_id: u32::from(HCA_DEVICE),
        hw_ver: REVISION,
        caps: DeviceCaps::BAD_PKEY_CNTR
            | DeviceCaps::BAD_QKEY_CNTR
            | DeviceCaps::AUTO_PATH_MIG
            | DeviceCaps::CHANGE_PHY_PORT
            | DeviceCaps::CURR_QP_STATE_MOD
            | DeviceCaps::PORT_ACTIVE_EVENT
            | DeviceCaps::SYS_IMAGE_GUID
            | DeviceCaps::RC_RNR_NAK_GEN
            | DeviceCaps::SRQ_RESIZE
            | DeviceCaps::MEM_WINDOW
            | DeviceCaps::MEM_WINDOW_TYPE_2B
            | DeviceCaps::MEM_MGT_EXTENSIONS
            | DeviceCaps::FLUSH_GLOBAL
            | DeviceCaps::ATOMIC_WRITE,
        rc_odp: UC_ODP | OdpCaps::READ | OdpCaps::ATOMIC | OdpCaps::FLUSH | OdpCaps::ATOMIC_WRITE,
        uc_odp: UC_ODP,
        ud_odp: UD_ODP,
        max_qp: MAX_QP,
        max_qp_wr: MAX_QP_WR,
        max_send_sge: payload::MAX_SGE as u32,
        max_recv_sge: payload::MAX_SGE as u32,
        max_sge_rd: payload::MAX_SGE as u32,
        max_cq: MAX_CQ,
        max_cqe: MAX_CQE,
        max_mr: MAX_MR,
        max_pd: MAX_PD,
        max_qp_rd_atom: MAX_RD_ATOMIC,
        max_res_rd_atom: MAX_RD_ATOMIC.saturating_mul(MAX_QP),
        max_qp_init_rd_atom: MAX_RD_ATOMIC,
        atomic_cap: AtomicCap::Hca,
        max_mw: MAX_MW,
        max_mcast_grp: mcast::MAX_MEMBERS as u32,
        max_mcast_qp_attach: mcast::MAX_PER_GROUP as u32,
        max_total_mcast_qp_attach: mcast::MAX_MEMBERS as u32,
        max_ah: MAX_AH,
        max_srq: MAX_SRQ,
        max_srq_wr: MAX_QP_WR,
        max_srq_sge: payload::MAX_SGE as u32,
        max_fast_reg_page_list_len: mr::MAX_FAST_PAGES,
        max_pkeys: PKEYS as u16,
        local_ca_ack_delay: ACK_DELAY,
    }
}

/// A port number as ib_core gives it.
pub(crate) fn port_num(hca: &Hca, port: u32) -> Result<PortNum> {
    match u8::try_from(port) {
        Ok(number) if number >= 1 && number <= hca.ports() => Ok(PortNum::new(number)),
        _ => Err(EINVAL),
    }
}

/// The values of the counters of `port`, in the order of their names.
///
/// # Errors
///
/// `EINVAL` if there is no such port.
pub(crate) fn counters(hca: &Hca, port: PortNum, values: &mut [u64]) -> Result {
    let traffic = hca.traffic(port).ok_or(EINVAL)?;
    let counters = hca.counters(port).ok_or(EINVAL)?;
    counters.report(traffic.packets(), values);
    Ok(())
}

/// Reads something of a port under the lock.
fn of_port<T>(
    cx: &mut Cx<'_, Unlocked>,
    hca: &Hca,
    port: PortNum,
    read: impl FnOnce(&HcaPort) -> Option<T>,
) -> Result<T> {
    let guard = cx.lock(&hca.state);
    guard.sma.port(port).and_then(read).ok_or(EINVAL)
}

/// `query_port`.
pub(crate) fn port(cx: &mut Cx<'_, Unlocked>, hca: &Hca, port: PortNum) -> Result<PortAttr> {
    of_port(cx, hca, port, |port| {
        let attrs = port.attrs();
        let rate = attrs.rate();
        Some(PortAttr {
            subnet_prefix: attrs.gid_prefix(),
            state: state(attrs.state()),
            phys_state: phys_state(attrs.phys()),
            max_mtu: mtu(attrs.mtu_cap()),
            active_mtu: mtu(attrs.neighbor_mtu()),
            gid_tbl_len: GUIDS as u16,
            pkey_tbl_len: PKEYS as u16,
            port_cap_flags: attrs.cap_mask(),
            port_cap_flags2: 0,
            max_msg_sz: MAX_MESSAGE,
            bad_pkey_cntr: u32::from(attrs.pkey_violations()),
            qkey_viol_cntr: u32::from(attrs.qkey_violations()),
            lid: attrs.lid().get(),
            lmc: attrs.lmc(),
            sm_lid: attrs.sm_lid().get(),
            sm_sl: attrs.sm_sl().get(),
            max_vl_num: attrs.vl_cap(),
            subnet_timeout: attrs.subnet_timeout(),
            init_type_reply: attrs.init_type_reply(),
            active_width: rate.width,
            active_speed: u16::from(rate.speed),
        })
    })
}

/// `get_port_immutable`.
pub(crate) fn immutable() -> PortImmutable {
    PortImmutable {
        gid_tbl_len: GUIDS as u16,
        pkey_tbl_len: PKEYS as u16,
    }
}

/// `query_gid`: an entry of the GID table; zero for an empty one.
pub(crate) fn gid(cx: &mut Cx<'_, Unlocked>, hca: &Hca, port: PortNum, index: u32) -> Result<Gid> {
    let index = u16::try_from(index).map_err(|_| EINVAL)?;
    of_port(cx, hca, port, |port| port.gid(index))
}

/// `query_pkey`.
pub(crate) fn pkey(
    cx: &mut Cx<'_, Unlocked>,
    hca: &Hca,
    port: PortNum,
    index: u16,
) -> Result<PKey> {
    of_port(cx, hca, port, |port| port.pkeys().get(index))
}

/// The index of a P_Key in the table of a port.
pub(crate) fn pkey_index(
    cx: &mut Cx<'_, Unlocked>,
    hca: &Hca,
    port: PortNum,
    pkey: PKey,
) -> Result<u16> {
    of_port(cx, hca, port, |port| {
        (0..PKEYS as u16).find(|index| port.pkeys().get(*index) == Some(pkey))
    })
}

/// `modify_port`.
///
/// # Errors
///
/// `EOPNOTSUPP` for what is up to the subnet manager alone.
pub(crate) fn modify_port(
    cx: &mut Cx<'_, Unlocked>,
    hca: &Hca,
    port: PortNum,
    change: &PortModify,
) -> Result {
    if change.shutdown || change.init_type.is_some() {
        return Err(ib::unsupported());
    }
    let mut guard = cx.lock(&hca.state);
    let state = &mut *guard;
    state.sma.change_cap_mask(
        port,
        change.set_caps.bits(),
        change.clear_caps.bits(),
        crate::fabric::now(),
    );
    if change.reset_qkey_counter {
        state.sma.reset_qkey_violations(port);
    }
    hca.set_clock(state.orders, &state.sma);
    Ok(())
}

/// `modify_device`.
pub(crate) fn modify_device(cx: &mut Cx<'_, Unlocked>, hca: &Hca, description: &[u8; 64]) {
    let mut guard = cx.lock(&hca.state);
    let state = &mut *guard;
    state
        .sma
        .set_description(*description, crate::fabric::now());
    hca.set_clock(state.orders, &state.sma);
}

fn state(state: LinkState) -> ib::PortState {
    match state {
        LinkState::Down => ib::PortState::Down,
        LinkState::Init => ib::PortState::Init,
        LinkState::Armed => ib::PortState::Armed,
        LinkState::Active => ib::PortState::Active,
    }
}

fn phys_state(state: PhysState) -> ib::PhysState {
    match state {
        PhysState::Sleep => ib::PhysState::Sleep,
        PhysState::Polling => ib::PhysState::Polling,
        PhysState::Disabled => ib::PhysState::Disabled,
        PhysState::LinkUp => ib::PhysState::LinkUp,
    }
}

fn mtu(mtu: Mtu) -> ib::Mtu {
    match mtu {
        Mtu::B256 => ib::Mtu::Mtu256,
        Mtu::B512 => ib::Mtu::Mtu512,
        Mtu::B1024 => ib::Mtu::Mtu1024,
        Mtu::B2048 => ib::Mtu::Mtu2048,
        Mtu::B4096 => ib::Mtu::Mtu4096,
    }
}
