// SPDX-License-Identifier: GPL-2.0

//! The fabric key: what proves that the other end of a cable may be there.

use super::cable::{
    Cable,
    Parcel, //
};
use super::{
    now,
    udp,
    Fabric,
    State, //
};
use kernel::prelude::*;
use kernel::sync::Arc;
use proto::fabric::line::{
    Change,
    Mac, //
};
use rdma::mac;
use rdma::sync::{
    Cx,
    IrqsOn,
    Unlocked, //
};
use wire::PortNum;

/// The longest key in bytes.
const MAX_LEN: usize = 64;

/// A fabric key.
#[pin_data]
pub(crate) struct Key {
    inner: mac::Key,
}

impl Key {
    /// The key that `raw` is; none if it is empty. May sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it is too long, `ENOMEM`.
    pub(crate) fn new(raw: &[u8]) -> Result<Option<Arc<Self>>> {
        if raw.len() > MAX_LEN {
            return Err(EINVAL);
        }
        if raw.is_empty() {
            return Ok(None);
        }
        let key = Arc::pin_init(pin_init!(Self { inner <- mac::Key::new(raw) }), GFP_KERNEL)?;
        Ok(Some(key))
    }
}

/// Whether both are the same key, or none.
fn same(a: Option<&Key>, b: Option<&Key>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => a.inner.is_same(&b.inner),
        (None, None) => true,
        _ => false,
    }
}

impl Mac for Key {
    fn tag(&self, covered: &[u8]) -> [u8; mac::LEN] {
        self.inner.tag(covered)
    }

    fn verify(&self, covered: &[u8], tag: &[u8; mac::LEN]) -> bool {
        self.inner.verify(covered, tag)
    }
}

impl Cable {
    /// Begins anew if `key` is another one than before, which is returned, to be dropped without the lock, with what
    /// to tell the other end.
    fn rekey(
        &mut self,
        port: PortNum,
        key: Option<Arc<Key>>,
    ) -> (Option<Arc<Key>>, Option<Parcel>) {
        if same(self.key.as_deref(), key.as_deref()) {
            return (key, None);
        }
        let cookie = self.line.peer_cookie();
        let bye = self.line.renew(udp::cookie(port), now());
        let old = core::mem::replace(&mut self.key, key);
        (old, bye.and_then(|bye| self.parcel(cookie, bye)))
    }
}

impl Fabric {
    /// Sets the fabric key of all cables that have none of their own. A cable begins anew, unless it is the key that
    /// it had.
    pub(crate) fn set_key(
        &self,
        cx: &mut Cx<'_, Unlocked>,
        irqs: IrqsOn<'_>,
        key: Option<Arc<Key>>,
    ) {
        let (old, ports) = {
            let mut guard = cx.lock(&self.state);
            let old = core::mem::replace(&mut guard.key, key);
            (old, guard.switch.port_count())
        };
        drop(old);
        for port in (1..=ports).map(PortNum::new) {
            self.rekey(cx, irqs, port, |state| {
                let cable = state.cable(port)?;
                let common = !cable.own_key;
                common.then(|| state.key.clone())
            });
        }
        self.rearm(cx);
    }

    /// Sets the fabric key of the cable of `port` alone; without one that of the fabric counts.
    pub(crate) fn set_cable_key(
        &self,
        cx: &mut Cx<'_, Unlocked>,
        irqs: IrqsOn<'_>,
        port: PortNum,
        key: Option<Arc<Key>>,
    ) {
        self.rekey(cx, irqs, port, |state| {
            state.cable(port)?.own_key = key.is_some();
            Some(key.or_else(|| state.key.clone()))
        });
        self.rearm(cx);
    }

    /// Gives the cable of `port` the key that `choose` names under the lock.
    fn rekey(
        &self,
        cx: &mut Cx<'_, Unlocked>,
        irqs: IrqsOn<'_>,
        port: PortNum,
        choose: impl FnOnce(&mut State) -> Option<Option<Arc<Key>>>,
    ) {
        let (old, bye) = {
            let mut guard = cx.lock(&self.state);
            let state = &mut *guard;
            let Some(key) = choose(state) else { return };
            let Some(cable) = state.cable(port) else {
                return;
            };
            let was_up = cable.line.is_up();
            let (old, bye) = cable.rekey(port, key);
            if was_up && !cable.line.is_up() {
                state.follow(port, Change::Down);
            }
            (old, bye)
        };
        drop(old);
        if let Some(bye) = bye {
            self.send_message(cx, irqs, &bye);
        }
    }
}

#[cfg(CONFIG_KUNIT = "y")]
#[kernel::macros::kunit_tests(sib_key)]
mod tests {
    use super::*;
    use proto::fabric::line::{
        self,
        Destination,
        Message, //
    };
    use wire::outer::control::Hello;
    use wire::{
        Guid,
        Mtu, //
    };

    /// The tag of the Hello of `tests/host/cable.rs`, which has it from elsewhere.
    const GOLDEN: [u8; mac::LEN] = [
        0x59, 0x1b, 0x7b, 0xb8, 0xfe, 0x9b, 0xad, 0x24, //
        0x62, 0x49, 0xb9, 0xe0, 0x38, 0x5e, 0x0b, 0xa2, //
        0x96, 0x8b, 0xf5, 0x96, 0x75, 0xd3, 0xe7, 0x43, //
        0x1c, 0x65, 0xbc, 0xcc, 0x57, 0x97, 0x86, 0x5b,
    ];

    #[test]
    fn a_tag_is_what_everybody_else_makes_of_it() -> Result {
        let hello = Hello {
            guid: Guid::new(0x0102_0304_0506_0708),
            port: PortNum::new(3),
            mtu: Mtu::B4096,
            room: 0,
            cookie: 0x1112_1314_1516_1718,
            nonce: 0x2122_2324_2526_2728,
            echo: 0x3132_3334_3536_3738,
            tag: [0; mac::LEN],
        };
        let key = Key::new(b"a fabric key")?.ok_or(EINVAL)?;
        let mut buf = [0; line::MAX_LEN];
        let to = Destination::default();
        let len = Message::HelloAck(hello).emit(0x4142_4344_4546_4748, Some(&*key), to, &mut buf);
        assert_eq!(len, Ok(line::MAX_LEN));
        let (covered, tag) = Hello::split_tag(&buf).map_err(|_| EINVAL)?;
        assert_eq!(tag, &GOLDEN);
        assert!(key.verify(covered, tag));
        let mut bad = GOLDEN;
        bad[31] ^= 1;
        assert!(!key.verify(covered, &bad));
        Ok(())
    }

    #[test]
    fn keys_have_1_to_64_bytes() -> Result {
        assert!(Key::new(b"")?.is_none());
        let longest = Key::new(&[7; MAX_LEN])?;
        assert!(Key::new(&[7; MAX_LEN + 1]).is_err());
        let shorter = Key::new(&[7; MAX_LEN - 1])?;
        assert!(same(longest.as_deref(), longest.as_deref()));
        assert!(!same(longest.as_deref(), shorter.as_deref()));
        assert!(!same(longest.as_deref(), None));
        Ok(())
    }
}
