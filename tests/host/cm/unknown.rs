// SPDX-License-Identifier: GPL-2.0

//! Datagrams for which there is neither a service nor a connection.

use crate::ends::{
    ACTIVE_ID,
    PASSIVE_ID, //
};
use crate::pair::{
    Pair,
    A, //
};
use proto::cm::{
    unknown_answer,
    Notice,
    Slot,
    State, //
};
use wire::mad::cm::{
    ap_status,
    attr,
    reason,
    rejected,
    sidr_status,
    Apr,
    Cm,
    Drep,
    Dreq,
    Lap,
    Mra,
    Rej,
    Rep,
    Rtu,
    SidrRep,
    SidrReq, //
};

const TID: u64 = 0x1234_5678_9abc_def0;

/// `message` from one that calls the connection [`ACTIVE_ID`], and the receiver's [`PASSIVE_ID`].
fn sent<M: wire::mad::cm::Message>(attr_id: u16, message: &M) -> Cm {
    let mut mad = Cm::new(attr_id, TID);
    mad.set_message(message);
    mad
}

/// The answer to that, which is to be of this kind, and to repeat the transaction ID.
fn answered(mad: &Cm, attr_id: u16) -> Cm {
    let answer = unknown_answer(mad).expect("an answer");
    assert_eq!((answer.attr_id(), answer.tid()), (attr_id, mad.tid()));
    answer
}

#[test]
fn a_request_for_no_service_ends() {
    let mut pair = Pair::new();
    let req = pair.conns[A].datagram(Slot::Request).clone();
    let mad = answered(&req, attr::REJ);
    let rej: Rej = mad.message();
    assert_eq!((rej.local_comm_id, rej.remote_comm_id), (0, ACTIVE_ID));
    assert_eq!(
        (rej.message_rejected, rej.reason),
        (rejected::REQ, reason::INVALID_SERVICE_ID)
    );
    pair.give(A, &mad);
    assert_eq!(pair.told(A), [Notice::RejReceived]);
    assert_ne!(pair.conns[A].state(), State::ReqSent);
}

#[test]
fn messages_for_no_connection_are_answered() {
    let (local_comm_id, remote_comm_id) = (ACTIVE_ID, PASSIVE_ID);
    let rep = sent(
        attr::REP,
        &Rep {
            local_comm_id,
            remote_comm_id,
            ..Rep::default()
        },
    );
    let rej: Rej = answered(&rep, attr::REJ).message();
    assert_eq!(
        (rej.local_comm_id, rej.remote_comm_id),
        (PASSIVE_ID, ACTIVE_ID)
    );
    assert_eq!(
        (rej.message_rejected, rej.reason),
        (rejected::REP, reason::INVALID_COMM_ID)
    );
    let dreq = sent(
        attr::DREQ,
        &Dreq {
            local_comm_id,
            remote_comm_id,
            ..Dreq::default()
        },
    );
    let drep: Drep = answered(&dreq, attr::DREP).message();
    assert_eq!(
        (drep.local_comm_id, drep.remote_comm_id),
        (PASSIVE_ID, ACTIVE_ID)
    );
    let lap = sent(
        attr::LAP,
        &Lap {
            local_comm_id,
            remote_comm_id,
            ..Lap::default()
        },
    );
    let apr: Apr = answered(&lap, attr::APR).message();
    assert_eq!(
        (apr.local_comm_id, apr.remote_comm_id),
        (PASSIVE_ID, ACTIVE_ID)
    );
    assert_eq!(apr.ap_status, ap_status::INVALID_COMM_ID);
    let question = sent(
        attr::SIDR_REQ,
        &SidrReq {
            request_id: 7,
            service_id: 0x02ff_0000_0000_0001,
            ..SidrReq::default()
        },
    );
    let rep: SidrRep = answered(&question, attr::SIDR_REP).message();
    assert_eq!((rep.request_id, rep.service_id), (7, 0x02ff_0000_0000_0001));
    assert_eq!(rep.status, sidr_status::UNSUPPORTED);
}

/// Else two managers that know nothing would talk for ever.
#[test]
fn answers_are_not_answered() {
    let rtu = sent(attr::RTU, &Rtu::default());
    let mra = sent(attr::MRA, &Mra::default());
    assert!(unknown_answer(&rtu).is_none() && unknown_answer(&mra).is_none());
    for attr_id in 0..=u16::from(u8::MAX) {
        if let Some(answer) = unknown_answer(&Cm::new(attr_id, TID)) {
            assert!(unknown_answer(&answer).is_none(), "{attr_id:#x}");
        }
    }
}
