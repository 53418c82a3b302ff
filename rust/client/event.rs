// SPDX-License-Identifier: GPL-2.0

//! What a client is told: `struct sib_cm_event`.
//!
//! Private data have the length of their field in the message, padded with zeroes. Additional information has the length
//! that the message says.

use crate::order::{
    Failover,
    ServiceType, //
};
use crate::path::Path;
use sib_bindings as bindings;

/// A peer asks for a connection: REQ.
#[derive(Clone, Copy)]
pub struct ReqReceived<'a> {
    /// The queue pair of the peer, which is the first PSN's sender.
    pub qpn: u32,
    /// The first PSN of the peer.
    pub starting_psn: u32,
    /// The partition key.
    pub pkey: u16,
    /// Of the connection.
    pub service_type: ServiceType,
    /// As in `enum ib_mtu`, 1 to 5.
    pub path_mtu: u8,
    /// READs and atomic operations that the peer takes at a time.
    pub responder_resources: u8,
    /// READs and atomic operations that the peer has under way at a time.
    pub initiator_depth: u8,
    /// 0 to 7.
    pub retry_count: u8,
    /// 0 to 7, which is without end.
    pub rnr_retry_count: u8,
    /// Whether the peer has end-to-end flow control.
    pub flow_control: bool,
    /// Whether the peer's queue pair has a shared receive queue.
    pub srq: bool,
    /// How long the peer allows for an answer.
    pub remote_response_timeout: u8,
    /// How long the peer takes for one.
    pub local_response_timeout: u8,
    /// The path, from this side.
    pub primary: Path,
    /// The alternate path, if there is one.
    pub alternate: Option<Path>,
    /// 92 bytes.
    pub private_data: &'a [u8],
}

/// A peer asks for the queue pair of a service of datagrams: SIDR_REQ.
#[derive(Clone, Copy)]
pub struct SidrReqReceived<'a> {
    /// The partition key.
    pub pkey: u16,
    /// Where the question has come from: the remote end alone is set.
    pub path: Path,
    /// 216 bytes.
    pub private_data: &'a [u8],
}

/// What becomes of an identifier: `enum sib_cm_event_type`, but for requests of peers.
#[derive(Clone, Copy)]
pub enum Event<'a> {
    /// The peer accepts. The queue pair is to be set to RTR and RTS, and RTU to be sent.
    RepReceived {
        /// Its queue pair.
        qpn: u32,
        /// Its first PSN.
        starting_psn: u32,
        /// READs and atomic operations that it takes at a time.
        responder_resources: u8,
        /// READs and atomic operations that it has under way at a time.
        initiator_depth: u8,
        /// How long its HCA takes to acknowledge.
        target_ack_delay: u8,
        /// What becomes of the alternate path of REQ.
        failover: Failover,
        /// Whether its queue pair has a shared receive queue.
        srq: bool,
        /// 196 bytes.
        private_data: &'a [u8],
    },
    /// The connection is complete.
    RtuReceived {
        /// 224 bytes.
        private_data: &'a [u8],
    },
    /// The answer of the peer will take some time.
    MraReceived {
        /// How long.
        service_timeout: u8,
        /// 222 bytes.
        private_data: &'a [u8],
    },
    /// The peer refuses, or ends the connection.
    RejReceived {
        /// Why: one of [`reason`](crate::reason), or another of the IBA.
        reason: u16,
        /// About the reason, up to 72 bytes.
        info: &'a [u8],
        /// 148 bytes.
        private_data: &'a [u8],
    },
    /// The peer ends the connection. DREP is to be sent.
    DreqReceived {
        /// 220 bytes.
        private_data: &'a [u8],
    },
    /// The peer agrees to the end.
    DrepReceived {
        /// 224 bytes.
        private_data: &'a [u8],
    },
    /// No connection: the peer is silent (0), or has answered with a queue pair that has another connection here (10).
    ReqError {
        /// Which of the two.
        status: u32,
    },
    /// No connection: the peer has not answered REP.
    RepError,
    /// The peer has not agreed to the end, which comes all the same.
    DreqError,
    /// The connection is over. The queue pair may be used for another one.
    TimewaitExit,
    /// The queue pair has heard its peer, though RTU is lost.
    Established,
    /// The peer offers an alternate path, to be answered by [`Id::send_apr`](crate::Id::send_apr) after it has been
    /// loaded.
    LapReceived {
        /// Which LAP: for the answer.
        generation: u32,
        /// The path, from this side.
        path: Path,
        /// 168 bytes.
        private_data: &'a [u8],
    },
    /// The peer answers the offer of a path.
    AprReceived {
        /// 0 if it has loaded it: one of [`ap_status`](crate::ap_status), or another of the IBA.
        status: u8,
        /// About the status, up to 72 bytes.
        info: &'a [u8],
        /// The path.
        path: Path,
        /// 148 bytes.
        private_data: &'a [u8],
    },
    /// No answer to the offer of a path: the peer is silent (0), or the connection ends (1).
    LapError {
        /// Which of the two.
        status: u32,
    },
    /// The queue pair has gone over to its alternate path.
    Migrated {
        /// The path that is now in use.
        path: Path,
    },
    /// The HCA goes. All orders fail with `ENODEV`; the identifier is to be dropped.
    Removed,
    /// A peer answers the question for a queue pair.
    SidrRepReceived {
        /// One of `enum sib_cm_sidr_status`: 0 if queue pair and Q_Key are valid.
        status: u32,
        /// The queue pair.
        qpn: u32,
        /// Its Q_Key.
        qkey: u32,
        /// About the status, up to 72 bytes.
        info: &'a [u8],
        /// 136 bytes.
        private_data: &'a [u8],
    },
    /// The peer does not answer the question.
    SidrReqError,
    /// The peer does not know the connection any more, which ends.
    Stale,
}

/// The first bytes of a field, as many as the C side says.
fn first(field: &[u8], len: u8) -> &[u8] {
    field.get(..len.into()).unwrap_or(field)
}

fn private(raw: &bindings::sib_cm_event) -> &[u8] {
    first(&raw.private_data, raw.private_data_len)
}

fn info(raw: &bindings::sib_cm_event) -> &[u8] {
    first(&raw.info, raw.info_len)
}

/// What an event is.
pub(crate) enum Told<'a> {
    Req(ReqReceived<'a>),
    SidrReq(SidrReqReceived<'a>),
    Event(Event<'a>),
}

impl<'a> Told<'a> {
    /// `None` if this crate does not know it.
    pub(crate) fn new(raw: &'a bindings::sib_cm_event) -> Option<Self> {
        let path = || Path::told(&raw.alternate);
        let private_data = private(raw);
        // The Q_Key of a SIDR_REP is there as well.
        let starting_psn = raw.__bindgen_anon_1.bindgen_union_field;
        let status = raw.status;
        let event = match raw.type_ {
            bindings::sib_cm_event_type_SIB_CM_REQ_RECEIVED => {
                return Some(Self::Req(ReqReceived::new(raw)));
            }
            bindings::sib_cm_event_type_SIB_CM_SIDR_REQ_RECEIVED => {
                return Some(Self::SidrReq(SidrReqReceived {
                    pkey: raw.pkey,
                    path: Path::told(&raw.primary),
                    private_data,
                }));
            }
            bindings::sib_cm_event_type_SIB_CM_REP_RECEIVED => Event::RepReceived {
                qpn: raw.qpn,
                starting_psn,
                responder_resources: raw.responder_resources,
                initiator_depth: raw.initiator_depth,
                target_ack_delay: raw.target_ack_delay,
                failover: Failover::told(raw.failover_accepted),
                srq: raw.srq != 0,
                private_data,
            },
            bindings::sib_cm_event_type_SIB_CM_RTU_RECEIVED => Event::RtuReceived { private_data },
            bindings::sib_cm_event_type_SIB_CM_MRA_RECEIVED => Event::MraReceived {
                service_timeout: status as u8,
                private_data,
            },
            bindings::sib_cm_event_type_SIB_CM_REJ_RECEIVED => Event::RejReceived {
                reason: status as u16,
                info: info(raw),
                private_data,
            },
            bindings::sib_cm_event_type_SIB_CM_DREQ_RECEIVED => {
                Event::DreqReceived { private_data }
            }
            bindings::sib_cm_event_type_SIB_CM_DREP_RECEIVED => {
                Event::DrepReceived { private_data }
            }
            bindings::sib_cm_event_type_SIB_CM_REQ_ERROR => Event::ReqError { status },
            bindings::sib_cm_event_type_SIB_CM_REP_ERROR => Event::RepError,
            bindings::sib_cm_event_type_SIB_CM_DREQ_ERROR => Event::DreqError,
            bindings::sib_cm_event_type_SIB_CM_TIMEWAIT_EXIT => Event::TimewaitExit,
            bindings::sib_cm_event_type_SIB_CM_EV_ESTABLISHED => Event::Established,
            bindings::sib_cm_event_type_SIB_CM_LAP_RECEIVED => Event::LapReceived {
                generation: raw.generation,
                path: path(),
                private_data,
            },
            bindings::sib_cm_event_type_SIB_CM_APR_RECEIVED => Event::AprReceived {
                status: status as u8,
                info: info(raw),
                path: path(),
                private_data,
            },
            bindings::sib_cm_event_type_SIB_CM_LAP_ERROR => Event::LapError { status },
            bindings::sib_cm_event_type_SIB_CM_MIGRATED => Event::Migrated { path: path() },
            bindings::sib_cm_event_type_SIB_CM_REMOVED => Event::Removed,
            bindings::sib_cm_event_type_SIB_CM_SIDR_REP_RECEIVED => Event::SidrRepReceived {
                status,
                qpn: raw.qpn,
                qkey: starting_psn,
                info: info(raw),
                private_data,
            },
            bindings::sib_cm_event_type_SIB_CM_SIDR_REQ_ERROR => Event::SidrReqError,
            bindings::sib_cm_event_type_SIB_CM_STALE => Event::Stale,
            _ => return None,
        };
        Some(Self::Event(event))
    }
}

impl<'a> ReqReceived<'a> {
    fn new(raw: &'a bindings::sib_cm_event) -> Self {
        Self {
            qpn: raw.qpn,
            starting_psn: raw.__bindgen_anon_1.bindgen_union_field,
            pkey: raw.pkey,
            service_type: ServiceType::told(raw.service_type),
            path_mtu: raw.path_mtu,
            responder_resources: raw.responder_resources,
            initiator_depth: raw.initiator_depth,
            retry_count: raw.retry_count,
            rnr_retry_count: raw.rnr_retry_count,
            flow_control: raw.flow_control != 0,
            srq: raw.srq != 0,
            remote_response_timeout: raw.remote_response_timeout,
            local_response_timeout: raw.local_response_timeout,
            primary: Path::told(&raw.primary),
            alternate: Path::told_if(raw.has_alternate != 0, &raw.alternate),
            private_data: private(raw),
        }
    }
}
