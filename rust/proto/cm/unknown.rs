// SPDX-License-Identifier: GPL-2.0

//! What is for nobody.
//!
//! Where there is no other connection manager, somebody has to say so, or peers would ask until they give up.

use wire::mad::cm::{
    ap_status,
    attr,
    reason,
    rejected,
    sidr_status,
    Apr,
    Cm,
    Drep,
    Rej,
    Req,
    SidrRep,
    SidrReq, //
};

/// The answer to a datagram for which there is neither a service nor a connection; `None` if it wants none.
pub fn unknown_answer(mad: &Cm) -> Option<Cm> {
    let (local_comm_id, remote_comm_id) = (mad.remote_comm_id(), mad.local_comm_id());
    match mad.attr_id() {
        attr::REQ => {
            let req: Req = mad.message();
            let rej = Rej {
                remote_comm_id: req.local_comm_id,
                message_rejected: rejected::REQ,
                reason: reason::INVALID_SERVICE_ID,
                ..Rej::default()
            };
            Some(answer(attr::REJ, mad, |cm| cm.set_message(&rej)))
        }
        attr::REP => {
            let rej = Rej {
                local_comm_id,
                remote_comm_id,
                message_rejected: rejected::REP,
                reason: reason::INVALID_COMM_ID,
                ..Rej::default()
            };
            Some(answer(attr::REJ, mad, |cm| cm.set_message(&rej)))
        }
        attr::DREQ => {
            let drep = Drep {
                local_comm_id,
                remote_comm_id,
            };
            Some(answer(attr::DREP, mad, |cm| cm.set_message(&drep)))
        }
        attr::LAP => {
            let apr = Apr {
                local_comm_id,
                remote_comm_id,
                ap_status: ap_status::INVALID_COMM_ID,
                ..Apr::default()
            };
            Some(answer(attr::APR, mad, |cm| cm.set_message(&apr)))
        }
        attr::SIDR_REQ => {
            let req: SidrReq = mad.message();
            let rep = SidrRep {
                request_id: req.request_id,
                status: sidr_status::UNSUPPORTED,
                service_id: req.service_id,
                ..SidrRep::default()
            };
            Some(answer(attr::SIDR_REP, mad, |cm| cm.set_message(&rep)))
        }
        _ => None,
    }
}

fn answer(attr_id: u16, to: &Cm, write: impl FnOnce(&mut Cm)) -> Cm {
    let mut answer = Cm::new(attr_id, to.tid());
    write(&mut answer);
    answer
}
