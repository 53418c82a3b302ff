// SPDX-License-Identifier: GPL-2.0

//! Events as programs read them.

use crate::abi::{
    Event,
    EventType,
    Path, //
};
use proto::cm::{
    Conn,
    LapFailure,
    Notice,
    Resolution,
    SidrNotice, //
};
use wire::mad::cm::{
    reason,
    Apr,
    Cm,
    Mra,
    Path as WirePath,
    Rej,
    Rep,
    Req,
    SidrRep,
    SidrReq, //
};
use zerocopy::FromZeros;

/// An event without anything.
fn plain(event_type: EventType) -> Event {
    Event {
        event_type: event_type as u32,
        ..Event::new_zeroed()
    }
}

/// An event with the private data of the datagram that has led to it.
fn with_data(event_type: EventType, mad: Option<&Cm>) -> Event {
    let mut event = plain(event_type);
    if let Some(mad) = mad {
        for (to, from) in event.private_data.iter_mut().zip(mad.private_data()) {
            *to = *from;
            event.private_data_len = event.private_data_len.saturating_add(1);
        }
    }
    event
}

/// Copies the additional information.
fn set_info(event: &mut Event, info: &[u8; 72], len: u8) {
    event.info = *info;
    event.info_len = len.min(info.len() as u8);
}

/// The HCA of a listener is gone.
pub(crate) fn removed() -> Event {
    plain(EventType::Removed)
}

/// A REQ has come, for which the connection was made.
pub(crate) fn received(conn: &Conn, mad: &Cm) -> Event {
    let req: Req = mad.message();
    let alternate = conn.alternate();
    Event {
        qpn: req.local_qpn.get(),
        starting_psn: req.starting_psn.get(),
        pkey: req.pkey.get(),
        service_type: req.transport_service_type,
        path_mtu: req.path_mtu,
        responder_resources: req.responder_resources,
        initiator_depth: req.initiator_depth,
        retry_count: req.retry_count,
        rnr_retry_count: req.rnr_retry_count,
        flow_control: req.end_to_end_flow_control.into(),
        srq: req.srq.into(),
        local_response_timeout: req.local_cm_response_timeout,
        remote_response_timeout: req.remote_cm_response_timeout,
        has_alternate: alternate.is_some().into(),
        primary: Path::new(conn.primary()),
        alternate: alternate.map_or(Path::NONE, Path::new),
        ..with_data(EventType::ReqReceived, Some(mad))
    }
}

/// A REP has come.
fn replied(conn: &Conn, mad: Option<&Cm>) -> Event {
    let mut event = with_data(EventType::RepReceived, mad);
    if let Some(mad) = mad {
        let rep: Rep = mad.message();
        event.qpn = rep.local_qpn.get();
        event.starting_psn = rep.starting_psn.get();
        event.responder_resources = rep.responder_resources;
        event.initiator_depth = rep.initiator_depth;
        event.target_ack_delay = rep.target_ack_delay;
        event.failover_accepted = rep.failover_accepted;
        event.flow_control = rep.end_to_end_flow_control.into();
        event.rnr_retry_count = rep.rnr_retry_count;
        event.srq = rep.srq.into();
    }
    event.has_alternate = conn.alternate().is_some().into();
    event
}

/// An event about a path.
fn of_path(mut event: Event, path: &WirePath) -> Event {
    event.alternate = Path::new(path);
    event
}

/// What the consumer is told; `mad` is the datagram that has led to it, if one has.
pub(crate) fn notice(conn: &Conn, notice: Notice, mad: Option<&Cm>) -> Event {
    match notice {
        Notice::ReqReceived => {
            mad.map_or_else(|| plain(EventType::ReqReceived), |mad| received(conn, mad))
        }
        Notice::RepReceived => replied(conn, mad),
        Notice::RtuReceived => with_data(EventType::RtuReceived, mad),
        Notice::MraReceived => {
            let mut event = with_data(EventType::MraReceived, mad);
            event.status = mad.map_or(0, |mad| mad.message::<Mra>().service_timeout.into());
            event
        }
        Notice::RejReceived => {
            let mut event = with_data(EventType::RejReceived, mad);
            if let Some(mad) = mad {
                let rej: Rej = mad.message();
                event.status = rej.reason.into();
                set_info(&mut event, &rej.info, rej.reject_info_length);
            }
            event
        }
        Notice::DreqReceived => with_data(EventType::DreqReceived, mad),
        Notice::DrepReceived => with_data(EventType::DrepReceived, mad),
        Notice::ReqError => plain(EventType::ReqError),
        Notice::RepError => plain(EventType::RepError),
        Notice::DreqError => plain(EventType::DreqError),
        Notice::TimewaitExit => plain(EventType::TimewaitExit),
        Notice::Established => plain(EventType::Established),
        Notice::LapReceived(generation, path) => {
            let mut event = of_path(with_data(EventType::LapReceived, mad), &path);
            event.generation = generation;
            event
        }
        Notice::AprReceived(status, path) => {
            let mut event = of_path(with_data(EventType::AprReceived, mad), &path);
            event.status = status.into();
            if let Some(mad) = mad {
                let apr: Apr = mad.message();
                set_info(&mut event, &apr.info, apr.info_length);
            }
            event
        }
        Notice::LapError(failure) => {
            let mut event = plain(EventType::LapError);
            event.status = match failure {
                LapFailure::Timeout => 0,
                LapFailure::Aborted => 1,
            };
            event
        }
        Notice::Migrated(path) => of_path(plain(EventType::Migrated), &path),
        Notice::RepStale => {
            let mut event = plain(EventType::ReqError);
            event.status = reason::STALE_CONN.into();
            event
        }
        Notice::Stale => plain(EventType::Stale),
        Notice::Removed => plain(EventType::Removed),
    }
}

/// A SIDR_REQ has come, for which the question was made.
pub(crate) fn asked(it: &Resolution, mad: &Cm) -> Event {
    let req: SidrReq = mad.message();
    let mut event = with_data(EventType::SidrReqReceived, Some(mad));
    event.pkey = req.pkey.get();
    event.primary.remote_lid = it.source().slid.get();
    event.primary.remote_gid = it.source().sgid.unwrap_or_default().get();
    event
}

/// What whoever asks is told; `mad` is the answer, if one has come.
pub(crate) fn sidr_notice(notice: SidrNotice, mad: Option<&Cm>) -> Event {
    match notice {
        SidrNotice::RepReceived => {
            let mut event = with_data(EventType::SidrRepReceived, mad);
            if let Some(mad) = mad {
                let rep: SidrRep = mad.message();
                event.status = rep.status.into();
                event.qpn = rep.qpn.get();
                event.starting_psn = rep.qkey.get();
                set_info(&mut event, &rep.info, rep.info_length);
            }
            event
        }
        SidrNotice::ReqError => plain(EventType::SidrReqError),
        SidrNotice::Removed => plain(EventType::Removed),
    }
}
