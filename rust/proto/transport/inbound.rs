// SPDX-License-Identifier: GPL-2.0

//! Putting the packets of SEND and RDMA WRITE messages together, in order: what reliable and unreliable
//! connections have in common.

use crate::transport::config::QpConfig;
use crate::transport::env::{
    Access,
    Env,
    InvalidateError,
    PlaceError,
    RemoteError,
    RemoteFault, //
};
use crate::transport::wc::{
    Wc,
    WcOpcode,
    WcStatus, //
};
use crate::transport::wqe::{
    RecvWqe,
    MAX_MESSAGE, //
};
use wire::header::Header;
use wire::opcode::Operation;
use wire::Key;

/// The message that is being received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Message {
    #[default]
    None,
    Send {
        placed: u32,
    },
    Write {
        rkey: Key,
        va: u64,
        total: u32,
        placed: u32,
    },
}

/// Why a request cannot be carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// There is no receive work request.
    NotReady,
    /// The key that is to be invalidated is in use.
    Busy,
    /// The memory is not there now. Nothing has happened.
    Absent,
    /// The request makes no sense here, or the queue pair does not allow its kind (IBA "Remote Invalid Request
    /// Error").
    Invalid,
    /// The key does not allow the peer what it asks for (IBA "Remote Access Error").
    Access,
    /// The receive work request fails with this status.
    Local(WcStatus),
}

impl Fault {
    /// How the receive work request ends that serves the request, if there is one by then (IBA "Completion Return
    /// Status").
    pub(super) fn status(self) -> WcStatus {
        match self {
            Self::Access => WcStatus::LocAccessErr,
            Self::Local(status) => status,
            Self::Invalid | Self::NotReady | Self::Busy | Self::Absent => WcStatus::RemInvReqErr,
        }
    }
}

impl From<RemoteFault> for Fault {
    fn from(_: RemoteFault) -> Self {
        Self::Access
    }
}

impl From<RemoteError> for Fault {
    fn from(error: RemoteError) -> Self {
        match error {
            RemoteError::Fault => Self::Access,
            RemoteError::Absent => Self::Absent,
        }
    }
}

impl From<PlaceError> for Fault {
    fn from(error: PlaceError) -> Self {
        match error {
            PlaceError::Failed(status) => Self::Local(status),
            PlaceError::Absent => Self::Absent,
        }
    }
}

impl From<InvalidateError> for Fault {
    fn from(error: InvalidateError) -> Self {
        match error {
            InvalidateError::Fault => Self::Access,
            InvalidateError::Busy => Self::Busy,
        }
    }
}

/// The message that is being received, and the receive work request for it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Inbound {
    message: Message,
    held: Option<RecvWqe>,
}

impl Inbound {
    /// Whether a message has begun and not ended.
    pub(super) fn is_open(&self) -> bool {
        self.message != Message::None
    }

    /// Gives up the message, whose receive work request serves the next one. One from a shared queue ends with
    /// `status` instead: others may wait for what this queue pair might keep for long (IBA "Responder Error
    /// Behavior", class E).
    pub(super) fn abandon(&mut self, status: WcStatus, config: &QpConfig, env: &mut impl Env) {
        self.message = Message::None;
        if config.srq {
            self.complete_error(status, env);
        }
    }

    /// Forgets message and receive work request.
    pub(super) fn reset(&mut self) {
        *self = Self::default();
    }

    /// The receive work request that is next: the one at hand, or a new one.
    pub(super) fn hold(&mut self, env: &mut impl Env) -> Result<RecvWqe, Fault> {
        if self.held.is_none() {
            self.held = env.take_recv();
        }
        self.held.ok_or(Fault::NotReady)
    }

    /// Completes the receive work request at hand. Returns whether there is one.
    pub(super) fn complete(&mut self, env: &mut impl Env, wc: impl FnOnce(&RecvWqe) -> Wc) -> bool {
        self.message = Message::None;
        let held = self.held.take();
        if let Some(recv) = &held {
            env.complete_recv(recv.slot, wc(recv));
        }
        held.is_some()
    }

    /// Completes the receive work request at hand with an error. Returns whether there is one.
    pub(super) fn complete_error(&mut self, status: WcStatus, env: &mut impl Env) -> bool {
        self.complete(env, |recv| Wc::new(recv.wr_id, WcOpcode::Recv, status))
    }

    /// Takes a packet of a SEND or RDMA WRITE, with `len` bytes of payload in `span` packets, which is the one
    /// that follows the packet before.
    pub(super) fn on_request(
        &mut self,
        header: &Header,
        (span, len): (u32, u32),
        config: &QpConfig,
        env: &mut impl Env,
    ) -> Result<(), Fault> {
        let opcode = header.bth.opcode;
        let full = len == span.wrapping_shl(config.mtu.shift());
        let fits = config.mtu.packets(len) == span && (opcode.ends() || full);
        let closes = opcode.ends() && !opcode.starts();
        if !fits || (closes && len == 0) || (opcode.starts() && self.is_open()) {
            return Err(Fault::Invalid);
        }
        match opcode.operation() {
            Operation::SendFirst
            | Operation::SendMiddle
            | Operation::SendLast
            | Operation::SendLastImm
            | Operation::SendLastInv
            | Operation::SendOnly
            | Operation::SendOnlyImm
            | Operation::SendOnlyInv => self.on_send(header, len, config, env),
            Operation::WriteFirst
            | Operation::WriteMiddle
            | Operation::WriteLast
            | Operation::WriteLastImm
            | Operation::WriteOnly
            | Operation::WriteOnlyImm => self.on_write(header, len, config, env),
            _ => Err(Fault::Invalid),
        }
    }

    fn on_send(
        &mut self,
        header: &Header,
        len: u32,
        config: &QpConfig,
        env: &mut impl Env,
    ) -> Result<(), Fault> {
        let opcode = header.bth.opcode;
        let placed = match self.message {
            Message::None if opcode.starts() => 0,
            Message::Send { placed } => placed,
            _ => return Err(Fault::Invalid),
        };
        let recv = self.hold(env)?;
        if len > recv.len.saturating_sub(placed) {
            return Err(Fault::Local(WcStatus::LocLenErr));
        }
        if len != 0 {
            env.place_recv(recv.slot, placed, len)?;
        }
        let placed = placed.wrapping_add(len);
        if !opcode.ends() {
            self.message = Message::Send { placed };
            return Ok(());
        }
        let invalidated = header.ieth.map(|ieth| ieth.rkey);
        if let Some(rkey) = invalidated {
            env.invalidate(rkey)?;
        }
        self.complete(env, |recv| Wc {
            invalidated,
            ..received(recv, WcOpcode::Recv, placed, header, config)
        });
        Ok(())
    }

    fn on_write(
        &mut self,
        header: &Header,
        len: u32,
        config: &QpConfig,
        env: &mut impl Env,
    ) -> Result<(), Fault> {
        let opcode = header.bth.opcode;
        let (rkey, va, total, placed) = match (self.message, header.reth) {
            (Message::None, Some(reth)) if opcode.starts() => {
                if reth.dma_len > MAX_MESSAGE {
                    return Err(Fault::Invalid);
                }
                if !config.access.remote_write {
                    return Err(Fault::Invalid);
                }
                if reth.dma_len != 0 {
                    env.check_remote(reth.rkey, reth.va, reth.dma_len, Access::Write)?;
                }
                (reth.rkey, reth.va, reth.dma_len, 0)
            }
            (
                Message::Write {
                    rkey,
                    va,
                    total,
                    placed,
                },
                None,
            ) => (rkey, va, total, placed),
            _ => return Err(Fault::Invalid),
        };
        let left = total.saturating_sub(placed);
        if (opcode.ends() && len != left) || (!opcode.ends() && len >= left) {
            return Err(Fault::Invalid);
        }
        if opcode.has_imm() {
            self.hold(env)?;
        }
        if len != 0 {
            env.place_remote(rkey, va.wrapping_add(u64::from(placed)), len)?;
        }
        if !opcode.ends() {
            self.message = Message::Write {
                rkey,
                va,
                total,
                placed: placed.wrapping_add(len),
            };
            return Ok(());
        }
        self.message = Message::None;
        if opcode.has_imm() {
            self.complete(env, |recv| {
                received(recv, WcOpcode::RecvRdmaWithImm, total, header, config)
            });
        }
        Ok(())
    }
}

/// The completion of a message of `byte_len` bytes whose last packet has these headers.
fn received(
    recv: &RecvWqe,
    opcode: WcOpcode,
    byte_len: u32,
    header: &Header,
    config: &QpConfig,
) -> Wc {
    Wc {
        byte_len,
        imm: header.imm.map(|imm| imm.to_u32()),
        src_qp: config.dest_qpn,
        slid: header.lrh.slid,
        sl: header.lrh.sl,
        path_bits: path_bits(header),
        pkey_index: config.pkey_index,
        solicited: header.bth.se,
        ..Wc::new(recv.wr_id, opcode, WcStatus::Success)
    }
}

/// The bits of the destination LID that may be path bits.
pub(super) fn path_bits(header: &Header) -> u8 {
    if header.lrh.dlid.is_unicast() {
        (header.lrh.dlid.get() & 0x7f) as u8
    } else {
        0
    }
}
