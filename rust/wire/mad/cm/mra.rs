// SPDX-License-Identifier: GPL-2.0

//! MRA: a message has arrived, but its answer takes time (IBA "MRA - Message Receipt Acknowledgment").

use super::{
    cm_message,
    Kind, //
};
use crate::mad::bits::attribute;

/// Values of [`Mra::message_mraed`].
pub mod mraed {
    /// REQ.
    pub const REQ: u8 = 0;
    /// REP.
    pub const REP: u8 = 1;
    /// LAP.
    pub const LAP: u8 = 2;
}

attribute! {
    /// Acknowledges the receipt of a message.
    pub struct Mra [10] {
        /// What the sender calls the connection.
        local_comm_id: u32 = 0, 32;
        /// What the receiver calls it.
        remote_comm_id: u32 = 32, 32;
        /// One of [`mraed`]: what has arrived.
        message_mraed: u8 = 64, 2;
        /// How long the answer may take, the exponent of [`crate::timer::exponential_ns`] (5 bits).
        service_timeout: u8 = 72, 5;
    }
}
cm_message!(Mra = Kind::Mra);

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_wire_cm_mra))]
mod tests {
    use super::*;
    use crate::mad::cm::testing;

    #[test]
    fn known_bytes() {
        let mra = Mra {
            local_comm_id: 0x0102_0304,
            remote_comm_id: 0x0506_0708,
            message_mraed: mraed::LAP,
            service_timeout: 21,
        };
        testing::known_bytes(&[1, 2, 3, 4, 5, 6, 7, 8, 0x80, 0xa8], &mra);
    }
}
