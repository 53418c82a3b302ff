// SPDX-License-Identifier: GPL-2.0

//! LedInfo: the light at a port (IBA "LedInfo").

use super::{
    attr,
    smp_attribute, //
};
use crate::mad::bits::attribute;

attribute! {
    /// Whether the light is on.
    pub struct LedInfo [64] {
        /// The light is on.
        led_mask: bool = 0, 1;
    }
}
smp_attribute!(LedInfo = attr::LED_INFO);
