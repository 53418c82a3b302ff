// SPDX-License-Identifier: GPL-2.0

//! What orders carry. Fields that are out of their range are refused with `EINVAL` by the order.

use crate::path::Path;
use kernel::prelude::*;
use pin_init::zeroed;
use sib_bindings as bindings;

/// 268 ms.
const RESPONSE_TIMEOUT: u8 = 16;

/// How often something is repeated, at most.
const RETRIES: u8 = 7;

/// Copies private data or additional information to its field, and returns the length.
fn put(field: &mut [u8], data: &[u8]) -> Result<u8> {
    let len = u8::try_from(data.len()).map_err(|_| EINVAL)?;
    for (to, from) in field
        .get_mut(..data.len())
        .ok_or(EINVAL)?
        .iter_mut()
        .zip(data)
    {
        *to = *from;
    }
    Ok(len)
}

/// What a listener waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// REQ.
    Connections,
    /// SIDR_REQ: questions for the queue pair of a service of datagrams.
    Datagrams,
}

impl Kind {
    pub(crate) fn raw(self) -> bindings::sib_cm_kind {
        match self {
            Self::Connections => bindings::sib_cm_kind_SIB_CM_CONNECTIONS,
            Self::Datagrams => bindings::sib_cm_kind_SIB_CM_DATAGRAMS,
        }
    }
}

/// The transport of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceType {
    /// Reliable.
    Rc,
    /// Unreliable.
    Uc,
}

impl ServiceType {
    fn raw(self) -> u8 {
        match self {
            Self::Rc => 0,
            Self::Uc => 1,
        }
    }

    pub(crate) fn told(raw: u8) -> Self {
        if raw == Self::Uc.raw() {
            Self::Uc
        } else {
            Self::Rc
        }
    }
}

/// The payload of a packet, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mtu {
    /// 256
    B256,
    /// 512
    B512,
    /// 1024
    B1024,
    /// 2048
    B2048,
    /// 4096
    B4096,
}

impl Mtu {
    fn raw(self) -> u8 {
        match self {
            Self::B256 => 1,
            Self::B512 => 2,
            Self::B1024 => 3,
            Self::B2048 => 4,
            Self::B4096 => 5,
        }
    }
}

/// What becomes of the alternate path of a REQ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failover {
    /// It is accepted.
    Accepted,
    /// Alternate paths are not supported.
    Unsupported,
    /// This one is rejected; LAP may offer another.
    Rejected,
}

impl Failover {
    fn raw(self) -> u8 {
        match self {
            Self::Accepted => 0,
            Self::Unsupported => 1,
            Self::Rejected => 2,
        }
    }

    pub(crate) fn told(raw: u8) -> Self {
        [Self::Accepted, Self::Rejected]
            .into_iter()
            .find(|it| it.raw() == raw)
            .unwrap_or(Self::Unsupported)
    }
}

/// Reasons of REJ; `Documentation/cm.rst` has all.
pub mod reason {
    /// No queue pair is to be had.
    pub const NO_QP: u16 = 1;
    /// Some resource is not to be had.
    pub const NO_RESOURCES: u16 = 3;
    /// An answer has not come in time.
    pub const TIMEOUT: u16 = 4;
    /// The request is not supported.
    pub const UNSUPPORTED: u16 = 5;
    /// There is no such service.
    pub const INVALID_SERVICE_ID: u16 = 8;
    /// Only one side still knows the connection.
    pub const STALE: u16 = 10;
    /// The consumer says no: private data may tell why.
    pub const CONSUMER: u16 = 28;
}

/// Statuses of APR; `Documentation/cm.rst` has all.
pub mod ap_status {
    /// The path is loaded.
    pub const LOADED: u8 = 0;
    /// Alternate paths are not supported.
    pub const UNSUPPORTED: u8 = 2;
    /// The path is rejected.
    pub const REJECTED: u8 = 3;
}

/// Asks for a connection.
#[derive(Clone, Copy, Debug)]
pub struct Req<'a> {
    /// Who is asked.
    pub service_id: u64,
    /// The queue pair of this side.
    pub qpn: u32,
    /// Its first PSN, 24 bits.
    pub starting_psn: u32,
    /// The partition key.
    pub pkey: u16,
    /// Of the connection.
    pub service_type: ServiceType,
    /// Of the path.
    pub path_mtu: Mtu,
    /// READs and atomic operations that this side takes at a time.
    pub responder_resources: u8,
    /// READs and atomic operations that this side has under way at a time.
    pub initiator_depth: u8,
    /// How long the peer may take for an answer: 4.096 us * 2^code, 0 to 31.
    pub remote_response_timeout: u8,
    /// How long this side takes for one.
    pub local_response_timeout: u8,
    /// Of the queue pairs, 0 to 7.
    pub retry_count: u8,
    /// Of the queue pairs, 0 to 7, which is without end.
    pub rnr_retry_count: u8,
    /// How often messages of communication management are repeated, 0 to 15.
    pub max_cm_retries: u8,
    /// Whether this side has end-to-end flow control.
    pub flow_control: bool,
    /// Whether the queue pair has a shared receive queue.
    pub srq: bool,
    /// The path, which begins at a port of the identifier's HCA.
    pub primary: Path,
    /// The alternate path.
    pub alternate: Option<Path>,
    /// Up to 92 bytes.
    pub private_data: &'a [u8],
}

impl Req<'_> {
    /// For a reliable connection of the default partition, by packets of 4096 bytes, with four READs or atomic
    /// operations each way, seven repetitions, and answers within 268 ms.
    pub fn new(service_id: u64, qpn: u32, primary: Path) -> Self {
        Self {
            service_id,
            qpn,
            starting_psn: 0,
            pkey: 0xffff,
            service_type: ServiceType::Rc,
            path_mtu: Mtu::B4096,
            responder_resources: 4,
            initiator_depth: 4,
            remote_response_timeout: RESPONSE_TIMEOUT,
            local_response_timeout: RESPONSE_TIMEOUT,
            retry_count: RETRIES,
            rnr_retry_count: RETRIES,
            max_cm_retries: RETRIES,
            flow_control: false,
            srq: false,
            primary,
            alternate: None,
            private_data: &[],
        }
    }

    pub(crate) fn raw(&self) -> Result<bindings::sib_cm_send_req> {
        let mut raw = bindings::sib_cm_send_req {
            service_id: self.service_id,
            qpn: self.qpn,
            starting_psn: self.starting_psn,
            pkey: self.pkey,
            service_type: self.service_type.raw(),
            path_mtu: self.path_mtu.raw(),
            responder_resources: self.responder_resources,
            initiator_depth: self.initiator_depth,
            remote_response_timeout: self.remote_response_timeout,
            local_response_timeout: self.local_response_timeout,
            retry_count: self.retry_count,
            rnr_retry_count: self.rnr_retry_count,
            max_cm_retries: self.max_cm_retries,
            flow_control: self.flow_control.into(),
            srq: self.srq.into(),
            has_alternate: self.alternate.is_some().into(),
            primary: self.primary.raw(),
            alternate: self.alternate.as_ref().map_or(zeroed(), Path::raw),
            ..zeroed()
        };
        raw.private_data_len = put(&mut raw.private_data, self.private_data)?;
        Ok(raw)
    }
}

/// Accepts a request.
#[derive(Clone, Copy, Debug)]
pub struct Rep<'a> {
    /// The queue pair of this side.
    pub qpn: u32,
    /// Its first PSN, 24 bits.
    pub starting_psn: u32,
    /// READs and atomic operations that this side takes at a time.
    pub responder_resources: u8,
    /// READs and atomic operations that this side has under way at a time.
    pub initiator_depth: u8,
    /// How long the HCA takes to acknowledge: 4.096 us * 2^code, 0 to 31.
    pub target_ack_delay: u8,
    /// What becomes of the alternate path of REQ, if it has one.
    pub failover: Failover,
    /// Whether this side has end-to-end flow control.
    pub flow_control: bool,
    /// 0 to 7, which is without end.
    pub rnr_retry_count: u8,
    /// Whether the queue pair has a shared receive queue.
    pub srq: bool,
    /// Up to 196 bytes.
    pub private_data: &'a [u8],
}

impl Rep<'_> {
    /// With four READs or atomic operations each way, and the alternate path accepted.
    pub fn new(qpn: u32, starting_psn: u32) -> Self {
        Self {
            qpn,
            starting_psn,
            responder_resources: 4,
            initiator_depth: 4,
            target_ack_delay: 0,
            failover: Failover::Accepted,
            flow_control: false,
            rnr_retry_count: RETRIES,
            srq: false,
            private_data: &[],
        }
    }

    pub(crate) fn raw(&self) -> Result<bindings::sib_cm_send_rep> {
        let mut raw = bindings::sib_cm_send_rep {
            qpn: self.qpn,
            starting_psn: self.starting_psn,
            responder_resources: self.responder_resources,
            initiator_depth: self.initiator_depth,
            target_ack_delay: self.target_ack_delay,
            failover_accepted: self.failover.raw(),
            flow_control: self.flow_control.into(),
            rnr_retry_count: self.rnr_retry_count,
            srq: self.srq.into(),
            ..zeroed()
        };
        raw.private_data_len = put(&mut raw.private_data, self.private_data)?;
        Ok(raw)
    }
}

/// Refuses a request or an answer.
#[derive(Clone, Copy, Debug)]
pub struct Rej<'a> {
    /// Why: one of [`reason`], or another of the IBA.
    pub reason: u16,
    /// About the reason, up to 72 bytes.
    pub info: &'a [u8],
    /// Up to 148 bytes.
    pub private_data: &'a [u8],
}

impl Rej<'_> {
    /// For a reason.
    pub fn new(reason: u16) -> Self {
        Self {
            reason,
            info: &[],
            private_data: &[],
        }
    }

    pub(crate) fn raw(&self) -> Result<bindings::sib_cm_send_rej> {
        let mut raw = bindings::sib_cm_send_rej {
            reason: self.reason,
            ..zeroed()
        };
        raw.info_len = put(&mut raw.info, self.info)?;
        raw.private_data_len = put(&mut raw.private_data, self.private_data)?;
        Ok(raw)
    }
}

/// Asks the peer for patience.
#[derive(Clone, Copy, Debug)]
pub struct Mra<'a> {
    /// How long the answer will take: 4.096 us * 2^code, 0 to 31. The peer is told of 21 at most, 8.6 s.
    pub service_timeout: u8,
    /// Up to 222 bytes.
    pub private_data: &'a [u8],
}

impl Mra<'_> {
    pub(crate) fn raw(&self) -> Result<bindings::sib_cm_send_mra> {
        let mut raw = bindings::sib_cm_send_mra {
            service_timeout: self.service_timeout,
            ..zeroed()
        };
        raw.private_data_len = put(&mut raw.private_data, self.private_data)?;
        Ok(raw)
    }
}

/// Offers an alternate path.
#[derive(Clone, Copy, Debug)]
pub struct Lap<'a> {
    /// The path, which begins at a port of the identifier's HCA.
    pub path: Path,
    /// How long the peer may take for an answer: 4.096 us * 2^code, 0 to 31.
    pub response_timeout: u8,
    /// How often it is repeated, as far as REQ allows that.
    pub retries: u8,
    /// Up to 168 bytes.
    pub private_data: &'a [u8],
}

impl Lap<'_> {
    /// With seven repetitions, and an answer within 268 ms.
    pub fn new(path: Path) -> Self {
        Self {
            path,
            response_timeout: RESPONSE_TIMEOUT,
            retries: RETRIES,
            private_data: &[],
        }
    }

    pub(crate) fn raw(&self) -> Result<bindings::sib_cm_send_lap> {
        let mut raw = bindings::sib_cm_send_lap {
            path: self.path.raw(),
            response_timeout: self.response_timeout,
            retries: self.retries,
            ..zeroed()
        };
        raw.private_data_len = put(&mut raw.private_data, self.private_data)?;
        Ok(raw)
    }
}

/// Answers the offer of an alternate path.
#[derive(Clone, Copy, Debug)]
pub struct Apr<'a> {
    /// Which LAP: what [`Event::LapReceived`](crate::Event::LapReceived) says.
    pub generation: u32,
    /// One of [`ap_status`], or another of the IBA.
    pub status: u8,
    /// About the status, up to 72 bytes.
    pub info: &'a [u8],
    /// Up to 148 bytes.
    pub private_data: &'a [u8],
}

impl Apr<'_> {
    /// An answer without further data.
    pub fn new(generation: u32, status: u8) -> Self {
        Self {
            generation,
            status,
            info: &[],
            private_data: &[],
        }
    }

    pub(crate) fn raw(&self) -> Result<bindings::sib_cm_send_apr> {
        let mut raw = bindings::sib_cm_send_apr {
            generation: self.generation,
            status: self.status,
            ..zeroed()
        };
        raw.info_len = put(&mut raw.info, self.info)?;
        raw.private_data_len = put(&mut raw.private_data, self.private_data)?;
        Ok(raw)
    }
}

/// Asks for the queue pair of a service of datagrams.
#[derive(Clone, Copy, Debug)]
pub struct SidrReq<'a> {
    /// Who is asked.
    pub service_id: u64,
    /// The partition key.
    pub pkey: u16,
    /// How long the peer may take for an answer: 4.096 us * 2^code, 0 to 31.
    pub response_timeout: u8,
    /// How often it is repeated.
    pub retries: u8,
    /// The path, which begins at a port of the identifier's HCA.
    pub path: Path,
    /// Up to 216 bytes.
    pub private_data: &'a [u8],
}

impl SidrReq<'_> {
    /// In the default partition, with seven repetitions, and an answer within 268 ms.
    pub fn new(service_id: u64, path: Path) -> Self {
        Self {
            service_id,
            pkey: 0xffff,
            response_timeout: RESPONSE_TIMEOUT,
            retries: RETRIES,
            path,
            private_data: &[],
        }
    }

    pub(crate) fn raw(&self) -> Result<bindings::sib_cm_send_sidr_req> {
        let mut raw = bindings::sib_cm_send_sidr_req {
            service_id: self.service_id,
            pkey: self.pkey,
            response_timeout: self.response_timeout,
            retries: self.retries,
            path: self.path.raw(),
            ..zeroed()
        };
        raw.private_data_len = put(&mut raw.private_data, self.private_data)?;
        Ok(raw)
    }
}

/// What the answer to a question for a queue pair is: `enum sib_cm_sidr_status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SidrStatus {
    /// Queue pair and Q_Key are valid.
    Valid,
    /// There is no such service.
    Unsupported,
    /// The consumer says no.
    Rejected,
    /// No queue pair is to be had.
    NoQp,
}

impl SidrStatus {
    fn raw(self) -> u8 {
        let status = match self {
            Self::Valid => bindings::sib_cm_sidr_status_SIB_CM_SIDR_VALID,
            Self::Unsupported => bindings::sib_cm_sidr_status_SIB_CM_SIDR_UNSUPPORTED,
            Self::Rejected => bindings::sib_cm_sidr_status_SIB_CM_SIDR_REJECTED,
            Self::NoQp => bindings::sib_cm_sidr_status_SIB_CM_SIDR_NO_QP,
        };
        status as u8
    }
}

/// Answers a question for a queue pair.
#[derive(Clone, Copy, Debug)]
pub struct SidrRep<'a> {
    /// What the answer is.
    pub status: SidrStatus,
    /// The queue pair, if the status is [`SidrStatus::Valid`].
    pub qpn: u32,
    /// Its Q_Key.
    pub qkey: u32,
    /// About the status, up to 72 bytes.
    pub info: &'a [u8],
    /// Up to 136 bytes.
    pub private_data: &'a [u8],
}

impl SidrRep<'_> {
    /// An answer without further data.
    pub fn new(status: SidrStatus, qpn: u32, qkey: u32) -> Self {
        Self {
            status,
            qpn,
            qkey,
            info: &[],
            private_data: &[],
        }
    }

    pub(crate) fn raw(&self) -> Result<bindings::sib_cm_send_sidr_rep> {
        let mut raw = bindings::sib_cm_send_sidr_rep {
            qpn: self.qpn,
            qkey: self.qkey,
            status: self.status.raw(),
            ..zeroed()
        };
        raw.info_len = put(&mut raw.info, self.info)?;
        raw.private_data_len = put(&mut raw.private_data, self.private_data)?;
        Ok(raw)
    }
}

/// What has become of a queue pair: `enum sib_cm_fact`. HCAs of sib tell of migrations themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fact {
    /// It has heard its peer: `IB_EVENT_COMM_EST`.
    CommEst,
    /// It has gone over to the alternate path: `IB_EVENT_PATH_MIG`.
    PathMig,
    /// The peer has been heard on the path that it has gone over to.
    PathConfirmed,
    /// The path of an APR has not been loaded after all.
    PathUnloaded,
}

impl Fact {
    pub(crate) fn raw(self) -> bindings::sib_cm_fact {
        match self {
            Self::CommEst => bindings::sib_cm_fact_SIB_CM_COMM_EST,
            Self::PathMig => bindings::sib_cm_fact_SIB_CM_PATH_MIG,
            Self::PathConfirmed => bindings::sib_cm_fact_SIB_CM_PATH_CONFIRMED,
            Self::PathUnloaded => bindings::sib_cm_fact_SIB_CM_PATH_UNLOADED,
        }
    }
}

/// What an identifier is at present: `enum sib_cm_state`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing.
    Idle,
    /// A listener.
    Listen,
    /// A connection that is not complete.
    Connecting,
    /// A connection.
    Established,
    /// A connection that ends.
    Disconnecting,
    /// What is left of one, until no packet of it can be under way.
    Timewait,
    /// A question for a queue pair.
    Resolving,
}

/// What there is to know of an identifier: `struct sib_cm_attr_id`.
#[derive(Clone, Copy, Debug)]
pub struct Status {
    /// What it is.
    pub state: State,
    /// The service, if there is one.
    pub service_id: u64,
    /// The communication ID of this side.
    pub local_comm_id: u32,
    /// That of the peer.
    pub remote_comm_id: u32,
    /// The peer's queue pair.
    pub remote_qpn: u32,
    /// The path in use.
    pub primary: Path,
    /// The alternate path, if there is one.
    pub alternate: Option<Path>,
}

impl Status {
    pub(crate) fn told(raw: &bindings::sib_cm_attr_id) -> Self {
        let state = match raw.state {
            bindings::sib_cm_state_SIB_CM_LISTEN => State::Listen,
            bindings::sib_cm_state_SIB_CM_CONNECTING => State::Connecting,
            bindings::sib_cm_state_SIB_CM_ESTABLISHED => State::Established,
            bindings::sib_cm_state_SIB_CM_DISCONNECTING => State::Disconnecting,
            bindings::sib_cm_state_SIB_CM_TIMEWAIT => State::Timewait,
            bindings::sib_cm_state_SIB_CM_RESOLVING => State::Resolving,
            _ => State::Idle,
        };
        Self {
            state,
            service_id: raw.service_id,
            local_comm_id: raw.local_comm_id,
            remote_comm_id: raw.remote_comm_id,
            remote_qpn: raw.remote_qpn,
            primary: Path::told(&raw.primary),
            alternate: Path::told_if(raw.has_alternate != 0, &raw.alternate),
        }
    }
}
