// SPDX-License-Identifier: GPL-2.0

//! Refusals by whoever has no connection for them.
//!
//! Source: IBA "REJ - Reject".

use wire::mad::cm::{
    attr,
    reason,
    rejected,
    service_type,
    Cm,
    Rej,
    Req, //
};
use wire::Mtu;

/// The REJ of the message `mad`, from a connection with this ID, or from none.
pub(super) fn refusal(mad: &Cm, local_comm_id: u32, message_rejected: u8, reason: u16) -> Cm {
    let mut rej = Cm::new(attr::REJ, mad.tid());
    rej.set_message(&Rej {
        local_comm_id,
        remote_comm_id: mad.local_comm_id(),
        message_rejected,
        reason,
        ..Rej::default()
    });
    rej
}

/// The answer to the REQ `mad` if it is for a transport service that connections here have not, or has the code of no MTU:
/// no queue pair could have that.
pub fn transport_refusal(mad: &Cm) -> Option<Cm> {
    let req: Req = mad.message();
    let why = match req.transport_service_type {
        service_type::RC | service_type::UC => match Mtu::from_code(req.path_mtu) {
            Some(_) => return None,
            None => reason::INVALID_MTU,
        },
        _ => reason::INVALID_TRANSPORT_TYPE,
    };
    Some(refusal(mad, 0, rejected::REQ, why))
}
