// SPDX-License-Identifier: GPL-2.0

//! RTU: the reply has arrived (IBA "RTU - Ready To Use").

use super::{
    cm_message,
    Kind, //
};
use crate::mad::bits::attribute;

attribute! {
    /// Ready to use.
    pub struct Rtu [8] {
        /// What the requester calls the connection.
        local_comm_id: u32 = 0, 32;
        /// What the responder calls it.
        remote_comm_id: u32 = 32, 32;
    }
}
cm_message!(Rtu = Kind::Rtu);

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_wire_cm_rtu))]
mod tests {
    use super::*;
    use crate::mad::cm::testing;

    #[test]
    fn known_bytes() {
        let rtu = Rtu {
            local_comm_id: 0x0102_0304,
            remote_comm_id: 0x0506_0708,
        };
        testing::known_bytes(&[1, 2, 3, 4, 5, 6, 7, 8], &rtu);
    }
}
