// SPDX-License-Identifier: GPL-2.0

//! Work requests of clients in the kernel, and the doorbell of users.
//!
//! Clients post from any context, with chains of requests. A user's requests are in a ring; what comes here
//! then is an empty chain, from a system call.

use super::ah::AhObj;
use super::mr::MrObj;
use super::qp::{
    QpData,
    QpObj, //
};
use super::srq::SrqObj;
use super::{
    any_context,
    task, //
};
use crate::cm;
use crate::ib::{
    AccessFlags,
    Datagram,
    Driver,
    InlineData,
    KernelData,
    LocalSge,
    QpType,
    RecvWr,
    SendExt,
    SendFlags,
    SendOp,
    SendWr,
    Sge,
    MAD_SIZE, //
};
use crate::mem::Region;
use crate::sync::{
    Cx,
    Unlocked, //
};
use kernel::error::from_result;
use kernel::prelude::*;
use sib_bindings as bindings;

/// In any context; for a user in a task that may sleep.
///
/// # Safety
///
/// Called by ib_core for an object that [`create_qp`](super::qp::create_qp) made, with a chain of requests
/// of the type of queue pair.
pub(super) unsafe extern "C" fn post_send<D: Driver>(
    qp: *mut bindings::ib_qp,
    wr: *const bindings::ib_send_wr,
    bad: *mut *const bindings::ib_send_wr,
) -> c_int {
    // SAFETY: The object has a value, and nobody destroys it now.
    let data = unsafe { QpObj::<D>::get(qp) };
    if wr.is_null() {
        return doorbell(data);
    }
    // SAFETY: `wr` is a chain that ib_core lends for the call, of the type of queue pair.
    let (last, result) = unsafe { send_chain(qp, data, wr) };
    if result.is_err() {
        // SAFETY: There is room for the answer, which nobody else uses during the call.
        unsafe { bad.write(last) };
    }
    from_result(|| result.map(|()| 0))
}

/// Rings the bell of a user's send queue.
fn doorbell<D: Driver>(data: &QpData<D>) -> c_int {
    if !data.user {
        return EINVAL.to_errno();
    }
    // SAFETY: The C side calls without requests from a system call alone, with no lock held.
    let (cx, s) = unsafe { task() };
    from_result(|| D::doorbell(cx, s, &data.qp).map(|()| 0))
}

/// Posts the requests one by one. Returns the one that failed with the error.
///
/// # Safety
///
/// `data` is what `qp` keeps, and `wr` a chain of valid requests of the type of queue pair.
unsafe fn send_chain<D: Driver>(
    qp: *mut bindings::ib_qp,
    data: &QpData<D>,
    wr: *const bindings::ib_send_wr,
) -> (*const bindings::ib_send_wr, Result) {
    if data.user {
        return (wr, Err(EINVAL));
    }
    // SAFETY: Entered from ib_core.
    let mut cx = unsafe { any_context() };
    let mut next = wr;
    let mut result = Ok(());
    while !next.is_null() {
        // SAFETY: `next` is a request of the chain, and the queue pair not one of a user.
        result = unsafe { send_from_c::<D>(next, data.ty) }.and_then(|wr| {
            if data.ty == QpType::Gsi && cm::is_listening() {
                // SAFETY: The queue pair is in use.
                unsafe { show::<D>(qp, cx.reborrow(), &wr) };
            }
            D::post_send(cx.reborrow(), &data.qp, &wr)
        });
        if result.is_err() {
            break;
        }
        // SAFETY: As above.
        next = unsafe { (*next).next };
    }
    if next != wr {
        D::posted(cx, &data.qp);
    }
    (next, result)
}

/// Shows the connection manager a datagram that is about to be posted on QP1: when it has been, its memory may be
/// gone.
///
/// # Safety
///
/// `qp` is alive.
unsafe fn show<D: Driver>(qp: *mut bindings::ib_qp, mut cx: Cx<'_, Unlocked>, wr: &SendWr<'_, D>) {
    let SendOp::Send { to: Some(to), .. } = &wr.op else {
        return;
    };
    let mut mad = [0u8; MAD_SIZE];
    let is_copied = match &wr.data {
        KernelData::Inline(data) => data.copy_to(&mut mad).is_ok(),
        KernelData::Gather(list) => copy_gathered(list, &mut mad).is_some(),
    };
    if !is_copied {
        return;
    }
    if let Ok(address) = D::query_ah(cx.reborrow(), to.ah) {
        let datagram = cm::Sent {
            port: address.port,
            dlid: address.dlid,
            mad: &mad,
        };
        // SAFETY: The queue pair is alive, and so is its device, which is one of this driver.
        unsafe { cm::sent((*qp).device, cx, &datagram) };
    }
}

/// Copies the memory of a list to the start of `room`; `None` if it does not fit, or is not all named by its address.
fn copy_gathered(list: &[LocalSge], mut room: &mut [u8]) -> Option<()> {
    for sge in list {
        let len = sge.length as usize;
        let (part, rest) = core::mem::take(&mut room).split_at_mut_checked(len)?;
        room = rest;
        let range = sge.range(0, sge.length, false)?;
        Region::from(&range).copy_out(0, part).ok()?;
    }
    Some(())
}

/// A list of pieces of memory.
///
/// # Safety
///
/// There are `count` entries at `list`, which live for `'a`.
pub(super) unsafe fn sges<'a>(list: *const bindings::ib_sge, count: c_int) -> Result<&'a [Sge]> {
    let count = usize::try_from(count).map_err(|_| EINVAL)?;
    if count == 0 {
        return Ok(&[]);
    }
    // SAFETY: The layouts are equal, as asserted where `Sge` is declared; the rest is promised.
    Ok(unsafe { core::slice::from_raw_parts(list.cast::<Sge>(), count) })
}

/// The union of immediate data and key, as bytes in memory.
fn ext_bytes(wr: &bindings::ib_send_wr) -> [u8; 4] {
    // SAFETY: Both members are plain 32-bit numbers.
    unsafe { *wr.ex.invalidate_rkey.as_ref() }.to_ne_bytes()
}

/// The union of immediate data and key, as a key.
fn ext_key(wr: &bindings::ib_send_wr) -> u32 {
    u32::from_ne_bytes(ext_bytes(wr))
}

/// The request in our terms.
///
/// # Safety
///
/// `wr` is a valid request of a client in the kernel for a queue pair of type `ty` of a device of `D`: the struct
/// around it, and what it points to, live for `'a`, which ends before the call that posts it.
unsafe fn send_from_c<'a, D: Driver>(
    wr: *const bindings::ib_send_wr,
    ty: QpType,
) -> Result<SendWr<'a, D>> {
    // SAFETY: Promised by the caller.
    let base = unsafe { &*wr };
    let flags = SendFlags::from_bits(base.send_flags as u32);
    if flags.unknown() != 0 {
        return Err(EINVAL);
    }
    let op = match ty {
        // SAFETY: Promised by the caller.
        QpType::Ud | QpType::Smi | QpType::Gsi => unsafe { datagram_op::<D>(wr)? },
        QpType::Rc | QpType::Uc if !is_offered(base.opcode, ty) => return Err(EINVAL),
        // SAFETY: Promised by the caller.
        QpType::Rc | QpType::Uc => unsafe { connected_op::<D>(wr)? },
    };
    // SAFETY: Promised by the caller.
    let list = unsafe { sges(base.sg_list, base.num_sge)? };
    if !has_room_for_answer(base.opcode, flags, list) {
        return Err(EINVAL);
    }
    // SAFETY: The list is that of the request. What the client names is there, and it leaves that alone: inline data
    // during the call, other memory until the request has completed. Where something comes back, that may be written.
    let data = unsafe {
        if flags.contains(SendFlags::INLINE) {
            KernelData::Inline(InlineData::new(list))
        } else {
            KernelData::Gather(LocalSge::of_kernel(list))
        }
    };
    Ok(SendWr {
        // SAFETY: Both members of the union have 64 bits; what they mean is up to the client.
        wr_id: unsafe { *base.__bindgen_anon_1.wr_id.as_ref() },
        flags,
        op,
        data,
    })
}

/// Whether connections of a type have the operation, if there is one (IBA table "Operations supported by transport
/// type").
fn is_offered(opcode: bindings::ib_wr_opcode, ty: QpType) -> bool {
    let is_reliable = matches!(
        opcode,
        bindings::ib_wr_opcode_IB_WR_SEND_WITH_INV
            | bindings::ib_wr_opcode_IB_WR_RDMA_READ
            | bindings::ib_wr_opcode_IB_WR_ATOMIC_CMP_AND_SWP
            | bindings::ib_wr_opcode_IB_WR_ATOMIC_FETCH_AND_ADD
            | bindings::ib_wr_opcode_IB_WR_ATOMIC_WRITE
    );
    ty == QpType::Rc || !is_reliable
}

/// Whether the list of a request can take what the operation answers, if that is anything. The peer would have carried
/// out an atomic operation before that is found.
fn has_room_for_answer(opcode: bindings::ib_wr_opcode, flags: SendFlags, list: &[Sge]) -> bool {
    let least = match opcode {
        bindings::ib_wr_opcode_IB_WR_RDMA_READ => 0,
        bindings::ib_wr_opcode_IB_WR_ATOMIC_CMP_AND_SWP
        | bindings::ib_wr_opcode_IB_WR_ATOMIC_FETCH_AND_ADD => size_of::<u64>() as u64,
        _ => return true,
    };
    let lengths = list.iter().map(|sge| u64::from(sge.length));
    let length = lengths.fold(0, u64::saturating_add);
    !flags.contains(SendFlags::INLINE) && length >= least
}

/// # Safety
///
/// As for [`send_from_c`]; the queue pair is one for datagrams.
unsafe fn datagram_op<'a, D: Driver>(
    raw: *const bindings::ib_send_wr,
) -> Result<SendOp<&'a D::Ah, &'a D::Mr>> {
    // A reference does not reach beyond what it refers to, so the struct around it is had by the pointer.
    // SAFETY: Promised by the caller.
    let wr = unsafe { &*raw };
    let ext = match wr.opcode {
        bindings::ib_wr_opcode_IB_WR_SEND => SendExt::None,
        bindings::ib_wr_opcode_IB_WR_SEND_WITH_IMM => SendExt::Imm(ext_bytes(wr)),
        _ => return Err(EINVAL),
    };
    // SAFETY: Requests for datagrams are the first member of this struct.
    let ud = unsafe { &*raw.cast::<bindings::ib_ud_wr>() };
    if ud.ah.is_null() {
        return Err(EINVAL);
    }
    Ok(SendOp::Send {
        ext,
        to: Some(Datagram {
            // SAFETY: The address handle is one of the same device, and has a value, which lives until the
            // client destroys it after the call.
            ah: unsafe { AhObj::<D>::get(ud.ah) },
            qpn: ud.remote_qpn,
            qkey: ud.remote_qkey,
            pkey_index: ud.pkey_index,
        }),
    })
}

/// # Safety
///
/// As for [`send_from_c`]; the queue pair is a connected one.
unsafe fn connected_op<'a, D: Driver>(
    raw: *const bindings::ib_send_wr,
) -> Result<SendOp<&'a D::Ah, &'a D::Mr>> {
    // As in `datagram_op`.
    // SAFETY: Promised by the caller.
    let wr = unsafe { &*raw };
    let send = |ext| SendOp::Send { ext, to: None };
    Ok(match wr.opcode {
        bindings::ib_wr_opcode_IB_WR_SEND => send(SendExt::None),
        bindings::ib_wr_opcode_IB_WR_SEND_WITH_IMM => send(SendExt::Imm(ext_bytes(wr))),
        bindings::ib_wr_opcode_IB_WR_SEND_WITH_INV => send(SendExt::Invalidate(ext_key(wr))),
        bindings::ib_wr_opcode_IB_WR_RDMA_WRITE
        | bindings::ib_wr_opcode_IB_WR_RDMA_WRITE_WITH_IMM => {
            // SAFETY: Requests with this operation are the first member of this struct.
            let rdma = unsafe { &*raw.cast::<bindings::ib_rdma_wr>() };
            let with_imm = wr.opcode == bindings::ib_wr_opcode_IB_WR_RDMA_WRITE_WITH_IMM;
            SendOp::Write {
                addr: rdma.remote_addr,
                rkey: rdma.rkey,
                imm: with_imm.then(|| ext_bytes(wr)),
            }
        }
        bindings::ib_wr_opcode_IB_WR_RDMA_READ => {
            // SAFETY: Requests with this operation are the first member of this struct.
            let rdma = unsafe { &*raw.cast::<bindings::ib_rdma_wr>() };
            SendOp::Read {
                addr: rdma.remote_addr,
                rkey: rdma.rkey,
            }
        }
        bindings::ib_wr_opcode_IB_WR_ATOMIC_WRITE => {
            // SAFETY: Requests with this operation are the first member of this struct.
            let rdma = unsafe { &*raw.cast::<bindings::ib_rdma_wr>() };
            SendOp::AtomicWrite {
                addr: rdma.remote_addr,
                rkey: rdma.rkey,
            }
        }
        bindings::ib_wr_opcode_IB_WR_ATOMIC_CMP_AND_SWP => {
            // SAFETY: Requests with this operation are the first member of this struct.
            let atomic = unsafe { &*raw.cast::<bindings::ib_atomic_wr>() };
            SendOp::CompareSwap {
                addr: atomic.remote_addr,
                rkey: atomic.rkey,
                compare: atomic.compare_add,
                swap: atomic.swap,
            }
        }
        bindings::ib_wr_opcode_IB_WR_ATOMIC_FETCH_AND_ADD => {
            // SAFETY: Requests with this operation are the first member of this struct.
            let atomic = unsafe { &*raw.cast::<bindings::ib_atomic_wr>() };
            SendOp::FetchAdd {
                addr: atomic.remote_addr,
                rkey: atomic.rkey,
                add: atomic.compare_add,
            }
        }
        bindings::ib_wr_opcode_IB_WR_LOCAL_INV => SendOp::LocalInvalidate { rkey: ext_key(wr) },
        bindings::ib_wr_opcode_IB_WR_REG_MR => {
            // SAFETY: Requests with this operation are the first member of this struct.
            let reg = unsafe { &*raw.cast::<bindings::ib_reg_wr>() };
            if reg.mr.is_null() {
                return Err(EINVAL);
            }
            // SAFETY: The region is one of the same device, and has a value, which lives until the client
            // destroys it after the call; the client has mapped it before.
            let (mr, iova, length) = unsafe {
                (
                    &MrObj::<D>::get(reg.mr).mr,
                    (*reg.mr).iova,
                    (*reg.mr).length,
                )
            };
            SendOp::RegMr {
                mr,
                key: reg.key,
                access: AccessFlags::from_bits(reg.access as u32),
                iova,
                length,
            }
        }
        _ => return Err(EINVAL),
    })
}

/// Posts receive requests one by one with `post`, and tells which one failed: for the queue of a `user` the first.
///
/// # Safety
///
/// `wr` is a chain of valid requests, for a queue of a client in the kernel if not of a `user`, and there is room for
/// the answer at `bad`.
unsafe fn recv_chain(
    wr: *const bindings::ib_recv_wr,
    bad: *mut *const bindings::ib_recv_wr,
    user: bool,
    mut post: impl FnMut(&RecvWr<'_>) -> Result,
) -> c_int {
    let mut next = wr;
    while !next.is_null() {
        let result = if user {
            Err(EINVAL)
        } else {
            // SAFETY: `next` is a request of the chain, of a client in the kernel, which names what may be written, and
            // leaves that alone until it has completed; both members of the union have 64 bits.
            unsafe {
                sges((*next).sg_list, (*next).num_sge).map(|sges| RecvWr {
                    wr_id: *(*next).__bindgen_anon_1.wr_id.as_ref(),
                    sges: LocalSge::of_kernel(sges),
                })
            }
            .and_then(|wr| post(&wr))
        };
        if let Err(e) = result {
            // SAFETY: There is room for the answer, which nobody else uses during the call.
            unsafe { bad.write(next) };
            return e.to_errno();
        }
        // SAFETY: As above.
        next = unsafe { (*next).next };
    }
    0
}

/// In any context.
///
/// # Safety
///
/// Called by ib_core for an object that [`create_qp`](super::qp::create_qp) made, with a chain of requests.
pub(super) unsafe extern "C" fn post_recv<D: Driver>(
    qp: *mut bindings::ib_qp,
    wr: *const bindings::ib_recv_wr,
    bad: *mut *const bindings::ib_recv_wr,
) -> c_int {
    // SAFETY: Entered from ib_core.
    let mut cx = unsafe { any_context() };
    // SAFETY: The object has a value, and nobody destroys it now.
    let data = unsafe { QpObj::<D>::get(qp) };
    // SAFETY: ib_core lends the chain for the call, and has room for the answer.
    unsafe {
        recv_chain(wr, bad, data.user, |wr| {
            D::post_recv(cx.reborrow(), &data.qp, wr)
        })
    }
}

/// In any context.
///
/// # Safety
///
/// Called by ib_core for an object that [`create_srq`](super::srq::create_srq) made, with a chain of
/// requests.
pub(super) unsafe extern "C" fn post_srq_recv<D: Driver>(
    srq: *mut bindings::ib_srq,
    wr: *const bindings::ib_recv_wr,
    bad: *mut *const bindings::ib_recv_wr,
) -> c_int {
    // SAFETY: Entered from ib_core.
    let mut cx = unsafe { any_context() };
    // SAFETY: The object has a value, and nobody destroys it now.
    let state = unsafe { SrqObj::<D>::get(srq) };
    // SAFETY: ib_core lends the chain for the call, and has room for the answer.
    unsafe {
        recv_chain(wr, bad, state.user, |wr| {
            D::post_srq_recv(cx.reborrow(), &state.srq, wr)
        })
    }
}

#[kunit_tests(sib_rdma_post)]
mod tests {
    use super::*;

    #[test]
    fn unreliable_connections_have_no_answers() {
        for opcode in [
            bindings::ib_wr_opcode_IB_WR_RDMA_READ,
            bindings::ib_wr_opcode_IB_WR_ATOMIC_CMP_AND_SWP,
            bindings::ib_wr_opcode_IB_WR_ATOMIC_FETCH_AND_ADD,
            bindings::ib_wr_opcode_IB_WR_ATOMIC_WRITE,
            bindings::ib_wr_opcode_IB_WR_SEND_WITH_INV,
        ] {
            assert!(is_offered(opcode, QpType::Rc));
            assert!(!is_offered(opcode, QpType::Uc));
        }
        for opcode in [
            bindings::ib_wr_opcode_IB_WR_SEND,
            bindings::ib_wr_opcode_IB_WR_SEND_WITH_IMM,
            bindings::ib_wr_opcode_IB_WR_RDMA_WRITE,
            bindings::ib_wr_opcode_IB_WR_RDMA_WRITE_WITH_IMM,
            bindings::ib_wr_opcode_IB_WR_LOCAL_INV,
            bindings::ib_wr_opcode_IB_WR_REG_MR,
        ] {
            assert!(is_offered(opcode, QpType::Rc));
            assert!(is_offered(opcode, QpType::Uc));
        }
    }

    #[test]
    fn answers_have_room() {
        const READ: bindings::ib_wr_opcode = bindings::ib_wr_opcode_IB_WR_RDMA_READ;
        const ADD: bindings::ib_wr_opcode = bindings::ib_wr_opcode_IB_WR_ATOMIC_FETCH_AND_ADD;
        const WRITE: bindings::ib_wr_opcode = bindings::ib_wr_opcode_IB_WR_RDMA_WRITE;
        let half = Sge {
            length: 4,
            ..Sge::default()
        };
        let none = SendFlags::NONE;
        assert!(has_room_for_answer(READ, none, &[]));
        assert!(!has_room_for_answer(READ, SendFlags::INLINE, &[half]));
        assert!(has_room_for_answer(WRITE, SendFlags::INLINE, &[half]));
        assert!(!has_room_for_answer(ADD, none, &[]));
        assert!(!has_room_for_answer(ADD, none, &[half]));
        assert!(has_room_for_answer(ADD, none, &[half; 2]));
        assert!(!has_room_for_answer(ADD, SendFlags::INLINE, &[half; 2]));
    }
}
