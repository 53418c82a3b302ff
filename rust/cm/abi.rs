// SPDX-License-Identifier: GPL-2.0

//! What programs say and hear: `include/uapi/rdma/sib_cm.h`, which explains the members.

use wire::mad::cm::Path as WirePath;
use wire::{
    Gid,
    Lid,
    Sl, //
};
use zerocopy_derive::{
    FromBytes,
    Immutable,
    IntoBytes,
    KnownLayout, //
};

/// Declares structures as the header has them.
macro_rules! layouts {
    ($($(#[$doc:meta])* struct $name:ident [$size:literal] { $($field:ident: $ty:ty,)* })+) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
            #[repr(C)]
            pub(crate) struct $name {
                $(pub(crate) $field: $ty,)*
            }

            const _: () = assert!(core::mem::size_of::<$name>() == $size);
        )+
    };
}

layouts! {
    /// `struct sib_cm_path`
    struct Path [48] {
        local_gid: [u8; 16],
        remote_gid: [u8; 16],
        local_lid: u16,
        remote_lid: u16,
        flow_label: u32,
        traffic_class: u8,
        hop_limit: u8,
        rate: u8,
        sl: u8,
        subnet_local: u8,
        ack_timeout: u8,
        reserved: [u8; 2],
    }

    /// `struct sib_cm_create_id`
    struct CreateId [24] {
        uid: u64,
        guid: u64,
        id: u32,
        reserved: u32,
    }

    /// `struct sib_cm_destroy_id`
    struct Id [8] {
        id: u32,
        reserved: u32,
    }

    /// `struct sib_cm_attr_id`
    struct AttrId [128] {
        id: u32,
        state: u32,
        service_id: u64,
        local_comm_id: u32,
        remote_comm_id: u32,
        remote_qpn: u32,
        has_alternate: u32,
        primary: Path,
        alternate: Path,
    }

    /// `struct sib_cm_listen`
    struct Listen [16] {
        service_id: u64,
        id: u32,
        kind: u32,
    }

    /// `struct sib_cm_send_req`
    struct SendReq [232] {
        service_id: u64,
        id: u32,
        qpn: u32,
        starting_psn: u32,
        pkey: u16,
        service_type: u8,
        path_mtu: u8,
        responder_resources: u8,
        initiator_depth: u8,
        remote_response_timeout: u8,
        local_response_timeout: u8,
        retry_count: u8,
        rnr_retry_count: u8,
        max_cm_retries: u8,
        flow_control: u8,
        srq: u8,
        has_alternate: u8,
        private_data_len: u8,
        reserved: [u8; 5],
        primary: Path,
        alternate: Path,
        private_data: [u8; 96],
    }

    /// `struct sib_cm_send_rep`
    struct SendRep [224] {
        id: u32,
        qpn: u32,
        starting_psn: u32,
        responder_resources: u8,
        initiator_depth: u8,
        target_ack_delay: u8,
        failover_accepted: u8,
        flow_control: u8,
        rnr_retry_count: u8,
        srq: u8,
        private_data_len: u8,
        reserved: [u8; 4],
        private_data: [u8; 200],
    }

    /// `struct sib_cm_send`
    struct Send [232] {
        id: u32,
        private_data_len: u32,
        private_data: [u8; 224],
    }

    /// `struct sib_cm_send_rej`
    struct SendRej [232] {
        id: u32,
        reason: u16,
        info_len: u8,
        private_data_len: u8,
        info: [u8; 72],
        private_data: [u8; 152],
    }

    /// `struct sib_cm_send_mra`
    struct SendMra [232] {
        id: u32,
        service_timeout: u8,
        private_data_len: u8,
        reserved: [u8; 2],
        private_data: [u8; 224],
    }

    /// `struct sib_cm_send_lap`
    struct SendLap [224] {
        id: u32,
        response_timeout: u8,
        retries: u8,
        private_data_len: u8,
        reserved: u8,
        path: Path,
        private_data: [u8; 168],
    }

    /// `struct sib_cm_send_apr`
    struct SendApr [240] {
        id: u32,
        generation: u32,
        status: u8,
        info_len: u8,
        private_data_len: u8,
        reserved: [u8; 5],
        info: [u8; 72],
        private_data: [u8; 152],
    }

    /// `struct sib_cm_send_sidr_req`
    struct SendSidrReq [288] {
        service_id: u64,
        id: u32,
        pkey: u16,
        response_timeout: u8,
        retries: u8,
        private_data_len: u8,
        reserved: [u8; 7],
        path: Path,
        private_data: [u8; 216],
    }

    /// `struct sib_cm_send_sidr_rep`
    struct SendSidrRep [224] {
        id: u32,
        qpn: u32,
        qkey: u32,
        status: u8,
        info_len: u8,
        private_data_len: u8,
        reserved: u8,
        info: [u8; 72],
        private_data: [u8; 136],
    }

    /// `struct sib_cm_notify`
    struct Notify [8] {
        id: u32,
        fact: u32,
    }

    /// `struct ib_uverbs_ah_attr`
    struct AhAttr [32] {
        dgid: [u8; 16],
        flow_label: u32,
        sgid_index: u8,
        hop_limit: u8,
        traffic_class: u8,
        grh_reserved: u8,
        dlid: u16,
        sl: u8,
        src_path_bits: u8,
        static_rate: u8,
        is_global: u8,
        port_num: u8,
        reserved: u8,
    }

    /// `struct ib_uverbs_qp_attr`
    struct QpAttr [144] {
        mask: u32,
        qp_state: u32,
        cur_qp_state: u32,
        path_mtu: u32,
        path_mig_state: u32,
        qkey: u32,
        rq_psn: u32,
        sq_psn: u32,
        dest_qp_num: u32,
        qp_access_flags: u32,
        ah: AhAttr,
        alt_ah: AhAttr,
        caps: [u32; 5],
        pkey_index: u16,
        alt_pkey_index: u16,
        en_sqd_async_notify: u8,
        sq_draining: u8,
        max_rd_atomic: u8,
        max_dest_rd_atomic: u8,
        min_rnr_timer: u8,
        port_num: u8,
        timeout: u8,
        retry_cnt: u8,
        rnr_retry: u8,
        alt_port_num: u8,
        alt_timeout: u8,
        reserved: [u8; 5],
    }

    /// `struct sib_cm_init_qp_attr`
    struct InitQpAttr [152] {
        id: u32,
        reserved: u32,
        attr: QpAttr,
    }

    /// `struct sib_cm_event`. What is called `starting_psn` is the Q_Key of a SIDR_REP.
    struct Event [448] {
        uid: u64,
        id: u32,
        event_type: u32,
        listener: u32,
        status: u32,
        generation: u32,
        qpn: u32,
        starting_psn: u32,
        pkey: u16,
        service_type: u8,
        path_mtu: u8,
        responder_resources: u8,
        initiator_depth: u8,
        retry_count: u8,
        rnr_retry_count: u8,
        target_ack_delay: u8,
        failover_accepted: u8,
        flow_control: u8,
        srq: u8,
        local_response_timeout: u8,
        remote_response_timeout: u8,
        has_alternate: u8,
        info_len: u8,
        private_data_len: u8,
        reserved: [u8; 3],
        primary: Path,
        alternate: Path,
        info: [u8; 72],
        private_data: [u8; 224],
    }
}

/// What is about an identifier.
pub(crate) trait Named {
    /// Its number.
    fn id(&self) -> u32;
}

/// Implements [`Named`] by the member `id`.
macro_rules! named {
    ($($name:ident)+) => {
        $(
            impl Named for $name {
                fn id(&self) -> u32 {
                    self.id
                }
            }
        )+
    };
}

named! {
    AttrId Listen Notify SendReq SendRep Send SendRej SendMra SendLap SendApr SendSidrReq SendSidrRep InitQpAttr
}

impl Path {
    /// No path.
    pub(crate) const NONE: Self = Self {
        local_gid: [0; 16],
        remote_gid: [0; 16],
        local_lid: 0,
        remote_lid: 0,
        flow_label: 0,
        traffic_class: 0,
        hop_limit: 0,
        rate: 0,
        sl: 0,
        subnet_local: 0,
        ack_timeout: 0,
        reserved: [0; 2],
    };

    /// What a program is told of `path`.
    pub(crate) fn new(path: &WirePath) -> Self {
        Self {
            local_gid: path.local_gid.get(),
            remote_gid: path.remote_gid.get(),
            local_lid: path.local_lid.get(),
            remote_lid: path.remote_lid.get(),
            flow_label: path.flow_label,
            traffic_class: path.traffic_class,
            hop_limit: path.hop_limit,
            rate: path.rate,
            sl: path.sl.get(),
            subnet_local: path.subnet_local.into(),
            ack_timeout: path.ack_timeout,
            reserved: [0; 2],
        }
    }

    /// What a program means; `None` if it cannot be.
    pub(crate) fn get(&self) -> Option<WirePath> {
        /// The fields of the messages have this many bits.
        const FLOW_LABELS: u32 = 1 << 20;
        const RATES: u8 = 1 << 6;
        const SLS: u8 = 1 << 4;
        const TIMEOUTS: u8 = 1 << 5;

        let fits = self.flow_label < FLOW_LABELS
            && self.rate < RATES
            && self.sl < SLS
            && self.ack_timeout < TIMEOUTS
            && self.subnet_local <= 1
            && self.reserved == [0; 2];
        fits.then_some(WirePath {
            local_lid: Lid::new(self.local_lid),
            remote_lid: Lid::new(self.remote_lid),
            local_gid: Gid::new(self.local_gid),
            remote_gid: Gid::new(self.remote_gid),
            flow_label: self.flow_label,
            traffic_class: self.traffic_class,
            hop_limit: self.hop_limit,
            rate: self.rate,
            sl: Sl::new(self.sl),
            subnet_local: self.subnet_local == 1,
            ack_timeout: self.ack_timeout,
        })
    }
}

/// `enum sib_cm_state`
#[derive(Clone, Copy)]
#[repr(u32)]
pub(crate) enum State {
    Idle,
    Listen,
    Connecting,
    Established,
    Disconnecting,
    Timewait,
    Resolving,
}

/// `enum sib_cm_kind`
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub(crate) enum ServiceKind {
    Connections,
    Datagrams,
}

impl ServiceKind {
    /// What a program means; `None` if it cannot be.
    pub(crate) fn new(kind: u32) -> Option<Self> {
        [Self::Connections, Self::Datagrams]
            .into_iter()
            .find(|it| *it as u32 == kind)
    }
}

/// `enum sib_cm_fact`
pub(crate) mod fact {
    pub(crate) const COMM_EST: u32 = 0;
    pub(crate) const PATH_MIG: u32 = 1;
    pub(crate) const PATH_CONFIRMED: u32 = 2;
    pub(crate) const PATH_UNLOADED: u32 = 3;
}

/// `enum sib_cm_event_type`
#[derive(Clone, Copy)]
#[repr(u32)]
pub(crate) enum EventType {
    ReqReceived,
    RepReceived,
    RtuReceived,
    MraReceived,
    RejReceived,
    DreqReceived,
    DrepReceived,
    ReqError,
    RepError,
    DreqError,
    TimewaitExit,
    Established,
    LapReceived,
    AprReceived,
    LapError,
    Migrated,
    Removed,
    SidrReqReceived,
    SidrRepReceived,
    SidrReqError,
    Stale,
}

impl Event {
    /// Whether a peer asks for something, for which there is a new identifier.
    pub(crate) fn is_request(&self) -> bool {
        self.event_type == EventType::ReqReceived as u32
            || self.event_type == EventType::SidrReqReceived as u32
    }

    /// Whether a peer offers a path.
    pub(crate) fn is_offer(&self) -> bool {
        self.event_type == EventType::LapReceived as u32
    }
}

/// The first byte of the numbers of all ioctls.
const MAGIC: u32 = 0xcb;

const fn iow<T>(number: u32) -> u32 {
    kernel::ioctl::_IOW::<T>(MAGIC, number)
}

const fn iowr<T>(number: u32) -> u32 {
    kernel::ioctl::_IOWR::<T>(MAGIC, number)
}

pub(crate) const CREATE_ID: u32 = iowr::<CreateId>(0);
pub(crate) const DESTROY_ID: u32 = iow::<Id>(1);
pub(crate) const ATTR_ID: u32 = iowr::<AttrId>(2);
pub(crate) const LISTEN: u32 = iow::<Listen>(3);
pub(crate) const NOTIFY: u32 = iow::<Notify>(4);
pub(crate) const SEND_REQ: u32 = iow::<SendReq>(5);
pub(crate) const SEND_REP: u32 = iow::<SendRep>(6);
pub(crate) const SEND_RTU: u32 = iow::<Send>(7);
pub(crate) const SEND_REJ: u32 = iow::<SendRej>(8);
pub(crate) const SEND_MRA: u32 = iow::<SendMra>(9);
pub(crate) const SEND_DREQ: u32 = iow::<Send>(10);
pub(crate) const SEND_DREP: u32 = iow::<Send>(11);
pub(crate) const SEND_LAP: u32 = iow::<SendLap>(12);
pub(crate) const SEND_APR: u32 = iow::<SendApr>(13);
pub(crate) const GET_EVENT: u32 = kernel::ioctl::_IOR::<Event>(MAGIC, 14);
pub(crate) const SEND_SIDR_REQ: u32 = iow::<SendSidrReq>(15);
pub(crate) const SEND_SIDR_REP: u32 = iow::<SendSidrRep>(16);
pub(crate) const INIT_QP_ATTR: u32 = iowr::<InitQpAttr>(17);
