// SPDX-License-Identifier: GPL-2.0

//! The receiving side of an unreliable connection.
//!
//! Source: IBA "Unreliable Connections", "Responder behavior".

use super::Refusal;
use super::Resource;
use super::Responder;
use crate::transport::config::QpConfig;
use crate::transport::env::Env;
use crate::transport::inbound::Fault;
use crate::transport::qp::RxDrop;
use crate::transport::wc::WcStatus;
use core::ops::DerefMut;
use wire::header::Header;

/// How far behind the expected PSN a packet is taken for one that the network delivered late or twice, rather
/// than for the first one after a long loss. The IBA's networks do neither; this one may.
const LATE_WINDOW: u32 = 1 << 12;

impl<R: DerefMut<Target = [Resource]>> Responder<R> {
    /// Takes a request of an unreliable connection. A message of which a packet is missing, or refused, is
    /// dropped as a whole.
    pub(in crate::transport) fn on_unreliable(
        &mut self,
        header: &Header,
        size: (u32, u32),
        config: &QpConfig,
        env: &mut impl Env,
    ) -> Result<(), Refusal> {
        let distance = header.bth.psn.diff(self.expected);
        if distance < 0 && distance.unsigned_abs() <= LATE_WINDOW {
            return Err(RxDrop::Duplicate.into());
        }
        let opcode = header.bth.opcode;
        if distance != 0 || opcode.starts() {
            // A receive work request without a message is that of a first packet that comes again.
            if distance != 0 || self.inbound.is_open() {
                self.inbound.abandon(WcStatus::RemInvReqErr, config, env);
            }
            self.broken = !opcode.starts();
        }
        self.expected = header.bth.psn.add(size.0);
        if self.broken {
            return Err(RxDrop::OutOfSequence.into());
        }
        let Err(fault) = self.inbound.on_request(header, size, config, env) else {
            return Ok(());
        };
        let drop = match fault {
            Fault::NotReady => RxDrop::NoRecv,
            Fault::Absent => RxDrop::Absent,
            Fault::Busy => RxDrop::Busy,
            Fault::Invalid | Fault::Access => RxDrop::Refused,
            Fault::Local(WcStatus::LocLenErr) => RxDrop::TooLong,
            Fault::Local(status) => {
                self.inbound.complete_error(status, env);
                return Err(Refusal::Fatal);
            }
        };
        if matches!(fault, Fault::Absent | Fault::Busy) {
            // It comes again, and is what is expected then.
            self.expected = header.bth.psn;
        } else {
            self.inbound.abandon(fault.status(), config, env);
            self.broken = true;
        }
        Err(drop.into())
    }
}
