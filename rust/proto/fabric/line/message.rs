// SPDX-License-Identifier: GPL-2.0

//! What the ends of a cable say to each other, and what proves that they have the fabric key.

use core::net::{
    IpAddr,
    SocketAddr, //
};
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

/// Where a datagram goes, as far as its tag covers that: with a cable between two addresses of a link.
///
/// Who is on the link, and has no key, can have both ends of such a cable made by beacons of his own. If he passes on
/// what one of them says, it is not for the address of the other. Elsewhere somebody may translate addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Destination(Option<[u8; Self::LEN]>);

impl Destination {
    /// An IPv6 address, and a UDP port.
    const LEN: usize = 18;

    /// `to` is where the datagram goes, and `far` the other end of the cable of whoever sends or takes it.
    pub fn new(to: SocketAddr, far: SocketAddr) -> Self {
        if !matches!(far.ip(), IpAddr::V6(ip) if ip.is_unicast_link_local()) {
            return Self(None);
        }
        let ip = match to.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        let mut bytes = [0; Self::LEN];
        let of = ip.octets().into_iter().chain(to.port().to_be_bytes());
        for (byte, of) in bytes.iter_mut().zip(of) {
            *byte = of;
        }
        Self(Some(bytes))
    }

    /// Calls `f` with all that a tag covers, of which `covered` is in the datagram.
    pub(super) fn cover<R>(&self, covered: &[u8], f: impl FnOnce(&[u8]) -> R) -> R {
        let Some(address) = &self.0 else {
            return f(covered);
        };
        let mut all = [0; Hello::COVERED + Self::LEN];
        let bytes = covered.iter().chain(address);
        for (to, from) in all.iter_mut().zip(bytes) {
            *to = *from;
        }
        f(&all)
    }
}

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
    /// key and the message has one, and returns its size, [`MAX_LEN`] at most. It goes `to` there.
    ///
    /// # Errors
    ///
    /// [`WireError::NoSpace`].
    pub fn emit<M: Mac>(
        &self,
        cookie: u64,
        mac: Option<&M>,
        to: Destination,
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
            *tag = to.cover(covered, |all| mac.tag(all));
        }
        Ok(len)
    }
}
