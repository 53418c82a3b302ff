// SPDX-License-Identifier: GPL-2.0

//! All headers of a packet, from the LRH to the last extension header.

use crate::aeth::Aeth;
use crate::atomic::{
    AtomicAckEth,
    AtomicEth, //
};
use crate::bth::{
    self,
    Bth, //
};
use crate::deth::Deth;
use crate::error::WireError;
use crate::feth::Feth;
use crate::grh::{
    self,
    Grh, //
};
use crate::icrc;
use crate::ieth::Ieth;
use crate::imm::ImmDt;
use crate::lrh::{
    self,
    Lnh,
    Lrh, //
};
use crate::opcode::Service;
use crate::reth::Reth;

/// Upper bound of [`Header::len`]: LRH, GRH, BTH and an AtomicETH, the longest extension.
pub const MAX_LEN: usize = lrh::LEN + grh::LEN + bth::LEN + crate::atomic::LEN;

/// The headers of a packet. Which extensions are present is the opcode's choice; [`Header::emit`]
/// refuses others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the types say it")]
pub struct Header {
    pub lrh: Lrh,
    pub grh: Option<Grh>,
    pub bth: Bth,
    pub deth: Option<Deth>,
    pub reth: Option<Reth>,
    pub aeth: Option<Aeth>,
    pub atomic: Option<AtomicEth>,
    pub atomic_ack: Option<AtomicAckEth>,
    pub imm: Option<ImmDt>,
    pub ieth: Option<Ieth>,
    pub feth: Option<Feth>,
}

/// Reads structures one after the other.
struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    #[inline]
    fn take<T>(
        &mut self,
        len: usize,
        parse: impl FnOnce(&'a [u8]) -> Result<T, WireError>,
    ) -> Result<T, WireError> {
        let (head, rest) = self
            .rest
            .split_at_checked(len)
            .ok_or(WireError::Truncated)?;
        self.rest = rest;
        parse(head)
    }

    #[inline]
    fn take_if<T>(
        &mut self,
        present: bool,
        len: usize,
        parse: impl FnOnce(&'a [u8]) -> Result<T, WireError>,
    ) -> Result<Option<T>, WireError> {
        if present {
            self.take(len, parse).map(Some)
        } else {
            Ok(None)
        }
    }
}

/// Writes structures one after the other.
struct Writer<'a> {
    rest: &'a mut [u8],
    len: usize,
}

impl Writer<'_> {
    #[inline]
    fn put(
        &mut self,
        emit: impl FnOnce(&mut [u8]) -> Result<usize, WireError>,
    ) -> Result<(), WireError> {
        let rest = core::mem::take(&mut self.rest);
        let len = emit(rest)?;
        let (_, rest) = rest.split_at_mut_checked(len).ok_or(WireError::NoSpace)?;
        self.rest = rest;
        self.len = self.len.wrapping_add(len);
        Ok(())
    }

    #[inline]
    fn put_if<T>(
        &mut self,
        expected: bool,
        value: &Option<T>,
        emit: impl FnOnce(&T, &mut [u8]) -> Result<usize, WireError>,
    ) -> Result<(), WireError> {
        match value {
            Some(value) if expected => self.put(|buf| emit(value, buf)),
            None if !expected => Ok(()),
            _ => Err(WireError::Mismatch),
        }
    }
}

impl Header {
    /// Parses a whole packet, from the first byte of the LRH to the last of the ICRC, and returns
    /// its headers and the offset of the payload.
    ///
    /// All that a link and a transport check before they look at a queue pair is checked: versions,
    /// next headers, a known opcode, and that the lengths of LRH, GRH, BTH and buffer agree.
    /// The ICRC is not.
    ///
    /// # Errors
    ///
    /// What is wrong first, in the order of the packet.
    pub fn parse(buf: &[u8]) -> Result<(Self, usize), WireError> {
        Self::parse_head(buf, buf.len())
    }

    /// Like [`Self::parse`], for a packet of `total` bytes of which only the front lies in `head`.
    /// The front must hold all headers.
    ///
    /// # Errors
    ///
    /// As [`Self::parse`].
    pub fn parse_head(head: &[u8], total: usize) -> Result<(Self, usize), WireError> {
        let mut reader = Reader { rest: head };
        let lrh = reader.take(lrh::LEN, Lrh::parse)?;
        if lrh.lver != 0 {
            return Err(WireError::LinkVersion(lrh.lver));
        }
        let global = match lrh.lnh {
            Lnh::RawEther | Lnh::RawIpv6 => return Err(WireError::LinkNextHeader),
            Lnh::Local => false,
            Lnh::Global => true,
        };
        if lrh.bytes() != total {
            return Err(WireError::PacketLength);
        }
        let grh = reader.take_if(global, grh::LEN, Grh::parse)?;
        if let Some(grh) = grh {
            if grh.version != grh::VERSION || grh.next_hdr != grh::NEXT_HEADER_IBA {
                return Err(WireError::GlobalHeader);
            }
            let follows = total.checked_sub(lrh::LEN.wrapping_add(grh::LEN));
            if follows != Some(usize::from(grh.pay_len)) {
                return Err(WireError::GlobalLength);
            }
        }
        let bth = reader.take(bth::LEN, Bth::parse)?;
        if bth.tver != 0 {
            return Err(WireError::TransportVersion(bth.tver));
        }
        let opcode = bth.opcode;
        if opcode.service() == Service::Rd {
            return Err(WireError::Opcode(opcode.byte()));
        }
        let header = Self {
            lrh,
            grh,
            bth,
            deth: reader.take_if(opcode.has_deth(), crate::deth::LEN, Deth::parse)?,
            feth: reader.take_if(opcode.has_feth(), crate::feth::LEN, Feth::parse)?,
            reth: reader.take_if(opcode.has_reth(), crate::reth::LEN, Reth::parse)?,
            atomic: reader.take_if(
                opcode.has_atomic_eth(),
                crate::atomic::LEN,
                AtomicEth::parse,
            )?,
            aeth: reader.take_if(opcode.has_aeth(), crate::aeth::LEN, Aeth::parse)?,
            atomic_ack: reader.take_if(
                opcode.has_atomic_ack(),
                crate::atomic::ACK_LEN,
                AtomicAckEth::parse,
            )?,
            imm: reader.take_if(opcode.has_imm(), crate::imm::LEN, ImmDt::parse)?,
            ieth: reader.take_if(opcode.has_ieth(), crate::ieth::LEN, Ieth::parse)?,
        };
        let offset = header.len();
        match header.payload_len_of(total) {
            Some(len) if len == 0 || opcode.has_payload() => Ok((header, offset)),
            _ => Err(WireError::PayloadLength),
        }
    }

    /// Payload bytes, without pad, of a packet of `total` bytes with these headers; `None` if they
    /// do not fit.
    #[inline]
    fn payload_len_of(&self, total: usize) -> Option<usize> {
        let around = self
            .len()
            .wrapping_add(usize::from(self.bth.pad))
            .wrapping_add(icrc::LEN);
        total.checked_sub(around)
    }

    /// Payload bytes, without pad, that the LRH's packet length leaves room for. Exact for parsed
    /// and for sealed headers ([`Self::set_payload_len`]); 0 if the packet length is too small
    /// for the headers.
    #[inline]
    pub fn payload_len(&self) -> usize {
        self.payload_len_of(self.lrh.bytes()).unwrap_or(0)
    }

    /// Size in bytes of the headers.
    #[inline]
    pub fn len(&self) -> usize {
        let global = if self.grh.is_some() { grh::LEN } else { 0 };
        (lrh::LEN + bth::LEN)
            .wrapping_add(global)
            .wrapping_add(self.bth.opcode.ext_len())
    }

    /// Always false: there is no packet without headers.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// Seals the headers for a payload of `payload` bytes: sets pad count, next headers and all
    /// lengths.
    ///
    /// # Errors
    ///
    /// [`WireError::TooLong`] if the packet length field cannot hold the length,
    /// [`WireError::PayloadLength`] if there are bytes and the opcode carries none.
    #[inline]
    pub fn set_payload_len(&mut self, payload: usize) -> Result<(), WireError> {
        if payload != 0 && !self.bth.opcode.has_payload() {
            return Err(WireError::PayloadLength);
        }
        let pad = payload.wrapping_neg() & 3;
        let total = payload
            .checked_add(pad)
            .and_then(|len| len.checked_add(self.len()))
            .and_then(|len| len.checked_add(icrc::LEN))
            .ok_or(WireError::TooLong)?;
        let words = match u16::try_from(total >> 2) {
            Ok(words) if words <= lrh::MAX_WORDS => words,
            _ => return Err(WireError::TooLong),
        };
        self.bth.pad = pad as u8;
        self.lrh.pkt_len = words;
        self.lrh.lnh = if self.grh.is_some() {
            Lnh::Global
        } else {
            Lnh::Local
        };
        if let Some(grh) = &mut self.grh {
            grh.version = grh::VERSION;
            grh.next_hdr = grh::NEXT_HEADER_IBA;
            grh.pay_len = (words << 2).wrapping_sub((lrh::LEN + grh::LEN) as u16);
        }
        Ok(())
    }

    /// Size in bytes of the whole packet, LRH through ICRC, as the LRH has it.
    #[inline]
    pub const fn packet_len(&self) -> usize {
        self.lrh.bytes()
    }

    /// Writes the headers to the front of `buf` and returns [`Self::len`].
    ///
    /// # Errors
    ///
    /// [`WireError::NoSpace`], and [`WireError::Mismatch`] when the extensions present are not
    /// those of the opcode or the LNH does not say whether there is a GRH.
    pub fn emit(&self, buf: &mut [u8]) -> Result<usize, WireError> {
        let opcode = self.bth.opcode;
        let global = match self.lrh.lnh {
            Lnh::Local => false,
            Lnh::Global => true,
            Lnh::RawEther | Lnh::RawIpv6 => return Err(WireError::Mismatch),
        };
        if opcode.has_rdeth() {
            return Err(WireError::Mismatch);
        }
        let mut writer = Writer { rest: buf, len: 0 };
        writer.put(|buf| self.lrh.emit(buf))?;
        writer.put_if(global, &self.grh, Grh::emit)?;
        writer.put(|buf| self.bth.emit(buf))?;
        writer.put_if(opcode.has_deth(), &self.deth, Deth::emit)?;
        writer.put_if(opcode.has_feth(), &self.feth, Feth::emit)?;
        writer.put_if(opcode.has_reth(), &self.reth, Reth::emit)?;
        writer.put_if(opcode.has_atomic_eth(), &self.atomic, AtomicEth::emit)?;
        writer.put_if(opcode.has_aeth(), &self.aeth, Aeth::emit)?;
        writer.put_if(
            opcode.has_atomic_ack(),
            &self.atomic_ack,
            AtomicAckEth::emit,
        )?;
        writer.put_if(opcode.has_imm(), &self.imm, ImmDt::emit)?;
        writer.put_if(opcode.has_ieth(), &self.ieth, Ieth::emit)?;
        Ok(writer.len)
    }
}
