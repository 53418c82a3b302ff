// SPDX-License-Identifier: GPL-2.0

//! What the ends of a cable say to each other, and what proves that they have the fabric key.

use wire::outer::control::{
    Bye,
    ByeReason,
    Hello,
    Keepalive,
    Refuse,
    TAG_LEN, //
};
use wire::outer::{
    self,
    Kind,
    Outer, //
};
use wire::WireError;

/// The size in bytes of the longest control message, from the outer header on.
pub const MAX_LEN: usize = outer::LEN + Hello::LEN;

/// A fabric key, in the form of what can be done with it: HMAC-SHA256.
pub trait Mac {
    /// The code over `covered`.
    fn tag(&self, covered: &[u8]) -> [u8; TAG_LEN];

    /// Whether `tag` is the code over `covered`, in a time that does not tell how much of it is.
    fn verify(&self, covered: &[u8], tag: &[u8; TAG_LEN]) -> bool;
}

/// A control message to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// Says Hello.
    Hello(Hello),
    /// Answers one.
    HelloAck(Hello),
    /// Says that this end lives.
    Keepalive(Keepalive),
    /// Ends the cable.
    Bye(ByeReason),
    /// Says why there is none.
    Refuse(Refuse),
}

impl Message {
    /// Writes the datagram for who has the cookie `cookie` to the front of `buf`, with a tag if there is a fabric
    /// key and the message has one, and returns its size, [`MAX_LEN`] at most.
    ///
    /// # Errors
    ///
    /// [`WireError::NoSpace`].
    pub fn emit<M: Mac>(
        &self,
        cookie: u64,
        mac: Option<&M>,
        buf: &mut [u8],
    ) -> Result<usize, WireError> {
        let (head, rest) = buf
            .split_at_mut_checked(outer::LEN)
            .ok_or(WireError::NoSpace)?;
        let (kind, len) = match self {
            Self::Hello(hello) => (Kind::Hello, hello.emit(rest)?),
            Self::HelloAck(hello) => (Kind::HelloAck, hello.emit(rest)?),
            Self::Keepalive(keepalive) => (Kind::Keepalive, keepalive.emit(rest)?),
            Self::Bye(reason) => (Kind::Bye, Bye { reason: *reason }.emit(rest)?),
            Self::Refuse(refuse) => (Kind::Refuse, refuse.emit(rest)?),
        };
        let outer = Outer {
            kind,
            flags: 0,
            stride: 0,
            cookie,
        };
        let len = outer.emit(head)?.saturating_add(len);
        if let (Some(mac), Self::Hello(_) | Self::HelloAck(_)) = (mac, self) {
            let (covered, tag) = Hello::split_tag_mut(buf)?;
            *tag = mac.tag(covered);
        }
        Ok(len)
    }
}
