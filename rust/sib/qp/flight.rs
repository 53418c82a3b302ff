// SPDX-License-Identifier: GPL-2.0

//! The payload of a segment that a queue pair sends.

use super::send::Payload;
use super::{
    Qp,
    State, //
};
use crate::payload::{
    Gather,
    Source,
    MAX_INLINE, //
};
use kernel::prelude::*;
use proto::transport::{
    self as machine,
    Access,
    PlaceError,
    WcStatus, //
};
use rdma::sync::{
    Cx,
    Off,
    QpLock, //
};

/// A segment's payload, on its way.
pub(super) struct Flight {
    gather: Gather,
    inline: [u8; MAX_INLINE],
    inline_len: usize,
}

impl Flight {
    pub(super) fn empty() -> impl Init<Self> {
        init!(Self {
            gather: Gather::new(),
            inline: [0; MAX_INLINE],
            inline_len: 0,
        })
    }

    pub(super) fn clear(&mut self) {
        self.gather.clear();
        self.inline_len = 0;
    }

    pub(super) fn source(&self) -> Source<'_> {
        if self.inline_len > 0 {
            Source::Bytes(self.inline.get(..self.inline_len).unwrap_or_default())
        } else {
            Source::Gather(&self.gather)
        }
    }

    /// Collects the payload of a segment. If that is not there, a worker is to see to it.
    pub(super) fn load(
        &mut self,
        qp: &Qp,
        state: &mut State,
        cx: &mut Cx<'_, QpLock, Off>,
        payload: &machine::Payload,
    ) -> Result<(), PlaceError> {
        state.absence.sending.forget();
        let loaded = self.collect(qp, state, cx, payload);
        if !matches!(loaded, Ok(()) | Err(PlaceError::Absent)) {
            state.absence.sending.forget();
        }
        loaded
    }

    fn collect(
        &mut self,
        qp: &Qp,
        state: &mut State,
        cx: &mut Cx<'_, QpLock, Off>,
        payload: &machine::Payload,
    ) -> Result<(), PlaceError> {
        let need = &mut state.absence.sending;
        match *payload {
            machine::Payload::None => Ok(()),
            machine::Payload::Remote { rkey, va, len } => {
                let piece = qp
                    .pd
                    .remote(cx.reborrow(), qp.serial, rkey, (va, len), Access::Read)
                    .map_err(|miss| need.local(miss))?;
                self.gather.push(piece);
                Ok(())
            }
            machine::Payload::Wqe { slot, offset, len } => match state.sends.payload(slot) {
                Payload::Inline(bytes) => {
                    self.load_inline(bytes, offset as usize, len as usize)?;
                    Ok(())
                }
                Payload::Gather(list) => {
                    let mut skip = offset;
                    let mut left = len;
                    let mut absent = false;
                    for sge in list {
                        if left == 0 {
                            break;
                        }
                        if skip >= sge.length {
                            skip = skip.wrapping_sub(sge.length);
                            continue;
                        }
                        let part = left.min(sge.length.wrapping_sub(skip));
                        let piece = qp.pd.local(cx.reborrow(), sge, (skip, part), false);
                        match piece.map_err(|miss| need.local(miss)) {
                            Ok(piece) => {
                                if piece.region().is_none() || !self.gather.push(piece) {
                                    return Err(WcStatus::LocProtErr.into());
                                }
                            }
                            // All that is not there is to come at once.
                            Err(PlaceError::Absent) => absent = true,
                            Err(error) => return Err(error),
                        }
                        left = left.wrapping_sub(part);
                        skip = 0;
                    }
                    if absent {
                        Err(PlaceError::Absent)
                    } else if left == 0 {
                        Ok(())
                    } else {
                        Err(WcStatus::LocLenErr.into())
                    }
                }
            },
        }
    }

    fn load_inline(&mut self, bytes: &[u8], offset: usize, len: usize) -> Result<(), WcStatus> {
        let end = offset.checked_add(len).ok_or(WcStatus::LocLenErr)?;
        let from = bytes.get(offset..end).ok_or(WcStatus::LocLenErr)?;
        for (to, from) in self.inline.iter_mut().zip(from) {
            *to = *from;
        }
        self.inline_len = len;
        Ok(())
    }
}
