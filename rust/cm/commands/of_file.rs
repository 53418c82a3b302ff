// SPDX-License-Identifier: GPL-2.0

//! What programs do with identifiers as such, and the events that they read.

use crate::abi;
use crate::consumer::Purpose;
use crate::session::{
    Entry,
    Number,
    Session, //
};
use kernel::prelude::*;
use kernel::sync::Arc;
use rdma::call::Call;
use rdma::sync::{
    Cx,
    Sleepable,
    Unlocked, //
};

/// Carries out an ioctl.
pub(crate) fn run(
    session: &Arc<Session>,
    mut cx: Cx<'_, Unlocked>,
    s: Sleepable<'_>,
    call: Call<'_>,
) -> Result<isize> {
    match call.number() {
        abi::CREATE_ID => create_id(session, &mut cx, s, call)?,
        abi::DESTROY_ID => destroy_id(session, &mut cx, s, &call.read()?)?,
        abi::GET_EVENT => {
            let (age, event) = session.next_event(call.nonblocking())?;
            if let Err(err) = call.write(&*event) {
                session.put_back(age, event);
                return Err(err);
            }
        }
        _ => {
            let find = |id| Number {
                session: session.clone(),
                id,
            };
            return super::run(find, cx, s, call);
        }
    }
    Ok(0)
}

fn create_id(
    session: &Arc<Session>,
    cx: &mut Cx<'_, Unlocked>,
    s: Sleepable<'_>,
    call: Call<'_>,
) -> Result {
    let mut create: abi::CreateId = call.read()?;
    if create.id != 0 || create.reserved != 0 {
        return Err(EINVAL);
    }
    let device = session.shared.device(create.guid);
    let device = device
        .filter(|device| device.adapter.is_accessible())
        .ok_or(ENODEV)?;
    let id = session.ids.lock().add(Entry {
        uid: create.uid,
        device,
        purpose: Purpose::Nothing,
    })?;
    create.id = id;
    call.write(&create).inspect_err(|_| {
        // Another thread may have guessed it, and have it stand for something.
        let _ = end_id(session, cx, s, id);
    })
}

fn destroy_id(
    session: &Arc<Session>,
    cx: &mut Cx<'_, Unlocked>,
    s: Sleepable<'_>,
    destroy: &abi::Id,
) -> Result {
    if destroy.reserved != 0 {
        return Err(EINVAL);
    }
    end_id(session, cx, s, destroy.id)
}

/// Forgets an identifier, and ends what it stands for.
fn end_id(session: &Session, cx: &mut Cx<'_, Unlocked>, s: Sleepable<'_>, id: u32) -> Result {
    let entry = session.ids.lock().remove(id)?;
    session.end(cx, s, entry);
    session.forget_events(id);
    session.refuse_requests(cx, s, id);
    Ok(())
}
