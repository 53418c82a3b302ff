// SPDX-License-Identifier: GPL-2.0

//! Entries of a user's send queue.

use super::{
    DmaInfo,
    SgeList, //
};
use crate::ib::{
    AccessFlags,
    Bind,
    Datagram,
    QpType,
    SendExt,
    SendFlags,
    SendOp,
    Sge,
    WcStatus, //
};
use core::convert::Infallible;
use core::mem::{
    offset_of,
    size_of, //
};
use kernel::prelude::*;
use sib_bindings as bindings;
use zerocopy_derive::Immutable;

/// The length of the union `wr` of `struct rxe_send_wr`.
const WR_SIZE: usize = 120;

/// `struct rxe_send_wqe` without the data behind it.
#[derive(FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct SendWqe {
    wr_id: u64,
    reserved: u32,
    opcode: u32,
    send_flags: u32,
    ex: [u8; 4],
    wr: [u8; WR_SIZE],
    status: u32,
    state: u32,
    iova: u64,
    mask: u32,
    first_psn: u32,
    last_psn: u32,
    ack_length: u32,
    ssn: u32,
    has_rd_atomic: u32,
    dma: DmaInfo,
}

#[derive(FromBytes)]
#[repr(C)]
struct RdmaWr {
    addr: u64,
    rkey: u32,
    reserved: u32,
}

#[derive(FromBytes)]
#[repr(C)]
struct AtomicWr {
    addr: u64,
    compare_add: u64,
    swap: u64,
    rkey: u32,
    reserved: u32,
}

#[derive(FromBytes)]
#[repr(C)]
struct FlushWr {
    addr: u64,
    reserved: u32,
    rkey: u32,
    types: u8,
    level: u8,
    padding: [u8; 6],
}

#[derive(FromBytes)]
#[repr(C)]
struct UdWr {
    qpn: u32,
    qkey: u32,
    pkey_index: u16,
    reserved: u16,
    ah_num: u32,
}

#[derive(FromBytes)]
#[repr(C)]
struct MwWr {
    addr: u64,
    length: u64,
    mr_lkey: u32,
    mw_rkey: u32,
    rkey: u32,
    access: u32,
}

/// The length of a ring entry of a send queue, in bytes: the list and the inline data share their place.
pub const fn send_wqe_size(max_sge: u32, max_inline: u32) -> usize {
    let list = (max_sge as usize).saturating_mul(size_of::<Sge>());
    let inline = max_inline as usize;
    size_of::<SendWqe>().saturating_add(if list > inline { list } else { inline })
}

/// What the queue pair allows.
#[derive(Clone, Copy, Debug)]
pub struct SendLimits {
    /// Its type.
    pub ty: QpType,
    /// Gather entries.
    pub max_sge: u32,
    /// Bytes of inline data.
    pub max_inline: u32,
}

/// The local memory of a user's send request.
#[derive(Clone, Copy, Debug)]
pub enum UserData<'a> {
    /// The data themselves.
    Inline(&'a [u8]),
    /// Where the data are, or go to.
    Gather(SgeList<'a>),
}

/// A send request of a user. Address handles are numbers; fast registration is for the kernel alone.
#[derive(Clone, Copy, Debug)]
pub struct UserSend<'a> {
    /// What the completion is to carry.
    pub wr_id: u64,
    /// Modifiers.
    pub flags: SendFlags,
    /// What to do.
    pub op: SendOp<u32, Infallible>,
    /// The local memory.
    pub data: UserData<'a>,
}

/// A work request that is refused: it completes with an error.
#[derive(Clone, Copy, Debug)]
pub struct BadWqe {
    /// What the completion is to carry.
    pub wr_id: u64,
    /// The error.
    pub status: WcStatus,
}

impl BadWqe {
    pub(super) const fn new(wr_id: u64, status: WcStatus) -> Self {
        Self { wr_id, status }
    }
}

impl<'a> UserSend<'a> {
    /// Checks a private copy of a ring entry.
    ///
    /// Operations that the type of queue pair does not have, unknown flags, and lists or inline data beyond
    /// the limits are refused. Fields that librxe keeps in the entry for its own use are not looked at; in
    /// particular, lengths of lists are sums over the list, as some versions of librxe count wrongly.
    pub fn decode(bytes: &'a [u8], limits: &SendLimits) -> Result<Self, BadWqe> {
        let Ok((wqe, data)) = SendWqe::read_from_prefix(bytes) else {
            return Err(BadWqe::new(0, WcStatus::LocQpOpErr));
        };
        let bad = BadWqe::new(wqe.wr_id, WcStatus::LocQpOpErr);
        let flags = SendFlags::from_bits(wqe.send_flags);
        if flags.unknown() != 0 {
            return Err(bad);
        }
        let op = decode_op(&wqe, limits.ty).ok_or(bad)?;
        let data = decode_data(&wqe, &op, flags, data, limits).ok_or(bad)?;
        Ok(Self {
            wr_id: wqe.wr_id,
            flags,
            op,
            data,
        })
    }
}

/// The operation, if the type of queue pair has it.
fn decode_op(wqe: &SendWqe, ty: QpType) -> Option<SendOp<u32, Infallible>> {
    match ty {
        QpType::Rc => decode_connected(wqe),
        QpType::Uc => decode_connected(wqe).filter(allowed_on_uc),
        QpType::Ud | QpType::Smi | QpType::Gsi => decode_datagram(wqe),
    }
}

/// IBA, "Operations on the Work Queues": unreliable connections have no requests with responses.
fn allowed_on_uc(op: &SendOp<u32, Infallible>) -> bool {
    matches!(
        op,
        SendOp::Send { .. }
            | SendOp::Write { .. }
            | SendOp::LocalInvalidate { .. }
            | SendOp::BindMw(_)
    )
}

fn decode_datagram(wqe: &SendWqe) -> Option<SendOp<u32, Infallible>> {
    let ext = match wqe.opcode {
        bindings::ib_wr_opcode_IB_WR_SEND => SendExt::None,
        bindings::ib_wr_opcode_IB_WR_SEND_WITH_IMM => SendExt::Imm(wqe.ex),
        _ => return None,
    };
    let (ud, _) = UdWr::read_from_prefix(&wqe.wr).ok()?;
    Some(SendOp::Send {
        ext,
        to: Some(Datagram {
            ah: ud.ah_num,
            qpn: ud.qpn,
            qkey: ud.qkey,
            pkey_index: ud.pkey_index,
        }),
    })
}

fn decode_connected(wqe: &SendWqe) -> Option<SendOp<u32, Infallible>> {
    let send = |ext| Some(SendOp::Send { ext, to: None });
    match wqe.opcode {
        bindings::ib_wr_opcode_IB_WR_SEND => send(SendExt::None),
        bindings::ib_wr_opcode_IB_WR_SEND_WITH_IMM => send(SendExt::Imm(wqe.ex)),
        bindings::ib_wr_opcode_IB_WR_SEND_WITH_INV => {
            send(SendExt::Invalidate(u32::from_ne_bytes(wqe.ex)))
        }
        bindings::ib_wr_opcode_IB_WR_RDMA_WRITE => decode_write(wqe, None),
        bindings::ib_wr_opcode_IB_WR_RDMA_WRITE_WITH_IMM => decode_write(wqe, Some(wqe.ex)),
        bindings::ib_wr_opcode_IB_WR_RDMA_READ => {
            let (rdma, _) = RdmaWr::read_from_prefix(&wqe.wr).ok()?;
            Some(SendOp::Read {
                addr: rdma.addr,
                rkey: rdma.rkey,
            })
        }
        bindings::ib_wr_opcode_IB_WR_ATOMIC_WRITE => {
            let (rdma, _) = RdmaWr::read_from_prefix(&wqe.wr).ok()?;
            Some(SendOp::AtomicWrite {
                addr: rdma.addr,
                rkey: rdma.rkey,
            })
        }
        bindings::ib_wr_opcode_IB_WR_ATOMIC_CMP_AND_SWP => {
            let (atomic, _) = AtomicWr::read_from_prefix(&wqe.wr).ok()?;
            Some(SendOp::CompareSwap {
                addr: atomic.addr,
                rkey: atomic.rkey,
                compare: atomic.compare_add,
                swap: atomic.swap,
            })
        }
        bindings::ib_wr_opcode_IB_WR_ATOMIC_FETCH_AND_ADD => {
            let (atomic, _) = AtomicWr::read_from_prefix(&wqe.wr).ok()?;
            Some(SendOp::FetchAdd {
                addr: atomic.addr,
                rkey: atomic.rkey,
                add: atomic.compare_add,
            })
        }
        bindings::ib_wr_opcode_IB_WR_FLUSH => {
            let (flush, _) = FlushWr::read_from_prefix(&wqe.wr).ok()?;
            Some(SendOp::Flush {
                addr: flush.addr,
                rkey: flush.rkey,
                // librxe leaves `flush.length` alone.
                length: wqe.dma.length,
                types: flush.types,
                level: flush.level,
            })
        }
        bindings::ib_wr_opcode_IB_WR_LOCAL_INV => Some(SendOp::LocalInvalidate {
            rkey: u32::from_ne_bytes(wqe.ex),
        }),
        bindings::ib_wr_opcode_IB_WR_BIND_MW => {
            let (mw, _) = MwWr::read_from_prefix(&wqe.wr).ok()?;
            Some(SendOp::BindMw(Bind {
                addr: mw.addr,
                length: mw.length,
                mr_lkey: mw.mr_lkey,
                mw_rkey: mw.mw_rkey,
                rkey: mw.rkey,
                access: AccessFlags::from_bits(mw.access),
            }))
        }
        _ => None,
    }
}

fn decode_write(wqe: &SendWqe, imm: Option<[u8; 4]>) -> Option<SendOp<u32, Infallible>> {
    let (rdma, _) = RdmaWr::read_from_prefix(&wqe.wr).ok()?;
    Some(SendOp::Write {
        addr: rdma.addr,
        rkey: rdma.rkey,
        imm,
    })
}

/// The local memory, within the limits. Inline data are for what sends data.
fn decode_data<'a>(
    wqe: &SendWqe,
    op: &SendOp<u32, Infallible>,
    flags: SendFlags,
    data: &'a [u8],
    limits: &SendLimits,
) -> Option<UserData<'a>> {
    match op {
        SendOp::AtomicWrite { .. } => data.get(..size_of::<u64>()).map(UserData::Inline),
        SendOp::LocalInvalidate { .. } | SendOp::BindMw(_) | SendOp::Flush { .. } => {
            Some(UserData::Gather(SgeList::default()))
        }
        SendOp::Send { .. } | SendOp::Write { .. } if flags.contains(SendFlags::INLINE) => {
            if wqe.dma.length > limits.max_inline {
                return None;
            }
            data.get(..wqe.dma.length as usize).map(UserData::Inline)
        }
        _ if flags.contains(SendFlags::INLINE) || wqe.dma.num_sge > limits.max_sge => None,
        _ => SgeList::new(data, wqe.dma.num_sge).map(UserData::Gather),
    }
}

const _: () = {
    assert!(size_of::<SendWqe>() == 208);
    assert!(size_of::<SendWqe>() == size_of::<bindings::rxe_send_wqe>());
    assert!(offset_of!(SendWqe, status) == offset_of!(bindings::rxe_send_wqe, status));
    assert!(offset_of!(SendWqe, iova) == offset_of!(bindings::rxe_send_wqe, iova));
    assert!(offset_of!(SendWqe, dma) == offset_of!(bindings::rxe_send_wqe, dma));
    assert!(offset_of!(SendWqe, opcode) == offset_of!(bindings::rxe_send_wr, opcode));
    assert!(offset_of!(SendWqe, ex) == offset_of!(bindings::rxe_send_wr, ex));
    assert!(offset_of!(SendWqe, wr) == offset_of!(bindings::rxe_send_wr, wr));
};

#[kunit_tests(sib_rdma_wqe)]
mod tests {
    use super::*;
    use zerocopy::FromZeros;

    const SGES: u32 = 2;
    const INLINE: u32 = 32;
    const SIZE: usize = send_wqe_size(SGES, INLINE);

    const LIMITS: SendLimits = SendLimits {
        ty: QpType::Rc,
        max_sge: SGES,
        max_inline: INLINE,
    };

    fn wqe(opcode: u32) -> SendWqe {
        let mut wqe = SendWqe::new_zeroed();
        wqe.wr_id = 7;
        wqe.opcode = opcode;
        wqe
    }

    /// The entry with the list behind it that names 16, 32, … bytes.
    fn entry(wqe: &SendWqe) -> [u8; SIZE] {
        let mut bytes = [0; SIZE];
        let _ = wqe.write_to_prefix(&mut bytes);
        for nth in 0..SGES {
            let sge = Sge {
                addr: 0x1000,
                length: 16u32.wrapping_mul(nth.wrapping_add(1)),
                lkey: nth,
            };
            let at = send_wqe_size(nth, 0);
            if let Some(slot) = bytes.get_mut(at..) {
                let _ = sge.write_to_prefix(slot);
            }
        }
        bytes
    }

    fn accepts(wqe: &SendWqe, ty: QpType) -> bool {
        UserSend::decode(&entry(wqe), &SendLimits { ty, ..LIMITS }).is_ok()
    }

    #[test]
    fn each_service_has_its_operations() {
        // By opcode: RDMA WRITE, with immediate, SEND, with immediate, RDMA READ, compare and swap, fetch and
        // add, local invalidate, bind, SEND with invalidate, and from 10 on what is not ours but FLUSH (14) and
        // ATOMIC WRITE (15).
        for opcode in 0..256 {
            let rc = opcode < 10 || opcode == 14 || opcode == 15;
            let uc = rc && !matches!(opcode, 4 | 5 | 6 | 14 | 15);
            let ud = opcode == 2 || opcode == 3;
            assert_eq!(accepts(&wqe(opcode), QpType::Rc), rc);
            assert_eq!(accepts(&wqe(opcode), QpType::Uc), uc);
            assert_eq!(accepts(&wqe(opcode), QpType::Ud), ud);
        }
    }

    #[test]
    fn lists_stay_within_the_limits() {
        let mut wqe = wqe(bindings::ib_wr_opcode_IB_WR_SEND);
        // What librxe says of the length does not count.
        wqe.dma.length = 1;
        wqe.dma.num_sge = SGES;
        let bytes = entry(&wqe);
        let length = match UserSend::decode(&bytes, &LIMITS) {
            Ok(UserSend {
                data: UserData::Gather(list),
                ..
            }) => list.length(),
            _ => None,
        };
        assert_eq!(length, Some(48));
        wqe.dma.num_sge = SGES.wrapping_add(1);
        assert!(!accepts(&wqe, QpType::Rc));
        wqe.dma.num_sge = u32::MAX;
        assert!(!accepts(&wqe, QpType::Rc));
    }

    #[test]
    fn no_list_names_memory_of_the_kernel() {
        let mut wqe = wqe(bindings::ib_wr_opcode_IB_WR_SEND);
        wqe.dma.num_sge = SGES;
        // The key of the first entry is 0.
        let bytes = entry(&wqe);
        let named = match UserSend::decode(&bytes, &LIMITS) {
            Ok(UserSend {
                data: UserData::Gather(list),
                ..
            }) => list.iter().any(|sge| sge.range(0, 1, false).is_some()),
            _ => true,
        };
        assert!(!named);
    }

    #[test]
    fn inline_data_stay_within_the_limits() {
        let mut wqe = wqe(bindings::ib_wr_opcode_IB_WR_SEND);
        wqe.send_flags = SendFlags::INLINE.bits();
        wqe.dma.num_sge = u32::MAX;
        wqe.dma.length = INLINE;
        let bytes = entry(&wqe);
        let length = match UserSend::decode(&bytes, &LIMITS) {
            Ok(UserSend {
                data: UserData::Inline(data),
                ..
            }) => data.len(),
            _ => 0,
        };
        assert_eq!(length, INLINE as usize);
        wqe.dma.length = INLINE.wrapping_add(1);
        assert!(!accepts(&wqe, QpType::Rc));
        // There are no data to put into a read.
        wqe.dma.length = 8;
        wqe.opcode = bindings::ib_wr_opcode_IB_WR_RDMA_READ;
        assert!(!accepts(&wqe, QpType::Rc));
    }

    #[test]
    fn a_refusal_names_the_request() {
        let mut wqe = wqe(bindings::ib_wr_opcode_IB_WR_SEND);
        wqe.send_flags = 1 << 31;
        let bad = UserSend::decode(&entry(&wqe), &LIMITS).err();
        assert_eq!(bad.map(|bad| bad.wr_id), Some(7));
        assert_eq!(bad.map(|bad| bad.status), Some(WcStatus::LocQpOpErr));
        let short = entry(&wqe);
        let short = short.get(..SIZE / 4).unwrap_or(&[]);
        assert!(UserSend::decode(short, &LIMITS).is_err());
    }
}
